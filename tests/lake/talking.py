"""A network of nodes in this process that ask one another, and capture what they say."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from hopwire.errors import HopwireError
from hopwire.model import Payload
from hopwire.node import Actor, Node, handles

QUESTION = b"live.sum"
PAUSE_SECONDS = 0.02  # between two rounds of questions: the network is to last for some steps
MANY = 200  # questions, after which the pauses are twice as long: a network that has to last need not say more


class Sum(Payload, identity=QUESTION.decode(), version=1):
    """Two numbers; a negative one makes trouble."""

    one: int
    other: int


class Total(Payload, identity="live.total", version=1):
    """Their sum."""

    total: int


class Adder(Actor):
    """Adds."""

    @handles
    async def add(self, request: Sum) -> Total:
        """Give the sum, or fail."""
        if request.one < 0:
            raise ValueError("no debts")
        return Total(total=request.one + request.other)


async def talk(captures: Path, count: int, is_over: Callable[[int], bool]) -> Counter[str]:
    """Let nodes ask one another until it is enough questions; give how the questions ended, as the hubs know it."""
    ended: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for number in range(count):
            peers = [each.uri for each in nodes]
            node = Node(name=f"n{number}", peers=peers, capture=captures, capture_local=True)
            nodes.append(await stack.enter_async_context(node))
            node.host(Adder())
        hubs = [node.hub() for node in nodes]

        async def ask(number: int) -> None:
            question = Sum(one=-1 if number % 7 == 0 else number, other=1)
            try:
                await hubs[number % count].ask(question, Total, timeout=30)
                ended["answered"] += 1
            except HopwireError:
                ended["failed"] += 1

        number = 0
        while not is_over(number):
            await asyncio.gather(*(ask(number + each) for each in range(count)))
            number += count
            await asyncio.sleep(PAUSE_SECONDS * 2 ** (number // MANY))
    return ended
