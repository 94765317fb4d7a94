"""`hopwire routes`: which contracts a node can route, and to whom."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hopwire.cli.members import SHOWN_NAME, called
from hopwire.cli.network_client import ConfigFile, Domains, Joined, Seconds, Uri, all_contracts, all_names, join
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.model import Contract
from hopwire.node.overview import KnownContract
from hopwire.node.spawn import words_of
from hopwire.report.words import cut, printable, text_or_hex

__all__ = ["routes"]

SHOWN_NODES = 3


def routes(
    address: Uri,
    contract: Annotated[str, typer.Option("--contract", metavar="TEXT", help="Only contracts with this in it.")] = "",
    timeout: Seconds = 10.0,
    domains: Domains = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each contract.")] = False,
) -> None:
    """List the contracts that a node can route, and their handlers. Its own actors are counted, other nodes are named.

    A contract that is imported from a partner network names the partner. On a gateway the actor that stands in for it
    counts as an actor here.
    """

    async def act(there: Joined) -> tuple[list[KnownContract], dict[bytes, str]]:
        names = {} if as_json else {**await all_names(there, timeout), there.node.identity: "this command"}
        return await all_contracts(there, timeout), names

    found, names = join(address, domains, config, timeout, act)
    table = plain_table()
    for title in ("contract", "actors here", "nodes elsewhere", "imported from"):
        table.add_column(title, no_wrap=title == "contract", style="cyan" if title == "contract" else "")
    for each in sorted(found):
        words = words_of(Contract(each.identity, each.version, each.partition))
        if contract not in words:
            continue
        if as_json:
            nodes = [text_or_hex(node) for node in each.nodes]
            line = {"contract": words, "actors_here": each.actors_here, "nodes": nodes, "node_count": each.node_count}
            say(json.dumps({**line, "partners": each.partners}))
            continue
        more = f" and {each.node_count - SHOWN_NODES} more" if each.node_count > SHOWN_NODES else ""
        shown = [_shown(node, names) for node in each.nodes[:SHOWN_NODES]]
        elsewhere, imported = ", ".join(shown) + more, ", ".join(each.partners)
        table.add_row(words, str(each.actors_here or ""), elsewhere, imported)
    if not as_json:
        screen().print(table)


def _shown(node: bytes, names: dict[bytes, str]) -> str:
    """Give a node by its name, and with its identity if it has no name, or one that others have too."""
    name = names.get(node, "")
    is_unique = name and list(names.values()).count(name) == 1
    return cut(printable(name), SHOWN_NAME) if is_unique else called(node, name)
