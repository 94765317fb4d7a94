"""HDFS as a store, through Arrow's HadoopFileSystem, which needs Java, Hadoop and its libhdfs on this machine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hopwire.errors import PlaceError
from hopwire.model.units import MEBIBYTE
from hopwire.places.remote_path import RemotePath
from hopwire.places.remote_store import RemoteObject
from hopwire.places.store_errors import said_plainly

__all__ = ["HadoopStore"]

PORT = 8020
COPY_BYTES = 8 * MEBIBYTE


class HadoopStore:
    """The files of one HDFS."""

    def __init__(self, place: RemotePath, filesystem: Any = None) -> None:
        self._place = place
        self._files = filesystem or _connected(place)

    def _at(self, key: str) -> RemotePath:
        return RemotePath(self._place.root, key)

    def listed(self, key: str, *, is_deep: bool) -> Iterator[RemoteObject]:
        """Give the files below a directory: all, or those that lie directly there."""
        from pyarrow import fs

        with said_plainly(self._at(key), "list it"):
            chosen = fs.FileSelector(f"/{key}", allow_not_found=True, recursive=is_deep)
            yield from (_object(each) for each in self._files.get_file_info(chosen) if each.type == fs.FileType.File)

    def head(self, key: str) -> RemoteObject:
        """Look at one file."""
        from pyarrow import fs

        with said_plainly(self._at(key), "look at it"):
            found = self._files.get_file_info(f"/{key}")
            if found.type != fs.FileType.File:
                raise FileNotFoundError
            return _object(found)

    def read(self, key: str, begin: int, end: int) -> bytes:
        """Read some bytes of a file."""
        with said_plainly(self._at(key), "read it"), self._files.open_input_file(f"/{key}") as file:
            file.seek(begin)
            return bytes(file.read(end - begin))

    def create(self, key: str, content: bytes) -> bool:
        """Write a file if there is none of that name; tell whether that was done.

        HDFS does not rename a file to a name that is taken, so of two writers one wins.
        """
        from pyarrow import fs

        aside = f"{key}.{uuid.uuid4().hex[:12]}.new"
        self.write(aside, content)
        with said_plainly(self._at(key), "write it"):
            try:
                self._files.move(f"/{aside}", f"/{key}")
            except OSError:
                self._files.delete_file(f"/{aside}")
                if self._files.get_file_info(f"/{key}").type != fs.FileType.File:
                    raise
                return False
        return True

    def write(self, key: str, content: bytes | Path) -> None:
        """Write a file, in place of one that is there."""
        with said_plainly(self._at(key), "write it"):
            self._make_parent(key)
            with self._files.open_output_stream(f"/{key}") as sink:
                if isinstance(content, bytes):
                    sink.write(content)
                    return
                with content.open("rb") as file:
                    while piece := file.read(COPY_BYTES):
                        sink.write(piece)

    def writer(self, key: str) -> Any:
        """Give something with `write` and `close`."""
        with said_plainly(self._at(key), "write it"):
            self._make_parent(key)
            return self._files.open_output_stream(f"/{key}")

    def delete(self, keys: list[str]) -> None:
        """Remove files; a file that is not there is no error."""
        for key in keys:
            try:
                with said_plainly(self._at(key), "remove it"):
                    self._files.delete_file(f"/{key}")
            except FileNotFoundError:
                continue

    def _make_parent(self, key: str) -> None:
        self._files.create_dir(f"/{key.rpartition('/')[0]}", recursive=True)


def _connected(place: RemotePath) -> Any:
    from pyarrow import fs

    host, _, port = place.root.partition("://")[2].partition(":")
    try:
        return fs.HadoopFileSystem(host, int(port or PORT))
    except OSError as error:
        if "libhdfs" in str(error) or "libjvm" in str(error):
            remedy = "install Hadoop, and set JAVA_HOME, HADOOP_HOME, ARROW_LIBHDFS_DIR and CLASSPATH"
            raise PlaceError(f"{place}: libhdfs is not on this machine; {remedy}", "no_library") from None
        raise PlaceError(
            f"{place}: the store cannot be reached; is it running, is its port right?", "unreachable"
        ) from None


def _object(found: Any) -> RemoteObject:
    modified = found.mtime_ns or 0
    return RemoteObject(found.path.lstrip("/"), found.size, f"{modified}-{found.size}", modified)
