"""Hello: one actor answers one question, on one node."""

from __future__ import annotations

import asyncio

import hopwire as hw


class Greet(hw.Payload, identity="hello.greet", version=1):
    name: str


class Greeting(hw.Payload, identity="hello.greeting", version=1):
    text: str


class Greeter(hw.Actor):
    @hw.handles
    async def greet(self, request: Greet) -> Greeting:
        return Greeting(f"hello {request.name}")


async def main() -> None:
    async with hw.Node() as node:
        node.host(Greeter())
        hub = node.hub()
        for name in ("Ada", "Bob", "Eve"):
            answer = await hub.ask(Greet(name), Greeting, timeout=2)
            print(answer.text)
        receipt = await hub.send(Greet("nobody in particular"))
        print("a receipt instead of an answer, from", "this node" if receipt.node == node.identity else "another")


if __name__ == "__main__":
    asyncio.run(main())
