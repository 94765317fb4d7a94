"""What the page asks of a snapshot, as SQL: each function is one question, and gives plain rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, exp, floor
from typing import Any, NamedTuple

import pyarrow as pa

from hopwire.flows.coverage import coverage_from_rows
from hopwire.flows.schemas import CLOCK_SCHEMA
from hopwire.model.names import KINO_PREFIX, OWN_PREFIX
from hopwire.model.units import NS_PER_SECOND
from hopwire.report.flow_tree import is_bad_step
from hopwire.web.flow_search import ORDERS, FlowSearch
from hopwire.web.lake_views import LakeViews
from hopwire.web.list_places import HeadRow, place_in_head, place_of
from hopwire.web.time_chart import Bucket, bucket_width

__all__ = [
    "PAGE_ROWS",
    "SERVICE",
    "FlowCounts",
    "capture_ends",
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
    "quarantine_counts",
    "quarantine_page",
    "raw_times",
    "requests_of",
    "sighting",
    "steps_called",
]

PAGE_ROWS = 50
HEAD_ROWS = 1_000  # of a list that is narrowed: its first 20 pages
AROUND_NS = 3_600 * NS_PER_SECOND  # around the steps of a flow: its requests were asked within
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
BAR = f"(ln(greatest(duration_us, 1)) * {BARS_PER_E})::integer"
FLOW = (
    "flow_id, correlation_id, identity, outcome, started_at_ns, duration_us, depth, hop_count, message_count, "
    "size_bytes, lost_count, dead_count, request_count, answered_count, nodes, critical_path_us, findings, is_oversized"
)
HOP = "message_key, from_node, to_node, verdict, left_incarnation, left_sequence, arrived_incarnation, arrived_sequence"
LISTED = (
    "flow_id, identity, outcome, started_at_ns, duration_us, hop_count, message_count, lost_count, dead_count, nodes, "
    "list_distinct([each.kind for each in findings]) as findings, is_oversized"
)


class FlowCounts(NamedTuple):
    """How many flows a filter has: by outcome, over time, and by duration."""

    totals: Mapping[str, int]
    buckets: Sequence[Bucket]
    width_ns: int  # of a stretch of time
    bars: Mapping[int | None, int]  # None: flows that have no duration
    head: Sequence[HeadRow] = ()  # of a list that is narrowed


def node_names(views: LakeViews) -> dict[bytes, str]:
    """Give the nodes that captured, and their names."""
    return {row["node"]: row["node_name"] for row in views.rows("select node, node_name from silver.clocks")}


def capture_ends(views: LakeViews) -> dict[bytes, int]:
    """Give when the capture of each node ends, corrected."""

    def ends() -> dict[bytes, int]:
        rows = views.rows("select * from silver.clocks")
        return coverage_from_rows(pa.Table.from_pylist(rows, CLOCK_SCHEMA)).ends_ns

    return views.remembered(("capture_ends",), ends)


def flow_totals(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]) -> dict[str, int]:
    """Count the flows by outcome, exactly."""
    where, given = wanted.where(names)
    rows = views.rows(f"select outcome, count(*) as flows from gold.flows where {where} group by 1", given)
    return {row["outcome"]: row["flows"] for row in rows}


def flow_page(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]) -> list[dict[str, Any]]:
    """Give the flows of one page of the list."""
    where, given = wanted.where(names)
    begin = (wanted.page - 1) * PAGE_ROWS
    counts = flows_over_time(views, wanted, names)
    place = place_in_head(counts.head, len(counts.head) == sum(counts.totals.values()), begin, PAGE_ROWS)
    if place is not None:  # all flows of the place are in the head, so they are few
        rows = views.rows(
            f"select {LISTED} from {views.of_files('gold.flows', place.files)} where {where}"
            f" and {_sorted_by(wanted.order)} between {place.low} and {place.high} order by {ORDERS[wanted.order]}",
            given,
        )
        return rows[place.before : place.before + PAGE_ROWS]
    within, before = _within(wanted.order, counts, begin)
    # first the ids, from few columns; then the rows of the page, from the files that have them
    flows, file = _with_files(views)
    ids = views.rows(
        f"select flow_id, started_at_ns, duration_us, {file} as file from {flows} where {where} and {within}"
        f" order by {ORDERS[wanted.order]} limit {PAGE_ROWS} offset {begin - before}",
        given,
    )
    if not ids:
        return []
    times, known = [row["started_at_ns"] for row in ids], [row["flow_id"] for row in ids]
    lengths = [row["duration_us"] for row in ids]
    if None not in lengths:
        within = f"duration_us between {min(lengths)} and {max(lengths)}"
    marks = ", ".join("?" for _ in ids)
    return views.rows(
        f"select {LISTED} from {views.of_files('gold.flows', [row['file'] for row in ids])} where {within}"
        " and started_at_ns between ? and ?"
        f" and flow_id between ? and ? and flow_id in ({marks})"
        f" order by {ORDERS[wanted.order]}",
        [min(times), max(times), min(known), max(known), *known],
    )


def _within(order: str, counts: FlowCounts, begin: int) -> tuple[str, int]:
    """The condition on the flows among which a page lies, and how many flows of the list stand before these.

    A range of a column lets files and pages be skipped; what is counted decides which flows are in it, to the last one.
    """
    if order in ("latest", "oldest"):
        width = counts.width_ns
        stretches = [(bucket.at_ns, sum(bucket.counts.values())) for bucket in counts.buckets]
        place = place_of(stretches if order == "oldest" else reversed(stretches), begin, PAGE_ROWS)
        if place is not None:
            low, high = sorted(place[:2])
            near = f"started_at_ns between {low - width} and {high + 2 * width}"
            return f"({near} and {_stretch(width)} between {low} and {high})", place.before
    if order == "longest":
        bars = sorted(((bar, count) for bar, count in counts.bars.items() if bar is not None), reverse=True)
        place = place_of(bars, begin, PAGE_ROWS)
        if place is not None and (begin + PAGE_ROWS <= sum(count for _, count in bars) or None not in counts.bars):
            low, high = sorted(place[:2])
            least = floor(exp((low - 1) / BARS_PER_E)) if low > 0 else -(2**62)
            most = ceil(exp((high + 1) / BARS_PER_E))
            return f"(duration_us between {least} and {most} and {BAR} between {low} and {high})", place.before
    return "true", 0


def _with_files(views: LakeViews) -> tuple[str, str]:
    """What to select flows from, and what tells the file of each: files of a store are not told apart."""
    flows = views.whole("gold.flows")
    return flows, "''" if flows == "gold.flows" else "filename"


def _sorted_by(order: str) -> str:
    """The column that a list is sorted by first."""
    return ORDERS[order].replace(",", " ").split()[0]


def _stretch(width_ns: int) -> str:
    return f"started_at_ns // {width_ns} * {width_ns}"


def flow_ids(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str], limit: int) -> list[bytes]:
    """Give the ids of all flows that fit, in the order of the list, whatever page is shown."""
    where, given = wanted.where(names)
    rows = views.rows(
        f"select flow_id from gold.flows where {where} order by {ORDERS[wanted.order]} limit {limit}", given
    )
    return [row["flow_id"] for row in rows]


def has_flow(views: LakeViews, flow_id: bytes) -> bool:
    """Tell whether the lake has a flow."""
    flows = views.holding("gold.flows", "flow_id", flow_id)
    return bool(views.row(f"select 1 as found from {flows} where flow_id = ?", [flow_id]))


def flow_table(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]) -> pa.Table:
    """Give the rows of gold.flows that fit, without their steps."""
    where, given = wanted.where(names)
    sql = f"select * exclude (steps) from gold.flows where {where} order by {ORDERS[wanted.order]}"
    return views.table(sql, MAX_TABLE_ROWS, given)


def flows_over_time(views: LakeViews, wanted: FlowSearch, names: Mapping[bytes, str]) -> FlowCounts:
    """Count the flows by outcome, in all and over time, exactly.

    The 95th percentile comes from a histogram whose bars are 5 % wide: the flows are read once, and not sorted. A list
    that is narrowed also has its head, since the flows that fit are few, and to look for them again costs as much.
    """
    where, given = wanted.where(names)
    order = wanted.order if wanted.is_narrow else ""
    return views.remembered(("over time", order, where, *given), lambda: _over_time(views, wanted, where, given, order))


def _over_time(views: LakeViews, wanted: FlowSearch, where: str, given: Sequence[Any], order: str) -> FlowCounts:
    ends = views.remembered(
        ("ends",),
        lambda: views.row("select min(started_at_ns) as first, max(started_at_ns) as last from gold.flows"),
    )
    if ends["first"] is None:
        return FlowCounts({}, [], 1, {})
    since, until = wanted.between_ns
    first, last = max(ends["first"], since), min(ends["last"], until)
    width = bucket_width(first, max(first, last))
    rows = views.rows(_counting(views, where, width, order), given)
    totals: dict[str, int] = {}
    counts: dict[int, dict[str, int]] = {}
    bars: dict[int, dict[int, int]] = {}
    all_bars: dict[int | None, int] = {}
    head: list[HeadRow] = []
    for row in rows:
        at, bar, flows = row["at_ns"], row["bar"], row["flows"]
        if row["file"] is not None:
            head.append(HeadRow(at, row["file"]))
            continue
        if not row["is_bar"]:
            totals[row["outcome"]] = totals.get(row["outcome"], 0) + flows
            counts.setdefault(at, {})[row["outcome"]] = flows
            continue
        all_bars[bar] = all_bars.get(bar, 0) + flows
        if bar is not None:
            bars.setdefault(at, {})[bar] = flows
    buckets = [Bucket(at, found, _p95(bars.get(at, {}))) for at, found in sorted(counts.items())]
    return FlowCounts(totals, buckets, width, all_bars, head)


def _counting(views: LakeViews, where: str, width_ns: int, order: str) -> str:
    """The question that counts flows by time, outcome and duration; if there is an order, behind it the head."""
    flows, file = _with_files(views)
    value = _sorted_by(order) if order else "null"
    counts = (
        f" counted as (select {_stretch(width_ns)} as at_ns, outcome, {BAR} as bar, count(*) as flows"
        " from fitting group by all), found as (select at_ns, outcome, bar, sum(flows)::bigint as flows,"
        " grouping(outcome) as is_bar, null::varchar as file from counted"
        " group by grouping sets ((at_ns, outcome), (at_ns, bar)))"
    )
    fitting = f"select started_at_ns, outcome, duration_us, {value} as value, {file} as file from {flows} where {where}"
    if not order:
        return f"with fitting as ({fitting}),{counts} from found"
    first = ORDERS[order].partition(",")[0].replace(_sorted_by(order), "value")
    return (
        f"with fitting as materialized ({fitting}),{counts}, head as (select value as at_ns, null as outcome,"
        f" null as bar, null as flows, null as is_bar, file from fitting order by {first} limit {HEAD_ROWS})"
        f" from (from found union all from head) order by file is not null, {first.replace('value', 'at_ns')}"
    )


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
        " [step.outcome_kind for step in steps] as kinds"
        f" from {views.holding('gold.flows', 'flow_id', flow_id)} where flow_id = ?",
        [flow_id],
    )
    if flow:
        ends = zip(flow.pop("fates"), flow.pop("repeats"), flow.pop("kinds"), strict=True)
        flow["bad"] = [number for number, end in enumerate(ends) if is_bad_step(*end)]
    return flow


def steps_called(views: LakeViews, flow_id: bytes, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Give some steps of a flow by their numbers."""
    places = ", ".join(str(number + 1) for number in numbers)
    flows = views.holding("gold.flows", "flow_id", flow_id)
    row = views.row(f"select list_select(steps, [{places}]) as steps from {flows} where flow_id = ?", [flow_id])
    return list(row["steps"])


