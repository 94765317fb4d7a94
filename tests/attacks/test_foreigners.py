"""Programs that are no nodes, and mean no good: they get what is theirs, which is bounded, and nothing of others."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Any

import pytest
from plain_formats import Plain, write

from hopwire.cluster.announce import Hello
from hopwire.model.names import FEEDS, FOREIGN
from hopwire.node import Actor, Node, NodeSettings, handles
from hopwire.node.abroad import EACH
from hopwire.node.streams import ADOPTED_LIMITS, MOST_ADOPTED, Streams
from hopwire.wire.connection import connection_name
from tests.attacks.stranger import MORE, Stranger, frame, said
from tests.node.foreigners import (
    ANSWERS,
    EXCEPTION,
    FORMATS,
    GREETING,
    HUB,
    PlainGreet,
    PlainGreeter,
    PlainGreeting,
    plain_dealer,
    plain_question,
    received,
)
from tests.node.loopback import streams_of, told, until


def open_questions(node: Node) -> int:
    assert node._abroad is not None
    assert sum(map(len, node._abroad._of.values())) == len(node._abroad)
    return len(node._abroad)


def on_the_wire(frames: list[bytes]) -> bytes:
    last = len(frames) - 1
    return b"".join(frame(data, MORE if number < last else 0) for number, data in enumerate(frames))


class LargeGreeter(Actor):
    @handles
    async def greet(self, request: PlainGreet) -> PlainGreeting:
        return PlainGreeting(text="x" * 20_000)


@pytest.mark.parametrize("fmt", ["V5", "V6"])
def test_who_names_a_living_member_gets_nothing_and_diverts_nothing(fmt: str) -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node, Node(peers=[node.uri]) as member:
            node.host(PlainGreeter())
            await member.knows(PlainGreet)
            hub = member.hub()
            name = connection_name(member.identity, bytes(8))  # the connection claims to be of the member too
            with plain_dealer(node, name) as stranger:
                for key in range(50):
                    question = plain_question(
                        fmt, "Eve", callback_node=member.identity, callback_receiver=hub.identity, callback_key=key
                    )
                    await stranger.send_multipart(write(fmt, question))
                    answer = await hub.ask(PlainGreet("Ada"), PlainGreeting)
                    assert answer.text == "hello Ada"
                await until(lambda: member.dead_letters.counts["nobody_waits"] == 50)  # as without these settings
                assert not await stranger.poll(0)
            assert open_questions(node) == 0

    told(story)


@pytest.mark.parametrize("fmt", ["V3", "V4"])
def test_who_names_the_hub_of_a_member_gets_nothing(fmt: str) -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node, Node(peers=[node.uri]) as member:
            node.host(PlainGreeter())
            await member.knows(PlainGreet)
            hub = member.hub(new=True)
            await until(lambda: node._tables.remote.nodes_of(hub.identity))
            with plain_dealer(node) as stranger:
                await stranger.send_multipart(write(fmt, plain_question(fmt, callback_receiver=hub.identity)))
                await until(lambda: member.dead_letters.counts["nobody_waits"])
                assert not await stranger.poll(0)

    told(story)


def test_who_has_the_name_of_another_foreigner_gets_none_of_its_answers() -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            actor = PlainGreeter()
            actor.may_answer.clear()
            node.host(actor)
            with Stranger(node.uri, b"one name") as honest:
                honest.greet()
                honest.send(write("V5", plain_question("V5")))
                await until(lambda: open_questions(node) == 1)
                with plain_dealer(node, b"one name") as other:
                    await until(lambda: open_questions(node) == 0)  # the later connection has the name, and no more
                    actor.may_answer.set()
                    await until(lambda: node.dead_letters.counts["nobody_waits"])
                    assert not await other.poll(0)
                    await other.send_multipart(write("V5", plain_question("V5", "Bob")))
                    assert (await received(other))[1].body == b'{"text":"hello Bob"}'

    told(story)


def test_who_leaves_before_the_answer_leaves_nothing_behind() -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            actor = PlainGreeter()
            actor.may_answer.clear()
            node.host(actor)
            with Stranger(node.uri) as stranger:
                stranger.greet()
                for key in range(20):
                    stranger.send(write("V6", plain_question("V6", callback_key=key)))
                await until(lambda: open_questions(node) == 20)
            await until(lambda: open_questions(node) == 0)
            actor.may_answer.set()
            await until(lambda: node.dead_letters.counts["nobody_waits"] == 20)
            streams = streams_of(node)
            assert not streams._adopted
            assert not streams._links
            assert not streams._peers
            assert not streams._users

    told(story)


def test_who_leaves_while_the_answer_is_on_its_way_leaves_nothing_behind() -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            node.host(LargeGreeter())
            with Stranger(node.uri) as stranger:
                stranger._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stranger.greet()
                for key in range(400):
                    stranger.send(write("V6", plain_question("V6", callback_key=key)))
                await until(lambda: node.statistics().outbox_messages)
            await until(lambda: not streams_of(node)._adopted)
            assert node.statistics().outbox_messages == 0
            assert node.dead_letters.counts["unreachable"]
            await until(lambda: open_questions(node) == 0)

    told(story)


def test_who_never_reads_keeps_a_bounded_queue_and_nobody_waiting() -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            node.host(LargeGreeter())
            with Stranger(node.uri) as deaf, plain_dealer(node) as honest:
                deaf.greet()
                loop = asyncio.get_running_loop()
                deaf._socket.setblocking(False)
                asked = on_the_wire(write("V5", plain_question("V5")))
                for _ in range(2000):
                    await loop.sock_sendall(deaf._socket, asked)
                await until(lambda: node.dead_letters.counts["queue_full"] > 500)
                waiting = node.statistics()
                assert waiting.outbox_messages <= ADOPTED_LIMITS.max_messages
                assert waiting.outbox_bytes <= ADOPTED_LIMITS.max_bytes
                assert open_questions(node) <= EACH
                await honest.send_multipart(write("V5", plain_question("V5")))
                assert len((await received(honest))[1].body) > 20_000

    told(story)


@pytest.mark.slow
def test_very_many_questions_of_one_connection_are_bounded_and_each_is_told(is_long: bool) -> None:
    """Each has a key by chance. Those beyond the limit are refused at once, in words; the others wait for the actor."""
    fmt, mark, many = "V6", 0x0102030405060708, 100_000 if is_long else 20_000
    asked = plain_question(fmt, callback_key=mark, points=(GREETING,))
    parts = on_the_wire(write(fmt, asked)).split(struct.pack("<q", mark))
    assert len(parts) == 2

    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            actor = PlainGreeter()
            actor.may_answer.clear()
            node.host(actor)
            with Stranger(node.uri) as stranger, plain_dealer(node) as honest:
                stranger.greet()
                stranger._socket.setblocking(False)
                loop, read_bytes = asyncio.get_running_loop(), 0

                async def drain() -> None:
                    nonlocal read_bytes
                    while data := await loop.sock_recv(stranger._socket, 1 << 20):
                        read_bytes += len(data)

                draining = asyncio.create_task(drain())
                for _ in range(many // 500):
                    questions = b"".join(parts[0] + os.urandom(8) + parts[1] for _ in range(500))
                    await loop.sock_sendall(stranger._socket, questions)
                    assert open_questions(node) <= EACH
                await until(lambda: node.dead_letters.counts["queue_full"] >= many - EACH)
                assert open_questions(node) == EACH
                assert len(actor.greeted) == 1
                await until(lambda: not node.statistics().outbox_messages)
                assert read_bytes > (many - EACH) * 100  # nobody is left in silence
                await honest.send_multipart(write(fmt, plain_question(fmt, "Bob")))
                await until(lambda: open_questions(node) == EACH + 1)
                actor.may_answer.set()
                assert (await received(honest))[1].body == b'{"text":"hello Bob"}'
                await until(lambda: open_questions(node) == 0)
                draining.cancel()

    async def within_a_minute() -> None:
        async with asyncio.timeout(60):
            await story()

    asyncio.run(within_a_minute())


def hostile_callbacks(fmt: str, node: Node) -> list[Plain]:
    own = node.hub(new=True).identity
    changes: list[dict[str, Any]] = [
        {"callback_receiver": FOREIGN},
        {"callback_receiver": FEEDS},
        {"callback_receiver": own},
        {"callback_receiver": b"x" * 100_000},
        {"callback_receiver": b"\1an actor"},
        {"points": ((b"plain.greet", 1, b""),)},  # the question is its own answer
        {"points": ((b"x" * 5000, 1, b""),)},
        {"points": (GREETING,) * 500},
        {"points": (EXCEPTION,)},
        {"points": ((b"hopwire.stream", 1, b""), GREETING)},
        {"points": ((b"hopwire.outcome", 1, b""),)},
        {"correlation_id": b"y" * 100_000},
        {"correlation_id": b""},
        {"receiver": FOREIGN},
        {"receiver": own},
        {"distribution": 1},
        {"distribution": 7},
        {"ttl_ticks": -5},
        {"ttl_ticks": 1},
        {"ttl_ticks": 2**62},
        {"hops": 60_000},
        {"partition": b"elsewhere"},
        {"receiver_node": b"nobody"},
    ]
    if fmt in ("V5", "V6"):
        changes += [
            {"callback_node": node.identity},
            {"callback_node": node.identity, "callback_receiver": FOREIGN, "receiver": FOREIGN},
            {"callback_node": b"", "callback_receiver": HUB},
            {"callback_node": b"z" * 100_000},
            {"callback_key": -1},
            {"callback_key": 0},
            {"receiver": FOREIGN, "receiver_node": node.identity},
        ]
    return [plain_question(fmt, **each) for each in changes]


@pytest.mark.parametrize("fmt", FORMATS)
def test_hostile_callbacks_harm_nobody(fmt: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with Stranger(node.uri) as stranger, plain_dealer(node) as honest:
                stranger.greet()
                hub = node.hub()
                for question in hostile_callbacks(fmt, node):
                    stranger.send(write(fmt, question))
                    await honest.send_multipart(write(fmt, plain_question(fmt)))
                    assert (await received(honest))[1].body == b'{"text":"hello Ada"}'
                    assert (await hub.ask(PlainGreet("Ada"), PlainGreeting)).text == "hello Ada"
                assert not node.dead_letters.counts["node_failed"]
                assert open_questions(node) <= 3

    told(story)
    assert "Traceback" not in caplog.text


def test_more_foreigners_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_ADOPTED * ADOPTED_LIMITS.max_bytes <= 256 * 1024 * 1024
    monkeypatch.setattr("hopwire.node.streams.MOST_ADOPTED", 2)

    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as third:
                with plain_dealer(node) as one, plain_dealer(node) as two:
                    for dealer in (one, two):
                        await dealer.send_multipart(write("V5", plain_question("V5")))
                        await received(dealer)
                    await third.send_multipart(write("V5", plain_question("V5")))
                    await until(lambda: node.dead_letters.counts["unreachable"])
                    assert not await third.poll(0)
                await until(lambda: streams_of(node)._adopted == 0)
                await third.send_multipart(write("V5", plain_question("V5")))
                await received(third)

    told(story)


def test_no_hello_can_name_the_connection_of_a_foreigner() -> None:
    async def story() -> None:
        async with Node(settings=NodeSettings(answer_foreign=True)) as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as honest:
                await honest.send_multipart(write("V5", plain_question("V5")))
                await received(honest)
                assert isinstance(node._transport, Streams)
                (address,) = node._transport._links
                with Stranger(node.uri, connection_name(b"liar", bytes(8))) as liar:
                    liar.greet()
                    liar.send(said(Hello(b"liar", 5, address)))  # even if it were known
                    await until(lambda: node.dead_letters.counts["bad_control"])
                assert len(address) > 32

    told(story)
