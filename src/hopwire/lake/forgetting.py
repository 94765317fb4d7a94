"""What somebody asks for leaves a lake for good: a source, the traffic of a node, or a flow.

    hopwire lake forget LAKE --node anna

| asked for | what leaves |
|---|---|
| a flow | all that belongs to it |
| a source | every flow with a sighting in it, as a whole, and all its other rows |
| a node | every flow that it took part in, as a whole, all other rows of it or about it, and its name |

Whole flows leave, since the sightings of other nodes have the same bodies. They leave every table, every old state of
the lake, the logs of the tables, whose statistics have names, and the disk, before the command ends. Rows are counted
by source. Whoever reads an old state at that moment is cut off.

Where a source or a node is gone, others were not looked at there: flows that look at it are judged anew. Clocks may
have been corrected by a node that is gone, so without it the whole lake is judged anew, on Spark if it is large. It is
started before anything is done: where it does not start, nothing has left.

Captures may still have what was forgotten: hashes tell later runs what they do not take in (`bronze/forgotten.py`).

A process that is killed before its manifest is there has done nothing. After that, every later run goes on with what
was left to do (`retention.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, bools
from hopwire.errors import LakeError, SettingsError
from hopwire.flows.crossings import quickest
from hopwire.flows.hops import FLOW_ID
from hopwire.lake.bronze.forgotten import FORGOTTEN_TABLE, forgotten_name, notes_of_messages, notes_of_node
from hopwire.lake.bronze.spans import SPANS_TABLE
from hopwire.lake.build import no_spark, rejudge
from hopwire.lake.inheritance import Inherited, inherited_of
from hopwire.lake.manifest import Manifest, StoredSource, hash_of
from hopwire.lake.parquet_output import write_rows
from hopwire.lake.removal import NO_FLOOR, Gone, Leaving, crossings_of_flows, flow_numbers, remove, rows_in, whole_lake
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.carried import CARRIED_TABLE
from hopwire.lake.silver.messages import MESSAGES_TABLE
from hopwire.lake.store import LakeRun, read_manifest, writing
from hopwire.lake.stored_flows import NUMBER
from hopwire.places import Place
from hopwire.report.words import spellings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Forgotten", "forget"]

EVER = 2**62
ENDS = ("from_node", "to_node", "home_node")
SEEN = ("left_incarnation", "left_sequence", "arrived_incarnation", "arrived_sequence")
OF_HOPS = (FLOW_ID, "message_key", *SEEN, *ENDS)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result of forgetting."""

    manifest: Manifest
    flow_count: int
    rows: Mapping[str, int]  # how many left each table
    of_sources: Mapping[str, int]  # how many sightings each source has lost


def forget(
    lake: Place | str,
    *,
    source: str = "",
    node: str = "",
    flow: str = "",
    settings: LakeSettings | None = None,
    spark: Callable[[], SparkSession] = no_spark,
    wait_seconds: float = 0.0,
) -> Forgotten:
    """Take a source, the traffic of a node or a flow out of a lake, out of all its old states, and off the disk.

    Other runs are waited for so long.
    """
    if sum(map(bool, (source, node, flow))) != 1:
        raise SettingsError("name one of them: a source, a node or a flow")
    settings = settings or LakeSettings()
    read_manifest(lake)  # a directory that is no lake is refused, and not made one
    with writing(lake, settings.file_mode, wait_seconds) as run:
        request = _Request(run, settings)
        asked = request.source(source) if source else request.node(node) if node else request.flow(flow)
        gone = request.forget(asked, spark)
    if not flow:
        rejudge(lake, spark, settings, wait_seconds)
    with writing(lake, settings.file_mode, wait_seconds) as run:
        forget_old(run.lake, settings, is_now=True)
        manifest = run.before
    rows = {name: count for name, count in gone.rows.items() if count}
    return Forgotten(manifest, len(asked.flows), rows, gone.sightings)


@dataclass(frozen=True)
class _AskedToForget:
    """What is to be forgotten."""

    flows: pa.Array
    is_other: Callable[[pa.Table], Bools] | None = None  # which sightings that are no messages
    source: str = ""
    node: bytes = b""


