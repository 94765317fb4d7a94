"""Nodes on sockets of this machine: how a story of them is told, what it waits for, and links that can be cut.

The clock here is that of the machine, and a machine with much else to do stands still for a second now and then. So a
story waits until something is so, however long that takes, and has one limit as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from hopwire.cluster.events import Pace
from hopwire.model.units import NS_PER_SECOND
from hopwire.node import Node, NodeSettings
from hopwire.node.streams import Streams

T = TypeVar("T")
SECONDS = 100.0  # for a whole story, on a machine with much else to do
ANSWER_SECONDS = 20.0  # for a question that is answered at once where nothing else runs
NOWHERE = "tcp://127.0.0.1:1"  # nobody listens on it, as nobody reaches an address behind NAT
NEVER_NS = 600 * NS_PER_SECOND  # no story takes so long

UNHURRIED = NodeSettings(pace=Pace(silence_ns=NEVER_NS))  # only the end of a connection tells that a peer is gone
SELDOM = NodeSettings(pace=Pace(beat_ns=NEVER_NS // 6, silence_ns=NEVER_NS))  # says nothing by itself
FAITHFUL = NodeSettings(pace=Pace(silence_ns=NEVER_NS, gone_ns=NEVER_NS))  # a link that is cut may take its time


def told(story: Callable[[], Awaitable[T]]) -> T:
    """Tell a story on the loop of this machine, and give what it gives."""

    async def tell() -> T:
        async with asyncio.timeout(SECONDS):
            return await story()

    return asyncio.run(tell())


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    while not is_so():
        await asyncio.sleep(0.005)


def streams_of(node: Node) -> Streams:
    """Give the sockets of a node."""
    assert isinstance(node._transport, Streams)
    return node._transport


@asynccontextmanager
async def cuttable(uri: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """An address that leads to another one, and a way to cut all connections there."""
    host, _, port = uri.removeprefix("tcp://").rpartition(":")
    writers: list[asyncio.StreamWriter] = []
    tasks: list[asyncio.Future[None]] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(host, int(port))
        writers.extend((writer, there[1]))
        tasks.extend((asyncio.ensure_future(copy(reader, there[1])), asyncio.ensure_future(copy(there[0], writer))))

    def cut() -> None:
        for writer in writers:
            writer.transport.abort()
        writers.clear()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}", cut
    finally:
        server.close()
        cut()
        await asyncio.gather(*tasks, return_exceptions=True)
