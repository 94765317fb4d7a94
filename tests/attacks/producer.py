"""A node in a process of its own that tells a consumer more than it can take, until it is killed; or that consumer."""

from __future__ import annotations

import asyncio
import sys
import time

from hopwire.model import Codec, Payload
from hopwire.node import Actor, Node, NodeSettings, handles

OUTBOX_MESSAGES = 100
BUSY_SECONDS = 0.2
AT_ONCE, FULL_SECONDS = 100, 0.3  # whoever cannot tell so much in this time waits for the consumer


class Load(Payload, identity="load.load", codec=Codec.RAW):
    data: bytes


class Busy(Actor):
    """Keeps the whole loop busy for each message, as bad handlers do: its node reads little of what arrives."""

    @handles
    async def load(self, request: Load) -> None:
        time.sleep(BUSY_SECONDS)
        await asyncio.sleep(0)


async def consume() -> None:
    async with Node() as node:
        node.host(Busy())
        print(node.uri, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def produce(uri: str) -> None:
    settings = NodeSettings(outbox_messages=OUTBOX_MESSAGES)  # it waits soon
    async with Node(peers=[uri], settings=settings) as node:
        await node.knows(Load, timeout=20)
        hub, load = node.hub(), Load(bytes(20_000))
        while True:
            told = [asyncio.ensure_future(hub.tell(load)) for _ in range(AT_ONCE)]
            _, waiting = await asyncio.wait(told, timeout=FULL_SECONDS)
            if waiting:
                print("full", flush=True)
                await asyncio.wait(waiting)


if __name__ == "__main__":
    asyncio.run(produce(sys.argv[1]) if len(sys.argv) > 1 else consume())
