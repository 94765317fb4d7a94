"""A lake of a simulated network, made without Spark by the functions that the tables call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hopwire.capture.sources import list_sources, read_source
from hopwire.domains_file import domains_from_file
from hopwire.flows.clocks import clocks_from_crossings, rows_from_clocks
from hopwire.flows.coverage import coverage_from_rows
from hopwire.flows.crossings import quickest_crossings
from hopwire.flows.findings import Known
from hopwire.flows.flows import judge_flows
from hopwire.flows.hops import SIGHTING_COLUMNS, link
from hopwire.flows.requests import judge_requests
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import CLOSED, OPEN
from hopwire.flows.spans import SourceSpan, joined_spans, placed, spans_from_batch
from hopwire.lake.parquet_output import stored_file
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import LakeRun, writing
from hopwire.lake.worker import Split, rebatched, split_batch
from hopwire.security import Domains

CONTRACT = ["identity", "version", "version_raw"]
SIZES = LakeSettings()


def build_without_spark(simulated: Path, lake: Path) -> dict[str, pa.Table]:
    """Build the tables that can be compared with the truth, and give them."""
    tables = tables_without_spark(simulated)
    write_lake(lake, tables)
    return tables


def write_lake(lake: Path, tables: dict[str, pa.Table]) -> None:
    with writing(lake) as run:
        for name, table in tables.items():
            put_rows(run, name, table)
        run.publish({}, "")


def put_rows(run: LakeRun, name: str, rows: pa.Table, basis: str = "", file: str = "rows.parquet") -> None:
    """Put a table into a lake that is this file, whatever its columns are."""
    pq.write_table(rows, run.place(name) / file)
    run.put(name, basis, rows.schema, [stored_file(run.place(name), file)])


class Judged(NamedTuple):
    """What captures come to."""

    messages: pa.Table
    quarantine: pa.Table
    clocks: pa.Table
    hops: pa.Table
    requests: pa.Table
    flows: pa.Table


def tables_without_spark(simulated: Path) -> dict[str, pa.Table]:
    judged = judge_captures(simulated / "captures", domains_from_file(str(simulated / "domains.toml")), Rules())
    return {
        "silver.messages": judged.messages.select(["node", "incarnation", "sequence", "verdict"]),
        "silver.quarantine": judged.quarantine.select(["node", "incarnation", "sequence", "reason"]),
        "silver.hops": judged.hops.select(["correlation_id", "fate"]),
        "gold.requests": judged.requests,
        "gold.flows": judged.flows.select(["correlation_id", "outcome", "findings"]),
        "silver.clocks": judged.clocks,
    }


def judge_captures(captures: Path, domains: Domains, rules: Rules) -> Judged:
    """Give what the tables would say of captures."""
    spans: list[SourceSpan] = []
    splits: list[Split] = []
    for source in list_sources(captures):
        batches = list(rebatched(read_source(source), SIZES.batch_rows, SIZES.batch_bytes))
        splits += [split_batch(batch, source.name, domains) for batch in batches]
        ending = OPEN if source.is_open else CLOSED
        own = joined_spans(span for batch in batches for span in spans_from_batch(batch, source.name))
        spans += [replace(span, ending=ending) for span in own]
    messages = pa.Table.from_batches([split.messages for split in splits]).combine_chunks()
    quarantine = pa.Table.from_batches([split.quarantine for split in splits])
    sightings = with_route(messages).select(list(SIGHTING_COLUMNS))
    clocks = clocks_without_spark(spans, sightings)
    coverage = coverage_from_rows(clocks)
    hops = link(sightings, coverage, rules)
    requests = judge_requests(hops, coverage, rules)
    answered = requests.filter(pc.equal(requests["outcome"], "answered")).select(CONTRACT).to_pylist()
    contracts = {(row["identity"], row["version"], row["version_raw"]) for row in answered}
    flows = judge_flows(hops, requests, Known(coverage, rules, contracts))
    return Judged(messages, quarantine, clocks, hops, requests, flows)


def clocks_without_spark(spans: Iterable[SourceSpan], sightings: pa.Table) -> pa.Table:
    """The rows of silver.clocks."""
    known = placed(spans)
    crossings = quickest_crossings(sightings)
    return rows_from_clocks(known, clocks_from_crossings({each.span.node for each in known}, crossings))


def with_route(messages: pa.Table) -> pa.Table:
    """Messages with the columns that `link` makes of their routing."""
    routing = messages["routing"].combine_chunks()
    bounds = routing.offsets.to_numpy()
    last = pa.array(bounds[1:] - 1, mask=bounds[1:] == bounds[:-1])
    router = pc.fill_null(routing.values.field("identity").take(last), b"")
    counts = pa.array(np.diff(bounds))
    return messages.append_column("route_count", counts).append_column("route_node", router)
