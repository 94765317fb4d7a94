"""Files of a place: looked at, listed, read, written and removed, on this machine and in stores alike.

| | on this machine | in a store |
|---|---|---|
| a file that is no regular one | named with what it is (`said`), never opened | there is none |
| a directory | made before files are written | there is none |
| `put_new` | the whole file under its name, or nothing | the same, by a condition |
| `file_mode` | the mode of a new file | means nothing |
"""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from uuid import uuid4

from hopwire.disk import (
    OWNER_ONLY,
    create_file,
    make_directory,
    not_regular,
    open_regular,
    put_file,
    read_regular,
    replace_file,
    sync_path,
)
from hopwire.errors import SettingsError
from hopwire.model.units import MEBIBYTE
from hopwire.places.remote_path import Place, RemotePath
from hopwire.places.remote_store import RemoteObject, RemoteStore, store_of

__all__ = [
    "FoundFile",
    "RemoteFile",
    "hold_local",
    "is_empty",
    "list_below",
    "list_directories",
    "list_files",
    "list_names",
    "look_at",
    "make_place",
    "new_file",
    "open_file",
    "put",
    "put_new",
    "read_file",
    "read_range",
    "remove_below",
    "remove_empty",
    "remove_files",
    "size_below",
    "upload",
]

READ_AHEAD_BYTES = 4 * MEBIBYTE  # each request to a store takes some 20 ms, whatever it asks for


class FoundFile(NamedTuple):
    """One file of a place."""

    name: str  # from the place that was listed
    size_bytes: int
    version: str  # changes when the file is written anew
    modified_ns: int
    said: str = ""  # why the file must not be opened; empty for a regular file


def hold_local(place: Place, what: str) -> Path:
    """Give a place of this machine; a SettingsError says that something cannot be elsewhere."""
    if isinstance(place, RemotePath):
        raise SettingsError(f"{place}: {what} must be a directory of this machine")
    return place


# -- looking


def look_at(place: Place) -> FoundFile | None:
    """Look at one file, and follow no symlink; None if there is none. A directory is a file that must not be opened."""
    if isinstance(place, RemotePath):
        try:
            return _found(store_of(place).head(place.key), place.name)
        except FileNotFoundError:
            return None
    try:
        return _local(place, place.name)
    except (FileNotFoundError, NotADirectoryError):
        return None


def size_below(directory: Path, name: str) -> int | None:
    """Give the size of a regular file below a directory of this machine; None if there is none.

    A lake asks for thousands of files in each step: so no path is made for each.
    """
    try:
        found = os.lstat(f"{directory}/{name}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if not_regular(found.st_mode) else found.st_size


def is_empty(place: Place) -> bool:
    """Tell whether there is nothing in a place."""
    if isinstance(place, RemotePath):
        return not any(True for _ in store_of(place).listed(place.key, is_deep=True))
    return not place.is_dir() or not any(place.iterdir())


def list_files(place: Place) -> list[FoundFile]:
    """Give the files that lie directly in a place, in the order of their names; none if there is no such place.

    On this machine a directory is among them, as a file that must not be opened; in a store there are no directories.
    """
    if isinstance(place, RemotePath):
        objects = store_of(place).listed(place.key, is_deep=False)
        return sorted(_found(each, each.key.rpartition("/")[2]) for each in objects if not each.key.endswith("/"))
    found = []
    for name in list_names(place):
        with suppress(FileNotFoundError):  # gone a moment ago
            found.append(_local(f"{place}/{name}", name))  # no path is made for each: logs have many files
    return found


def list_names(place: Place) -> list[str]:
    """Give the names that `list_files` gives, in order; on this machine no file is looked at."""
    if isinstance(place, RemotePath):
        return [each.name for each in list_files(place)]
    try:
        return sorted(os.listdir(place))
    except (FileNotFoundError, NotADirectoryError):
        return []


def list_below(place: Place) -> list[FoundFile]:
    """Give all files below a place by their paths from there; no symlink is followed."""
    if isinstance(place, RemotePath):
        front = len(place.key) + 1 if place.key else 0
        return sorted(_found(each, each.key[front:]) for each in store_of(place).listed(place.key, is_deep=True))
    return [] if place.is_symlink() else sorted(_below(place, place))


def list_directories(place: Place) -> list[str]:
    """Give the names of the directories in a place that have something in them; no symlink is followed."""
    if isinstance(place, RemotePath):
        return sorted({each.name.partition("/")[0] for each in list_below(place) if "/" in each.name})
    if place.is_symlink() or not place.is_dir():
        return []
    return sorted(each.name for each in place.iterdir() if each.is_dir() and not each.is_symlink())


def _below(root: Path, directory: Path) -> Iterator[FoundFile]:
    for above, directories, names in os.walk(directory):
        for name in (*names, *(each for each in directories if Path(above, each).is_symlink())):
            with suppress(FileNotFoundError):
                path = Path(above, name)
                yield _local(path, path.relative_to(root).as_posix())


def _local(path: Path | str, name: str) -> FoundFile:
    found = os.lstat(path)
    version = f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"
    return FoundFile(name, found.st_size, version, found.st_mtime_ns, not_regular(found.st_mode))


def _found(each: RemoteObject, name: str) -> FoundFile:
    return FoundFile(name, each.size_bytes, each.version, each.modified_ns)


# -- reading


def open_file(place: Place, *, is_named: bool = False, size_bytes: int | None = None) -> BinaryIO:
    """Open a file for reading; on this machine a regular file, where a symlink is followed only if a user named it.

    Of a file in a store that is known to have `size_bytes`, the store need not be asked.
    """
    if isinstance(place, RemotePath):
        return cast(BinaryIO, io.BufferedReader(RemoteFile(place, size_bytes), READ_AHEAD_BYTES))
    return open_regular(place, is_named=is_named)


def read_file(place: Place, max_bytes: int) -> bytes:
    """Read a small file; a file with more than `max_bytes` is an OSError."""
    if not isinstance(place, RemotePath):
        return read_regular(place, max_bytes)
    store = store_of(place)
    size = store.head(place.key).size_bytes
    if size > max_bytes:
        raise OSError(errno.EFBIG, f"has more than {max_bytes:,} bytes", str(place))
    return store.read(place.key, 0, size)


def read_range(place: Place, begin: int, end: int) -> bytes:
    """Read the bytes of a file from one position to another that lies within the file."""
    if isinstance(place, RemotePath):
        return store_of(place).read(place.key, begin, end)
    with open_regular(place) as file:
        file.seek(begin)
        return file.read(end - begin)


class RemoteFile(io.RawIOBase):
    """An object of a store as a file that can be read anywhere; each read is a request."""

    def __init__(self, place: RemotePath, size_bytes: int | None = None) -> None:
        self._key, self._store = place.key, store_of(place)
        self._size = self._store.head(place.key).size_bytes if size_bytes is None else size_bytes
        self._position = 0
        self.name = str(place)

    def readable(self) -> bool:
        """Objects can be read."""
        return True

    def seekable(self) -> bool:
        """A read can begin anywhere."""
        return True

    def tell(self) -> int:
        """Give where the next read begins."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Choose where the next read begins."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def size(self) -> int:
        """Give how many bytes the object has."""
        return self._size

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer as many bytes as fit."""
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self._size)
        content = self._store.read(self._key, self._position, end)
        view[: len(content)] = content
        self._position += len(content)
        return len(content)


