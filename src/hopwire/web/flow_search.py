"""What a list of flows shows, as the address of the page has it. The address holds the whole state of a page.

    /flows?outcome=lost&contract=shop.order&since=2026-01-31T12:00&page=2

A value that makes no sense is a `SettingsError`: the page says so, and shows nothing that the reader did not ask for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from hopwire.capture.times import ns_from_text
from hopwire.errors import SettingsError
from hopwire.flows.findings import KINDS
from hopwire.flows.schemas import FLOW_OUTCOMES
from hopwire.report.words import nodes_called, spellings

__all__ = ["MAX_LENGTH", "ORDERS", "SEARCH_NAMES", "FlowSearch", "number_from", "search_from_query", "sql_of"]

ORDERS = {
    # order     how the list is sorted
    "latest":   "started_at_ns desc, flow_id",
    "oldest":   "started_at_ns, flow_id",
    "longest":  "duration_us desc, started_at_ns desc, flow_id",
    "largest":  "hop_count desc, started_at_ns desc, flow_id",
}  # fmt: skip
MARK = re.compile(r"\?")  # where a value stands in a condition
MAX_LENGTH = 200  # of a value in an address
MAX_DIGITS = 10  # of a number in an address


@dataclass(frozen=True, slots=True)
class FlowSearch:
    """Which flows, in which order, and which page of them; the names are those in the address."""

    outcome: str = ""
    contract: str = ""
    node: str = ""
    finding: str = ""
    q: str = ""  # the beginning of an id
    min_ms: str = ""
    since: str = ""
    until: str = ""
    all: str = ""  # `1`: also flows in which nodes alone speak
    order: str = "latest"
    page: int = 1

    def address(self, path: str = "/flows", **changes: Any) -> str:
        """Give the address of this filter with some values changed; a change of what is shown begins at page 1."""
        if changes and "page" not in changes:
            changes["page"] = 1
        changed = replace(self, **changes)
        given = {
            each.name: getattr(changed, each.name)
            for each in fields(changed)
            if getattr(changed, each.name) != each.default
        }
        return f"{path}?{urlencode(given)}" if given else path

    @property
    def is_narrow(self) -> bool:
        """Tell whether anything is left out beside what nodes say among themselves."""
        return bool(
            self.outcome
            or self.contract
            or self.node
            or self.finding
            or self.q
            or self.min_ms
            or self.since
            or self.until
        )

    @property
    def between_ns(self) -> tuple[int, int]:
        """The times between which flows are wanted."""
        since = ns_from_text(self.since, "since") if self.since else 0
        return since, ns_from_text(self.until, "until") if self.until else 2**63 - 1

    def where(self, names: Mapping[bytes, str]) -> tuple[str, list[Any]]:
        """Give the condition on gold.flows, and its values."""
        conditions: list[tuple[str, list[Any]]] = []
        if self.outcome:
            wanted = self.outcome.split(",")
            conditions.append((f"outcome in ({_marks(wanted)})", list(wanted)))
        if self.contract:
            conditions.append(("list_contains(contract_names, ?)", [self.contract]))
        if self.node:
            nodes = nodes_called(self.node, names) or spellings(self.node)
            conditions.append((f"list_has_any(nodes, [{_marks(nodes)}])", list(nodes)))
        if self.finding:
            conditions.append(("list_contains([each.kind for each in findings], ?)", [self.finding]))
        if self.q:
            conditions.append(_begins(self.q))
        if self.min_ms:
            conditions.append(("duration_us >= ?", [round(float(self.min_ms) * 1_000)]))
        if self.since:
            conditions.append(("started_at_ns >= ?", [ns_from_text(self.since, "since")]))
        if self.until:
            conditions.append(("started_at_ns < ?", [ns_from_text(self.until, "until")]))
        if not self.all and not self.contract:
            conditions.append(("not is_control", []))
        text = " and ".join(f"({condition})" for condition, _ in conditions) or "true"
        return text, [value for _, values in conditions for value in values]


SEARCH_NAMES = tuple(each.name for each in fields(FlowSearch))  # in the address of a list


def sql_of(wanted: FlowSearch, names: Mapping[bytes, str]) -> str:
    """Give SQL that a reader can copy: all flows that fit, without the steps."""
    where, values = wanted.where(names)
    given = iter(values)
    text = MARK.sub(lambda _: _literal(next(given)), where)
    return f"select * exclude (steps)\nfrom gold.flows\nwhere {text}\norder by {ORDERS[wanted.order]}"


def _literal(value: str | bytes | int) -> str:
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::blob"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def _marks(values: list[Any]) -> str:
    return ", ".join("?" for _ in values)


def _begins(text: str) -> tuple[str, list[Any]]:
    """The condition that the id of a flow begins like this: as text, or as hex behind `0x`.

    A range lets the files be skipped that have no such id; half a byte has no range.
    """
    if text.lower().startswith("0x"):
        try:
            first = bytes.fromhex(text[2:])
        except ValueError:
            return "starts_with(lower(hex(flow_id)), ?)", [text[2:].lower()]
    else:
        first = text.encode("utf-8", "surrogateescape")
    behind = first.rstrip(b"\xff")
    if not behind:
        return "flow_id >= ?", [first]
    return "flow_id >= ? and flow_id < ?", [first, behind[:-1] + bytes([behind[-1] + 1])]


def search_from_query(query: Mapping[str, str]) -> FlowSearch:
    """Give the filter that an address names."""
    given: dict[str, Any] = {}
    for name in SEARCH_NAMES:
        if not (value := query.get(name, "")):
            continue
        if len(value) > MAX_LENGTH:
            raise SettingsError(f"{name}: is longer than {MAX_LENGTH} characters")
        given[name] = value
    found = FlowSearch(**{**given, "page": number_from(given.get("page", "1"), "page", 1)})
    for name, value, choices in (
        *(("outcome", each, FLOW_OUTCOMES) for each in found.outcome.split(",") if each),
        *(("finding", each, KINDS) for each in (found.finding,) if each),
        ("order", found.order, ORDERS),
    ):
        if value not in choices:
            raise SettingsError(f"{name}: found {value!r:.40}, expected one of {', '.join(choices)}")
    for name in ("since", "until"):
        if value := getattr(found, name):
            ns_from_text(value, name)
    if found.min_ms and not _is_number(found.min_ms):
        raise SettingsError(f"min_ms: found {found.min_ms!r:.40}, expected a number of milliseconds")
    return found


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) < 1e15
    except ValueError:
        return False


def number_from(text: str, what: str, least: int = 0) -> int:
    """Read a whole number of an address."""
    if not (text.isascii() and text.isdigit() and len(text) < MAX_DIGITS and int(text) >= least):
        raise SettingsError(f"{what}: found {text!r:.40}, expected a number from {least} on")
    return int(text)
