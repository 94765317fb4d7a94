"""A member of the network that has only the key of `hopwire.*`: it announces, accuses and leaves for nobody but itself.

Each attack is refused, counted and harmless, and honest traffic goes on meanwhile. What certificates add is below.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from hopwire.cluster.announce import Bye, Credit, CreditWanted, Doubled, Hello, Routes
from hopwire.model import Message, Payload, body_from_payload, contract_of
from hopwire.model.names import FEEDS
from hopwire.model.outcome import Outcome
from hopwire.node import Actor, Node, handles
from hopwire.node.demand import Enough
from hopwire.node.envelope import Envelope
from hopwire.node.post import _control
from hopwire.security import ANYONE, Domain, Domains, Key, Recipient, sign
from hopwire.wire import V6, encode
from hopwire.wire.connection import connection_name
from tests.attacks.stranger import Stranger
from tests.node.loopback import ANSWER_SECONDS, NOWHERE, told, until
from tests.node.networks import key_folder, member, needs_openssl, node_in
from tests.node.stories import Count, Counter, Greet, Greeter, Greeting, Number

NETWORK = Domain("network", [Key("n", b"n" * 16)], ["hopwire.*"])
GREETING = Domain("greeting", [Key("g", b"g" * 16)], ["greeter.*", "counter.*"])
ALL, MEMBER = Domains([NETWORK, GREETING]), Domains([NETWORK])
GUESSED = Domains([NETWORK, Domain("greeting", [Key("g", b"guessed guessed!")], ["greeter.*"])])


class SlowGreeter(Actor):
    """Answers when it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    @handles
    async def greet(self, request: Greet) -> Greeting:
        await self.go.wait()
        return Greeting(f"hello {request.name}")


class Scene(NamedTuple):
    asker: Node
    honest: Node
    mallory: Node


def scene(attack: Callable[[Scene], Awaitable[None]], domains: Domains = MEMBER) -> None:
    """Let an attack happen among honest questions, all of which are answered by the honest node."""

    async def story() -> None:
        async with Node(domains=ALL) as asker, Node(domains=ALL, peers=[asker.uri], identity=b"honest") as honest:
            honest.host(Greeter())
            await asker.knows(Greet)
            async with Node(domains=domains, peers=[asker.uri, honest.uri], identity=b"mallory") as mallory:
                await until(lambda: b"mallory" in asker.peers and b"mallory" in honest.peers)
                await until(lambda: asker.identity in mallory.peers and b"honest" in mallory.peers)
                found = Scene(asker, honest, mallory)
                going_on = asyncio.ensure_future(questions(asker))
                await attack(found)
                await going_on
                await questions(asker)
                assert b"honest" in asker.peers

    told(story)


async def questions(asker: Node) -> None:
    for number in range(30):
        answer = await asker.hub().ask(Greet(str(number)), Greeting, timeout=ANSWER_SECONDS)
        assert answer == Greeting(f"hello {number}")


def say(who: Node, to: Node, payload: Payload) -> None:
    """Let a member say something with its own key, over its own connection."""
    who._membership._say(to.uri, payload, to.identity)


def refused(node: Node, reason: str, words: str = "") -> Callable[[], bool]:
    return lambda: any(each.reason == reason and words in each.detail for each in node.dead_letters.latest)


def start_of(node: Node, peer: Node) -> int:
    return node._membership._cluster.peers[peer.identity].incarnation


# -- the table of attacks


@pytest.mark.parametrize("domains", [MEMBER, GUESSED], ids=["without the key", "with another key"])
def test_routes_of_another_domain_do_not_count(domains: Domains) -> None:
    thief = Greeter("stolen")

    async def attack(on: Scene) -> None:
        on.mallory.host(thief)
        for _ in range(50):
            on.mallory.host(Greeter("stolen"))
        await until(refused(on.asker, "no_proof", "domain 'greeting', without a proof of its key"))

    scene(attack, domains)
    assert thief.greeted == []


def test_a_recorded_proof_is_of_no_use_to_another_node() -> None:
    async def attack(on: Scene) -> None:
        routes = on.honest._membership._cluster.all_routes()
        proved = on.honest._outgoing._proved(routes, on.asker.identity)
        own = Routes(b"mallory", on.mallory._incarnation, 9, 0, proved.added, (), proved.proofs)
        on.mallory._outgoing._send(on.asker.identity, on.asker.uri, _control(own), V6, is_control=True)
        await until(refused(on.asker, "no_proof", "(invalid)"))

    scene(attack)


def test_routes_in_the_name_of_another_node_do_not_count() -> None:
    async def attack(on: Scene) -> None:
        say(on.mallory, on.asker, Routes(b"honest", start_of(on.asker, on.honest), 9))
        await until(refused(on.asker, "bad_control", "speaks for another"))

    scene(attack)


