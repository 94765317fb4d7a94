"""Programs that are no nodes, within a test: plain ZeroMQ sockets, and messages by the documents alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import zmq
import zmq.asyncio
from plain_formats import Plain, read, signed

from hopwire.model import Codec, Payload, body_from_payload
from hopwire.node import Actor, Node, NodeSettings, handles
from hopwire.security import OPEN, Domain, Domains, Key

FORMATS = ("V3", "V4", "V5", "V6")
SECRET = b"sixteen bytes or more"
LEGACY = Domains(
    [
        Domain("plain", [Key("1", SECRET)], ["plain.*", "KINO.*"], scheme="legacy"),
        Domain("network", [Key("1", SECRET)], ["hopwire.*"], scheme="legacy"),
    ]
)
KINDS = [(fmt, OPEN) for fmt in FORMATS] + [(fmt, LEGACY) for fmt in FORMATS[1:]]  # V3 has no place for a signature
IDS = [f"{fmt}-{'signed' if domains.signing else 'open'}" for fmt, domains in KINDS]
ANSWERS = NodeSettings(answer_foreign=True)
GREETING, EXCEPTION, RECEIPT = (b"plain.greeting", 1, b""), (b"KINO.EXCEPTION", 1, b""), (b"KINO.RCPTCONFIRM", 1, b"")
HUB = b"\0the hub of a foreigner"


class PlainGreet(Payload, identity="plain.greet", version=1, codec=Codec.JSON):
    name: str


class PlainGreeting(Payload, identity="plain.greeting", version=1, codec=Codec.JSON):
    text: str


class PlainRelay(Payload, identity="plain.relay", version=1, codec=Codec.JSON):
    name: str


class PlainGreeter(Actor):
    """Greets; a name that is empty is an error, and nobody is greeted with nothing."""

    def __init__(self) -> None:
        self.greeted: list[str] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    @handles
    async def greet(self, request: PlainGreet) -> PlainGreeting | None:
        self.greeted.append(request.name)
        await self.may_answer.wait()
        if not request.name:
            raise ValueError("a name is needed")
        return None if request.name == "nobody" else PlainGreeting(text=f"hello {request.name}")


@contextmanager
def plain_socket(kind: int, identity: bytes = b"") -> Iterator[zmq.asyncio.Socket]:
    """A ZeroMQ socket that lives on the loop of the test."""
    with zmq.asyncio.Context() as context, context.socket(kind) as opened:
        opened.setsockopt(zmq.LINGER, 0)
        if identity:
            opened.setsockopt(zmq.IDENTITY, identity)
        yield opened


@contextmanager
def plain_dealer(node: Node, identity: bytes = b"") -> Iterator[zmq.asyncio.Socket]:
    with plain_socket(zmq.DEALER, identity) as dealer:
        dealer.connect(node.uri)
        yield dealer


def body(name: str) -> bytes:
    return body_from_payload(PlainGreet(name=name))


def plain_question(fmt: str, name: str = "Ada", domains: Domains = OPEN, **changes: Any) -> Plain:
    """Ask for a greeting; V3 and V4 have no place for a key and a node."""
    has_key = fmt in ("V5", "V6")
    asked = Plain(
        b"plain.greet",
        body=body(name),
        correlation_id=b"a flow",
        callback_receiver=HUB,
        callback_node=b"nobody has met me" if has_key else b"",
        callback_key=7 if has_key else 0,
        points=(GREETING, EXCEPTION),
    )._replace(**changes)
    return signed(fmt, asked, b"plain", SECRET) if domains.signing else asked


async def received(opened: zmq.asyncio.Socket) -> tuple[str, Plain]:
    frames: list[bytes] = await opened.recv_multipart()
    return read(frames)
