"""What the page asks of a snapshot, as SQL: each function is one question, and gives plain rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hopwire.model.names import KINO_PREFIX, OWN_PREFIX
from hopwire.web.flow_search import ORDERS, FlowSearch
from hopwire.web.lake_views import LakeViews
from hopwire.web.time_chart import Bucket, bucket_width

__all__ = [
    "PAGE_ROWS",
    "flow_and_hops",
    "flow_ids",
    "flow_page",
    "flow_table",
    "flow_totals",
    "flows_over_time",
    "has_flow",
    "links_of",
    "node_names",
    "raw_times",
    "sighting",
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
    # first the ids, from few columns; then the rows of the page
    ids = (
        f"select flow_id from gold.flows where {where} order by {ORDERS[wanted.order]} limit {PAGE_ROWS} offset {begin}"
    )
    return views.rows(
        f"select {LISTED} from gold.flows where flow_id in ({ids}) order by {ORDERS[wanted.order]}",
        given,
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


def flows_over_time(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]) -> tuple[list[Bucket], int]:
    """Give how many flows began when and what became of them, and the length of each stretch of time."""
    where, given = wanted.where(names)
    ends = views.row(
        f"select min(started_at_ns) as first, max(started_at_ns) as last from gold.flows where {where}",
        given,
    )
    if ends["first"] is None:
        return [], 1
    width = bucket_width(ends["first"], ends["last"])
    rows = views.rows(
        f"select started_at_ns // {width} * {width} as at_ns, outcome, count(*) as flows,"
        f" approx_quantile(duration_us, 0.95)::bigint as p95 from gold.flows where {where}"
        " group by grouping sets ((1, 2), (1)) order by 1",
        given,
    )
    buckets: dict[int, tuple[dict[str, int], int | None]] = {}
    for row in rows:
        counts, slow = buckets.get(row["at_ns"], ({}, None))
        if row["outcome"] is None:
            slow = row["p95"]
        else:
            counts[row["outcome"]] = row["flows"]
        buckets[row["at_ns"]] = counts, slow
    return [Bucket(at, *found) for at, found in buckets.items()], width


def flow_and_hops(
    views: LakeViews, flow_id: bytes
) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Give a flow, its hops in the order of its steps, and its requests; without the flow, nothing."""
    flow = views.row("select * from gold.flows where flow_id = ?", [flow_id])
    if not flow:
        return {}, [], []
    hops = views.rows(f"select * from silver.hops where flow_id = ? order by {BY_TIME}", [flow_id])
    requests = views.rows("select * from gold.requests where flow_id = ? order by asked_at_ns", [flow_id])
    return flow, hops, requests


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
