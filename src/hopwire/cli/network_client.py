"""A node for the time of one command: it joins by an address, with the keys that the command was given.

The command is a member of the network like any other: where messages are signed, it needs the key of `hopwire.*` to be
met, and the keys of the contracts that it speaks. Keys and certificates come from `--domains`, from HOPWIRE_DOMAINS and
HOPWIRE_TLS_..., or from `--config`; nothing else of these settings is used.

A node tells of its own routes only. So if the node at the address does not handle a contract, it is asked who does, and
the command joins once more, by these nodes too.

Bodies are MessagePack maps, given and shown as JSON. Their contracts are known by name alone: the command has no class
for them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import new_class
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
import typer

from hopwire.errors import DeliveryError, NoRoute, PayloadError, SettingsError, Timeout, Unreachable
from hopwire.model import Codec, Contract, Payload, Version, contract_of
from hopwire.model.payload import MAX_VERSION, PayloadContract
from hopwire.node import Address, Node
from hopwire.node.addresses import check_uri, host_of, is_ipc, path_of, port_of
from hopwire.node.departures import KnownDeparture
from hopwire.node.overview import KnownContract, KnownMember
from hopwire.node.spawn import words_of
from hopwire.node.status import (
    ContractPage,
    ContractPageWanted,
    DepartedList,
    DepartedWanted,
    KnownPartner,
    MemberPage,
    MemberPageWanted,
    PartnerList,
    PartnersWanted,
    Status,
    StatusWanted,
)
from hopwire.report.words import REFUSALS, nearest, text_or_hex
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
    "all_contracts",
    "all_departed",
    "all_members",
    "all_names",
    "all_partners",
    "body_from_json",
    "join",
    "joined",
    "json_from_body",
    "partner_to_json",
    "raw_payload",
    "within",
]

T = TypeVar("T")
NAME = "hopwire-cli"
STDIN = "-"
MOST_MEMBERS = 16  # that are met where the node at the address does not know who handles a contract
MOST_LOOKED_AT = 2000  # contracts, among which one is looked for that was meant
MOST_OTHERS = 4  # nodes that are met to talk to one of them
AGAIN_SECONDS = 1.0  # until the node at the address is asked again who handles a contract
SHORTEST_SECONDS = 0.001
LOOK_SECONDS, LOOKS = 0.5, 8  # until it is looked whether anybody listens at an address; so often: it may just start
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
    float, typer.Option("--timeout", metavar="SECONDS", help="For each step.", min=0.001, max=1e6)
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
    is_misspelt = match is not None and match["version"] is None and "@" in name  # shop.order@two
    if match is None or is_misspelt or version > MAX_VERSION:
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


class _Elsewhere(Exception):
    """A contract is handled by nodes that have to be met first."""

    def __init__(self, uris: tuple[str, ...]) -> None:
        self.uris = uris


class Joined:
    """A node that has met another by its address."""

    def __init__(self, node: Node, address: str, may_go_further: bool = True, is_signing: bool = False) -> None:
        self.node, self.address, self.may_go_further, self.is_signing = node, address, may_go_further, is_signing
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
async def joined(
    address: str,
    domains: Path | None,
    config: Path | None,
    timeout: float,
    others: tuple[str, ...] = (),
    is_member: bool = False,
) -> AsyncIterator[Joined]:
    """Be a node of the network for a while; an Unreachable says that nobody answered at the address.

    A member is found by all members of a cluster. Any other command talks, and need not be found.
    """
    check_uri(address, "a node")
    given = {} if domains is None else {"domains": str(domains)}
    settings = read_settings(given, os.environ, config, {"domains": "--domains"})
    known = settings.domains()
    doors = [address] if is_member else None
    async with Node(peers=[address, *others], join=doors, name=NAME, domains=known, tls=settings.tls()) as node:
        with _without_echo():
            await _met(node, address, timeout)
        yield Joined(node, address, not others, bool(known.signing))


async def _met(node: Node, address: str, timeout: float) -> None:
    """Wait until the node at an address has answered; where nobody can, that is said after a second."""
    events = node.events()
    faults: list[str] = []
    now = asyncio.get_running_loop().time
    end = now() + timeout
    while not node.node_at(address):
        is_looking = all(faults)  # once somebody listens, it is not dialled for nothing again
        try:
            async with asyncio.timeout(min(max(end - now(), SHORTEST_SECONDS), LOOK_SECONDS)):
                while not node.node_at(address):
                    await anext(events)
        except TimeoutError:
            if is_looking:
                faults.append(await asyncio.to_thread(_fault_at, address))
            is_over = now() >= end
            if all(faults) and (is_over or len(faults) >= LOOKS):
                raise Unreachable("unreachable", f"no answer from {address}: {faults[-1]}") from None
            if is_over:
                text = f"no answer from {address} in {timeout:g} s: is it running, are address and keys right?"
                raise Unreachable("unreachable", text) from None


@contextmanager
def _without_echo() -> Iterator[None]:
    """Keep out of the log what the error that a command ends with says too."""
    log = logging.getLogger("hopwire.node")
    log.addFilter(_is_news)
    try:
        yield
    finally:
        log.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Tell whether a record says more than the error that a command ends with."""
    return getattr(record, "hopwire_event", "") != "unanswered"


