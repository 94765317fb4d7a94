"""The server answers GET, and nothing and nobody else for long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from hopwire.errors import SettingsError
from hopwire.runner import http_server
from hopwire.runner.http_server import HEAD_BYTES, MOST_CONNECTIONS, HttpAnswer, HttpServer, http_address


def fail() -> HttpAnswer:
    raise RuntimeError("no page")


PAGES: dict[str, Callable[[], HttpAnswer]] = {"/page": lambda: HttpAnswer(200, "text\n"), "/fails": fail}
Story = Callable[[int], Awaitable[None]]


def with_server(story: Story) -> None:
    async def run() -> None:
        server = HttpServer("0", PAGES)
        await server.start()
        try:
            await story(int(server.url.rpartition(":")[2]))
        finally:
            await server.stop()

    asyncio.run(run())


async def said(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


# fmt: off
REQUESTS = (
    (b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n",        b"HTTP/1.1 200 OK\r\n",                 b"\r\n\r\ntext\n"),
    (b"GET /page?a=b HTTP/1.0\r\n\r\n",               b"HTTP/1.1 200 OK\r\n",                 b"\r\n\r\ntext\n"),
    (b"GET /nope HTTP/1.1\r\n\r\n",                   b"HTTP/1.1 404 Not Found\r\n",          b"are /page, /fails\n"),
    (b"POST /page HTTP/1.1\r\n\r\n",                  b"HTTP/1.1 405 Method Not Allowed\r\n", b"GET is answered\n"),
    (b"nonsense\r\n\r\n",                             b"HTTP/1.1 400 Bad Request\r\n",        b"HTTP/1.1\n"),
    (b"\r\n\r\n",                                     b"HTTP/1.1 400 Bad Request\r\n",        b"HTTP/1.1\n"),
    (b"GET /fails HTTP/1.1\r\n\r\n",                  b"HTTP/1.1 500 ",                       b"the log says why\n"),
    (b"GET /page HTTP/1.1\r\n" + b"a: b\r\n" * 9999,  b"HTTP/1.1 431 ",                       b"at most 8192 bytes\n"),
    (b"x" * (2 * HEAD_BYTES + 1),                     b"HTTP/1.1 431 ",                       b"at most 8192 bytes\n"),
)
# fmt: on


@pytest.mark.parametrize(("request_bytes", "status", "end"), REQUESTS)
def test_every_request_gets_its_answer(request_bytes: bytes, status: bytes, end: bytes) -> None:
    async def story(port: int) -> None:
        answer = await said(port, request_bytes)
        assert answer.startswith(status)
        assert answer.endswith(end)
        assert b"Connection: close" in answer

    with_server(story)


def test_no_request_ends_the_server() -> None:
    async def story(port: int) -> None:
        chance = random.Random(7)
        for _ in range(200):
            noise = bytes(chance.choices(b"GET /page HTTP1.\r\n\r\n\0\xff: ", k=chance.randrange(60)))
            answer = await said(port, noise + b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 "), noise
        assert b" 200 " in await said(port, b"GET /page HTTP/1.1\r\n\r\n")

    with_server(story)


def test_who_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.01)

    async def story(port: int) -> None:
        assert await said(port, b"GET /page HTT") == b""

    with_server(story)


def test_connections_are_counted() -> None:
    async def story(port: int) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS)]
        assert b" 503 " in await said(port, b"")
        for _, writer in silent:
            writer.close()
        answer = b""
        while b" 200 " not in answer:
            answer = await said(port, b"GET /page HTTP/1.1\r\n\r\n")

    with_server(story)


@pytest.mark.parametrize(
    ("text", "found"),
    [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:80", ("::1", 80)), ("a.b:0", ("a.b", 0))],
)
def test_an_address_is_read(text: str, found: tuple[str, int]) -> None:
    assert http_address(text) == found


@pytest.mark.parametrize("text", ["x", ":80", "host:", "1.2.3.4:99999", "-1", "²"])
def test_a_bad_address_is_one_line(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^http: found .* expected HOST:PORT, or a port on 127.0.0.1$"):
        http_address(text)
