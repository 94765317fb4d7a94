"""What a peer may ask for again and again, and what it may say: all of it has a limit, in work and in memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from dataclasses import replace

import pytest

from hopwire.cluster.announce import LARGEST, Beat, Credit, CreditWanted, Hello, Routes, RoutesWanted
from hopwire.cluster.peers import MAX_HEARSAY
from hopwire.errors import Unreachable
from hopwire.model import Payload
from hopwire.node import Actor, Address, Node, handles, post
from hopwire.node.outbox import CONTROL_MESSAGES
from hopwire.node.streams import Streams
from hopwire.testing import Network, run
from hopwire.wire.connection import connection_name
from tests.attacks.stranger import Stranger, said
from tests.node.child import child
from tests.node.loopback import FAITHFUL, NOWHERE, told, until
from tests.node.stories import Greet, Greeter, Greeting
from tests.node.test_credit import Parcel, Slow
from tests.node.turns import Turns
from tests.routing.network import routes_of

LONG = b"x" * 300
ROUTE = (b"\1actor", b"greeter.greet", 1, b"")


# -- what is said


# fmt: off
BEYOND = [
    (Hello(b"", 5, NOWHERE),                                        "node"),
    (Hello(LONG, 5, NOWHERE),                                       "node"),
    (Hello(b"peer", -1, NOWHERE),                                   "incarnation"),
    (Hello(b"peer", LARGEST, NOWHERE),                              "incarnation"),
    (Hello(b"peer", 5, "tcp://" + "x" * 2000 + ":1"),               "uri"),
    (Hello(b"peer", 5, NOWHERE, via="x" * 2000),                    "via"),
    (Hello(b"peer", 5, NOWHERE, formats=(6,) * 100),                "formats"),
    (Hello(b"peer", 5, NOWHERE, capabilities=("x",) * 100),         "capabilities"),
    (Hello(b"peer", 5, NOWHERE, capabilities=("x" * 100,)),         "capabilities"),
    (Hello(b"peer", 5, NOWHERE, proof=LONG),                        "proof"),
    (Beat(b"peer", 5, NOWHERE, -1),                                 "revision"),
    (Routes(b"peer", 5, -1),                                        "revision"),
    (Routes(b"peer", 5, 2, -1),                                     "base"),
    (Routes(b"peer", 5, 2, proofs=(("d", b"x"),) * 2000),           "proofs"),
    (Routes(b"peer", 5, 2, proofs=(("d", b"x" * 600),)),            "proofs"),
    (Routes(b"peer", 5, 2, proofs=(("d" * 2000, b"x"),)),           "proofs"),
    (Credit(b"peer", 5, b"x", -1, 0, 1, 1),                         "taken"),
    (Credit(b"peer", 5, b"x", 0, 0, -1, 1),                         "max_messages"),
    (Credit(b"peer", 5, b"x", 0, 0, 1, LARGEST),                    "max_bytes"),
    (Credit(b"peer", 5, b"x" * 5000, 0, 0, 1, 1),                   "line"),
    (CreditWanted(b"peer", 5, b"x", LARGEST, 0),                    "sent"),
]
# fmt: on


@pytest.mark.parametrize(("words", "field"), BEYOND)
def test_each_field_of_a_control_message_has_a_limit(words: Payload, field: str) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node._incoming.take_frames([b"peer", *said(words)])
            (letter,) = node.dead_letters.latest
            assert (letter.reason, letter.detail.split()[0]) == ("bad_control", field)
            assert node.peers == ()

    run(story)


def test_a_route_has_a_limit_and_the_others_count() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node._incoming.take_frames([b"peer", *said(Hello(b"peer", 5, "memory://x"))])
            long = (b"\1actor", b"x" * 5000, 1, b"")
            node._incoming.take_frames([b"peer", *said(Routes(b"peer", 5, 2, 0, (long, ROUTE)))])
            assert len(routes_of(node._tables.remote, b"peer")) == 1
            assert node.dead_letters.counts["bad_control"] == 1

    run(story)


# -- very many routes


def many_routes(count: int) -> tuple[tuple[bytes, bytes, int, bytes], ...]:
    return tuple((b"\1actor%d" % number, b"greeter.greet", 1, b"") for number in range(count))


@pytest.mark.slow
def test_very_many_routes_in_one_message_hold_no_loop_and_keep_their_order() -> None:
    async def story() -> None:
        async with Node() as node:
            with Stranger(node.uri, connection_name(b"peer", bytes(8))) as peer:
                peer.greet()
                peer.send(said(Hello(b"peer", 5, NOWHERE)))
                await until(lambda: node.peers)
                routes = many_routes(20_000)
                sending = asyncio.to_thread(peer.send, said(Routes(b"peer", 5, 2, 0, routes)))
                pouring = asyncio.ensure_future(sending)
                counts = node._membership._route_counts
                with Turns(lambda: counts[b"peer"]) as adding:
                    await until(lambda: counts[b"peer"] >= 20_000)
                await pouring
                peer.send(said(Routes(b"peer", 5, 3, 2, (ROUTE,), routes[:19_999])))
                with Turns(lambda: -counts[b"peer"]) as removing:
                    await until(lambda: counts[b"peer"] == 2)
                assert max(adding.most, removing.most) < 10_000  # 20,000 if they are all taken in one turn
                peer.close()
                await until(lambda: not node.peers)
                assert not node._membership._entering

    told(story)


@pytest.mark.slow
def test_who_asks_for_very_many_routes_again_and_again_holds_no_loop() -> None:
    async def story() -> None:
        async with Node() as node:
            for _ in range(5000):
                node.host(Greeter())
            with Stranger(node.uri, connection_name(b"peer", bytes(8))) as peer:
                peer.greet()
                peer.send(said(Hello(b"peer", 5, NOWHERE)))
                await until(lambda: node.peers)
                asked = node._outgoing.message_count
                for _ in range(3000):
                    node._incoming.take_frames([connection_name(b"peer", bytes(8)), *said(RoutesWanted(b"peer", 5))])
                await asyncio.sleep(1)  # more answers would follow, if there were any
                assert node._outgoing.message_count - asked < 10

    told(story)


# -- hellos and beats


def test_more_hellos_than_a_node_says_are_passed_over() -> None:
    async def story() -> None:
        async with Node() as node:
            with Stranger(node.uri, connection_name(b"peer", bytes(8))) as peer:
                peer.greet()
                for number in range(500):
                    peer.send(said(Hello(b"peer", 5, f"tcp://127.0.0.1:{number + 1}")))
                await until(lambda: node.dead_letters.counts["bad_control"] > 400)
                assert isinstance(node._transport, Streams)
                assert len(node._transport._links) <= MAX_HEARSAY + 2

    told(story)


def test_beats_under_made_up_names_open_few_connections() -> None:
    async def story() -> None:
        async with Node() as node:
            with Stranger(node.uri, b"stranger") as stranger:
                stranger.greet()
                for number in range(500):
                    stranger.send(said(Beat(b"%d" % number, 5, f"tcp://127.0.0.1:{number + 1}", 1)))
                stranger.send(said(Greet("x")))
                await until(lambda: node.dead_letters.counts["no_route"])
                assert isinstance(node._transport, Streams)
                assert len(node._transport._links) <= MAX_HEARSAY

    told(story)


@pytest.mark.slow
def test_a_candidate_that_does_not_read_is_sent_no_more_than_a_queue() -> None:
    async def story() -> None:
        async with Node() as node:
            for _ in range(500):
                node.host(Greeter())
            with Stranger(node.uri, connection_name(b"peer", bytes(8))) as peer:
                peer.greet()
                peer.send(said(Hello(b"peer", 5, NOWHERE)))
                await until(lambda: node.peers)
                for _ in range(3000):
                    node._membership._say(NOWHERE, node._membership._cluster.all_routes(), b"peer")
                (link,) = node._transport._links.values()  # type: ignore[attr-defined]
                assert link.candidate.unread < 10  # the frames of one message
                assert node.statistics().outbox_messages <= CONTROL_MESSAGES + node.settings.outbox_messages

    told(story)


# -- credit


class Tiny(Actor):
    @handles
    async def take(self, parcel: Parcel) -> None: ...


# fmt: off
NONSENSE = [
    #  taken, bytes, messages, bytes
    (LARGEST - 1, LARGEST - 1, LARGEST - 1, LARGEST - 1),
    (0, 0, 0, 0),
    (0, 0, 1, 1),
]
# fmt: on


@pytest.mark.slow
@pytest.mark.parametrize("numbers", NONSENSE)
def test_credit_that_makes_no_sense_harms_only_the_line_of_whom_it_is_from(numbers: tuple[int, int, int, int]) -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b, network.node(peers=[b.uri]) as c:
            c.host(Greeter())
            a.host(slow := Slow(0.0))
            await b.knows(Parcel)
            await b.knows(Greet)
            words = Credit(a.identity, a._incarnation, b"parcels.parcel", *numbers)
            for number in range(500):
                await b.hub().tell(Parcel(number))
                b._membership._credits.grant(words)
                b._membership._credits.grant(Credit(a.identity, 5, b"no such line", *numbers))
            assert await b.hub().ask(Greet("x"), Greeting, timeout=1) == Greeting("hello x")
            while len(slow.taken) < 500:
                await asyncio.sleep(0.1)
            assert slow.taken == list(range(500))
            assert len(b._membership._credits.lines) < 5

    run(story)


@pytest.mark.slow
def test_a_peer_that_never_grants_keeps_waiting_who_talks_to_it_and_nobody_else() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b, network.node(peers=[b.uri]) as c:
            a.host(Tiny())
            c.host(Greeter())
            await b.knows(Parcel)
            await b.knows(Greet)
            a._consumption._tell = lambda node, credit: None
            stuck = [asyncio.ensure_future(b.hub().tell(Parcel(number), ttl=20)) for number in range(20_000)]
            await asyncio.sleep(1)
            assert await b.hub().ask(Greet("x"), Greeting, timeout=1) == Greeting("hello x")
            assert not all(each.done() for each in stuck)
            await asyncio.wait(stuck, timeout=60)
            assert all(each.done() for each in stuck)

    run(story)


@pytest.mark.slow
def test_a_large_message_that_was_lost_with_its_connection_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "ASK_FOR_CREDIT_SECONDS", 1000.0)  # who waits for that waits for ever

    async def story() -> None:
        small = replace(FAITHFUL, inbox_bytes=1_000_000)
        async with Node(settings=small) as a, Node(peers=[a.uri], settings=FAITHFUL) as b:
            a.host(slow := Slow(0.0))
            await b.knows(Parcel)
            await b.hub().send(Parcel(0))
            (link,) = b._transport._links.values()  # type: ignore[attr-defined]
            (there,) = a._transport._inbound  # type: ignore[attr-defined]
            a._timing.loop.remove_reader(there._sock)  # so that it stays in the kernel
            await b.hub().tell(Parcel(1, bytes(20_000_000)))
            link.connection.close("cut")
            await b.hub().tell(Parcel(2))
            await until(lambda: slow.taken == [0, 2])

    told(story)


# -- silence


async def _does(process: subprocess.Popen[str], what: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{what}\n")
    process.stdin.flush()
    return (await asyncio.to_thread(process.stdout.readline)).strip()


@pytest.mark.slow
def test_a_process_that_stood_still_for_too_long_is_answered_as_soon_as_it_goes_on() -> None:
    async def story() -> None:
        async with Node() as a:
            a.host(Greeter())
            with child("asker", a.uri) as (process, _):
                assert await _does(process, "know") == "known"  # peers meet before they know each other's routes
                os.kill(process.pid, signal.SIGSTOP)
                await until(lambda: not a.peers)  # five seconds
                os.kill(process.pid, signal.SIGCONT)
                assert await _does(process, "ask") == "hello x"
                await until(lambda: a.peers)
                assert "unknown_node" not in a.dead_letters.counts

    told(story)


def test_a_node_that_was_silent_is_met_again_with_its_first_word() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            a.host(Greeter())
            b.host(Tiny())
            await b.knows(Greet)
            await a.knows(Parcel)
            network.cut(a, b)
            b._membership._ticker.cancel()  # b stands still
            while a.peers:
                await asyncio.sleep(0.1)
            network.heal()
            assert await b.hub().ask(Greet("x"), Greeting, timeout=0.5) == Greeting("hello x")
            assert a.peers == (b.identity,)
            await a.hub().send(Parcel(1), timeout=1)
            assert not a.dead_letters.counts
            b._membership._tick()

    run(story)


def test_who_asks_a_node_that_was_lost_as_silent_is_told() -> None:
    async def story(network: Network) -> None:
        async with network.node() as a, network.node(peers=[a.uri]) as b:
            b.host(Slow(100.0))
            await a.knows(Parcel)
            await a.hub().send(Parcel(1), to=Address(b.identity))
            network.crash(b)
            with pytest.raises(Unreachable):
                await a.hub().send(Parcel(2), to=Address(b.identity), timeout=30)

    run(story)
