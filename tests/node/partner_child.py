"""A node of one of two partner networks in a process of its own; its settings are JSON, its orders come by its input.

| order | what it does, and prints |
|---|---|
| `handlers` | how many handle an order |
| `exports`, `imports` | how many contracts its gateway offers |
| `allow [...]` | lets the gateway export these, and prints when this is so |
| `load SECONDS` | asks without a pause, and prints what became of all questions |
| `taken` | the numbers of all orders that were handled here |
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from typing import Any

from hopwire.errors import HopwireError
from hopwire.model import contract_of
from hopwire.node import Node, Partner
from tests.node.partner_networks import OrderDesk, Place, Placed

ASKERS = 8


async def load(node: Node, seconds: float, first: int) -> dict[str, Any]:
    """Ask for some time, each question once or until it is answered; gives what became of them."""
    loop, hub = asyncio.get_running_loop(), node.hub()
    ends: Counter[str] = Counter()
    acknowledged: list[int] = []
    longest, until, numbers = 0.0, loop.time() + seconds, iter(range(first, first + 10_000_000))

    async def ask(is_insisted: bool) -> None:
        nonlocal longest
        while loop.time() < until:
            number, began = next(numbers), loop.time()
            try:
                answer = await hub.ask(Place(number), Placed, timeout=20, at_least_once=is_insisted)
                assert answer.number == number
                acknowledged.append(number)
                ends["answered"] += 1
            except HopwireError as error:
                ends[f"{'insisted ' if is_insisted else ''}{type(error).__name__}"] += 1
                await asyncio.sleep(0.02)
            longest = max(longest, loop.time() - began)

    await asyncio.gather(*(ask(number % 2 == 0) for number in range(ASKERS)))
    return {"ends": dict(ends), "acknowledged": acknowledged, "longest": longest, "open": hub.open_promises}


async def main(settings: dict[str, Any]) -> None:
    partner = settings.pop("partner", None)
    is_host, first = settings.pop("is_host", False), settings.pop("first", 0)
    partners = [] if partner is None else [Partner(**partner)]
    async with Node(**settings, partners=partners) as node:
        desk = OrderDesk()
        if is_host:
            node.host(desk)
        border = node.border(partners[0].name).uri if partners else "-"
        print(f"{node.uri} {border}", flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            order, _, rest = line.strip().partition(" ")
            found: Any = None
            if order == "handlers":
                found = len(node._tables.handlers_of(contract_of(Place)))
            elif order in ("exports", "imports"):
                found = len(getattr(node.partners()[0], order))
            elif order == "allow":
                node.allow(partners[0].name, export=json.loads(rest))
                found = len(node.partners()[0].exports)
            elif order == "load":
                found = await load(node, float(rest), first)
            elif order == "taken":
                found = desk.taken
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
