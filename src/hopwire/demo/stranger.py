"""A stranger who can reach a node, has no key, and sends what he likes."""

from __future__ import annotations

import asyncio
import os
import time

from hopwire.demo.roles import domains_of
from hopwire.demo.shop import Order
from hopwire.demo.trouble import TROUBLES, flow_id
from hopwire.model import Message, body_from_payload, contract_of
from hopwire.node.streams import Streams
from hopwire.node.transport import Frames
from hopwire.security import sign
from hopwire.wire import V4, V5, encode, transcode

__all__ = ["STRANGER", "broken_frames", "disturb", "forged_frames"]

STRANGER = "stranger"
LOOK_SECONDS = 0.01
GOODBYE_SECONDS = 5.0


def forged_frames(number: int) -> Frames:
    """Give an order that is signed with the wrong key."""
    own = domains_of(os.urandom(16))
    return encode(sign(_order(flow_id("forged", number)), own, time.time_ns(), os.urandom(16)))


def _order(flow: bytes) -> Message:
    contract, order = contract_of(Order), Order(item="crown", price=1)
    return Message(contract.identity, contract.version, body_frames=(body_from_payload(order),), correlation_id=flow)


def broken_frames(number: int) -> Frames:
    """Give frames that are no message, each number in another way."""
    order = _order(flow_id("broken", number))
    v6, v5, v4 = encode(order), encode(order, V5), encode(transcode(order, V4), V4)
    meta = v6[-1]
    ways = (
        [b"", b"GET / HTTP/1.1\r\n\r\n"],  # another protocol
        [*v6[:-1], meta[: len(meta) // 2]],  # cut off
        [*v6[:-1], meta[:4] + b"\xff\xff\xff\x7f" + meta[8:]],  # a length beyond the end
        [b"", *v5[len(v5) // 2 :]],  # its first frames are missing
        [*v4[:-1], b"\x09\x00"],  # a format that nobody has heard of
    )
    return ways[(number - 1) % len(ways)]


async def disturb(uri: str) -> None:
    """Send everything that a node should not believe."""
    streams = Streams(STRANGER.encode(), "tcp://127.0.0.1:0")
    streams.start(lambda frames: 1, lambda uri, frames, reason: None)
    streams.connect(uri)
    for name, frames_of in (("forged", forged_frames), ("broken", broken_frames)):
        for number in range(1, TROUBLES[name].times + 1):
            frames = frames_of(number)
            streams.send(uri, frames, sum(map(len, frames)))
    while streams.waiting()[0]:  # until the connection is there, and all of it has left
        await asyncio.sleep(LOOK_SECONDS)
    await streams.close(GOODBYE_SECONDS)
