"""hopwire: `ask` from the hub of one node to an actor on another, or on the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.peers import Ask, Ready
from hopwire import Payload
from hopwire.node import Actor, Node, handles


class Ping(Payload, identity="bench.ping", version=1):
    data: bytes


class Pong(Payload, identity="bench.pong", version=1):
    data: bytes


class Echo(Actor):
    """Answers with what it got."""

    @handles
    async def ping(self, request: Ping) -> Pong:
        return Pong(request.data)


async def serve(ready: Ready) -> None:
    async with Node() as node:
        node.host(Echo())
        ready(node.uri)
        await asyncio.Event().wait()


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Ask]:
    async with Node(peers=[address] if address else []) as node:
        if not address:
            node.host(Echo())
        await node.knows(Ping)
        hub = node.hub()

        async def ask(body: bytes) -> bytes:
            return (await hub.ask(Ping(body), Pong)).data

        yield ask
