"""One member of a chaotic network, in a process of its own.

    python -m tests.chaos.member '{"name": "a1", ...}'

It hosts a worker and a slow consumer, asks those of the other side, and writes down what each promise came to and what
it handled (`record.py`). It prints its address when it is ready, and then does what its input says, line by line:

| line | what the member does |
|---|---|
| `clock -3600000000000` | believes that it is an hour earlier than it is |
| `burst 10000` | asks so many questions at once |
| `toil 2000` | sends the slow consumers of the other side so many messages at once |
| `rest` | asks no more, waits for every promise and for its own actors, reaches every other member, prints `rested` |
| the end | goes, and prints what it counted |
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import Counter
from functools import partial
from typing import Any

import msgspec

import hopwire as hw
from hopwire.cluster.events import Pace
from hopwire.model.units import MEBIBYTE, NS_PER_SECOND
from hopwire.node import Address, Node, NodeSettings
from hopwire.node.dead import DeadLetter
from hopwire.security import OPEN, Domain, Domains, Key
from tests.chaos.clock import WallClock
from tests.chaos.record import Record
from tests.chaos.work import TEMPERS, Done, Toil, Toiler, Told, Work, Worker

SIDES = {
    "a": b"b",
    "b": b"a",
    "c": b"d",
    "d": b"c",
    "e": b"f",
    "f": b"e",
}  # nobody asks itself, so every question crosses the wire
BEATS = Pace(beat_ns=NS_PER_SECOND // 4, silence_ns=3 * NS_PER_SECOND)
SETTINGS = NodeSettings(  # limits that a burst and a slow consumer reach
    inbox_messages=1_000,
    inbox_bytes=16 * MEBIBYTE,
    outbox_messages=2_000,
    outbox_bytes=16 * MEBIBYTE,
    pace=BEATS,
)
BUFFER_ROWS = 1_000  # so that a full disk makes gaps within seconds
TIMEOUT_SECONDS = 2.0
TOIL_TIMEOUT_SECONDS = 60.0  # a message to a slow consumer may wait long, here and there
LAST_SECONDS = 75.0  # for all promises to end, and for slow consumers to come to an end
REACH_SECONDS = 20.0  # for another member to answer, when all trouble is over
LOOK_SECONDS = 0.01
LAG_SECONDS = 0.1  # that are worth a line
BURST = 500
CALLS = {"ask": 80, "insist": 10, "send": 10}  # of a hundred


class Role(msgspec.Struct):
    """Who a member is."""

    name: str
    life: int  # how often it was started before
    listen: str
    peers: tuple[str, ...]
    others: tuple[str, ...]  # the names of all other members
    captures: str
    told: str  # the file for what each promise came to
    secret: bytes  # empty where nobody signs
    seed: int
    rate: float  # questions in a second
    clock_ns: int = 0  # how far the clock is ahead
    has_small_buffer: bool = False


def domains_of(secret: bytes) -> Domains:
    """Give the one domain of the network; the secret is all that keeps the stranger out."""
    return Domains([Domain("chaos", [Key("one", secret)], ["chaos.*", "hopwire.*"])]) if secret else OPEN


class Asker:
    """Asks, and writes down what comes of it."""

    def __init__(self, hub: hw.Hub, role: Role, record: Record) -> None:
        self._hub, self._role, self._record = hub, role, record
        self._chance = random.Random(f"{role.seed} {role.name} {role.life}")
        self._other = SIDES[role.name[:1]]
        self._number = 0
        self.open: set[asyncio.Task[None]] = set()
        self.resting = asyncio.Event()

    def ask_one(self) -> None:
        """Begin a call of some kind."""
        call = self._chance.choices(list(CALLS), list(CALLS.values()))[0]
        temper = self._chance.choices(list(TEMPERS), list(TEMPERS.values()))[0]
        self.begin(call, temper, self._chance.choice((0, 64, 1024, 16_384)))

    def begin(self, call: str, temper: str = "prompt", size_bytes: int = 0) -> None:
        """Begin a call."""
        self._number += 1
        flow = f"{self._role.name}-{self._role.life}-{self._number}"
        work = Work(self._number, flow, temper, self._chance.randbytes(size_bytes))
        task = asyncio.ensure_future(self._call(call, work))
        self.open.add(task)
        task.add_done_callback(self.open.discard)

    async def _call(self, call: str, work: Work) -> None:
        self._record.say("asked", work.flow, call, work.temper, time.monotonic())
        told, holder = "answered", ""
        try:
            holder = await self._holder(call, work)
        except Exception as error:
            told = type(error).__name__
        self._record.say("ended", work.flow, told, time.monotonic(), holder)

    async def _holder(self, call: str, work: Work) -> str:
        """Make the call, and give who gave a receipt; nobody gives a receipt for a question."""
        options: dict[str, Any] = {"partition": self._other, "correlation_id": work.flow.encode()}
        if call == "send":
            return (await self._hub.send(Told(work.flow), timeout=TIMEOUT_SECONDS, **options)).node.decode()
        if call == "toil":
            return (await self._hub.send(Toil(work.flow), timeout=TOIL_TIMEOUT_SECONDS, **options)).node.decode()
        is_insisting = call == "insist"
        done = await self._hub.ask(work, Done, at_least_once=is_insisting, timeout=TIMEOUT_SECONDS, **options)
        if done.number != work.number:
            raise WrongAnswerError
        return ""

    async def go_on(self) -> None:
        """Ask at a steady rate, now and then in a burst, until it is time to rest."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self.resting.is_set():
            for _ in range(BURST if self._chance.random() < LOOK_SECONDS / 10 else 1):
                self.ask_one()
            due = max(due + 1 / self._role.rate, loop.time() - 1)
            await asyncio.sleep(due - loop.time())

    async def reach(self, name: str) -> float | None:
        """Ask one member until it answers; gives how long this took, or nothing if it never did."""
        began = time.monotonic()
        question = Work(0, f"{self._role.name}-reaches-{name}", "prompt")
        try:
            async with asyncio.timeout(REACH_SECONDS):
                while not await self._is_there(question, name.encode()):
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            return None
        return time.monotonic() - began

    async def _is_there(self, question: Work, node: bytes) -> bool:
        side = node[:1]
        try:
            await self._hub.ask(question, Done, to=Address(node), partition=side, timeout=TIMEOUT_SECONDS)
        except hw.HopwireError:
            return False
        return True


