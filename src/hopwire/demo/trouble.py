"""Everything that is made to go wrong: a table.

The correlation ids of the messages that it happens to begin with the name of the trouble, so it can be found again:
by the hand that causes it, by the summary that counts what became of it, and by `hopwire flows show LAKE dropped-001`.
"""

from __future__ import annotations

from typing import NamedTuple

from hopwire.errors import WireError
from hopwire.node.streams import Streams
from hopwire.node.transport import Frames
from hopwire.wire import decode, encode, recognise

__all__ = ["TROUBLES", "FaultyWire", "Trouble", "flow_id", "trouble_of"]


class Trouble(NamedTuple):
    """One kind of trouble."""

    name: str
    what: str
    times: int
    lives: float  # seconds that a question in this trouble lives
    seen: str  # by the hub that asked; nothing where none did
    shown: tuple[str, ...]  # by the lake: outcomes, verdicts, findings, or that it is quarantined


# fmt: off
TROUBLES = {each.name: each for each in (
    #        name       what happens to it                times lives  the hub sees     the lake shows
    Trouble("refused",  "its handler raises an error",         4, 15.0, "HandlerFailed", ("failed",)),
    Trouble("slow",     "its handler is slower than its TTL",  3,  1.0, "Timeout",       ("expired",)),
    Trouble("unheard",  "nobody in the network handles it",    3,  2.0, "NoRoute",       ("lost",)),
    Trouble("dropped",  "the wire swallows it",                5,  1.0, "Timeout",       ("lost",)),
    Trouble("altered",  "the wire changes a byte of its body", 3,  1.0, "Timeout",       ("lost", "invalid")),
    Trouble("doubled",  "the wire delivers it twice",          3, 15.0, "answered",      ("answered", "duplicate")),
    Trouble("forged",   "a stranger signs with his own key",   4,  0.0, "",              ("invalid",)),
    Trouble("broken",   "a stranger sends what is no message", 5,  0.0, "",              ("quarantined",)),
    Trouble("stranded", "billing is killed while it has it",   6,  4.0, "Unreachable",   ("lost",)),
    Trouble("missed",   "an order while billing is down",      5,  1.0, "Timeout",       ("expired",)),
    Trouble("insisted", "sent until billing is back",          2, 30.0, "answered",      ("answered", "retransmitted")),
)}
# fmt: on


def flow_id(name: str, number: int) -> bytes:
    """Give the correlation id of a message."""
    return b"%s-%03d" % (name.encode(), number)


def trouble_of(flow: bytes) -> str:
    """Give the trouble that a correlation id names, or nothing."""
    name = flow.partition(b"-")[0].decode(errors="replace")
    return name if name in TROUBLES else ""


class FaultyWire(Streams):
    """A transport that treats some messages badly: after the node has sent them, and before they are on their way."""

    def send(self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False) -> str:
        """Send frames as often as the trouble wants them sent, changed if it wants them changed."""
        trouble = "" if is_control else _trouble_in(frames)
        if trouble == "dropped":
            return ""
        if trouble == "doubled":
            super().send(uri, frames, size_bytes)
        return super().send(uri, _altered(frames) if trouble == "altered" else frames, size_bytes, is_control)


def _trouble_in(frames: Frames) -> str:
    try:
        return trouble_of(decode(frames).correlation_id)
    except WireError:
        return ""


def _altered(frames: Frames) -> Frames:
    message = decode(frames)
    body = message.body
    changed = message.replace(body_frames=(body[:-1] + bytes([body[-1] ^ 1]),))
    return encode(changed, recognise(frames))
