"""A node in a process of its own: hosts an actor, prints its address, runs until its input ends."""

from __future__ import annotations

import asyncio
import sys

from hopwire.cluster.events import Pace
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings
from tests.node.stories import Counter, Greeter, Sleeper

PATIENT = Pace(silence_ns=60 * NS_PER_SECOND)  # a machine that is busy with other tests stands still for some seconds
ACTORS = {"greeter": Greeter, "counter": Counter, "sleeper": Sleeper}


async def main(kind: str, formats: str, peers: list[str]) -> None:
    settings = NodeSettings(formats=tuple(map(int, formats.split(","))), pace=PATIENT)
    async with Node(peers=peers, settings=settings) as node:
        node.host(ACTORS[kind]())
        print(node.uri, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
