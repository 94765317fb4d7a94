"""Domains from a TOML file. The file names secrets; the secrets come from the environment or from other files.

The table in the file is that of `security/domain_settings.py`. Whoever starts a process calls this module once, and
hands the domains on: `security` itself reads no file and no environment.

| `secret_name` | the secret is |
|---|---|
| `ORDERS_KEY`, `env:ORDERS_KEY` | the value of that environment variable |
| `file:orders.key` | the bytes of that file, without a newline at its end; the path counts from the TOML file |
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from hopwire.errors import SettingsError
from hopwire.security.domain_settings import domains_from_table
from hopwire.security.domains import Domains

__all__ = ["domains_from_file"]


def domains_from_file(path: str | Path) -> Domains:
    """Read the domains that a TOML file describes; a mistake in the file is a SettingsError of one line."""
    try:
        table = tomllib.loads(Path(path).read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None

    def secret(name: str) -> bytes:
        kind, _, rest = name.partition(":")
        if kind == "file":
            return (Path(path).parent / rest).read_bytes().removesuffix(b"\n").removesuffix(b"\r")
        return os.fsencode(os.environ[rest if kind == "env" else name])

    try:
        return domains_from_table(table, secret)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
