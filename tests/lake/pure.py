"""A lake of a simulated network, made without Spark by the functions that the tables call."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopwire.capture import read_capture
from hopwire.cli.secrets import read_domains
from hopwire.flows.clocks import clocks_from_crossings, quickest_crossings
from hopwire.flows.coverage import Coverage, Span
from hopwire.flows.findings import Known
from hopwire.flows.judge import judge_flows
from hopwire.flows.link import SIGHTING_COLUMNS, link
from hopwire.flows.requests import judge_requests
from hopwire.flows.rules import Rules
from hopwire.lake.split import split_batch
from hopwire.lake.store import writing

CONTRACT = ["identity", "version", "version_raw"]


def build_without_spark(simulated: Path, lake: Path) -> dict[str, pa.Table]:
    """Build the tables that can be compared with the truth, and give them."""
    tables = tables_without_spark(simulated)
    write_lake(lake, tables)
    return tables


def write_lake(lake: Path, tables: dict[str, pa.Table]) -> None:
    with writing(lake) as run:
        for name, table in tables.items():
            pq.write_table(table, run.place(name) / "rows.parquet")
            run.add(name, "", table.schema, run.written(name))
        run.publish({}, "")


def tables_without_spark(simulated: Path) -> dict[str, pa.Table]:
    domains = read_domains(str(simulated / "domains.toml"))
    batches = list(read_capture(simulated / "captures"))
    splits = [split_batch(batch, "segment", domains) for batch in batches]
    messages = pa.Table.from_batches([split.messages for split in splits]).combine_chunks()
    quarantine = pa.Table.from_batches([split.quarantine for split in splits])
    sightings = _with_route(messages).select(list(SIGHTING_COLUMNS))
    raw = pa.Table.from_batches(batches)
    coverage, clocks = _coverage(raw, sightings)
    hops = link(sightings, coverage, Rules())
    requests = judge_requests(hops, coverage, Rules())
    answered = requests.filter(pc.equal(requests["outcome"], "answered")).select(CONTRACT).to_pylist()
    contracts = {(row["identity"], row["version"], row["version_raw"]) for row in answered}
    flows = judge_flows(hops, requests, Known(coverage, Rules(), contracts))
    return {
        "silver.messages": messages.select(["node", "incarnation", "sequence", "verdict"]),
        "silver.quarantine": quarantine.select(["node", "incarnation", "sequence", "reason"]),
        "silver.hops": hops.select(["correlation_id", "fate"]),
        "gold.requests": requests,
        "gold.flows": flows.select(["correlation_id", "outcome", "findings"]),
        "gold.clocks": clocks,
    }


def _with_route(messages: pa.Table) -> pa.Table:
    routing = messages["routing"].combine_chunks()
    bounds = routing.offsets.to_numpy()
    last = pa.array(bounds[1:] - 1, mask=bounds[1:] == bounds[:-1])
    router = pc.fill_null(routing.values.field("identity").take(last), b"")
    counts = pa.array(np.diff(bounds))
    return messages.append_column("route_count", counts).append_column("route_node", router)


def _skips(raw: pa.Table) -> list[Span]:
    """From each row that stands for missing sightings to the next sighting of its node."""
    rows = raw.select(["node", "incarnation", "sequence", "seen_at_ns", "direction"]).to_pylist()
    rows.sort(key=lambda row: (row["node"], row["incarnation"], row["sequence"]))
    return [
        Span(row["node"], row["seen_at_ns"], following["seen_at_ns"])
        for row, following in pairwise(rows)
        if row["direction"] == "skipped"
    ]


def _coverage(raw: pa.Table, sightings: pa.Table) -> tuple[Coverage, pa.Table]:
    lives = raw.group_by(["node", "incarnation"]).aggregate([("seen_at_ns", "min"), ("seen_at_ns", "max")]).to_pylist()
    clocks = clocks_from_crossings({row["node"] for row in lives}, quickest_crossings(sightings))
    coverage = Coverage(
        [Span(row["node"], row["seen_at_ns_min"], row["seen_at_ns_max"]) for row in lives],
        _skips(raw),
        {clock.node: clock.offset_ns for clock in clocks},
        {clock.node: clock.reference_node for clock in clocks},
    )
    table = pa.table(
        {
            "node": pa.array([clock.node for clock in clocks], pa.binary()),
            "reference_node": pa.array([clock.reference_node for clock in clocks], pa.binary()),
            "offset_ns": [clock.offset_ns for clock in clocks],
        }
    )
    return coverage, table
