"""What strangers send: it is counted, and harms nobody."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
import zmq

from hopwire.cluster.announce import Beat, Hello, Routes
from hopwire.errors import DeliveryError, NoRoute, UnexpectedAnswer
from hopwire.model import Message, body_from_payload, contract_of
from hopwire.model.outcome import Outcome
from hopwire.node import Address, Hub, Node
from hopwire.security import Domain, Domains, Key
from hopwire.testing import Network, run
from hopwire.wire import encode
from hopwire.wire.train import pack_train
from tests.attacks.stranger import said_whole
from tests.node.loopback import told
from tests.node.stories import Greet, Greeter, Greeting, Sleeper
from tests.wire.mutate import mutated

HOSTILE: list[list[bytes]] = [
    [],
    [b""],
    [b"noise"] * 50,
    [b"", b"HWT\x01\xff\xff"],
    [b"", b"HWT\x01"],
    said_whole(Hello(b"X", 1, "not an address")),
    said_whole(Hello(b"Y", 1, "tcp://256.256.256.256:99999")),
    said_whole(Hello(b"", 1, "")),
    said_whole(Beat(b"Z", 1, "ftp://nowhere", 3)),
    encode(Message(b"hopwire.hello", 1, body_frames=(b"\xc1",))),
    encode(Message(b"hopwire.outcome", 1, callback_key=1)),
    encode(Message(b"greeter.greet", 1, body_frames=(b"\xc1",))),
    encode(Message(b"greeter.greet", 1, receiver_identity=b"\1nobody")),
    encode(Message(b"greeter.greet", 1, distribution=7)),
    encode(Message(b"greeter.greet", 1, hops=65535)),
    encode(Message(b"greeter.greet", 1, ttl_ticks=-1, extensions=(b"HWX\x01\xc1",))),
]


def test_a_node_takes_anything_and_goes_on() -> None:
    async def story() -> None:
        async with Node() as node:
            node.host(Greeter())
            chance = Random(1)
            for frames in HOSTILE:
                node._incoming.take_frames([b"stranger", *frames[1:]])
                for _ in range(50):
                    node._incoming.take_frames(mutated(list(frames), chance))
            assert await node.hub().ask(Greet("Ada"), Greeting) == Greeting("hello Ada")
            assert node.dead_letters.counts.total() > 100

    told(story)


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        (Outcome("received", detail="zz"), UnexpectedAnswer),
        (Outcome("?"), NoRoute),
        (Outcome("undelivered", "\0"), NoRoute),
    ],
)
def test_an_outcome_that_makes_no_sense_ends_the_promise_at_once(outcome: Outcome, end: type[DeliveryError]) -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node.host(Sleeper())
            hub = node.hub()
            sent = asyncio.ensure_future(
                hub.send(Greet("x"), timeout=2, to=hw_address(node, hub), correlation_id=b"flow")
            )
            await asyncio.sleep(0)
            (key,) = hub._promises  # as if the node that was asked said it
            contract = contract_of(outcome)
            forged = Message(
                contract.identity,
                contract.version,
                body_frames=(body_from_payload(outcome),),
                receiver_identity=hub.identity,
                callback_key=key,
                correlation_id=b"flow",
            )
            node._incoming.take_frames(encode(forged))
            with pytest.raises(end):
                await sent

    run(story)


def hw_address(node: Node, hub: Hub) -> Address:
    """Where nothing gives a receipt: the hub itself."""
    return Address(node.identity, hub.identity)


def test_a_train_within_a_train_is_noise() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            train = pack_train([[b"", b"noise"]])
            for _ in range(2000):
                train = pack_train([[b"", train]])
            node._incoming.take_frames([b"stranger", train])
            assert node.dead_letters.counts.total() == 1

    run(story)


def test_noise_on_the_socket_is_a_dead_letter_and_gets_no_answer() -> None:
    async def story() -> None:
        async with Node() as node:
            stranger: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
            stranger.connect(node.uri)
            for _ in range(100):
                stranger.send_multipart([b"", b"noise", b"more noise"])
            while node.dead_letters.counts["unknown_version"] < 100:
                await asyncio.sleep(0.001)
            assert stranger.poll(50) == 0
            stranger.close(0)

    told(story)


def test_routes_of_receivers_that_are_none_are_refused_and_the_rest_is_kept() -> None:
    async def story(network: Network) -> None:
        async with network.node() as node:
            node._incoming.take_frames([b"X", *said_whole(Hello(b"X", 5, "memory://x"))[1:]])
            routes = ((b"?what", b"greeter.greet", 1, b""), (b"\1actor", b"greeter.greet", 1, b""))
            node._incoming.take_frames([b"X", *said_whole(Routes(b"X", 5, 2, 0, routes))[1:]])
            assert node.dead_letters.counts["bad_control"] == 1
            assert node.peers == (b"X",)
            await node.knows(Greet)

    run(story)


def test_a_signed_message_that_is_sent_again_is_refused() -> None:
    async def story(network: Network) -> None:
        key = Key("k", b"0123456789abcdef")
        domains = Domains([Domain("all", [key], ["greeter.*", "hopwire.*"])])
        async with network.node(domains=domains) as a, network.node(domains=domains, peers=[a.uri]) as b:
            greeter = Greeter()
            a.host(greeter)
            await b.knows(Greet)
            heard: list[list[bytes]] = []
            take = a._incoming.take_frames

            def listen(frames: list[bytes]) -> int:
                heard.append(frames)
                return take(frames)

            network._transports[a.uri].on_frames = listen
            await b.hub().ask(Greet("once"), Greeting)
            for frames in list(heard):
                take(frames)
            await asyncio.sleep(1)
            assert greeter.greeted == ["once"]
            assert a.dead_letters.counts["bad_signature"] >= 1

    run(story)


@pytest.mark.parametrize("verdict", ["unsigned", "no_key"])
def test_what_is_not_signed_by_the_domain_is_refused(verdict: str) -> None:
    async def story(network: Network) -> None:
        domains = Domains([Domain("all", [Key("k", b"0123456789abcdef")], ["greeter.*", "hopwire.*"])])
        async with network.node(domains=domains) as node:
            domain = {"unsigned": "all", "no_key": "other"}[verdict]
            node._incoming.take_frames(encode(Message(b"greeter.greet", 1, domain=domain)))
            (letter,) = node.dead_letters.latest
            assert (letter.reason, letter.detail) == ("bad_signature", verdict)

    run(story)
