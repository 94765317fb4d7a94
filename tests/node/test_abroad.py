"""Questions of programs that are no nodes, and their answers: over the same connection, in the same format."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import zmq
from plain_formats import Plain, answer_to, mac, signed, write

from hopwire.capture import read_capture, sightings_from_batch
from hopwire.errors import SettingsError
from hopwire.model import Payload, payload_from_body
from hopwire.model.outcome import Outcome
from hopwire.node import Actor, Node, NodeSettings, handles
from hopwire.node.abroad import ALL, EACH
from hopwire.security import OPEN, Domain, Domains, Key
from hopwire.wire.exception_body import RaisedError, read_exception
from tests.node.foreigners import (
    ANSWERS,
    EXCEPTION,
    FORMATS,
    GREETING,
    HUB,
    IDS,
    KINDS,
    LEGACY,
    RECEIPT,
    SECRET,
    PlainGreet,
    PlainGreeter,
    PlainGreeting,
    plain_dealer,
    plain_question,
    plain_socket,
    received,
)
from tests.node.loopback import told, until

each_kind = pytest.mark.parametrize(("fmt", "domains"), KINDS, ids=IDS)
each_format = pytest.mark.parametrize("fmt", FORMATS)


def outcome_in(message: Plain) -> Outcome:
    assert message.identity == b"hopwire.outcome"
    return payload_from_body(Outcome, message.body)


@each_kind
def test_question_is_answered_over_its_connection_to_the_byte(fmt: str, domains: Domains) -> None:
    async def story() -> None:
        async with Node(domains=domains, settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as dealer:
                for key in (7, 8, 9):  # the later ones would take the express way
                    question = plain_question(fmt, domains=domains, callback_key=key if fmt in ("V5", "V6") else 0)
                    await dealer.send_multipart(write(fmt, question))
                    answer = answer_to(question, b"plain.greeting", b'{"text":"hello Ada"}')._replace(hops=1)
                    answer = signed(fmt, answer, b"plain", SECRET) if domains.signing else answer
                    assert await dealer.recv_multipart() == write(fmt, answer)
            assert not node.dead_letters.counts

    told(story)


@each_kind
def test_error_of_a_handler_comes_as_the_exception_of_the_original(fmt: str, domains: Domains) -> None:
    async def story() -> None:
        async with Node(domains=domains, settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as dealer:
                await dealer.send_multipart(write(fmt, plain_question(fmt, "", domains)))
                found, raised = await received(dealer)
        assert (found, raised.identity, raised.receiver) == (fmt, b"KINO.EXCEPTION", HUB)
        assert raised.points == (GREETING, EXCEPTION)
        assert read_exception(raised.body) == RaisedError("ValueError", "PlainGreeter.greet: a name is needed")
        if domains.signing:
            assert raised.signature == mac(fmt, raised, SECRET)

    told(story)


@each_format
def test_who_waits_for_no_exception_gets_an_outcome(fmt: str) -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as dealer:
                for changes, kind, reason in (
                    ({"name": ""}, "failed", "ValueError"),
                    ({"name": "nobody"}, "failed", "no_answer"),
                    ({"identity": b"plain.unknown"}, "undelivered", "no_route"),
                    ({"body": b"no JSON"}, "failed", "PayloadError"),
                ):
                    asked: dict[str, Any] = {"points": (GREETING,), **changes}
                    question = plain_question(fmt, **asked)
                    await dealer.send_multipart(write(fmt, question))
                    found, message = await received(dealer)
                    assert (found, message.receiver, message.callback_key) == (fmt, HUB, question.callback_key)
                    assert message.correlation_id == question.correlation_id
                    outcome = outcome_in(message)
                    assert (outcome.kind, outcome.reason, outcome.node) == (kind, reason, node.identity)
            assert not len(node._abroad or ())

    told(story)


@each_format
@pytest.mark.parametrize(
    ("name", "identity", "kind"), [("nobody", b"plain.greet", "UnexpectedAnswer"), ("Ada", b"x", "NoRoute")]
)
def test_exception_says_why_there_is_no_answer(fmt: str, name: str, identity: bytes, kind: str) -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as dealer:
                await dealer.send_multipart(write(fmt, plain_question(fmt, name, identity=identity)))
                _, raised = await received(dealer)
                assert read_exception(raised.body).kind == kind

    told(story)


@each_format
def test_receipt_comes_in_the_words_of_whoever_wants_it(fmt: str) -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            actor = PlainGreeter()
            node.host(actor)
            with plain_dealer(node) as dealer:
                await dealer.send_multipart(write(fmt, plain_question(fmt, points=(RECEIPT, EXCEPTION))))
                _, receipt = await received(dealer)
                assert (receipt.identity, receipt.points, receipt.receiver) == (RECEIPT[0], (RECEIPT,), HUB)
                ours = (b"hopwire.receipt", 1, b"")
                await dealer.send_multipart(write(fmt, plain_question(fmt, "Bob", points=(GREETING, ours))))
                _, receipt = await received(dealer)
                assert outcome_in(receipt) == Outcome("received", detail=node.identity.hex())
                _, answer = await received(dealer)
                assert (answer.identity, answer.points) == (b"plain.greeting", (GREETING,))
            await until(lambda: actor.greeted == ["Ada", "Bob"])

    told(story)


@each_kind
def test_answer_of_another_node_finds_the_way_home(fmt: str, domains: Domains) -> None:
    async def story() -> None:
        async with Node(domains=domains) as there, Node(domains=domains, peers=[there.uri], settings=ANSWERS) as node:
            there.host(PlainGreeter())
            await node.knows(PlainGreet)
            with plain_dealer(node) as dealer:
                for name in ("Ada", "Bob", ""):
                    await dealer.send_multipart(write(fmt, plain_question(fmt, name, domains)))
                    found, answer = await received(dealer)
                    assert (found, answer.receiver) == (fmt, HUB)
                    assert answer.body == b'{"text":"hello %s"}' % name.encode() or not name

    told(story)


@pytest.mark.parametrize("domains", [LEGACY, Domains([
    Domain("plain", [Key("1", SECRET)], ["plain.*"], scheme="legacy"),
    Domain("network", [Key("1", SECRET)], ["hopwire.*"]),
])])  # fmt: skip
def test_what_cannot_be_signed_as_an_exception_is_an_outcome(domains: Domains) -> None:
    async def story() -> None:
        async with Node(domains=domains, settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as dealer:
                await dealer.send_multipart(write("V5", plain_question("V5", "", domains)))
                _, answer = await received(dealer)
                owns_exceptions = domains.find(b"KINO.EXCEPTION") is not None
                assert answer.identity == (b"KINO.EXCEPTION" if owns_exceptions else b"hopwire.outcome")

    told(story)


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.REQ, zmq.ROUTER])
@pytest.mark.parametrize("identity", [b"", b"a name of its own"])
def test_any_socket_that_asks_is_answered(kind: int, identity: bytes) -> None:
    async def story() -> None:
        async with Node(identity=b"greeters", settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with plain_socket(kind, identity) as asking:
                if kind == zmq.ROUTER:
                    asking.setsockopt(zmq.CONNECT_ROUTING_ID, b"there")
                asking.connect(node.uri)
                frames = write("V5", plain_question("V5"))
                front = [b"there"] if kind == zmq.ROUTER else []
                await asking.send_multipart([*front, *(frames[1:] if kind == zmq.REQ else frames)])
                _, answer = await received(asking)
                assert answer.body == b'{"text":"hello Ada"}'

    told(story)


def test_two_who_ask_with_the_same_callback_get_each_their_own() -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as one, plain_dealer(node) as other:
                for _ in range(5):
                    await one.send_multipart(write("V5", plain_question("V5", "Ada")))
                    await other.send_multipart(write("V5", plain_question("V5", "Bob")))
                for _ in range(5):
                    assert (await received(one))[1].body == b'{"text":"hello Ada"}'
                    assert (await received(other))[1].body == b'{"text":"hello Bob"}'

    told(story)


def test_nobody_is_answered_unless_the_settings_say_so() -> None:
    async def story() -> None:
        async with Node() as node:
            node.host(PlainGreeter())
            with plain_dealer(node) as dealer:
                await dealer.send_multipart(write("V5", plain_question("V5")))
                await until(lambda: node.dead_letters.counts["unknown_node"])
                assert not await dealer.poll(0)

    told(story)


def test_only_who_is_believed_is_answered_where_messages_are_signed() -> None:
    plain = Domain("plain", [Key("1", SECRET)], ["plain.*"], scheme="legacy", unsigned=["plain.greet"])
    domains = Domains([plain, Domain("network", [Key("1", SECRET)], ["hopwire.*"])])

    async def story() -> None:
        async with Node(domains=domains, settings=ANSWERS) as node:
            actor = PlainGreeter()
            node.host(actor)
            with plain_dealer(node) as dealer:
                await dealer.send_multipart(write("V5", plain_question("V5", domain=b"plain")))  # is let in unsigned
                await until(lambda: node.dead_letters.counts["unknown_node"])
                wrong = plain_question("V5", domain=b"plain", signature=bytes(32))
                await dealer.send_multipart(write("V5", wrong))
                await until(lambda: node.dead_letters.counts["bad_signature"])
                assert actor.greeted == ["Ada"]
                assert not await dealer.poll(0)

    told(story)


OPEN_ADDRESS = "tcp://0.0.0.0:0"


def test_a_node_that_is_open_to_all_refuses_to_answer_them() -> None:
    there = {"advertise": "tcp://localhost:0", "settings": ANSWERS}
    with pytest.raises(SettingsError, match="answer_foreign would answer them all"):
        Node(OPEN_ADDRESS, insecure=True, **there)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="is open to all"):
        Node(OPEN_ADDRESS, **there)  # type: ignore[arg-type]
    Node(OPEN_ADDRESS, domains=LEGACY, **there)  # type: ignore[arg-type]
    Node(settings=ANSWERS)
    with pytest.raises(SettingsError, match="answer_foreign must be True or False"):
        NodeSettings(answer_foreign="yes")  # type: ignore[arg-type]


def test_time_that_runs_out_is_told_and_the_question_forgotten() -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            actor = PlainGreeter()
            actor.may_answer.clear()
            node.host(actor)
            with plain_dealer(node) as dealer:
                await dealer.send_multipart(write("V6", plain_question("V6", ttl_ticks=200_000)))  # 20 ms
                _, raised = await received(dealer)
                assert read_exception(raised.body).kind == "Timeout"
                assert not len(node._abroad or ())
                actor.may_answer.set()
                await until(lambda: node.dead_letters.counts["nobody_waits"])

    told(story)


def test_whoever_waits_is_told_that_the_node_stops() -> None:
    async def story() -> None:
        actor = PlainGreeter()
        actor.may_answer.clear()
        node = Node(settings=ANSWERS)
        await node.start()
        node.host(actor)
        with plain_dealer(node) as dealer:
            await dealer.send_multipart(write("V5", plain_question("V5")))
            await dealer.send_multipart(write("V5", plain_question("V5", "Bob")))
            await until(lambda: len(node._abroad or ()) == 2)
            await node.stop(timeout=0.2)
            raised = [read_exception((await received(dealer))[1].body) for _ in range(2)]
            assert [each.kind for each in raised] == ["Unreachable", "Unreachable"]

    told(story)


class OddPayload(Payload, identity="plain.odd", version=2):
    text: str


class OddActor(Actor):
    @handles
    async def greet(self, request: PlainGreet) -> OddPayload:
        return OddPayload("who reads this?")


def test_answer_that_was_not_asked_for_and_finds_nobody_is_told() -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            node.host(OddActor())
            with plain_dealer(node) as dealer:
                await dealer.send_multipart(write("V5", plain_question("V5", points=((b"plain.odd", 2, b""),))))
                assert (await received(dealer))[1].identity == b"plain.odd"
                await dealer.send_multipart(write("V4", plain_question("V4", points=(GREETING,))))
                outcome = outcome_in((await received(dealer))[1])
                assert (outcome.reason, outcome.contract) == ("no_route", "plain.odd v2")

    told(story)


@pytest.mark.parametrize("fmt", ["V3", "V4"])
def test_version_that_no_number_stands_for_is_told(fmt: str) -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            actor = PlainGreeter()
            node.host(actor)
            with plain_dealer(node) as dealer:
                frames = write(fmt, plain_question(fmt))
                assert frames.count(b"1.0") == 3  # of the question, and of its two callback points
                places = [at for at, frame in enumerate(frames) if frame == b"1.0"]
                for place, identity in zip(
                    places, (b"KINO.EXCEPTION", b"hopwire.outcome", b"KINO.EXCEPTION"), strict=True
                ):
                    other = [*frames[:place], b"2.3", *frames[place + 1 :]]
                    await dealer.send_multipart(other)
                    assert (await received(dealer))[1].identity == identity
            assert node.dead_letters.counts["cannot_carry"] == 3
            assert not actor.greeted
            assert not len(node._abroad or ())

    told(story)


def test_questions_beyond_the_limit_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EACH < ALL
    monkeypatch.setattr("hopwire.node.abroad.EACH", 3)

    async def story() -> None:
        async with Node(settings=ANSWERS) as node:
            actor = PlainGreeter()
            actor.may_answer.clear()
            node.host(actor)
            with plain_dealer(node) as dealer:
                for key in range(5):
                    await dealer.send_multipart(write("V5", plain_question("V5", callback_key=key)))
                for key in (3, 4):
                    _, raised = await received(dealer)
                    assert (raised.callback_key, read_exception(raised.body).kind) == (key, "QueueFull")
                actor.may_answer.set()
                assert [(await received(dealer))[1].callback_key for _ in range(3)] == [0, 1, 2]
                await dealer.send_multipart(write("V5", plain_question("V5", callback_key=9)))
                assert (await received(dealer))[1].callback_key == 9

    told(story)


def test_captures_show_the_question_and_its_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS, capture=tmp_path) as node:
            node.host(PlainGreeter())
            with plain_dealer(node, b"a foreigner") as dealer:
                question = plain_question("V4")
                await dealer.send_multipart(write("V4", question))
                answer = await dealer.recv_multipart()
        sightings = [each for batch in read_capture(tmp_path) for each in sightings_from_batch(batch)]
        seen = [(str(each.direction), each.peer, list(each.frames)) for each in sightings]
        assert ("in", b"a foreigner", [b"a foreigner", *write("V4", question)]) in seen
        assert ("out", b"a foreigner", [b"", *answer]) in seen

    told(story)


def test_the_settings_cost_those_who_have_said_hello_nothing() -> None:
    async def story() -> None:
        async with Node(settings=ANSWERS) as node, Node(peers=[node.uri]) as client:
            node.host(PlainGreeter())
            await client.knows(PlainGreet)
            asked = [client.hub().ask(PlainGreet(str(n)), PlainGreeting) for n in range(50)]
            assert [each.text for each in await asyncio.gather(*asked)] == [f"hello {n}" for n in range(50)]
            assert node._abroad is not None
            assert not node._abroad._of
            assert OPEN.signing is False

    told(story)
