"""A step of the lake: new sightings in, all judged tables brought up to date, in this process and without Spark.

    step_tables(run, settings, names, basis_of)        # after the sources were taken in, before the run is published

1. The rows of new sources are read from silver.messages; of a source that has grown, only rows that are new.
2. `advance` (`flows/steps.py`) judges them with the sightings of open flows, and says which flows are closed.
3. Rows of flows that were closed are appended. Rows of open flows replace those of the last step. A file that has
   rows of a flow that was opened again is written anew without them.
4. Minutes of gold.links and gold.security whose hops have changed are made anew; all other files stay.

The tables are the same as those of a whole build on Spark, row for row. Where the last
step is of no use (a source was replaced by another, a message came again and a crossing may be mistaken), all sightings
of the lake are new. Where there are too many for one process, `WholeNeeded` is raised before anything is published:
then Spark judges the lake as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hopwire.errors import WholeNeeded
from hopwire.flows.clocks import ClockFold
from hopwire.flows.contract_parts import OF_MESSAGES, PART_SCHEMA, added_parts, contracts_of, parts_of
from hopwire.flows.coverage import Coverage, coverage_from_rows
from hopwire.flows.crossings import Crossing
from hopwire.flows.findings import Contract
from hopwire.flows.histograms import OF_REQUESTS, changed_minutes, latencies_of, minutes_asked
from hopwire.flows.hops import FLOW_ID
from hopwire.flows.lives import lives_from_clocks
from hopwire.flows.minutes import (
    BY_ARRIVAL,
    BY_DEPARTURE,
    OF_HOPS,
    crossings_in,
    links_of,
    minutes_by,
    security_of,
    signed_in,
    touched,
    unsigned_minutes,
)
from hopwire.flows.spans import PlacedSpan
from hopwire.flows.steps import CONTRACT, FlowTables, JudgedParts, StepState, advance, answered_in, unhandled_in
from hopwire.lake.at_once import CORES, at_once, threads_for
from hopwire.lake.gold.quality import quality_rows
from hopwire.lake.inheritance import Inherited, inherited_of
from hopwire.lake.kept_rows import keep_rows
from hopwire.lake.known_spans import spans_of
from hopwire.lake.manifest import StoredFile, StoredStep, part_name
from hopwire.lake.parquet_output import TableOutput
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.carried import CARRIED_TABLE, Carried, carried_from_rows, rows_from_carried
from hopwire.lake.silver.closed_flows import CLOSED_TABLE, index_rows, most_off_ns
from hopwire.lake.silver.crossings import CROSSINGS_TABLE, rows_from_crossings
from hopwire.lake.silver.messages import MESSAGES_TABLE, OF_SIGHTINGS, with_route
from hopwire.lake.silver.open_sightings import OPEN_TABLE
from hopwire.lake.store import LakeRun, dataset_of
from hopwire.lake.stored_flows import StoredFlows, TableFiles
from hopwire.lake.tables import Table, all_tables
from hopwire.lake.worker import INGESTED
from hopwire.model.units import NS_PER_MINUTE, NS_PER_US
from hopwire.places import Place

__all__ = ["OWN", "STEPPED", "LakeCounts", "begin_steps", "step_tables"]

STEPPED = (
    "silver.clocks", "silver.lives", "silver.hops", "gold.requests", "gold.flows", "gold.links", "gold.security",
    "gold.latencies", "gold.contracts", "gold.quality",
)  # fmt: skip
OWN = (CARRIED_TABLE.name, CLOSED_TABLE.name, CROSSINGS_TABLE.name, OPEN_TABLE.name)  # what only steps need
PIECE_ROWS = 100_000  # sightings that are judged at a time: enough for numpy, and some hundred megabytes
MINUTE_US = NS_PER_MINUTE // NS_PER_US
SHARE = JudgedParts(CORES, at_once)  # flows are judged in threads
SIGHTING_KEY = ["segment", "node", "incarnation", "sequence"]


def step_tables(
    run: LakeRun,
    settings: LakeSettings,
    names: Mapping[bytes, str],
    basis_of: Callable[[Table], str],
    on_piece: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Bring all judged tables up to date with silver.messages; a WholeNeeded says why no step can do this."""
    found = _Increment(run, settings, names, basis_of).found()
    try:
        _Increment(run, settings, names, basis_of, found).make(on_piece)
    except WholeNeeded:
        if found is None:
            raise
        for name in (*STEPPED, *OWN):
            run.tables.pop(name, None)
        _Increment(run, settings, names, basis_of).make(on_piece)


