"""How files are opened and made: only regular files, no symlink is followed, and only the owner may read a new file.

Captures and lakes lie in directories that others may be able to write to. So the files in them are not trusted:

| found | done |
|---|---|
| a FIFO, a socket, a device or a directory where a file is to be read | refused; never waited for |
| a symlink where a file is to be read | refused; only a path that the user names is followed |
| a symlink where a file is to be written | removed, or refused; the target of the link is not touched |

A new file has the mode `file_mode`, whatever the umask is. A new directory has this mode too, and whoever may read may
also enter. A directory that exists keeps its mode.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO, TypeAlias

from hopwire.errors import SettingsError

__all__ = [
    "OWNER_ONLY",
    "FileStamp",
    "NotRegular",
    "check_mode",
    "create_file",
    "directory_mode",
    "file_stamp",
    "is_regular",
    "local_path",
    "make_directory",
    "not_regular",
    "open_for_update",
    "open_or_create",
    "open_regular",
    "put_file",
    "read_named_text",
    "read_regular",
    "refuse_scheme",
    "replace_file",
    "shown_name",
    "sync_path",
]

OWNER_ONLY = 0o600
ALL_BITS = 0o777
MAX_TEXT_BYTES = 4 * 1024**2  # of a file of settings: far more than anybody writes by hand
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # one slash, as pathlib leaves it; C:/ has too few letters to match

# Windows has none of these flags, and no FIFO in a directory either.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
NO_WAIT = getattr(os, "O_NONBLOCK", 0)
CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
BINARY = getattr(os, "O_BINARY", 0)

# fmt: off
KINDS = (
    # test            what is found
    (stat.S_ISLNK,    "a symlink, which is not followed"),
    (stat.S_ISDIR,    "a directory"),
    (stat.S_ISFIFO,   "a FIFO"),
    (stat.S_ISSOCK,   "a socket"),
    (stat.S_ISCHR,    "a device"),
    (stat.S_ISBLK,    "a device"),
)
# fmt: on


# -- paths and modes


def local_path(path: Path | str) -> Path:
    """Give the absolute path; refuse a path with a scheme, with a NUL, or that is not UTF-8."""
    refuse_scheme(path)
    text = os.fspath(path)
    try:
        text.encode()
    except UnicodeEncodeError:  # Arrow, Spark and JSON know no such names
        raise SettingsError(f"{shown_name(text)}: is not UTF-8; name another path") from None
    if "\0" in text:
        raise SettingsError(f"{shown_name(text)}: has a NUL in it; name another path")
    return Path(path).absolute()  # Arrow takes `run:1/lake` for a URI, but `/run:1/lake` for a path


def refuse_scheme(path: Path | str) -> None:
    """Refuse a path of another machine: s3a://bucket/lake would be a local directory called `s3a:`."""
    text = os.fspath(path)
    if found := SCHEME.match(text):
        scheme = found[1]
        remedy = "leave file:// out" if scheme.lower() == "file" else "copy it to a local directory, or mount it"
        raise SettingsError(f"{text}: only local paths are supported, not {scheme}://; {remedy}")


def shown_name(path: Path | str) -> str:
    r"""Give the name of a file as text that every encoding takes: a byte that is not UTF-8 becomes `\xff`."""
    text = os.fsdecode(path)
    try:
        return os.fsencode(text).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # no name of a file has such characters, but an argument may
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def check_mode(file_mode: object) -> None:
    """Refuse a value that is no mode, and a mode that keeps the owner out."""
    is_mode = isinstance(file_mode, int) and 0 <= file_mode <= ALL_BITS and file_mode & OWNER_ONLY == OWNER_ONLY
    if not is_mode or isinstance(file_mode, bool):
        raise SettingsError(f"file_mode must be a mode such as 0o600 or 0o640, not {file_mode!r:.40}")


def directory_mode(file_mode: int) -> int:
    """Give the mode of a directory for files of this mode: whoever may read the files may enter."""
    return file_mode | (file_mode & 0o444) >> 2


def make_directory(path: Path, file_mode: int = OWNER_ONLY) -> None:
    """Make a directory, and all missing directories above it; a directory that exists stays as it is."""
    mode = directory_mode(file_mode)
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        try:
            each.mkdir(mode)
        except FileExistsError:
            if not each.is_dir():
                raise
        else:
            each.chmod(mode)  # the umask may have taken something away


# -- reading


