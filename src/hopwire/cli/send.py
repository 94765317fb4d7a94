"""`hopwire send`: a message from the shell, with a receipt."""

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
from hopwire.node import Receipt
from hopwire.report.words import text_or_hex

__all__ = ["send"]


def send(
    address: Uri,
    contract: ContractName,
    body: Body,
    at_least_once: Annotated[bool, typer.Option("--at-least-once", help="Send again until a receipt comes.")] = False,
    partition: Partition = "",
    correlation_id: CorrelationId = "",
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Send a message, and wait until it is in the queue of an actor.

    That the message was handled is not said: `hopwire ask` waits for that.
    """
    kind, data = raw_payload(contract), body_from_json(body)

    async def act(there: Joined) -> Receipt:
        await within(there, kind, partition, timeout)
        return await there.hub.send(
            kind(data),
            timeout=timeout,
            partition=partition.encode(),
            correlation_id=correlation_id.encode(),
            at_least_once=at_least_once,
        )

    receipt = join(address, domains, config, timeout, act)
    node = text_or_hex(receipt.node)
    say(json.dumps({"taken_by": node}) if as_json else f"taken by {node}")
