"""A whole network in memory, with a clock that moves by itself and faults that a test chooses.

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            ...

    run(story)

Under `run` the clock stands still while anything can happen. When nothing can happen, the clock jumps to the next
timer. So a minute of timeouts takes milliseconds, and a test never waits. While a handler works in a thread, the clock
goes as fast as the clock on the wall, or timeouts would be over before the thread had its time.

    an `ask` with timeout=30 to a node that is gone: the test goes on at once, and its clock has moved by 30 s
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

from hopwire.node.node import Node
from hopwire.node.transport import (
    FirstWords,
    Frames,
    OnEnded,
    OnFrames,
    OnGone,
    OnRefused,
    OnSent,
    forget_nothing,
    ignore,
    in_silence,
)
from hopwire.wire.connection import CHANCE_BYTES, connection_name

__all__ = ["Faults", "Network", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
STEP = 1e-9  # seconds between two messages that arrive one after the other


class _Selector(selectors.SelectSelector):
    """Moves the clock to the next timer instead of waiting for it, unless a thread is at work."""

    clock = 1000.0  # seconds
    threads = 0  # that work for the loop

    def select(self, timeout: float | None = None) -> Any:
        if self.threads and timeout is not None:
            began = time.monotonic()
            ready = super().select(timeout)
            self.clock += min(time.monotonic() - began, timeout) if ready else timeout
            return ready
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self.clock += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.clock

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        running: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._virtual.threads += 1
        running.add_done_callback(self._thread_ended)
        return running

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self._virtual.threads -= 1


def run(story: Callable[[Network], Awaitable[T]], *, seed: int = 0) -> T:
    """Run a test on a network of its own, with a clock of its own."""

    async def tell() -> T:
        return await story(Network(seed))

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(tell())


@dataclass(slots=True)
class Faults:
    """What goes wrong between nodes."""

    drop: float = 0.0  # the share of messages that are lost, 0 to 1
    duplicate: float = 0.0  # the share of messages that arrive once more, 0 to 1
    delay: float = 0.0  # seconds
    jitter: float = 0.0  # up to so many seconds more, different for each message: messages overtake each other


class Network:
    """Nodes that reach each other through memory."""

    def __init__(self, seed: int = 0) -> None:
        self.faults = Faults()
        self.chance = Random(seed)  # noqa: S311
        self._transports: dict[str, _Memory] = {}
        self._cuts: set[frozenset[str]] = set()
        self._latest: dict[tuple[str, str], float] = {}  # when the last message from one address to another arrives
        self._names = count()
        self._count = 0

    def node(self, **settings: Any) -> Node:
        """Make a node on this network; takes the settings of `Node`."""
        self._count += 1
        uri = f"memory://{self._count}"
        transport = _Memory(self, uri)
        node = Node(uri, transport=transport, **settings)
        transport.identity = node.identity
        node._timing.hub_share.clock = lambda: 0.0
        node._timing.share.clock = lambda: 0.0  # the speed of the machine changes nothing
        node._timing.chance = self.chance.random
        return node

    def cut(self, one: Node, other: Node) -> None:
        """Let nothing pass between two nodes."""
        self._cuts.add(frozenset((one.uri, other.uri)))

    def heal(self) -> None:
        """Let everything pass again."""
        self._cuts.clear()

    def crash(self, node: Node) -> None:
        """Let a node fall silent, like a process that is killed."""
        self._transports.pop(node.uri, None)

    def _carry(self, sender: _Memory, uri: str, frames: Frames) -> None:
        if frozenset((sender.uri, uri)) in self._cuts or sender.uri not in self._transports:
            return
        copies = 0 if self.chance.random() < self.faults.drop else 1
        copies += self.chance.random() < self.faults.duplicate
        loop = asyncio.get_running_loop()
        for _ in range(copies):
            at = loop.time() + self.faults.delay + self.faults.jitter * self.chance.random()
            if not self.faults.jitter:  # or messages of one time would arrive in any order
                at = self._latest[sender.uri, uri] = max(at, self._latest.get((sender.uri, uri), 0.0) + STEP)
            loop.call_at(at, self._arrive, uri, [sender.connections[uri], *frames[1:]])

    def _arrive(self, uri: str, frames: Frames) -> None:
        receiver = self._transports.get(uri)
        if receiver is not None:
            receiver.on_frames(frames)


class _Memory:
    """The transport of one node."""

    def __init__(self, network: Network, uri: str) -> None:
        self.uri, self.identity = uri, b""
        self._network = network
        self.connections: dict[str, bytes] = {}  # address: name of the connection
        self._sent_at: dict[str, float] = {}
        self.open_address = ""

    def start(
        self,
        on_frames: OnFrames,
        on_refused: OnRefused,
        on_gone: OnGone = ignore,
        first_words: FirstWords = in_silence,
        on_ended: OnEnded = forget_nothing,
        on_sent: OnSent | None = None,
    ) -> str:
        self.on_frames, self._on_sent = on_frames, on_sent
        self._network._transports[self.uri] = self
        return self.uri

    def connect(self, uri: str, over: bytes = b"") -> None:
        if uri not in self.connections:
            chance = next(self._network._names).to_bytes(CHANCE_BYTES, "big")
            self.connections[uri] = connection_name(self.identity, chance)

    def dial(self, uri: str) -> None:
        pass

    def address_of(self, connection: bytes) -> str:
        return ""

    def opened_as(self, name: bytes) -> str:
        return next((uri for uri, own in self.connections.items() if own == name), "")

    def reply(self, connection: bytes, frames: Frames) -> None:
        pass

    def prove(self, uri: str, over: bytes) -> None:
        pass

    def stirred(self) -> list[bytes]:
        return []

    def believe(self, connection: bytes) -> None:
        pass

    def hang_up(self, connection: bytes) -> None:
        pass

    def disconnect(self, uri: str) -> None:
        self.connections.pop(uri, None)

    def allow_trains(self, uri: str, is_dated: bool = False) -> None:
        pass

    def send(self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False) -> str:
        if uri not in self.connections:
            return "unreachable"
        if self._on_sent is not None:
            self._on_sent(frames, 1)
        self._sent_at[uri] = asyncio.get_running_loop().time()
        self._network._carry(self, uri, frames)
        return ""

    def empty(self, uri: str) -> None:
        pass

    def waiting(self) -> tuple[int, int]:
        return 0, 0

    def is_idle(self, uri: str, seconds: float) -> bool:
        return asyncio.get_running_loop().time() - self._sent_at.get(uri, 0.0) > seconds

    def mark(self, uri: str) -> int:
        return 0

    def is_queued(self, uri: str, mark: int) -> bool:
        return False

    async def room(self, uri: str) -> bool:
        await asyncio.sleep(0)
        return uri in self.connections

    async def close(self, timeout: float) -> None:
        await asyncio.sleep(0)
        self._network._transports.pop(self.uri, None)
