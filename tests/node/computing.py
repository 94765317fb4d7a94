"""An actor that computes in processes of its own, and a node that hosts it, for tests that kill the node.

python -m tests.node.computing       prints the process of a handler that never ends
"""

from __future__ import annotations

import asyncio
import os
import signal
import time

import hopwire as hw


class Compute(hw.Payload, identity="computer.compute", version=1):
    """What the handler is to do."""

    what: str = ""


class Computed(hw.Payload, identity="computer.computed", version=1):
    """Where it was done."""

    process: int
    note: str = ""


class Unreadable(Exception):
    """An error as many libraries have it: it cannot be made from its text, so no other process can read it."""

    def __init__(self, code: int, *, text: str) -> None:
        super().__init__(f"{text} {code}")


class Computer(hw.Actor):
    """Computes."""

    concurrency = 2
    executor = "processes"

    def __init__(self, directory: str = "") -> None:
        self.directory, self.note = directory, ""

    async def on_start(self) -> None:
        self.note = "started"

    @hw.handles
    def compute(self, request: Compute) -> Computed:
        """Do what was asked for."""
        if request.what == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if request.what == "fail":
            raise ValueError("as asked")
        if request.what == "exit":
            raise SystemExit(3)
        if request.what == "unreadable":
            raise Unreadable(7, text="code")
        if request.what == "stick":
            with open(os.path.join(self.directory, str(os.getpid())), "x"):
                pass
            time.sleep(3600)
        return Computed(os.getpid(), self.note)


async def main() -> None:
    """Host the actor, ask it something that never ends, and wait to be killed."""
    import sys

    async with hw.Node() as node:
        node.host(Computer(sys.argv[1]))
        await node.hub().ask(Compute("stick"), Computed, timeout=600)


if __name__ == "__main__":
    asyncio.run(main())
