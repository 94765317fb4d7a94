"""Very many questions at once: whoever waits for room costs the same, alone or among thousands."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from hopwire.node import Node, NodeSettings
from hopwire.node.envelope import Envelope
from hopwire.node.waiters import ELSEWHERE, Lines, OtherPlaces, Waiters
from tests.node.child import PATIENT, child
from tests.node.loopback import told
from tests.node.stories import Greet, Greeter, Greeting
from tests.node.turns import Turns

ASKED, OUTBOX = 20_000, 1000


@pytest.mark.slow
def test_a_burst_of_questions_to_a_healthy_peer_is_answered_and_the_loop_goes_on() -> None:
    async def story() -> int:
        ended, queued = 0, 0

        with child("greeter") as (_, uri):
            async with Node(peers=[uri], settings=NodeSettings(outbox_messages=OUTBOX, pace=PATIENT)) as node:
                await node.knows(Greet)
                hub = node.hub()

                async def ask(number: int) -> None:
                    nonlocal ended
                    await hub.ask(Greet(str(number)), Greeting, timeout=60)
                    ended += 1

                def look() -> int:
                    nonlocal queued
                    queued = max(queued, node.statistics().outbox_messages)
                    return ended

                with Turns(look) as turns:
                    failed = await asyncio.gather(*map(ask, range(ASKED)), return_exceptions=True)
        assert [end for end in failed if end] == []
        assert 0 < queued < OUTBOX + 50  # beats and words about credit need no room
        return turns.most

    assert told(story) < ASKED / 4


def test_who_waits_is_woken_in_order_and_only_as_often_as_there_is_room() -> None:
    async def story() -> None:
        waiters, woken = Waiters(), list[int]()

        async def wait(number: int) -> None:
            await waiters.wait()
            woken.append(number)

        tasks = [asyncio.ensure_future(wait(number)) for number in range(5)]
        await asyncio.sleep(0)
        waiters.wake(2)
        assert (len(waiters), waiters.called) == (3, 2)
        await asyncio.sleep(0)
        assert (woken, waiters.called) == ([0, 1], 0)
        waiters.wake(9)
        await asyncio.gather(*tasks)
        assert (woken, waiters.called, len(waiters)) == ([0, 1, 2, 3, 4], 0, 0)

    asyncio.run(story())


def test_lines_have_their_turns_and_who_waits_alone_is_not_behind_all_others() -> None:
    async def story() -> None:
        lines, woken = Lines(), list[str]()

        async def wait(line: str) -> None:
            await lines.wait(line)
            woken.append(line)

        tasks = [asyncio.ensure_future(wait(line)) for line in "AAAAABBC"]
        await asyncio.sleep(0)
        for count in (4, 3):
            lines.wake(count)
            await asyncio.sleep(0)
        assert "".join(woken) == "ABCABAA"
        tasks[-4].cancel()  # the last of A
        await asyncio.wait(tasks)
        assert not lines

    asyncio.run(story())


def test_lines_of_whom_some_give_up_are_forgotten() -> None:
    async def story() -> None:
        lines = Lines()
        woken, second, alone = (asyncio.ensure_future(lines.wait(line)) for line in "AAB")
        await asyncio.sleep(0)
        lines.wake(1)
        woken.cancel()  # and the next of its line is woken
        alone.cancel()
        await asyncio.wait_for(second, 1)
        assert (woken.cancelled(), alone.cancelled(), len(lines)) == (True, True, 0)

    asyncio.run(story())


def test_who_is_woken_and_gives_up_wakes_the_next() -> None:
    async def story() -> None:
        waiters = Waiters()
        first, second = (asyncio.ensure_future(waiters.wait()) for _ in range(2))
        await asyncio.sleep(0)
        waiters.wake()
        first.cancel()
        await asyncio.wait_for(second, 1)
        assert (first.cancelled(), waiters.called, len(waiters)) == (True, 0, 0)

    asyncio.run(story())


def test_who_waits_for_room_in_a_queue_is_not_called_to_the_same_queue_by_credit() -> None:
    async def story() -> Counter[str]:
        settings = NodeSettings(outbox_messages=20)
        async with Node() as there, Node(peers=[there.uri], settings=settings) as here:
            there.host(Greeter())
            await here.knows(Greet)
            outgoing, reasons = here._outgoing, Counter[str]()
            send = outgoing.send_when_possible

            async def watched(node: bytes, envelope: Envelope, elsewhere: OtherPlaces | None = None) -> str:
                reason = await send(node, envelope, elsewhere)
                reasons[reason] += 1
                return reason

            outgoing.send_when_possible = watched  # type: ignore[method-assign]
            await asyncio.gather(*[here.hub().ask(Greet("Ada"), Greeting) for _ in range(1000)])
            return reasons

    reasons = told(story)
    assert reasons[""] > 500
    assert not reasons[ELSEWHERE]
