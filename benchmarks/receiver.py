"""The process at the other end of `memory.py`: takes questions and items, and keeps the books of the items.

The books are about items alone, so that what becomes of a question about them does not disturb them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopwire import Payload
from hopwire.model import contract_of
from hopwire.node import Actor, DeadLetter, Node, NodeSettings, handles

__all__ = ["Count", "Counted", "Item", "Ping", "Pong", "buried_items", "receiver"]

ROOT = Path(__file__).resolve().parents[1]


class Ping(Payload, identity="memory.ping", version=1):
    data: bytes


class Pong(Payload, identity="memory.pong", version=1):
    data: bytes


class Item(Payload, identity="memory.item", version=1):
    data: bytes


class Count(Payload, identity="memory.count", version=1):
    """Asks what has become of the items."""


class Counted(Payload, identity="memory.counted", version=1):
    handled: int
    inbox_messages: int
    inbox_bytes: int
    dead_letters: dict[str, int]


class Echo(Actor):
    """Answers with what it got."""

    @handles
    async def ping(self, request: Ping) -> Pong:
        return Pong(request.data)


class Consumer(Actor):
    """Takes its time with every item."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.handled = 0

    @handles
    async def take(self, item: Item) -> None:
        self.handled += 1
        if self.seconds:
            await asyncio.sleep(self.seconds)


class Ledger(Actor):
    """Says what has become of the items, however busy the consumer is."""

    def __init__(self, node: Node, consumer: Consumer) -> None:
        self.node, self.consumer, self.buried = node, consumer, buried_items(node)

    @handles
    async def count(self, request: Count) -> Counted:
        now = self.node.statistics()
        return Counted(self.consumer.handled, now.inbox_messages, now.inbox_bytes, dict(self.buried))


def buried_items(node: Node) -> Counter[str]:
    """Count the items that become dead letters on a node from now on, by reason."""
    buried: Counter[str] = Counter()
    identity = contract_of(Item).identity

    def bury(letter: DeadLetter) -> None:
        if letter.message is not None and letter.message.identity == identity:
            buried[letter.reason] += 1

    node.dead_letters.subscribe(bury)
    return buried


async def serve(seconds: float, inbox_messages: int) -> None:
    """Receive until the input ends."""
    async with Node(settings=NodeSettings(inbox_messages=inbox_messages)) as node:
        consumer = Consumer(seconds)
        for actor in (Echo(), consumer, Ledger(node, consumer)):
            node.host(actor)
        print(node.uri, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextmanager
def receiver(seconds: float = 0.0, inbox_messages: int = 10_000) -> Iterator[tuple[int, str]]:
    """The other process: its id and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.receiver", str(seconds), str(inbox_messages)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )
    try:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), int(sys.argv[2])))
