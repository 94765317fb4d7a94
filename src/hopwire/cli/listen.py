"""`hopwire listen`: what arrives for a contract, as lines of JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from hopwire.cli.network_client import (
    ConfigFile,
    ContractName,
    Domains,
    Joined,
    Partition,
    RawPayload,
    Seconds,
    Uri,
    join,
    json_from_body,
    raw_payload,
)
from hopwire.cli.terminal import say
from hopwire.node import Actor, Context, handles
from hopwire.node.spawn import words_of
from hopwire.report.words import text_or_hex

__all__ = ["listen"]


def listen(
    address: Uri,
    contract: ContractName,
    count: Annotated[int, typer.Option("--count", min=0, help="End after so many; 0 is never.")] = 0,
    partition: Partition = "",
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="With contract, flow and sender beside the body.")] = False,
) -> None:
    """Print the bodies of a contract that arrive here, until Ctrl+C. Each is a line of JSON.

    The command is one more actor that handles the contract, known to all members of a cluster. It takes its turn: what
    it prints, no other actor gets, broadcasts aside. Whoever asks is told that there is no answer. The timeout is for
    joining.
    """
    kind = raw_payload(contract)

    async def act(there: Joined) -> None:
        heard: asyncio.Queue[str] = asyncio.Queue(1000)
        there.node.host(_listener(kind, heard, as_json), partition=partition.encode())
        left = count
        while left != 0 or not count:
            say(await heard.get(), flush=True)
            left -= 1

    join(address, domains, config, timeout, act, is_member=True)


def _listener(kind: type[RawPayload], heard: asyncio.Queue[str], as_json: bool) -> Actor:
    async def take(self: Actor, request: RawPayload, context: Context) -> None:
        message, body = context.message, json_from_body(request.body)
        if not as_json:
            await heard.put(body)
            return
        line = {
            "contract": words_of(message.contract),
            "correlation_id": text_or_hex(message.correlation_id),
            "from": text_or_hex(message.socket_identity),
            "is_question": context.caller is not None,
            "body": json.loads(body),
        }
        await heard.put(json.dumps(line))

    take.__annotations__ = {"request": kind, "context": Context}
    return type("Listener", (Actor,), {"take": handles(take)})()  # type: ignore[no-any-return]
