"""Two nodes, an actor on one of them, and a hub on the other that talks to it."""

from __future__ import annotations

import asyncio

from hopwire import Payload
from hopwire.errors import HandlerFailed, NoRoute
from hopwire.node import Actor, Context, Node, handles


class Greet(Payload, identity="greeter.greet", version=1):
    name: str


class Greeting(Payload, identity="greeter.greeting", version=1):
    text: str


class Greeter(Actor):
    @handles
    async def greet(self, request: Greet, context: Context) -> Greeting:
        if not request.name:
            raise ValueError("a name is needed")
        return Greeting(text=f"hello {request.name}")


async def main() -> None:
    async with Node() as there, Node(peers=[there.uri]) as here:
        there.host(Greeter())
        await here.knows(Greet)
        hub = here.hub()
        print(await hub.ask(Greet(name="Ada"), Greeting, timeout=2))
        receipt = await hub.send(Greet(name="Bob"), at_least_once=True)
        print("taken by the other node:", receipt.node == there.identity)
        try:
            await hub.ask(Greet(name=""), Greeting)
        except HandlerFailed as error:
            print(error)
        try:
            await hub.ask(Greeting(text="who handles a greeting?"), Greet)
        except NoRoute as error:
            print("no route, and told at once:", error)


if __name__ == "__main__":
    asyncio.run(main())