class NotRegular(OSError):
    """A path that was to be read is no regular file."""

    def __init__(self, said: str, path: Path | str) -> None:
        super().__init__(errno.EINVAL, said, os.fspath(path))


def is_regular(path: Path) -> bool:
    """Tell whether the path is a regular file itself, and no symlink to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def not_regular(mode: int) -> str:
    """Say what a mode stands for, if it is not the mode of a regular file; else give empty text."""
    if stat.S_ISREG(mode):
        return ""
    return f"is {next((what for test, what in KINDS if test(mode)), 'something else')}, expected a regular file"


def open_regular(path: Path | str, *, is_named: bool = False, buffer_bytes: int = -1) -> BinaryIO:
    """Open a file for reading, or raise NotRegular; a symlink is followed only if a user named it.

    The check looks at the opened file, not at its name. So whoever changes the directory in between gains nothing.
    """
    flags = os.O_RDONLY | NO_WAIT | CLOSE_ON_EXEC | BINARY | (0 if is_named else NO_FOLLOW)
    try:
        handle = os.open(path, flags)
    except OSError as error:
        kind = {errno.ENXIO: stat.S_IFSOCK, errno.ELOOP: 0 if is_named else stat.S_IFLNK}.get(error.errno or 0, 0)
        raise NotRegular(not_regular(kind), path) if kind else error from None
    if said := not_regular(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegular(said, path)
    return os.fdopen(handle, "rb", buffer_bytes)


def read_regular(path: Path | str, max_bytes: int) -> bytes:
    """Read a small file; a file with more than `max_bytes` is an OSError."""
    with open_regular(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"has more than {max_bytes:,} bytes", os.fspath(path))
    return content


def read_named_text(path: Path | str) -> str:
    """Read a file of settings that a user named: a regular file, a symlink is followed, of `MAX_TEXT_BYTES` at most."""
    with open_regular(path, is_named=True) as file:
        content = file.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise OSError(errno.EFBIG, f"has more than {MAX_TEXT_BYTES:,} bytes", os.fspath(path))
    return content.decode("utf-8")


FileStamp: TypeAlias = tuple[int, int, int] | None


def file_stamp(path: Path | str) -> FileStamp:
    """Give what changes when a file is written anew: time, size and number of the file; None if there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


# -- writing


def create_file(path: Path, file_mode: int = OWNER_ONLY, flags: int = 0) -> int:
    """Open a new file for writing; an OSError if the name is taken, also by a symlink to nowhere."""
    chosen = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | CLOSE_ON_EXEC | BINARY | flags
    handle = os.open(path, chosen, file_mode)
    if hasattr(os, "fchmod"):
        os.fchmod(handle, file_mode)
    return handle


def open_for_update(path: Path) -> int:
    """Open a file that is there for writing, from its first byte on, or raise NotRegular; no symlink is followed."""
    handle = os.open(path, os.O_WRONLY | NO_WAIT | NO_FOLLOW | CLOSE_ON_EXEC | BINARY)
    if said := not_regular(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegular(said, path)
    return handle


def open_or_create(path: Path, flags: int, file_mode: int = OWNER_ONLY) -> int:
    """Open a file, or make it, or raise NotRegular; no symlink is followed, and no FIFO waited for."""
    handle = os.open(path, flags | os.O_CREAT | NO_WAIT | NO_FOLLOW | CLOSE_ON_EXEC | BINARY, file_mode)
    if said := not_regular(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegular(said, path)
    return handle


def replace_file(path: Path, content: bytes, file_mode: int = OWNER_ONLY, *, aside: Path | None = None) -> None:
    """Write a file under the name `aside`, then rename it: readers find the whole old file or the whole new file."""
    aside = aside or path.with_name(f"{path.name}.new")
    aside.unlink(missing_ok=True)  # left by a run that died; a symlink is removed, its target is not
    with os.fdopen(create_file(aside, file_mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    sync_path(path.parent)


def put_file(path: Path, content: bytes, file_mode: int = OWNER_ONLY) -> bool:
    """Write a new file whole, or not at all if the name is taken; tells whether the file was written."""
    aside = path.with_name(f"{path.name}.{os.getpid()}.new")
    aside.unlink(missing_ok=True)
    try:
        with os.fdopen(create_file(aside, file_mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(aside, path)
    except FileExistsError:
        return False
    finally:
        aside.unlink(missing_ok=True)
    sync_path(path.parent)
    return True


def sync_path(path: Path) -> None:
    """Wait until the disk has a file, or the names in a directory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
