"""`hopwire members`: whom a node knows, and how they do."""

from __future__ import annotations

import json

from hopwire.cli.network_client import (
    AsJson,
    ConfigFile,
    Domains,
    Joined,
    Seconds,
    Uri,
    all_members,
    all_partners,
    join,
    partner_to_json,
)
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.node.overview import KnownMember
from hopwire.node.status import KnownPartner, Status, StatusWanted
from hopwire.report.words import cut, printable, text_or_hex

__all__ = ["SHOWN_NAME", "called", "member_to_json", "members"]

SHOWN_NAME = 24  # characters of what a node calls itself


def members(
    address: Uri,
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List a node and the nodes that it knows. Each is shown with its address, and when it was last heard.

    `routes` are those that a node announced, `waiting` those here who wait until it takes more. This command is a
    member too, and is left out. Of a gateway its partner networks follow: `routes` are contracts that cross from there
    and to there.
    """

    async def act(there: Joined) -> tuple[Status, list[KnownMember], list[KnownPartner]]:
        status = await there.ask_it(StatusWanted(), Status, timeout)
        found = await all_members(there, timeout)
        others = [each for each in found if each.node != there.node.identity]
        return status, others, await all_partners(there, timeout)

    own, others, partners = join(address, domains, config, timeout, act)
    if as_json:
        shown = {"node": text_or_hex(own.node), "name": own.name, "uri": own.uri}
        lists = {"members": list(map(member_to_json, others)), "partners": list(map(partner_to_json, partners))}
        say(json.dumps({**shown, **lists}))
        return
    table = plain_table()
    for title in ("node", "address", "last heard", "routes", "waiting"):
        table.add_column(title, no_wrap=title != "address")
    table.add_row(called(own.node, own.name), own.uri, "answers", str(own.contracts), "")
    for each in others:
        heard = f"{each.silent_seconds:.1f} s ago"
        table.add_row(called(each.node, each.name), each.uri, heard, str(each.routes), str(each.waiting))
    for network in partners:
        counts = network.counts
        heard = f"{counts['peers']} of its gateways met" if counts["peers"] else "no gateway met"
        routes = f"{counts['imports']} in, {counts['exports']} out"
        table.add_row(f"partner {network.name}", network.uri, heard, routes, str(counts["open_questions"]))
    screen().print(table)


def called(node: bytes, name: str) -> str:
    """Give a node as people know it: its identity, and what it calls itself."""
    return f"{text_or_hex(node)} ({cut(printable(name), SHOWN_NAME)})" if name else text_or_hex(node)


def member_to_json(member: KnownMember) -> dict[str, object]:
    """Give a member as JSON."""
    return {**member._asdict(), "node": text_or_hex(member.node), "silent_seconds": round(member.silent_seconds, 3)}
