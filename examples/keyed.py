"""Three tills keep accounts in their own memory: each account always comes to the same till."""

from __future__ import annotations

import asyncio

import hopwire as hw


class Deposit(hw.Payload, identity="bank.deposit", version=1, choose="key", key="account"):
    account: str
    amount: int


class Balance(hw.Payload, identity="bank.balance", version=1):
    till: str
    amount: int


class Till(hw.Actor):
    def __init__(self, name: str) -> None:
        self.name = name
        self.accounts: dict[str, int] = {}

    @hw.handles
    async def deposit(self, request: Deposit) -> Balance:
        self.accounts[request.account] = self.accounts.get(request.account, 0) + request.amount
        return Balance(self.name, self.accounts[request.account])


async def main() -> None:
    async with hw.Node() as one, hw.Node(peers=[one.uri]) as two, hw.Node(peers=[one.uri, two.uri]) as shop:
        for node, name in ((one, "till 1"), (one, "till 2"), (two, "till 3")):
            node.host(Till(name))
        while (known := await shop.knows(Deposit)).actors < 3:
            await asyncio.sleep(0.01)
        print(f"{known.actors} actors on {known.nodes} nodes, chosen by {known.choose} {known.key}")
        for account in ("ada", "bob", "eve"):
            answers = [await shop.hub().ask(Deposit(account, 10), Balance) for _ in range(3)]
            print(account, "has", answers[-1].amount, "at", len({each.till for each in answers}), "till")
        events = shop.events()
        two.host(Till("till 4"))
        async for event in events:
            if isinstance(event, hw.KeysMoved):
                print(f"{event.came} actor came, and {event.share:.0%} of the keys moved to it")
                break


if __name__ == "__main__":
    asyncio.run(main())
