"""What a page consists of: a template, values that the JSON twin of the page has too, and drawings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from hopwire.report.words import text_or_hex

__all__ = ["Missing", "PageContent", "bytes_from_address", "has_version", "id_in_address"]

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*", re.ASCII)


class Missing(Exception):
    """Nothing is there under the address; the text says what was looked for."""


@dataclass(frozen=True, slots=True)
class PageContent:
    """One page."""

    template: str
    title: str
    values: dict[str, Any]  # plain values: numbers, texts, bytes, lists and dictionaries
    drawings: dict[str, Markup] = field(default_factory=dict)
    helpers: dict[str, Any] = field(default_factory=dict)  # what only the template needs


def id_in_address(data: bytes) -> str:
    """Give bytes for the path of an address: as text if they are plain, else as hex."""
    text = text_or_hex(data)
    return text if PLAIN.fullmatch(text) and not text.startswith("0x") else f"0x{data.hex()}"


def bytes_from_address(text: str) -> bytes:
    """Give the bytes that `id_in_address` has written."""
    if text.startswith("0x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            raise Missing(f"{text!r:.80} is no id") from None
    return text.encode()


def has_version(address: str) -> bool:
    """Tell whether a page differs from version to version of the lake: all do but those of the present."""
    return not address.startswith(("/live", "/static/", "/versions", "/version.json"))
