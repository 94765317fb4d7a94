"""A whole network in memory, with a clock that moves by itself and faults that a test chooses.

    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            ...

    run(story)

Under `run` the clock stands still while anything can happen. When nothing can happen, the clock jumps to the next
timer. So a minute of timeouts takes milliseconds, and a test never waits. While a handler works in a thread, the clock
goes as fast as the clock on the wall, or timeouts would be over before the thread had its time.

    an `ask` with timeout=30 to a node that is gone: the test goes on at once, and its clock has moved by 30 s

A story that waits for something that never comes is cancelled, and `run` raises `StoryStuck`: at once if nothing is
left that could happen, or else after an hour of its own clock, since the beats of nodes go on for ever.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from itertools import count
from math import inf
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

from hopwire.errors import SettingsError, StoryStuck
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.calls import check_seconds
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
from hopwire.node.waiters import OtherPlaces
from hopwire.wire.connection import CHANCE_BYTES, connection_name

__all__ = ["Faults", "Network", "StoryStuck", "run"]


def __dir__() -> list[str]:
    return sorted(__all__)


T = TypeVar("T")
Ts = TypeVarTuple("Ts")
STEP = 1e-9  # seconds between two messages that arrive one after the other
GRACE_SECONDS = 1.0  # on the wall, for threads that nobody has told the loop of
ENDING_SECONDS = 60.0  # of its own clock, for a story that was cancelled
NOTHING_LEFT = "nothing is left that could happen: the story waits for ever"


class _Selector(selectors.SelectSelector):
    """Moves the clock to the next timer instead of waiting for it, unless a thread is at work."""

    clock = 1000.0  # seconds
    threads = 0  # that work for the loop
    ends_at = inf  # when the story should be over
    on_stuck: Callable[[bool], None] | None = None  # while there is a story; told whether time is over

    def select(self, timeout: float | None = None) -> Any:
        if self.on_stuck is not None and not self.threads:
            if timeout is None and not self._may_be_woken():
                self.on_stuck(False)
                return []
            if timeout is not None and self.clock + timeout > self.ends_at:
                self.clock, self.ends_at = self.ends_at, self.ends_at + ENDING_SECONDS
                self.on_stuck(True)
                return []
        if self.threads and timeout is not None:
            began = time.monotonic()
            ready = super().select(timeout)
            self.clock += min(time.monotonic() - began, timeout) if ready else timeout
            return ready
        ready = super().select(0 if timeout is not None else None)
        if not ready and timeout:
            self.clock += timeout
        return ready

    def _may_be_woken(self) -> bool:
        """Tell whether a socket or a thread may still wake a loop that waits for no timer."""
        if len(self.get_map()) > 1:  # the first is the loop's own
            return True
        return threading.active_count() > 1 and bool(super().select(GRACE_SECONDS))


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    async def tell(self, story: Awaitable[T], seconds: float) -> T:
        """Wait for a story, and cancel it when it waits for ever."""
        task, stuck, virtual = asyncio.current_task(), list[str](), self._virtual
        assert task is not None

        def end(is_late: bool) -> None:
            words = f"the story is not over after {seconds:g} s of its own clock" if is_late else NOTHING_LEFT
            if stuck:  # it was told, and goes on
                raise StoryStuck(stuck[0])
            stuck.append(words)
            task.cancel()

        virtual.ends_at, virtual.on_stuck = virtual.clock + seconds, end
        try:
            return await story
        except asyncio.CancelledError as error:
            if not stuck:
                raise
            raise StoryStuck(stuck[0]) from error
        finally:
            virtual.on_stuck = None

    def time(self) -> float:
        return self._virtual.clock

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        running: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._virtual.threads += 1
        running.add_done_callback(self._thread_ended)
        return running

    def _thread_ended(self, _: asyncio.Future[Any]) -> None:
        self._virtual.threads -= 1


def run(story: Callable[[Network], Awaitable[T]], *, seed: int = 0, seconds: float = 3600.0) -> T:
    """Run a test on a network of its own, with a clock of its own; a StoryStuck says that the test would never end.

    `seed` decides all chance. `seconds` is the time that the story has by its own clock.
    """
    check_seconds("seconds", seconds)

    async def tell() -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _Loop)
        return await loop.tell(story(Network(seed)), seconds)

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(tell())


@dataclass(slots=True)
class Faults:
    """What goes wrong between nodes; a value that makes no sense is a SettingsError, also when it is set later."""

    drop: float = 0.0  # the share of messages that are lost, 0 to 1
    duplicate: float = 0.0  # the share of messages that arrive once more, 0 to 1
    delay: float = 0.0  # seconds
    jitter: float = 0.0  # up to so many seconds more, different for each message: messages overtake each other

    def __setattr__(self, name: str, value: float) -> None:
        most, expected = (1.0, "a share from 0 to 1") if name in SHARES else (inf, "seconds from 0")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in FAULTS and not (is_number and 0 <= value <= most and value != inf):
            raise SettingsError(f"Faults: {name} must be {expected}, found {value!r:.80}")
        object.__setattr__(self, name, value)


SHARES = ("drop", "duplicate")
FAULTS = frozenset(each.name for each in fields(Faults))


class Network:
    """Nodes that reach each other through memory; `faults` is what goes wrong between all of them."""

    def __init__(self, seed: int = 0) -> None:
        self.faults = Faults()
        self.chance = Random(seed)  # noqa: S311
        self._transports: dict[str, _Memory] = {}
        self._killed: set[str] = set()  # addresses where connections are refused
        self._cuts: set[frozenset[str]] = set()
        self._latest: dict[tuple[str, str], float] = {}  # when the last message from one address to another arrives
        self._names = count()
        self._count = 0

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("chance", "faults") and not name.startswith("_"):
            raise AttributeError(f"a Network has no {name!r}; its faults are in `faults`")
        if name == "faults" and not isinstance(value, Faults):
            raise SettingsError(f"faults must be Faults(...), found {value!r:.80}")
        object.__setattr__(self, name, value)

    def node(self, **settings: Any) -> Node:
        """Make a node on this network; takes the settings of `Node`.

        The border node of a partner is on this network too, as `node.border(NAME)`.
        """
        transport = self._new_transport()
        partners = [replace(each, transport=self._new_transport()) for each in settings.pop("partners", ())]
        node = Node(transport.uri, transport=transport, partners=partners, **settings)
        for each in (node, *(node.border(partner.name) for partner in partners)):
            memory = each._transport
            assert isinstance(memory, _Memory)
            memory.identity, memory.gone_seconds = each.identity, each.settings.pace.gone_ns / NS_PER_SECOND
            each._timing.hub_share.clock = lambda: 0.0
            each._timing.share.clock = lambda: 0.0  # the speed of the machine changes nothing
            each._timing.chance = self.chance.random
            if each._tap is not None:
                each._tap.now_ns, each._tap.aside = _now_ns, _at_once
        return node

    def _new_transport(self) -> _Memory:
        self._count += 1
        return _Memory(self, f"memory://{self._count}")

    def cut(self, one: Node, other: Node) -> None:
        """Let nothing pass between two nodes."""
        self._cuts.add(frozenset((one.uri, other.uri)))

    def heal(self) -> None:
        """Let everything pass again."""
        self._cuts.clear()

    def crash(self, node: Node) -> None:
        """Let a node vanish, like a machine without power: its connections stay open, and nothing comes over them.

        The others give such a node up when it was silent for too long. The objects of the node are still there.
        """
        self._transports.pop(node.uri, None)

    def kill(self, node: Node) -> None:
        """End a node like a process that is killed: its connections close at once, and it says no goodbye.

        The others miss such a node after the time of `Pace.gone_ns`. The objects of the node are still there. What its
        capture had not yet written is lost.
        """
        killed = self._transports.pop(node.uri, None)
        self._killed.add(node.uri)
        if node._tap is not None:
            node._tap.abandon()
        for other in self._transports.values() if killed is not None else ():
            if frozenset((node.uri, other.uri)) not in self._cuts:
                other.lose(node.uri, killed.connections.get(other.uri, b"") if killed else b"")

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


def _now_ns() -> int:
    """Give the time of a capture: by the clock of the story, which is the clock of all its nodes."""
    return round(asyncio.get_running_loop().time() * NS_PER_SECOND)


async def _at_once(write: Callable[..., T], *arguments: Any) -> T:
    return write(*arguments)


class _Memory:
    """The transport of one node."""

    def __init__(self, network: Network, uri: str) -> None:
        self.uri, self.identity = uri, b""
        self._network = network
        self.connections: dict[str, bytes] = {}  # address: name of the connection
        self.gone_seconds = 0.0
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
        self.on_frames, self._on_sent, self._on_gone, self._on_ended = on_frames, on_sent, on_gone, on_ended
        self._network._transports[self.uri] = self
        return self.uri

    def lose(self, uri: str, name: bytes) -> None:
        """The connections to and from an address are closed; the second one had this name."""
        loop = asyncio.get_running_loop()
        if name:
            loop.call_soon(self._on_ended, name)
        if uri in self.connections:
            loop.call_later(self.gone_seconds, self._on_gone, uri)

    def connect(self, uri: str, over: bytes = b"") -> None:
        if uri not in self.connections:
            chance = next(self._network._names).to_bytes(CHANCE_BYTES, "big")
            self.connections[uri] = connection_name(self.identity, chance)
            if uri in self._network._killed:
                asyncio.get_running_loop().call_later(self.gone_seconds, self._on_gone, uri)

    def why_silent(self, uri: str) -> str:
        return ""

    def turned_away(self) -> list[str]:
        return []

    def dial(self, uri: str) -> None:
        pass

    def address_of(self, connection: bytes) -> str:
        return ""

    def opened_as(self, name: bytes) -> str:
        return next((uri for uri, own in self.connections.items() if own == name), "")

    def certificate_of(self, connection: bytes) -> None:
        return None

    def certificate_at(self, uri: str) -> None:
        return None

    def reload(self) -> None:
        pass

    def reply(self, connection: bytes, frames: Frames) -> None:
        for other in self._network._transports.values():
            if other.connections.get(self.uri) == connection:
                self.connect(other.uri)
                self._network._carry(self, other.uri, frames)

    def dial_foreign(self, uri: str) -> None:
        pass

    def adopt(self, connection: bytes) -> str:
        return ""

    def prove(self, uri: str, over: bytes) -> None:
        pass

    def stirred(self) -> list[bytes]:
        return []

    def believe(self, connection: bytes) -> None:
        pass

    def hang_up(self, connection: bytes) -> None:
        pass

    def leave(self, uri: str) -> None:
        self._sent_at.pop(uri, None)

    def disconnect(self, uri: str) -> None:
        self.connections.pop(uri, None)

    def allow_trains(self, uri: str, is_dated: bool = False) -> None:
        pass

    def forbid_trains(self, uri: str) -> None:
        pass

    def send(
        self, uri: str, frames: Frames, size_bytes: int, is_control: bool = False, goes_first: bool = False
    ) -> str:
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

    def is_full(self, uri: str) -> bool:
        return False

    def is_idle(self, uri: str, seconds: float) -> bool:
        return asyncio.get_running_loop().time() - self._sent_at.get(uri, 0.0) > seconds

    def mark(self, uri: str) -> int:
        return 0

    def is_queued(self, uri: str, mark: int) -> bool:
        return False

    async def room(self, uri: str, elsewhere: OtherPlaces | None = None) -> str:
        await asyncio.sleep(0)
        return "" if uri in self.connections else "unreachable"

    async def close(self, timeout: float) -> None:
        await asyncio.sleep(0)
        self._network._transports.pop(self.uri, None)
