"""What a router changes in a message, and what it leaves."""

from __future__ import annotations

import pytest

from hopwire.model import CallbackPoint, Distribution, Message, RoutingEntry, TraceOptions
from hopwire.routing import forwarded, with_callback_applied
from tests.routing.network import HERE, hub

ANSWER = Message(
    identity=b"greeting",
    version=1,
    partition=b"east",
    callback_points=(CallbackPoint(b"other", 1, b"east"), CallbackPoint(b"greeting", 1, b"east")),
    callback_key=7,
    callback_receiver_identity=hub(1),
    callback_receiver_node_identity=b"node-1",
)
URI = "tcp://10.0.0.9:7400"


def test_an_answer_goes_to_the_callback_receiver_on_the_callback_node() -> None:
    addressed = with_callback_applied(ANSWER)
    assert addressed == ANSWER.replace(receiver_identity=hub(1), receiver_node_identity=b"node-1")
    assert with_callback_applied(addressed) == addressed


def test_an_answer_replaces_a_receiver_that_was_named_before() -> None:
    named = ANSWER.replace(receiver_identity=b"\x01old", receiver_node_identity=b"node-2")
    assert with_callback_applied(named) == with_callback_applied(ANSWER)


def test_without_a_callback_node_the_receiver_alone_is_named() -> None:
    alone = with_callback_applied(ANSWER.replace(callback_receiver_node_identity=b""))
    assert (alone.receiver_identity, alone.receiver_node_identity) == (hub(1), b"")


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": b"greet"},
        {"version": 2},
        {"version": b"\x01"},
        {"partition": b""},
        {"callback_points": ()},
        {"callback_receiver_identity": b""},
        {"distribution": Distribution.BROADCAST},
    ],
)
def test_what_is_no_answer_keeps_its_receiver(changes: dict[str, object]) -> None:
    message = ANSWER.replace(receiver_identity=b"\x01kept", **changes)
    assert with_callback_applied(message) is message


def test_a_forwarded_message_has_one_hop_more_and_nothing_else() -> None:
    assert forwarded(ANSWER, URI, HERE) == ANSWER.replace(hops=1)


def test_a_traced_message_remembers_each_router_once() -> None:
    traced = ANSWER.replace(trace_options=TraceOptions.ROUTING)
    once = forwarded(traced, URI, HERE)
    twice = forwarded(once, URI, HERE)
    assert once.routing == twice.routing == (RoutingEntry(URI, HERE),)
    assert (once.hops, twice.hops) == (1, 2)
    back = forwarded(forwarded(twice, "tcp://other:1", b"other"), URI, HERE)
    assert [entry.identity for entry in back.routing] == [HERE, b"other", HERE]


def test_each_destination_sees_one_hop_and_one_entry() -> None:
    traced = ANSWER.replace(trace_options=TraceOptions.ROUTING)
    copies = [forwarded(traced, URI, HERE) for _ in range(3)]
    assert [(copy.hops, len(copy.routing)) for copy in copies] == [(1, 1)] * 3
    assert (traced.hops, traced.routing) == (0, ())
