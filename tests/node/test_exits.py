"""A handler that wants to end the process ends its message, and nothing else."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from hopwire import sync
from hopwire.errors import Closed, HandlerFailed, Timeout
from hopwire.model import Payload
from hopwire.node import Actor, Node, handles
from hopwire.node.dead import DeadLetter
from tests.node.loopback import told
from tests.node.stories import Count, Greet, Greeter, Greeting, Number

SECONDS = 20.0  # after which a test counts as hanging


class Unheard(BaseException):
    """Neither an Exception nor one that asyncio knows."""


class Ends(Actor):
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    @handles
    async def greet(self, request: Greet) -> Greeting:
        raise self.kind("in a coroutine")

    @handles
    def count(self, request: Count) -> Number:
        raise self.kind("in a thread")

    @handles
    async def number(self, request: Number) -> AsyncIterator[Greeting]:
        raise self.kind("in a generator")
        yield Greeting("never")


QUESTIONS: list[tuple[Payload, type[Payload], str]] = [
    (Greet("x"), Greeting, "Ends.greet: in a coroutine"),
    (Count(1), Number, "Ends.count: in a thread"),
    (Number(1), Greeting, "Ends.number: in a generator"),
]
KINDS = [SystemExit, KeyboardInterrupt, Unheard]


@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_that_wants_to_end_the_process_fails_and_the_node_goes_on(kind: type[BaseException]) -> None:
    async def story() -> None:
        async with Node() as a, Node(peers=[a.uri]) as b:
            a.host(Ends(kind))
            await b.knows(Greet)
            for node in (a, b):
                for payload, reply, text in QUESTIONS:
                    with pytest.raises(HandlerFailed, match=f"{kind.__name__}: {text}"):
                        await node.hub().ask(payload, reply, timeout=10)
            assert a.dead_letters.counts["handler_failed"] == 2 * len(QUESTIONS)

    told(story)


class EndsEarly(Greeter):
    supervision = "stop"

    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__()
        self.kind = kind

    async def on_start(self) -> None:
        raise self.kind("before the first message")


class EndsLate(Greeter):
    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__()
        self.kind = kind

    async def on_stop(self) -> None:
        raise self.kind("after the last message")


@pytest.mark.parametrize("kind", [*KINDS, asyncio.CancelledError])
def test_an_actor_that_wants_to_end_the_process_as_it_starts_or_stops_does_not(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Node() as node:
            node.host(EndsEarly(kind))
            with pytest.raises(HandlerFailed, match=r"EndsEarly\.on_start: before the first message"):
                await node.hub().ask(Greet("x"), Greeting, timeout=10)
            assert "EndsEarly.on_start failed" in caplog.text  # at once, not at the end
        async with Node() as node:
            node.host(EndsLate(kind))
            assert await node.hub().ask(Greet("x"), Greeting, timeout=10) == Greeting("hello x")
        assert "EndsLate.on_stop failed" in caplog.text

    told(story)


@pytest.mark.parametrize("kind", [*KINDS, asyncio.CancelledError, GeneratorExit])
def test_a_stream_whose_handler_wants_to_end_the_process_fails_behind_its_parts(kind: type[BaseException]) -> None:
    class Streams(Greeter):
        @handles
        async def count(self, request: Count) -> AsyncIterator[Number]:
            yield Number(1)
            raise kind("in a stream")

    async def story() -> None:
        async with Node() as a, Node(peers=[a.uri]) as b:
            a.host(Streams())
            await b.knows(Count)
            parts = b.hub().stream(Count(1), Number, timeout=10)
            assert await anext(parts) == Number(1)
            with pytest.raises(HandlerFailed, match=f"{kind.__name__}: Streams.count: in a stream"):
                await anext(parts)
            assert await b.hub().ask(Greet("x"), Greeting, timeout=10) == Greeting("hello x")

    told(story)


class Exhausted(Actor):
    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    @handles
    def greet(self, request: Greet) -> Greeting:
        raise self.kind


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_a_blocking_handler_that_raises_what_ends_generators_fails_like_any_other(kind: type[BaseException]) -> None:
    async def story() -> None:
        async with Node() as node:
            node.host(Exhausted(kind))
            for _ in range(2):
                with pytest.raises(HandlerFailed, match=kind.__name__):
                    await node.hub().ask(Greet("x"), Greeting, timeout=5)

    told(story)


# -- code that blocks


@contextmanager
def in_time() -> Iterator[ThreadPoolExecutor]:
    """A pool for calls that must not hang; a thread that does is left behind."""
    pool = ThreadPoolExecutor(4)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False)


@pytest.mark.parametrize("kind", KINDS)
def test_blocking_code_is_told_of_a_handler_that_wants_to_end_the_process(kind: type[BaseException]) -> None:
    def story() -> None:
        with sync.Node() as node:
            node.host(Ends(kind))
            for payload, reply, text in QUESTIONS:
                with pytest.raises(HandlerFailed, match=text):
                    node.hub().ask(payload, reply, timeout=5)

    with in_time() as pool:
        pool.submit(story).result(SECONDS)


def test_calls_end_when_the_loop_of_their_node_does() -> None:
    def exit_loop(letter: DeadLetter) -> None:
        sys.exit("a subscriber that ends the loop")

    def story() -> None:
        with sync.Node() as node:
            node.dead_letters.subscribe(exit_loop)
            hub = node.hub()
            for _ in range(2):
                with pytest.raises(Closed):
                    hub.ask(Greet("x"), Greeting, timeout=5)
            with pytest.raises(Closed):
                node.host(Greeter())

    with in_time() as pool:
        pool.submit(story).result(SECONDS)


class Holds(Actor):
    """Blocks the loop of its node."""

    def __init__(self) -> None:
        self.holds, self.let_go = threading.Event(), threading.Event()

    @handles
    async def greet(self, request: Greet) -> Greeting:
        self.holds.set()
        self.let_go.wait(SECONDS)
        return Greeting("at last")


@pytest.mark.slow
def test_blocking_code_waits_no_longer_than_it_said_whatever_holds_the_loop() -> None:
    def story(actor: Holds) -> None:
        with sync.Node() as node:
            node.host(actor)
            hub = node.hub()
            calls: list[Any] = [
                lambda: hub.ask(Greet("x"), Greeting, timeout=0.2),
                lambda: hub.send(Count(1), timeout=0.2),
                lambda: hub.tell(Count(1), ttl=0.2),
                lambda: hub.broadcast(Count(1), ttl=0.2),
                lambda: hub.trace(Count(1), timeout=0.2),
                lambda: next(iter(hub.stream(Count(1), Number, timeout=0.2))),
                lambda: node.knows(Count, timeout=0.2),
                lambda: node.drain(timeout=0.2),
            ]
            for call in calls:
                with pytest.raises(Timeout, match=r"held for longer than 0"):
                    call()
                assert actor.holds.is_set()
                assert not actor.let_go.is_set()
            actor.let_go.set()
            assert hub.ask(Greet("y"), Greeting, timeout=10) == Greeting("at last")

    actor = Holds()
    with in_time() as pool:
        try:
            pool.submit(story, actor).result(SECONDS)
        finally:
            actor.let_go.set()


@pytest.mark.slow
def test_a_node_of_blocking_code_stops_in_time_whatever_holds_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def story(actor: Holds) -> None:
        node = sync.Node()
        node.start()
        node.host(actor)
        with pytest.raises(Timeout):
            node.hub().ask(Greet("x"), Greeting, timeout=0.2)
        with pytest.raises(Timeout):
            node.stop(timeout=0.2)  # the loop is held until the next line
        actor.let_go.set()
        node._portal._thread.join(SECONDS)
        node.stop()  # what could not be done then is done now

    monkeypatch.setattr(sync, "CAPTURE_SECONDS", 0.0)
    actor = Holds()
    with in_time() as pool:
        try:
            pool.submit(story, actor).result(SECONDS)
        finally:
            actor.let_go.set()


def test_a_call_that_waits_while_another_thread_stops_the_node_ends() -> None:
    class Never(Actor):
        def __init__(self) -> None:
            self.has_it = threading.Event()

        @handles
        async def greet(self, request: Greet) -> Greeting:
            self.has_it.set()
            await asyncio.sleep(SECONDS)
            return Greeting("never")

    with in_time() as pool:
        actor = Never()
        with sync.Node() as node:
            node.host(actor)
            asked = pool.submit(node.hub().ask, Greet("x"), Greeting, timeout=SECONDS)
            told = pool.submit(node.knows, Count, timeout=SECONDS)
            assert actor.has_it.wait(SECONDS)
        with pytest.raises((Closed, HandlerFailed)):
            asked.result(SECONDS)
        with pytest.raises(Closed):
            told.result(SECONDS)
