"""`hopwire members`: whom a node knows, and how they do."""

from __future__ import annotations

import json

from hopwire.cli.network_client import AsJson, ConfigFile, Domains, Joined, Seconds, Uri, all_members, join
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.node.overview import KnownMember
from hopwire.node.status import Status, StatusWanted
from hopwire.report.words import text_or_hex

__all__ = ["member_to_json", "members"]


def members(
    address: Uri,
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the node at an address and the nodes that it knows: where they are, and when they were last heard.

    `routes` are those that a node announced, `waiting` those here who wait until it takes more. This command is a
    member too, and is left out.
    """

    async def act(there: Joined) -> tuple[Status, list[KnownMember]]:
        status = await there.ask_it(StatusWanted(), Status, timeout)
        found = await all_members(there, timeout)
        return status, [each for each in found if each.node != there.node.identity]

    own, others = join(address, domains, config, timeout, act)
    if as_json:
        shown = {"node": text_or_hex(own.node), "name": own.name, "uri": own.uri}
        say(json.dumps({**shown, "members": [member_to_json(each) for each in others]}))
        return
    table = plain_table()
    for title in ("node", "address", "last heard", "routes", "waiting"):
        table.add_column(title, no_wrap=title != "address")
    name = f" ({own.name})" if own.name else ""
    table.add_row(f"{text_or_hex(own.node)}{name}", own.uri, "answers", str(own.contracts), "")
    for each in others:
        heard = f"{each.silent_seconds:.1f} s ago"
        table.add_row(text_or_hex(each.node), each.uri, heard, str(each.routes), str(each.waiting))
    screen().print(table)


def member_to_json(member: KnownMember) -> dict[str, object]:
    """Give a member as JSON."""
    return {**member._asdict(), "node": text_or_hex(member.node), "silent_seconds": round(member.silent_seconds, 3)}