class WrongAnswerError(Exception):
    """An answer to another question."""


async def watch(node: Node, record: Record, life: str) -> None:
    """Write down when the loop did not turn for long, and when the capture skipped sightings."""
    before, worked, skipped = time.monotonic(), time.thread_time(), 0
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        now, work_now, status = time.monotonic(), time.thread_time(), node.capture_status
        if now - before - LOOK_SECONDS > LAG_SECONDS:
            record.say("lag", life, now - before - LOOK_SECONDS, now, work_now - worked)
        if status is not None and status.skipped > skipped:
            record.say("blind", now)
            skipped = status.skipped
        before, worked = now, work_now


async def obey(asker: Asker, clock: WallClock) -> bool:
    """Do what the input says until it says to rest; tells whether it did, or ended."""
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        match line.split():
            case ["clock", ahead_ns]:
                clock.ahead_ns = int(ahead_ns)
            case ["burst", count]:
                for _ in range(int(count)):
                    asker.begin("ask", size_bytes=64)
            case ["toil", count]:
                for _ in range(int(count)):
                    asker.begin("toil")
            case ["rest"]:
                return True
    return False


async def is_idle(node: Node, asker: Asker) -> bool:
    """Wait until every promise has ended, and the actors have nothing to do any more."""
    give_up_at = time.monotonic() + LAST_SECONDS
    while asker.open or node.statistics().inbox_messages:
        if time.monotonic() > give_up_at:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


async def main(role: Role) -> None:
    """Be a member until the input ends."""
    clock = WallClock(role.clock_ns)
    if role.has_small_buffer:
        import hopwire.capture  # members that capture nothing do without numpy

        settings = hopwire.capture.CaptureSettings(buffer_rows=BUFFER_ROWS)
        small = partial(hopwire.capture.CaptureWriter, settings=settings)
        setattr(hopwire.capture, "CaptureWriter", small)  # noqa: B010 - mypy knows the class
    record, life = Record(role.told), f"{role.name}-{role.life}"
    node = Node(
        role.listen,
        peers=role.peers,
        identity=role.name.encode(),
        name=role.name,
        capture=role.captures,
        domains=domains_of(role.secret),
        settings=SETTINGS,
    )

    def give_up(letter: DeadLetter) -> None:
        if letter.message is not None and letter.message.identity in (b"chaos.told", b"chaos.toil"):
            record.say("given up", letter.message.correlation_id.decode(), life, letter.reason)

    def note(flow: str) -> None:
        record.say("handled", flow, life, time.monotonic())

    counts: dict[str, Any] = {"life": life}
    async with node:
        node.dead_letters.subscribe(give_up)
        for actor in (Worker(note), Toiler(note)):
            node.host(actor, partition=role.name[:1].encode())
        print(node.uri, flush=True)
        asker = Asker(node.hub(), role, record)
        watching = asyncio.ensure_future(watch(node, record, life))
        asking = asyncio.ensure_future(asker.go_on())
        if await obey(asker, clock):
            asker.resting.set()
            await asking
            counts["is_idle"] = await is_idle(node, asker)
            counts["reached"] = await asyncio.gather(*map(asker.reach, role.others))
            print("rested", flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
            counts["is_idle"] &= await is_idle(node, asker)  # others may have sent something while they came to rest
        watching.cancel()
        asking.cancel()
        counts["open_promises"] = node.statistics().open_promises
        counts["dead_letters"] = Counter(node.dead_letters.counts)
        counts["descriptors"] = len(os.listdir("/proc/self/fd"))
    counts["capture"] = node.capture_status
    print(msgspec.json.encode(counts).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Role)))
