"""`hopwire tell`: a message from the shell that nothing is waited for."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hopwire.cli.network_client import (
    AsJson,
    Body,
    ConfigFile,
    ContractName,
    CorrelationId,
    Domains,
    Joined,
    Partition,
    Seconds,
    Uri,
    body_from_json,
    join,
    raw_payload,
    within,
)
from hopwire.cli.terminal import say

__all__ = ["tell"]


def tell(
    address: Uri,
    contract: ContractName,
    body: Body,
    to_all: Annotated[bool, typer.Option("--all", help="To every actor that handles it: a broadcast.")] = False,
    partition: Partition = "",
    correlation_id: CorrelationId = "",
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Tell a message to one who handles it, or to all, at most once. Nobody says that it arrived."""
    kind, data = raw_payload(contract), body_from_json(body)

    async def act(there: Joined) -> None:
        await within(there, kind, partition, timeout)
        call = there.hub.broadcast if to_all else there.hub.tell
        await call(kind(data), ttl=timeout, partition=partition.encode(), correlation_id=correlation_id.encode())

    join(address, domains, config, timeout, act)
    if as_json:
        say(json.dumps({"told": contract}))
