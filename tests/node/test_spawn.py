from __future__ import annotations

import pytest

from hopwire.model import CallbackPoint, Distribution, Message, RoutingEntry, contract_of, payload_from_body
from hopwire.model.outcome import Outcome
from hopwire.node import spawn
from hopwire.node.spawn import OUTCOME, RECEIPT, outcome_of, seconds_from_ticks, spawned, ticks_from_seconds
from tests.node.stories import Greeting, Number

HOME = CallbackPoint(*contract_of(Greeting))
ASKED = Message(
    b"greeter.greet",
    correlation_id=b"flow-1",
    callback_points=(HOME, RECEIPT),
    callback_key=7,
    callback_receiver_identity=b"\0hub",
    callback_receiver_node_identity=b"node",
    routing=(RoutingEntry("tcp://a:1", b"A"),),
    hops=3,
)


def test_an_answer_is_addressed_to_whoever_asked() -> None:
    answer = spawned(ASKED, Greeting("hello"), 50)
    assert (answer.receiver_identity, answer.receiver_node_identity) == (b"\0hub", b"node")
    assert (answer.correlation_id, answer.callback_key, answer.ttl_ticks, answer.hops) == (b"flow-1", 7, 50, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"callback_points": (CallbackPoint(HOME.identity, 2),)},
        {"callback_points": (CallbackPoint(HOME.identity, b"\1"),)},
        {"callback_points": (CallbackPoint(HOME.identity, 1, b"east"),)},
        {"callback_points": (CallbackPoint(b"other"),)},
        {"callback_points": ()},
        {"callback_receiver_identity": b""},
    ],
)
def test_what_is_no_callback_point_is_addressed_to_nobody(changes: dict[str, object]) -> None:
    assert spawned(ASKED.replace(**changes), Greeting("hello"), 0).receiver_identity == b""


def test_what_is_no_answer_carries_the_callback_on() -> None:
    further = spawned(ASKED, Number(1), 0)
    assert (further.receiver_identity, further.receiver_node_identity) == (b"", b"")
    assert (further.callback_points, further.callback_key) == ((HOME,), 7)
    assert spawned(further, Greeting("at last"), 0).receiver_identity == b"\0hub"


def test_a_receipt_is_not_asked_for_again() -> None:
    assert RECEIPT not in spawned(ASKED, Number(1), 0).callback_points
    only_receipt = ASKED.replace(callback_points=(RECEIPT,))
    assert spawned(only_receipt, Number(1), 0).callback_receiver_identity == b""


def test_a_broadcast_carries_no_callback() -> None:
    news = spawned(ASKED, Greeting("all"), 0, distribution=Distribution.BROADCAST)
    assert (news.callback_points, news.callback_receiver_identity, news.receiver_identity) == ((), b"", b"")
    assert news.correlation_id == b"flow-1"


def test_the_way_so_far_is_carried_on_when_traced() -> None:
    assert spawned(ASKED, Number(1), 0).routing == ()
    assert spawned(ASKED.replace(trace_options=1), Number(1), 0).routing == ASKED.routing


def test_whoever_waits_is_told_and_nobody_else() -> None:
    told = outcome_of(ASKED, Outcome("undelivered", "no_route"), b"here")
    assert told is not None
    assert told.contract == OUTCOME
    assert (told.receiver_identity, told.receiver_node_identity, told.callback_key) == (b"\0hub", b"node", 7)
    expected = Outcome("undelivered", "no_route", contract="greeter.greet v1", node=b"here")
    assert payload_from_body(Outcome, told.body) == expected
    assert outcome_of(Message(b"M"), Outcome("failed"), b"here") is None


def test_an_outcome_causes_no_further_outcome() -> None:
    told = outcome_of(ASKED, Outcome("failed"), b"here")
    assert told is not None
    again = told.replace(callback_receiver_identity=b"\0hub")
    assert outcome_of(again, Outcome("undelivered"), b"here") is None


def test_callback_points_that_a_sender_made_large_are_not_kept() -> None:
    for size, count in ((1_000_000, 1), (10, 1000)):
        for number in range(20):
            points = tuple(CallbackPoint(b"%d" % number * size, each) for each in range(count))
            assert spawned(ASKED.replace(callback_points=points), Number(1), 0).callback_points == points
    assert sum(len(point.identity) for points in spawn._KNOWN for point in points) < 1_000_000


def test_callback_points_that_are_kept_are_few() -> None:
    for number in range(3000):
        points = (CallbackPoint(b"%d" % number),)
        assert spawned(ASKED.replace(callback_points=points), Number(1), 0).callback_points == points
    assert len(spawn._KNOWN) <= spawn.KNOWN


def test_time_to_live_is_counted_in_ticks() -> None:
    assert ticks_from_seconds(1.5) == 15_000_000
    assert ticks_from_seconds(0) == 1
    assert seconds_from_ticks(15_000_000) == 1.5
