"""hopwire: `ask` from the hub of one node to an actor on another, or on the same.

| option | what both nodes do beside |
|---|---|
| `capture` | capture everything into the temporary directory; a capture with a gap is not measured |
| `signed`, `hopwire-1` | sign and verify every message, with the default scheme or with the one named |
| `tls` | encrypt, each with a certificate |
| `joined` | are members of a cluster, of which the one that asks knows only a door |
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.peers import Ask, Ready
from hopwire import Payload
from hopwire.node import Actor, Node, Tls, handles
from hopwire.node.node import NodeOptions
from hopwire.security import Domain, Domains, Key
from hopwire.security.schemes import DEFAULT_SCHEME

PEM = Path(__file__).resolve().parents[2] / "tests/node/pem"


class Ping(Payload, identity="bench.ping", version=1):
    data: bytes


class Pong(Payload, identity="bench.pong", version=1):
    data: bytes


class Echo(Actor):
    """Answers with what it got."""

    @handles
    async def ping(self, request: Ping) -> Pong:
        return Pong(request.data)


def _capturing() -> NodeOptions:
    return {"capture": tempfile.mkdtemp(prefix="capture")}


def _signing(scheme: str) -> NodeOptions:
    key = Key("bench", b"sixteen or more bytes")
    return {"domains": Domains([Domain("bench", [key], ["bench.*", "hopwire.*"], scheme)])}


def _encrypting() -> NodeOptions:
    files = (PEM / "ours-node.pem", PEM / "ours-node.key", PEM / "ours-authority.pem")
    return {"tls": Tls(*files, any_identity=True)}  # one certificate for both sides


OPTIONS: dict[str, Callable[[], NodeOptions]] = {
    "": NodeOptions,
    "capture": _capturing,
    "signed": lambda: _signing(DEFAULT_SCHEME),
    "hopwire-1": lambda: _signing("hopwire-1"),
    "tls": _encrypting,
    "joined": lambda: {"join": []},
}


async def serve(ready: Ready, option: str = "") -> None:
    async with Node(**OPTIONS[option]()) as node:
        node.host(Echo())
        ready(node.uri)
        await asyncio.Event().wait()


@asynccontextmanager
async def connect(address: str, option: str = "") -> AsyncIterator[Ask]:
    options = OPTIONS[option]()
    options["join" if "join" in options else "peers"] = [address] if address else []
    async with Node(**options) as node:
        if not address:
            node.host(Echo())
        await node.knows(Ping)
        hub = node.hub()

        async def ask(body: bytes) -> bytes:
            return (await hub.ask(Ping(body), Pong)).data

        yield ask
        _refuse_gaps(node)


def _refuse_gaps(node: Node) -> None:
    """What was skipped cost nothing: a row with gaps would look too good. The other node sees as much as this one."""
    status = node.capture_status
    if status is not None and (status.skipped or status.trouble):
        raise ValueError(f"the capture skipped {status.skipped:,} of {status.offered:,} sightings {status.trouble}")
