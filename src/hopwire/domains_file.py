"""Domains from a TOML file. The file names secrets; the secrets come from the environment or from other files.

The table in the file is that of `security/domain_settings.py`. Whoever starts a process calls this module once, and
hands the domains on: `security` itself reads no file and no environment. A node that is given the path looks at the
files again and again (`DomainsFile`).

| `secret_name` | the secret is |
|---|---|
| `ORDERS_KEY`, `env:ORDERS_KEY` | the value of that environment variable |
| `file:orders.key` | the bytes of that file, without a newline at its end; the path counts from the TOML file |
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from hopwire.disk import FileStamp, file_stamp, read_named_text
from hopwire.errors import SettingsError
from hopwire.security.domain_settings import SecretMissing, domains_from_table
from hopwire.security.domains import Domains

__all__ = ["DomainsFile", "domains_from_file"]

# what is plainly a name and no secret that somebody has pasted in its place
VARIABLE = re.compile(r"[A-Z][A-Z0-9]{0,15}(_[A-Z0-9]{1,15}){1,4}")
FILE = re.compile(r"[A-Za-z0-9_./-]{1,100}\.[a-z]{2,8}")


def domains_from_file(path: str | Path) -> Domains:
    """Read the domains that a TOML file describes; a mistake in the file is a SettingsError of one line."""
    return _read(path)[0]


class DomainsFile:
    """Domains that are read again when their file, or a file with one of their secrets, has changed."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._stamps: dict[Path, FileStamp] = {}
        self.domains = self._read()

    def look(self) -> bool:
        """Read the domains anew if a file has changed, and tell whether they were; raises as `domains_from_file`."""
        if all(file_stamp(file) == stamp for file, stamp in self._stamps.items()):
            return False
        self.domains = self._read()
        return True

    def _read(self) -> Domains:
        path = Path(self._path)
        stamp = file_stamp(path)  # before it is read: what changes meanwhile is read again
        domains, files = _read(path)
        self._stamps = {path: stamp, **files}
        return domains


def _no_variable(name: str) -> Exception:
    """Give the error of a variable that is not set, with its name if that is plainly a name and no secret."""
    return SecretMissing(f"the environment variable {name} is not set") if VARIABLE.fullmatch(name) else LookupError()


def _no_file(name: str, beside: str, error: OSError) -> Exception:
    if not FILE.fullmatch(name):
        return LookupError()
    if isinstance(error, FileNotFoundError):
        return SecretMissing(f"there is no file {name} beside {beside}")
    return SecretMissing(f"the file {name} beside {beside} cannot be read: {error.strerror or error}")


def _read(path: str | Path) -> tuple[Domains, dict[Path, FileStamp]]:
    """Give the domains, and the files that their secrets were found in."""
    files: dict[Path, FileStamp] = {}
    try:
        table = tomllib.loads(read_named_text(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: is not TOML that can be read: it is nested too deep") from None
    except OSError as error:
        raise SettingsError(f"cannot read the domains {path}: {error.strerror or error}") from None

    def secret(name: str) -> bytes:
        kind, _, rest = name.partition(":")
        if kind == "file":
            file = Path(path).parent / rest
            files[file] = file_stamp(file)
            try:
                return file.read_bytes().removesuffix(b"\n").removesuffix(b"\r")
            except OSError as error:
                raise _no_file(rest, Path(path).name, error) from None
        variable = rest if kind == "env" else name
        if variable not in os.environ:
            raise _no_variable(variable)
        return os.fsencode(os.environ[variable])

    try:
        return domains_from_table(table, secret), files
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
