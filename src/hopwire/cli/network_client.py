"""A node for the time of one command: it joins by an address, with the keys that the command was given.

The command is a member of the network like any other: where messages are signed, it needs the key of `hopwire.*` to be
met, and the keys of the contracts that it speaks. Keys and certificates come from `--domains`, from HOPWIRE_DOMAINS and
HOPWIRE_TLS_..., or from `--config`; nothing else of these settings is used.

Bodies are MessagePack maps, given and shown as JSON. Their contracts are known by name alone: the command has no class
for them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import new_class
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import typer

from hopwire.errors import NoRoute, PayloadError, SettingsError, Unreachable
from hopwire.model import Codec, Contract, Payload, contract_of
from hopwire.model.payload import MAX_VERSION, PayloadContract
from hopwire.node import Address, Node
from hopwire.node.addresses import check_uri
from hopwire.node.spawn import words_of
from hopwire.report.words import REFUSALS
from hopwire.runner.settings import read_settings

__all__ = [
    "AsJson",
    "Body",
    "ConfigFile",
    "ContractName",
    "CorrelationId",
    "Domains",
    "Joined",
    "Partition",
    "RawPayload",
    "Seconds",
    "Uri",
    "body_from_json",
    "join",
    "joined",
    "json_from_body",
    "raw_payload",
    "within",
]

T = TypeVar("T")
NAME = "hopwire-cli"
STDIN = "-"
CONTRACT = re.compile(r"(?P<identity>.+?)(?:(?:@| v)(?P<version>\d+))?")


def _option(*names: str, metavar: str, help: str, show: bool = False) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, show_default=show)


Uri: TypeAlias = Annotated[str, typer.Argument(metavar="ADDRESS", help="A node: tcp://host:port.", show_default=False)]
ContractName: TypeAlias = Annotated[
    str, typer.Argument(metavar="CONTRACT", help="IDENTITY@VERSION; version 1 if none is given.", show_default=False)
]
Body: TypeAlias = Annotated[
    str, typer.Argument(metavar="JSON", help="The body, a JSON object; - reads stdin.", show_default=False)
]
Domains: TypeAlias = Annotated[
    Path | None, _option("--domains", metavar="FILE", help="Domains, and where their keys are.")
]
ConfigFile: TypeAlias = Annotated[
    Path | None, _option("--config", "-c", metavar="FILE", help="Settings of a node; only its keys are used.")
]
Seconds: TypeAlias = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="For all of it.", min=0.001, max=1e6)
]
Partition: TypeAlias = Annotated[str, _option("--partition", metavar="TEXT", help="The partition of the contract.")]
CorrelationId: TypeAlias = Annotated[
    str, _option("--correlation-id", metavar="TEXT", help="The flow that it belongs to; otherwise a new one.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object.")]


# -- contracts and bodies


class RawPayload(Payload):
    """A body as bytes, for contracts that this process has no class for."""

    body: bytes


def raw_payload(name: str) -> type[RawPayload]:
    """Give a payload class for a contract that is only known by name: `shop.order@2`, or `shop.order v2`."""
    match = CONTRACT.fullmatch(name)
    version = int(match["version"] or 1) if match is not None and len(match["version"] or "") < 9 else MAX_VERSION + 1
    if match is None or version > MAX_VERSION:
        raise SettingsError(f"found {name!r:.80}, expected a contract such as shop.order@2")
    contract = Contract(match["identity"].encode(), version, b"")
    made: Any = new_class("RawPayload", (RawPayload,))
    made.__contract__ = PayloadContract(contract.identity, version, Codec.RAW, contract, _written, made)
    kind: type[RawPayload] = made
    return kind


def _written(payload: RawPayload) -> bytes:
    return payload.body


def body_from_json(text: str) -> bytes:
    """Read a JSON object and write it as a MessagePack map."""
    text = sys.stdin.read() if text == STDIN else text
    try:
        value = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise SettingsError("the body is nested too deeply") from None
    if not isinstance(value, dict):
        raise SettingsError(f"the body is a JSON object, found {type(value).__name__}")
    try:
        return msgspec.msgpack.encode(value)
    except REFUSALS as error:
        raise PayloadError(f"the body cannot be written as MessagePack: {error}") from None


def json_from_body(body: bytes) -> str:
    """Give a MessagePack body as JSON; other bytes as an object with their hex."""
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(body)).decode()
    except REFUSALS:
        return json.dumps({"hex": body.hex()})


# -- joining


class Joined:
    """A node that has met another by its address."""

    def __init__(self, node: Node, address: str) -> None:
        self.node, self.address = node, address
        self.met = Address(node.node_at(address))
        self.hub = node.hub()

    async def ask_it(self, question: Payload, answer: type[T], timeout: float) -> T:
        """Ask the node at the address about itself."""
        try:
            return await self.hub.ask(question, answer, to=self.met, timeout=timeout)  # type: ignore[type-var]
        except NoRoute as error:
            text = (
                f"{self.address} answers no questions about itself: it is not run by `hopwire node`, or status is off"
            )
            raise NoRoute(error.reason, text) from None


@asynccontextmanager
async def joined(address: str, domains: Path | None, config: Path | None, timeout: float) -> AsyncIterator[Joined]:
    """Be a member of the network for a while; an Unreachable says that nobody answered at the address."""
    check_uri(address, "a node")
    given = {} if domains is None else {"domains": str(domains)}
    settings = read_settings(given, os.environ, config, {"domains": "--domains"})
    async with Node(peers=[address], name=NAME, domains=settings.domains(), tls=settings.tls()) as node:
        events = node.events()
        try:
            async with asyncio.timeout(timeout):
                while not node.node_at(address):
                    await anext(events)
        except TimeoutError:
            text = f"no answer from {address} in {timeout:g} s: is it running, are address and keys right?"
            raise Unreachable("unreachable", text) from None
        yield Joined(node, address)


def join(
    address: str,
    domains: Path | None,
    config: Path | None,
    timeout: float,
    act: Callable[[Joined], Awaitable[T]],
) -> T:
    """Join by an address, do something there, leave, and give what was done."""

    async def run() -> T:
        async with joined(address, domains, config, timeout) as there:
            return await act(there)

    return asyncio.run(run())


async def within(there: Joined, kind: type[RawPayload], partition: str, timeout: float) -> None:
    """Wait until somebody is known who handles a contract."""
    try:
        await there.node.knows(kind, partition=partition.encode(), timeout=timeout)
    except NoRoute:
        words = words_of(contract_of(kind))
        text = f"nobody handles {words}, as far as {there.address} says"
        raise NoRoute("no_route", text, words) from None
