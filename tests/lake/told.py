"""Nodes in processes that are killed while they work, and what whoever asked was told.

One node asks, in the process of the test. The others work in processes of their own; now and then one of them is held
up, and then killed without a word, and begins anew under the same name. What became of every question is written down
by who asked it, so the lake has a witness that is not the lake.

    python -m tests.lake.told NAME CAPTURES ADDRESS [ADDRESS ...]        one worker
    python -m tests.lake.told judge DIRECTORY QUESTIONS KILLS SEED       a larger run by hand
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hopwire.capture.sources import list_sources, survey
from hopwire.cluster.events import Pace
from hopwire.demo.agreement import is_agreed
from hopwire.errors import HopwireError
from hopwire.flows.rules import Rules
from hopwire.model import Payload
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Actor, Context, Node, NodeSettings, handles
from hopwire.security import OPEN
from tests.lake.pure import judge_captures

HOME, WORKERS = b"home", ("w1", "w2", "w3")
LISTEN = "tcp://127.0.0.1:0"
PACE = Pace(beat_ns=NS_PER_SECOND // 4, silence_ns=NS_PER_SECOND)  # a killed node is missed within a second
RULES = Rules(patience_ns=3 * NS_PER_SECOND)  # longer than a worker is held up, or what waits for it seems lost
START_SECONDS, END_SECONDS = 60.0, 10.0  # for a process to begin and to end, however slow the machine
TIMEOUTS = (0.02, 0.1, 0.4, 1.0, 2.5)  # some too short, some longer than it takes to miss a node that was killed
HELD_UP_SECONDS = 1.5  # long enough that others give up, and what a worker says then finds nobody
PAUSES = (0.0, 0.0, 0.0, 0.01, 0.05, 0.12, 0.9)
AT_ONCE = 24
LOOK_SECONDS = 0.03  # between two looks at what changes by itself
BREATH_SECONDS = 0.1  # between two questions of one asker, at most: or all are asked while a worker begins


class Work(Payload, identity="told.work", version=1):
    """Something to do: at once or not, here or also elsewhere, well or badly."""

    pause: float = 0.0
    is_bad: bool = False
    is_shared: bool = False


class Part(Payload, identity="told.part", version=1):
    """Something to do for somebody who works."""

    pause: float = 0.0


class Done(Payload, identity="told.done", version=1):
    """It is done."""


class Worker(Actor):
    """Does it."""

    concurrency = 256

    @handles
    async def work(self, work: Work, context: Context) -> Done:
        if work.is_shared:
            return await context.ask(Part(pause=work.pause), Done)
        await asyncio.sleep(work.pause)
        if work.is_bad:
            raise ValueError("no")
        return Done()

    @handles
    async def part(self, part: Part) -> Done:
        await asyncio.sleep(part.pause)
        return Done()


async def be_worker(name: str, captures: str, *peers: str) -> None:
    """Work until the input ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    settings = NodeSettings(pace=PACE)
    async with Node(
        LISTEN, peers=peers, identity=name.encode(), name=name, capture=captures, settings=settings
    ) as node:
        node.host(Worker())
        print(node.uri, flush=True)
        await lines.read()


