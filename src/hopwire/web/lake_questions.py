"""What the page asks of a snapshot, as SQL: each function is one question, and gives plain rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import Any

import pyarrow as pa

from hopwire.model.names import KINO_PREFIX, OWN_PREFIX
from hopwire.report.flow_tree import is_bad_step
from hopwire.web.flow_search import ORDERS, FlowSearch
from hopwire.web.lake_views import LakeViews
from hopwire.web.time_chart import Bucket, bucket_width

__all__ = [
    "PAGE_ROWS",
    "flow_called",
    "flow_ids",
    "flow_page",
    "flow_table",
    "flow_totals",
    "flows_over_time",
    "has_flow",
    "hops_of",
    "links_of",
    "node_names",
    "raw_times",
    "requests_of",
    "sighting",
    "steps_called",
]

PAGE_ROWS = 50
MAX_TABLE_ROWS = 10_000_000
# the order of the steps of a flow, as `silver/hops.py: by_time` has it
SERVICE = (OWN_PREFIX.decode(), KINO_PREFIX.decode())  # contracts that nodes use among themselves
BY_TIME = ", ".join(
    f"{name} nulls first"
    for name in (
        "coalesce(left_at_ns, arrived_at_ns)",
        "from_node",
        "to_node",
        "left_incarnation",
        "left_sequence",
        "arrived_incarnation",
        "arrived_sequence",
        "message_key",
    )
)
BARS_PER_E = 20  # bars of a histogram of durations, for each factor of e: each is 5 % wide
FLOW = (
    "flow_id, correlation_id, identity, outcome, started_at_ns, duration_us, depth, hop_count, message_count, "
    "size_bytes, lost_count, dead_count, request_count, answered_count, nodes, critical_path_us, findings, is_oversized"
)
HOP = "message_key, from_node, to_node, verdict, left_incarnation, left_sequence, arrived_incarnation, arrived_sequence"
LISTED = (
    "flow_id, identity, outcome, started_at_ns, duration_us, hop_count, message_count, lost_count, dead_count, nodes, "
    "list_distinct([each.kind for each in findings]) as findings, is_oversized"
)


def node_names(views: LakeViews) -> dict[bytes, str]:
    """Give the nodes that captured, and their names."""
    return {row["node"]: row["node_name"] for row in views.rows("select node, node_name from silver.clocks")}


def flow_totals(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]) -> dict[str, int]:
    """Count the flows by outcome, exactly."""
    where, given = wanted.where(names)
    rows = views.rows(f"select outcome, count(*) as flows from gold.flows where {where} group by 1", given)
    return {row["outcome"]: row["flows"] for row in rows}


def flow_page(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]) -> list[dict[str, Any]]:
    """Give the flows of one page of the list."""
    where, given = wanted.where(names)
    begin = (wanted.page - 1) * PAGE_ROWS
    # first the ids, from few columns; then the rows of the page, within the range of their times and ids
    ids = views.rows(
        f"select flow_id, started_at_ns from gold.flows where {where}"
        f" order by {ORDERS[wanted.order]} limit {PAGE_ROWS} offset {begin}",
        given,
    )
    if not ids:
        return []
    times, known = [row["started_at_ns"] for row in ids], [row["flow_id"] for row in ids]
    marks = ", ".join("?" for _ in ids)
    return views.rows(
        f"select {LISTED} from gold.flows where started_at_ns between ? and ? and flow_id between ? and ?"
        f" and flow_id in ({marks})"
        f" order by {ORDERS[wanted.order]}",
        [min(times), max(times), min(known), max(known), *known],
    )


def flow_ids(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str], limit: int) -> list[bytes]:
    """Give the ids of all flows that fit, in the order of the list, whatever page is shown."""
    where, given = wanted.where(names)
    rows = views.rows(
        f"select flow_id from gold.flows where {where} order by {ORDERS[wanted.order]} limit {limit}", given
    )
    return [row["flow_id"] for row in rows]


def has_flow(views: LakeViews, flow_id: bytes) -> bool:
    """Tell whether the lake has a flow."""
    return bool(views.row("select 1 as found from gold.flows where flow_id = ?", [flow_id]))


def flow_table(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]) -> pa.Table:
    """Give the rows of gold.flows that fit, without their steps."""
    where, given = wanted.where(names)
    sql = f"select * exclude (steps) from gold.flows where {where} order by {ORDERS[wanted.order]}"
    return views.table(sql, MAX_TABLE_ROWS, given)


def flows_over_time(
    views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]
) -> tuple[dict[str, int], list[Bucket], int]:
    """Count the flows by outcome, in all and over time, exactly; give the length of each stretch of time too.

    The 95th percentile comes from a histogram whose bars are 5 % wide: the flows are read once, and not sorted.
    """
    where, given = wanted.where(names)
    return views.remembered(("over time", where, *given), lambda: _over_time(views, wanted, where, given))


def _over_time(
    views: LakeViews, wanted: FlowSearch, where: str, given: Sequence[Any]
) -> tuple[dict[str, int], list[Bucket], int]:
    ends = views.remembered(
        ("ends",),
        lambda: views.row("select min(started_at_ns) as first, max(started_at_ns) as last from gold.flows"),
    )
    if ends["first"] is None:
        return {}, [], 1
    since, until = wanted.between_ns
    first, last = max(ends["first"], since), min(ends["last"], until)
    width = bucket_width(first, max(first, last))
    rows = views.rows(
        f"select started_at_ns // {width} * {width} as at_ns, outcome, count(*) as flows,"
        f" (ln(greatest(duration_us, 1)) * {BARS_PER_E})::integer as bar from gold.flows where {where}"
        " group by at_ns, outcome, bar order by at_ns",
        given,
    )
    totals: dict[str, int] = {}
    counts: dict[int, dict[str, int]] = {}
    bars: dict[int, dict[int, int]] = {}
    for row in rows:
        at, outcome, flows = row["at_ns"], row["outcome"], row["flows"]
        totals[outcome] = totals.get(outcome, 0) + flows
        here = counts.setdefault(at, {})
        here[outcome] = here.get(outcome, 0) + flows
        if row["bar"] is not None:
            heights = bars.setdefault(at, {})
            heights[row["bar"]] = heights.get(row["bar"], 0) + flows
    return totals, [Bucket(at, found, _p95(bars.get(at, {}))) for at, found in counts.items()], width


def _p95(heights: Mapping[int, int]) -> int | None:
    """The duration below which 95 of 100 flows are, by the middle of the bar that they end in."""
    rest = 0.95 * sum(heights.values())
    for bar, count in sorted(heights.items()):
        rest -= count
        if rest <= 0:
            return round(exp(bar / BARS_PER_E))
    return None


def flow_called(views: LakeViews, flow_id: bytes, first: int, count: int) -> dict[str, Any]:
    """Give a flow with some of its steps, and of all steps when they began and which went wrong; or nothing."""
    flow = views.row(
        f"select {FLOW}, len(steps) as step_count, steps[{first + 1}:{first + count}] as steps,"
        " [coalesce(step.left_at_ns, step.arrived_at_ns, 0) for step in steps] as begins_ns,"
        " [step.fate for step in steps] as fates, [step.repeat for step in steps] as repeats,"
        " [step.outcome_kind for step in steps] as kinds from gold.flows where flow_id = ?",
        [flow_id],
    )
    if flow:
        ends = zip(flow.pop("fates"), flow.pop("repeats"), flow.pop("kinds"), strict=True)
        flow["bad"] = [number for number, end in enumerate(ends) if is_bad_step(*end)]
    return flow


def steps_called(views: LakeViews, flow_id: bytes, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Give some steps of a flow by their numbers."""
    places = ", ".join(str(number + 1) for number in numbers)
    row = views.row(f"select list_select(steps, [{places}]) as steps from gold.flows where flow_id = ?", [flow_id])
    return list(row["steps"])