def hops_of(views: LakeViews, flow_id: bytes, begins_ns: Sequence[int], first: int, count: int) -> list[dict[str, Any]]:
    """Give hops of a flow, in the order of its steps; these and all before them lie between the begins of the steps."""
    until = begins_ns[: first + count]
    between = (min(until), max(until))
    near = "silver.hops" if 0 in until else views.near_any("silver.hops", left_at_ns=between, arrived_at_ns=between)
    return views.rows(
        f"select {HOP} from {near} where flow_id = ? order by {BY_TIME} limit {count} offset {first}", [flow_id]
    )


def requests_of(views: LakeViews, flow: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Give the first requests of a flow."""
    begins = flow["begins_ns"] or [0]
    near = views.near("gold.requests", asked_at_ns=(min(begins) - AROUND_NS, max(begins) + AROUND_NS))
    question = f"where flow_id = ? order by asked_at_ns limit {count}"
    found = views.rows(f"select * from {near} {question}", [flow["flow_id"]])
    if len(found) < min(count, flow["request_count"]):  # asked at a time that nobody knows
        found = views.rows(f"select * from gold.requests {question}", [flow["flow_id"]])
    return found


def raw_times(
    views: LakeViews, correlation_id: bytes, seen: Sequence[tuple[bytes, int, int]]
) -> dict[tuple[bytes, int, int], int]:
    """Give the times of sightings of a flow by the clocks of their nodes."""
    if not seen:
        return {}
    incarnations, sequences = [each[1] for each in seen], [each[2] for each in seen]
    lives, numbers = (min(incarnations), max(incarnations)), (min(sequences), max(sequences))
    rows = views.rows(
        "select node, incarnation, sequence, seen_at_ns from"
        f" {views.near('silver.messages', incarnation=lives, sequence=numbers)} where correlation_id = ?",
        [correlation_id],
    )
    return {(row["node"], row["incarnation"], row["sequence"]): row["seen_at_ns"] for row in rows}


def sighting(views: LakeViews, node: bytes, incarnation: int, sequence: int) -> dict[str, Any]:
    """Give one sighting with its frames."""
    near = views.near("bronze.sightings", incarnation=(incarnation, incarnation), sequence=(sequence, sequence))
    return views.row(
        f"select * from {near} where node = ? and incarnation = ? and sequence = ?", [node, incarnation, sequence]
    )


def quarantine_counts(views: LakeViews) -> list[dict[str, Any]]:
    """Count what is no message by its reason, the most frequent first."""
    counted = "select reason, count(*) as sightings from silver.quarantine group by 1 order by 2 desc, 1"
    return views.remembered(("quarantine",), lambda: views.rows(counted))


def quarantine_page(views: LakeViews, reason: str, first: int, count: int) -> list[dict[str, Any]]:
    """Give some of what is no message, in the order of time, with its frames."""
    where, given = ("reason = ?", [reason]) if reason else ("true", [])
    keys = views.rows(
        f"select node, incarnation, sequence, seen_at_ns from silver.quarantine where {where}"
        f" order by seen_at_ns, node, sequence limit {count} offset {first}",
        given,
    )
    if not keys:
        return []
    times = [row["seen_at_ns"] for row in keys]
    near = views.near("silver.quarantine", seen_at_ns=(min(times), max(times)))
    marks = ", ".join("(?, ?, ?)" for _ in keys)
    return views.rows(
        f"select * from {near} where seen_at_ns between ? and ?"
        f" and (node, incarnation, sequence) in ({marks}) order by seen_at_ns, node, sequence",
        [min(times), max(times), *(row[name] for row in keys for name in ("node", "incarnation", "sequence"))],
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
