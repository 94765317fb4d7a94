"""A follower beside a network of ten nodes that talk: the totals of its lake are what the hubs have counted."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pyarrow.compute as pc
import pytest

from hopwire.errors import HopwireError
from hopwire.lake.build import build
from hopwire.lake.follow import Follower, FollowSettings, following
from hopwire.lake.store import manifest_numbers, read_arrow
from hopwire.model import Payload
from hopwire.node import Actor, Node, handles
from tests.lake.test_increment import assert_same, no_spark, rows_of

NODES, QUESTIONS = 10, 60
PAUSE_SECONDS = 0.02  # between two rounds of questions: the network is to last for some steps


class Sum(Payload, identity="live.sum", version=1):
    """Two numbers; a negative one makes trouble."""

    one: int
    other: int


class Total(Payload, identity="live.total", version=1):
    """Their sum."""

    total: int


class Adder(Actor):
    """Adds."""

    @handles
    async def add(self, request: Sum) -> Total:
        """Give the sum, or fail."""
        if request.one < 0:
            raise ValueError("no debts")
        return Total(total=request.one + request.other)


async def talk(captures: Path, lake: Path) -> Counter[str]:
    """Let ten nodes ask one another until the lake has had some versions; give how the questions ended."""
    ended: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        nodes: list[Node] = []
        for number in range(NODES):
            peers = [each.uri for each in nodes]
            node = await stack.enter_async_context(
                Node(name=f"n{number}", peers=peers, capture=captures, capture_local=True)
            )
            node.host(Adder())
            nodes.append(node)
        hubs = [node.hub() for node in nodes]

        async def ask(number: int) -> None:
            question = Sum(one=-1 if number % 7 == 0 else number, other=1)
            try:
                await hubs[number % NODES].ask(question, Total, timeout=30)
                ended["answered"] += 1
            except HopwireError:
                ended["failed"] += 1

        number = 0
        while number < QUESTIONS * NODES or len(manifest_numbers(lake)) < 3:
            await asyncio.gather(*(ask(number + each) for each in range(NODES)))
            number += NODES
            await asyncio.sleep(PAUSE_SECONDS)
    return ended


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_totals_of_a_followed_lake_are_what_the_hubs_counted(tmp_path: Path) -> None:
    captures, lake = tmp_path / "captures", tmp_path / "lake"
    command = [sys.executable, "-m", "hopwire.cli", "lake", "follow", str(captures), str(lake), "--every", "0.1"]
    with subprocess.Popen([*command, "--max-rows", "500"], stderr=subprocess.PIPE, stdout=subprocess.PIPE) as follower:
        ended = asyncio.run(talk(captures, lake))
        follower.send_signal(signal.SIGKILL if sum(ended.values()) % 2 else signal.SIGTERM)
        follower.communicate()
    with following(lake) as held:
        Follower([captures], held, FollowSettings(every_seconds=0.01)).run(lambda seconds: True, is_once=True)
    requests = read_arrow(lake, "gold.requests", ["identity", "outcome"])
    asked = requests.filter(pc.equal(requests["identity"], b"live.sum"))
    assert Counter(asked["outcome"].to_pylist()) == ended
    build(no_spark, captures, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))
