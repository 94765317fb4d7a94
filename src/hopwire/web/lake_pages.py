"""The pages of a lake: each function takes a snapshot and the values of an address, and gives a `PageContent`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from hopwire.capture.times import time_text
from hopwire.errors import LakeError, SettingsError
from hopwire.flows.findings import KINDS
from hopwire.flows.lives import lives_from_clocks
from hopwire.flows.schemas import CLOCK_SCHEMA, FLOW_OUTCOMES
from hopwire.model.reasons import WIRE_REASONS
from hopwire.report.dissection import hexdump
from hopwire.report.export_formats import EXPORT_FORMATS
from hopwire.report.flow_tree import name_of, took
from hopwire.report.words import printable, spellings, text_or_hex
from hopwire.web import lake_questions as ask
from hopwire.web.clock_chart import ClockOffset, clock_chart, offset_words
from hopwire.web.flow_search import ORDERS, FlowSearch, number_from, search_from_query, sql_of
from hopwire.web.lake_views import LakeViews
from hopwire.web.link_graph import MAX_DRAWN, LinkTotal, link_graph, link_matrix
from hopwire.web.page_content import PageContent, id_in_address
from hopwire.web.quarantined_flows import flows_of_quarantined
from hopwire.web.time_chart import SHOWN_OUTCOMES, time_chart

__all__ = ["clocks", "contracts", "flows", "links", "overview", "quarantine", "security", "sql"]

Query = Mapping[str, str]
MAX_SQL_ROWS, MAX_SECURITY = 500, 500
SHOWN_QUARANTINED, MAX_FRAME_BYTES = 20, 512
SHOWN_LIVES = 5  # of a node; those before are a click away
MAX_SQL = 20_000  # characters
BAD = ("lost", "expired", "late", "failed")
EXAMPLE = "select outcome, count(*) as requests from requests group by outcome order by requests desc"


# -- overview and list


def overview(views: LakeViews, query: Query) -> PageContent:
    """Everything at a glance: what became of flows over time, the losses, the balance."""
    wanted, names = search_from_query(query), ask.node_names(views)
    counts = ask.flows_over_time(views, wanted, names)
    totals, buckets = counts.totals, counts.buckets
    chart = time_chart(buckets, counts.width_ns, lambda begin, end: _between(wanted, begin, end, "/flows"))
    balance = views.row(
        "select sum(rows_in)::bigint as rows_in, sum(message_count)::bigint as messages,"
        " sum(quarantine_count)::bigint as quarantined, sum(skipped_rows)::bigint as skipped,"
        " bool_and(is_balanced) as adds_up from gold.quality where step = 'decode'"
    )
    missing = views.row("select sum(missing)::bigint as missing from gold.quality where step = 'complete'")["missing"]
    reasons = views.rows(
        "select outcome, coalesce(nullif(reason, ''), case outcome when 'expired' then 'its time was over'"
        " when 'late' then 'nobody waited any more' else 'no reason' end) as reason, count(*) as requests"
        " from gold.requests"
        f" where outcome in ({', '.join(repr(each) for each in BAD)}) group by 1, 2 order by 3 desc limit 12"
    )
    worst = [_link(row, names, wanted)._asdict() for row in ask.links_of(views, None, True) if row["lost_count"]]
    worst.sort(key=lambda each: -each["lost_count"])
    values = {
        "totals": totals,
        "flow_count": sum(totals.values()),
        "balance": balance,
        "missing": missing or 0,
        "reasons": reasons,
        "worst_links": worst[:10],
        "nodes": sorted(name_of(node, names) for node in names),
        "buckets": [bucket._asdict() for bucket in buckets],
    }
    return PageContent(
        "overview.html", "Overview", values, {"chart": chart}, {"wanted": wanted, "outcomes": _shares(totals)}
    )


def _shares(totals: Mapping[str, int]) -> list[tuple[str, int, float, str]]:
    whole = sum(totals.values()) or 1
    return [
        (name, totals[name], totals[name] / whole, FLOW_OUTCOMES[name]) for name in SHOWN_OUTCOMES if name in totals
    ]


def _between(wanted: FlowSearch, begin_ns: int, end_ns: int, path: str) -> str:
    return wanted.address(path, since=time_text(begin_ns), until=time_text(end_ns))


def flows(views: LakeViews, query: Query) -> PageContent:
    """The list of flows, page by page, with exact totals."""
    wanted, names = search_from_query(query), ask.node_names(views)
    counts = ask.flows_over_time(views, wanted, names)
    totals = counts.totals
    rows = [_listed(row, names) for row in ask.flow_page(views, wanted, names)]
    total = sum(totals.values())
    chart = time_chart(counts.buckets, counts.width_ns, lambda begin, end: _between(wanted, begin, end, "/flows"))
    values = {
        "flows": rows,
        "total": total,
        "totals": totals,
        "page": wanted.page,
        "pages": max(1, -(-total // ask.PAGE_ROWS)),
        "first": (wanted.page - 1) * ask.PAGE_ROWS + 1,
    }
    helpers = {
        "wanted": wanted,
        "outcomes": _shares(totals),
        "all_outcomes": FLOW_OUTCOMES,
        "kinds": KINDS,
        "orders": list(ORDERS),
        "node_list": sorted({name_of(node, names) for node in names}),
        "as_sql": sql_of(wanted, names),
        "formats": EXPORT_FORMATS,
    }
    return PageContent("flows.html", "Flows", values, {"chart": chart}, helpers)


def _listed(row: Mapping[str, Any], names: Mapping[bytes, str]) -> dict[str, Any]:
    return {
        **row,
        "id": text_or_hex(row["flow_id"]),
        "address": f"/flow/{id_in_address(row['flow_id'])}",
        "contract": text_or_hex(row["identity"]),
        "started_at": time_text(row["started_at_ns"]),
        "node_names": [name_of(node, names) for node in row["nodes"]],
    }


# -- the network


def links(views: LakeViews, query: Query) -> PageContent:
    """Who sent to whom: how much, how fast, what was lost."""
    names = ask.node_names(views)
    contract, view = query.get("contract", ""), query.get("view", "graph")
    if view not in ("graph", "matrix"):
        raise SettingsError(f"view: found {view!r:.40}, expected graph or matrix")
    everything = query.get("all", "")
    rows = ask.links_of(views, spellings(contract)[-1] if contract else None, bool(everything))
    wanted = FlowSearch(contract=contract, all=everything)
    totals = [_link(row, names, wanted) for row in rows]
    drawing = (link_graph(totals) if view == "graph" else link_matrix(totals)) if totals else None
    values = {
        "links": [{**row, **total._asdict()} for row, total in zip(rows, totals, strict=True)],
        "contract": contract,
        "all": everything,
        "drawn": min(len(totals), MAX_DRAWN),
    }
    helpers = {"view": view, "contracts": [text_or_hex(row["identity"]) for row in
               views.rows("select distinct identity from gold.contracts order by 1")]}  # fmt: skip
    return PageContent("links.html", "Links", values, {"graph": drawing} if drawing else {}, helpers)


def _link(row: Mapping[str, Any], names: Mapping[bytes, str], wanted: FlowSearch) -> LinkTotal:
    source, target = name_of(row["from_node"], names), name_of(row["to_node"], names)
    address = wanted.address("/flows", node=source, outcome="")
    return LinkTotal(source, target, row["hop_count"], row["lost_count"] or 0, row["p95_us"], address)


def contracts(views: LakeViews) -> PageContent:
    """Every message contract: who sends and handles it, in which formats and sizes."""
    rows = views.rows(  # what nodes say among themselves comes last
        "select * from gold.contracts order by starts_with(contract, ?) or starts_with(contract, ?),"
        " sighting_count desc, identity, version",
        ask.SERVICE,
    )
    made = [
        {
            **row,
            "contract": text_or_hex(row["identity"]),
            "version_text": row["version"] if row["version_raw"] is None else text_or_hex(row["version_raw"]),
            "partition_text": text_or_hex(row["partition"] or b""),
            "senders": [printable(each) for each in row["senders"]],
            "receivers": [printable(each) for each in row["receivers"]],
            "first_seen": time_text(row["first_seen_at_ns"]),
            "last_seen": time_text(row["last_seen_at_ns"]),
        }
        for row in rows
    ]
    return PageContent("contracts.html", "Contracts", {"contracts": made})


def clocks(views: LakeViews) -> PageContent:
    """The nodes that captured: their lives, what is missing, and how wrong their clocks are."""
    names = ask.node_names(views)
    rows = views.rows("select * from silver.clocks order by node_name, node")
    endings = _endings(rows)
    made = [
        {
            **row,
            "name": name_of(row["node"], names),
            "identity": text_or_hex(row["node"]),
            "reference": name_of(row["reference_node"] or b"", names),
            "offset_words": offset_words(row["offset_ns"] or 0),
            "via": name_of(row["via_node"] or b"", names),
            "first_seen": time_text(row["first_seen_at_ns"]),
            "last_seen": time_text(row["last_seen_at_ns"]),
            "lives": [
                {
                    **life,
                    "began": time_text(life["first_ns"]),
                    "ended": time_text(life["last_ns"]),
                    **endings.get((row["node"], life["incarnation"]), {}),
                }
                for life in row["lives"]
            ],
        }
        for row in rows
    ]
    offsets = [
        ClockOffset(row["name"], row["offset_ns"] or 0, row["error_ns"] or 0) for row in made if row["is_corrected"]
    ]
    drawings = {"clocks": clock_chart(offsets)} if len(offsets) > 1 else {}
    return PageContent("clocks.html", "Nodes and clocks", {"nodes": made}, drawings, {"shown_lives": SHOWN_LIVES})


def _endings(rows: list[dict[str, Any]]) -> dict[tuple[bytes, int], dict[str, Any]]:
    """Give for each life of a node how it ended, and how long the node was away, in the words of the command line."""
    lives = lives_from_clocks(pa.Table.from_pylist(rows, CLOCK_SCHEMA))
    return {
        (row["node"], row["incarnation"]): {
            "ending": row["ending"],
            "came_back": "" if row["away_us"] is None else f"came back after {took(row['away_us'])}",
        }
        for row in lives.to_pylist()
    }


def security(views: LakeViews, query: Query) -> PageContent:
    """What is wrong with signatures and domains, by sender and minute."""
    names = ask.node_names(views)
    counted = "select verdict, count(*) as messages from silver.messages group by 1 order by 2 desc"
    verdicts = views.remembered(("verdicts",), lambda: views.rows(counted))
    counted = (
        "select finding, sum(message_count)::bigint as messages, count(*) as n from gold.security group by 1 order by 2"
    )
    kinds = views.remembered(("findings",), lambda: views.rows(counted))
    finding = query.get("finding", "")
    _check_choice("finding", finding, [row["finding"] for row in kinds])
    where, given = ("finding = ?", [finding]) if finding else ("true", [])
    rows = views.rows(
        f"select * from gold.security where {where} order by minute desc, message_count desc limit {MAX_SECURITY}",
        given,
    )
    total = sum(row["n"] for row in kinds if finding in ("", row["finding"]))
    made = [
        {
            **row,
            "minute": str(row["minute"]),
            "sender_name": name_of(row["sender"] or b"", names),
            "contract_names": [text_or_hex(each) for each in row["identities"]],
            "receiver_names": [name_of(each, names) for each in row["receivers"]],
        }
        for row in rows
    ]
    values = {"verdicts": verdicts, "kinds": kinds, "finding": finding, "findings": made, "total": total}
    return PageContent("security.html", "Security", values)


def quarantine(views: LakeViews, query: Query, shows_bodies: bool = True) -> PageContent:
    """What is no message: why, at which byte, with the bytes, and the flow that it would have joined."""
    names = ask.node_names(views)
    page = max(1, number_from(query.get("page", "1"), "page"))
    reason = query.get("reason", "")
    _check_choice("reason", reason, WIRE_REASONS)
    reasons = ask.quarantine_counts(views)
    total = sum(row["sightings"] for row in reasons if reason in ("", row["reason"]))
    rows = ask.quarantine_page(views, reason, SHOWN_QUARANTINED * (page - 1), SHOWN_QUARANTINED)
    homes = flows_of_quarantined(views, rows)
    made = [
        {
            "flow": homes.get(number),
            "reason": row["reason"],
            "meaning": WIRE_REASONS.get(row["reason"], ""),
            "node": name_of(row["node"], names),
            "peer": text_or_hex(row["peer"] or b""),
            "seen_at": time_text(row["seen_at_ns"]),
            "segment": row["segment"],
            "frame": row["reason_frame"],
            "byte": row["reason_byte"],
            "size_bytes": row["size_bytes"],
            "frame_count": row["frame_count"],
            "dump": _marked(row) if shows_bodies else [],
            "others": _frames(row["frames"] or []) if shows_bodies else [],
        }
        for number, row in enumerate(rows)
    ]
    values = {
        "reasons": reasons,
        "rows": made,
        "total": total,
        "page": page,
        "pages": max(1, -(-total // SHOWN_QUARANTINED)),
        "reason": reason,
    }
    return PageContent("quarantine.html", "Quarantine", values)


def _marked(row: Mapping[str, Any]) -> list[str]:
    frames = row["frames"] or []
    frame = row["reason_frame"] if row["reason_frame"] is not None else 0
    if not 0 <= frame < len(frames):
        return []
    if not frames[frame]:
        return [f"frame {frame} is empty"]
    return hexdump(frames[frame][:65_536], row["reason_byte"] if row["reason_byte"] is not None else 0)


def _frames(frames: Sequence[bytes]) -> list[dict[str, Any]]:
    """All frames of a sighting, of large ones the beginning, until there is enough of them."""
    made = []
    room = MAX_FRAME_BYTES
    for number, frame in enumerate(frames):
        shown = frame[:room]
        made.append(
            {"frame": number, "size": len(frame), "lines": hexdump(shown) if shown else [], "is_cut": shown != frame}
        )
        room -= len(shown)
    return made


def _check_choice(name: str, value: str, choices: Collection[str]) -> None:
    if value and value not in choices:
        expected = f"one of {', '.join(choices)}" if choices else "none, for there are none"
        raise SettingsError(f"{name}: found {value!r:.40}, expected {expected}")


# -- SQL


def sql(views: LakeViews, query: Query) -> PageContent:
    """SQL that a reader types, answered by the snapshot: it reads, and does nothing else."""
    typed = query.get("q", "")
    values: dict[str, Any] = {"q": typed, "columns": [], "rows": [], "is_more": False, "error": ""}
    if len(typed) > MAX_SQL:
        values["error"] = f"more than {MAX_SQL} characters"
    elif typed.strip():
        try:
            columns, rows, is_more = views.some(typed, MAX_SQL_ROWS)
            values |= {"columns": columns, "rows": [list(row) for row in rows], "is_more": is_more}
        except (duckdb.Error, LakeError) as error:
            values["error"] = str(error).strip()[:2_000]
    return PageContent(
        "sql.html", "SQL", values, {}, {"example": EXAMPLE, "tables": views.tables, "limit": MAX_SQL_ROWS}
    )
