"""Who speaks for a node: nobody but the node, for as long as it lives."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack

import pytest

from hopwire.cluster.announce import Bye, Doubled, Hello, Routes
from hopwire.cluster.events import Dialled, Pace
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings
from hopwire.wire.connection import connection_name
from tests.attacks.stranger import Stranger, said
from tests.attacks.victim import node_of
from tests.node.child import child
from tests.node.loopback import ANSWER_SECONDS, NOWHERE, streams_of, told, until
from tests.node.stories import Greet, Greeter, Greeting
from tests.ports import free_port

KINDS = ["open", "signed"]


def incarnation_at(node: Node, peer: Node) -> int:
    return node._membership._cluster.peers[peer.identity].incarnation


def connection_of(node: Node, peer: Node) -> bytes:
    """The name of the connection that a peer has at a node."""
    (name,) = node._membership._trust.callers.of(peer.identity)
    return name


def test_what_was_believed_of_a_connection_ends_with_the_connection() -> None:
    async def story() -> None:
        async with Node() as node:
            name = connection_name(b"peer", bytes(8))
            with Stranger(node.uri, name) as peer:
                peer.greet()
                peer.send(said(Hello(b"peer", 5, NOWHERE)))
                await until(lambda: name in node._membership._trust.callers.nodes)
            await until(lambda: not node._membership._trust.callers.nodes)
            with Stranger(node.uri, name) as copy:
                copy.greet()
                copy.send(said(Bye(b"peer", 5)))
                await until(lambda: node.dead_letters.counts["bad_control"])
            assert node.peers == (b"peer",)

    told(story)


def test_who_takes_the_name_of_a_silent_connection_over_begins_as_a_stranger() -> None:
    async def story() -> None:
        async with Node() as node:
            name, streams = connection_name(b"peer", bytes(8)), streams_of(node)
            with Stranger(node.uri, name) as peer, Stranger(node.uri, name) as copy:
                peer.greet()
                peer.send(said(Hello(b"peer", 5, NOWHERE)))
                await until(lambda: name in node._membership._trust.callers.nodes)
                silent = streams._names[name]
                silent.has_stirred, streams._stirred_at[silent] = False, -1e9
                copy.greet()
                copy.send(said(Bye(b"peer", 5)))  # in one piece with the handshake
                await until(lambda: node.dead_letters.counts["bad_control"])
                assert name not in node._membership._trust.callers.nodes
                assert node.peers == (b"peer",)

    told(story)


@pytest.mark.parametrize("kind", KINDS)
def test_who_has_recorded_the_name_of_a_connection_cuts_no_link(kind: str) -> None:
    async def story() -> None:
        async with node_of(kind) as a, node_of(kind, peers=(a.uri,)) as b:
            a.host(Greeter())
            await b.knows(Greet)
            await until(lambda: a._membership._trust.callers.of(b.identity))
            taken, streams = connection_of(a, b), streams_of(a)
            former = streams._names[taken]
            for number in range(1, 4):
                with Stranger(a.uri, taken) as copy:  # from the same host, as everybody behind a proxy
                    copy.greet()
                    await until(lambda number=number: streams.closed["name_taken"] == number)  # type: ignore[misc]
                assert (await b.hub().ask(Greet("x"), Greeting)).text == "hello x"
            assert streams._names[taken] is former

    told(story)


def test_who_listens_cannot_give_its_connection_the_name_of_another() -> None:
    async def story() -> None:
        async with Node() as a, Node(peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            taken = connection_of(a, b)
            async with node_of("open") as liar:
                liar._transport._new_name = lambda: taken  # type: ignore[attr-defined]
                a._membership._transport.connect(liar.uri)
                await until(lambda: a._transport.closed["name_taken"])  # type: ignore[attr-defined]
                assert connection_of(a, b) == taken

    told(story)


@pytest.mark.parametrize("words", ["another address", "a restart", "an address that was dialled"])
def test_a_forged_hello_moves_no_peer_that_lives(words: str) -> None:
    async def story() -> None:
        async with Node() as a, Node() as c, Node(peers=[a.uri], identity=b"victim") as b:
            b.host(Greeter())
            await a.knows(Greet)
            await until(lambda: a._outgoing.address(b"victim") == b.uri)
            now, here = incarnation_at(a, b), a._incarnation
            forged = {
                "another address": Hello(b"victim", now, NOWHERE),
                "a restart": Hello(b"victim", now + 1, NOWHERE),
                "an address that was dialled": Hello(b"victim", now, NOWHERE, heard=here, via=c.uri),
            }[words]
            with ExitStack() as stack:
                for number in range(3):
                    stranger = stack.enter_context(Stranger(a.uri, connection_name(b"victim", bytes([number] * 8))))
                    stranger.greet()
                    stranger.send(said(forged))
                    stranger.send(said(Routes(b"victim", forged.incarnation, 99)))
                    stranger.send(said(Bye(b"victim", forged.incarnation)))
                for number in range(30):
                    answer = await a.hub().ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS)
                    assert answer == Greeting(f"hello {number}")
                assert a._outgoing.address(b"victim") == b.uri
                assert incarnation_at(a, b) == now
            await until(lambda: a.dead_letters.counts["bad_control"] >= 6)
            assert b"victim" in a.peers

    told(story)


def test_the_peer_is_asked_about_a_connection_and_nobody_else_hears_the_secret() -> None:
    async def story() -> None:
        async with Node() as a, Node(peers=[a.uri], identity=b"victim") as b:
            await until(lambda: b"victim" in a.peers)
            callers = a._membership._trust.callers
            await until(lambda: callers.of(b"victim"))
            name = connection_name(b"victim", b"stranger")
            with Stranger(a.uri, name) as stranger:
                stranger.greet()
                for proof in (b"", b"guessed", name + bytes(16)):
                    stranger.send(
                        said(Hello(b"victim", incarnation_at(a, b), NOWHERE, heard=a._incarnation, proof=proof))
                    )
                await until(lambda: callers.nodes.get(name) == b"victim")
                assert await a.hub().ask(Greet("x"), Greeting, to=a.host(Greeter())) == Greeting("hello x")
                assert not callers.is_sure(name)
                assert a._outgoing.address(b"victim") == b.uri

    told(story)


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_is_dialled_by_two_names_proves_its_second_connection(kind: str) -> None:
    async def story() -> None:
        async with node_of(kind) as a:
            two = (a.uri, a.uri.replace("127.0.0.1", "localhost"))
            async with node_of(kind, peers=two) as b:
                callers = a._membership._trust.callers
                await until(lambda: len(callers.of(b.identity)) == 2)
                assert not a.dead_letters.counts
                assert not b.dead_letters.counts

    told(story)


@pytest.mark.slow
def test_a_process_that_is_killed_and_started_again_is_known_at_once() -> None:
    async def story() -> None:
        slow = Pace(beat_ns=60 * NS_PER_SECOND, silence_ns=600 * NS_PER_SECOND)  # silence says nothing in time
        async with Node(settings=NodeSettings(pace=slow)) as a:
            with child("greeter:again", a.uri) as (process, _):
                await a.knows(Greet)
                (peer,) = a._membership._cluster.peers.values()
                process.kill()
                process.wait()
            with child("greeter:again", a.uri):
                await until(lambda: _is_newer(a, peer.node, peer.incarnation))
                await a.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS, at_least_once=True)

    told(story)


def _is_newer(node: Node, peer: bytes, incarnation: int) -> bool:
    found = node._membership._cluster.peers.get(peer)
    return found is not None and found.incarnation > incarnation


def test_a_start_in_the_future_is_not_believed() -> None:
    async def story() -> None:
        async with Node() as node:
            with Stranger(node.uri, connection_name(b"peer", bytes(8))) as stranger:
                stranger.greet()
                stranger.send(said(Hello(b"peer", 2**62, NOWHERE)))
                await until(lambda: node.dead_letters.counts["bad_control"])
                assert node.peers == ()

    told(story)


def test_an_address_that_two_nodes_name_is_found_out_by_going_there() -> None:
    async def story() -> None:
        async with Node() as a, Node(identity=b"victim") as b:
            with Stranger(a.uri, connection_name(b"thief", bytes(8))) as thief:
                thief.greet()
                thief.send(said(Hello(b"thief", 5, b.uri, heard=a._incarnation)))
                await until(lambda: b"thief" in a.peers)
                b.host(Greeter())
                b._membership._step(Dialled(a.uri))
                await a.knows(Greet)
                for number in range(20):
                    assert await a.hub().ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS) == Greeting(
                        f"hello {number}"
                    )

    told(story)


# -- two processes with one identity


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_nodes_with_one_identity_are_found_out_and_both_are_told(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with node_of(kind) as a:
            options = {"identity": b"twin", "domains": a._domains, "peers": [a.uri]}
            async with Node(**options) as one:  # type: ignore[arg-type]
                await until(lambda: b"twin" in a.peers)
                one.host(Greeter())
                await a.knows(Greet)
                async with Node(**options) as other:  # type: ignore[arg-type]
                    await until(lambda: len(_told(caplog, "doubled")) >= 2)
                    assert await a.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS) == Greeting("hello x")
                    assert other.peers == ()
                    words = {record.hopwire_uri for record in _told(caplog, "doubled")}  # type: ignore[attr-defined]
                    assert words == {f"'{one.uri}'", f"'{other.uri}'"}
                    await asyncio.sleep(1.0)  # some hellos more
                    assert len(_told(caplog, "doubled")) == 2
                    advice = "give each process its own identity= or name="
                    assert all(record.getMessage().endswith(advice) for record in _told(caplog, "doubled"))
                    assert len(_told(caplog, "duplicate")) == 1

    caplog.set_level(logging.WARNING)
    told(story)


def _told(caplog: pytest.LogCaptureFixture, what: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "hopwire_event", "") == what]


def test_a_stranger_cannot_tell_a_node_that_it_is_double(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Node() as node:
            with Stranger(node.uri, connection_name(b"peer", bytes(8))) as stranger:
                stranger.greet()
                stranger.send(said(Doubled(b"peer", 5, node.identity, NOWHERE)))
                await until(lambda: node.dead_letters.counts["bad_control"])
        assert not _told(caplog, "doubled")

    told(story)


def test_the_own_address_among_the_peers_is_skipped_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        port = free_port()
        own = [f"tcp://{host}:{port}" for host in ("127.0.0.1", "localhost")]
        async with Node(own[0], peers=own) as node, Node(peers=own) as other:
            await until(lambda: other.identity in node.peers)
            await until(lambda: not node._membership.unanswered())
            assert node.peers == (other.identity,)
            assert not node.dead_letters.counts

    told(story)
    assert not caplog.records