def begin_steps(
    run: LakeRun,
    settings: LakeSettings,
    names: Mapping[bytes, str],
    basis_of: Callable[[Table], str],
    crossings: Iterable[Crossing],
    index: Sequence[StoredFile],
    counts: LakeCounts | None = None,
) -> None:
    """Write down what the next step begins with, after Spark has judged the whole lake: all flows count as closed.

    A flow that can still change is opened again by the next step, as any closed flow.
    """
    _Increment(run, settings, names, basis_of).begin(crossings, index, counts)


@dataclass(frozen=True)
class _PartToWrite:
    """Rows of a table that become files of one name."""

    table: Table
    place: Place
    name: str
    rows: pa.Table

    @cached_property
    def typed(self) -> pa.Table:
        """The rows with the columns of the table, in one piece."""
        return self.rows.select(self.table.schema.names).cast(self.table.schema).combine_chunks()


@dataclass(frozen=True)
class _TablePut:
    """A table as it is to be: files that it has, and rows that are to be written."""

    table: Table
    kept: Iterable[StoredFile]
    closed: list[_PartToWrite]
    opened: _PartToWrite | None  # rows that the next step replaces
    files: Sequence[StoredFile]  # that are written already

    @property
    def parts(self) -> list[_PartToWrite]:
        """All rows that are to be written."""
        return [*self.closed, *([self.opened] if self.opened else [])]

    @property
    def opened_parts(self) -> list[_PartToWrite]:
        """The rows that the next step reads again."""
        return self.closed[:1] if self.table is OPEN_TABLE else [self.opened] if self.opened else []

    @cached_property
    def _paths(self) -> set[str]:
        return {file.path for file in self.kept}

    def keeps(self, file: StoredFile) -> bool:
        """Tell whether the table keeps a file that it has."""
        return file.path in self._paths


