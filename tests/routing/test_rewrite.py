"""What a router changes in a message, and what it leaves."""

from __future__ import annotations

from hopwire.model import CallbackPoint, Message, RoutingEntry, TraceOptions
from hopwire.routing import forwarded
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
