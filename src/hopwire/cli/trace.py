"""`hopwire trace`: the way that a message would take."""

from __future__ import annotations

import json

from hopwire.cli.members import called
from hopwire.cli.network_client import (
    AsJson,
    ConfigFile,
    ContractName,
    Domains,
    Joined,
    Partition,
    Seconds,
    Uri,
    all_names,
    join,
    raw_payload,
    within,
)
from hopwire.cli.terminal import say
from hopwire.model.names import is_actor, partner_of
from hopwire.node.spawn import Way
from hopwire.report.words import text_or_hex

__all__ = ["trace"]


def trace(
    address: Uri,
    contract: ContractName,
    partition: Partition = "",
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show which way a message would take, and who would get it. Nothing is delivered.

    A way into a partner network ends at the gateway.
    """
    kind = raw_payload(contract)

    async def act(there: Joined) -> tuple[Way, dict[bytes, str]]:
        await within(there, kind, partition, timeout)
        way = await there.hub.trace(kind(b"\x80"), timeout=timeout, partition=partition.encode())
        return way, {} if as_json else {**await all_names(there, timeout), there.node.identity: "this command"}

    way, names = join(address, domains, config, timeout, act)
    passed = [{"uri": uri, "node": text_or_hex(node)} for uri, node in way.passed]
    receivers = [_words(receiver) for receiver in way.receivers]
    if as_json:
        end = {"uri": way.uri, "node": text_or_hex(way.node), "receivers": receivers}
        say(json.dumps({"contract": contract, "passed": passed, "end": end}))
        return
    for number, (uri, node) in enumerate(way.passed):
        say(f"{number}  {called(node, names.get(node, ''))}  {uri}")
    say(f"{len(passed)}  {called(way.node, names.get(way.node, ''))}  {way.uri}  -> {', '.join(receivers) or 'nobody'}")


def _words(receiver: bytes) -> str:
    """Say who would get a message."""
    partner = partner_of(receiver)
    if partner:
        return f"partner network {partner}"
    return f"actor {text_or_hex(receiver[1:])}" if is_actor(receiver) else "a hub"
