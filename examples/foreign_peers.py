"""A node among programs that are no nodes: one asks the node, and the node asks the other. Both have only pyzmq."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from hopwire import Actor, Codec, Foreign, Node, NodeSettings, Payload, handles

PROGRAMS = Path(__file__).parent / "foreign"


class Greet(Payload, identity="plain.greet", version=1, codec=Codec.JSON):
    name: str


class Greeting(Payload, identity="plain.greeting", version=1, codec=Codec.JSON):
    text: str


class Greeter(Actor):
    @handles
    async def greet(self, request: Greet) -> Greeting:
        return Greeting(text=f"hello {request.name}")


async def is_asked(fmt: str) -> None:
    async with Node(settings=NodeSettings(answer_foreign=True)) as node:
        node.host(Greeter())
        program = await asyncio.create_subprocess_exec(
            sys.executable, PROGRAMS / "asks.py", node.uri, fmt, "Ada", stdout=PIPE
        )
        said, _ = await program.communicate()
        print(fmt, "the program asked, and heard:", said.decode().strip())


async def asks(fmt: str) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAMS / "answers.py", "legacy-1", stdin=PIPE, stdout=PIPE
    )
    assert program.stdin
    assert program.stdout
    uri = (await program.stdout.readline()).decode().strip()
    async with Node(foreign=[Foreign(identity=b"legacy-1", uri=uri, format=fmt, handles=[Greet])]) as node:
        await node.knows(Greet)
        print(fmt, "the node asked, and heard:", (await node.hub().ask(Greet("Bob"), Greeting, timeout=5)).text)
    program.stdin.close()
    await program.wait()


async def main() -> None:
    for fmt in ("V3", "V4", "V5", "V6"):
        await is_asked(fmt)
        await asks(fmt)


if __name__ == "__main__":
    asyncio.run(main())
