"""The flow that a quarantined sighting would have joined, as far as anybody can tell.

- If the correlation id can still be read, the lake is asked for that flow.
- Else a hop that left the peer for this node shortly before, and never arrived there, may have been this message. The
  latest such hop is named, and said to be a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hopwire.model.units import NS_PER_SECOND
from hopwire.report.dissection import rows_from_dissection
from hopwire.report.words import spellings, text_or_hex
from hopwire.web.lake_views import LakeViews
from hopwire.web.page_content import id_in_address
from hopwire.wire.dissect import dissect

__all__ = ["flows_of_quarantined"]

BEFORE_NS, AFTER_NS = 2 * NS_PER_SECOND, NS_PER_SECOND // 5  # clocks may disagree by this much
CORRELATION = "correlation_id"


def flows_of_quarantined(views: LakeViews, rows: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    """Give the flow for each row, by the number of the row, where there is one."""
    found = _by_id(views, rows)
    rest = [(number, row) for number, row in enumerate(rows) if number not in found and row["peer"]]
    return {**_by_loss(views, rest), **found}


def _by_id(views: LakeViews, rows: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, Any]]:
    wanted = {number: spellings(text) for number, row in enumerate(rows) if (text := _correlation(row["frames"] or ()))}
    ids = sorted({each for ways in wanted.values() for each in ways})
    if not ids:
        return {}
    marks = ", ".join("?" for _ in ids)
    known = views.rows(f"select flow_id, correlation_id from gold.flows where correlation_id in ({marks})", ids)
    flows = {row["correlation_id"]: row["flow_id"] for row in known}
    return {
        number: _named(flows[each], "its correlation id can still be read", is_guess=False)
        for number, ways in wanted.items()
        for each in ways
        if each in flows
    }


def _correlation(frames: Sequence[bytes]) -> str:
    rows = rows_from_dissection(dissect(tuple(frames)), 200)
    return next((row.meaning for row in rows if row.name == CORRELATION and row.stop > row.start), "")


def _by_loss(views: LakeViews, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[int, dict[str, Any]]:
    if not rows:
        return {}
    times = [row["seen_at_ns"] for _, row in rows]
    pairs = sorted({(row["peer"], row["node"]) for _, row in rows})
    marks = ", ".join("(?, ?)" for _ in pairs)
    between = (min(times) - BEFORE_NS, max(times) + AFTER_NS)
    lost = views.rows(
        "select flow_id, from_node, to_node, left_at_ns"
        f" from {views.near('silver.hops', left_at_ns=between)} where fate = 'lost'"
        f" and left_at_ns between ? and ? and (from_node, to_node) in ({marks}) order by left_at_ns",
        [*between, *(each for pair in pairs for each in pair)],
    )
    found = {}
    for number, row in rows:
        near = [
            hop
            for hop in lost
            if (hop["from_node"], hop["to_node"]) == (row["peer"], row["node"])
            and -AFTER_NS <= row["seen_at_ns"] - hop["left_at_ns"] <= BEFORE_NS
        ]
        if near:
            found[number] = _named(near[-1]["flow_id"], "it left for this node just before, and never arrived", True)
    return found


def _named(flow_id: bytes, why: str, is_guess: bool) -> dict[str, Any]:
    address = f"/flow/{id_in_address(flow_id)}"
    return {"id": text_or_hex(flow_id), "address": address, "why": why, "is_guess": is_guess}
