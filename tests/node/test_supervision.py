"""Actors that fail: who is started again, who is not, and what becomes of those who wait."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import hopwire as hw
from hopwire.errors import Closed, Escalated, Expired, HandlerFailed, HopwireError, NoRoute, SettingsError, Timeout
from hopwire.node import Actor, Node, handles
from hopwire.node.envelope import Envelope
from hopwire.node.news import ActorFailed, ActorRestarted, ActorStarted, ActorStopped, Events, NodeEvent
from hopwire.node.running import Running
from hopwire.node.supervision import LONGEST_PAUSE_SECONDS, WORKED_WELL_SECONDS, Pauses
from hopwire.testing import Network, run
from tests.node.stories import Greet, Greeter, Greeting


class Fragile(Greeter):
    """Fails to start so many times, and then works."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures
        self.calls: list[tuple[str, float]] = []

    async def on_start(self) -> None:
        self.calls.append(("start", asyncio.get_running_loop().time()))
        if self.failures:
            self.failures -= 1
            raise OSError("no database")

    async def on_stop(self) -> None:
        self.calls.append(("stop", asyncio.get_running_loop().time()))


def started_at(actor: Fragile) -> list[float]:
    times = [at for what, at in actor.calls if what == "start"]
    return [round(at - times[0], 3) for at in times]


async def read(events: Events, count: int) -> list[NodeEvent]:
    return [await anext(events) for _ in range(count)]


def named(events: list[NodeEvent]) -> list[str]:
    return [type(event).__name__ for event in events if hasattr(event, "actor")]


def test_an_actor_that_cannot_start_is_started_again_with_growing_pauses_until_it_can() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            actor = Fragile(4)
            node.host(actor)
            assert await node.hub().ask(Greet("Ada"), Greeting, timeout=30) == Greeting("hello Ada")
            assert started_at(actor) == [0.0, 0.1, 0.3, 0.7, 1.5]
            assert [what for what, _ in actor.calls] == ["start", "stop"] * 4 + ["start"]
        assert actor.calls[-1][0] == "stop"

    run(story)


def test_pauses_double_up_to_a_limit_and_begin_anew_after_good_work() -> None:
    pauses = Pauses()
    assert [pauses.after(0.0) for _ in range(11)][-3:] == [25.6, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]
    assert pauses.after(WORKED_WELL_SECONDS - 1) == LONGEST_PAUSE_SECONDS
    assert [pauses.after(WORKED_WELL_SECONDS), pauses.after(0.0)] == [0.1, 0.2]


def test_an_actor_that_is_down_is_not_found_by_anybody_and_is_found_again_when_it_is_up() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            while not b.peers:
                await asyncio.sleep(0.01)
            actor = Fragile(3)
            address = a.host(actor)
            await asyncio.sleep(0.05)
            for node in (a, b):
                with pytest.raises(NoRoute):
                    await node.hub().ask(Greet("Ada"), Greeting, timeout=5)
                with pytest.raises(NoRoute):
                    await node.hub().ask(Greet("Ada"), Greeting, timeout=5, to=address)
            await b.knows(Greet)
            assert len(started_at(actor)) == 4
            assert await b.hub().ask(Greet("Ada"), Greeting, timeout=5, to=address) == Greeting("hello Ada")

    run(story)


def test_what_waits_for_an_actor_that_is_down_lives_no_longer_than_it_was_to_live() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            actor = Fragile(10)
            node.host(actor)
            with pytest.raises((Timeout, Expired)):
                await node.hub().ask(Greet("Ada"), Greeting, timeout=5)
            await node.knows(Greet, timeout=1000)
            await asyncio.sleep(0.1)
            assert actor.greeted == []
            assert node.dead_letters.counts["expired"] == 1

    run(story)


