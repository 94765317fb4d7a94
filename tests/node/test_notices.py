"""Refusals are told: once, on both sides, in words that a stranger cannot forge."""

from __future__ import annotations

import asyncio
import logging

import pytest

from hopwire.cluster.announce import Hello
from hopwire.cluster.events import Pace
from hopwire.errors import SettingsError
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings, Tls
from hopwire.node.notices import EVERY_SECONDS, MOST, Notice, Notices, shown
from hopwire.node.streams import Streams
from hopwire.security import OPEN, Domain, Domains, Key
from hopwire.testing import Network, _Memory, run
from tests.attacks.stranger import said
from tests.node.certificates import OURS, THEIRS, tls_of
from tests.node.loopback import told

IMPATIENT = NodeSettings(pace=Pace(unanswered_ns=NS_PER_SECOND // 2))
NAMES = ["greeter.*", "hopwire.*"]
RIGHT, WRONG = b"0123456789abcdef", b"fedcba9876543210"
PAST_NS = 1


def domains(secret: bytes = RIGHT, key_id: str = "k", name: str = "all", not_after_ns: int | None = None) -> Domains:
    return Domains([Domain(name, [Key(key_id, secret, not_after_ns=not_after_ns)], NAMES)])


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_a_notice_is_given_once_in_a_while_and_says_what_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    notices = Notices(lambda: now)
    for _ in range(3):
        notices.warn("what", lambda: Notice("text", {"peer": "x"}))
    now = EVERY_SECONDS
    notices.warn("what", lambda: Notice("text", {"peer": "x"}))
    assert warnings_of(caplog) == ["text", "text (2 more like this were not logged)"]


def test_made_up_names_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    notices = Notices(lambda: 0.0)
    for number in range(10_000):
        notices.warn(number, lambda: Notice("text", {}))
    assert len(warnings_of(caplog)) == MOST + 1


def test_what_others_say_is_shown_on_one_line_without_escapes() -> None:
    assert shown("a\nERROR forged \x1b]0;pwned") == r"'a\nERROR forged \x1b]0;pwned'"
    assert shown(b"\xff\n") == r"'\\xff\n'"
    assert len(shown("x" * 1000)) < 200


REFUSED = {
    "unsigned": (OPEN, "it is not signed"),
    "wrong key": (domains(WRONG), "its signature does not fit"),
    "unknown key id": (domains(key_id="other\n"), r"domain 'all' has no key of that id here (no_key, key 'other\n')"),
    "unknown domain": (domains(name="foreign"), "there is no domain 'foreign' here"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_who_refuses_a_signature_says_whose_and_why_and_who_is_refused_hears_no_answer(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, words = REFUSED[case]

    async def story(network: Network) -> None:
        async with (
            network.node(domains=domains(), identity=b"here") as here,
            network.node(domains=theirs, identity=b"there", peers=[here.uri]),
        ):
            await asyncio.sleep(8)

    run(story)
    refusals = [line for line in warnings_of(caplog) if line.startswith("refused")]
    assert refusals[0].startswith("refused what node 'there' at 'memory://2' says: ")
    assert words in refusals[0]
    assert len(refusals) == 1
    unanswered = [line for line in warnings_of(caplog) if "no answer" in line]
    assert unanswered == [
        "'memory://1' gave no answer to 6 hellos in 6 s: is it running, are address and keys right, does it refuse us?"
    ]


def test_a_key_that_is_over_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def story(network: Network) -> None:
        over = domains(not_after_ns=PAST_NS)
        async with network.node(domains=over) as here, network.node(domains=domains(), peers=[here.uri]):
            await asyncio.sleep(1)

    run(story)
    assert any("no key of domain 'all' is valid now" in line for line in warnings_of(caplog))


def test_the_address_in_a_hello_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def story(network: Network) -> None:
        async with network.node(domains=domains()) as node:
            node._incoming.take_frames([b"X", *said(Hello(b"X", 1, "tcp://x:1\nERROR all is lost"))])
        async with network.node(identity=b"me") as node:
            node._incoming.take_frames([b"me", *said(Hello(b"me", 1, "tcp://x:1\nERROR all is lost"))])

    run(story)
    assert len(warnings_of(caplog)) == 2
    assert all("\n" not in line for line in warnings_of(caplog))


@pytest.mark.slow
@pytest.mark.parametrize("theirs", [None, THEIRS, tls_of("theirs", "ours")], ids=["none", "other", "mixed"])
def test_refused_encryption_is_told_on_both_sides(theirs: Tls | None, caplog: pytest.LogCaptureFixture) -> None:
    def is_told() -> bool:
        lines = warnings_of(caplog)
        here = ("a connection from '127.0.0.1' was cut off: it does not speak TLS",)
        there = ("gave no answer to", "does it refuse us?")
        return all(any(all(map(line.__contains__, words)) for line in lines) for words in (here, there))

    async def story() -> None:
        async with Node(tls=OURS) as here, Node(peers=[here.uri], tls=theirs, settings=IMPATIENT):
            while not is_told():
                await asyncio.sleep(0.01)

    told(story)


def test_the_same_list_of_peers_can_be_given_to_all_nodes_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def story(network: Network) -> None:
        peers = ["memory://1", "memory://2"]
        async with network.node(peers=peers) as a, network.node(peers=peers) as b:
            await asyncio.sleep(20)
            assert (a.peers, b.peers) == ((b.identity,), (a.identity,))

    run(story)
    assert warnings_of(caplog) == []


@pytest.mark.parametrize(
    ("address", "is_signed"), [("tcp://0.0.0.0:7400", False), ("tcp://0.0.0.0:7400", True), ("", False)]
)
def test_an_address_that_others_can_reach_without_a_key_is_a_warning(
    address: str, is_signed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(network: Network) -> None:
        transport = _Memory(network, "memory://open")
        transport.open_address = address
        async with Node(transport=transport, domains=domains() if is_signed else OPEN, insecure=True):
            pass

    run(story)
    lines = warnings_of(caplog)
    assert len(lines) == (1 if address and not is_signed else 0)
    assert all(line.startswith(f"{address} is open to all who can reach it") for line in lines)


def test_a_node_that_is_open_to_all_is_refused_unless_somebody_says_that_it_may_be() -> None:
    with pytest.raises(SettingsError, match=r"tcp://0.0.0.0:0 is open to all .* or say insecure=True"):
        Node("tcp://0.0.0.0:0", advertise="tcp://192.0.2.1:0")
    Node("tcp://0.0.0.0:0", advertise="tcp://192.0.2.1:0", insecure=True)
    Node("tcp://0.0.0.0:0", advertise="tcp://192.0.2.1:0", tls=OURS)
    Node("tcp://0.0.0.0:0", advertise="tcp://192.0.2.1:0", domains=domains())


OPEN_ADDRESSES = {
    "tcp://192.0.2.1:1": True,
    "tcp://[2001:db8::1]:1": True,
    "tcp://shop.internal:1": True,
    "tcp://eth0:1": True,
    "tcp://127.0.0.1:1": False,
    "tcp://127.9.9.9:1": False,
    "tcp://[::1]:1": False,
    "tcp://localhost:1": False,
    "ipc:///tmp/socket": False,
}


@pytest.mark.parametrize("uri", OPEN_ADDRESSES)
def test_addresses_that_other_machines_can_reach_are_open_unless_encrypted(uri: str) -> None:
    assert Streams(b"x", uri).open_address == (uri if OPEN_ADDRESSES[uri] else "")
    assert Streams(b"x", "tcp://0.0.0.0:1", advertise="tcp://127.0.0.1:1").open_address == "tcp://0.0.0.0:1"
    assert Streams(b"x", uri, tls=OURS).open_address == ""
