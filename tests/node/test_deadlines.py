"""Deadlines: many keys with few timers, none of them early, none of them lost."""

from __future__ import annotations

import asyncio

from hopwire.node.deadlines import Deadlines
from hopwire.node.share import AT_ONCE
from hopwire.testing import Network, run


def test_very_many_keys_end_in_several_turns_of_the_loop_and_none_is_lost() -> None:
    async def story(network: Network) -> None:
        ended: list[int] = []
        deadlines = Deadlines(ended.append)
        loop = asyncio.get_running_loop()
        groups = [deadlines.add(key, loop.time(), 1.0) for key in range(3 * AT_ONCE)]
        while not ended:
            await asyncio.sleep(0.01)
        assert len(ended) < 3 * AT_ONCE
        last = 3 * AT_ONCE - 1
        groups[last].pop(last, None)  # kept meanwhile
        for _ in range(5):
            await asyncio.sleep(0)
        assert ended == list(range(last))

    run(story)


def test_a_key_whose_end_fails_costs_no_other() -> None:
    async def story(network: Network) -> None:
        ended: list[int] = []

        def end(key: int) -> None:
            if key == 1:
                raise ValueError("a fault")
            ended.append(key)

        deadlines = Deadlines(end)
        for key in range(4):
            deadlines.add(key, asyncio.get_running_loop().time(), 1.0)
        await asyncio.sleep(2)
        assert ended == [0, 2, 3]

    run(story)


def test_all_end_at_once_when_that_is_wanted_also_those_that_were_about_to() -> None:
    async def story(network: Network) -> None:
        ended: list[int] = []
        deadlines = Deadlines(ended.append)
        loop = asyncio.get_running_loop()
        for key in range(2 * AT_ONCE):
            deadlines.add(key, loop.time(), 1.0)
        while not ended:
            await asyncio.sleep(0.01)
        deadlines.add(-1, loop.time(), 60.0)
        deadlines.end_all()
        assert sorted(ended) == list(range(-1, 2 * AT_ONCE))

    run(story)


def test_a_key_that_began_long_ago_ends_at_its_time_though_another_began_later() -> None:
    async def story(network: Network) -> None:
        ended: list[str] = []
        deadlines = Deadlines(ended.append)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(1.5)
        deadlines.add("later", loop.time(), 2.0)
        deadlines.add("waited", began, 2.0)
        await asyncio.sleep(0.6)  # 2.1 s after the first began
        assert ended == ["waited"]
        await asyncio.sleep(1.5)
        assert ended == ["waited", "later"]

    run(story)
