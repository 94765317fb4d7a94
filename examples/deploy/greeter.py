"""The actors of a service: `hopwire node greeter:opened` runs them.

What the actors need is opened before the node listens, and closed after it has stopped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import hopwire as hw


class Greet(hw.Payload, identity="greeter.greet", version=1):
    name: str


class Greeting(hw.Payload, identity="greeter.greeting", version=1):
    text: str


class Greeter(hw.Actor):
    def __init__(self, phrases: dict[str, str]) -> None:
        self.phrases = phrases

    @hw.handles
    async def greet(self, request: Greet) -> Greeting:
        return Greeting(text=self.phrases["hello"].format(request.name))


@asynccontextmanager
async def opened() -> AsyncIterator[Greeter]:
    phrases = {"hello": "hello {}"}  # a real service opens its database here
    try:
        yield Greeter(phrases)
    finally:
        phrases.clear()
