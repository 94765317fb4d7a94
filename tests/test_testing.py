"""The clock of the network in memory."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import hopwire as hw
from tests.node.stories import Count, Counter, Greet, Greeting, Number, Sleeper


class Blocking(hw.Actor):
    """Works in a thread for a while that is real."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @hw.handles
    def greet(self, request: Greet) -> Greeting:
        time.sleep(self.seconds)
        return Greeting(request.name)


@pytest.mark.slow
def test_the_clock_does_not_run_ahead_of_a_handler_in_a_thread() -> None:
    async def story(network: hw.testing.Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Blocking(0.05))
            await b.knows(Greet)
            began = asyncio.get_running_loop().time()
            for number in range(10):
                assert (await b.hub().ask(Greet(str(number)), Greeting, timeout=30)).text == str(number)
            assert 0.25 <= asyncio.get_running_loop().time() - began < 10  # time outside of the selector is not counted

    hw.testing.run(story)


@pytest.mark.slow
def test_a_question_to_a_thread_that_is_stuck_still_ends() -> None:
    class Stuck(hw.Actor):
        def __init__(self) -> None:
            self.go = threading.Event()

        @hw.handles
        def greet(self, request: Greet) -> Greeting:
            self.go.wait(20)
            return Greeting("late")

    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            stuck = Stuck()
            node.host(stuck)
            try:
                with pytest.raises(hw.Timeout):
                    await node.hub().ask(Greet("x"), Greeting, timeout=0.3)
            finally:
                stuck.go.set()

    hw.testing.run(story)


def test_a_thread_may_wait_for_what_the_loop_does_meanwhile() -> None:
    class Asks(hw.Actor):
        @hw.handles
        def greet(self, request: Greet, context: hw.BlockingContext) -> Greeting:
            return Greeting(str(context.ask(Count(1), Number, timeout=20).value))

    async def story(network: hw.testing.Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Counter())
            await b.knows(Count)
            b.host(Asks())
            assert await b.hub().ask(Greet("x"), Greeting) == Greeting("0")

    hw.testing.run(story)


def test_a_minute_without_threads_takes_no_time() -> None:
    async def story(network: hw.testing.Network) -> None:
        async with network.node() as node:
            node.host(Blocking(0.0))
            await node.hub().ask(Greet("x"), Greeting)
            await asyncio.sleep(600)

    began = time.monotonic()
    hw.testing.run(story)
    assert time.monotonic() - began < 30


def test_a_story_that_waits_for_something_that_never_comes_is_told_so() -> None:
    cleaned: list[str] = []

    async def alone(network: hw.testing.Network) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append("alone")

    with pytest.raises(hw.StoryStuck, match="nothing is left that could happen: the story waits for ever"):
        hw.testing.run(alone)

    async def with_nodes(network: hw.testing.Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]):
            try:
                await asyncio.Event().wait()
            finally:
                cleaned.append("with nodes")

    with pytest.raises(hw.StoryStuck, match="the story is not over after 30 s of its own clock"):
        hw.testing.run(with_nodes, seconds=30)
    assert cleaned == ["alone", "with nodes"]


def test_a_story_that_will_not_end_is_ended() -> None:
    async def twice(network: hw.testing.Network) -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    with pytest.raises(hw.StoryStuck):
        hw.testing.run(twice)


def test_a_story_may_cancel_itself_and_last_long() -> None:
    async def cancels(network: hw.testing.Network) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        hw.testing.run(cancels)

    async def sleeps(network: hw.testing.Network) -> None:
        await asyncio.sleep(10_000)

    hw.testing.run(sleeps, seconds=10_001)
    with pytest.raises(hw.SettingsError, match=r"seconds must be a number of seconds from .*, found 0"):
        hw.testing.run(sleeps, seconds=0)


@pytest.mark.slow
def test_a_thread_that_nobody_told_of_may_wake_a_story() -> None:
    async def story(network: hw.testing.Network) -> None:
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        timer = threading.Timer(0.05, lambda: loop.call_soon_threadsafe(came.set))
        timer.start()
        await came.wait()
        timer.join()

    hw.testing.run(story)


@pytest.mark.parametrize(
    ("name", "value"), [("drop", 1.5), ("duplicate", -0.1), ("delay", -1), ("jitter", float("inf")), ("drop", "0.5")]
)
def test_faults_that_make_no_sense_are_refused(name: str, value: object) -> None:
    with pytest.raises(hw.SettingsError, match=f"Faults: {name} must be .* found"):
        hw.testing.Faults(**{name: value})  # type: ignore[arg-type]
    faults = hw.testing.Faults()
    with pytest.raises(hw.SettingsError, match=name):
        setattr(faults, name, value)


def test_typos_in_faults_and_network_are_errors() -> None:
    with pytest.raises(AttributeError):
        hw.testing.Faults().dorp = 0.5
    with pytest.raises(AttributeError):
        hw.testing.Network().fault = hw.testing.Faults()
    with pytest.raises(hw.SettingsError, match="faults must be Faults"):
        hw.testing.Network().faults = 0.5  # type: ignore[assignment]


@pytest.mark.parametrize(("how", "reason"), [("kill", "its connection closed"), ("crash", "it says nothing any more")])
def test_a_node_is_killed_or_vanishes(how: str, reason: str) -> None:
    async def story(network: hw.testing.Network) -> float:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Sleeper())
            await b.knows(Greet)
            asked = asyncio.ensure_future(b.hub().ask(Greet("x"), Greeting, timeout=100))
            await asyncio.sleep(1)
            began = asyncio.get_running_loop().time()
            getattr(network, how)(a)
            with pytest.raises(hw.Unreachable, match=reason):
                await asked
            assert not b.peers
            return asyncio.get_running_loop().time() - began

    seconds = hw.testing.run(story)
    assert (seconds < 1) is (how == "kill")


def test_dir_shows_the_public_names() -> None:
    assert dir(hw) == sorted(hw.__all__)
    assert dir(hw.testing) == ["Faults", "Network", "StoryStuck", "run"]