def test_the_goodbye_of_another_node_does_not_count() -> None:
    async def attack(on: Scene) -> None:
        for _ in range(5):
            say(on.mallory, on.asker, Bye(b"honest", start_of(on.asker, on.honest)))
        await until(refused(on.asker, "bad_control", "speaks for another"))
        assert b"honest" in on.asker.peers

    scene(attack)


def test_an_accusation_in_the_name_of_another_node_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    async def attack(on: Scene) -> None:
        say(on.mallory, on.asker, Doubled(b"honest", start_of(on.asker, on.honest), on.asker.identity, NOWHERE))
        await until(refused(on.asker, "bad_control", "speaks for another"))

    scene(attack)
    assert not [each for each in caplog.records if getattr(each, "hopwire_event", "") == "doubled"]


def test_the_credit_of_another_node_does_not_count() -> None:
    async def attack(on: Scene) -> None:
        start = start_of(on.asker, on.honest)
        say(on.mallory, on.asker, Credit(b"honest", start, b"greeter.greet", 2**40, 2**40, 1, 1))
        say(on.mallory, on.asker, CreditWanted(b"honest", start, b"greeter.greet", 2**40, 2**40))
        await until(lambda: on.asker.dead_letters.counts["bad_control"] >= 2)

    scene(attack)


def test_the_hello_of_another_node_that_lives_does_not_count() -> None:
    async def attack(on: Scene) -> None:
        start = start_of(on.asker, on.honest)
        with Stranger(on.asker.uri, connection_name(b"honest", bytes(8))) as stranger:
            stranger.greet()
            for incarnation in (start, start + 1):
                stranger.send(signed(Hello(b"honest", incarnation, NOWHERE, heard=on.asker._incarnation), ANYONE))
            stranger.send(signed(Bye(b"honest", start), Recipient(on.asker.identity, on.asker._incarnation)))
            await questions(on.asker)
            assert start_of(on.asker, on.honest) == start
            assert on.asker._outgoing.address(b"honest") == on.honest.uri
        await until(refused(on.asker, "bad_control", "speaks for another"))

    scene(attack)


def test_an_outcome_counts_with_the_key_of_the_question_alone() -> None:
    async def story() -> None:
        slow = SlowGreeter()
        async with Node(domains=ALL) as asker, Node(domains=ALL, peers=[asker.uri]) as honest:
            honest.host(slow)
            await asker.knows(Greet)
            async with Node(domains=MEMBER, peers=[asker.uri]) as mallory:
                await until(lambda: asker.identity in mallory.peers)
                asked = asyncio.ensure_future(asker.hub().ask(Greet("Ada"), Greeting, timeout=ANSWER_SECONDS))
                sent = asyncio.ensure_future(asker.hub().send(Greet("Bob"), timeout=ANSWER_SECONDS, at_least_once=True))
                hub = asker.hub()
                await until(lambda: hub.open_promises >= 1)
                for kind in ("failed", "undelivered", "received"):
                    for key, promise in hub._promises.items():  # what somebody on the path would have read
                        mallory._router.route(Envelope(forged(asker, hub.identity, key, promise.correlation_id, kind)))
                await until(lambda: asker.dead_letters.counts["no_proof"] >= 3)
                slow.go.set()
                assert await asked == Greeting("hello Ada")
                assert (await sent).node == honest.identity

    told(story)


def test_an_honest_failure_still_reaches_who_asked() -> None:
    class Failing(Actor):
        @handles
        async def greet(self, request: Greet) -> Greeting:
            raise LookupError(request.name)

    async def story() -> None:
        async with Node(domains=ALL) as asker, Node(domains=ALL, peers=[asker.uri]) as honest:
            honest.host(Failing())
            await asker.knows(Greet)
            with pytest.raises(Exception, match="LookupError"):
                await asker.hub().ask(Greet("Ada"), Greeting, timeout=ANSWER_SECONDS)
            assert not asker.dead_letters.counts["no_proof"]

    told(story)


def test_a_stream_is_stopped_by_who_has_the_key_of_the_question_alone() -> None:
    async def story() -> None:
        async with Node(domains=ALL) as asker, Node(domains=ALL, peers=[asker.uri]) as honest:
            honest.host(Counter())
            await asker.knows(Count)
            async with Node(domains=MEMBER, peers=[honest.uri]) as mallory:
                await until(lambda: honest.identity in mallory.peers)
                taken = []
                hub = asker.hub()
                async for part in hub.stream(Count(200), Number, timeout=ANSWER_SECONDS):
                    taken.append(part)
                    if len(taken) == 3:
                        (key, promise), *_ = hub._promises.items()
                        word = enough(honest, asker, hub.identity, key, promise.correlation_id)
                        mallory._router.route(Envelope(word))
                        await until(lambda: honest.dead_letters.counts["no_proof"] >= 1)
                assert len(taken) == 200

    told(story)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["to another node", "after a restart"])
