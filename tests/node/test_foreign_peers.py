"""Foreign peers: programs that are no nodes, dialled by a node that asks and tells them in their format."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import zmq
import zmq.asyncio
from plain_formats import Plain, answer_to, mac, read, signed, write

from hopwire.capture import read_capture, sightings_from_batch
from hopwire.cluster.announce import Beat, Hello
from hopwire.errors import HandlerFailed, NoRoute, UnexpectedAnswer, Unreachable
from hopwire.node import Address, Foreign, Node, NodeSettings, PeerLost, PeerMet, Receipt
from hopwire.security import Domains
from hopwire.wire.connection import connection_name
from hopwire.wire.exception_body import RaisedError, write_exception
from tests.attacks.stranger import GREETING as GREETING_BYTES
from tests.attacks.stranger import Stranger, ready
from tests.attacks.stranger import said as said_over
from tests.node.foreigners import (
    EXCEPTION,
    FORMATS,
    GREETING,
    IDS,
    KINDS,
    RECEIPT,
    SECRET,
    PlainGreet,
    PlainGreeter,
    PlainGreeting,
    PlainRelay,
    body,
    plain_question,
    plain_socket,
)
from tests.node.loopback import told, until

LEGACY_ONE = b"legacy-1"
each_kind = pytest.mark.parametrize(("fmt", "domains"), KINDS, ids=IDS)
each_format = pytest.mark.parametrize("fmt", FORMATS)


class ForeignProgram:
    """A ROUTER that listens, and what it was sent: the name of the sender, and the frames behind it."""

    def __init__(self, router: zmq.asyncio.Socket) -> None:
        self.router = router
        self.uri = router.getsockopt_string(zmq.LAST_ENDPOINT)

    def as_peer(self, fmt: str, identity: bytes = LEGACY_ONE) -> Foreign:
        return Foreign(identity, self.uri, fmt, [PlainGreet])

    async def heard(self) -> tuple[bytes, list[bytes]]:
        name, *frames = await self.router.recv_multipart()
        return name, frames

    async def answer(self, identity: bytes = b"plain.greeting", said: bytes = b'{"text":"from afar"}') -> Plain:
        """Take the next question, and answer it by the rules of the documents."""
        name, frames = await self.heard()
        fmt, question = read(frames)
        answer = answer_to(question, identity, said)
        if question.domain:
            answer = signed(fmt, answer, question.domain, SECRET)
        await self.router.send_multipart([name, *write(fmt, answer)])
        return question


@asynccontextmanager
async def listening_program(
    uri: str = "tcp://127.0.0.1:*", identity: bytes = LEGACY_ONE
) -> AsyncIterator[ForeignProgram]:
    with plain_socket(zmq.ROUTER, identity) as router:
        router.bind(uri)
        yield ForeignProgram(router)


@each_kind
def test_foreign_peer_is_asked_in_its_format_to_the_byte(fmt: str, domains: Domains) -> None:
    async def story() -> None:
        async with listening_program() as program, Node(domains=domains, foreign=[program.as_peer(fmt)]) as node:
            await node.knows(PlainGreet)
            for _ in range(3):  # the later ones would take the express way
                asking = asyncio.create_task(node.hub().ask(PlainGreet("Ada"), PlainGreeting, correlation_id=b"a flow"))
                name, frames = await program.heard()
                assert name == node.identity
                found, question = read(frames)
                (key,) = node.hub()._promises
                has_key = fmt in ("V5", "V6")
                expected = Plain(
                    b"plain.greet",
                    body=body("Ada"),
                    correlation_id=b"a flow",
                    callback_receiver=node.hub().identity if has_key else question.callback_receiver,
                    callback_node=node.identity if has_key else b"",
                    callback_key=key if has_key else 0,
                    points=(GREETING, EXCEPTION),
                    hops=1,
                    ttl_ticks=question.ttl_ticks,
                )
                expected = signed(fmt, expected, b"plain", SECRET) if domains.signing else expected
                assert (found, frames) == (fmt, write(fmt, expected))
                assert 0 < question.ttl_ticks <= 300_000_000
                answer = answer_to(question, b"plain.greeting", b'{"text":"hello Ada"}')
                answer = signed(fmt, answer, b"plain", SECRET) if domains.signing else answer
                await program.router.send_multipart([name, *write(fmt, answer)])
                assert await asking == PlainGreeting("hello Ada")
            assert not node.dead_letters.counts

    told(story)


@each_format
def test_foreign_peer_is_told_in_its_format_to_the_byte(fmt: str) -> None:
    async def story() -> None:
        async with listening_program() as program, Node(foreign=[program.as_peer(fmt)]) as node:
            await node.knows(PlainGreet)
            expected = Plain(b"plain.greet", body=body("Ada"), correlation_id=b"a flow", hops=1)
            await node.hub().tell(PlainGreet("Ada"), correlation_id=b"a flow")
            assert (await program.heard())[1] == write(fmt, expected)
            await node.hub().broadcast(PlainGreet("Ada"), correlation_id=b"a flow")
            assert (await program.heard())[1] == write(fmt, expected._replace(distribution=1))
            await node.hub().tell(PlainGreet("Ada"), correlation_id=b"a flow", to=Address(LEGACY_ONE))
            assert (await program.heard())[1] == write(fmt, expected._replace(receiver_node=LEGACY_ONE))

    told(story)


@each_kind
def test_exception_of_the_original_is_the_error_of_a_handler(fmt: str, domains: Domains) -> None:
    async def story() -> None:
        async with listening_program() as program, Node(domains=domains, foreign=[program.as_peer(fmt)]) as node:
            await node.knows(PlainGreet)
            for said, reason in (
                (write_exception(RaisedError("InvalidOperation", "not now")) + bytes(50), "InvalidOperation"),
                (b"no BSON", "KINO.EXCEPTION"),
            ):
                answering = asyncio.create_task(program.answer(b"KINO.EXCEPTION", said))
                with pytest.raises(HandlerFailed) as failed:
                    await node.hub().ask(PlainGreet("Ada"), PlainGreeting)
                assert (failed.value.reason, failed.value.node) == (reason, LEGACY_ONE)
                await answering

    told(story)


@each_format
def test_foreign_peer_gives_receipts_in_the_words_of_the_original(fmt: str) -> None:
    async def story() -> None:
        async with listening_program() as program, Node(foreign=[program.as_peer(fmt)]) as node:
            await node.knows(PlainGreet)
            sending = asyncio.create_task(node.hub().send(PlainGreet("Ada")))
            question = await program.answer(RECEIPT[0], b"")
            assert question.points == (RECEIPT, EXCEPTION)
            assert await sending == Receipt(LEGACY_ONE)

    told(story)


@each_kind
def test_flow_goes_on_from_a_foreign_peer_to_an_actor_here(fmt: str, domains: Domains) -> None:
    async def story() -> None:
        async with listening_program() as program:
            peer = Foreign(LEGACY_ONE, program.uri, fmt, [PlainRelay])
            async with Node(domains=domains, foreign=[peer]) as node:
                node.host(PlainGreeter())
                await node.knows(PlainRelay)
                answering = asyncio.create_task(program.answer(b"plain.greet", body("Ada")))
                assert (await node.hub().ask(PlainRelay("Ada"), PlainGreeting)).text == "hello Ada"
                await answering
                assert not node.dead_letters.counts

    told(story)


@each_format
def test_foreign_peer_asks_over_the_connection_that_was_opened_to_it(fmt: str) -> None:
    async def story() -> None:
        async with listening_program() as program, Node(foreign=[program.as_peer(fmt)]) as node:
            await node.knows(PlainGreet)
            await node.hub().tell(PlainGreet("who are you?"))
            name, _ = await program.heard()
            node.host(PlainGreeter())
            for callback_node in (b"somebody", LEGACY_ONE):
                question = plain_question(fmt)
                if fmt in ("V5", "V6"):
                    question = question._replace(callback_node=callback_node)
                await program.router.send_multipart([name, *write(fmt, question)])
                _, frames = await program.heard()
                answer = answer_to(question, b"plain.greeting", b'{"text":"hello Ada"}')
                assert frames == write(fmt, answer._replace(hops=1))

    told(story)


def test_foreign_peer_takes_turns_with_nodes() -> None:
    async def story() -> None:
        async with Node() as other, listening_program() as program:
            actors = PlainGreeter(), PlainGreeter()
            other.host(actors[0])
            async with Node(peers=[other.uri], foreign=[program.as_peer("V5")]) as node:
                node.host(actors[1])
                await until(lambda: len(node._tables.handlers_of(PlainGreet.__contract__.contract)) == 3)  # type: ignore[union-attr]

                async def answer() -> None:
                    while True:
                        await program.answer()

                answering = asyncio.create_task(answer())
                texts = [(await node.hub().ask(PlainGreet("Ada"), PlainGreeting)).text for _ in range(12)]
                answering.cancel()
                assert (texts.count("from afar"), len(actors[0].greeted), len(actors[1].greeted)) == (4, 4, 4)

    told(story)


@each_format
def test_promises_end_with_the_connection_and_the_address_is_dialled_again(fmt: str) -> None:
    async def story() -> None:
        async with listening_program() as program:
            peer, uri = program.as_peer(fmt), program.uri
            node = Node(foreign=[peer])
            await node.start()
            events = node.events()
            await node.knows(PlainGreet)
            assert node.peers == (LEGACY_ONE,)
            asking = asyncio.create_task(node.hub().ask(PlainGreet("Ada"), PlainGreeting))
            _, frames = await program.heard()
        with pytest.raises(Unreachable):
            await asking
        assert not node.peers
        with pytest.raises(NoRoute):
            await node.hub().ask(PlainGreet("Ada"), PlainGreeting)
        async with listening_program(uri) as program:
            await node.knows(PlainGreet)
            asking = asyncio.create_task(node.hub().ask(PlainGreet("Bob"), PlainGreeting))
            _, late = read(frames)
            question = await program.answer()
            assert question.body == body("Bob")
            assert (await asking).text == "from afar"
            assert late.callback_receiver != question.callback_receiver or fmt in ("V5", "V6")
        seen = [await anext(events) for _ in range(6)]
        assert [type(each) for each in seen if isinstance(each, PeerMet | PeerLost)][:3] == [PeerMet, PeerLost, PeerMet]
        await node.stop()

    told(story)


def test_nothing_of_ours_reaches_a_foreign_peer() -> None:
    async def story() -> None:
        async with Node() as other, listening_program() as program:
            async with Node(peers=[other.uri], foreign=[program.as_peer("V6")]) as node:
                await node.knows(PlainGreet)
                hub = node.hub()
                with pytest.raises(NoRoute, match="cannot_carry"):
                    await hub.trace(PlainGreet("Ada"))
                answering = asyncio.create_task(program.answer())
                parts = hub.stream(PlainGreet("Ada"), PlainGreeting)
                assert (await anext(parts)).text == "from afar"
                with pytest.raises(UnexpectedAnswer, match="no_stream"):
                    await anext(parts)
                question = await answering
                assert question.points == (GREETING, EXCEPTION)
                answering = asyncio.create_task(program.answer())
                assert (await hub.ask(PlainGreet("Bob"), PlainGreeting, at_least_once=True)).text == "from afar"
                await answering
                await hub.tell(PlainGreet("the last"))
            _, frames = await program.heard()
            assert (len(frames), read(frames)[1].body) == (3, body("the last"))
            with pytest.raises(asyncio.TimeoutError):  # no goodbye either
                async with asyncio.timeout(0.05):
                    await program.heard()

    told(story)


def test_nobody_takes_the_place_of_a_foreign_peer_by_a_hello() -> None:
    async def story() -> None:
        async with listening_program() as program, Node(foreign=[program.as_peer("V6")]) as node:
            await node.knows(PlainGreet)
            counts = node.dead_letters.counts
            words: list[Hello | Beat] = [
                Hello(LEGACY_ONE, 5, "tcp://127.0.0.1:1"),
                Hello(b"somebody", 5, program.uri),
                Beat(b"somebody", 5, program.uri, 1),
            ]
            for refused, word in enumerate(words):
                with Stranger(node.uri, connection_name(word.node, bytes(8))) as stranger:
                    stranger.greet()
                    stranger.send(said_over(word))
                    await until(partial(lambda before: counts["bad_control"] > before, refused))
            with Stranger(node.uri, LEGACY_ONE) as stranger:  # the name of its socket is no secret
                stranger.greet()
                answering = asyncio.create_task(program.answer())
                assert (await node.hub().ask(PlainGreet("Ada"), PlainGreeting)).text == "from afar"
                await answering
            assert node.peers == (LEGACY_ONE,)

    told(story)


def test_who_has_the_name_of_its_socket_first_does_not_keep_a_foreign_peer_away() -> None:
    async def story() -> None:
        async with listening_program() as program:
            node = Node(foreign=[Foreign(LEGACY_ONE, program.uri, "V5", [PlainGreet])])
            await node.start()
            with Stranger(node.uri, LEGACY_ONE) as stranger:
                stranger.greet()
                await node.knows(PlainGreet)
            await node.stop()

    told(story)


@each_format
def test_answer_from_a_connection_of_its_own_is_taken_too(fmt: str) -> None:
    """So the original talks: each side dials the other, and sends over its own connection."""

    async def story() -> None:
        async with listening_program() as program, Node(foreign=[program.as_peer(fmt)]) as node:
            await node.knows(PlainGreet)
            with plain_socket(zmq.DEALER, LEGACY_ONE) as dealer:
                dealer.connect(node.uri)
                asking = asyncio.create_task(node.hub().ask(PlainGreet("Ada"), PlainGreeting))
                _, question = read((await program.heard())[1])
                answer = answer_to(question, b"plain.greeting", b'{"text":"from afar"}')
                await dealer.send_multipart(write(fmt, answer))
                assert (await asking).text == "from afar"
                if fmt in ("V5", "V6"):  # and its questions are answered at its address
                    node.host(PlainGreeter())
                    await dealer.send_multipart(write(fmt, plain_question(fmt, callback_node=LEGACY_ONE)))
                    assert read((await program.heard())[1])[1].body == b'{"text":"hello Ada"}'

    told(story)


def test_questions_to_who_does_not_read_wait_for_room_and_end_with_the_connection() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.setblocking(False)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer = Foreign(LEGACY_ONE, f"tcp://127.0.0.1:{server.getsockname()[1]}", "V4", [PlainGreet])
            async with Node(foreign=[peer], settings=NodeSettings(outbox_messages=2)) as node:
                silent, _ = await loop.sock_accept(server)
                with silent:
                    silent.sendall(GREETING_BYTES + ready(b"ROUTER", b""))
                    await node.knows(PlainGreet)
                    name = "x" * 1_000_000
                    asked = [asyncio.create_task(node.hub().ask(PlainGreet(name), PlainGreeting)) for _ in range(20)]
                    await until(lambda: node.statistics().outbox_messages == 2)
                    assert not any(each.done() for each in asked)
                ended = await asyncio.gather(*asked, return_exceptions=True)
                assert {type(each) for each in ended} == {Unreachable}
                assert not node.statistics().outbox_messages

    told(story)


def test_captures_show_what_was_said_with_a_foreign_peer(tmp_path: Path) -> None:
    async def story() -> None:
        async with listening_program() as program, Node(foreign=[program.as_peer("V3")], capture=tmp_path) as node:
            await node.knows(PlainGreet)
            answering = asyncio.create_task(program.answer())
            await node.hub().ask(PlainGreet("Ada"), PlainGreeting)
            await answering
        sightings = [each for batch in read_capture(tmp_path) for each in sightings_from_batch(batch)]
        seen = [(str(each.direction), each.peer, read(list(each.frames[1:]))[0]) for each in sightings]
        assert seen == [("out", LEGACY_ONE, "V3"), ("in", LEGACY_ONE, "V3")]

    told(story)


def test_signature_of_a_foreign_peer_is_judged_as_any_other() -> None:
    fmt, domains = KINDS[-1]

    async def story() -> None:
        async with listening_program() as program, Node(domains=domains, foreign=[program.as_peer(fmt)]) as node:
            await node.knows(PlainGreet)
            asking = asyncio.create_task(node.hub().ask(PlainGreet("Ada"), PlainGreeting))
            name, frames = await program.heard()
            _, question = read(frames)
            assert question.signature == mac(fmt, question, SECRET)
            answer = answer_to(question, b"plain.greeting", b'{"text":"a lie"}')._replace(domain=b"plain")
            await program.router.send_multipart([name, *write(fmt, answer._replace(signature=bytes(32)))])
            await until(lambda: node.dead_letters.counts["bad_signature"])
            true = signed(fmt, answer._replace(body=b'{"text":"true"}'), b"plain", SECRET)
            await program.router.send_multipart([name, *write(fmt, true)])
            assert (await asking).text == "true"

    told(story)
