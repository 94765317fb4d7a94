"""Our ZMTP and libzmq's on one wire: every socket type that may talk to a node, in both directions."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from hopwire.cluster.announce import Hello
from hopwire.errors import SettingsError
from hopwire.model.limits import Limits
from hopwire.node import Node
from hopwire.node import strangers as strangers_module
from hopwire.node import streams as streams_module
from hopwire.node.streams import Streams
from hopwire.node.transport import Frames
from hopwire.node.zmtp_socket import HAND_OVER_AT_MOST
from hopwire.wire.zmtp import GREETING, ready
from tests.attacks.stranger import Stranger, said
from tests.node.loopback import streams_of, told, until
from tests.node.stories import Greet, Greeter, Greeting

SECONDS = 10.0
SMALL = Limits(max_bytes=1_000_000)
Story = Callable[[], Awaitable[None]]
MESSAGES = [[b"", b"body", b"meta"], [b"x" * 300, b""], [b"", b"y" * 70_000, b"z" * 1_000_000, b"end"], [b"", b"w"]]


class Taken:
    """What a transport has taken."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Frames] = asyncio.Queue()
        self.refused: list[tuple[str, Frames, str]] = []

    def take(self, frames: Frames) -> int:
        self.messages.put_nowait(frames)
        return 1

    def refuse(self, uri: str, frames: Frames, reason: str) -> None:
        self.refused.append((uri, frames, reason))


def started() -> tuple[Streams, Taken, str]:
    streams, taken = Streams(b"ours", "tcp://127.0.0.1:0"), Taken()
    return streams, taken, streams.start(taken.take, taken.refuse)


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.ROUTER])
def test_a_socket_of_libzmq_that_connects_is_heard_and_is_answered_on_the_same_connection(kind: int) -> None:
    async def story() -> None:
        streams, taken, uri = started()
        with zmq.asyncio.Context() as context:
            theirs = context.socket(kind)
            theirs.set(zmq.LINGER, 0)
            theirs.set(zmq.ROUTING_ID, b"theirs")
            front = []
            if kind == zmq.ROUTER:
                theirs.set(zmq.CONNECT_ROUTING_ID, b"us")
                front = [b"us"]
            theirs.connect(uri)
            for frames in MESSAGES:
                await theirs.send_multipart([*front, *frames])
            for frames in MESSAGES:
                came_from, *came = await taken.messages.get()
                assert (came_from, came) == (b"theirs", frames)
            back = streams.adopt(b"theirs")
            for frames in MESSAGES:
                assert streams.send(back, [b"", *frames], sum(map(len, frames))) == ""
                assert await theirs.recv_multipart() == [*front, *frames]
            assert len(streams._inbound) == 1
            await streams.close(1)
            theirs.close()

    told(story)


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.ROUTER])
def test_a_socket_of_libzmq_that_listens_is_reached_and_heard(kind: int) -> None:
    async def story() -> None:
        streams, taken, _ = started()
        with zmq.asyncio.Context() as context:
            theirs = context.socket(kind)
            theirs.set(zmq.LINGER, 0)
            port = theirs.bind_to_random_port("tcp://127.0.0.1")
            uri = f"tcp://127.0.0.1:{port}"
            streams.connect(uri)
            for frames in MESSAGES:
                assert streams.send(uri, [b"", *frames], sum(map(len, frames))) == ""
            front: list[bytes] = []
            for frames in MESSAGES:
                came = await theirs.recv_multipart()
                if kind == zmq.ROUTER:
                    front = [came.pop(0)]
                    assert front[0].startswith(b"ours~")
                assert came == frames
            await theirs.send_multipart([*front, b"", b"back"])
            assert (await taken.messages.get())[1:] == [b"", b"back"]
            await streams.close(1)
            theirs.close()

    told(story)


@pytest.mark.slow
def test_a_peer_of_libzmq_with_heartbeats_keeps_its_connection() -> None:
    async def story() -> None:
        streams, taken, uri = started()
        with zmq.asyncio.Context() as context:
            theirs = context.socket(zmq.DEALER)
            for option, value in ((zmq.LINGER, 0), (zmq.HEARTBEAT_IVL, 20), (zmq.HEARTBEAT_TIMEOUT, 200)):
                theirs.set(option, value)
            monitor = theirs.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            theirs.connect(uri)
            await theirs.send_multipart([b"", b"first"])
            await taken.messages.get()
            assert not await monitor.poll(600)
            await theirs.send_multipart([b"", b"second"])
            assert (await taken.messages.get())[1:] == [b"", b"second"]
            await streams.close(1)
            theirs.disable_monitor()
            monitor.close()
            theirs.close()

    told(story)