@dataclass
class _Increment:
    """One step on its way: from what the last step left, or from nothing."""

    run: LakeRun
    settings: LakeSettings
    names: Mapping[bytes, str]
    basis_of: Callable[[Table], str]
    before: Carried | None = None
    parts: int = 0  # that were begun
    waiting: list[_TablePut] = field(default_factory=list)  # tables whose rows are to be written

    @property
    def is_new(self) -> bool:
        """Whether nothing of what the lake has is of use."""
        return self.before is None

    @property
    def carried(self) -> Carried:
        """What the last step carried over; if nothing is of use, what flows that are gone have proved."""
        if self.before is not None:
            return self.before
        known = self.inherited
        return Carried(
            answered=known.answered,
            closed_answered=[(contract, 1) for contract in known.answered],
            signed=[(identity, 1) for identity in known.signed],
        )

    @cached_property
    def inherited(self) -> Inherited:
        """What flows that are gone have proved."""
        return inherited_of(self.run.before)

    # -- what the last step left

    def found(self) -> Carried | None:
        """Give what the last step carried over; None if there was none, or its tables have changed since."""
        stored = [self.run.before.tables.get(name) for name in (*STEPPED, *OWN)]
        steps = {each.step.name if each and each.step else "" for each in stored}
        if len(steps) > 1 or "" in steps or self.run.before.tables[CARRIED_TABLE.name].basis != self._rules_basis:
            return None
        for name in (*STEPPED, *OWN):
            step = self.run.before.tables[name].step
            assert step is not None
            rows = sum(file.row_count for file in self.run.files_before(name) if file.part == step.open_part)
            if rows != step.open_rows or not self.run.is_whole(name):
                return None
        files = TableFiles(self.run, CARRIED_TABLE)
        return carried_from_rows(files.read(files.closed))

    @cached_property
    def _rules_basis(self) -> str:
        return self.basis_of(CARRIED_TABLE)

    def begin(
        self, crossings: Iterable[Crossing], index: Sequence[StoredFile], counts: LakeCounts | None = None
    ) -> None:
        """Put what only steps need, and mark all tables as those of one step; without counts, the lake is counted."""
        for name in STEPPED:
            change = self.run.tables[name]
            change.stored = msgspec.structs.replace(change.stored, step=StoredStep(self.run.name))
        number = self.run.before.number + 1
        self._put_whole(CROSSINGS_TABLE.name, rows_from_crossings(crossings, number))
        self._put_whole(OPEN_TABLE.name, OPEN_TABLE.schema.empty_table())
        self._put_whole(CLOSED_TABLE.name, CLOSED_TABLE.schema.empty_table(), index)
        counts = counts or _counts_of(self, self.inherited)
        carried = Carried(
            answered=sorted(counts.answered, key=repr),
            closed_answered=list(counts.answered.items()),
            fold=self.inherited.base,
            closed_unhandled=list(counts.unhandled.items()),
            signed=list(counts.signed.items()),
            names=sorted(self.names.items()),
            contracts=[tuple(row.values()) for row in counts.contracts.to_pylist()],
        )
        self._put_whole(CARRIED_TABLE.name, rows_from_carried(carried))
        self._write_all()

    def batches(self, name: str, *columns: str) -> Iterator[pa.Table]:
        """Read some columns of a table as it is at this moment, some rows at a time."""
        table = all_tables()[name]
        if files := self.run.files(name):
            data = dataset_of(self.run.log(name).place, files, table.stored_schema)
            for batch in data.to_batches(columns=list(columns)):
                yield pa.Table.from_batches([batch])

    # -- the step

    def make(self, on_piece: Callable[[int, int], None]) -> None:
        """Judge what is new, and put all tables."""
        new = self._new_rows()
        known = spans_of(self.run).placed
        sightings = with_route(new).sort_by("seen_at_ns")
        state, closed = self._begun(sightings.schema)
        again = set() if self.is_new else closed.touching(self._renamed)
        for first in range(0, max(len(sightings), 1), PIECE_ROWS):
            piece = sightings.slice(first, PIECE_ROWS).combine_chunks()
            state = advance(state, piece, known, again, SHARE, self.settings.step_rows // 2)
            again = set()
            self._refuse_many(state.open)
            on_piece(min(first + PIECE_ROWS, len(sightings)), max(len(sightings), 1))
        self._put_all(state, closed, new, known)

    def _new_rows(self) -> pa.Table:
        """The rows of silver.messages that the last step did not see."""
        name = MESSAGES_TABLE.name
        before = [] if self.is_new else self.run.files_before(name)
        now = self.run.files(name)
        known, kept = {file.path for file in before}, {file.path for file in now}
        new, gone = [file for file in now if file.path not in known], [file for file in before if file.path not in kept]
        if max(sum(file.row_count for file in files) for files in (new, gone)) > self.settings.step_rows:
            raise WholeNeeded("there are too many new sightings for one process")
        columns = list(dict.fromkeys([*SIGHTING_KEY, *OF_SIGHTINGS, "routing", *OF_MESSAGES]))
        files = TableFiles(self.run, MESSAGES_TABLE)
        rows = files.read(new, columns)
        return _without(rows, files.read(gone, columns)) if gone else rows.combine_chunks()

    def _begun(self, sightings: pa.Schema) -> tuple[StepState, StoredFlows]:
        carried, base = self.carried, self.inherited.fold
        nothing = FlowTables(sightings.append(pa.field(FLOW_ID, pa.binary())).empty_table())
        closed = StoredFlows(self.run, carried, nothing, limit=self.settings.step_rows, is_new=self.is_new)
        opened, coverage = nothing.sightings, Coverage()
        if self.is_new:
            closed.count(self.inherited.later)
        else:
            files = TableFiles(self.run, OPEN_TABLE)
            opened = files.read(files.closed).select(nothing.sightings.schema.names).cast(nothing.sightings.schema)
            clocks = TableFiles(self.run, all_tables()["silver.clocks"])
            coverage = coverage_from_rows(clocks.read(clocks.closed))
        state = StepState(
            self.settings.rules,
            FlowTables(opened),
            closed,
            counted=Counter(dict(carried.counted)),
            base=base,
            fold=base.copy() if self.is_new else ClockFold.from_parts(carried.fold),
            folded=Counter(dict(carried.folded)),
            coverage=coverage,
            answered=frozenset(carried.answered),
        )
        return state, closed

    def _refuse_many(self, opened: FlowTables) -> None:
        """Leave flows that stay open to Spark, if they have more sightings than one process judges."""
        if len(opened.sightings) > self.settings.step_rows:
            raise WholeNeeded(f"flows that are still open have {len(opened.sightings):,} sightings")

    @cached_property
    def _renamed(self) -> set[bytes]:
        """The nodes that have another name than before: their rows are written anew."""
        before, now = dict(self.carried.names), dict(self.names)
        return {node for node in before.keys() | now.keys() if before.get(node) != now.get(node)}

    # -- the tables

    def _put_all(self, state: StepState, closed: StoredFlows, new: pa.Table, spans: Sequence[PlacedSpan]) -> None:
        fresh = closed.fresh.tables
        hops = _HopChange(
            pa.concat_tables([closed.hops.read(closed.hops.open), *closed.gone_hops]),
            pa.concat_tables([fresh.hops, state.open.hops]),
        )
        signed = Counter(dict(self.carried.signed))
        signed.subtract(signed_in(hops.before))
        signed.update(signed_in(hops.after))
        minutes = self._minutes(closed, hops, signed)
        self._put_whole("silver.clocks", state.clocks)
        self._put_whole("silver.lives", lives_from_clocks(state.clocks))
        self._put_flows("silver.hops", closed, fresh.hops, state.open.hops)
        self._put_flows("gold.requests", closed, fresh.requests, state.open.requests)
        self._put_flows("gold.flows", closed, fresh.flows, state.open.flows)
        self._put_minutes("gold.links", minutes.links, minutes.numbers)
        self._put_minutes("gold.security", minutes.security, minutes.numbers)
        self._put_latencies(closed, pa.concat_tables([fresh.requests, state.open.requests]))
        parts = added_parts([_parts_from(self.carried.contracts), parts_of(new)])
        schema = all_tables()["gold.contracts"].schema
        self._put_whole("gold.contracts", pa.Table.from_pylist(contracts_of(parts), schema))
        self._put_quality(hops, spans)
        index = index_rows(fresh.hops, closed.fresh.horizons(), most_off_ns(state.coverage))
        self._put_flows(CLOSED_TABLE.name, closed, index, None)
        crossings = rows_from_crossings(closed.fresh.windows(), self.run.before.number + 1)
        self._put(CROSSINGS_TABLE.name, self._files(CROSSINGS_TABLE.name).closed, [], crossings)
        self._put_whole(OPEN_TABLE.name, state.open.sightings)
        unhandled = closed.unhandled_count + Counter(unhandled_in(fresh.requests)["identity"].to_pylist())
        self._put_whole(CARRIED_TABLE.name, rows_from_carried(self._carry(state, closed, signed, unhandled, parts)))
        self._write_all()
        self._check_counts(state, closed, hops)

    def _check_counts(self, state: StepState, closed: StoredFlows, hops: _HopChange) -> None:
        """Begin anew if rows got lost or are there twice: each closed flow has its row in two tables."""
        counts = {name: self.run.tables[name].stored.row_count for name in (*STEPPED, *OWN)}
        before = sum(file.row_count for file in (*closed.hops.open, *closed.hops.closed))
        flows = counts[CLOSED_TABLE.name] + len(state.open.flows)
        expected = before - len(hops.before) + len(hops.after)
        if counts["gold.flows"] != flows or counts["silver.hops"] != expected:
            raise WholeNeeded("the rows of closed flows do not add up")

    def _carry(
        self,
        state: StepState,
        closed: StoredFlows,
        signed: Counter[bytes],
        unhandled: Counter[bytes],
        parts: pa.Table,
    ) -> Carried:
        return Carried(
            fold=state.fold.parts(),
            folded=list(state.folded.items()),
            counted=list(state.counted.items()),
            answered=sorted(state.answered, key=repr),
            closed_answered=list(closed.answered.items()),
            closed_unhandled=list(unhandled.items()),
            signed=[(identity, count) for identity, count in signed.items() if count],
            names=sorted(self.names.items()),
            contracts=[tuple(row.values()) for row in parts.to_pylist()],
        )

    def _files(self, name: str) -> TableFiles:
        return TableFiles(self.run, all_tables()[name], is_new=self.is_new)

    def _put_whole(self, name: str, rows: pa.Table, files: Sequence[StoredFile] = ()) -> None:
        """Put a small table in place of what it was; some files are written already."""
        self._put(name, [], [], rows, files=files)

    def _put_flows(self, name: str, closed: StoredFlows, rows: pa.Table, opened: pa.Table | None) -> None:
        """Add rows of closed flows, replace those of open flows, and take out those of flows that were opened."""
        files = self._files(name)
        gone = pa.array(sorted(closed.gone), pa.binary())
        self._put(name, *self._cut(files, closed.files_of_gone(files), ds.field(FLOW_ID).isin(gone)), rows, opened)

    def _put_minutes(self, name: str, rows: pa.Table, minutes: set[int]) -> None:
        """Replace some minutes of a table."""
        files = self._files(name)
        times = pa.array([minute * MINUTE_US for minute in sorted(minutes)], pa.int64())
        out = ds.field("minute").isin(times.cast(pa.timestamp("us", tz="UTC")))
        self._put(name, *self._cut(files, files.about(minutes, "minute", unit=MINUTE_US), out), rows)

    def _cut(self, files: TableFiles, some: Sequence[StoredFile], out: Any) -> tuple[list[StoredFile], list[pa.Table]]:
        """Give the files that have none of the rows that go out, and of the others, which are some, what stays."""
        cut = [file for file in some if files.has_rows(file, out)]
        paths = {file.path for file in cut}
        return [file for file in files.closed if file.path not in paths], [
            files.read([file], None, ~out) for file in cut
        ]

    def _put(
        self,
        name: str,
        kept: Iterable[StoredFile],
        rest: Iterable[pa.Table],
        rows: pa.Table,
        opened: pa.Table | None = None,
        files: Sequence[StoredFile] = (),
    ) -> None:
        """Let a table have rows, which are to be written, and some files of before."""
        table = all_tables()[name]
        closed = [self._part(table, some) for some in (rows, *rest)]
        self.waiting.append(
            _TablePut(table, kept, closed, self._part(table, opened) if opened is not None else None, files)
        )

    def _part(self, table: Table, rows: pa.Table) -> _PartToWrite:
        self.parts += 1
        return _PartToWrite(table, self.run.place(table.name), part_name(self.run.name, self.parts), rows)

    def _write_all(self) -> None:
        """Write the rows of all tables that wait, at once, and put the tables."""
        parts = [part for each in self.waiting for part in each.parts]
        parts.sort(key=lambda part: part.rows.nbytes, reverse=True)  # the largest is begun first
        files = at_once(self._written, parts, threads_for(self.run.lake))
        written = {part.name: some for part, some in zip(parts, files, strict=True)}
        for each in self.waiting:
            added = [file for part in each.parts for file in written[part.name]]
            opened = each.opened.name if each.opened else ""
            step = StoredStep(self.run.name, opened, sum(file.row_count for file in written.get(opened, ())))
            self.run.put(
                each.table.name,
                self.basis_of(each.table),
                each.table.stored_schema,
                [*each.files, *added],
                keep=each.keeps,
                made_from=each.table.reads,
                step=step,
            )
        keep_rows({part.name: part.typed for each in self.waiting for part in each.opened_parts})
        self.waiting.clear()

    def _written(self, part: _PartToWrite) -> list[StoredFile]:
        output = TableOutput(part.place, part.name, part.table.layout(self.names), self.settings)
        for batch in part.typed.to_batches():
            output.add(batch)
        return output.close()

    # -- minutes

    def _minutes(self, closed: StoredFlows, hops: _HopChange, signed: Counter[bytes]) -> _Minutes:
        """Make the minutes anew whose hops have changed."""
        before, after = crossings_in(hops.before), crossings_in(hops.after)
        numbers = touched(before, after)
        was_signed = {identity for identity, count in self.carried.signed if count}
        now_signed = {identity for identity, count in signed.items() if count}
        changed = was_signed ^ now_signed
        files = closed.hops
        if changed:
            is_of = ds.field("identity").isin(pa.array(sorted(changed), pa.binary())) & (
                ds.field("verdict") == "unsigned"
            )
            numbers |= unsigned_minutes(pa.concat_tables([after, files.read(files.closed, OF_HOPS, is_of)]), changed)
        if self._renamed:
            renamed = pa.array(sorted(self._renamed), pa.binary())
            for rows in (before, after):
                is_renamed = pc.or_(*(pc.is_in(rows[name], renamed) for name in ("from_node", "to_node")))
                numbers |= touched(rows.filter(is_renamed), rows.slice(0, 0))
        return _Minutes.of(pa.concat_tables([after, self._stored_crossings(closed, numbers)]), numbers, now_signed)

    def _stored_crossings(self, closed: StoredFlows, minutes: set[int]) -> pa.Table:
        """The crossings of closed flows of the lake in these minutes, or near them."""
        files = closed.hops.about(minutes, "left_at_ns", "arrived_at_ns", unit=NS_PER_MINUTE)
        if not files:
            return crossings_in(closed.hops.read([], OF_HOPS))
        first, last = min(minutes) * NS_PER_MINUTE, (max(minutes) + 1) * NS_PER_MINUTE
        where = None
        for name in ("left_at_ns", "arrived_at_ns"):
            is_near = (ds.field(name) >= first) & (ds.field(name) < last)
            where = is_near if where is None else where | is_near
        if closed.gone:
            where = where & ~ds.field(FLOW_ID).isin(pa.array(sorted(closed.gone), pa.binary()))
        return crossings_in(closed.hops.read(files, OF_HOPS, where))

    def _put_latencies(self, closed: StoredFlows, after: pa.Table) -> None:
        """Make the minutes of gold.latencies anew whose requests have changed."""
        before = pa.concat_tables([closed.requests.read(closed.requests.open), *closed.gone_requests])
        minutes = changed_minutes(before, after)
        files = closed.requests.about(minutes, "asked_at_ns", unit=NS_PER_MINUTE)
        where = ~ds.field(FLOW_ID).isin(pa.array(sorted(closed.gone), pa.binary())) if closed.gone else None
        stored = closed.requests.read(files, OF_REQUESTS, where)
        rows = pa.concat_tables([after.select(OF_REQUESTS), stored])
        is_wanted = pc.is_in(pa.array(minutes_asked(rows)), pa.array(sorted(minutes), pa.int64()))
        self._put_minutes("gold.latencies", latencies_of(rows.filter(is_wanted).combine_chunks()), minutes)

    # -- the balance

    def _put_quality(self, hops: _HopChange, spans: Sequence[PlacedSpan]) -> None:
        files = self._files("gold.quality")
        old = files.read(files.closed)
        sources = self.run.rows("bronze.sources")
        counts = self._counts(old.filter(pc.equal(old["step"], "decode")))
        linked = pc.sum(old.filter(pc.equal(old["step"], "link"))["rows_out"]).as_py() or 0
        linked_out = linked - _linked(hops.before) + _linked(hops.after)
        messages = sum(file.row_count for file in self.run.files(MESSAGES_TABLE.name))
        rows = quality_rows(sources, counts, spans, (messages, linked_out))
        self._put_whole("gold.quality", rows)

    def _counts(self, old: pa.Table) -> dict[str, dict[str, int]]:
        """The rows of each source in each table: counted where files are new, and as before where they are not."""
        names = ("message_count", "quarantine_count", "skipped_rows", "skipped")
        columns = (old[name].to_pylist() for name in ("segment", "rows_in", *names))
        found = {
            segment: dict(zip(("bronze_count", *names), counts, strict=True))
            for segment, *counts in zip(*columns, strict=True)
        }
        anew: dict[str, Counter[str]] = {}
        for name, column in (
            ("bronze.sightings", "bronze_count"),
            (MESSAGES_TABLE.name, "message_count"),
            ("silver.quarantine", "quarantine_count"),
        ):
            files = TableFiles(self.run, all_tables()[name])
            known = set() if self.is_new else {file.path for file in files.closed}
            new = [file for file in self.run.files(name) if file.path not in known]
            extra = ["direction", "skipped"] if name == "bronze.sightings" else []
            rows = files.read(new, ["segment", *extra])
            for segment, count in _counted(rows, "segment"):
                anew.setdefault(segment, Counter())[column] += count
            if extra:
                for row in (
                    rows.filter(pc.equal(rows["direction"], "skipped")).select(["segment", "skipped"]).to_pylist()
                ):
                    anew[row["segment"]].update(skipped_rows=1, skipped=row["skipped"])
        replaced = self._replaced_sources()
        for segment, counts in anew.items():
            found[segment] = dict(counts if segment in replaced else Counter(found.get(segment, {})) + counts)
        return found

    def _replaced_sources(self) -> set[str]:
        """The sources whose rows of before are not in the lake any more, or are there in new files.

        What leaves a lake leaves some tables of a part and not others: then a part has files in some tables only.
        """
        kept = {file.part for name in INGESTED for file in self.run.files(name)}
        return {name for name, source in self.run.before.sources.items() if not kept.issuperset(source.parts)}


@dataclass(frozen=True)
class LakeCounts:
    """What steps count of a whole lake."""

    answered: Counter[Contract]
    unhandled: Counter[bytes]
    signed: Counter[bytes]
    contracts: pa.Table  # rows of PART_SCHEMA


def _counts_of(lake: _Increment, known: Inherited) -> LakeCounts:
    """Count the rows of a lake, and what flows that are gone have proved."""
    answered: Counter[Contract] = Counter(known.answered)
    unhandled: Counter[bytes] = Counter()
    signed: Counter[bytes] = Counter(known.signed)
    contracts = PART_SCHEMA.empty_table()
    for rows in lake.batches("gold.requests", *CONTRACT, "outcome", "is_unhandled"):
        answered += answered_in(rows)
        unhandled += Counter(unhandled_in(rows)["identity"].to_pylist())
    for rows in lake.batches("silver.hops", "identity", "verdict"):
        signed += signed_in(rows)
    for rows in lake.batches(MESSAGES_TABLE.name, *OF_MESSAGES):
        contracts = added_parts([contracts, parts_of(rows)])
    return LakeCounts(answered, unhandled, signed, contracts)


@dataclass(frozen=True)
class _HopChange:
    """The hops that a step takes away, and those that it puts in their place."""

    before: pa.Table
    after: pa.Table


@dataclass(frozen=True)
class _Minutes:
    """Minutes that are made anew."""

    numbers: set[int]
    links: pa.Table
    security: pa.Table

    @classmethod
    def of(cls, crossings: pa.Table, numbers: set[int], signed: set[bytes]) -> _Minutes:
        """Make the rows of minutes; crossings of other minutes may be among the crossings."""
        wanted = pa.array(sorted(numbers), pa.int64())

        def within(*times: str) -> pa.Table:
            return crossings.filter(pc.is_in(pa.array(minutes_by(crossings, *times)), wanted)).combine_chunks()

        return cls(numbers, links_of(within(*BY_DEPARTURE)), security_of(within(*BY_ARRIVAL), signed))


def _linked(hops: pa.Table) -> int:
    """Count the sightings that hops are made of."""
    return sum(len(hops) - hops[name].null_count for name in ("left_sequence", "arrived_sequence"))


def _counted(rows: pa.Table, column: str) -> Iterator[tuple[str, int]]:
    for each in rows[column].value_counts():
        yield each["values"].as_py(), each["counts"].as_py()


def _parts_from(rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(PART_SCHEMA.names, row, strict=True)) for row in rows], PART_SCHEMA)


