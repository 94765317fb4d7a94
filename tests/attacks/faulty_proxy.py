"""A TCP proxy between two nodes that does what bad networks do, and a run with it.

| fault | what the proxy does |
|---|---|
| `cut` | ends each connection after some bytes more, mostly within a frame |
| `stall` | passes nothing on in one direction, and keeps the connection open |
| `delay` | passes everything on some time later |
| `double` | opens a second connection for each, and says on it whatever comes on the first |
| `half` | ends one direction of each connection, and keeps the other |

    python -m tests.attacks.faulty_proxy --seconds 60 --seed 1     a long run, which says what held
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from typing import Any

from hopwire.errors import HopwireError
from hopwire.node import Node
from tests.node.stories import Greet, Greeter, Greeting
from tests.ports import free_port

FAULTS = ("cut", "stall", "delay", "double", "half")
CHUNK_BYTES = 16 * 1024
LOOK_SECONDS = 0.01
ASKERS = 4
PATIENCE_SECONDS = 30.0


class FaultyProxy:
    """Listens at an address of its own, and passes everything on to another, or nearly everything."""

    def __init__(self, chance: random.Random) -> None:
        self.target = ("127.0.0.1", free_port())  # where the node will listen
        self.uri = ""
        self._chance = chance
        self._fault, self._is_back = "", False
        self._ways: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.uri = f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def do(self, fault: str, *, is_back: bool = False) -> None:
        """Do this to all connections from now on, in one of the directions; nothing heals."""
        self._fault, self._is_back = fault, is_back

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for way in list(self._ways):
            way.cancel()
        await asyncio.gather(*self._ways, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, out = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        copies = [out]
        if self._fault == "double":
            with contextlib.suppress(OSError):
                copies.append((await asyncio.open_connection(*self.target))[1])
        self._writers.update((writer, *copies))
        for source, goals, is_back in ((reader, copies, False), (there, [writer], True)):
            way = asyncio.ensure_future(self._carry(source, goals, is_back))
            self._ways.add(way)
            way.add_done_callback(self._ways.discard)

    async def _carry(self, source: asyncio.StreamReader, goals: list[asyncio.StreamWriter], is_back: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                while self._fault == "stall" and is_back == self._is_back:
                    await asyncio.sleep(LOOK_SECONDS)
                if self._fault == "delay":
                    await asyncio.sleep(self._chance.random() / 5)
                if self._fault == "half" and is_back == self._is_back:
                    goals[0].write_eof()
                    return
                is_cut = self._fault == "cut"
                for goal in goals:
                    goal.write(data[: self._chance.randrange(len(data))] if is_cut else data)
                    await goal.drain()
                if is_cut:
                    break
        for goal in goals:
            goal.close()
            self._writers.discard(goal)


class BadNetwork:
    """Two nodes that reach each other through proxies only, and those who ask all the time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.proxies = [FaultyProxy(self.chance), FaultyProxy(self.chance)]
        self.ends: Counter[str] = Counter()
        self.insisted_in_vain: list[str] = []
        self.longest_heal = 0.0
        self._is_over = False

    async def run(self, faults: list[str], seconds: float) -> None:
        """Let all faults happen, one after the other, each for some time, and see that each heals."""
        first, second = self.proxies
        for proxy in self.proxies:
            await proxy.start()
        async with (
            Node(f"tcp://127.0.0.1:{first.target[1]}", advertise=first.uri) as here,
            Node(f"tcp://127.0.0.1:{second.target[1]}", advertise=second.uri, peers=[first.uri]) as there,
        ):
            here.host(Greeter())
            await there.knows(Greet, timeout=PATIENCE_SECONDS)
            askers = [asyncio.ensure_future(self._ask(there, number % 2 == 0)) for number in range(ASKERS)]
            for fault in faults:
                await self._suffer(there, fault, seconds)
            self._is_over = True
            await asyncio.gather(*askers)
            assert there.hub().open_promises == 0
        for proxy in self.proxies:
            await proxy.stop()

    async def _suffer(self, node: Node, fault: str, seconds: float) -> None:
        is_back = self.chance.random() < 0.5
        for proxy in self.proxies:
            proxy.do(fault, is_back=is_back)
        await asyncio.sleep(seconds)
        for proxy in self.proxies:
            proxy.do("")
        began = time.monotonic()
        await node.hub().ask(Greet("healed"), Greeting, timeout=PATIENCE_SECONDS, at_least_once=True)
        self.longest_heal = max(self.longest_heal, time.monotonic() - began)

    async def _ask(self, node: Node, is_insisted: bool) -> None:
        number = 0
        while not self._is_over:
            number += 1
            timeout = PATIENCE_SECONDS if is_insisted else 0.5
            try:
                answer = await node.hub().ask(Greet(str(number)), Greeting, timeout=timeout, at_least_once=is_insisted)
                assert str(number) in answer.text
                self.ends["answered"] += 1
            except HopwireError as error:
                self.ends[type(error).__name__] += 1
                if is_insisted:
                    self.insisted_in_vain.append(str(error))
            await asyncio.sleep(LOOK_SECONDS)


def main(arguments: Any) -> int:
    """Run for some time, and say what held."""
    network, each = BadNetwork(arguments.seed), 2.0
    faults = [FAULTS[number % len(FAULTS)] for number in range(max(1, int(arguments.seconds / each)))]
    network.chance.shuffle(faults)
    asyncio.run(network.run(faults, each))
    print(f"faults: {dict(Counter(faults))}; questions: {dict(network.ends)}")
    print(f"insisted in vain: {len(network.insisted_in_vain)}; the slowest healing: {network.longest_heal:.1f} s")
    return 1 if network.insisted_in_vain else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Two nodes on a network that cuts, stalls, delays and doubles.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    sys.exit(main(parser.parse_args()))
