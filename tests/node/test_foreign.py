"""What is said of a foreign peer, and what is refused of it in one line."""

from __future__ import annotations

from typing import Any

import pytest

import hopwire as hw
from hopwire.errors import SettingsError
from hopwire.node import Foreign, Node
from tests.node.certificates import OURS
from tests.node.foreigners import PlainGreet

GOOD: dict[str, Any] = {"identity": b"legacy-1", "uri": "tcp://10.0.0.7:7000", "format": "V5", "handles": [PlainGreet]}


class Second(hw.Payload, identity="plain.second", version=2):
    text: str


class Nameless(hw.Payload):
    text: str


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"identity": b""}, "the identity of a foreign peer is 1 to"),
        ({"identity": "legacy-1"}, "the identity of a foreign peer is 1 to"),
        ({"identity": b"\0legacy"}, "the first of them not 0"),
        ({"identity": b"x" * 500}, "the identity of a foreign peer is 1 to"),
        ({"uri": "10.0.0.7:7000"}, "the address of a foreign peer is like tcp://host:port"),
        ({"uri": b"tcp://10.0.0.7:7000"}, "the address of a foreign peer is text"),
        ({"uri": "tcp://10.0.0.7:99999"}, "the address of a foreign peer is like tcp://host:port"),
        ({"format": "V7"}, "the format of a foreign peer is one of V3, V4, V5, V6, found 'V7'"),
        ({"format": 5}, "the format of a foreign peer is one of"),
        ({"handles": PlainGreet}, "handles is a list of payload classes"),
        ({"handles": "greet"}, "handles is a list of payload classes"),
        ({"handles": 5}, "handles is a list of payload classes"),
        ({"handles": [PlainGreet, str]}, "handles is a list of payload classes, found <class 'str'> in it"),
        ({"handles": [PlainGreet("Ada")]}, "handles is a list of payload classes"),
        ({"handles": [Nameless]}, "handles is a list of payload classes"),
        ({"handles": [Second], "format": "V4"}, "V4 spells no version but 1, found plain.second v2"),
    ],
)
def test_foreign_peer_that_makes_no_sense_is_refused_in_one_line(bad: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Foreign(**{**GOOD, **bad})
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"foreign": Foreign(**GOOD)}, "foreign is a list of Foreign(...)"),
        ({"foreign": "legacy-1"}, "foreign is a list of Foreign(...)"),
        ({"foreign": 5}, "foreign is a list of Foreign(...)"),
        ({"foreign": ["tcp://10.0.0.7:7000"]}, "found 'tcp://10.0.0.7:7000' in it"),
        ({"foreign": [Foreign(**GOOD)], "identity": b"legacy-1"}, "a foreign peer has the identity of this node"),
        ({"foreign": [Foreign(**GOOD)], "peers": ["tcp://10.0.0.7:7000"]}, "is the address of a peer"),
        ({"foreign": [Foreign(**GOOD)], "listen": "tcp://10.0.0.7:7000"}, "is the address of this node"),
        ({"foreign": [Foreign(**GOOD), Foreign(**{**GOOD, "uri": "tcp://h:1"})]}, "have one identity: b'legacy-1'"),
        (
            {"foreign": [Foreign(**GOOD), Foreign(**{**GOOD, "identity": b"2"})]},
            "have one address: 'tcp://10.0.0.7:7000'",
        ),
        (
            {"foreign": [Foreign(**GOOD)], "tls": OURS},
            "a foreign peer speaks no TLS",
        ),
    ],
)
def test_node_refuses_foreign_peers_that_it_could_not_talk_to(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Node(**settings)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_said_of_a_foreign_peer_is_a_value() -> None:
    peer = hw.Foreign(**GOOD)
    assert peer == Foreign(**{**GOOD, "handles": (each for each in [PlainGreet])})
    assert [contract.identity for contract in peer.contracts] == [b"plain.greet"]
    assert peer.wire_format.number == 5
    assert Foreign(b"x", "ipc:///run/x", "V3").contracts == ()
    Node(foreign=[peer])
    hw.sync.Node(foreign=[peer])
