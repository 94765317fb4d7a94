"""Domains from a TOML file. The file names secrets; the secrets come from the environment or from other files.

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
from hopwire.security import Domains, domains_from_table

__all__ = ["read_domains"]


def read_domains(path: str) -> Domains:
    """Read the domains that a TOML file describes."""
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
