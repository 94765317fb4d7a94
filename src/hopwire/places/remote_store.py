"""Stores that are reached by a URL: what can be done with their objects, in seven words.

Two kinds of store know these words: `ObjectStore` for s3, gs and abfss (obstore, which is the library that delta-rs has
inside), and `HadoopStore` for hdfs (Arrow). A store is opened once for each bucket and environment, in each process.

The trap: `create` must be atomic, since a lake changes at that moment. Object stores have a condition for it
(`If-None-Match`); of hdfs renaming is used, which fails where the name is taken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hopwire.errors import SettingsError
from hopwire.model.units import MEBIBYTE
from hopwire.places.remote_path import RemotePath
from hopwire.places.store_errors import said_plainly

__all__ = ["RemoteObject", "RemoteStore", "delta_options", "store_of"]

VARIABLES = ("AWS_", "GOOGLE_", "AZURE_", "HADOOP_")
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL")
CONNECT_SECONDS, REQUEST_SECONDS, RETRY_SECONDS, RETRIES = 5, 60, 60, 4
CHUNK_BYTES = 8 * MEBIBYTE  # of a large object that is written; a store takes 10,000 of them
AT_A_TIME = 2  # chunks on their way: what writing an object costs in memory


class RemoteObject(NamedTuple):
    """One object as a store lists it."""

    key: str
    size_bytes: int
    version: str  # changes with the content: the ETag, or the time of the last change
    modified_ns: int


class RemoteStore(Protocol):
    """What can be done with the objects of one bucket; errors are those of `store_errors.py`."""

    def listed(self, key: str, *, is_deep: bool) -> Iterator[RemoteObject]:
        """Give the objects below a key: all, or those that lie directly there."""
        ...

    def head(self, key: str) -> RemoteObject:
        """Look at one object."""
        ...

    def read(self, key: str, begin: int, end: int) -> bytes:
        """Read some bytes of an object."""
        ...

    def create(self, key: str, content: bytes) -> bool:
        """Write an object if there is none of that name; tell whether that was done."""
        ...

    def write(self, key: str, content: bytes | Path) -> None:
        """Write an object, in place of one that is there; the content of a file is not held in memory."""
        ...

    def writer(self, key: str) -> Any:
        """Give something with `write` and `close`; the object is there when it is closed, and not before."""
        ...

    def delete(self, keys: list[str]) -> None:
        """Remove objects; an object that is not there is no error."""
        ...


def store_of(place: RemotePath) -> RemoteStore:
    """Give the store of a place."""
    environment = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(VARIABLES)))
    return _opened(place.root, environment, os.getpid())


@lru_cache(maxsize=16)
def _opened(root: str, environment: tuple[tuple[str, str], ...], process: int) -> RemoteStore:
    place = RemotePath(root)
    if place.scheme == "hdfs":
        from hopwire.places.hadoop_store import HadoopStore

        return HadoopStore(place)
    return ObjectStore(place)


def _allows_http() -> bool:
    """Whether the environment names an endpoint without TLS, as test servers have."""
    return any(os.environ.get(name, "").lower().startswith("http://") for name in ENDPOINTS)


def delta_options(place: object) -> dict[str, str] | None:
    """Give the settings by which delta-rs reaches a place; credentials are not among them, it reads the environment."""
    if not isinstance(place, RemotePath) or place.scheme == "hdfs":
        return None
    return {
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "timeout": f"{REQUEST_SECONDS}s",
        "max_retries": str(RETRIES),
        "retry_timeout": f"{RETRY_SECONDS}s",
        **({"allow_http": "true"} if _allows_http() else {}),
    }


class ObjectStore:
    """A bucket of S3, Google Cloud Storage or Azure."""

    def __init__(self, place: RemotePath) -> None:
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise SettingsError(f'{place}: obstore is not installed: pip install "hopwire[remote]"') from None
        self._library, self._place = obstore, place
        with said_plainly(place, "open it"):
            self._store = from_url(
                place.root,
                client_options={
                    "allow_http": _allows_http(),
                    "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                    "timeout": timedelta(seconds=REQUEST_SECONDS),
                },
                retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
            )

    def _at(self, key: str) -> RemotePath:
        return RemotePath(self._place.root, key)

    def listed(self, key: str, *, is_deep: bool) -> Iterator[RemoteObject]:
        """Give the objects below a key: all, or those that lie directly there."""
        with said_plainly(self._at(key), "list it"):
            if is_deep:
                for some in self._library.list(self._store, key or None, chunk_size=1000):
                    yield from map(_object, some)
            else:
                yield from map(_object, self._library.list_with_delimiter(self._store, key or None)["objects"])

    def head(self, key: str) -> RemoteObject:
        """Look at one object."""
        with said_plainly(self._at(key), "look at it"):
            return _object(self._library.head(self._store, key))

    def read(self, key: str, begin: int, end: int) -> bytes:
        """Read some bytes of an object."""
        if end <= begin:
            return b""
        with said_plainly(self._at(key), "read it"):
            return bytes(self._library.get_range(self._store, key, start=begin, end=end))

    def create(self, key: str, content: bytes) -> bool:
        """Write an object if there is none of that name; tell whether that was done.

        A request that is repeated may find its own object: so an object with just this content was written.
        """
        from obstore.exceptions import AlreadyExistsError

        with said_plainly(self._at(key), "write it"):
            try:
                self._library.put(self._store, key, content, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return bytes(self._library.get(self._store, key).bytes()) == content
        return True

    def write(self, key: str, content: bytes | Path) -> None:
        """Write an object, in place of one that is there; the content of a file is not held in memory."""
        with said_plainly(self._at(key), "write it"):
            self._library.put(self._store, key, content, chunk_size=CHUNK_BYTES, max_concurrency=AT_A_TIME)

    def writer(self, key: str) -> Any:
        """Give something with `write` and `close`; the object is there when it is closed, and not before."""
        place = self._at(key)
        with said_plainly(place, "write it"):
            opened = self._library.open_writer(self._store, key, buffer_size=CHUNK_BYTES, max_concurrency=AT_A_TIME)
        return _PlainWriter(opened, place)

    def delete(self, keys: list[str]) -> None:
        """Remove objects; an object that is not there is no error."""
        with said_plainly(self._place, "remove from it"):
            for first in range(0, len(keys), 1000):
                self._library.delete(self._store, keys[first : first + 1000])


class _PlainWriter:
    """A writer whose errors are ours."""

    def __init__(self, opened: Any, place: RemotePath) -> None:
        self._opened, self._place = opened, place
        self.closed = False

    def write(self, content: Any) -> int:
        with said_plainly(self._place, "write it"):
            return int(self._opened.write(bytes(content)))  # Arrow gives buffers of its own

    def flush(self) -> None:
        """Leave it to `close`: a part that is sent early must be large."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with said_plainly(self._place, "write it"):
                self._opened.close()


def _object(found: Any) -> RemoteObject:
    modified = found["last_modified"]
    version = found["e_tag"] or f"{modified.isoformat()}-{found['size']}"
    return RemoteObject(found["path"], found["size"], version, round(modified.timestamp() * 1_000_000_000))
