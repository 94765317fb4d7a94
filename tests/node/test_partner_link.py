"""A link between two gateways that is cut and healed, with real sockets: every byte passes a wire that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from hopwire.errors import HopwireError
from hopwire.node import Node, Partner
from tests.node.partner_networks import OrderDesk, Place, Placed, handlers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
PATIENCE_SECONDS = 60.0


class Wire:
    """Passes bytes on to an address, until it is cut."""

    def __init__(self) -> None:
        self.uri = self.target = ""
        self.is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.target.removeprefix("tcp://").rpartition(":")
        there_reader, there = await asyncio.open_connection(host, int(port))
        self._writers |= {writer, there}
        if self.is_cut:
            self.cut()
        await asyncio.gather(self._copy(reader, there), self._copy(there_reader, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
            self._writers.discard(writer)

    def cut(self) -> None:
        self.is_cut = True
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def new_wire() -> AsyncIterator[Wire]:
    wire = Wire()
    server = await asyncio.start_server(wire.pass_on, "127.0.0.1", 0)
    wire.uri = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        wire.cut()
        server.close()


async def until(node: Node, is_so: Callable[[], bool]) -> None:
    """Wait for what happens to a node until something is so."""
    events = node.events()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():
            await anext(events)


def test_link_that_is_cut_under_load_withdraws_its_routes_and_heals() -> None:
    async def story() -> None:
        async with new_wire() as to_shop, new_wire() as to_acme:
            lent = Partner("acme", export=["orders.*"], advertise=to_shop.uri)
            async with Node(join=[]) as shop, Node(join=[shop.uri], partners=[lent]) as lender:
                to_shop.target = f"tcp://127.0.0.1:{port_of(lender.border('acme'))}"
                desk = OrderDesk()
                shop.host(desk)
                borrowed = Partner("shop", [to_shop.uri], import_=["orders.*"], advertise=to_acme.uri)
                async with Node(join=[]) as acme, Node(join=[acme.uri], partners=[borrowed]) as borrower:
                    to_acme.target = f"tcp://127.0.0.1:{port_of(borrower.border('shop'))}"
                    await acme.knows(Place, timeout=PATIENCE_SECONDS)
                    hub = acme.hub()
                    assert await hub.ask(Place(0), Placed) == Placed(0)
                    calls = [asyncio.ensure_future(hub.ask(Place(n), Placed, timeout=30)) for n in range(1, 500)]
                    await asyncio.sleep(0)
                    to_shop.cut()
                    to_acme.cut()
                    ends = await asyncio.gather(*calls, return_exceptions=True)
                    assert all(isinstance(end, Placed | HopwireError) for end in ends)
                    assert {end.number for end in ends if isinstance(end, Placed)} <= {*desk.taken}
                    await until(acme, lambda: handlers(acme) == 0)
                    assert borrower.partners()[0].imports == ()
                    to_shop.is_cut = to_acme.is_cut = False
                    await until(acme, lambda: handlers(acme) == 1)
                    assert await hub.ask(Place(1000), Placed, timeout=PATIENCE_SECONDS) == Placed(1000)
                    assert borrower.partners()[0].open_questions == 0

    asyncio.run(story())


def port_of(node: Node) -> int:
    """The port that a node listens on, whatever it tells others."""
    port: int = node._transport._server.getsockname()[1]  # type: ignore[attr-defined]
    return port
