"""Real processes on loopback: they talk, they are killed, they come back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from hopwire.errors import Unreachable
from hopwire.node import KeysMoved, Node
from hopwire.node.news import Events
from tests.node.child import child
from tests.node.loopback import UNHURRIED, told, until
from tests.node.stories import Balance, Charge, Count, Counter, Greet, Greeting, Number

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("formats", ["6,5,4,3", "5"])
def test_three_processes_talk_in_both_directions(formats: str) -> None:
    async def story() -> None:
        with child("greeter", formats=formats) as (_, one), child("counter", one) as (_, two):
            async with Node(peers=[one, two], settings=UNHURRIED) as node:
                await node.knows(Greet)
                await node.knows(Count)
                hub = node.hub()
                asked = [hub.ask(Greet(str(i)), Greeting) for i in range(500)]
                assert [answer.text for answer in await asyncio.gather(*asked)] == [f"hello {i}" for i in range(500)]
                assert await hub.ask(Count(1), Number) == Number(0)
                assert not node.dead_letters.counts

    told(story)


def test_a_killed_process_is_missed_and_nothing_hangs() -> None:
    async def story() -> None:
        with child("sleeper") as (process, uri):
            async with Node(peers=[uri], settings=UNHURRIED) as node:
                await node.knows(Greet)
                hub = node.hub()
                asked = [asyncio.ensure_future(hub.ask(Greet(str(i)), Greeting, timeout=600)) for i in range(50)]
                await hub.send(Greet("arrived"))
                os.kill(process.pid, signal.SIGKILL)
                ended = await asyncio.gather(*asked, return_exceptions=True)
                assert all(isinstance(end, Unreachable) for end in ended)
                assert hub.open_promises == 0

    told(story)


def test_stream_ends_when_the_process_that_makes_it_is_killed() -> None:
    async def story() -> None:
        with child("counter") as (process, uri):
            async with Node(peers=[uri], settings=UNHURRIED) as node:
                await node.knows(Count)
                hub = node.hub()
                stream = hub.stream(Count(10**9), Number, timeout=600)
                assert [(await anext(stream)).value for _ in range(1000)] == list(range(1000))
                os.kill(process.pid, signal.SIGKILL)
                with pytest.raises(Unreachable):
                    [part async for part in stream]
                assert hub.open_promises == 0

    told(story)


def test_stream_is_closed_when_the_process_that_takes_it_is_killed() -> None:
    async def story() -> None:
        async with Node(settings=UNHURRIED) as node:
            node.host(Counter())
            with child("taker", node.uri) as (process, _):
                await until(lambda: len(node._feeds))
                os.kill(process.pid, signal.SIGKILL)
                await until(lambda: not len(node._feeds))

    told(story)


def test_what_must_arrive_reaches_the_process_that_replaces_a_killed_one() -> None:
    async def story() -> None:
        with child("greeter") as (process, uri):
            async with Node(peers=[uri], settings=UNHURRIED) as node:
                await node.knows(Greet)
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                asked = asyncio.ensure_future(node.hub().ask(Greet("Ada"), Greeting, at_least_once=True, timeout=50))
                with child("greeter", node.uri):
                    assert (await asked).text == "hello Ada"

    told(story)


def test_a_node_whose_peers_are_unreachable_stops_soon() -> None:
    async def story() -> None:
        node = Node(peers=["tcp://127.0.0.1:1", "tcp://127.0.0.1:2"])
        await node.start()
        with child("sleeper") as (process, uri):
            async with Node(peers=[uri]) as other:
                await other.knows(Greet)
                os.kill(process.pid, signal.SIGSTOP)
                for _ in range(1000):
                    await other.hub().tell(Greet("x" * 10_000))
                await asyncio.gather(node.stop(), other.stop())
                os.kill(process.pid, signal.SIGCONT)

    told(story)


def test_keys_of_a_killed_process_go_to_the_others_and_no_other_key_moves() -> None:
    async def story() -> None:
        with (
            child("keeper") as (_, one),
            child("keeper", one) as (killed, two),
            child("keeper", one, two) as (_, three),
        ):
            async with Node(peers=[one, two, three], settings=UNHURRIED) as node:
                while (await node.knows(Charge)).nodes < 3:
                    await node._next_change()
                events, hub = node.events(), node.hub()

                async def keepers() -> dict[str, str]:
                    asked = [hub.ask(Charge(f"account {n}"), Balance, at_least_once=True) for n in range(60)]
                    return {f"account {n}": each.keeper for n, each in enumerate(await asyncio.gather(*asked))}

                before = await keepers()
                assert before == await keepers()
                asked = asyncio.ensure_future(keepers())
                os.kill(killed.pid, signal.SIGKILL)
                await asked
                moved = [event async for event in _until_moved(events)][-1]
                assert (moved.contract, moved.came, moved.went) == ("keeper.charge v1", 0, 1)
                after = await keepers()
                gone = f"process {killed.pid}"
                assert gone in before.values()
                assert gone not in after.values()
                assert all(after[account] == keeper for account, keeper in before.items() if keeper != gone)

    told(story)


async def _until_moved(events: Events) -> AsyncIterator[KeysMoved]:
    async for event in events:
        if isinstance(event, KeysMoved):
            yield event
            return
