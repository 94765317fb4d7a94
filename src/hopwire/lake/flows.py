"""Flows of a lake, read straight from its files: a few of many by what they are, or one by its id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hopwire.lake.store import read_arrow
from hopwire.report.words import text_or_hex

__all__ = ["find_flows", "flow_ids_like", "node_names", "read_flow"]

FLOWS, REQUESTS, CLOCKS = "gold.flows", "gold.requests", "gold.clocks"


def node_names(lake: Path | str) -> dict[bytes, str]:
    """Give the nodes that captured, and what people call them."""
    rows = read_arrow(lake, CLOCKS, ["node", "node_name"])
    return dict(zip(rows["node"].to_pylist(), rows["node_name"].to_pylist(), strict=True))


def find_flows(
    lake: Path | str,
    columns: Sequence[str],
    *,
    limit: int,
    outcomes: Sequence[str] | None = None,
    contract: str | None = None,
    node: bytes | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
) -> tuple[pa.Table, int]:
    """Give the latest flows that fit, and how many there are."""
    where = _both(
        ds.field("outcome").isin(list(outcomes)) if outcomes else None,
        ds.field("started_at_ns") >= since_ns if since_ns is not None else None,
        ds.field("started_at_ns") < until_ns if until_ns is not None else None,
    )
    narrow = read_arrow(lake, FLOWS, ["flow_id", "started_at_ns", "nodes", "contracts"], where)
    if node is not None:
        narrow = narrow.filter(_has(narrow["nodes"], [node]))
    if contract is not None:
        narrow = narrow.filter(_has(narrow["contracts"], _spellings(contract)))
    order = pc.sort_indices(narrow, [("started_at_ns", "descending"), ("flow_id", "ascending")])[:limit]
    chosen = narrow["flow_id"].take(order)
    rows = read_arrow(lake, FLOWS, columns, ds.field("flow_id").isin(chosen.combine_chunks()))
    latest = pc.sort_indices(rows, [("started_at_ns", "descending"), ("flow_id", "ascending")])
    return rows.take(latest), len(narrow)


def flow_ids_like(lake: Path | str, text: str, limit: int) -> list[bytes]:
    """Give the flow of this id, or those that begin with it; as many as the limit."""
    ids = pc.unique(read_arrow(lake, FLOWS, ["flow_id"])["flow_id"])
    for exact in _spellings(text):
        if pc.index(ids, pa.scalar(exact, pa.binary())).as_py() >= 0:
            return [exact]
    begins = pc.starts_with(ids, pattern=text.encode())
    found = ids.filter(begins).to_pylist()
    if text.startswith("0x"):
        found += [each for each in ids.to_pylist() if text_or_hex(each).startswith(text.lower())]
    return sorted(dict.fromkeys(found))[:limit]


def read_flow(lake: Path | str, flow_id: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give one flow and its requests, in the order of time."""
    is_it = ds.field("flow_id") == pa.scalar(flow_id, pa.binary())
    flow = read_arrow(lake, FLOWS, None, is_it).to_pylist()[0]
    requests = read_arrow(lake, REQUESTS, None, is_it).sort_by("asked_at_ns").to_pylist()
    return flow, requests


def _spellings(text: str) -> list[bytes]:
    """The bytes that a text may stand for."""
    try:
        return [text.encode(), *([bytes.fromhex(text[2:])] if text.startswith("0x") else [])]
    except ValueError:
        return [text.encode()]


def _has(lists: pa.ChunkedArray, wanted: list[bytes]) -> pa.Array:
    """Tell which lists have one of the values."""
    whole = lists.combine_chunks()
    is_wanted = pc.is_in(whole.flatten(), value_set=pa.array(wanted, pa.binary()))
    rows = pc.list_parent_indices(whole).filter(is_wanted)
    found = np.zeros(len(whole), dtype=np.bool_)
    found[rows.to_numpy()] = True
    return pa.array(found)


def _both(*conditions: ds.Expression | None) -> ds.Expression | None:
    found: ds.Expression | None = None
    for condition in conditions:
        if condition is not None:
            found = condition if found is None else found & condition
    return found
