"""A node in a process of its own: hosts an actor, prints its address, and does what each line of its input says.

with child("greeter", node.uri) as (process, uri):
    await node.knows(Greet)
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopwire.cluster.events import Pace
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Actor, Node, NodeSettings, handles
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Keeper, Number, Sleeper

ROOT = Path(__file__).parents[2]
PATIENT = Pace(silence_ns=60 * NS_PER_SECOND)  # a machine that is busy with other tests stands still for some seconds


@contextmanager
def child(kind: str, *peers: str, formats: str = "6,5,4,3") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A node in a process of its own, and its address."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.node.child", kind, formats, *peers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environ,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


class Taker(Actor):
    """Takes a stream from another process, and never comes to its end."""

    async def on_start(self) -> None:
        self.task = asyncio.ensure_future(self._take())

    async def _take(self) -> None:
        await self.node.knows(Count)
        async for _ in self.node.hub().stream(Count(10**9), Number, timeout=600):
            await asyncio.sleep(0.001)

    @handles
    async def greet(self, request: Greet) -> None:
        pass

    node: Node


ACTORS: dict[str, type[Actor]] = {
    "greeter": Greeter,
    "counter": Counter,
    "sleeper": Sleeper,
    "taker": Taker,
    "asker": Counter,
    "keeper": Keeper,
}


async def main(kind: str, formats: str, peers: list[str]) -> None:
    settings = NodeSettings(formats=tuple(map(int, formats.split(","))), pace=PATIENT)
    kind, _, identity = kind.partition(":")
    async with Node(peers=peers, identity=identity.encode() or None, settings=settings) as node:
        actor = ACTORS[kind]()
        if isinstance(actor, Taker):
            actor.node = node
        node.host(actor)
        print(node.uri, flush=True)
        while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
            if line == "know\n":
                await node.knows(Greet)
                print("known", flush=True)
            else:
                print((await node.hub().ask(Greet("x"), Greeting, timeout=5)).text, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
