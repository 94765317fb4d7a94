"""Memory over a million messages: questions, a consumer that is slow, a peer that stops reading.

    python benchmarks/memory.py
    python benchmarks/memory.py --messages 100000 --bytes 4096 --only stopped

Two processes: this one sends, the other receives. The resident memory of both is sampled as the messages go. In the end
the other one says what it has, and the books must balance: every message was handled, waits in a queue, or is a dead
letter on one side or the other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.receiver import Count, Counted, Item, Ping, Pong, buried_items, receiver
from benchmarks.timing import show_table
from hopwire.errors import DeliveryError
from hopwire.node import Node, NodeSettings, Overflow

SAMPLES = 40
IN_FLIGHT = 1_000
BURST = 100  # messages that are told before the loop gets a turn
SLOW_SECONDS = 0.001  # for each message
QUEUED, HEADER_BYTES = (
    10_000,
    800,
)  # a queue may fill late, which is no growth: its messages, what each takes beside its body
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BARS = "▁▂▃▄▅▆▇█"


# -- what is found


@dataclass(slots=True)
class Watch:
    """The resident memory of both processes, in bytes, sampled as messages go."""

    other: int
    every: int
    here: list[int] = field(default_factory=list)
    there: list[int] = field(default_factory=list)

    def look(self, number: int) -> None:
        """Take a sample if it is time for one."""
        if number % self.every == 0:
            self.here.append(resident_bytes(os.getpid()))
            self.there.append(resident_bytes(self.other))


@dataclass(frozen=True, slots=True)
class Story:
    """What was sent, what became of it, and what it took."""

    sent: int
    counted: Counted
    dead_letters: dict[str, int]  # of the sender
    here: list[int]
    there: list[int]

    @property
    def missing(self) -> int:
        """How many messages nobody knows anything of."""
        dead = sum(self.dead_letters.values()) + sum(self.counted.dead_letters.values())
        return self.sent - self.counted.handled - self.counted.inbox_messages - dead


def resident_bytes(process: int) -> int:
    """Give the resident memory of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_BYTES


def is_flat(samples: list[int], body_bytes: int) -> bool:
    """Tell whether memory grew no more after the second quarter of the messages than by one queue that filled."""
    quarter = max(1, len(samples) // 4)
    before, after = median(samples[quarter : 2 * quarter] or samples), median(samples[-quarter:])
    return after - before <= QUEUED * (body_bytes + HEADER_BYTES)


# -- what is done


async def ask_story(messages: int, body: bytes) -> Story:
    """Questions between two processes, many in flight."""
    with receiver() as (process, uri):
        async with Node(peers=[uri]) as node:
            await node.knows(Ping)
            hub, watch, left = node.hub(), Watch(process, max(1, messages // SAMPLES)), iter(range(messages))

            async def worker() -> None:
                for number in left:
                    watch.look(number)
                    await hub.ask(Ping(body), Pong)

            await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
            counted = await _count(node)
            answered = Counted(messages, counted.inbox_messages, counted.inbox_bytes, counted.dead_letters)
            return Story(messages, answered, dict(node.dead_letters.counts), watch.here, watch.there)


async def slow_story(messages: int, body: bytes, inbox_messages: int = 10_000) -> Story:
    """Items for a consumer that cannot keep up."""
    with receiver(SLOW_SECONDS, inbox_messages) as (process, uri):
        async with Node(peers=[uri]) as node:
            return await _tell_all(node, process, messages, body)


async def stopped_story(messages: int, body: bytes) -> Story:
    """Items for a process that is stopped before the first of them, and goes on after the last; nobody waits for it."""
    with receiver() as (process, uri):
        async with Node(peers=[uri], settings=NodeSettings(overflow=Overflow.REFUSE)) as node:
            await node.knows(Item)
            os.kill(process, signal.SIGSTOP)
            return await _tell_all(node, process, messages, body, then=lambda: os.kill(process, signal.SIGCONT))


async def _tell_all(
    node: Node, process: int, messages: int, body: bytes, then: Callable[[], None] = lambda: None
) -> Story:
    await node.knows(Item)
    hub, buried, watch = node.hub(), buried_items(node), Watch(process, max(1, messages // SAMPLES))
    for number in range(messages):
        watch.look(number)
        await hub.tell(Item(body))
        if number % BURST == 0:
            await asyncio.sleep(0)
    then()
    counted = await _count(node)
    return Story(messages, counted, dict(buried), watch.here, watch.there)


async def _count(node: Node) -> Counted:
    """Ask the other process what it has; the question follows everything else that was sent to it."""
    hub = node.hub()
    while True:
        await node.knows(Count, timeout=60)
        try:
            return await hub.ask(Count(), Counted)
        except DeliveryError:  # there is no room for it yet
            await asyncio.sleep(0.01)


STORIES: dict[str, Callable[[int, bytes], Awaitable[Story]]] = {
    "ask": ask_story,
    "slow": slow_story,
    "stopped": stopped_story,
}


# -- showing


def sparkline(samples: list[int]) -> str:
    """Draw samples on a scale that begins at 0."""
    top = max(samples)
    return "".join(BARS[min(len(BARS) - 1, sample * len(BARS) // top)] for sample in samples)


def rows_of(name: str, story: Story, body_bytes: int) -> Iterator[list[str]]:
    """Give a row for each of the two processes."""
    sides = (("sender", story.here, story.dead_letters), ("receiver", story.there, story.counted.dead_letters))
    for side, samples, dead in sides:
        first, last, most = (f"{size / 2**20:.0f}" for size in (samples[0], samples[-1], max(samples)))
        letters = ", ".join(f"{count:,} {reason}" for reason, count in dead.items()) or "0"
        kept = f"{story.counted.handled:,} + {story.counted.inbox_messages:,}" if side == "receiver" else ""
        verdict = "flat" if is_flat(samples, body_bytes) else "GROWS"
        yield [name, side, first, most, last, sparkline(samples), verdict, kept, letters, f"{story.missing:,}"]


def run(names: list[str], messages: int = 1_000_000, body_bytes: int = 256) -> None:
    """Tell the stories and print what they took."""
    rows: list[list[str]] = []
    for name in names:
        rows += rows_of(name, asyncio.run(_told(name, messages, body_bytes)), body_bytes)
    header = ["story", "process", "first MB", "most MB", "last MB", "MB over the messages", ""]
    header += ["handled + waiting", "dead letters", "unaccounted for"]
    show_table(f"Memory, {messages:,} messages of {body_bytes} bytes", header, rows)


async def _told(name: str, messages: int, body_bytes: int) -> Story:
    return await STORIES[name](messages, bytes(body_bytes))


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=256, help="of each body")
    parser.add_argument("--only", default=",".join(STORIES), help=f"some of {', '.join(STORIES)}")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - set(STORIES):
        parser.error(f"no story is called {', '.join(sorted(unknown))}; there are {', '.join(STORIES)}")
    run(names, options.messages, options.bytes)


if __name__ == "__main__":
    main()
