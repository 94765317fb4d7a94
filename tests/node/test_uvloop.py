"""A node on uvloop, which waits for sockets in its own way: the central stories once more."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import pytest

from hopwire.errors import Unreachable
from hopwire.node import Node, NodeSettings
from tests.attacks.stranger import Stranger
from tests.node.certificates import OURS
from tests.node.child import child
from tests.node.loopback import ANSWER_SECONDS, SECONDS, UNHURRIED, until
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number
from tests.node.test_credit import Parcel, Slow

uvloop = pytest.importorskip("uvloop")

Story = Callable[[], Awaitable[None]]
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.fixture(params=LOOPS, ids=["asyncio", "uvloop"])
def told(request: pytest.FixtureRequest) -> Callable[[Story], None]:
    """Tells a story on one of the loops."""

    def tell(story: Story) -> None:
        async def in_time() -> None:
            await asyncio.wait_for(story(), timeout=SECONDS)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(in_time())

    return tell


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_nodes_ask_each_other(told: Callable[[Story], None], is_encrypted: bool) -> None:
    async def story() -> None:
        tls = OURS if is_encrypted else None
        async with Node(tls=tls) as a, Node(peers=[a.uri], tls=tls) as b:
            a.host(Greeter())
            b.host(Counter())
            await b.knows(Greet)
            await a.knows(Count)
            assert await b.hub().ask(Greet("Ada"), Greeting, timeout=ANSWER_SECONDS) == Greeting("hello Ada")
            assert await a.hub().ask(Count(1), Number, timeout=ANSWER_SECONDS) == Number(0)
            assert [part.value async for part in a.hub().stream(Count(100), Number)] == list(range(100))

    told(story)


@pytest.mark.slow
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_burst_of_questions_is_answered(told: Callable[[Story], None], is_encrypted: bool) -> None:
    async def story() -> None:
        tls = OURS if is_encrypted else None
        async with Node(tls=tls) as a, Node(peers=[a.uri], tls=tls) as b:
            a.host(Greeter())
            await b.knows(Greet)
            asked = [b.hub().ask(Greet(str(number)), Greeting, timeout=20) for number in range(5000)]
            answers = await asyncio.gather(*asked)
            assert answers == [Greeting(f"hello {number}") for number in range(5000)]

    told(story)


@pytest.mark.slow
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_large_messages_pass_and_a_slow_consumer_slows_its_sender(
    told: Callable[[Story], None], is_encrypted: bool
) -> None:
    async def story() -> None:
        tls, settings = OURS if is_encrypted else None, NodeSettings(inbox_bytes=4_000_000)
        async with Node(tls=tls, settings=settings) as a, Node(peers=[a.uri], tls=tls) as b:
            a.host(slow := Slow(0.001))
            await b.knows(Parcel)
            for number in range(40):
                await b.hub().tell(Parcel(number, bytes(1_000_000)))
            await until(lambda: len(slow.taken) == 40)
            assert slow.taken == list(range(40))
            assert not a.dead_letters.counts

    told(story)


@pytest.mark.slow
def test_the_death_of_a_peer_is_seen_at_once(told: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with Node(settings=UNHURRIED) as a:
            with child("sleeper", a.uri) as (process, _):
                await a.knows(Greet)
                waiting = asyncio.ensure_future(a.hub().ask(Greet("Ada"), Greeting, timeout=SECONDS))
                await a.hub().send(Greet("arrived"), timeout=SECONDS)
                os.kill(process.pid, signal.SIGKILL)
                with pytest.raises(Unreachable):
                    await waiting

    told(story)


@pytest.mark.slow
def test_strangers_and_resets_do_no_harm(told: Callable[[Story], None]) -> None:
    async def story() -> None:
        async with Node() as a:
            a.host(Greeter())
            for number in range(30):
                stranger = Stranger(a.uri, b"stranger-%d" % number)
                if number % 3:
                    stranger.greet()
                if number % 2:
                    stranger.pour(os.urandom(1000 * number))
                stranger.reset()
                await asyncio.sleep(0)
            assert await a.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS) == Greeting("hello x")
            await until(lambda: not a._transport._inbound)  # type: ignore[attr-defined]

    told(story)
