"""One node in a process of its own: the process reads acts from its input, line by line, and answers each.

    -> {"name": "stock", ...}      which node the process is
    <- "tcp://127.0.0.1:34567"     where the node listens
    -> ["trade", 30]               an act, and its arguments
    <- null                        the result of the act

The process ends when its input ends. So no process outlives the program that started it, however that program ended.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from hopwire.cluster.events import Pace
from hopwire.demo.shop import ROLES, SHOP, domains_of
from hopwire.demo.shopper import Shopper
from hopwire.demo.trouble import LISTEN, STRANGER, FaultyWire, disturb
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings
from hopwire.node.news import PeerLost

__all__ = ["Assignment", "main"]

# a slow machine is not taken for a dead one, and a node that starts again within seconds is waited for
GONE_NS = 3 * NS_PER_SECOND
BEATS = Pace(beat_ns=NS_PER_SECOND // 4, silence_ns=10 * NS_PER_SECOND, gone_ns=GONE_NS)
READY_SECONDS = 30.0
LOOK_SECONDS = 0.01  # between two looks at what the capture has still to write
Acts: TypeAlias = Mapping[str, Callable[..., Coroutine[Any, Any, Any]]]


class Assignment(msgspec.Struct):
    """Which node a process is, and what the process needs for that."""

    name: str
    secret: bytes = b""
    captures: str = ""
    join: tuple[str, ...] = ()
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
    assignment = msgspec.json.decode(first, type=Assignment)
    if assignment.name == STRANGER:
        _say("")
        await _obey(lines, {"disturb": disturb})
        return
    async with _node_of(assignment) as node:
        lost: list[str] = []
        watching = asyncio.ensure_future(_watch(node, lost))
        for actor in ROLES[assignment.name].actors:
            node.host(actor())
        _say(node.uri)
        await _obey(lines, _acts_of(node, assignment, lost))
        watching.cancel()


async def _watch(node: Node, lost: list[str]) -> None:
    """Note each node that this one loses."""
    async for event in node.events():
        if isinstance(event, PeerLost):
            lost.append(event.node.decode())


def _node_of(assignment: Assignment) -> Node:
    name = assignment.name
    return Node(
        LISTEN,
        join=assignment.join,
        identity=name.encode(),
        name=name,
        capture=assignment.captures,
        domains=domains_of(assignment.secret),
        settings=NodeSettings(formats=ROLES[name].formats, pace=BEATS),
        transport=FaultyWire(name.encode(), LISTEN, gone_seconds=GONE_NS / NS_PER_SECOND) if name == SHOP else None,
    )


def _acts_of(node: Node, assignment: Assignment, lost: Sequence[str]) -> Acts:
    async def ready() -> None:
        for payload in ROLES[assignment.name].needs:
            await node.knows(payload, timeout=READY_SECONDS)

    async def count() -> Mapping[str, int]:
        return node.statistics().dead_letters

    async def written() -> None:
        while (status := node.capture_status) is not None and status.waiting:
            await asyncio.sleep(LOOK_SECONDS)

    async def members() -> int:
        return len(node.peers) + 1

    async def losses() -> Sequence[str]:
        return lost

    async def cut(name: str, uri: str) -> None:
        assert isinstance(node._transport, FaultyWire)
        node._transport.cut_off = name.encode(), uri

    acts: Acts = {"ready": ready, "count": count, "written": written, "members": members, "losses": losses}
    if assignment.name != SHOP:
        return acts
    chance = random.Random(assignment.seed)  # noqa: S311
    shopper = Shopper(node.hub(), chance, assignment.patience_seconds)
    own = (shopper.trade, shopper.suffer, shopper.strand, shopper.miss, shopper.sever, shopper.recover, shopper.rest)
    return {**acts, "cut": cut, **{act.__name__: act for act in own}}


async def _obey(lines: asyncio.StreamReader, acts: Acts) -> None:
    """Do act after act, until the input ends; an act that goes on at that moment is cancelled.

    No line comes before the last act is answered. So a line that can be read during an act is the end of the input.
    """
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