def _fault_at(address: str) -> str:
    """Say why nobody can answer at an address; nothing if somebody listens there, or if that cannot be said."""
    try:
        if is_ipc(address):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(LOOK_SECONDS)
                sock.connect(path_of(address))
        else:
            socket.create_connection((host_of(address), port_of(address)), LOOK_SECONDS).close()
    except (socket.gaierror, UnicodeError):
        return "unknown host; is the name spelled right?"
    except ConnectionRefusedError:
        return "connection refused; is it running, is the port right?"
    except FileNotFoundError:
        return "no such file; is it running, is the path right?"
    except OSError:
        return ""
    return ""


def join(
    address: str,
    domains: Path | None,
    config: Path | None,
    timeout: float,
    act: Callable[[Joined], Awaitable[T]],
    is_member: bool = False,
) -> T:
    """Join by an address, do something there, leave, and give what was done."""

    async def run(others: tuple[str, ...] = ()) -> T:
        async with joined(address, domains, config, timeout, others, is_member) as there:
            return await act(there)

    try:
        return asyncio.run(run())
    except _Elsewhere as elsewhere:
        return asyncio.run(run(elsewhere.uris))


async def within(there: Joined, kind: type[RawPayload], partition: str, timeout: float) -> None:
    """Wait until somebody is known who handles a contract; nodes that have to be met first are met by `join`."""
    contract = contract_of(kind, partition.encode())
    now = asyncio.get_running_loop().time
    end = now() + timeout
    while True:
        uris = await _elsewhere(there, contract, timeout) if there.may_go_further else ()
        if uris:
            raise _Elsewhere(uris)
        try:
            step = min(max(end - now(), SHORTEST_SECONDS), AGAIN_SECONDS)
            await there.node.knows(kind, partition=contract.partition, timeout=step)
            return
        except NoRoute:
            if now() < end:
                continue  # somebody may have joined the node at the address meanwhile
            words = words_of(contract)
            text = f"nobody handles {words}, as far as {there.address} says; {await _advice(there, contract, timeout)}"
            raise NoRoute("no_route", text, words) from None


async def _advice(there: Joined, contract: Contract, timeout: float) -> str:
    """Give the contract that may have been meant, or where all are listed."""
    try:
        known = await all_contracts(there, timeout, MOST_LOOKED_AT)
    except DeliveryError:
        known = []
    typed = _typed(contract.identity, contract.version)
    near = nearest(typed, [_typed(each.identity, each.version) for each in known])
    if near and near != typed:
        return f"did you mean {near!r}?"
    return f"`hopwire routes {there.address}` lists what is handled"


