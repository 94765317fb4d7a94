"""The rows of a lake that an export is made of: flows with their requests, hops with their bytes, clocks.

Every row comes through `read_arrow`, so this is the only place that an export and the storage of the lake share. A
manifest names the version of the lake that is read; without a manifest the newest version is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from hopwire.capture.times import time_text
from hopwire.lake.manifest import Manifest
from hopwire.lake.query import CLOCKS, FLOWS, REQUESTS
from hopwire.lake.store import read_arrow
from hopwire.places import Place
from hopwire.report.flow_spans import ExportedFlow, service_name
from hopwire.report.flow_tree import took
from hopwire.report.pcapng import ExportedHop
from hopwire.report.words import text_or_hex

__all__ = ["WITHIN", "read_clocks", "read_exported_flows", "read_exported_hops"]

HOPS, SIGHTINGS = "silver.hops", "bronze.sightings"
WITHIN = ("told", "local")  # fates of what crossed no network: words to an asker, deliveries within a node
AT_ONCE = 200  # flows that are in memory
CLOCK_COLUMNS = ("node", "node_name", "is_corrected", "offset_ns", "error_ns")
HOP_COLUMNS = (
    "flow_id",
    "from_node",
    "to_node",
    "fate",
    "left_at_ns",
    "arrived_at_ns",
    "left_incarnation",
    "left_sequence",
    "arrived_incarnation",
    "arrived_sequence",
    "latency_us",
    "is_corrected",
    "attempt",
    "verdict",
    "dead_reason",
)
Sighted = tuple[bytes, int, int]  # node, incarnation, sequence


def read_clocks(lake: Place | str, manifest: Manifest | None = None) -> dict[bytes, dict[str, Any]]:
    """Give what is known of the clock of each node that captures."""
    return {row["node"]: row for row in read_arrow(lake, CLOCKS, CLOCK_COLUMNS, manifest=manifest).to_pylist()}


def read_exported_flows(
    lake: Place | str, flow_ids: Sequence[bytes], manifest: Manifest | None = None
) -> Iterator[ExportedFlow]:
    """Give flows with their requests, in the order of the ids, a few of them in memory at a time."""
    for at in range(0, len(flow_ids), AT_ONCE):
        some = list(flow_ids[at : at + AT_ONCE])
        flows = {row["flow_id"]: row for row in _of_flows(lake, FLOWS, None, some, manifest)}
        requests: dict[bytes, list[dict[str, Any]]] = {}
        for row in sorted(_of_flows(lake, REQUESTS, None, some, manifest), key=_asked_at):
            requests.setdefault(row["flow_id"], []).append(row)
        yield from (ExportedFlow(flows[each], requests.get(each, [])) for each in some if each in flows)


def read_exported_hops(
    lake: Place | str, flow_ids: Sequence[bytes], names: Mapping[bytes, str], manifest: Manifest | None = None
) -> list[ExportedHop]:
    """Give the hops of flows with the frames that were captured, where they left or else where they arrived."""
    hops = [hop for hop in _of_flows(lake, HOPS, HOP_COLUMNS, flow_ids, manifest) if hop["fate"] not in WITHIN]
    frames = _frames(lake, [_sighted(hop) for hop in hops], manifest)
    return [_hop(hop, frames.get(_sighted(hop), ()), names) for hop in hops]


def _of_flows(
    lake: Place | str,
    table: str,
    columns: Sequence[str] | None,
    flow_ids: Sequence[bytes],
    manifest: Manifest | None,
) -> list[dict[str, Any]]:
    where = ds.field("flow_id").isin(pa.array(list(flow_ids), pa.binary()))
    rows: list[dict[str, Any]] = read_arrow(lake, table, columns, where, manifest).to_pylist()
    return rows


def _asked_at(request: Mapping[str, Any]) -> int:
    return request["asked_at_ns"] or 0


def _sighted(hop: Mapping[str, Any]) -> Sighted:
    end, node = ("left", "from_node") if hop["left_sequence"] is not None else ("arrived", "to_node")
    return hop[node], hop[f"{end}_incarnation"], hop[f"{end}_sequence"]


def _frames(lake: Place | str, wanted: Sequence[Sighted], manifest: Manifest | None) -> dict[Sighted, list[bytes]]:
    """Give the frames of these sightings; one look into the table for all of them."""
    nodes, incarnations, sequences = ({each[place] for each in wanted} for place in range(3))
    where = (
        ds.field("sequence").isin(pa.array(sorted(sequences - {None}), pa.int64()))
        & ds.field("incarnation").isin(pa.array(sorted(incarnations - {None}), pa.int64()))
        & ds.field("node").isin(pa.array(sorted(nodes), pa.binary()))
    )
    known = set(wanted)
    found: dict[Sighted, list[bytes]] = {}
    columns = ["node", "incarnation", "sequence", "frames"]
    for row in read_arrow(lake, SIGHTINGS, columns, where, manifest).to_pylist():
        key = (row["node"], row["incarnation"], row["sequence"])
        if key in known:
            found[key] = row["frames"]
    return found


def _hop(hop: Mapping[str, Any], frames: Sequence[bytes], names: Mapping[bytes, str]) -> ExportedHop:
    times = [time for time in (hop["left_at_ns"], hop["arrived_at_ns"]) if time is not None]
    is_dead = hop["fate"] == "dead"
    return ExportedHop(
        times[0] if times else 0,
        hop["from_node"] or b"",
        hop["to_node"] or b"",
        is_dead,
        frames,
        "; ".join(_words(hop, bool(frames), names)),
    )


def _words(hop: Mapping[str, Any], has_frames: bool, names: Mapping[bytes, str]) -> Iterator[str]:
    """Say what the lake knows of a hop."""
    yield f"flow {text_or_hex(hop['flow_id'])}"
    yield hop["fate"] + (f": {hop['dead_reason']}" if hop["dead_reason"] else "")
    for word, node, time_ns in (("left", "from_node", "left_at_ns"), ("arrived at", "to_node", "arrived_at_ns")):
        if hop[time_ns] is not None:
            yield f"{word} {service_name(hop[node], names)} {time_text(hop[time_ns])}"
        elif hop["fate"] != "dead":
            yield f"nobody saw when it {word} {service_name(hop[node], names)}"
    if hop["latency_us"] is not None:
        yield f"took {took(hop['latency_us'])}"
    yield "clocks corrected" if hop["is_corrected"] else "clocks not corrected"
    if hop["attempt"]:
        yield f"attempt {hop['attempt']}"
    if hop["verdict"]:
        yield f"signature {hop['verdict']}"
    if not has_frames:
        yield "its bytes are in no capture"