def test_a_recorded_hello_brings_nothing_to_who_plays_it(when: str) -> None:
    async def story() -> None:
        async with Node(domains=ALL, identity=b"honest") as honest, Node(domains=ALL, peers=[honest.uri]) as asker:
            honest.host(Greeter())
            await asker.knows(Greet)
            recorded = signed(Hello(b"honest", honest._incarnation, honest.uri, heard=asker._incarnation), ANYONE)
            if when == "after a restart":
                await asker.stop()
            async with Node(domains=ALL, identity=None if when == "to another node" else asker.identity) as other:
                with Stranger(other.uri, connection_name(b"honest", bytes(8))) as player:
                    player.greet()
                    player.send(recorded)
                    player.send(unsigned(Routes(b"honest", honest._incarnation, 99)))
                    player.send(unsigned(Bye(b"honest", honest._incarnation)))
                    await until(refused(other, "bad_signature"))
                    await other.knows(Greet)  # the node that the hello names was greeted, and proves its routes
                    await questions(other)
                    if when == "to another node":
                        await questions(asker)

    told(story)


def signed(payload: Payload, recipient: Recipient) -> list[bytes]:
    """Give what a member says, as frames behind the name of a connection."""
    contract = contract_of(payload)
    message = Message(contract.identity, contract.version, body_frames=(body_from_payload(payload),))
    return encode(sign(message, MEMBER, time.time_ns(), os.urandom(16), recipient))[1:]


def unsigned(payload: Payload) -> list[bytes]:
    contract = contract_of(payload)
    return encode(Message(contract.identity, contract.version, body_frames=(body_from_payload(payload),)))[1:]


def forged(asker: Node, hub: bytes, key: int, correlation_id: bytes, kind: str) -> Message:
    outcome = Outcome(kind, "forged", b"mallory".hex())
    return Message(
        b"hopwire.outcome",
        1,
        body_frames=(body_from_payload(outcome),),
        receiver_identity=hub,
        receiver_node_identity=asker.identity,
        callback_key=key,
        correlation_id=correlation_id,
    )


def enough(producer: Node, asker: Node, hub: bytes, key: int, correlation_id: bytes) -> Message:
    return Message(
        b"hopwire.enough",
        1,
        body_frames=(body_from_payload(Enough(1)),),
        receiver_identity=FEEDS,
        receiver_node_identity=producer.identity,
        callback_key=key,
        callback_receiver_identity=hub,
        callback_receiver_node_identity=asker.identity,
        correlation_id=correlation_id,
    )


# -- with certificates


@needs_openssl
@pytest.mark.slow
def test_a_certificate_of_the_authority_is_that_of_one_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = key_folder(tmp_path)
    places = {name: member(folder, name, ("greeting",)) for name in ("asker", "honest", "mallory")}

    async def story() -> None:
        async with node_in(places["asker"]) as asker:
            assert asker.identity == b"asker"
            monkeypatch.setattr("hopwire.node.admission.own_certificate", lambda *_: None)
            async with node_in(places["mallory"], asker, identity=b"honest") as impostor:
                impostor.host(Greeter("stolen"))
                await until(refused(asker, "bad_control", "its certificate is that of 'mallory'"))
                monkeypatch.undo()
                assert asker.peers == ()
                letters = [each.message for each in asker.dead_letters.latest if each.message is not None]
                assert {each.socket_identity for each in letters} == {b"mallory"}  # and in captures, by its own name
                async with node_in(places["honest"], asker) as honest:
                    honest.host(Greeter())
                    await asker.knows(Greet)
                    await questions(asker)
                    assert b"honest" in asker.peers

    told(story)
    words = [record.getMessage() for record in caplog.records if getattr(record, "hopwire_event", "") == "impostor"]
    assert len(words) == 1
    assert "that of 'mallory'" in words[0]


@needs_openssl
@pytest.mark.slow
def test_a_node_hosts_the_domains_of_its_certificate_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = key_folder(tmp_path)
    asker_in, honest_in, other_in = (
        member(folder, "asker", (), ("greeting",)),
        member(folder, "honest", ("greeting",)),
        member(folder, "other", (), ("greeting",)),
    )

    async def story() -> None:
        async with node_in(asker_in) as asker, node_in(honest_in, asker) as honest, node_in(other_in, asker) as other:
            other.host(stolen := Greeter("stolen"))
            await until(
                refused(asker, "no_proof", "domain 'greeting', which the certificate of the node does not name")
            )
            honest.host(Greeter())
            await asker.knows(Greet)
            await questions(asker)
            assert stolen.greeted == []
            await other.knows(Greet)  # who may not host a domain may still ask
            answer = await other.hub().ask(Greet("x"), Greeting, timeout=ANSWER_SECONDS)
            assert answer.text.endswith("x")

    told(story)
    words = [record.getMessage() for record in caplog.records if getattr(record, "hopwire_event", "") == "not_hosted"]
    assert words == [
        "no other node will send 'greeter.greet' here: the certificate of this node does not name domain 'greeting'"
    ]
