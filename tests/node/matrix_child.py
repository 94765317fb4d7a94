"""A process of the matrix: one node for each way to talk, all with the same actors, until its input ends."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from itertools import product
from typing import NamedTuple

from hopwire.errors import DeliveryError
from hopwire.model import Payload
from hopwire.node import Actor, Address, Hub, Node, NodeSettings, handles
from hopwire.security import OPEN, Domain, Domains, Key
from tests.node.certificates import OURS


class Way(NamedTuple):
    """How two nodes talk."""

    number: int  # of the wire format
    is_signed: bool
    is_encrypted: bool


WAYS = [Way(*way) for way in product((3, 4, 5, 6), (False, True), (False, True))]
SECRET = Key("k", b"sixteen or more bytes")
SIGNED = Domains([Domain("shop", [SECRET], ["matrix.*"]), Domain("wires", [SECRET], ["hopwire.*"])])


class Echo(Payload, identity="matrix.echo", version=1):
    text: str


class Echoed(Payload, identity="matrix.echoed", version=1):
    text: str
    process: str


class Heard(Payload, identity="matrix.heard", version=1):
    """Asks what an actor was told."""

    text: str


class Count(Payload, identity="matrix.count", version=1):
    number: int


class Try(Payload, identity="matrix.try", version=1):
    """Asks a process to make a call of its own, to one node."""

    call: str
    node: bytes
    text: str


class Tried(Payload, identity="matrix.tried", version=1):
    result: str


class Mirror(Actor):
    """Answers, and counts what it was told."""

    def __init__(self, process: str) -> None:
        self.process = process
        self.heard: list[str] = []

    @handles
    async def echo(self, request: Echo) -> Echoed:
        self.heard.append(request.text)
        if request.text == "fail":
            raise ValueError("as you wish")
        return Echoed(request.text, self.process)

    @handles
    async def count(self, request: Heard) -> Count:
        return Count(self.heard.count(request.text))


class Caller(Actor):
    """Makes calls for a process elsewhere."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    @handles
    async def call(self, request: Try) -> Tried:
        return Tried(await called(self.hub, request.call, request.text, Address(request.node)))


async def called(hub: Hub, call: str, text: str, to: Address | None, timeout: float = 10) -> str:
    """Make one call, and say in words how it ended."""
    try:
        match call:
            case "ask":
                return (await hub.ask(Echo(text), Echoed, timeout=timeout, to=to)).text
            case "ask at least once":
                return (await hub.ask(Echo(text), Echoed, timeout=timeout, to=to, at_least_once=True)).text
            case "send":
                return "receipt" if (await hub.send(Echo(text), timeout=timeout, to=to)).node else ""
            case "send at least once":
                return (
                    "receipt" if (await hub.send(Echo(text), timeout=timeout, to=to, at_least_once=True)).node else ""
                )
            case "tell":
                await hub.tell(Echo(text), ttl=timeout, to=to)
            case "broadcast":
                await hub.broadcast(Echo(text), ttl=timeout)
    except DeliveryError as error:
        return f"{type(error).__name__} {error.reason}"
    return "told"


def node_of(way: Way, peers: list[str], capture: str | None = None) -> Node:
    """A node that talks in one way and no other."""
    return Node(
        peers=peers,
        domains=SIGNED if way.is_signed else OPEN,
        tls=OURS if way.is_encrypted else None,
        settings=NodeSettings(formats=(way.number,)),
        capture=capture,
    )


async def main(process: str, *peers: str) -> None:
    async with AsyncExitStack() as stack:
        uris = []
        for way, place in zip(WAYS, range(len(WAYS)), strict=True):
            node = await stack.enter_async_context(node_of(way, [each.split(",")[place] for each in peers]))
            mirror, _ = node.host(Mirror(process)), node.host(Mirror(process))
            node.host(Caller(node.hub()))
            uris.append(f"{node.uri}|{node.identity.decode()}|{mirror.receiver.hex()}")
        print(*uris, sep=",", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
