"""One member of a chaotic network, in a process of its own.

    python -m tests.chaos.member '{"name": "a1", ...}'

It hosts a worker, asks the workers of the other side, and writes down what each promise came to, line by line, so that
a kill leaves everything that was known by then:

    ["asked", "a1-3-17", "ask", "prompt"]
    ["ended", "a1-3-17", "answered"]

It prints its address when it is ready, stops asking when its input ends, waits for every promise, prints what it
counted, and goes.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
from collections import Counter
from typing import Any

import msgspec

import hopwire as hw
from hopwire.cluster.events import Pace
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings
from hopwire.security import Domain, Domains, Key
from tests.chaos.work import TEMPERS, Done, Told, Work, Worker

SIDES = {b"a": b"b", b"b": b"a"}  # who asks whom; nobody asks itself, so every question crosses the wire
BEATS = Pace(beat_ns=NS_PER_SECOND // 4, silence_ns=3 * NS_PER_SECOND)
TIMEOUT_SECONDS = 2.0
LAST_SECONDS = 30.0  # for all promises to end, though each has a timeout of a fifteenth of it
LOOK_SECONDS = 0.01
BURST = 500
CALLS = {"ask": 80, "insist": 10, "send": 10}  # of a hundred


class Role(msgspec.Struct):
    """Who a member is."""

    name: str
    life: int  # how often it was started before
    listen: str
    peers: tuple[str, ...]
    captures: str
    told: str  # the file for what each promise came to
    secret: bytes
    seed: int
    rate: float  # questions in a second


def domains_of(secret: bytes) -> Domains:
    """Give the one domain of the network; the secret is all that keeps the stranger out."""
    return Domains([Domain("chaos", [Key("one", secret)], ["chaos.*", "hopwire.*"])])


class Record:
    """Writes down what each promise came to; one write a line, so that a kill tears none."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(self, *line: str) -> None:
        """Write a line."""
        os.write(self._file, msgspec.json.encode(line) + b"\n")


class Asker:
    """Asks, and writes down what comes of it."""

    def __init__(self, hub: hw.Hub, role: Role, record: Record) -> None:
        self._hub, self._role, self._record = hub, role, record
        self._chance = random.Random(f"{role.seed} {role.name} {role.life}")
        self._other = SIDES[role.name[:1].encode()]
        self._number = 0
        self.open: set[asyncio.Task[None]] = set()

    def ask_one(self) -> None:
        """Begin a call of some kind."""
        self._number += 1
        call = self._chance.choices(list(CALLS), list(CALLS.values()))[0]
        temper = self._chance.choices(list(TEMPERS), list(TEMPERS.values()))[0]
        work = Work(self._number, temper, self._chance.randbytes(self._chance.choice((0, 64, 1024, 16_384))))
        flow = f"{self._role.name}-{self._role.life}-{self._number}"
        task = asyncio.ensure_future(self._call(call, work, flow))
        self.open.add(task)
        task.add_done_callback(self.open.discard)

    async def _call(self, call: str, work: Work, flow: str) -> None:
        self._record.say("asked", flow, call, work.temper)
        options: dict[str, Any] = {
            "partition": self._other,
            "correlation_id": flow.encode(),
            "timeout": TIMEOUT_SECONDS,
        }
        try:
            if call == "send":
                await self._hub.send(Told(work.number), **options)
            else:
                done = await self._hub.ask(work, Done, at_least_once=call == "insist", **options)
                if done.number != work.number:
                    self._record.say("ended", flow, f"answered with {done.number}")
                    return
        except Exception as error:
            self._record.say("ended", flow, type(error).__name__)
        else:
            self._record.say("ended", flow, "answered")

    async def go_on(self, until: asyncio.Future[Any]) -> None:
        """Ask at a steady rate, now and then in a burst, until told to stop."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not until.done():
            for _ in range(BURST if self._chance.random() < LOOK_SECONDS / 10 else 1):
                self.ask_one()
            due = max(due + 1 / self._role.rate, loop.time() - 1)
            await asyncio.sleep(due - loop.time())


async def watch_lag(worst: list[float]) -> None:
    """Keep the longest time for which the loop did not turn."""
    loop = asyncio.get_running_loop()
    while True:
        before = loop.time()
        await asyncio.sleep(LOOK_SECONDS)
        worst[0] = max(worst[0], loop.time() - before - LOOK_SECONDS)


async def main(role: Role) -> None:
    """Be a member until the input ends."""
    side = role.name[:1].encode()
    node = Node(
        role.listen,
        peers=role.peers,
        identity=role.name.encode(),
        name=role.name,
        capture=role.captures,
        domains=domains_of(role.secret),
        settings=NodeSettings(pace=BEATS),
    )
    worst = [0.0]
    async with node:
        node.host(Worker(), partition=side)
        print(node.uri, flush=True)
        asker = Asker(node.hub(), role, Record(role.told))
        watching = asyncio.ensure_future(watch_lag(worst))
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await asker.go_on(ended)
        _, hanging = await asyncio.wait(asker.open, timeout=LAST_SECONDS) if asker.open else ((), ())
        watching.cancel()
        counts: dict[str, Any] = {
            "name": role.name,
            "life": role.life,
            "hanging": len(hanging),
            "open_promises": node.statistics().open_promises,
            "dead_letters": Counter(node.dead_letters.counts),
            "lag_ms": round(worst[0] * 1000),
            "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "descriptors": len(os.listdir("/proc/self/fd")),
        }
    print(msgspec.json.encode(counts).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Role)))
