"""Identities as settings write them: exact (`"KINO.PING"`), or a prefix that ends in a star (`"orders.*"`).

In the program, identities are bytes, as on the wire; the text of settings becomes UTF-8. The trap: an identity that
itself ends in a star can only be named by a prefix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from hopwire.errors import SettingsError

__all__ = ["Identity", "is_covered", "is_prefix", "patterns_from", "shown", "stem", "utf8"]

Identity: TypeAlias = bytes | str


def patterns_from(identities: Iterable[Identity], where: str) -> tuple[bytes, ...]:
    """Check a list of patterns and give them as bytes; `where` names the list in errors."""
    if isinstance(identities, (bytes, str)):
        raise SettingsError(f"{where} must be a list, found one {type(identities).__name__}")
    return tuple(_pattern_from(identity, where) for identity in identities)


def _pattern_from(identity: Identity, where: str) -> bytes:
    if not isinstance(identity, (bytes, str)) or not identity:
        raise SettingsError(f"{where} must be texts or bytes that are not empty, found {identity!r:.80}")
    if isinstance(identity, bytes):
        return identity
    if "*" in identity[:-1]:
        raise SettingsError(f"{where}: a star may only stand at the end, found {identity!r:.80}")
    return utf8(identity, where)


def is_prefix(pattern: bytes) -> bool:
    """Tell a prefix from an exact identity."""
    return pattern.endswith(b"*")


def stem(pattern: bytes) -> bytes:
    """Give the pattern without its star."""
    return pattern[:-1] if is_prefix(pattern) else pattern


def is_covered(identity: bytes, patterns: tuple[bytes, ...]) -> bool:
    """Tell whether one of the patterns covers this identity; or, if this is a pattern, everything that it covers."""
    return any(identity.startswith(stem(each)) if is_prefix(each) else identity == each for each in patterns)


def shown(identity: bytes) -> str:
    """Give an identity as errors print it: quoted, on one line."""
    return repr(identity.decode(errors="backslashreplace"))


def utf8(text: str, where: str) -> bytes:
    """Give the UTF-8 bytes of a text, or raise a SettingsError if the text is not valid Unicode."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"{where}: {text!a:.80} is not valid Unicode") from None
