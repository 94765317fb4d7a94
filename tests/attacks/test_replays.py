"""Who listens on the way and has no key: what was recorded is of no use at another node, nor after a restart."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from hopwire.cluster.announce import Hello
from hopwire.errors import Timeout, WireError
from hopwire.model import Message, RoutingEntry, contract_of
from hopwire.node import Node
from hopwire.security import Domain, Domains, Key, Recipient, read_signature, sign
from hopwire.testing import Network, run
from hopwire.wire import V6, decode, encode
from hopwire.wire.extension import Extension, extension_of, with_extension
from hopwire.wire.train import is_train, unpack_train
from tests.node.stories import Greet, Greeter, Greeting

HELLO = contract_of(Hello).identity
SKEW_NS = 20_000_000_000


def domains_in(scheme: str) -> Domains:
    return Domains([Domain("all", [Key("k", b"0123456789abcdef")], ["greeter.*", "hopwire.*"], scheme)])


BOUND = domains_in("hopwire-2")


def record(network: Network, node: Node) -> list[list[bytes]]:
    """Note all that arrives at a node, message by message, as whoever stands on the way can."""
    heard: list[list[bytes]] = []
    take = node._incoming.take_frames

    def listen(frames: list[bytes]) -> int:
        heard.extend(
            list(each) for each in (unpack_train(frames, node.settings.limits) if is_train(frames) else [frames])
        )
        return take(frames)

    network._transports[node.uri].on_frames = listen
    return heard


def play(node: Node, frames: list[bytes]) -> list[tuple[str, str]]:
    """Send recorded frames to a node; gives the dead letters that come of it."""
    letters: list[tuple[str, str]] = []
    node.dead_letters.subscribe(lambda letter: letters.append((letter.reason, letter.detail)))
    node._incoming.take_frames(list(frames))
    return [*letters]


def greetings(heard: list[list[bytes]]) -> list[list[bytes]]:
    return [frames for frames in heard if decode(frames).identity == b"greeter.greet"]


def identity_of(frames: list[bytes]) -> bytes:
    return decode(frames).identity


@pytest.mark.parametrize(("scheme", "verdict"), [("hopwire-2", "misdirected"), ("hopwire-1", "replayed")])
def test_nothing_that_a_node_heard_counts_after_its_restart(scheme: str, verdict: str) -> None:
    async def story(network: Network) -> None:
        domains = domains_in(scheme)
        async with network.node(domains=domains, identity=b"B") as b:
            heard = record(network, b)
            async with network.node(domains=domains, peers=[b.uri]) as c:
                b.host(first := Greeter())
                await c.knows(Greet)
                await c.hub().ask(Greet("once"), Greeting)
                await c.hub().tell(Greet("twice"))
                await c.hub().send(Greet("thrice"), at_least_once=True)
            await asyncio.sleep(1)  # of the network's own clock: the goodbye arrives
        assert first.greeted == ["once", "twice", "thrice"]
        async with network.node(domains=domains, identity=b"B") as again:
            again.host(second := Greeter())
            recorded = [frames for frames in heard if identity_of(frames) != HELLO]
            assert {b"greeter.greet", b"hopwire.routes", b"hopwire.bye"} <= set(map(identity_of, recorded))
            for frames in recorded:
                assert play(again, frames) == [("bad_signature", verdict)]
            await again.drain()
            assert second.greeted == []

    run(story)


def test_a_sender_whose_clock_is_ahead_gives_no_replay_after_a_restart_and_one_behind_is_not_shut_out() -> None:
    async def story(network: Network) -> None:
        def greeting(node: Node, lead_ns: int) -> list[bytes]:
            message = Message(b"greeter.greet", 1, body_frames=(b"\x81\xa4name\xa3Ada",), hops=1)
            recipient = Recipient(node.identity, node._incarnation)
            return encode(sign(message, BOUND, time.time_ns() + lead_ns, os.urandom(16), recipient), V6)

        async with network.node(domains=BOUND, identity=b"B") as first:
            first.host(Greeter())
            ahead = greeting(first, SKEW_NS)
            assert play(first, ahead) == []
        async with network.node(domains=BOUND, identity=b"B") as second:
            second.host(greeter := Greeter())
            assert play(second, ahead) == [("bad_signature", "misdirected")]
            assert play(second, greeting(second, -SKEW_NS)) == []
            await second.drain()
            assert greeter.greeted == ["Ada"]

    run(story)


def test_what_was_said_to_one_node_is_refused_by_every_other() -> None:
    async def story(network: Network) -> None:
        async with (
            network.node(domains=BOUND) as b,
            network.node(domains=BOUND) as c,
            network.node(domains=BOUND, peers=[b.uri, c.uri]) as a,
        ):
            heard = record(network, b)
            b.host(at_b := Greeter())
            await a.knows(Greet)
            await a.hub().ask(Greet("for b"), Greeting)
            await a.hub().tell(Greet("for b too"))
            c.host(at_c := Greeter())
            await b.drain()
            (one, two) = greetings(heard)
            assert play(c, one) == play(c, two) == [("bad_signature", "misdirected")]
            assert play(b, one) == play(b, two) == [("bad_signature", "replayed")]
            await c.drain()
            assert (at_b.greeted, at_c.greeted) == (["for b", "for b too"], [])

    run(story)


def test_each_copy_of_a_broadcast_is_for_its_node() -> None:
    async def story(network: Network) -> None:
        async with (
            network.node(domains=BOUND) as b,
            network.node(domains=BOUND) as c,
            network.node(domains=BOUND, peers=[b.uri, c.uri]) as a,
        ):
            heard = {node.identity: record(network, node) for node in (b, c)}
            greeters = [Greeter(), Greeter()]
            for node, greeter in zip((b, c), greeters, strict=True):
                node.host(greeter)
            while len(a._tables.handlers_of(contract_of(Greet))) < 2:
                await a._next_change()
            await a.hub().broadcast(Greet("all"))
            await b.drain()
            await c.drain()
            assert [greeter.greeted for greeter in greeters] == [["all"], ["all"]]
            copies = {name: greetings(frames)[0] for name, frames in heard.items()}
            for name, frames in copies.items():
                parts = read_signature(decode(frames).signature, "hopwire-2")
                assert parts is not None
                assert parts.stamp is not None
                assert parts.stamp.recipient.node == name
            assert play(c, copies[b.identity]) == [("bad_signature", "misdirected")]

    run(story)


@pytest.mark.parametrize("scheme", ["hopwire-2", "hopwire-1"])
def test_a_node_that_passes_a_message_on_signs_it_for_the_next(scheme: str) -> None:
    async def story(network: Network) -> None:
        async with (
            network.node(domains=BOUND) as c,
            network.node(domains=domains_in(scheme), peers=[c.uri]) as b,
        ):
            c.host(greeter := Greeter())
            await b.knows(Greet)
            heard = record(network, c)
            message = Message(b"greeter.greet", 1, body_frames=(b"\x81\xa4name\xa3Ada",), hops=1, trace_options=1)
            for_b = sign(message, BOUND, time.time_ns(), os.urandom(16), Recipient(b.identity, b._incarnation))
            assert play(b, encode(for_b, V6)) == []
            await b.drain()
            await c.drain()
            assert greeter.greeted == ["Ada"]
            passed_on = decode(greetings(heard)[0])
            assert passed_on.routing == (RoutingEntry(b.uri, b.identity),)
            assert passed_on.hops == 2

    run(story)


def test_who_changes_the_id_of_a_message_gets_no_receipt_for_what_is_dropped() -> None:
    async def story(network: Network) -> None:
        async with network.node(domains=BOUND) as b, network.node(domains=BOUND, peers=[b.uri]) as a:
            b.host(greeter := Greeter())
            await a.knows(Greet)
            take = b._incoming.take_frames
            ids: list[bytes] = []

            def change(frames: list[bytes]) -> int:
                """Give every message the id of the first: a node that has seen the id sends a receipt."""
                try:
                    message = decode(frames)
                except WireError:
                    return take(frames)
                extension = extension_of(message)
                if extension.message_id:
                    ids.append(extension.message_id)
                    message = with_extension(message, Extension(message_id=ids[0], attempt=extension.attempt))
                return take(encode(message, V6))

            network._transports[b.uri].on_frames = change
            await a.hub().send(Greet("one"), at_least_once=True)
            with pytest.raises(Timeout):
                await a.hub().send(Greet("two"), at_least_once=True, timeout=1)
            assert greeter.greeted == ["one"]
            assert b.dead_letters.counts["duplicate"] == 0

    run(story)


def test_nodes_of_both_hopwire_schemes_talk_to_each_other() -> None:
    async def story(network: Network) -> None:
        old, new = domains_in("hopwire-1"), BOUND
        async with network.node(domains=old) as a, network.node(domains=new, peers=[a.uri]) as b:
            a.host(Greeter("old"))
            await b.knows(Greet)
            assert (await b.hub().ask(Greet("Ada"), Greeting)).text == "old Ada"
            await b.hub().send(Greet("Bob"), at_least_once=True)
            assert a.dead_letters.counts["bad_signature"] == 0
            assert b.dead_letters.counts["bad_signature"] == 0

    run(story)
