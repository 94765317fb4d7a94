"""A pipeline: each actor passes its result on to the next, and the last one answers straight home to who asked."""

from __future__ import annotations

import asyncio

import hopwire as hw


class Text(hw.Payload, identity="pipeline.text", version=1):
    text: str


class Words(hw.Payload, identity="pipeline.words", version=1):
    words: list[str]


class Counted(hw.Payload, identity="pipeline.counted", version=1):
    count: int
    longest: str


class Splitter(hw.Actor):
    @hw.handles
    async def split(self, request: Text) -> Words:
        return Words(request.text.split())  # nobody asked for Words: they go on to whoever handles Words


class Counter(hw.Actor):
    @hw.handles
    async def count(self, request: Words) -> Counted:
        return Counted(len(request.words), max(request.words, key=len))  # asked for: it goes home


async def main() -> None:
    async with hw.Node() as home, hw.Node(peers=[home.uri]) as one, hw.Node(peers=[home.uri, one.uri]) as two:
        one.host(Splitter())
        two.host(Counter())
        await home.knows(Text)
        await one.knows(Words)
        print("home asks for Counted, and knows nothing of Words in between:")
        found = await home.hub().ask(Text("every hop of a message is a fact"), Counted, timeout=5)
        print(f"  {found.count} words, the longest is {found.longest!r}")
        events = [asyncio.create_task(home.hub().ask(Text(f"{n} " * n), Counted)) for n in (1, 10, 100)]
        print("many at once:", [each.count for each in await asyncio.gather(*events)])
        await two.stop()
        try:
            await home.hub().ask(Text("one two"), Counted, timeout=2)
        except hw.DeliveryError as error:
            print("without the second step the asker is told:", type(error).__name__, error.contract)


if __name__ == "__main__":
    asyncio.run(main())