def _typed(identity: bytes, version: Version) -> str:
    """Give a contract as it is typed."""
    return f"{text_or_hex(identity)}@{version if isinstance(version, int) else text_or_hex(version)}"


async def _elsewhere(there: Joined, contract: Contract, timeout: float) -> tuple[str, ...]:
    """Give where a contract is handled, if not at the address itself; nothing if the node there cannot say.

    A node without the key of a domain, as a rendezvous is, knows nobody who handles a contract of it. Then all members
    are asked, as far as they are not too many.
    """
    try:
        handled = [each for each in await all_contracts(there, timeout) if each[:3] == contract]
        if not handled and there.is_signing:
            members = await all_members(there, timeout)
            known = (there.node.identity, there.met.node)
            return tuple(each.uri for each in members if each.uri and each.node not in known)[:MOST_MEMBERS]
        nodes = {node for each in handled if not each.actors_here for node in each.nodes} - {there.node.identity}
        members = await all_members(there, timeout) if nodes else []
    except DeliveryError:
        return ()
    return tuple(member.uri for member in members if member.node in nodes and member.uri)[:MOST_OTHERS]


# -- pages


async def all_members(there: Joined, timeout: float) -> list[KnownMember]:
    """Ask a node for all members, page by page."""
    found: dict[bytes, KnownMember] = {}
    async with _in_time(there, timeout):
        offset, total = 0, 1
        while offset < total:
            page = await there.ask_it(MemberPageWanted(offset), MemberPage, timeout)
            found |= {each.node: each for each in page.members}
            offset, total = offset + len(page.members), page.total if page.members else 0
    return list(found.values())


async def all_names(there: Joined, timeout: float) -> dict[bytes, str]:
    """Give what nodes call themselves, as far as the node at the address knows; nothing if it does not say."""
    try:
        status = await there.ask_it(StatusWanted(), Status, timeout)
        members = await all_members(there, timeout)
    except DeliveryError:
        return {}
    names = {each.node: each.name for each in members} | {status.node: status.name}
    return {node: name for node, name in names.items() if name}


async def all_departed(there: Joined, timeout: float) -> list[KnownDeparture]:
    """Ask a node who is not there any more, commands that are done aside; one that does not know cannot say."""
    try:
        gone = (await there.ask_it(DepartedWanted(), DepartedList, timeout)).departed
    except DeliveryError:
        return []
    return [each for each in gone if (each.name, each.reason) != (NAME, "left")]


@asynccontextmanager
async def _in_time(there: Joined, timeout: float) -> AsyncIterator[None]:
    """Do something within a time: what a node has to say need not have an end."""
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError as error:
        if isinstance(error, Timeout):
            raise
        raise Timeout("timed_out", f"{there.address} had more to say about itself than {timeout:g} s take") from None


async def all_partners(there: Joined, timeout: float) -> list[KnownPartner]:
    """Ask a node to which partner networks it is a gateway; one that does not know the question is none."""
    try:
        return list((await there.ask_it(PartnersWanted(), PartnerList, timeout)).partners)
    except DeliveryError:
        return []


def partner_to_json(partner: KnownPartner) -> dict[str, object]:
    """Give a partner network as JSON."""
    peers = [text_or_hex(node) for node in partner.peers]
    return {**partner._asdict(), "node": text_or_hex(partner.node), "peers": peers}


async def all_contracts(there: Joined, timeout: float, most: int | None = None) -> list[KnownContract]:
    """Ask a node for all contracts, or the first ones, page by page."""
    found: dict[tuple[object, ...], KnownContract] = {}
    async with _in_time(there, timeout):
        offset, total = 0, 1
        while offset < total and (most is None or offset < most):
            page = await there.ask_it(ContractPageWanted(offset), ContractPage, timeout)
            found |= {each[:3]: each for each in page.contracts}
            offset, total = offset + len(page.contracts), page.total if page.contracts else 0
    return list(found.values())
