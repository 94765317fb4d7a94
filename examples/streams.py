"""Streams of answers: one question, many answers in order, at the pace of who reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import hopwire as hw


class Primes(hw.Payload, identity="stream.primes", version=1):
    below: int


class Prime(hw.Payload, identity="stream.prime", version=1):
    number: int


class Mathematician(hw.Actor):
    concurrency = 4  # a stream takes a place in its actor until it ends
    made = 0

    @hw.handles
    async def primes(self, request: Primes) -> AsyncIterator[Prime]:
        for number in range(2, request.below):
            if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
                self.made += 1
                yield Prime(number)
        if request.below > 10_000:
            raise ValueError("too many primes for one day")


async def main() -> None:
    async with hw.Node() as there, hw.Node(peers=[there.uri]) as here:
        mathematician = Mathematician()
        there.host(mathematician)
        await here.knows(Primes)
        hub = here.hub()
        print("all of them, in order:", [part.number async for part in hub.stream(Primes(30), Prime)])
        mathematician.made = 0
        async for part in hub.stream(Primes(9_999), Prime):
            if part.number > 50:
                break  # who leaves early ends the stream: the generator is closed
        print("read until", part.number, "and not all were made:", mathematician.made < 1_229)
        try:
            count = 0
            async for _ in hub.stream(Primes(10_001), Prime):
                count += 1
        except hw.HandlerFailed as error:
            print("parts before an error arrive first:", count, "parts, then", error)
        first = await hub.ask(Primes(30), Prime)
        print("an ask gets the first part:", first.number)


if __name__ == "__main__":
    asyncio.run(main())
