"""How promises end, as the capture of whoever asked has it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from hopwire.capture import Sighting, read_capture
from hopwire.errors import HopwireError, SettingsError
from hopwire.model import Message
from hopwire.model.sighting_batch import sightings_from_batch
from hopwire.node import Hub, Node
from hopwire.testing import Network, run
from hopwire.wire import decode
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number


class Told(NamedTuple):
    """A record of how a promise ended, and the question."""

    word: str
    note: str
    question: Message


def sightings_of(captures: Path) -> list[Sighting]:
    return [each for batch in read_capture(captures) for each in sightings_from_batch(batch)]


def told_in(captures: Path) -> list[Told]:
    rows = [each for each in sightings_of(captures) if each.direction == "told"]
    return [Told(row.reason, row.note, decode(list(row.frames))) for row in rows]


def ask_two_nodes(captures: Path, ask: Callable[[Network, Node, Node], Awaitable[None]]) -> list[Told]:
    """Let one node ask another, and give what its capture says of promises."""

    async def story(network: Network) -> None:
        async with (
            network.node(name="there", identity=b"there") as there,
            network.node(name="here", identity=b"here", peers=[there.uri], capture=captures) as here,
        ):
            there.host(Greeter())
            there.host(Counter())
            await here.knows(Greet)
            await ask(network, here, there)

    run(story)
    return told_in(captures)


async def fails(ask: Awaitable[object]) -> None:
    with suppress(HopwireError):
        await ask
        raise AssertionError("it was answered")


def test_promise_that_is_kept_leaves_no_record(tmp_path: Path) -> None:
    async def ask(network: Network, here: Node, there: Node) -> None:
        for name in ("one", "two", "three"):  # the first by the ordinary way, the others by the express way
            await here.hub().ask(Greet(name), Greeting)
        await here.hub().send(Greet("four"))
        assert [part.value async for part in here.hub().stream(Count(3), Number)] == [0, 1, 2]

    assert ask_two_nodes(tmp_path, ask) == []


@pytest.mark.parametrize("is_known", [False, True])
def test_time_that_is_over_is_a_record_with_the_question(tmp_path: Path, is_known: bool) -> None:
    async def ask(network: Network, here: Node, there: Node) -> None:
        if is_known:
            await here.hub().ask(Greet("a"), Greeting)
        network.faults.drop = 1.0
        await fails(here.hub().ask(Greet("b"), Greeting, timeout=2, correlation_id=b"flow"))

    (told,) = ask_two_nodes(tmp_path, ask)
    assert (told.word, told.note) == ("Timeout", "timed_out: no answer to greeter.greet v1 in 2 s; sent to there")
    question = told.question
    assert (question.identity, question.version, question.correlation_id) == (b"greeter.greet", 1, b"flow")
    assert (question.callback_receiver_node_identity, question.body_frames) == (b"here", (b"",))
    asked = [each for each in sightings_of(tmp_path) if each.direction == "out" and b"flow" in b"".join(each.frames)]
    assert question.callback_key == decode(list(asked[0].frames)).callback_key


@pytest.mark.parametrize("is_known", [False, True])
def test_question_whose_turn_never_comes_is_a_record_too(tmp_path: Path, is_known: bool) -> None:
    async def ask(network: Network, here: Node, there: Node) -> None:
        hub = here.hub()
        if is_known:
            await hub.ask(Greet("a"), Greeting)
        share = here._timing.hub_share
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(share, "clock", lambda: 1.0)
            share.ends_at, share._is_same_turn = 0.5, True  # the share of this turn is over
            patch.setattr(share, "_let_in", lambda: None)  # and no other turn comes
            await fails(hub.ask(Greet("b"), Greeting, timeout=0.5, correlation_id=b"flow"))
            waiting = asyncio.ensure_future(hub.ask(Greet("c"), Greeting, correlation_id=b"flow"))
            await asyncio.sleep(0)
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            await fails(anext(hub.stream(Count(3), Number, timeout=0.5, correlation_id=b"flow")))

    told = ask_two_nodes(tmp_path, ask)
    assert [each.word for each in told] == ["Timeout", "Cancelled", "Timeout"]
    for each in told:
        question = each.question
        assert (question.correlation_id, question.callback_receiver_node_identity) == (b"flow", b"here")
        assert question.callback_key > 0


def test_each_error_is_a_record_by_its_name(tmp_path: Path) -> None:
    async def ask(network: Network, here: Node, there: Node) -> None:
        hub = here.hub()
        await fails(hub.ask(Greet("nobody"), Greeting))
        await fails(hub.ask(Greeting("nobody handles it"), Greet))
        await fails(hub.ask(Greet("somebody"), Number))
        waiting = asyncio.ensure_future(hub.ask(Greet("a"), Greeting))
        await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        closing = here.hub(new=True)
        waiting = asyncio.ensure_future(closing.ask(Greet("a"), Greeting))
        await asyncio.sleep(0)
        closing.close()
        await fails(waiting)
        network.faults.delay = 1.0
        waiting = asyncio.ensure_future(hub.ask(Greet("a"), Greeting))
        await asyncio.sleep(0)
        network.kill(there)
        await fails(waiting)

    words = [told.word for told in ask_two_nodes(tmp_path, ask)]
    assert words == ["HandlerFailed", "NoRoute", "UnexpectedAnswer", "Cancelled", "Closed", "Unreachable"]


def test_who_insists_and_gets_nothing_is_told_once(tmp_path: Path) -> None:
    async def ask(network: Network, here: Node, there: Node) -> None:
        network.faults.drop = 1.0
        await fails(here.hub().ask(Greet("a"), Greeting, at_least_once=True, timeout=5))
        await fails(here.hub().send(Greet("a"), at_least_once=True, timeout=5))

    told = ask_two_nodes(tmp_path, ask)
    assert [each.word for each in told] == ["Timeout", "Timeout"]
    assert "attempts" in told[0].note


def test_stream_that_breaks_off_is_a_record_and_one_that_is_left_is_none(tmp_path: Path) -> None:
    async def ask(network: Network, here: Node, there: Node) -> None:
        parts = here.hub().stream(Count(10), Number)
        assert (await anext(parts)).value == 0
        await parts.aclose()
        network.faults.drop = 1.0
        parts = here.hub().stream(Count(3), Number, timeout=2)
        await fails(anext(parts))

    assert [told.word for told in ask_two_nodes(tmp_path, ask)] == ["Timeout"]


# -- what stays within a node


def ask_one_node(captures: Path, ask: Callable[[Hub], Awaitable[None]], **settings: bool) -> list[tuple[str, bytes]]:
    """Let a node ask itself, and give what it captured: directions and contracts."""

    async def story(network: Network) -> None:
        async with network.node(name="one", identity=b"one", capture=captures, **settings) as node:
            node.host(Greeter())
            node.host(Counter())
            await ask(node.hub())

    run(story)
    sightings = sightings_of(captures)
    assert {each.peer for each in sightings if each.direction == "local"} <= {b"one"}
    return [(each.direction, decode(list(each.frames)).identity) for each in sightings]


QUESTION, ANSWER = ("local", b"greeter.greet"), ("local", b"greeter.greeting")


def test_messages_within_a_node_are_captured_where_that_is_wanted(tmp_path: Path) -> None:
    async def ask(hub: Hub) -> None:
        for name in ("one", "two", "three"):
            await hub.ask(Greet(name), Greeting)

    assert ask_one_node(tmp_path / "with", ask, capture_local=True) == 3 * [QUESTION, ANSWER]
    assert ask_one_node(tmp_path / "without", ask) == []


def test_receipts_failures_and_streams_within_a_node_are_captured(tmp_path: Path) -> None:
    async def ask(hub: Hub) -> None:
        await hub.send(Greet("a"))
        await fails(hub.ask(Greet("nobody"), Greeting))
        assert [part.value async for part in hub.stream(Count(2), Number)] == [0, 1]

    outcome = ("local", b"hopwire.outcome")
    found = ask_one_node(tmp_path, ask, capture_local=True)
    failed = [QUESTION, ("dead", b"greeter.greet"), outcome, ("told", b"greeter.greet")]
    assert found[:2] == [QUESTION, outcome]
    assert [each for each in found if each[1] != b"greeter.greeting"][2:6] == failed
    assert found.count(("local", b"counter.number")) == 2
    assert [each for each in found if each[0] == "local"][-1] == outcome


def test_capture_of_what_is_local_needs_a_capture() -> None:
    with pytest.raises(SettingsError, match="capture_local needs a capture: name its directory with capture="):
        Node(capture_local=True)