def _without(rows: pa.Table, known: pa.Table) -> pa.Table:
    """Give the rows that were not known; a source that does not have all its rows any more is refused."""
    segments = pc.unique(rows["segment"]).to_pylist()
    if not set(pc.unique(known["segment"]).to_pylist()) <= set(segments):
        raise WholeNeeded("a source is gone")
    found = [rows.slice(0, 0)]
    for segment in segments:
        own, old = (each.filter(pc.equal(each["segment"], segment)).combine_chunks() for each in (rows, known))
        has_grown = own.slice(0, len(old)) == old
        found.append(own.slice(len(old)) if has_grown else _unknown(own, old))
    return pa.concat_tables(found).combine_chunks()


def _unknown(rows: pa.Table, known: pa.Table) -> pa.Table:
    """Give the rows of a source that were not known, in whatever order its rows come."""
    numbers = [list(zip(*(each[name].to_pylist() for name in SIGHTING_KEY), strict=True)) for each in (rows, known)]
    old = set(numbers[1])
    is_known = pa.array([number in old for number in numbers[0]], pa.bool_())
    order = [(name, "ascending") for name in SIGHTING_KEY]
    if rows.filter(is_known).sort_by(order) != known.sort_by(order):
        raise WholeNeeded("a source was replaced by another")
    return rows.filter(pc.invert(is_known))