@asynccontextmanager
async def worker(name: str, captures: Path, *peers: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """One worker, and where it is; it is killed if it does not go by itself."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.lake.told", name, str(captures), *peers),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            uri = (await process.stdout.readline()).decode().strip()
        assert uri, f"{name} did not begin"
        yield process, uri
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            _kill(process)
            await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


class Asker:
    """Asks, and writes down what it is told."""

    def __init__(self, node: Node, chance: random.Random) -> None:
        self._node, self._hub, self._chance = node, node.hub(), chance
        self.told: dict[bytes, str] = {}

    async def ask(self, number: int) -> None:
        chance, flow = self._chance, b"question-%06d" % number
        work = Work(chance.choice(PAUSES), is_bad=chance.random() < 0.1, is_shared=chance.random() < 0.4)
        try:
            await self._hub.ask(work, Done, timeout=chance.choice(TIMEOUTS), correlation_id=flow)
            self.told[flow] = "answered"
        except HopwireError as error:
            self.told[flow] = type(error).__name__

    async def ask_many(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            await self.ask(number)
            await self._node.knows(Work, timeout=START_SECONDS)
            await asyncio.sleep(self._chance.random() * BREATH_SECONDS)


async def be_told(directory: Path, questions: int, kills: int, seed: int) -> dict[bytes, str]:
    """Ask so many questions while so many workers are killed; gives what was told of each."""
    settings = NodeSettings(pace=PACE)
    async with (
        Node(LISTEN, identity=HOME, name="home", capture=directory, settings=settings) as home,
        asyncio.TaskGroup() as group,
    ):
        asker, numbers = Asker(home, random.Random(seed)), iter(range(questions))
        crews = [Crew(name, directory, kills // len(WORKERS), seed + place) for place, name in enumerate(WORKERS)]
        for crew in crews:
            group.create_task(crew.work(home.uri, lambda: len(asker.told) / questions))
        await home.knows(Work, timeout=START_SECONDS)
        await asyncio.gather(*(asker.ask_many(numbers) for _ in range(AT_ONCE)))
        await asyncio.gather(*(crew.is_last.wait() for crew in crews))
        await asyncio.sleep(max(TIMEOUTS) + RULES.patience_ns / NS_PER_SECOND + 1)  # what is missing is missed so late
        for crew in crews:
            crew.is_over.set()
    return asker.told


class Crew:
    """One worker after another, each held up and killed after its share of the questions, but for the last.

    Each has written something before: of a life of which nothing was written nobody knows.
    """

    def __init__(self, name: str, captures: Path, kills: int, seed: int) -> None:
        self._name, self._captures, self._kills = name, captures, kills
        self._chance = random.Random(seed)
        self.is_last, self.is_over = asyncio.Event(), asyncio.Event()

    async def work(self, home: str, share: Callable[[], float]) -> None:
        """Work until it is over; `share` says how much of it is done."""
        for life in range(self._kills):
            held_up, killed = sorted((life + self._chance.random()) / (self._kills + 1) for _ in range(2))
            async with worker(self._name, self._captures, home) as (process, _):
                async with asyncio.timeout(START_SECONDS):
                    await _until(partial(self._has_written, life + 1))
                await _until(partial(_is_reached, share, held_up))
                process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(HELD_UP_SECONDS)
                process.send_signal(signal.SIGCONT)
                await _until(partial(_is_reached, share, killed))
                _kill(process)
        async with worker(self._name, self._captures, home):
            self.is_last.set()
            await self.is_over.wait()

    def _has_written(self, lives: int) -> bool:
        sources = [each for each in list_sources(self._captures) if f"-{self._name}-" in each.name]
        return sum(survey(each).summary.row_count > 0 for each in sources) >= lives


def _is_reached(share: Callable[[], float], limit: float) -> bool:
    return share() >= limit


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(LOOK_SECONDS)


class Verdict(NamedTuple):
    """What the lake says, beside what was told."""

    told: Counter[str]
    outcomes: Counter[tuple[str, str]]  # what was told, what the lake says
    disagreements: list[tuple[bytes, str, str]]
    lost_though_answered: list[bytes]  # flows
    contradicted: list[tuple[bytes, bytes, float]]  # lost on the way to a node that acts in the same flow later
    foreign: list[bytes]
    fates: Counter[str]


def judge(captures: Path, told: dict[bytes, str]) -> Verdict:
    """Hold the lake against what was told."""
    judged = judge_captures(captures, OPEN, RULES)
    said = {
        row["correlation_id"]: row["outcome"]
        for row in judged.requests.to_pylist()
        if row["callback_receiver_node_identity"] == HOME
    }
    pairs = {flow: (word, said.get(flow, "nothing")) for flow, word in told.items()}
    flows = {row["correlation_id"]: row["outcome"] for row in judged.flows.to_pylist()}
    hops = [hop for hop in judged.hops.to_pylist() if hop["correlation_id"] in told]
    return Verdict(
        Counter(told.values()),
        Counter(pairs.values()),
        [(flow, *pair) for flow, pair in pairs.items() if not is_agreed(pair[0], [pair[1]])],
        [flow for flow, word in told.items() if word == "answered" and flows.get(flow) == "lost"],
        list(_contradicted(hops)),
        [hop["correlation_id"] for hop in judged.hops.to_pylist() if hop["fate"] == "foreign"],
        Counter(hop["fate"] for hop in hops),
    )


def _contradicted(hops: list[dict[str, Any]]) -> Iterator[tuple[bytes, bytes, float]]:
    """No flow comes to a node twice, so whoever acts in it has got what was sent there."""
    acts: dict[tuple[bytes, bytes], int] = {}
    for hop in hops:
        at = hop["left_at_ns"] or hop["arrived_at_ns"]
        place = hop["correlation_id"], hop["from_node"]
        acts[place] = max(at, acts.get(place, at))
    for hop in hops:
        acted = acts.get((hop["correlation_id"], hop["to_node"]), 0)
        if hop["fate"] == "lost" and hop["to_node"] != HOME and acted > hop["left_at_ns"]:
            yield hop["correlation_id"], hop["to_node"], (acted - hop["left_at_ns"]) / NS_PER_SECOND


def _by_hand(directory: str, questions: str, kills: str, seed: str) -> None:
    told = asyncio.run(be_told(Path(directory), int(questions), int(kills), int(seed)))
    for name, value in judge(Path(directory), told)._asdict().items():
        print(f"{name}: {len(value)}", *(value.items() if isinstance(value, Counter) else value[:10]), sep="\n  ")


if __name__ == "__main__":
    if sys.argv[1] == "judge":
        _by_hand(*sys.argv[2:])
    else:
        asyncio.run(be_worker(*sys.argv[1:]))
