"""Start, stop, drain and unhost at the worst moments: each ends, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest

from hopwire.cluster.announce import Beat, Hello
from hopwire.errors import HandlerFailed, HopwireError, NoRoute, SettingsError, Unreachable
from hopwire.model import Codec, Payload
from hopwire.node import Actor, Node, handles
from hopwire.testing import Network, _Memory, run
from tests.attacks.stranger import said
from tests.node.loopback import SELDOM, told, until
from tests.node.stories import Greet, Greeter, Greeting, Sleeper

SOON = 10  # seconds on a clock that costs nothing


def node_at(network: Network, uri: str) -> Node:
    """A node at an address where another one may have been before."""
    transport = _Memory(network, uri)
    node = Node(uri, transport=transport)
    transport.identity = node.identity
    return node


# -- actors that behave badly


class BadAtStopping(Greeter):
    async def on_stop(self) -> None:
        raise RuntimeError("cannot stop")


class SlowToStop(Greeter):
    async def on_stop(self) -> None:
        await asyncio.sleep(1000)


class Stubborn(Greeter):
    @handles
    async def greet(self, request: Greet) -> Greeting:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
        await asyncio.sleep(1000)
        return Greeting("at last")


class SlowToStart(Greeter):
    def __init__(self) -> None:
        super().__init__()
        self.was_cancelled = False

    async def on_start(self) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


def test_an_actor_that_fails_to_stop_does_not_keep_the_node_from_stopping() -> None:
    async def story(network: Network) -> None:
        node = network.node()
        await node.start()
        node.host(BadAtStopping())
        good = Sleeper()
        node.host(good)
        await asyncio.wait_for(node.stop(), SOON)
        assert node.uri not in network._transports

    run(story)


@pytest.mark.parametrize("actor", [SlowToStop, Stubborn])
def test_an_actor_that_does_not_stop_does_not_keep_the_node_from_stopping(actor: type[Actor]) -> None:
    async def story(network: Network) -> None:
        node = network.node()
        await node.start()
        node.host(actor())
        await node.hub().tell(Greet("x"))
        await asyncio.sleep(0.1)
        stopped = asyncio.ensure_future(node.stop())
        done, _ = await asyncio.wait([stopped], timeout=SOON)
        assert done
        assert node.uri not in network._transports

    run(story)


def test_an_actor_that_is_still_starting_is_stopped_with_its_node() -> None:
    async def story(network: Network) -> None:
        slow = SlowToStart()
        async with network.node() as node:
            node.host(slow)
            await asyncio.sleep(0.1)
        assert slow.was_cancelled

    run(story)


class Suicidal(Greeter):
    """Takes itself away, or its whole node, from within a handler."""

    leave: Callable[[], Awaitable[None]]

    @handles
    async def greet(self, request: Greet) -> Greeting:
        await self.leave()
        return Greeting("gone")


@pytest.mark.parametrize("way", ["unhost", "stop"])
def test_an_actor_may_take_itself_away_and_what_waits_for_it_is_told(way: str) -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            actor = Suicidal()
            actor.leave = (lambda: a.unhost(actor)) if way == "unhost" else a.stop
            a.host(actor)
            await b.knows(Greet)
            hub = b.hub()
            loop = asyncio.get_running_loop()
            began = loop.time()
            asked = [asyncio.ensure_future(hub.ask(Greet(str(i)), Greeting, timeout=1000)) for i in range(3)]
            ended = await asyncio.gather(*asked, return_exceptions=True)
            assert all(isinstance(end, Greeting | Unreachable | NoRoute | HandlerFailed) for end in ended)
            assert loop.time() - began < SOON
            await asyncio.sleep(SOON)
            if way == "stop":
                assert a.uri not in network._transports

    run(story)


class Dropping(Greeter):
    """Awaits something that somebody else cancelled."""

    @handles
    async def greet(self, request: Greet) -> Greeting:
        if request.name == "cancelled":
            other = asyncio.ensure_future(asyncio.sleep(1000))
            other.cancel()
            await other
        return Greeting(request.name)


def test_a_handler_whose_own_task_was_cancelled_is_a_failed_handler_and_the_actor_goes_on() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Dropping())
            hub = node.hub()
            with pytest.raises(HandlerFailed, match="CancelledError"):
                await hub.ask(Greet("cancelled"), Greeting, timeout=5)
            assert await hub.ask(Greet("Ada"), Greeting, timeout=5) == Greeting("Ada")

    run(story)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


ERRORS = {
    "surrogates": ValueError("file \udc80 not found"),
    "no text": Unspeakable(),
}


class Raising(Greeter):
    @handles
    async def greet(self, request: Greet) -> Greeting:
        if request.name in ERRORS:
            raise ERRORS[request.name]
        return Greeting(request.name)


@pytest.mark.parametrize("which", ["surrogates", "no text"])
def test_an_error_that_cannot_be_written_is_told_all_the_same_and_the_actor_goes_on(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)

    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Raising())
            hub = node.hub()
            with pytest.raises(HandlerFailed):
                await hub.ask(Greet(which), Greeting, timeout=5)
            assert await hub.ask(Greet("Ada"), Greeting, timeout=5) == Greeting("Ada")

    run(story)


class Two(Payload, identity="life.two", codec=Codec.RAW):
    one: bytes
    other: bytes


class TakesTwo(Greeter):
    @handles
    async def two(self, request: Two) -> None: ...


def test_an_actor_whose_payload_can_never_be_read_is_refused_when_it_is_hosted() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            with pytest.raises(SettingsError, match="Two has 2 fields"):
                node.host(TakesTwo())

    run(story)


# -- stopping twice, stopping halfway


def test_whoever_stops_a_node_second_waits_until_it_is_stopped() -> None:
    async def story(network: Network) -> None:
        node = network.node()
        await node.start()
        node.host(Greeter())
        first = asyncio.ensure_future(node.stop())
        await asyncio.sleep(0)
        await node.stop()
        assert node.uri not in network._transports
        await first

    run(story)


class Lingering(Greeter):
    async def on_stop(self) -> None:
        await asyncio.sleep(0.5)


def test_a_stop_that_was_cancelled_can_be_done_again() -> None:
    async def story(network: Network) -> None:
        node = network.node()
        await node.start()
        node.host(Lingering())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(node.stop(), 0.1)
        await node.stop()
        assert node.uri not in network._transports

    run(story)


def test_a_node_that_said_goodbye_is_not_met_again() -> None:
    async def story(network: Network) -> None:
        a = network.node()
        await a.start()
        async with network.node(peers=[a.uri]) as b:
            while not b.peers:
                await asyncio.sleep(0.01)
            transport = network._transports[a.uri]
            close = transport.close

            async def close_slowly(timeout: float) -> None:
                await asyncio.sleep(1)  # as when a peer does not read
                await close(timeout)

            transport.close = close_slowly  # type: ignore[method-assign]
            await a.stop()
            assert b.peers == ()

    run(story)


def test_a_node_that_cannot_listen_leaves_no_reader_on_the_loop() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, asyncio.SelectorEventLoop)
        before = len(loop._selector.get_map())  # type: ignore[attr-defined]
        with pytest.raises(SettingsError, match="cannot listen"):
            await Node("tcp://256.0.0.1:1", insecure=True).start()
        assert len(loop._selector.get_map()) == before  # type: ignore[attr-defined]

    asyncio.run(story())


@pytest.mark.parametrize("call", ["drain", "knows"])
def test_a_node_that_is_not_started_says_so(call: str) -> None:
    async def story(network: Network) -> None:
        node = network.node()
        with pytest.raises(HopwireError):
            await (node.drain() if call == "drain" else node.knows(Greet))

    run(story)


# -- who comes back


def test_a_process_that_comes_back_at_the_same_address_is_reached_when_the_old_one_is_missed() -> None:
    async def story(network: Network) -> None:
        async with network.node() as b:
            old = node_at(network, "memory://fixed")
            old._dial = (b.uri,)
            await old.start()
            old.host(Greeter("old"))
            await b.knows(Greet)
            network.crash(old)
            old._membership._ticker.cancel()
            new = node_at(network, "memory://fixed")
            new._dial = (b.uri,)
            async with new:
                new.host(Greeter("new"))
                await asyncio.sleep(60)
                assert await b.hub().ask(Greet("Ada"), Greeting, timeout=5) == Greeting("new Ada")
                assert not b.dead_letters.counts

    run(story)


@pytest.mark.slow
def test_two_nodes_that_dial_each_other_by_different_names_keep_talking() -> None:
    async def story() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        async with Node(peers=[f"tcp://localhost:{port}"]) as b, Node(f"tcp://127.0.0.1:{port}", peers=[b.uri]) as a:
            a.host(Greeter())
            await b.knows(Greet)
            hub = b.hub()
            for _ in range(10):
                assert await hub.ask(Greet("x"), Greeting, timeout=5) == Greeting("hello x")
                await asyncio.sleep(0.05)
            assert not b.dead_letters.counts

    told(story)


# -- what strangers make a node do


@pytest.mark.parametrize("uri", ["inproc://nowhere", "inproc://zeromq.zap.01"])
def test_an_address_within_the_process_is_none_that_others_may_name(uri: str) -> None:
    async def story() -> None:
        failed: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
        async with Node() as node:
            node._incoming.take_frames([b"X", *said(Hello(b"X", 1, uri))])
            node._incoming.take_frames([b"X", *said(Beat(b"Y", 1, uri + "2", 3))])
            await asyncio.sleep(0.2)
            assert node.dead_letters.counts["bad_control"]
        assert not failed

    asyncio.run(story())


def test_the_heart_goes_on_beating_whatever_goes_wrong_in_between() -> None:
    async def story(network: Network) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not a.peers or not b.peers:
                await asyncio.sleep(0.01)
            transport = network._transports[a.uri]
            disconnect, failures = transport.disconnect, [RuntimeError("once")]

            def fails_once(uri: str) -> None:
                if failures:
                    raise failures.pop()
                disconnect(uri)

            transport.disconnect = fails_once  # type: ignore[method-assign]
            a._incoming.take_frames([b"X", *said(Hello(b"X", 1, "memory://silent"))])
            for _ in range(60):
                await asyncio.sleep(1)
                assert b.peers == (a.identity,)
            assert not failures

    run(story)


def test_a_fault_while_one_message_is_taken_does_not_leave_the_next_one_lying() -> None:
    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
        async with Node(settings=SELDOM) as a, Node(peers=[a.uri]) as b:  # the next beat would wake it
            greeter = Greeter()
            a.host(greeter)
            await b.knows(Greet)
            seen = a.dead_letters
            add, failures = seen.add, [RuntimeError("once")]

            def fails_once(letter: object) -> None:
                if failures:
                    raise failures.pop()
                add(letter)  # type: ignore[arg-type]

            seen.add = fails_once  # type: ignore[method-assign]
            b._transport.send(a.uri, [b"", b"", b"noise"], 5)
            for i in range(3):
                await b.hub().tell(Greet(str(i)))
            await until(lambda: len(greeter.greeted) == 3)

    told(story)