# -- writing


def make_place(place: Place, file_mode: int = OWNER_ONLY) -> None:
    """Make a directory and those above it, where places have directories."""
    if not isinstance(place, RemotePath):
        make_directory(place, file_mode)


def put(place: Place, content: bytes, file_mode: int = OWNER_ONLY) -> None:
    """Write a file whole, in place of a file that is there."""
    if isinstance(place, RemotePath):
        store_of(place).write(place.key, content)
    else:
        replace_file(place, content, file_mode)


def put_new(place: Place, content: bytes, file_mode: int = OWNER_ONLY) -> bool:
    """Write a new file whole, or not at all if the name is taken; tells whether the file was written."""
    if isinstance(place, RemotePath):
        return store_of(place).create(place.key, content)
    return put_file(place, content, file_mode)


def upload(path: Path, place: Place) -> None:
    """Copy a file of this machine to a place."""
    if isinstance(place, RemotePath):
        store_of(place).write(place.key, path)
        return
    make_directory(place.parent)
    aside = place.with_name(f"{place.name}.{os.getpid()}.new")
    aside.unlink(missing_ok=True)
    with open_regular(path) as source, os.fdopen(create_file(aside), "wb") as file:
        shutil.copyfileobj(source, file, READ_AHEAD_BYTES)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, place)


class NewFile:
    """A file that is written from its first byte to its last; it is whole when it is closed."""

    def __init__(self, place: Place, file_mode: int, is_replaced: bool) -> None:
        import pyarrow as pa

        self._place = self._final = place
        if isinstance(place, RemotePath):
            self.sink = pa.PythonFile(store_of(place).writer(place.key), mode="w")
        else:
            make_directory(place.parent, file_mode)
            self._place = place.with_name(f"{place.name}.{uuid4().hex}") if is_replaced else place
            os.close(create_file(self._place, file_mode))  # Arrow would give the file the mode of the umask
            self.sink = pa.OSFile(str(self._place), "wb")

    def close(self, *, is_kept: bool = True) -> int:
        """Finish the file, and give how many bytes it has; the disk is not waited for if the file is soon removed."""
        size = int(self.sink.tell())
        self.sink.close()
        if isinstance(self._place, RemotePath) or isinstance(self._final, RemotePath):
            return size
        if is_kept:
            sync_path(self._place)
        if self._final != self._place:
            os.replace(self._place, self._final)
        return size


def new_file(place: Place, file_mode: int = OWNER_ONLY, *, is_replaced: bool = False) -> NewFile:
    """Begin a new file; what writes with Arrow writes to `sink`.

    On this machine a name that is taken is an OSError, unless the file of that name is to be replaced.
    """
    return NewFile(place, file_mode, is_replaced)


# -- removing


def remove_files(*places: Place) -> None:
    """Remove files; a file that is not there is no error."""
    stores: dict[str, tuple[RemoteStore, list[str]]] = {}
    for place in places:
        if isinstance(place, RemotePath):
            stores.setdefault(place.root, (store_of(place), []))[1].append(place.key)
        else:
            place.unlink(missing_ok=True)
    for store, keys in stores.values():
        store.delete(keys)


def remove_empty(place: Place) -> None:
    """Remove a directory that has nothing in it, where places have directories."""
    if not isinstance(place, RemotePath):
        with suppress(OSError):
            place.rmdir()


def remove_below(place: Place) -> None:
    """Remove all files below a place, and on this machine the directory; what cannot be removed stays."""
    if isinstance(place, RemotePath):
        remove_files(*(place / each.name for each in list_below(place)))
    else:
        shutil.rmtree(place, ignore_errors=True)
