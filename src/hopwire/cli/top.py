"""`hopwire top`: a node as it lives: members, health, contracts, rates, queues, credit, dead letters."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from hopwire.cli.members import called, departed_to_json, gone_words, member_to_json
from hopwire.cli.network_client import (
    ConfigFile,
    Domains,
    Joined,
    Seconds,
    Uri,
    all_contracts,
    all_departed,
    all_members,
    all_partners,
    join,
    partner_to_json,
)
from hopwire.cli.terminal import redraw, say, size
from hopwire.model import Contract
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.departures import KnownDeparture
from hopwire.node.overview import KnownContract, KnownMember
from hopwire.node.spawn import words_of
from hopwire.node.status import KnownPartner, Status, StatusWanted
from hopwire.report.words import cut, plural, text_or_hex

__all__ = ["pictures", "top"]

RATES = ("messages_in", "messages_out", "bytes_in", "bytes_out")
MOST_CONTRACTS = 500  # that are asked for each time
MOST_GONE = 5  # that are shown of those who are not there any more
SILENT_SECONDS = 2.0  # after two beats without a word a member is shown as silent
OWN_PREFIX = "hopwire."  # contracts that nodes use among themselves


@dataclass(frozen=True, slots=True)
class Picture:
    """What a node said at one moment."""

    status: Status
    members: list[KnownMember]
    contracts: list[KnownContract]
    partners: list[KnownPartner] = field(default_factory=list)
    gone: list[KnownDeparture] = field(default_factory=list)


def top(
    address: Uri,
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.1, max=3600, help="Between two looks.")
    ] = 1.0,
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each look.")] = False,
) -> None:
    """Show how a node does: rates, queues, members, dead letters. The picture is redrawn in place until Ctrl+C.

    Rates are those between two looks; the first look of `--once` lasts as long as `--every` says.
    """

    async def act(there: Joined) -> None:
        before = await _look(there, timeout)
        while True:
            await asyncio.sleep(every)
            now = await _look(there, timeout)
            if as_json:
                say(json.dumps(_to_json(now, before)), flush=True)
            elif once or not sys.stdout.isatty():
                say("\n".join(_lines(now, before, None, 120)), flush=True)
            else:
                width, height = size()
                redraw([cut(line, width) for line in _lines(now, before, height, width)])
            if once:
                return
            before = now

    join(address, domains, config, timeout, act)


async def pictures(there: Joined, every: float, timeout: float) -> AsyncIterator[dict[str, Any]]:
    """Give what a node says about itself, look after look, as `top --json` has it."""
    before = await _look(there, timeout)
    while True:
        await asyncio.sleep(every)
        now = await _look(there, timeout)
        yield _to_json(now, before)
        before = now


async def _look(there: Joined, timeout: float) -> Picture:
    status = await there.ask_it(StatusWanted(), Status, timeout)
    members = [each for each in await all_members(there, timeout) if each.node != there.node.identity]
    contracts = await all_contracts(there, timeout, MOST_CONTRACTS)
    partners, gone = await all_partners(there, timeout), await all_departed(there, timeout)
    return Picture(status, members, contracts, partners, gone)


def _rates(now: Status, before: Status) -> dict[str, float]:
    seconds = max(1e-9, (now.now_ns - before.now_ns) / NS_PER_SECOND)
    return {name: max(0, now.counts.get(name, 0) - before.counts.get(name, 0)) / seconds for name in RATES}


def _to_json(now: Picture, before: Picture) -> dict[str, Any]:
    status = now.status
    return {
        "node": text_or_hex(status.node),
        "name": status.name,
        "uri": status.uri,
        "rates": {name: round(rate, 3) for name, rate in _rates(status, before.status).items()},
        "counts": status.counts,
        "dead_letters": status.dead_letters,
        "members": [{**member_to_json(each), "is_silent": _is_silent(each)} for each in now.members],
        "contracts": {_words(each): [each.actors_here, each.node_count] for each in now.contracts},
        "partners": [partner_to_json(each) for each in now.partners],
        "gone": [departed_to_json(each, status.now_ns) for each in now.gone],
    }


def _is_silent(member: KnownMember) -> bool:
    return member.silent_seconds > SILENT_SECONDS


def _words(contract: KnownContract) -> str:
    return words_of(Contract(contract.identity, contract.version, contract.partition))


def _lines(now: Picture, before: Picture, height: int | None, width: int) -> list[str]:
    status, counts = now.status, now.status.counts
    rates = _rates(status, before.status)
    name = f" ({status.name})" if status.name else ""
    head = [
        f"{text_or_hex(status.node)}{name}  {status.uri}",
        f"in   {rates['messages_in']:10,.0f} messages/s {rates['bytes_in'] / 1024:10,.1f} KiB/s",
        f"out  {rates['messages_out']:10,.0f} messages/s {rates['bytes_out'] / 1024:10,.1f} KiB/s",
        f"queues  inboxes {counts.get('inbox_messages', 0):,}, outboxes {counts.get('outbox_messages', 0):,}, "
        f"open questions {counts.get('open_promises', 0):,}; actors {counts.get('actors', 0):,}",
        f"dead letters  {_dead(status.dead_letters, before.status.dead_letters)}",
        *map(_partner, now.partners),
        "",
    ]
    members = [
        f"  {'silent' if _is_silent(each) else 'alive':6} {called(each.node, each.name)}  {each.uri}  "
        f"heard {each.silent_seconds:.1f} s ago, {plural(each.routes, 'route')}, "
        f"credit: {each.full_lines} of {each.lines} lines full, {each.waiting} wait"
        for each in now.members
    ]
    gone = [
        f"  {called(each.node, each.name)}  {each.uri}  {gone_words(each, status.now_ns)}"
        for each in now.gone[:MOST_GONE]
    ]
    more = len(now.gone) - len(gone)
    gone = [f"gone  {len(now.gone)}", *gone, *([f"  and {more} more"] if more else [])] if gone else []
    shown = sorted((_words(each), each) for each in now.contracts)
    shown.sort(key=lambda each: each[0].startswith(OWN_PREFIX))
    contracts = [
        f"  {words}  {each.actors_here} here, {plural(each.node_count, 'node')} elsewhere{_origin(each)}"
        for words, each in shown
    ]
    left = None if height is None else max(4, height - len(head) - len(gone) - 4)
    some = _some(members, None if left is None else left // 2)
    rest = None if left is None else left - len(some)
    head += [f"members  {status.members - 1}", *some, *gone, f"contracts  {status.contracts}", *_some(contracts, rest)]
    return head


def _partner(network: KnownPartner) -> str:
    counts = network.counts
    return (
        f"partner {network.name}  {counts['peers']} gateways met, {counts['imports']} contracts in and "
        f"{counts['exports']} out, asked {counts['asked']:,}, taken {counts['taken']:,}, "
        f"open {counts['open_questions']:,}, refused routes {counts['refused_routes']:,}"
    )


def _origin(contract: KnownContract) -> str:
    return f", imported from {', '.join(contract.partners)}" if contract.partners else ""


def _dead(now: Mapping[str, int], before: Mapping[str, int]) -> str:
    words = [f"{reason} {count:,} (+{count - before.get(reason, 0):,})" for reason, count in now.items()]
    return ", ".join(words) or "none"


def _some(lines: Iterable[str], most: int | None) -> list[str]:
    every = list(lines)
    if most is None or len(every) <= most:
        return every
    return [*every[: most - 1], f"  and {len(every) - most + 1} more"] if most > 0 else []
