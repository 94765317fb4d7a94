from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.errors import SettingsError
from hopwire.node.mailbox import Mailbox, Overflow


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, timeout=30))


SIZES = st.lists(st.integers(0, 30), max_size=40)


@given(SIZES, st.integers(1, 5), st.integers(1, 50), st.sampled_from([Overflow.REFUSE, Overflow.DROP_OLDEST]))
def test_what_is_offered_is_taken_refused_or_pushed_out_and_limits_hold(
    sizes: list[int], max_items: int, max_bytes: int, overflow: Overflow
) -> None:
    box: Mailbox[int] = Mailbox(max_items, max_bytes, overflow)
    refused: list[int] = []
    pushed_out: list[int] = []
    for item, size in enumerate(sizes):
        taken, out = box.offer(item, size)
        refused += [] if taken else [item]
        pushed_out += out
        assert len(box) <= max_items
        assert box.size_bytes <= max(max_bytes, max(sizes)) or len(box) == 1
    left = box.close()
    assert sorted(refused + pushed_out + left) == list(range(len(sizes)))
    assert left == sorted(left)
    assert not refused or overflow is Overflow.REFUSE
    assert (len(box), box.size_bytes) == (0, 0)


def test_whoever_waits_for_room_gets_it_in_turn() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(2, 100)
        puts = [asyncio.ensure_future(box.put(i, 1)) for i in range(6)]
        assert [await box.take() for _ in range(6)] == list(range(6))
        assert all(taken for taken, _ in await asyncio.gather(*puts))

    run(story())


def test_a_taker_that_is_cancelled_loses_nothing() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(10, 100)
        first, second = asyncio.ensure_future(box.take()), asyncio.ensure_future(box.take())
        await asyncio.sleep(0)
        box.offer(1, 1)
        first.cancel()
        assert await second == 1

    run(story())


def test_a_putter_that_is_cancelled_lets_the_next_one_in() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(1, 100)
        box.offer(0, 1)
        first, second = asyncio.ensure_future(box.put(1, 1)), asyncio.ensure_future(box.put(2, 1))
        await asyncio.sleep(0)
        assert await box.take() == 0
        first.cancel()
        await second
        assert await box.take() == 2

    run(story())


def test_closing_refuses_those_who_wait() -> None:
    async def story() -> None:
        box: Mailbox[int] = Mailbox(1, 100)
        box.offer(0, 1)
        waiting = asyncio.ensure_future(box.put(1, 1))
        await asyncio.sleep(0)
        assert box.close() == [0]
        assert await waiting == (False, ())
        assert box.offer(2, 1) == (False, ())

    run(story())


def test_one_item_larger_than_the_limit_is_taken_when_nothing_else_is_there() -> None:
    box: Mailbox[str] = Mailbox(10, 5)
    assert box.offer("large", 100) == (True, ())
    assert not box.has_room(1)


@pytest.mark.parametrize("limits", [(0, 1), (1, 0)])
def test_limits_that_make_no_sense_are_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(SettingsError, match="at least one"):
        Mailbox(*limits)