def test_a_listener_that_comes_back_gets_what_waited_for_it() -> None:
    async def story() -> None:
        streams, _, _ = started()
        other, taken, uri = started()
        streams.connect(uri)
        streams.send(uri, [b"", b"before"], 6)
        assert (await taken.messages.get())[1:] == [b"before"]
        await other.close(1)
        while not streams.closed:  # or the kernel would still take what nobody reads
            await asyncio.sleep(0)
        again = Streams(b"again", uri)
        streams.send(uri, [b"", b"while it was away"], 17)
        taken = Taken()
        again.start(taken.take, taken.refuse)
        assert (await taken.messages.get())[1:] == [b"while it was away"]
        await streams.close(1)
        await again.close(1)

    told(story)


@pytest.mark.slow
def test_a_listener_that_hangs_up_at_once_is_dialled_with_growing_pauses() -> None:
    async def story() -> None:
        times: list[float] = []

        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            times.append(asyncio.get_running_loop().time())
            writer.close()

        streams, _, _ = started()
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            streams.connect(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            while len(times) < 5:
                await asyncio.sleep(0.01)
            pauses = [later - sooner for sooner, later in pairwise(times)]
            assert pauses[3] > 2 * pauses[0] > 0.05
            await streams.close(1)

    told(story)


def test_all_addresses_behind_a_name_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        streams, taken, uri = started()
        port = int(uri.rpartition(":")[2])

        async def addresses(*_: object, **__: object) -> list[tuple[object, ...]]:
            other = (socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("::1", port, 0, 0))
            dead = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))
            return [other, dead, (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        dialler, _, _ = started()
        dialler.connect("tcp://somewhere:1")
        dialler.send("tcp://somewhere:1", [b"", b"found"], 5)
        assert (await taken.messages.get())[1:] == [b"found"]
        await dialler.close(1)
        await streams.close(1)

    told(story)


def test_a_message_that_the_other_side_refuses_is_given_up_and_the_next_one_arrives() -> None:
    async def story() -> None:
        taken, streams, refusing = Taken(), Streams(b"small", "tcp://127.0.0.1:0", message_limits=SMALL), Taken()
        uri = streams.start(taken.take, taken.refuse)
        sender = Streams(b"sender", "tcp://127.0.0.1:0")
        sender.start(refusing.take, refusing.refuse)
        sender.connect(uri)
        large = bytes(50_000_000)  # more than the kernel takes at once
        sender.send(uri, [b"", large], len(large))
        while not refusing.refused:
            await asyncio.sleep(0.01)
        assert [(where, len(frames[1]), reason) for where, frames, reason in refusing.refused] == [
            (uri, len(large), "unreachable")
        ]
        sender.send(uri, [b"", b"next"], 4)
        assert (await taken.messages.get())[1:] == [b"next"]
        assert streams.closed["too_large"] == 1
        await sender.close(1)
        await streams.close(1)

    told(story)


def test_many_small_messages_of_one_connection_are_handed_over_in_many_turns_of_the_loop() -> None:
    async def story() -> None:
        loop, most, in_turn, total = asyncio.get_running_loop(), 0, 0, 0

        def end_turn() -> None:
            nonlocal most, in_turn
            most, in_turn = max(most, in_turn), 0

        def take(_: Frames) -> int:
            nonlocal in_turn, total
            if not in_turn:
                loop.call_soon(end_turn)
            in_turn, total = in_turn + 1, total + 1
            return 1

        streams = Streams(b"ours", "tcp://127.0.0.1:0")
        uri = streams.start(take, Taken().refuse)
        _, writer = await asyncio.open_connection("127.0.0.1", int(uri.rpartition(":")[2]))
        writer.write(GREETING + ready(b"DEALER", b"") + b"\0\1x" * 20_000)
        while total < 20_000:
            await asyncio.sleep(0)
        assert most <= HAND_OVER_AT_MOST
        writer.close()
        await writer.wait_closed()
        await streams.close(1)

    told(story)


def test_nodes_talk_over_a_path_of_this_machine_and_leave_no_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "node"

    async def story() -> None:
        async with Node(f"ipc://{path}") as a, Node("ipc://@hopwire-test", peers=[a.uri]) as b:
            a.host(Greeter())
            await b.knows(Greet)
            assert await b.hub().ask(Greet("Ada"), Greeting) == Greeting("hello Ada")
            assert path.stat().st_mode & 0o077 == 0
            with pytest.raises(SettingsError, match=r"cannot listen on ipc://.*in use"):
                await Node(a.uri).start()

    told(story)
    assert not path.exists()
    path.write_text("precious")
    with pytest.raises(SettingsError, match="no socket"):
        asyncio.run(Node(f"ipc://{path}").start())
    assert path.read_text() == "precious"


def test_a_path_that_another_node_names_is_not_opened(tmp_path: Path) -> None:
    async def story() -> None:
        with socket.socket(socket.AF_UNIX) as private:
            private.bind(str(tmp_path / "private"))
            private.listen()
            private.setblocking(False)
            async with Node() as node:
                uri = f"ipc://{tmp_path / 'private'}"
                node._incoming.take_frames([b"X", *said(Hello(b"X", 1, uri))])
                assert node.dead_letters.counts["bad_control"] > 0
                await asyncio.sleep(0)
                with pytest.raises(BlockingIOError):
                    private.accept()

    told(story)


def test_strangers_together_hold_a_bounded_part_of_messages_that_are_not_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers_module, "MAX_UNPROVED_BYTES", 1_000_000)

    async def story() -> None:
        streams = Streams(b"ours", "tcp://127.0.0.1:0")
        uri = streams.start(Taken().take, Taken().refuse)
        part = bytes(250_000)
        strangers = [Stranger(uri) for _ in range(10)]
        for number, stranger in enumerate(strangers):
            stranger.greet()
            pouring = asyncio.ensure_future(asyncio.to_thread(pour, stranger, part))
            while not pouring.done() or streams._strangers.held < min(number + 1, 4) * len(part):
                if streams.closed["too_large"]:
                    break
                await asyncio.sleep(0.001)
            await pouring
        while streams.closed["too_large"] < 1:
            await asyncio.sleep(0.001)
        assert streams._strangers.held <= 1_000_000
        for stranger in strangers:
            stranger.close()
        while streams._inbound:
            await asyncio.sleep(0.001)
        assert streams._strangers.held == 0
        await streams.close(1)

    told(story)


def pour(stranger: Stranger, part: bytes) -> None:
    """Begin a message, and do not end it."""
    with suppress(OSError):
        stranger.claim(100 * 1024 * 1024)
        stranger.pour(part)


def test_strangers_that_fill_all_places_make_way_for_who_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Node() as node:
            node.host(Greeter())
            strangers = [Stranger(node.uri) for _ in range(30)]
            for stranger in strangers:
                stranger.greet()
            async with Node(peers=[node.uri]) as friend:
                await friend.knows(Greet, timeout=5)
                more = [Stranger(node.uri) for _ in range(30)]
                assert isinstance(node._transport, Streams)
                while node._transport.closed.total() < 41:  # of 61 that came 20 may stay
                    assert len(node._transport._inbound) <= 20
                    await asyncio.sleep(0.001)
                assert await friend.hub().ask(Greet("Ada"), Greeting) == Greeting("hello Ada")
            for stranger in (*strangers, *more):
                stranger.close()

    monkeypatch.setattr(streams_module, "MAX_FROM_ONE_ADDRESS", 20)
    told(story)


@pytest.mark.parametrize("is_left", [False, True])
def test_a_connection_that_is_not_ready_when_nobody_wants_it_any_more_is_closed(is_left: bool) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as slow:
            uri = f"tcp://127.0.0.1:{slow.getsockname()[1]}"
            async with Node(peers=[uri]) as node:
                streams = streams_of(node)
                link = streams._links[uri]
                await until(lambda: link.opening)
                opening = link.opening
                assert opening is not None
                if is_left:
                    streams.disconnect(uri)
                    assert not opening.is_open
            assert not opening.is_open  # or it would say hello for a node that is stopped

    told(story)
