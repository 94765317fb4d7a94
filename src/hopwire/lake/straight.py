"""Captures straight to flows, without a lake and without Spark: for a look at one flow, or at the lives of nodes.

Everything is read into memory: some gigabytes of captures are work for a lake. Clocks are compared by all messages of
the captures, as in a lake. Hops, requests and flows are those of the wanted flow alone. So a finding that looks at
other flows (`unknown_version`) is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture.file_faults import Fault
from hopwire.capture.sources import list_sources, name_fault, read_source
from hopwire.flows.clocks import clocks_from_crossings, rows_from_clocks
from hopwire.flows.coverage import coverage_from_rows
from hopwire.flows.crossings import quickest_crossings
from hopwire.flows.findings import Known
from hopwire.flows.groups import is_reserved
from hopwire.flows.hops import with_flow_ids
from hopwire.flows.oversized import flows_of
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import CLOSED, OPEN
from hopwire.flows.spans import SourceSpan, joined_spans, placed, spans_from_batch
from hopwire.flows.steps import judge_sightings
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.messages import MESSAGES_TABLE, with_route
from hopwire.lake.worker import rebatched, split_batch
from hopwire.places import Place
from hopwire.security import OPEN as NO_DOMAINS
from hopwire.security import Domains

__all__ = ["StraightCaptures", "read_straight"]

SIZES = LakeSettings()  # a node writes batches of a few rows, and each batch has its cost


@dataclass(frozen=True, slots=True)
class StraightCaptures:
    """The messages of captures, and who captured when by which clock."""

    sightings: pa.Table  # as `link` takes them
    clocks: pa.Table

    @property
    def names(self) -> dict[bytes, str]:
        """The identities of the nodes that captured, and their names."""
        return dict(zip(self.clocks["node"].to_pylist(), self.clocks["node_name"].to_pylist(), strict=True))

    @property
    def ends_ns(self) -> dict[bytes, int]:
        """When the capture of each node ends, corrected."""
        return coverage_from_rows(self.clocks).ends_ns

    @property
    def flow_ids(self) -> pa.Array:
        """The correlation ids of all messages."""
        return pc.unique(self.sightings["correlation_id"])

    @property
    def flow_ids_of_users(self) -> pa.Array:
        """The correlation ids of messages that are not said by nodes among themselves."""
        is_of_nodes = pc.fill_null(is_reserved(self.sightings["identity"].combine_chunks()), False)
        return pc.unique(self.sightings["correlation_id"].filter(pc.invert(is_of_nodes)))

    def flow(self, correlation_id: bytes, rules: Rules) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Give one flow and its requests, in the order of time, as a lake gives them; large ones are cut as there."""
        own = self.sightings.filter(pc.equal(self.sightings["correlation_id"], pa.scalar(correlation_id, pa.binary())))
        coverage = coverage_from_rows(self.clocks)
        judged = judge_sightings(with_flow_ids(own.combine_chunks(), coverage, rules), coverage, rules)
        flow = flows_of(judged.hops, judged.requests, Known(coverage, rules)).to_pylist()[0]
        return flow, judged.requests.sort_by("asked_at_ns").to_pylist()


def read_straight(
    captures: Place, domains: Domains = NO_DOMAINS, on_fault: Callable[[Fault], None] = lambda _: None
) -> StraightCaptures:
    """Read all captures below a directory, or one file."""
    spans: list[SourceSpan] = []
    parts: list[pa.Table] = [with_route(MESSAGES_TABLE.schema.empty_table())]
    for source in list_sources(captures):
        if unnamed := name_fault(source):
            on_fault(unnamed)
            continue
        own: list[SourceSpan] = []
        for batch in rebatched(read_source(source, on_fault=on_fault), SIZES.batch_rows, SIZES.batch_bytes):
            parts.append(with_route(pa.Table.from_batches([split_batch(batch, source.name, domains).messages])))
            own = joined_spans([*own, *spans_from_batch(batch, source.name)])
        spans += [replace(span, ending=OPEN if source.is_open else CLOSED) for span in own]
    sightings = pa.concat_tables(parts).combine_chunks()
    known = placed(spans)
    clocks = clocks_from_crossings({each.span.node for each in known}, quickest_crossings(sightings))
    return StraightCaptures(sightings, rows_from_clocks(known, clocks))
