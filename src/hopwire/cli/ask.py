"""`hopwire ask`: a question from the shell, and its answer."""

from __future__ import annotations

import json
from time import perf_counter
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
    RawPayload,
    Seconds,
    Uri,
    body_from_json,
    join,
    json_from_body,
    raw_payload,
    within,
)
from hopwire.cli.terminal import say

__all__ = ["ask"]

Reply = Annotated[
    str, typer.Option("--reply", metavar="CONTRACT", help="The contract of the answer.", show_default=False)
]


def ask(
    address: Uri,
    contract: ContractName,
    body: Body,
    reply: Reply,
    partition: Partition = "",
    correlation_id: CorrelationId = "",
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Ask a question, and show the answer as JSON.

    The command joins by the address, and whoever handles the contract answers. It ends with 1 if there is no answer.
    """
    kind, answer_kind, data = raw_payload(contract), raw_payload(reply), body_from_json(body)

    async def act(there: Joined) -> tuple[RawPayload, float]:
        await within(there, kind, partition, timeout)
        began = perf_counter()
        answer = await there.hub.ask(
            kind(data),
            answer_kind,
            timeout=timeout,
            partition=partition.encode(),
            correlation_id=correlation_id.encode(),
        )
        return answer, perf_counter() - began

    answer, seconds = join(address, domains, config, timeout, act)
    shown = json_from_body(answer.body)
    say(
        json.dumps({"reply": reply, "took_ms": round(1000 * seconds, 3), "body": json.loads(shown)})
        if as_json
        else shown
    )
