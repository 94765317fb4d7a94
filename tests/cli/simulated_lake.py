"""A lake of a simulated network with every fault and all four formats, made without Spark, for exports."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from hopwire.capture.sources import list_sources, read_source
from hopwire.domains_file import domains_from_file
from hopwire.flows.rules import Rules
from hopwire.lake.bronze.sightings import rows_of_sightings
from tests.cli.running import hopwire
from tests.lake.pure import judge_captures, write_lake


def make_simulated_lake(place: Path, messages: int) -> Path:
    """Simulate, judge and write."""
    simulated, lake = place / "simulated", place / "lake"
    found = hopwire("simulate", str(simulated), "--messages", str(messages), "--seed", "16")
    assert (found.code, found.err) == (0, "")
    judged = judge_captures(simulated / "captures", domains_from_file(str(simulated / "domains.toml")), Rules())
    sources = list_sources(simulated / "captures")
    sightings = [rows_of_sightings(batch, source.name) for source in sources for batch in read_source(source)]
    tables = {
        "bronze.sightings": pa.Table.from_batches(sightings),
        "silver.hops": judged.hops,
        "silver.clocks": judged.clocks,
        "gold.requests": judged.requests,
        "gold.flows": judged.flows,
    }
    write_lake(lake, tables)
    return lake
