"""One flow, and the lives of nodes, straight from captures."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from hopwire.errors import HopwireError
from hopwire.flows.lives import lives_from_clocks
from hopwire.flows.rules import Rules
from hopwire.lake.query import ids_like
from hopwire.lake.straight import read_straight
from hopwire.security import OPEN
from hopwire.testing import Network, run
from tests.cli.running import hopwire
from tests.lake.pure import judge_captures
from tests.node.stories import Greet, Greeter, Greeting

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One question that is answered, one that is lost with its node, which comes back under another identity."""
    place = tmp_path_factory.mktemp("straight")

    async def story(network: Network) -> None:
        async with (
            network.node(name="there", identity=b"T1", capture=place) as there,
            network.node(name="here", identity=b"H", peers=[there.uri], capture=place) as here,
        ):
            there.host(Greeter())
            await here.knows(Greet)
            await here.hub().ask(Greet("a"), Greeting, correlation_id=b"order-1")
            await asyncio.sleep(3)
            network.kill(there)
            with suppress(HopwireError):
                await here.hub().ask(Greet("b"), Greeting, timeout=1, correlation_id=b"order-2")
            await asyncio.sleep(5)
            async with network.node(name="there", identity=b"T2", peers=[here.uri], capture=place):
                await asyncio.sleep(10)

    run(story)
    return place


def test_flow_straight_from_captures_is_the_flow_of_a_lake(captures: Path) -> None:
    read, judged = read_straight(captures), judge_captures(captures, OPEN, Rules())
    for row in judged.flows.to_pylist():
        if row["correlation_id"].startswith(b"order"):
            flow, requests = read.flow(row["correlation_id"], Rules())
            assert flow == row
            assert [each["told"] for each in requests] == ([None] if flow["outcome"] == "answered" else ["Unreachable"])
    assert {b"order-1", b"order-2"} <= set(read.flow_ids.to_pylist())


def test_large_flow_straight_from_captures_is_cut_as_in_a_lake(captures: Path) -> None:
    read = read_straight(captures)
    whole, _ = read.flow(b"order-1", Rules())
    flow, requests = read.flow(b"order-1", Rules(max_flow_rows=1))
    assert (whole["is_oversized"], flow["is_oversized"]) == (False, True)
    assert flow["steps"] == whole["steps"][:1]
    assert flow["hop_count"] == whole["hop_count"] > 1
    assert [each["outcome"] for each in requests] == ["answered"]


def test_beginning_of_an_id_means_a_flow_of_users_where_there_is_one(captures: Path) -> None:
    ids, of_users = pa.array([b"ab-0", b"ab-1", b"c-0"]), pa.array([b"ab-1"])
    assert [ids_like(ids, of_users, text, 6) for text in ("ab", "ab-0", "c")] == [[b"ab-1"], [b"ab-0"], [b"c-0"]]
    assert {b"order-1", b"order-2"} == set(read_straight(captures).flow_ids_of_users.to_pylist())


def test_lives_say_who_died_and_came_back_under_another_identity(captures: Path) -> None:
    rows = lives_from_clocks(read_straight(captures).clocks).to_pylist()
    assert {row["node"]: (row["ending"], row["back_as_node"]) for row in rows} == {
        b"T1": ("died", b"T2"),
        b"H": ("stopped", None),
        b"T2": ("stopped", None),
    }


def test_commands_read_captures_without_a_lake(captures: Path) -> None:
    shown = hopwire("flows", "show", str(captures), "order-1")
    assert (shown.code, shown.err) == (0, "")
    assert "greeter.greet from here: answered" in shown.out
    several = hopwire("flows", "show", str(captures), "order")
    assert "several flows begin with 'order': order-1, order-2" in several.err
    lives = hopwire("flows", "lives", str(captures), columns=160)
    assert "as T2" in next(line for line in lives.out.splitlines() if "died" in line)


def test_file_whose_name_is_no_text_is_named_and_the_others_are_read(captures: Path, tmp_path: Path) -> None:
    place = tmp_path / "captures"
    shutil.copytree(captures, place)
    some = next(path for path in place.iterdir() if path.suffix == ".arrows")
    shutil.copy(some, place / os.fsdecode(b"\xff.arrows"))
    shown = hopwire("flows", "show", str(place), "order-1")
    assert "its name is not UTF-8; rename it" in shown.err
    assert (shown.code, "greeter.greet from here: answered" in shown.out) == (0, True)
    listed = hopwire("capture", "ls", str(place), columns=160)
    assert "\\xff.arrows" in listed.out
