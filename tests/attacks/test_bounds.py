"""The memory of a node under attack stays within its limits and 100 MB, and its loop goes on."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from typing import NamedTuple

import pytest

from hopwire.cluster.announce import Beat, Credit, CreditWanted, Hello, Routes, RoutesWanted
from hopwire.model import Message
from hopwire.node.trust import HELLO
from hopwire.node.unfinished import FEW_BYTES
from hopwire.wire import encode
from hopwire.wire.connection import connection_name
from tests.attacks.stranger import COMMAND, MORE, Stranger, frame, said
from tests.attacks.victim import victim
from tests.node.stories import Greet

MEGABYTE = 1024 * 1024
MOST_BYTES = 100 * MEGABYTE
MOST_TURN = 1.0  # seconds of the processor in one turn of the loop; without limits it was many
UNPROVED = 32 * MEGABYTE  # of messages that are not complete, of all strangers together
NOBODY = "tcp://127.0.0.1:1"
SETTLED_SECONDS = 0.5

Attack = Callable[[str, ExitStack], None]


class Cost(NamedTuple):
    more_bytes: int
    turn: float


def cost_of(attack: Attack, kind: str = "open") -> Cost:
    """Attack a node in a process of its own, which looks at itself all the while, and give the worst."""
    with victim(kind) as it, ExitStack() as stack:
        before = it.report()["bytes"]
        it.report()
        attack(it.uri, stack)
        worst = it.report(after_seconds=SETTLED_SECONDS)
        return Cost(worst["most_bytes"] - before, worst["turn"])


def wire(frames: Sequence[bytes]) -> bytes:
    """Give a message as it is on the wire."""
    last = len(frames) - 1
    return b"".join(frame(data, MORE if number < last else 0) for number, data in enumerate(frames))


def strangers(uri: str, stack: ExitStack, count: int) -> list[Stranger]:
    found = [stack.enter_context(Stranger(uri, b"stranger-%d" % number)) for number in range(count)]
    for stranger in found:
        stranger.greet()
    return found


def poured(stranger: Stranger, data: bytes, times: int = 1) -> None:
    with suppress(OSError):  # it may be cut off
        for _ in range(times):
            stranger.pour(data)


def peer_of(uri: str, stack: ExitStack, node: bytes = b"peer", at: str = NOBODY) -> Stranger:
    peer = stack.enter_context(Stranger(uri, connection_name(node, bytes(8))))
    peer.greet()
    peer.send(said(Hello(node, 5, at, capabilities=("credit", "train"))))
    return peer


# -- attacks


def small_frames(uri: str, stack: ExitStack) -> None:
    (stranger,) = strangers(uri, stack, 1)
    poured(stranger, frame(b"x") * 20_000, 10)


def dead_letters(uri: str, stack: ExitStack) -> None:
    (stranger,) = strangers(uri, stack, 1)
    poured(stranger, wire(encode(Message(b"nobody.there", 1, body_frames=(bytes(1000),)))[1:]) * 500, 40)


def large_dead_letters(uri: str, stack: ExitStack) -> None:
    (stranger,) = strangers(uri, stack, 1)
    poured(stranger, wire(encode(Message(b"nobody.there", 1, body_frames=(bytes(8 * MEGABYTE),)))[1:]), 20)


def messages_for_an_actor(uri: str, stack: ExitStack) -> None:
    (stranger,) = strangers(uri, stack, 1)
    poured(stranger, wire(said(Greet("x" * 1000))) * 500, 40)


def many_frames(uri: str, stack: ExitStack) -> None:
    for stranger in strangers(uri, stack, 4):
        poured(stranger, frame(b"", MORE) * 65_000 + frame(b"xx"), 3)


def control_messages(uri: str, stack: ExitStack) -> None:
    words = (
        RoutesWanted(b"peer", 5),
        CreditWanted(b"peer", 5, b"greeter.greet", 5, 5),
        Credit(b"peer", 5, b"x", 5, 5, 5, 5),
        Beat(b"peer", 5, NOBODY, 77),
        Hello(b"peer", 5, NOBODY),
    )
    poured(peer_of(uri, stack), b"".join(wire(said(each)) for each in words) * 100, 50)


def very_many_routes(uri: str, stack: ExitStack) -> None:
    peer = peer_of(uri, stack)
    for turn in range(4):
        routes = tuple((b"\1actor%d.%d" % (turn, number), b"greet", 1, b"") for number in range(60_000))
        poured(peer, wire(said(Routes(b"peer", 5, 2 + turn, 0, routes))))


def made_up_contracts(uri: str, stack: ExitStack) -> None:
    peer = peer_of(uri, stack)
    for turn in range(20):
        made_up = (encode(Message(b"made.up.%d.%d" % (turn, number) + bytes(2000), 1))[1:] for number in range(500))
        poured(peer, b"".join(map(wire, made_up)))


def two_bytes_each(uri: str, stack: ExitStack) -> None:
    for stranger in strangers(uri, stack, 20):
        poured(stranger, frame(b"") * 100_000)


def garbage(uri: str, stack: ExitStack) -> None:
    for number, stranger in enumerate(strangers(uri, stack, 100)):
        poured(stranger, bytes((number * each) % 251 for each in range(5000)))


ATTACKS = [
    small_frames,
    dead_letters,
    large_dead_letters,
    messages_for_an_actor,
    many_frames,
    control_messages,
    very_many_routes,
    made_up_contracts,
    garbage,
    two_bytes_each,
]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_costs_a_node_little(attack: Attack) -> None:
    cost = cost_of(attack)
    assert cost.more_bytes < MOST_BYTES
    assert cost.turn < MOST_TURN


@pytest.mark.slow
def test_a_newcomer_has_its_turn_while_strangers_pour_messages_of_two_bytes() -> None:
    with victim() as it, ExitStack() as stack:
        pouring = threading.Thread(target=two_bytes_each, args=(it.uri, stack))
        pouring.start()
        peer_of(it.uri, stack)
        while it.report()["peers"] != 1:
            pass
        pouring.join()


# -- what is not a message yet


def announced_frames(uri: str, stack: ExitStack) -> None:
    for stranger in strangers(uri, stack, 4):
        stranger.claim(200 * MEGABYTE)
        poured(stranger, bytes(100))


def begun_by(uri: str, stack: ExitStack, number: int) -> Stranger:
    """Give a peer that was met, and has announced a large message."""
    peer = peer_of(uri, stack, b"peer-%d" % number, f"tcp://127.0.0.1:{number + 1}")
    peer.hear(HELLO)
    peer.claim(200 * MEGABYTE)
    return peer


def announced_by_peers(uri: str, stack: ExitStack) -> None:
    for number in range(4):
        poured(begun_by(uri, stack, number), bytes(100))


def begun_by_peers(uri: str, stack: ExitStack) -> None:
    for number in range(4):
        poured(begun_by(uri, stack, number), bytes(60 * MEGABYTE))


def silent_connections(uri: str, stack: ExitStack) -> None:
    strangers(uri, stack, 800)


def frames_without_end(uri: str, stack: ExitStack) -> None:
    for stranger in strangers(uri, stack, 150):
        poured(stranger, frame(b"xx", MORE) * 99_000)


def pings(uri: str, stack: ExitStack) -> None:
    for stranger in strangers(uri, stack, 100):
        poured(stranger, frame(b"\4PING\0\0" + bytes(16), COMMAND) * 2500)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "most_bytes"),
    [
        (announced_frames, UNPROVED + MOST_BYTES),
        (announced_by_peers, MOST_BYTES),
        (begun_by_peers, FEW_BYTES + MOST_BYTES),
        (silent_connections, MOST_BYTES),
        (frames_without_end, UNPROVED + MOST_BYTES),
        (pings, MOST_BYTES),
    ],
)
def test_what_is_not_a_message_yet_costs_a_node_little(attack: Attack, most_bytes: int) -> None:
    cost = cost_of(attack)
    assert cost.more_bytes < most_bytes
    assert cost.turn < MOST_TURN


# -- what is not a connection yet


@cache
def client_hello() -> bytes:
    """Give the first word of somebody who speaks TLS."""
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="x").do_handshake()
    return outgoing.read()


def half_hellos(uri: str, stack: ExitStack) -> None:
    for _ in range(500):
        stack.enter_context(Stranger(uri)).pour(client_hello()[:100])


def hellos_without_an_end(uri: str, stack: ExitStack) -> None:
    for _ in range(500):
        stack.enter_context(Stranger(uri)).pour(client_hello())


def large_records(uri: str, stack: ExitStack) -> None:
    for _ in range(500):
        stack.enter_context(Stranger(uri)).pour(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + bytes(1000))


@pytest.mark.slow
@pytest.mark.parametrize("attack", [half_hellos, hellos_without_an_end, large_records])
def test_a_handshake_that_never_ends_costs_an_encrypted_node_little(attack: Attack) -> None:
    cost = cost_of(attack, "encrypted")
    assert cost.more_bytes < MOST_BYTES
    assert cost.turn < MOST_TURN
