"""Flows of a lake, read straight from its files: a few of many by their properties, or one flow by its id."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hopwire.flows.coverage import coverage_from_rows
from hopwire.lake.delta_log import DeltaLog
from hopwire.lake.manifest import Manifest
from hopwire.lake.store import log_of, read_arrow, read_manifest
from hopwire.model.names import KINO_PREFIX, OWN_PREFIX
from hopwire.places import Place, place_of
from hopwire.report.words import spellings, text_or_hex

__all__ = ["capture_ends", "find_flows", "flow_ids_like", "ids_like", "node_names", "read_flow"]

FLOWS, REQUESTS, CLOCKS = "gold.flows", "gold.requests", "silver.clocks"
SERVICE = (OWN_PREFIX.decode(), KINO_PREFIX.decode())  # prefixes of the identities that nodes use among themselves
LATEST = [("started_at_ns", "descending"), ("flow_id", "ascending")]
EVER = (-(2**63), 2**63 - 1)  # when flows of a file began of which nothing is known

Test: TypeAlias = Callable[[pa.Array], pa.Array]


def node_names(lake: Place | str) -> dict[bytes, str]:
    """Give the identities of the nodes that captured, and their names."""
    rows = read_arrow(lake, CLOCKS, ["node", "node_name"])
    return dict(zip(rows["node"].to_pylist(), rows["node_name"].to_pylist(), strict=True))


def capture_ends(lake: Place | str) -> dict[bytes, int]:
    """Give when the capture of each node ends, corrected."""
    return coverage_from_rows(read_arrow(lake, CLOCKS)).ends_ns


def find_flows(
    lake: Place | str,
    columns: Sequence[str],
    *,
    limit: int,
    outcomes: Sequence[str] | None = None,
    contract: str | None = None,
    nodes: Sequence[bytes] | None = None,
    findings: Sequence[str] | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
    with_service: bool = True,
) -> tuple[pa.Table, int]:
    """Give the latest flows that fit, and how many fit; without service, no flow in which nodes alone speak."""
    where = _both(
        ds.field("outcome").isin(list(outcomes)) if outcomes else None,
        ds.field("started_at_ns") >= since_ns if since_ns is not None else None,
        ds.field("started_at_ns") < until_ns if until_ns is not None else None,
    )
    is_all = where is None and nodes is None and contract is None and not findings and with_service
    manifest = read_manifest(lake)
    log = log_of(place_of(lake), FLOWS)
    files = _FlowFiles.of(log, manifest)
    looked_at = [
        *("flow_id", "started_at_ns"),
        *(["nodes"] if nodes is not None else []),
        *(["contracts"] if contract is not None or not with_service else []),
        *(["findings"] if findings else []),
    ]
    narrow = read_arrow(lake, FLOWS, looked_at, where, manifest, files.with_latest(limit) if is_all else None, log)
    if nodes is not None:
        narrow = narrow.filter(_has(narrow["nodes"], _any_of(pa.array(list(nodes), pa.binary()))))
    if contract is not None:
        narrow = narrow.filter(_has(narrow["contracts"], _any_of(pa.array(spellings(contract), pa.binary()))))
    if findings:
        kinds = _any_of(pa.array(list(findings)))
        narrow = narrow.filter(_has(narrow["findings"], lambda found: kinds(pc.struct_field(found, "kind"))))
    if not with_service:
        narrow = narrow.filter(_has(narrow["contracts"], _is_of_users))
    order = pc.sort_indices(narrow, LATEST)[:limit]
    chosen = narrow.take(order)
    is_chosen = ds.field("flow_id").isin(chosen["flow_id"].combine_chunks())
    rows = read_arrow(lake, FLOWS, columns, is_chosen, manifest, files.with_times(chosen["started_at_ns"]), log)
    count = manifest.tables[FLOWS].row_count if is_all else len(narrow)
    return rows.take(pc.sort_indices(rows, LATEST)), count


@dataclass(frozen=True)
class _FlowFiles:
    """The files of gold.flows: of how many flows each knows the begin, and from when to when these are."""

    files: Mapping[Place, tuple[int, tuple[int, int]]]

    @classmethod
    def of(cls, log: DeltaLog, manifest: Manifest) -> _FlowFiles:
        """Look into the log of the table; a lake that lacks the table says so when the table is read."""
        if FLOWS not in manifest.tables:
            return cls({})
        known = log.statistics(manifest.tables[FLOWS].version)
        names = ("num_records", "null_count.started_at_ns", "min.started_at_ns", "max.started_at_ns")
        columns = (known[name].to_pylist() if name in known.column_names else [None] * len(known) for name in names)
        return cls(
            {
                log.place / path: (0, EVER) if None in values else (values[0] - values[1], (values[2], values[3]))
                for path, *values in zip(known["path"].to_pylist(), *columns, strict=True)
            }
        )

    def with_latest(self, limit: int) -> set[Place]:
        """Give the files that may have one of the latest flows, as many as the limit.

        Files have flows of 8 to 9 h, 9 to 10 h and 9 to 11 h, a hundred each: the latest fifty are in the last two.
        """
        least, count = EVER[0], 0
        for rows, (low, high) in sorted(self.files.values(), key=lambda file: file[1], reverse=True):
            if (low, high) == EVER:
                continue
            least, count = low, count + rows
            if count >= limit:
                break
        return {path for path, (_, (_, high)) in self.files.items() if count < limit or high >= least}

    def with_times(self, times: pa.ChunkedArray) -> set[Place]:
        """Give the files that may have flows that began at one of some times; null is a begin that nobody knows."""
        if times.null_count:
            return set(self.files)
        wanted = np.sort(times.to_numpy())
        places = {path: np.searchsorted(wanted, low) for path, (_, (low, _)) in self.files.items()}
        return {
            path for path, place in places.items() if place < len(wanted) and wanted[place] <= self.files[path][1][1]
        }


def flow_ids_like(lake: Place | str, text: str, limit: int) -> list[bytes]:
    """Give the flow of this id, or the flows whose ids begin with it; as many as the limit."""
    rows = read_arrow(lake, FLOWS, ["flow_id", "is_control"])
    of_users = rows.filter(pc.invert(pc.fill_null(rows["is_control"], False)))
    return ids_like(pc.unique(rows["flow_id"]), pc.unique(of_users["flow_id"]), text, limit)


def ids_like(ids: pa.Array, of_users: pa.Array, text: str, limit: int) -> list[bytes]:
    """Give the id that a user means, or the ids that begin so; as many as the limit.

    Where flows of users begin so, flows in which nodes alone speak do not count: a list leaves them out too.
    """
    for exact in spellings(text):
        if pc.index(ids, pa.scalar(exact, pa.binary())).as_py() >= 0:
            return [exact]
    return (_beginning(of_users, text) or _beginning(ids, text))[:limit]


def _beginning(ids: pa.Array, text: str) -> list[bytes]:
    found = ids.filter(pc.starts_with(ids, pattern=spellings(text)[0])).to_pylist()
    if text.startswith("0x"):
        found += [each for each in ids.to_pylist() if text_or_hex(each).startswith(text.lower())]
    return sorted(dict.fromkeys(found))


def read_flow(lake: Place | str, flow_id: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give one flow and its requests, in the order of time."""
    is_it = ds.field("flow_id") == pa.scalar(flow_id, pa.binary())
    flow = read_arrow(lake, FLOWS, None, is_it).to_pylist()[0]
    requests = read_arrow(lake, REQUESTS, None, is_it).sort_by("asked_at_ns").to_pylist()
    return flow, requests


def _has(lists: pa.ChunkedArray, is_wanted: Test) -> pa.Array:
    """Which lists have a value that is wanted."""
    whole = lists.combine_chunks()
    rows = pc.list_parent_indices(whole).filter(is_wanted(whole.flatten()))
    found = np.zeros(len(whole), dtype=np.bool_)
    found[rows.to_numpy()] = True
    return pa.array(found)


def _any_of(wanted: pa.Array) -> Test:
    return lambda values: pc.is_in(values, value_set=wanted)


def _is_of_users(identities: pa.Array) -> pa.Array:
    is_service = [pc.starts_with(identities, prefix) for prefix in SERVICE]
    return pc.invert(pc.or_(*is_service))


def _both(*conditions: ds.Expression | None) -> ds.Expression | None:
    found: ds.Expression | None = None
    for condition in conditions:
        if condition is not None:
            found = condition if found is None else found & condition
    return found
