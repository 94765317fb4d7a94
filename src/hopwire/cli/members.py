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
    all_departed,
    all_members,
    all_partners,
    join,
    partner_to_json,
)
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.departures import KnownDeparture
from hopwire.node.overview import KnownMember
from hopwire.node.status import KnownPartner, Status, StatusWanted
from hopwire.report.words import cut, moment, plural, printable, rough_duration, text_or_hex, time_of_day

__all__ = ["SHOWN_NAME", "called", "departed_to_json", "gone_words", "member_to_json", "members"]

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
    and to there. Below are nodes that are gone, and why: of a day those that were lost, 200 at most, and of an hour
    those that said goodbye, until they are back.
    """

    async def act(
        there: Joined,
    ) -> tuple[Status, list[KnownMember], list[KnownPartner], list[KnownDeparture]]:
        status = await there.ask_it(StatusWanted(), Status, timeout)
        found = await all_members(there, timeout)
        others = [each for each in found if each.node != there.node.identity]
        return status, others, await all_partners(there, timeout), await all_departed(there, timeout)

    own, others, partners, gone = join(address, domains, config, timeout, act)
    if as_json:
        shown = {"node": text_or_hex(own.node), "name": own.name, "uri": own.uri}
        lists = {"members": list(map(member_to_json, others)), "partners": list(map(partner_to_json, partners))}
        say(json.dumps({**shown, **lists, "gone": [departed_to_json(each, own.now_ns) for each in gone]}))
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
    for lost in gone:
        say(f"{called(lost.node, lost.name)}  {printable(lost.uri)}  {gone_words(lost, own.now_ns)}")


def called(node: bytes, name: str) -> str:
    """Give a node as people know it: its identity, and what it calls itself."""
    return f"{text_or_hex(node)} ({cut(printable(name), SHOWN_NAME)})" if name else text_or_hex(node)


def member_to_json(member: KnownMember) -> dict[str, object]:
    """Give a member as JSON."""
    return {**member._asdict(), "node": text_or_hex(member.node), "silent_seconds": round(member.silent_seconds, 3)}


def departed_to_json(gone: KnownDeparture, now_ns: int) -> dict[str, object]:
    """Give a node that is gone as JSON; `at` is by the clock of the node that says so."""
    return {
        "node": text_or_hex(gone.node),
        "name": gone.name,
        "uri": gone.uri,
        "at": moment(_gone_at_ns(gone, now_ns)),
        "gone_seconds": round(gone.gone_seconds, 3),
        "reason": gone.reason,
        "why": gone.why,
        "witnesses": list(map(text_or_hex, gone.witnesses)),
    }


def gone_words(gone: KnownDeparture, now_ns: int) -> str:
    """Say since when a node is gone, and why; the time is by the clock of the node that says so."""
    verb, at = "left" if gone.reason == "left" else "lost", time_of_day(_gone_at_ns(gone, now_ns))[:8]
    said = f", say {plural(len(gone.witnesses), 'member')}" if gone.witnesses else ""
    return f"{verb} {rough_duration(gone.gone_seconds)} ago ({at} UTC): {printable(gone.why)}{said}"


def _gone_at_ns(gone: KnownDeparture, now_ns: int) -> int:
    return now_ns - round(gone.gone_seconds * NS_PER_SECOND)
