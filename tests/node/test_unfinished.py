"""Messages that are not complete: beyond a limit of all of them one connection at a time is read on."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.model import Payload
from hopwire.node import Actor, Node, handles, unfinished
from hopwire.node.unfinished import FEW_BYTES, HELD_UP, PATIENCE_SECONDS, Unfinished
from tests.node.virtual_sockets import run_on_sockets

HALF = FEW_BYTES // 2


class Line:
    """A connection in the middle of a message, that writes down what it was told."""

    def __init__(self, shared: Unfinished, held_bytes: int) -> None:
        self.shared, self.told = shared, list[str]()
        self.hold(held_bytes)

    def hold(self, held_bytes: int) -> None:
        self.shared.hold(self, held_bytes)

    def waits(self) -> bool:
        return self.shared.keeps_waiting(self)

    def read_on(self) -> None:
        self.told.append("read on")

    def close(self, reason: str) -> None:
        self.told.append(reason)
        self.hold(0)


def test_nobody_waits_while_all_hold_little() -> None:
    async def story() -> None:
        shared = Unfinished(asyncio.get_running_loop())
        lines = [Line(shared, HALF), Line(shared, HALF)]
        assert [line.waits() for line in lines] == [False, False]

    asyncio.run(story())


def test_beyond_the_limit_whoever_holds_the_most_is_read_on_until_its_message_is_complete() -> None:
    async def story() -> None:
        shared = Unfinished(asyncio.get_running_loop())
        small, large = Line(shared, HALF), Line(shared, HALF + 1)
        idle = Line(shared, 0)
        assert [line.waits() for line in (small, large, idle)] == [True, False, False]
        large.hold(2 * FEW_BYTES)
        assert small.told == []
        large.hold(0)
        assert small.told == ["read on"]
        assert not small.waits()
        assert shared.total_bytes == HALF

    asyncio.run(story())


def test_who_keeps_others_waiting_for_too_long_is_cut_off() -> None:
    async def story() -> None:
        shared = Unfinished(asyncio.get_running_loop())
        stalled, next_one, last = Line(shared, FEW_BYTES + 2), Line(shared, FEW_BYTES + 1), Line(shared, 1)
        assert next_one.waits()
        assert last.waits()
        await asyncio.sleep(2 * PATIENCE_SECONDS)
        assert stalled.told == [HELD_UP]
        assert next_one.told == ["read on"]
        assert (next_one.waits(), last.waits()) == (False, True)

    run_on_sockets(story)


def test_who_holds_the_most_may_take_its_time_while_nobody_waits() -> None:
    async def story() -> None:
        shared = Unfinished(asyncio.get_running_loop())
        slow, gone = Line(shared, FEW_BYTES), Line(shared, 1)
        assert gone.waits()
        gone.close("closed")
        await asyncio.sleep(2 * PATIENCE_SECONDS)
        assert slow.told == []

    run_on_sockets(story)


class Load(Payload, identity="unfinished.load", version=1):
    data: bytes


class Weight(Payload, identity="unfinished.weight", version=1):
    size_bytes: int


class Scales(Actor):
    @handles
    async def weigh(self, load: Load) -> Weight:
        return Weight(len(load.data))


@pytest.mark.slow
def test_large_messages_of_many_nodes_at_once_all_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unfinished, "FEW_BYTES", 1_500_000)
    waited: list[bool] = []
    keeps_waiting = Unfinished.keeps_waiting

    def watched(shared: Unfinished, holder: Line) -> bool:
        waited.append(keeps_waiting(shared, holder))
        return waited[-1]

    monkeypatch.setattr(Unfinished, "keeps_waiting", watched)
    monkeypatch.setattr(unfinished, "PATIENCE_SECONDS", 600.0)  # a busy machine is no fault of theirs

    async def story() -> None:
        async with Node() as there:
            there.host(Scales())
            nodes = [Node(peers=[there.uri]) for _ in range(4)]
            for node in nodes:
                await node.start()
                await node.knows(Load)
            load = Load(bytes(5_000_000))
            asked = [node.hub().ask(load, Weight, timeout=300) for node in nodes for _ in range(3)]
            assert await asyncio.gather(*asked) == [Weight(5_000_000)] * 12
            assert there._transport._unfinished.total_bytes == 0  # type: ignore[attr-defined]
            for node in nodes:
                await node.stop()

    asyncio.run(story())
    assert any(waited)
