"""Who may be connected: the certificates of this node's authorities, less those that lists take out.

| file of `Tls` | says | after a change |
|---|---|---|
| `authority` | the authorities, one or several: current and next | connections by one that was taken out are closed |
| `certificate`, `key` | who this node is | new connections show the new certificate, the others stay |
| `allowed` | who else must be named: nobody else gets in | connections of whoever is no longer named are closed |
| `revoked` | who does not get in | connections of whoever is named are closed |

The two lists have a line for each: the identity of a node, percent-encoded where it is no plain word, or
`sha256:` and the fingerprint of a certificate. What follows a `#` is a comment.

After an authority was taken out, a connection stays if its certificate was signed by one of the others. One whose
authority is not plain to see, as behind an intermediate one, is closed too, and let in again if TLS trusts it.

Files are looked at four times a second, and when somebody asks. A file that cannot be read leaves everything as it was,
and is told: a list that is gone lets nobody in who was kept out.
"""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from hopwire.disk import FileStamp, file_stamp, open_regular
from hopwire.errors import SettingsError
from hopwire.node.certificate import Certificate, own_certificate
from hopwire.node.transport import Tls

__all__ = ["LOOK_SECONDS", "REFUSALS", "Admission", "Named", "named_in"]

LOOK_SECONDS = 0.25
LIST_BYTES = 16 * 1024 * 1024
DIGITS = 64  # of a fingerprint
FINGERPRINT = "sha256:"
Named: TypeAlias = frozenset[bytes | str]  # identities of nodes as bytes, fingerprints as text
Authority: TypeAlias = tuple[Any, ...]  # the name of one
# fmt: off
REFUSALS = {
    # reason            in words
    "revoked":          "its certificate is revoked",
    "not_allowed":      "its certificate is not on the list of those who are allowed",
    "expired":          "its certificate has expired",
    "nameless":         "its certificate names no node; hopwire keys sign makes one that does",
    "authority":        "the authority of its certificate is trusted no more",
}
# fmt: on


def named_in(path: str | Path) -> Named:
    """Read a list of nodes and certificates; a mistake in it is a SettingsError that names its line."""
    try:
        with open_regular(path, is_named=True) as file:
            content = file.read(LIST_BYTES + 1)
        lines = content.decode("utf-8").splitlines()
    except OSError as error:
        raise SettingsError(f"cannot read the list {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"the list {path} is not UTF-8") from None
    if len(content) > LIST_BYTES:
        raise SettingsError(f"the list {path} has more than {LIST_BYTES:,} bytes")
    found: set[bytes | str] = set()
    for number, line in enumerate(lines, 1):
        word = line.partition("#")[0].strip()
        if not word:
            continue
        if len(word.split()) > 1:
            raise SettingsError(f"{path}, line {number}: expected one identity or sha256:..., found {word!r:.80}")
        if word.startswith(FINGERPRINT):
            digits = word.removeprefix(FINGERPRINT).replace(":", "").lower()
            if len(digits) != DIGITS or not set(digits) <= set("0123456789abcdef"):
                raise SettingsError(f"{path}, line {number}: a fingerprint has {DIGITS} hexadecimal digits")
            found.add(digits)
        else:
            found.add(unquote_to_bytes(word))
    return frozenset(found)


class _Followed:
    """A value that is read from files, and read again when one of them has changed."""

    def __init__(self, paths: tuple[str | Path, ...], read: Callable[[], Any]) -> None:
        self._paths, self._read = paths, read
        self._stamps: tuple[FileStamp, ...] = self._seen()
        self.value = read()

    def _seen(self) -> tuple[FileStamp, ...]:
        return tuple([file_stamp(path) for path in self._paths])

    def look(self) -> bool:
        """Read the value anew if a file has changed, and tell whether it was; raises as reading does."""
        stamps = self._seen()
        if stamps == self._stamps:
            return False
        self.value = self._read()
        self._stamps = stamps
        return True


class Admission:
    """Judges certificates, by files that may change at any time."""

    def __init__(self, tls: Tls, identity: bytes) -> None:
        self._tls, self._identity = tls, identity
        paths = tls.certificate, tls.key, tls.authority
        self._contexts = _Followed(paths, self._read_contexts)
        lists = [None if path is None else _Followed((path,), partial(named_in, path)) for path in _lists(tls)]
        self._allowed, self._revoked = lists
        self._trusted: list[Authority] = []
        self._has_lost = False  # whether the last look found that an authority was taken out

    @property
    def contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """What a client needs, and what a server needs."""
        found: tuple[ssl.SSLContext, ssl.SSLContext] = self._contexts.value
        return found

    def _read_contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        contexts = self._tls.contexts()
        own = own_certificate(*contexts)
        if own is not None and not own.is_of(self._identity):
            raise SettingsError(f"the certificate {self._tls.certificate} is {own.shown}, and not that of this node")
        return contexts

    def look(self) -> tuple[bool, list[str]]:
        """Read again what has changed: whether anything has, and what is wrong with files that could not be read."""
        has_changed, faults = False, []
        before = Counter(_authorities(self.contexts))
        for followed in (self._contexts, self._allowed, self._revoked):
            try:
                has_changed |= followed is not None and followed.look()
            except SettingsError as error:
                faults.append(str(error))
        lost = before - Counter(_authorities(self.contexts))
        self._has_lost, self._trusted = bool(lost), [each for each in _authorities(self.contexts) if each not in lost]
        return has_changed, faults

    def refusal(self, certificate: Certificate, is_new: bool = False) -> str:
        """Give the reason why a certificate does not count, or nothing; a new one was judged by TLS just now."""
        names, until = {certificate.fingerprint, certificate.node}, certificate.not_after
        # fmt: off
        found = {
            "revoked":      self._revoked is not None and not names.isdisjoint(self._revoked.value),
            "not_allowed":  self._allowed is not None and names.isdisjoint(self._allowed.value),
            "expired":      bool(until) and time.time() >= until,
            "nameless":     certificate.node is None and not self._tls.any_identity,
            "authority":    self._has_lost and not is_new and certificate.issuer not in self._trusted,
        }
        # fmt: on
        return next((reason for reason, is_so in found.items() if is_so), "")


def _lists(tls: Tls) -> tuple[str | Path | None, str | Path | None]:
    return tls.allowed, tls.revoked


def _authorities(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> list[Authority]:
    """Give the names of the authorities that are trusted."""
    return [found["subject"] for found in contexts[0].get_ca_certs()]  # type: ignore[misc]
