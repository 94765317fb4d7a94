"""Encrypted links: nothing in clear on the wire, and nobody in without the key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hopwire.errors import NoRoute, SettingsError
from hopwire.node import CurveKeys, Node, new_curve_keys
from tests.node.stories import Greet, Greeter, Greeting

KEYS = new_curve_keys()
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


@pytest.mark.parametrize("curve", [None, KEYS], ids=["in clear", "encrypted"])
def test_what_passes_on_an_encrypted_link_cannot_be_read(curve: CurveKeys | None) -> None:
    async def story() -> None:
        async with Node(curve=curve) as there, wiretap(there.uri) as (uri, heard):
            async with Node(peers=[uri], curve=curve) as here:
                there.host(Greeter())
                await here.knows(Greet)
                assert await here.hub().ask(Greet(SECRET), Greeting) == Greeting(f"hello {SECRET}")
            assert len(heard) > 500
            assert (SECRET.encode() in heard) is (curve is None)
            assert (b"greeter.greet" in heard) is (curve is None)

    asyncio.run(asyncio.wait_for(story(), timeout=30))


@pytest.mark.parametrize("other", [None, new_curve_keys(), "their own"], ids=["no keys", "other keys", "own pair"])
def test_nobody_gets_in_without_the_key(other: CurveKeys | str | None) -> None:
    async def story() -> None:
        stranger = new_curve_keys()
        keys = CurveKeys(KEYS.public, stranger.secret) if isinstance(other, str) else other
        async with Node(curve=KEYS) as there:
            there.host(Greeter())
            async with Node(peers=[there.uri], curve=keys) as here:
                with pytest.raises(NoRoute):
                    await here.knows(Greet, timeout=1)
                assert there.peers == here.peers == ()

    asyncio.run(asyncio.wait_for(story(), timeout=30))


def test_the_secret_is_never_shown() -> None:
    assert KEYS.secret.decode() not in repr(KEYS)
    assert KEYS.secret.decode() not in f"{KEYS}"


def test_keys_that_are_none_are_refused() -> None:
    with pytest.raises(SettingsError, match="secret key of CURVE"):
        CurveKeys(KEYS.public, b"short")