def hops_of(views: LakeViews, flow_id: bytes, first: int, count: int) -> list[dict[str, Any]]:
    """Give hops of a flow, in the order of its steps."""
    return views.rows(
        f"select {HOP} from silver.hops where flow_id = ? order by {BY_TIME} limit {count} offset {first}", [flow_id]
    )


def requests_of(views: LakeViews, flow_id: bytes, count: int) -> list[dict[str, Any]]:
    """Give the first requests of a flow."""
    return views.rows(f"select * from gold.requests where flow_id = ? order by asked_at_ns limit {count}", [flow_id])


def raw_times(views: LakeViews, correlation_id: bytes) -> dict[tuple[bytes, int, int], int]:
    """Give the time of each sighting of a flow by the clock of its node."""
    rows = views.rows(
        "select node, incarnation, sequence, seen_at_ns from silver.messages where correlation_id = ?", [correlation_id]
    )
    return {(row["node"], row["incarnation"], row["sequence"]): row["seen_at_ns"] for row in rows}


def sighting(views: LakeViews, node: bytes, incarnation: int, sequence: int) -> dict[str, Any]:
    """Give one sighting with its frames."""
    return views.row(
        "select * from bronze.sightings where node = ? and incarnation = ? and sequence = ?",
        [node, incarnation, sequence],
    )


def links_of(views: LakeViews, contract: bytes | None, with_service: bool) -> list[dict[str, Any]]:
    """Give what went from node to node over all times, the largest first; without service, no words of nodes alone."""
    where: str
    given: list[Any]
    where, given = ("identity = ?", [contract]) if contract is not None else ("true", [])
    if contract is None and not with_service:
        where, given = "not starts_with(contract, ?) and not starts_with(contract, ?)", [*SERVICE]
    return views.rows(
        "select from_node, to_node, sum(hop_count)::bigint as hop_count, sum(lost_count)::bigint as lost_count,"
        " sum(duplicate_count)::bigint as duplicate_count, sum(size_bytes)::bigint as size_bytes,"
        " max(p95_us) as p95_us, count(distinct minute) as minutes,"
        f" count(distinct identity) as contracts from gold.links where {where}"
        " group by from_node, to_node order by hop_count desc, from_node, to_node",
        given,
    )
