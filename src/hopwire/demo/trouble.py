"""Everything that is made to go wrong, as a table, and who does it: a faulty wire and a stranger.

The correlation ids of the messages in trouble begin with the name of the trouble, such as `dropped-001`. By this name
the wire knows which message to drop, the summary counts what became of each, and a user finds the flow with
`hopwire flows show LAKE dropped-001`.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import NamedTuple

from hopwire.demo.shop import Order, domains_of
from hopwire.errors import WireError
from hopwire.model import Message, body_from_payload, contract_of
from hopwire.node.streams import Streams
from hopwire.node.transport import (
    FirstWords,
    Frames,
    OnEnded,
    OnFrames,
    OnGone,
    OnRefused,
    OnSent,
    forget_nothing,
    ignore,
    in_silence,
)
from hopwire.security import sign
from hopwire.wire import V4, V5, decode, encode, recognise, transcode
from hopwire.wire.connection import claimed_node

__all__ = [
    "STRANGER",
    "TROUBLES",
    "FaultyWire",
    "Trouble",
    "broken_frames",
    "disturb",
    "flow_id",
    "forged_frames",
    "trouble_of",
]

STRANGER = "stranger"
LISTEN = "tcp://127.0.0.1:0"
LOOK_SECONDS = 0.01  # between two looks at what still waits to be sent
GOODBYE_SECONDS = 5.0


class Trouble(NamedTuple):
    """One kind of trouble."""

    name: str
    what: str
    times: int
    lives: float  # seconds until a question in this trouble is given up
    seen: str  # what the asking hub is told; empty where no hub asked
    shown: tuple[str, ...]  # what the lake says: outcomes, verdicts, findings, or that the message is quarantined


# fmt: off
TROUBLES = {each.name: each for each in (
    #        name       what happens to it                times lives  the hub sees     the lake shows
    Trouble("refused",  "its handler raises an error",         4, 15.0, "HandlerFailed", ("failed",)),
    Trouble("slow",     "its handler outlasts its TTL",        3,  1.0, "Timeout",       ("expired",)),
    Trouble("unheard",  "nobody handles it",                   3,  2.0, "NoRoute",       ("lost",)),
    Trouble("dropped",  "the wire swallows it",                5,  1.0, "Timeout",       ("lost",)),
    Trouble("altered",  "the wire changes a byte",             3,  1.0, "Timeout",       ("lost", "invalid")),
    Trouble("doubled",  "the wire delivers it twice",          3, 15.0, "answered",      ("answered", "duplicate")),
    Trouble("forged",   "a stranger signs it",                 4,  0.0, "",              ("invalid",)),
    Trouble("broken",   "a stranger sends nonsense",           5,  0.0, "",              ("quarantined",)),
    Trouble("stranded", "billing is killed over it",           6,  4.0, "Unreachable",   ("lost",)),
    Trouble("missed",   "billing is down meanwhile",           5,  1.0, "Timeout",       ("expired",)),
    Trouble("insisted", "sent until billing is back",          2, 30.0, "answered",      ("answered", "retransmitted")),
    Trouble("severed",  "the link to stock is cut",            5,  1.0, "Timeout",       ("lost",)),
    Trouble("healed",   "sent until the link is back",         5, 30.0, "answered",      ("answered",)),
)}
# fmt: on


def flow_id(name: str, number: int) -> bytes:
    """Give the correlation id of a message in trouble."""
    return b"%s-%03d" % (name.encode(), number)


def trouble_of(flow: bytes) -> str:
    """Give the trouble that a correlation id names; empty where the id names none."""
    name = flow.partition(b"-")[0].decode(errors="replace")
    return name if name in TROUBLES else ""


# -- the wire

COPIES = {"dropped": 0, "altered": 1, "doubled": 2}  # that arrive of a message in trouble


class FaultyWire(Streams):
    """A transport that drops, doubles or changes the messages in trouble, after the node has sent them.

    A capture of the node shows what the node sent: once, and as it was. A link that is cut carries nothing in either
    direction, and nobody is told: the connection stays open, as with a cable that somebody has pulled.
    """

    cut_off = b"", ""  # the node at the other end of the link that is cut, and its address

    def start(
        self,
        on_frames: OnFrames,
        on_refused: OnRefused,
        on_gone: OnGone = ignore,
        first_words: FirstWords = in_silence,
        on_ended: OnEnded = forget_nothing,
        on_sent: OnSent | None = None,
    ) -> str:
        """Begin to listen; what the wire makes of a message is not told to whoever is told of what leaves."""
        self._made: list[Frames] = []
        self._tell_sent, self._take = on_sent, on_frames
        return super().start(self._receive, on_refused, on_gone, first_words, on_ended, self._sent)

    def _receive(self, frames: Frames) -> int:
        return 0 if self._is_cut(frames[0]) else self._take(frames)

    def _is_cut(self, connection: bytes) -> bool:
        node, uri = self.cut_off
        return bool(node) and (claimed_node(connection) == node or self.address_of(connection) == uri)

    def stirred(self) -> list[bytes]:
        """Give the names of connections over which anything came since the last look, but over a link that is cut."""
        return [name for name in super().stirred() if not self._is_cut(name)]

    def _sent(self, frames: Frames, count: int) -> None:
        place = next((at for at, made in enumerate(self._made) if made is frames), None)
        if place is not None:
            del self._made[place]
        elif self._tell_sent is not None:
            self._tell_sent(frames, count)

    def send(
        self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False, goes_first: bool = False
    ) -> str:
        """Send frames as often as their trouble says, and with one bit changed where it says so."""
        trouble = "" if is_control else _trouble_in(frames)
        if uri and uri == self.cut_off[1]:
            if self._tell_sent is not None:
                self._tell_sent(frames, 1)
            return ""
        if trouble not in COPIES or uri not in self._peers:  # the node opens a link first, and sends again
            return super().send(uri, frames, size_bytes, is_control, goes_first)
        if self._tell_sent is not None:
            self._tell_sent(frames, 1)
        for _ in range(COPIES[trouble]):
            made = _altered(frames) if trouble == "altered" else list(frames)
            self._made.append(made)
            super().send(uri, made, size_bytes, is_control=True)  # alone, and not in a train with others
        return ""


def _trouble_in(frames: Frames) -> str:
    try:
        return trouble_of(decode(frames).correlation_id)
    except WireError:
        return ""


def _altered(frames: Frames) -> Frames:
    message = decode(frames)
    body = message.body
    changed = message.replace(body_frames=(body[:-1] + bytes([body[-1] ^ 1]),))
    return [frames[0], *encode(changed, recognise(frames))[1:]]


# -- the stranger, who can reach a node and has no key


def forged_frames(number: int) -> Frames:
    """Give an order that is signed with the wrong key."""
    own = domains_of(os.urandom(16))
    return encode(sign(_order(flow_id("forged", number)), own, time.time_ns(), os.urandom(16)))


def _order(flow: bytes) -> Message:
    contract, order = contract_of(Order), Order(item="crown", price=1)
    return Message(contract.identity, contract.version, body_frames=(body_from_payload(order),), correlation_id=flow)


def broken_frames(number: int) -> Frames:
    """Give frames that are no message; each number breaks them in another way."""
    order = _order(flow_id("broken", number))
    v6, v5, v4 = encode(order), encode(order, V5), encode(transcode(order, V4), V4)
    meta = v6[-1]
    ways = (
        [b"", b"GET / HTTP/1.1\r\n\r\n"],  # another protocol
        [*v6[:-1], meta[: len(meta) // 2]],  # cut off
        [*v6[:-1], meta[:4] + b"\xff\xff\xff\x7f" + meta[8:]],  # a length beyond the end
        [b"", *v5[len(v5) // 2 :]],  # the first frames are missing
        [*v4[:-1], b"\x09\x00"],  # the number of a format that does not exist
    )
    return ways[(number - 1) % len(ways)]


async def disturb(uri: str) -> None:
    """Send all forged and broken frames to a node, and wait until they have left."""
    streams = Streams(STRANGER.encode(), LISTEN)
    streams.start(lambda frames: 1, lambda uri, frames, reason: None)
    streams.connect(uri)
    for name, frames_of in (("forged", forged_frames), ("broken", broken_frames)):
        for number in range(1, TROUBLES[name].times + 1):
            frames = frames_of(number)
            streams.send(uri, frames, sum(map(len, frames)))
    while streams.waiting()[0]:
        await asyncio.sleep(LOOK_SECONDS)
    await streams.close(GOODBYE_SECONDS)
