"""A member of a cluster in a process of its own: hosts an actor, and answers questions of its input.

`peers` prints how many others it knows, `routes` how many nodes handle the greeting, `ask` what one of them says, and
`lost SECONDS` how many it lost within these seconds.
"""

from __future__ import annotations

import asyncio
import sys

from hopwire.model import contract_of
from hopwire.node import Node
from hopwire.node.news import PeerLost
from tests.node.stories import Greet, Greeter, Greeting


async def main(doors: list[str]) -> None:
    async with Node(join=doors) as node:
        node.host(Greeter())
        lost = 0

        async def count_lost() -> None:
            nonlocal lost
            async for event in node.events():
                lost += isinstance(event, PeerLost)

        counting = asyncio.ensure_future(count_lost())
        print(node.uri, flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            if line.strip() == "peers":
                print(len(node.peers), flush=True)
            elif line.startswith("lost "):
                before = lost
                await asyncio.sleep(float(line.removeprefix("lost ")))
                print(lost - before, flush=True)
            elif line.strip() == "routes":
                print(len(node._tables.handlers_of(contract_of(Greet))), flush=True)
            else:
                print((await node.hub().ask(Greet("x"), Greeting, timeout=10)).text, flush=True)
        counting.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
