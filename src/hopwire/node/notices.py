"""What people are told once, and not a thousand times: refusals, in words.

The same notice is given once in a minute; the next one says how many were left out. There is room for some notices of
each minute, whatever names a stranger makes up; the rest share one. Every text of another process is shown by `ascii`,
so it cannot look like a line of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from hopwire.model import Message
from hopwire.security import Domains, Verdict
from hopwire.security.schemes import read_signature

__all__ = ["Notice", "Notices", "shown", "why_refused"]

log = logging.getLogger("hopwire.node")
EVERY_SECONDS = 60.0
MOST = 50  # different notices in that time
REST = "the rest"
SHOWN_CHARACTERS = 120


class Notice(NamedTuple):
    """A line for people, and the same for programs."""

    text: str
    fields: Mapping[str, str]


class Notices:
    """Warnings that do not repeat themselves."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._given: dict[Hashable, tuple[float, int]] = {}  # when each was given, and how many were left out since

    def warn(self, what: Hashable, notice: Callable[[], Notice]) -> None:
        """Log a warning, unless the same was said a short time ago; only then is it put into words."""
        now = self._clock()
        if what not in self._given and len(self._given) >= MOST:
            self._given = {each: (at, n) for each, (at, n) in self._given.items() if now - at < EVERY_SECONDS}
            what = what if len(self._given) < MOST else REST
        given_at, left_out = self._given.get(what, (now - EVERY_SECONDS, 0))
        if now - given_at < EVERY_SECONDS:
            self._given[what] = given_at, left_out + 1
            return
        self._given[what] = now, 0
        text, fields = notice()
        more = f" ({left_out} more like this were not logged)" if left_out else ""
        log.warning("%s%s", text, more, extra={f"hopwire_{name}": value for name, value in fields.items()})


def shown(text: str | bytes) -> str:
    """Give the text of another process as it can stand in a log."""
    whole = ascii(text.decode(errors="backslashreplace") if isinstance(text, bytes) else text)
    return whole if len(whole) <= SHOWN_CHARACTERS else whole[:SHOWN_CHARACTERS] + "..."


WORDS = {
    Verdict.UNSIGNED: "it is not signed",
    Verdict.INVALID: "its signature does not fit: another key, or changed on the way",
    Verdict.NOT_IN_DOMAIN: "its identity does not belong to the domain that it names",
    Verdict.MISDIRECTED: "it is signed for another node, or for this node before it started again",
    Verdict.REPLAYED: "it is too old, from the future, or has been here before: are the clocks right?",
}


def why_refused(verdict: Verdict, message: Message, domains: Domains) -> tuple[str, str]:
    """Say in words why a signature was refused, and name the key that it claims."""
    domain = domains.get(message.domain)
    parts = read_signature(message.signature, domain.scheme) if domain is not None else None
    key_id = parts.stamp.key_id if parts is not None and parts.stamp is not None else ""
    if verdict is not Verdict.NO_KEY:
        return WORDS.get(verdict, str(verdict)), key_id
    if domain is None:
        return f"there is no domain {shown(message.domain)} here", key_id
    if key_id and not domain.keys_at(None, key_id):
        return f"domain {shown(message.domain)} has no key of that id here", key_id
    return f"no key of domain {shown(message.domain)} is valid now", key_id
