"""One node in a process of its own: does what it is told on its input, line by line, and says when it is done.

    -> {"name": "stock", ...}      who it is
    <- "tcp://127.0.0.1:34567"     where it listens
    -> ["trade", 30]               an act, and what it takes
    <- null                        what came of it

It ends when its input ends, so it outlives nobody, whatever happens to whoever started it.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias

import msgspec

from hopwire.cluster.events import Pace
from hopwire.demo.roles import ROLES, SHOP, domains_of
from hopwire.demo.shopper import Shopper
from hopwire.demo.stranger import STRANGER, disturb
from hopwire.demo.trouble import FaultyWire
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings

__all__ = ["Assignment", "main"]

LISTEN = "tcp://127.0.0.1:0"
BEATS = Pace(beat_ns=NS_PER_SECOND // 4, silence_ns=10 * NS_PER_SECOND)  # a busy machine is not a dead one
READY_SECONDS = 30.0
LOOK_SECONDS = 0.01  # between two looks at what changes by itself
Acts: TypeAlias = Mapping[str, Callable[..., Coroutine[Any, Any, Any]]]


class Assignment(msgspec.Struct):
    """Who a process is."""

    name: str
    secret: bytes = b""
    captures: str = ""
    peers: tuple[str, ...] = ()
    seed: int = 0
    patience_seconds: float = 0.0


async def main() -> None:
    """Be a process of the shop until the input ends."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    first = await lines.readline()
    if not first:
        return
    identity = msgspec.json.decode(first, type=Assignment)
    if identity.name == STRANGER:
        _say("")
        await _obey(lines, {"disturb": disturb})
        return
    async with _node_of(identity) as node:
        for actor in ROLES[identity.name].actors:
            node.host(actor())
        _say(node.uri)
        await _obey(lines, _acts_of(node, identity))


def _node_of(identity: Assignment) -> Node:
    name = identity.name
    return Node(
        LISTEN,
        peers=identity.peers,
        identity=name.encode(),
        name=name,
        capture=identity.captures,
        domains=domains_of(identity.secret),
        settings=NodeSettings(formats=ROLES[name].formats, pace=BEATS),
        transport=FaultyWire(name.encode(), LISTEN) if name == SHOP else None,
    )


def _acts_of(node: Node, identity: Assignment) -> Acts:
    async def ready() -> None:
        for payload in ROLES[identity.name].needs:
            await node.knows(payload, timeout=READY_SECONDS)

    async def count() -> Mapping[str, int]:
        return node.statistics().dead_letters

    async def written() -> None:
        while (status := node.capture_status) is not None and status.waiting:
            await asyncio.sleep(LOOK_SECONDS)

    acts: Acts = {"ready": ready, "count": count, "written": written}
    if identity.name != SHOP:
        return acts
    chance = random.Random(identity.seed)  # noqa: S311
    shopper = Shopper(node.hub(), chance, identity.patience_seconds)
    own = (shopper.trade, shopper.suffer, shopper.strand, shopper.miss, shopper.recover, shopper.rest)
    return {**acts, **{act.__name__: act for act in own}}


async def _obey(lines: asyncio.StreamReader, acts: Acts) -> None:
    """Do act after act. A line that ends while an act goes on is the end of the input: nobody waits for it any more."""
    line = asyncio.ensure_future(lines.readline())
    while said := await line:
        line = asyncio.ensure_future(lines.readline())
        name, *arguments = msgspec.json.decode(said, type=list[Any])
        act = asyncio.ensure_future(acts[name](*arguments))
        await asyncio.wait({act, line}, return_when=asyncio.FIRST_COMPLETED)
        if not act.done():
            act.cancel()
            return
        _say(act.result())


def _say(answer: Any) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main())
