"""What a stranger writes costs a node little: trains, nesting, huge frames, silence."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from functools import partial

import pytest

from hopwire.cluster.announce import Hello
from hopwire.model import Message
from hopwire.node import Node, NodeSettings
from hopwire.wire import encode
from hopwire.wire.train import MAGIC, pack_train
from tests.attacks.stranger import Stranger, empty_train, nested_message, said
from tests.attacks.victim import resident_bytes, victim
from tests.node.loopback import told
from tests.node.stories import Greet, Greeter, Greeting

MEGABYTE = 1024 * 1024


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["open", "signed"])
def test_a_train_of_empty_messages_from_a_stranger_costs_nothing(kind: str) -> None:
    with victim(kind) as it, Stranger(it.uri, b"stranger") as stranger:
        stranger.greet()
        before = it.report()["bytes"]
        stranger.send(empty_train(messages=2 * MEGABYTE))
        report = it.report()
        while not report["dead_letters"]:
            report = it.report()
        assert report["dead_letters"] == {"too_many_bytes": 1}
        assert report["turn"] < 1.0
        assert report["bytes"] - before < 32 * MEGABYTE


@pytest.mark.slow
@pytest.mark.parametrize("train", [empty_train(500_000), [MAGIC + b"\2\0" + bytes(8) * 100_000]])
def test_a_train_of_tiny_messages_from_a_peer_is_refused_as_a_whole(train: list[bytes]) -> None:
    with victim() as it, Stranger(it.uri, b"peer") as stranger:
        stranger.greet()
        stranger.send(said(Hello(b"peer", 1, "tcp://127.0.0.1:1")))
        it.report()
        stranger.send(train)
        report = it.report()
        while not report["dead_letters"]:
            report = it.report()
        assert report["dead_letters"] == {"bad_train": 1}
        assert report["turn"] < 1.0


def test_one_bad_message_in_a_train_does_not_lose_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Node() as node:
            greeter = Greeter()
            node.host(greeter)
            greets = [[b"", *said(Greet(str(number)))] for number in range(6)]
            greets[1] = [b"", *nested_message(1300)]
            greets[3] = [b"", b"", b"noise"]
            greets[4] = [b"", *said(Greet("fault"))]
            node._incoming.take_frames([b"peer", *said(Hello(b"peer", 1, "tcp://127.0.0.1:1"))])
            take = node._incoming._take_message

            def fail_once(message: Message) -> None:
                if b"fault" in message.body:
                    raise RuntimeError("a fault of ours")
                take(message)

            monkeypatch.setattr(node._incoming, "_take_message", fail_once)
            assert node._incoming.take_frames([b"peer", pack_train(greets)]) == 6
            while len(greeter.greeted) < 3:
                await asyncio.sleep(0)
            assert greeter.greeted == ["0", "2", "5"]
            for reason in ("bad_extension", "unknown_version", "node_failed"):
                assert node.dead_letters.counts[reason] == 1

    told(story)


@pytest.mark.parametrize("kind", ["map", "array"])
def test_a_deeply_nested_extension_is_a_dead_letter_and_the_next_message_is_handled(kind: str) -> None:
    async def story() -> None:
        async with Node() as node:
            greeter = Greeter()
            node.host(greeter)
            with Stranger(node.uri, b"stranger") as stranger:
                stranger.greet()
                stranger.send(nested_message(1300, kind))
                stranger.send(said(Greet("next")))
                while not greeter.greeted:
                    await asyncio.sleep(0.001)
            assert greeter.greeted == ["next"]
            assert node.dead_letters.counts["bad_extension"] == 1

    told(story)


@pytest.mark.slow
def test_a_message_of_very_many_frames_reaches_its_peer_and_so_does_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_down(heard: list[int], message: Message) -> None:
        heard.append(len(message.body_frames))

    async def story() -> None:
        settings = NodeSettings(outbox_messages=10)
        async with Node() as one, Node() as two, Node(peers=[one.uri, two.uri], settings=settings) as here:
            heard: dict[str, list[int]] = {"one": [], "two": []}
            for name, node in (("one", one), ("two", two)):
                while not (here.peers and node.identity in here.peers):
                    await asyncio.sleep(0.001)
                monkeypatch.setattr(node._incoming, "_take_message", partial(write_down, heard[name]))
            frames = [encode(Message(b"many", 1, body_frames=(b"",) * count)) for count in (65_534, 1, 300)]
            transport = here._transport
            for each in frames:
                assert transport.send(one.uri, each, sum(map(len, each))) == ""
            for each in frames[1:]:
                assert transport.send(two.uri, each, sum(map(len, each))) == ""
            while len(heard["one"]) < 3 or len(heard["two"]) < 2:
                await asyncio.sleep(0.001)
            assert heard == {"one": [65_534, 1, 300], "two": [1, 300]}

    told(story)


@pytest.mark.slow
def test_a_frame_that_is_too_large_is_refused_before_it_is_there() -> None:
    async def story() -> None:
        async with Node() as node:
            node.host(Greeter())
            before = resident_bytes()
            with Stranger(node.uri) as stranger:
                stranger.greet()
                stranger.claim(1024 * MEGABYTE)

                def pour() -> bool:
                    with suppress(OSError):
                        for _ in range(128):
                            stranger.pour(bytes(MEGABYTE))
                    return stranger.is_cut_off(60)

                assert await asyncio.to_thread(pour)
            assert resident_bytes() - before < 32 * MEGABYTE
            assert (await node.hub().ask(Greet("x"), Greeting)).text == "hello x"

    told(story)


@pytest.mark.slow
def test_who_connects_and_says_nothing_is_cut_off() -> None:
    async def story() -> None:
        async with Node() as node:
            with ExitStack() as stack:
                silent = [stack.enter_context(Stranger(node.uri)) for _ in range(20)]
                assert await asyncio.to_thread(lambda: all(stranger.is_cut_off(60) for stranger in silent))

    told(story)
