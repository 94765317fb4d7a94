"""Encrypted links: nothing in clear on the wire, and nobody in without a certificate."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from hopwire.errors import NoRoute, SettingsError
from hopwire.node import Node, Tls
from hopwire.node.streams import Streams
from hopwire.node.transport import Frames
from hopwire.node.zmtp_socket import NO_TLS, _reason
from tests.node.certificates import HERE, OURS, THEIRS, tls_of
from tests.node.loopback import told
from tests.node.stories import Greet, Greeter, Greeting

SENT = 50  # messages
SECRET = "a name that nobody else may read"


@asynccontextmanager
async def wiretap(uri: str) -> AsyncIterator[tuple[str, bytearray]]:
    """An address that leads to another one, and everything that passes."""
    heard = bytearray()
    host, _, port = uri.removeprefix("tcp://").rpartition(":")
    tasks: list[asyncio.Task[None]] = []
    writers: list[asyncio.StreamWriter] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            heard.extend(data)
            writer.write(data)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(host, int(port))
        writers.extend((writer, there[1]))
        tasks.extend((asyncio.ensure_future(copy(reader, there[1])), asyncio.ensure_future(copy(there[0], writer))))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol"), "closed"),
        (ssl.SSLZeroReturnError(ssl.SSL_ERROR_ZERO_RETURN, "TLS/SSL connection has been closed"), "closed"),
        (ssl.SSLError(ssl.SSL_ERROR_SSL, "bad record mac"), NO_TLS),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "econnreset"),
    ],
)
def test_end_of_a_connection_is_no_other_way_to_encrypt(error: OSError, reason: str) -> None:
    assert _reason(error) == reason


@pytest.mark.parametrize("tls", [None, OURS], ids=["in clear", "encrypted"])
def test_what_passes_on_an_encrypted_link_cannot_be_read(tls: Tls | None) -> None:
    async def story() -> None:
        async with Node(tls=tls) as there, wiretap(there.uri) as (uri, heard):
            async with Node(peers=[uri], tls=tls) as here:
                there.host(Greeter())
                await here.knows(Greet)
                assert await here.hub().ask(Greet(SECRET), Greeting) == Greeting(f"hello {SECRET}")
            assert len(heard) > 500
            assert (SECRET.encode() in heard) is (tls is None)
            assert (b"greeter.greet" in heard) is (tls is None)

    told(story)


STRANGERS = {
    "no certificate": None,
    "of another authority": tls_of("theirs", "ours"),
    "does not trust us": tls_of("ours", "theirs"),
    "of another network": THEIRS,
}


@pytest.mark.slow
@pytest.mark.parametrize("other", STRANGERS)
@pytest.mark.parametrize("is_caller", [True, False])
def test_nobody_gets_in_without_a_certificate(other: str, is_caller: bool) -> None:
    async def story() -> None:
        mine, theirs = (OURS, STRANGERS[other]) if is_caller else (STRANGERS[other], OURS)
        async with Node(tls=mine) as there:
            there.host(Greeter())
            async with Node(peers=[there.uri], tls=theirs) as here:
                with pytest.raises(NoRoute):
                    await here.knows(Greet, timeout=0.5)
                assert there.peers == here.peers == ()

    told(story)


@pytest.mark.parametrize("size", [1, 100_000, 5_000_000])
def test_messages_of_any_size_pass_encrypted_in_both_directions(size: int) -> None:
    async def story() -> None:
        async with Node(tls=OURS) as there, Node(peers=[there.uri], tls=OURS) as here:
            there.host(Greeter())
            await here.knows(Greet)
            names = [f"{number}" * size for number in range(3)]
            answers = await asyncio.gather(*(here.hub().ask(Greet(name), Greeting) for name in names))
            assert answers == [Greeting(f"hello {name}") for name in names]

    told(story)


@pytest.mark.parametrize("tls", [None, OURS], ids=["in clear", "encrypted"])
def test_messages_that_were_sent_one_by_one_are_taken_together(tls: Tls | None) -> None:
    async def story() -> list[int]:
        loop, turns, turn, done = asyncio.get_running_loop(), [], 0, asyncio.Event()

        def count_turn() -> None:
            nonlocal turn
            turn += 1
            if not done.is_set():
                loop.call_soon(count_turn)

        def take(frames: Frames) -> int:
            turns.append(turn)
            if len(turns) == SENT:
                done.set()
            return 1

        def first_words(_: str) -> list[Frames]:
            ready.set()
            return []

        there, here = (Streams(name, "tcp://127.0.0.1:0", tls=tls) for name in (b"there", b"here"))
        uri, ready = there.start(take, lambda *_: None), asyncio.Event()
        here.start(lambda _: 1, lambda *_: None, first_words=first_words)
        here.connect(uri)
        await ready.wait()
        for connection in there._inbound:
            connection.prove()  # a stranger has a smaller share of a turn
        loop.call_soon(count_turn)
        for _ in range(SENT):  # a record of TLS each, before the loop reads any of them
            here.send(uri, [b"", b"", b"x" * 300], 300)
            here._flush()
        await done.wait()
        await asyncio.gather(here.close(1), there.close(1))
        return turns

    turns = told(story)
    assert len(turns) == SENT
    assert len(set(turns)) <= SENT // 10


def test_who_speaks_no_tls_is_cut_off_and_the_others_are_served() -> None:
    async def story() -> None:
        async with Node(tls=OURS) as there:
            there.host(Greeter())
            host, _, port = there.uri.removeprefix("tcp://").rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\n\r\n" * 100)
            with suppress(ConnectionResetError):
                while await reader.read(1000):
                    pass
            async with Node(peers=[there.uri], tls=OURS) as here:
                await here.knows(Greet)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    told(story)


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        (Tls(HERE / "none.pem", HERE / "ours-node.key", HERE / "ours-authority.pem"), "cannot read the certificate"),
        (Tls(HERE / "ours-node.pem", HERE / "theirs-node.key", HERE / "ours-authority.pem"), "cannot read the certif"),
        (Tls(HERE / "ours-node.pem", HERE / "ours-node.key", HERE / "none.pem"), "cannot read the authority"),
        (Tls(HERE / "ours-node.pem", HERE / "ours-node.key", HERE / "ours-node.key"), "cannot read the authority"),
    ],
)
def test_files_that_are_no_certificates_are_named(tls: Tls, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as found:
        Node(tls=tls)
    assert "\n" not in str(found.value)
