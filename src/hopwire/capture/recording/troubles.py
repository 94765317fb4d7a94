"""What cannot be read in a recording of the network: counted by reason, and told in one line for each reason.

A recording may hold thousands of connections that have nothing to do with messages. A line for each would be too many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hopwire.capture.file_faults import FaultKind

__all__ = ["TROUBLES", "Troubles"]

# fmt: off
TROUBLES = {
    # code        kind                   unit            what is wrong with the unit
    "middle":     (FaultKind.UNREADABLE, "connection",   "began before the recording"),
    "other":      (FaultKind.UNREADABLE, "connection",   "not ZeroMQ"),
    "old_zmtp":   (FaultKind.UNREADABLE, "connection",   "ZMTP 2 or older"),
    "curve":      (FaultKind.UNREADABLE, "connection",   "encrypted (CURVE)"),
    "plain":      (FaultKind.UNREADABLE, "connection",   "authenticated (PLAIN)"),
    "gssapi":     (FaultKind.UNREADABLE, "connection",   "protected (GSSAPI)"),
    "mechanism":  (FaultKind.UNREADABLE, "connection",   "an unknown security mechanism"),
    "broken":     (FaultKind.UNREADABLE, "connection",   "breaks the rules of ZMTP"),
    "refused":    (FaultKind.UNREADABLE, "connection",   "refused by its other end"),
    "crowded":    (FaultKind.UNREADABLE, "connection",   "given up: too many are open at once, or too much waits"),
    "hole":       (FaultKind.GAP,        "connection",   "packets are missing, and so where the next message begins"),
    "missing":    (FaultKind.GAP,        "connection",   "packets are missing"),
    "lost":       (FaultKind.GAP,        "message",      "a part is missing, or it is too large"),
    "unfinished": (FaultKind.GAP,        "message",      "the recording ends before it does"),
    "link":       (FaultKind.UNREADABLE, "packet",       "of a kind of network that is not known"),
    "fragment":   (FaultKind.UNREADABLE, "packet",       "a fragment of IP, which are not put together"),
    "short":      (FaultKind.UNREADABLE, "packet",       "cut off within its headers"),
    "stray":      (FaultKind.UNREADABLE, "packet",       "far from where its connection is"),
}
# fmt: on


@dataclass(slots=True)
class _TroubleCount:
    count: int
    size_bytes: int
    example: str


class Troubles:
    """The troubles of a recording, counted."""

    def __init__(self) -> None:
        self._tallies: dict[str, _TroubleCount] = {}

    def add(self, code: str, count: int, size_bytes: int, example: str) -> None:
        """Count something that cannot be read: how many, how many bytes, and an example of where."""
        tally = self._tallies.setdefault(code, _TroubleCount(0, 0, example))
        tally.count += count
        tally.size_bytes += size_bytes

    def lines(self) -> Iterator[tuple[FaultKind, str, int]]:
        """Give kind, words and bytes of each trouble, in the order of the table."""
        for code, (kind, unit, words) in TROUBLES.items():
            if tally := self._tallies.get(code):
                what = f"{tally.count} {unit}{'s' if tally.count > 1 else ''}"
                first = "first " if tally.count > 1 else ""
                part = " in full" if kind == FaultKind.GAP else ""
                yield kind, f"{what} not read{part}: {words} ({first}{tally.example})", tally.size_bytes
