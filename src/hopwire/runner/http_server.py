"""A small HTTP server for probes and metrics: GET only, one answer for each connection, and everything has a limit.

| limit | beyond it |
|---|---|
| `MOST_CONNECTIONS` at a time | 503, and the connection is closed |
| `HEAD_BYTES` of a request, up to its empty line | 431 |
| `REQUEST_SECONDS` until the request is there | the connection is closed |
| `ANSWER_SECONDS` until the answer is taken | the connection is closed |

Requests are answered by functions that do not wait. A body that comes with a request is not read.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from hopwire.errors import SettingsError

__all__ = ["HttpAnswer", "HttpServer", "http_address", "json_answer"]

log = logging.getLogger("hopwire.runner")
LOOPBACK = "127.0.0.1"
MAX_PORT = 2**16 - 1
MOST_CONNECTIONS = 32  # probes and scrapers are few
HEAD_BYTES = 8 * 1024
REQUEST_SECONDS, ANSWER_SECONDS = 5.0, 10.0
# fmt: off
REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 503: "Service Unavailable",
}
# fmt: on


class HttpAnswer(NamedTuple):
    """What is answered."""

    status: int
    body: str
    content_type: str = "text/plain; charset=utf-8"


def json_answer(status: int, value: Any) -> HttpAnswer:
    """Give an answer in JSON."""
    return HttpAnswer(status, json.dumps(value) + "\n", "application/json")


def http_address(text: str, option: str = "http") -> tuple[str, int]:
    """Read HOST:PORT, [IPV6]:PORT or a port on this machine alone; an error names the option."""
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) <= MAX_PORT) or (colon and not host):
        raise SettingsError(f"{option}: found {text!r:.80}, expected HOST:PORT, or a port on {LOOPBACK}")
    return host.strip("[]") or LOOPBACK, int(port)


class HttpServer:
    """Answers GET requests by path."""

    def __init__(self, address: str, pages: Mapping[str, Callable[[], HttpAnswer]], option: str = "http") -> None:
        self._host, self._port = http_address(address, option)
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    @property
    def is_reachable(self) -> bool:
        """Whether other machines can reach the server."""
        try:
            return not ip_address(self._host).is_loopback
        except ValueError:
            return self._host != "localhost"

    async def start(self) -> None:
        """Begin to listen; a SettingsError says why that is not possible."""
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self._port, limit=HEAD_BYTES)
        except OSError as error:
            why = error.strerror or str(error)
            raise SettingsError(f"http: cannot listen on {self._host}:{self._port}: {why}") from None
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def stop(self) -> None:
        """Take no more requests, and end those that are being answered."""
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= MOST_CONNECTIONS:
            writer.write(_bytes_from(HttpAnswer(503, "too many connections\n")))
            writer.close()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._answer(reader)
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(_bytes_from(answer))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, EOFError):  # whoever asked is slow, or gone
            pass
        finally:
            writer.transport.abort()  # nothing happens to a connection that is closed already

    async def _answer(self, reader: asyncio.StreamReader) -> HttpAnswer:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return HttpAnswer(431, f"a request has at most {HEAD_BYTES} bytes\n")
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return HttpAnswer(400, "expected GET PATH HTTP/1.1\n")
        method, target, _ = words
        page = self._pages.get(target.partition("?")[0])
        if page is None:
            return HttpAnswer(404, f"there are {', '.join(self._pages)}\n")
        if method != "GET":
            return HttpAnswer(405, "only GET is answered\n")
        try:
            return page()
        except Exception:
            log.exception("a page could not be made")
            return HttpAnswer(500, "the page could not be made; the log says why\n")


def _bytes_from(answer: HttpAnswer) -> bytes:
    body = answer.body.encode()
    lines = [
        f"HTTP/1.1 {answer.status} {REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        *(["Allow: GET"] if answer.status == 405 else []),
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
