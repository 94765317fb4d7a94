"""One member of a chaotic cluster, in a process of its own: it knows doors, and nothing else.

    python -m tests.chaos.cluster_member '{"name": "g1", ...}'

It does what `member.py` does, but captures nothing. It also writes down whom it meets, loses and has routes of:

    ["cluster", "met", "g1-0", "h3", 10.2]
    ["cluster", "lost", "g1-0", "h3", 17.9]
    ["cluster", "routes", "g1-0", "h3", 18.4]
    ["cluster", "worked", "g1-0", "0.05", 18.9]         of a lag of the loop until then, the process had the processor

A rendezvous is such a member that hosts nothing and asks nobody.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from typing import Any

import msgspec

from hopwire.model.units import MEBIBYTE
from hopwire.node import Node, NodeSettings
from hopwire.node.dead import DeadLetter
from hopwire.node.news import PeerLost, PeerMet, RoutesUpdated
from tests.chaos.clock import WallClock
from tests.chaos.member import LAG_SECONDS, LOOK_SECONDS, SIDES, Asker, Role, domains_of, is_idle, obey
from tests.chaos.record import Record
from tests.chaos.work import Worker

SIDES.update(g=b"h", h=b"g")
SETTINGS = NodeSettings(
    inbox_messages=1_000,
    inbox_bytes=16 * MEBIBYTE,
    outbox_messages=2_000,
    outbox_bytes=16 * MEBIBYTE,
    replay_seconds=20.0,  # what is kept of signatures and messages does not grow after a while
    seen_messages=4_096,
)
KINDS = {PeerMet: "met", PeerLost: "lost", RoutesUpdated: "routes"}


class ClusterRole(Role):
    """Who a member of a cluster is."""

    doors: tuple[str, ...] = ()
    is_door: bool = False


async def note_members(node: Node, record: Record, life: str) -> None:
    """Write down whom the node meets, loses and has routes of."""
    async for event in node.events():
        kind = KINDS.get(type(event))
        if kind is not None and (not isinstance(event, RoutesUpdated) or event.added):
            record.say("cluster", kind, life, event.node.decode(), time.monotonic())  # type: ignore[union-attr]


async def watch_loop(record: Record, life: str) -> None:
    """Write down when the loop did not turn for long, and how long this process itself worked meanwhile."""
    before, worked = time.monotonic(), time.process_time()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now, work_now = time.monotonic(), time.process_time()
        if now - before - LOOK_SECONDS > LAG_SECONDS:
            record.say("lag", life, now - before - LOOK_SECONDS, now)
            record.say("cluster", "worked", life, str(work_now - worked), now)
        before, worked = now, work_now


async def be_door() -> None:
    """Be there until the input says to rest, and until it ends."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line == "rest\n":
            print("rested", flush=True)


async def work(node: Node, role: ClusterRole, record: Record, counts: dict[str, Any]) -> None:
    """Ask and be asked, until the input says to rest, and until it ends."""
    asker = Asker(node.hub(), role, record)
    asking = asyncio.ensure_future(asker.go_on())
    if await obey(asker, WallClock(0)):
        asker.resting.set()
        await asking
        counts["is_idle"] = await is_idle(node, asker)
        counts["reached"] = await asyncio.gather(*map(asker.reach, role.others))
        counts["members"] = len(node.peers) + 1
        print("rested", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        counts["is_idle"] &= await is_idle(node, asker)
    asking.cancel()


async def main(role: ClusterRole) -> None:
    """Be a member until the input ends."""
    record, life = Record(role.told), f"{role.name}-{role.life}"
    node = Node(
        role.listen,
        join=role.doors,
        identity=role.name.encode(),
        domains=domains_of(role.secret),
        settings=SETTINGS,
    )

    def give_up(letter: DeadLetter) -> None:
        if letter.message is not None and letter.message.identity == b"chaos.told":
            record.say("given up", letter.message.correlation_id.decode(), life, letter.reason)

    counts: dict[str, Any] = {"life": life, "is_idle": True, "reached": []}
    async with node:
        node.dead_letters.subscribe(give_up)
        others = [asyncio.ensure_future(note_members(node, record, life))]
        others.append(asyncio.ensure_future(watch_loop(record, life)))
        if not role.is_door:
            node.host(
                Worker(lambda flow: record.say("handled", flow, life, time.monotonic())),
                partition=role.name[:1].encode(),
            )
        print(node.uri, flush=True)
        await (be_door() if role.is_door else work(node, role, record, counts))
        for other in others:
            other.cancel()
        counts["open_promises"] = node.statistics().open_promises
        counts["dead_letters"] = Counter(node.dead_letters.counts)
        counts["descriptors"] = len(os.listdir("/proc/self/fd"))
    print(msgspec.json.encode(counts).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=ClusterRole)))
