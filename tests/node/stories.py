"""Payloads and actors that the tests of the node share, and the two networks they run on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from hopwire.model import Payload
from hopwire.node import Actor, Context, Node, handles
from hopwire.testing import Network, run


class Greet(Payload, identity="greeter.greet", version=1):
    name: str


class Greeting(Payload, identity="greeter.greeting", version=1):
    text: str


class Count(Payload, identity="counter.count", version=2):
    up_to: int


class Number(Payload, identity="counter.number", version=2):
    value: int


class Charge(Payload, identity="keeper.charge", version=1, choose="key", key="account"):
    account: str
    amount: int = 1


class Balance(Payload, identity="keeper.balance", version=1):
    keeper: str
    amount: int


class Keeper(Actor):
    """Keeps accounts in its own memory, so each account has to come to the same keeper."""

    def __init__(self, name: str = "") -> None:
        self.name = name or f"process {os.getpid()}"
        self.accounts: dict[str, int] = {}

    @handles
    async def charge(self, request: Charge) -> Balance:
        self.accounts[request.account] = self.accounts.get(request.account, 0) + request.amount
        return Balance(self.name, self.accounts[request.account])


class Greeter(Actor):
    """Greets, and writes down whom."""

    def __init__(self, name: str = "hello") -> None:
        self.name = name
        self.greeted: list[str] = []

    @handles
    async def greet(self, request: Greet, context: Context) -> Greeting:
        self.greeted.append(request.name)
        if request.name == "nobody":
            raise ValueError("nobody cannot\nbe greeted")
        return Greeting(text=f"{self.name} {request.name}")


class Counter(Actor):
    """Returns several payloads, one after another."""

    @handles
    async def count(self, request: Count) -> AsyncIterator[Number]:
        for value in range(request.up_to):
            yield Number(value)


class Sleeper(Actor):
    """Handles a message for as long as the test wants."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.started: list[str] = []
        self.at_work = self.most_at_work = 0

    @handles
    async def greet(self, request: Greet) -> Greeting:
        self.started.append(request.name)
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        await self.wake.wait()
        self.at_work -= 1
        return Greeting(text=request.name)


async def until(is_so: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait on the clock of the story until something is so, and no longer than that."""
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.02)


class Nodes(Protocol):
    """Makes nodes: in memory or on sockets."""

    def node(self, **settings: Any) -> Node: ...


class OnSockets:
    """Nodes on ZeroMQ sockets on loopback."""

    def node(self, **settings: Any) -> Node:
        return Node("tcp://127.0.0.1:0", **settings)


Story = Callable[[Any], Awaitable[None]]


def in_memory(story: Story) -> None:
    run(story)


def on_sockets(story: Story) -> None:
    async def tell() -> None:
        await asyncio.wait_for(story(OnSockets()), timeout=60)

    asyncio.run(tell())


NETWORKS = {"memory": in_memory, "sockets": on_sockets}
MemoryNetwork = Network