def test_a_failing_start_is_logged_at_once_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Fragile(1000))
            await asyncio.sleep(0.01)
            (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
            assert record.getMessage() == "Fragile.on_start failed: OSError"
            assert record.exc_info

    run(story)


def test_events_tell_of_failures_restarts_and_the_end() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            events = node.events()
            address = node.host(Fragile(2))
            told = [event for event in await read(events, 6) if hasattr(event, "actor")]
            node.host(Greeter())
            await asyncio.sleep(0.1)
        told += [event async for event in events if hasattr(event, "actor")]
        failed = [event for event in told if isinstance(event, ActorFailed)]
        assert [(each.actor, each.name, each.where, each.restarts_in) for each in failed] == [
            (address, "Fragile", "Fragile.on_start", 0.1),
            (address, "Fragile", "Fragile.on_start", 0.2),
        ]
        assert isinstance(failed[0].error, OSError)
        assert ActorRestarted(address, "Fragile", 2) in told
        assert ActorStopped(address, "Fragile", "closed") in told
        assert [each.name for each in told if isinstance(each, ActorStarted)] == ["Greeter"]

    run(story)


def test_an_actor_under_stop_stays_down_and_tells_those_who_wait_why() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            events = node.events()
            actor = Fragile(1)
            node.host(actor, supervision="stop")
            with pytest.raises(HandlerFailed, match=r"OSError: Fragile\.on_start: no database"):
                await node.hub().ask(Greet("Ada"), Greeting, timeout=5)
            await asyncio.sleep(100)
            with pytest.raises(NoRoute):
                await node.hub().ask(Greet("Ada"), Greeting, timeout=5)
            assert [what for what, _ in actor.calls] == ["start", "stop"]
            await node.unhost(actor)
            node.host(actor)  # now it can be tried once more
            assert await node.hub().ask(Greet("Ada"), Greeting, timeout=5) == Greeting("hello Ada")
        assert named([event async for event in events])[:2] == ["ActorFailed", "ActorStopped"]

    run(story)


def test_an_actor_under_escalate_stops_its_node_and_the_error_leaves_the_block() -> None:
    async def story(network: Network) -> None:
        node = network.node()

        async def block() -> None:
            async with node:
                node.host(Fragile(1), supervision=hw.Supervision.ESCALATE)
                with pytest.raises(Escalated):
                    await node.wait_closed()
                node.hub()  # raises Closed, which says less than what leaves the block

        with pytest.raises(Escalated, match=r"Fragile\.on_start failed: OSError") as caught:
            await block()
        assert isinstance(caught.value.__context__, Closed)
        assert isinstance(caught.value.__cause__, OSError)
        assert isinstance(caught.value, HopwireError)
        assert node.uri not in network._transports

    run(story)


def test_an_error_of_the_block_itself_is_not_hidden_by_an_actor_that_escalated() -> None:
    async def story(network: Network) -> None:
        async def block() -> None:
            async with network.node() as node:
                node.host(Fragile(1), supervision="escalate")
                await asyncio.sleep(1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await block()

    run(story)


def test_who_waits_for_the_end_of_a_node_goes_on_when_it_is_stopped() -> None:
    async def story(network: Network) -> None:
        node = network.node()
        await node.start()
        waiting = asyncio.ensure_future(node.wait_closed())
        await asyncio.sleep(1)
        assert not waiting.done()
        await node.stop()
        await waiting

    run(story)


@pytest.mark.parametrize("found", ["again", 3, None])
def test_a_supervision_that_is_none_is_refused(found: Any) -> None:
    class Odd(Greeter):
        supervision = found

    with pytest.raises(SettingsError, match="supervision must be one of restart, stop, escalate"):
        Node().host(Odd())


# -- workers


class SelfWilled(Actor):
    """Does what no handler should do to the task that it runs in."""

    def __init__(self) -> None:
        self.starts = 0

    async def on_start(self) -> None:
        self.starts += 1

    @handles
    async def greet(self, request: Greet) -> Greeting:
        task = asyncio.current_task()
        assert task is not None
        if request.name == "cancel":
            task.cancel()
            await asyncio.sleep(1)
        elif request.name == "cancel and return":
            task.cancel()
        elif request.name == "cancel and raise":
            task.cancel()
            raise asyncio.CancelledError
        elif request.name == "cancel twice":
            task.cancel()
            task.cancel()
            await asyncio.sleep(1)
        elif request.name == "exit":
            raise GeneratorExit
        elif request.name == "timeout":
            async with asyncio.timeout(1):
                await asyncio.sleep(100)
        elif request.name == "timeout, then cancel":
            try:
                async with asyncio.timeout(1):
                    await asyncio.sleep(100)
            except TimeoutError:
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.sleep(1)
        return Greeting(request.name)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_handler_that_cancels_its_own_task_ends_its_message_and_no_worker(concurrency: int) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            actor = SelfWilled()
            actor.concurrency = concurrency
            node.host(actor)
            hub = node.hub()
            for _ in range(4):
                for name in ("cancel", "cancel twice", "cancel and raise", "exit", "timeout", "timeout, then cancel"):
                    with pytest.raises(HandlerFailed):
                        await hub.ask(Greet(name), Greeting, timeout=5)
                for name in ("cancel and return", "Ada"):
                    assert await hub.ask(Greet(name), Greeting, timeout=5) == Greeting(name)
            assert actor.starts == 1

    run(story)


def test_a_worker_that_is_cancelled_from_outside_is_replaced() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            actor = SelfWilled()
            node.host(actor)
            hub = node.hub()
            await hub.ask(Greet("Ada"), Greeting, timeout=5)
            for task in node._actors[id(actor)].life._tasks:
                task.cancel()
            await asyncio.sleep(0.05)
            with pytest.raises(NoRoute):
                await hub.ask(Greet("Ada"), Greeting, timeout=5)
            await node.knows(Greet)
            assert await hub.ask(Greet("Ada"), Greeting, timeout=5) == Greeting("Ada")
            assert actor.starts == 2

    run(story)


def test_a_failing_worker_takes_the_others_along_and_what_waits_is_handled_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow(SelfWilled):
        concurrency = 2

        @handles
        async def greet(self, request: Greet) -> Greeting:
            await asyncio.sleep(1)
            return Greeting(request.name)

    read = Running._read

    def broken(self: Running, envelope: Envelope) -> Any:
        payload, handler = read(self, envelope)
        if payload == Greet("1"):
            raise SystemExit("a fault of the node")
        return payload, handler

    monkeypatch.setattr(Running, "_read", broken)

    async def story(network: Network) -> None:
        async with network.node() as node:
            actor = Slow()
            node.host(actor)
            hub = node.hub()
            ended = await asyncio.gather(
                *(hub.ask(Greet(str(i)), Greeting, timeout=60) for i in range(4)), return_exceptions=True
            )
            assert [type(end).__name__ for end in ended] == ["Unreachable", "HandlerFailed", "Greeting", "Greeting"]
            assert actor.starts == 2
            assert node.statistics().inbox_messages == 0

    run(story)


def test_an_actor_is_stopped_while_it_waits_to_be_started_again() -> None:
    async def story(network: Network) -> None:
        actor = Fragile(1000)
        async with network.node() as node:
            node.host(actor)
            await asyncio.sleep(10)
            began = len(actor.calls)
        await asyncio.sleep(1000)
        assert len(actor.calls) <= began + 1
        assert [what for what, _ in actor.calls] == ["start", "stop"] * (len(actor.calls) // 2)

    run(story)


class Careless(Greeter):
    """Cancels all of its workers, the one that asks for it among them."""

    concurrency = 3

    @handles
    async def greet(self, request: Greet) -> Greeting:
        if request.name == "nobody":
            cancel_workers()
        await asyncio.sleep(0)
        return Greeting(f"hello {request.name}")


def cancel_workers() -> None:
    for task in asyncio.all_tasks():
        if "Stepping.drive" in repr(task.get_coro()):
            task.cancel()


def test_a_worker_that_cancels_all_workers_and_itself_does_not_delay_the_restart() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Careless())
            hub, events = node.hub(), node.events()
            await asyncio.gather(*(hub.ask(Greet("Ada"), Greeting) for _ in range(3)))  # all workers are there
            with pytest.raises(HandlerFailed, match="CancelledError"):
                await hub.ask(Greet("nobody"), Greeting)
            began = asyncio.get_running_loop().time()
            assert isinstance(await anext(each async for each in events if hasattr(each, "attempt")), ActorRestarted)
            assert asyncio.get_running_loop().time() - began < 1  # of the story's clock: the pause, and no more
            assert await hub.ask(Greet("Ada"), Greeting) == Greeting("hello Ada")

    run(story)


def test_a_worker_that_is_cancelled_before_its_first_step_is_a_failure_too() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            greeter = Greeter()
            node.host(greeter)
            asking = asyncio.ensure_future(node.hub().ask(Greet("Ada"), Greeting, timeout=5))
            asyncio.get_running_loop().call_soon(cancel_workers)  # hired in the same turn, and not yet at work
            assert await asking == Greeting("hello Ada")

    run(story)
