"""Streams of answers that were captured: the lake says of each what the hub was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hopwire.errors import HandlerFailed, Timeout
from hopwire.flows.rules import Rules
from hopwire.node import Actor, Node, handles
from hopwire.security import OPEN
from tests.lake.pure import judge_captures
from tests.node.stories import Count, Number


class Repeater(Actor):
    """Says the same again and again."""

    concurrency = 4

    @handles
    async def count(self, request: Count) -> AsyncIterator[Number]:
        for _ in range(abs(request.up_to)):
            yield Number(7)
        if request.up_to < 0:
            raise ValueError("below zero")
        if request.up_to == 3:
            await asyncio.sleep(100)


async def talk(captures: Path) -> None:
    async with (
        Node(name="there", capture=captures) as there,
        Node(name="here", peers=[there.uri], capture=captures) as here,
    ):
        there.host(Repeater())
        await here.knows(Count)
        hub = here.hub()
        assert len([part async for part in hub.stream(Count(100), Number, correlation_id=b"whole")]) == 100
        assert len([part async for part in hub.stream(Count(0), Number, correlation_id=b"empty")]) == 0
        with pytest.raises(HandlerFailed):
            [part async for part in hub.stream(Count(-5), Number, correlation_id=b"failed")]
        with pytest.raises(Timeout):
            [part async for part in hub.stream(Count(3), Number, correlation_id=b"slow", timeout=0.1)]
        async for _ in hub.stream(Count(1000), Number, correlation_id=b"enough"):
            break
        async for _ in hub.stream(Count(-2), Number, correlation_id=b"enough in time"):
            (promise,) = hub._promises.values()
            await asyncio.wait([promise.future])  # it has failed, and nobody reads so far
            break
        await hub.ask(Count(2), Number, correlation_id=b"asked")
        while len(there._feeds):
            await asyncio.sleep(0.01)


@pytest.mark.slow
def test_lake_says_of_streams_what_the_hub_was_told(tmp_path: Path) -> None:
    asyncio.run(talk(tmp_path))
    judged = judge_captures(tmp_path, OPEN, Rules())
    outcomes = {row["correlation_id"]: row["outcome"] for row in judged.requests.to_pylist()}
    answered = dict.fromkeys((b"whole", b"empty", b"enough", b"enough in time", b"asked"), "answered")
    assert outcomes == {**answered, b"failed": "failed", b"slow": "expired"}
    flows = {row["correlation_id"]: row for row in judged.flows.to_pylist()}
    assert [flows[each]["findings"] for each in outcomes] == [[]] * len(outcomes)
    assert flows[b"whole"]["message_count"] == 1 + 100 + 1 + 6  # question, parts, end, demands