class _Request:
    """What somebody asks a run for."""

    def __init__(self, run: LakeRun, settings: LakeSettings) -> None:
        self._run, self._settings = run, settings
        self._carried = whole_lake(run)

    # -- what is meant

    def flow(self, text: str) -> _AskedToForget:
        """The flow that a correlation id means."""
        rows = rows_in(self._run, "gold.flows", [FLOW_ID, "correlation_id"])
        wanted = pa.array(list(spellings(text)), pa.binary())
        found = rows.filter(pc.or_(*(pc.is_in(rows[name], wanted) for name in (FLOW_ID, "correlation_id"))))
        if not len(found):
            raise LakeError(f"{self._run.lake}: has no flow {text!r:.80}; name all of its id; nothing was done")
        return _AskedToForget(found[FLOW_ID].combine_chunks())

    def source(self, name: str) -> _AskedToForget:
        """The flows with a sighting in a source."""
        if name not in self._run.before.sources:
            raise LakeError(f"{self._run.lake}: has no source {name!r:.80}; bronze.sources has all; nothing was done")

        def is_of(rows: pa.Table) -> Bools:
            return bools(pc.equal(rows["segment"], name))

        columns = ["segment", *NUMBER]
        own = [
            rows.filter(pa.array(is_of(rows))).select(list(NUMBER))
            for file in self._run.files(MESSAGES_TABLE.name)
            if len(rows := rows_in(self._run, MESSAGES_TABLE.name, columns, [file]))
        ]
        numbers = {number for rows in own for number in zip(*(rows[each].to_pylist() for each in NUMBER), strict=True)}
        keys = pa.array(sorted({number[0] for number in numbers}), pa.binary())
        found: set[bytes] = set()
        for hops in self._hops():
            near = hops.filter(pc.is_in(hops["message_key"], keys))
            for flow in pc.unique(near[FLOW_ID]).to_pylist() if len(near) else ():
                if flow_numbers(near.filter(pc.equal(near[FLOW_ID], pa.scalar(flow, pa.binary())))) & numbers:
                    found.add(flow)
        return _AskedToForget(pa.array(sorted(found), pa.binary()), is_of, source=name)

    def node(self, text: str) -> _AskedToForget:
        """The flows that a node took part in."""
        spans = rows_in(self._run, SPANS_TABLE.name, ["node", "node_name"])
        named = set(spans.filter(pc.equal(spans["node_name"], text))["node"].to_pylist())
        nodes = named or set(spellings(text))
        if len(named) > 1:
            raise LakeError(f"{self._run.lake}: several nodes are called {text!r:.80}; name one by its identity")
        is_in = pa.array(sorted(nodes), pa.binary())
        found: set[bytes] = set()
        known: set[bytes] = nodes & set(spans["node"].to_pylist())
        for hops in self._hops():
            for end in ENDS:
                near = hops.filter(pc.is_in(hops[end], is_in))
                found.update(near[FLOW_ID].to_pylist())
                known.update(pc.unique(near[end]).to_pylist())
        if not known:
            raise LakeError(f"{self._run.lake}: has no node {text!r:.80}; silver.clocks has all; nothing was done")
        node = min(known)

        def is_of(rows: pa.Table) -> Bools:
            both = (pc.equal(rows[name], pa.scalar(node, pa.binary())) for name in ("node", "peer"))
            return bools(pc.fill_null(pc.or_(*both), False))

        return _AskedToForget(pa.array(sorted(found), pa.binary()), is_of, node=node)

    def _hops(self) -> Sequence[pa.Table]:
        return [rows_in(self._run, "silver.hops", OF_HOPS, [file]) for file in self._run.files("silver.hops")]

    # -- forgetting

    def forget(self, asked: _AskedToForget, spark: Callable[[], SparkSession]) -> Gone:
        """Publish the lake without what is asked for."""
        run, names = self._run, dict(self._carried.names)
        ever = (-EVER, EVER) * 2
        inherited = self._inherited(asked)
        leaving = Leaving(asked.flows, *ever, floor_ns=NO_FLOOR, is_other=asked.is_other)
        gone = remove(run, self._settings, leaving, "forgotten", names)
        if asked.node:
            self._need_judge(run.before.tables[MESSAGES_TABLE.name].row_count - gone.rows[MESSAGES_TABLE.name], spark)
        sources = self._sources(gone, asked)
        self._put_notes(gone, asked)
        self._put_spans(asked)
        before = run.before.removal
        number = run.before.number + 1
        removal = msgspec.structs.replace(
            before,
            number=number,
            erased=number,
            inherited=inherited.to_bytes() if before.inherited or inherited.later else b"",
        )
        run.publish(sources, run.before.decoder, run.before.domains, removal)
        return gone

    def _inherited(self, asked: _AskedToForget) -> Inherited:
        """Give what is known from flows that are gone; by what a flow has proved of clocks others were judged."""
        if asked.node:
            return Inherited()
        before = inherited_of(self._run.before)
        if asked.source:
            return before
        found = crossings_of_flows(self._run, self._carried, asked.flows.to_pylist())
        later = quickest([*before.later, *(each for each in found if each.window > before.base.window)])
        return msgspec.structs.replace(before, later=later)

    def _need_judge(self, stay_count: int, spark: Callable[[], SparkSession]) -> None:
        """Start Spark if the sightings that stay need it, while nothing is done yet."""
        if stay_count <= self._settings.step_rows:
            return
        if spark is no_spark:
            said = f"{stay_count:,} sightings stay and are judged anew, which needs Spark"
            raise LakeError(f"{self._run.lake}: {said}: give `forget` a session (`spark`); nothing was done")
        spark()

    def _sources(self, gone: Gone, asked: _AskedToForget) -> dict[str, StoredSource]:
        """The sources; one of which nothing is left has no name any more."""
        found = {}
        for name, source in gone.sources.items():
            is_empty = source.row_count == source.expired + source.forgotten
            if name == asked.source or (asked.node and is_empty and gone.sightings[name]):
                found[forgotten_name(name)] = StoredSource(
                    source.size_bytes,
                    source.fingerprint,
                    source.row_count,
                    expired=source.expired,
                    forgotten=source.row_count - source.expired,
                )
            else:
                found[name] = source
        return found

    def _put_notes(self, gone: Gone, asked: _AskedToForget) -> None:
        run, rows = self._run, notes_of_messages(gone.messages)
        if asked.node:
            spans = rows_in(run, SPANS_TABLE.name, ["node", "last_seen_at_ns"])
            until = pc.max(spans["last_seen_at_ns"]).as_py()
            rows += notes_of_node(asked.node, EVER if until is None else until)
        known = rows_in(run, FORGOTTEN_TABLE.name, FORGOTTEN_TABLE.schema.names).to_pylist() if self._has_notes else []
        table = pa.Table.from_pylist([*known, *rows], FORGOTTEN_TABLE.schema)
        write_rows(run, FORGOTTEN_TABLE, hash_of(run.name), table)

    @property
    def _has_notes(self) -> bool:
        return FORGOTTEN_TABLE.name in self._run.before.tables

    def _put_spans(self, asked: _AskedToForget) -> None:
        """Take away who captured when, of a source or a node; then flows are judged anew."""
        if not (asked.source or asked.node):
            return
        run = self._run
        rows = rows_in(run, SPANS_TABLE.name, SPANS_TABLE.schema.names)
        column, value = ("segment", pa.scalar(asked.source)) if asked.source else ("node", pa.scalar(asked.node))
        write_rows(run, SPANS_TABLE, hash_of(run.name), rows.filter(pc.not_equal(rows[column], value)))
        if asked.node:
            if CARRIED_TABLE.name not in run.tables:
                run.replace(CARRIED_TABLE.name, run.files(CARRIED_TABLE.name))
            change = run.tables[CARRIED_TABLE.name]
            change.stored = msgspec.structs.replace(change.stored, basis="")  # the next step begins anew
