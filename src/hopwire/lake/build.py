"""A build: captures in, tables out. Only tables that are wanted or needed are built, and only if they have changed.

1. The workers read sources that are new or have changed (`ingest.py`); the other sources stay as they are.
2. A step brings all judged tables up to date in this process, at the cost of what is new (`increment.py`). Where a
   step is not enough, or only some tables are wanted, Spark builds each table whose basis has changed, behind the
   tables it reads, from files that no reader sees yet. Both ways give the same rows.
3. The balance is checked. If the rows do not add up, nothing is published and the build fails.
4. Everything is published at once (`store.py`), and what is old is forgotten (`retention.py`).

Spark is started only if there is something to do for it: small captures are read in this process, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture.file_faults import Fault
from hopwire.capture.segment import OPEN_SUFFIX
from hopwire.disk import shown_name
from hopwire.errors import BalanceError, LakeError, WholeNeeded
from hopwire.lake.bronze.forgotten import FORGOTTEN_TABLE
from hopwire.lake.bronze.sources import LEFT_ALONE, SOURCES_TABLE, rows_of_sources
from hopwire.lake.catalog import FoundSource, find_sources, tasks_of
from hopwire.lake.dataframes import frame_of, plain_errors, refuse_path, sized_shuffles, write_frames
from hopwire.lake.expiry import expire_old
from hopwire.lake.increment import OWN, STEPPED, begin_steps, step_tables
from hopwire.lake.ingest import decoder_basis, ingest, ingest_here, take_in
from hopwire.lake.inheritance import inherited_of
from hopwire.lake.known_spans import spans_of
from hopwire.lake.manifest import RULES, Manifest, StoredSource, hash_of, hash_of_bytes
from hopwire.lake.parquet_output import write_rows
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.closed_flows import CLOSED_TABLE
from hopwire.lake.silver.messages import MESSAGES_TABLE
from hopwire.lake.spreading import SpreadJob
from hopwire.lake.store import LakeRun, manifest_numbers, read_manifest, read_whole, writing
from hopwire.lake.tables import Table, all_tables, in_order
from hopwire.lake.whole import SIGHTING_BYTES, BegunSpread, spread_job, whole_tables
from hopwire.lake.worker import IngestTask
from hopwire.model.units import NS_PER_MINUTE, NS_PER_SECOND
from hopwire.places import Place, named_place, place_of
from hopwire.security import OPEN, Domains

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Built", "Progress", "Session", "build", "no_spark", "rejudge", "step", "step_sources"]

QUALITY = "gold.quality"
RECENT_NS = NS_PER_MINUTE  # rows of this time before the end of all captures have files of their own
NOT_IN_ROWS = (
    "file_mode",
    "keep_days",
    "keep_snapshots",
    "keep_seconds",
    "step_rows",
)  # settings that no row depends on

Progress: TypeAlias = Callable[[str, int, int], None]  # the step, how much of the step is done, how much there is
Session: TypeAlias = "SparkSession | Callable[[], SparkSession]"


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a build."""

    lake: Place
    manifest: Manifest
    read: tuple[str, ...]  # sources that were read
    tables: tuple[str, ...]  # tables that were made anew
    faults: tuple[str, ...]  # faults of the sources that were read, one line each
    bad: tuple[str, ...] = ()  # sources that could not be read, or not in full: someone should look at them
    too_old: int = 0  # sightings that were read, and are from before the day that the lake is kept from

    @property
    def left_out(self) -> str:
        """What was not taken in since it is too old, in a line; empty if there is nothing."""
        if not self.too_old:
            return ""
        day = _day_of(self.manifest.removal.before_ns)
        verb = "sighting is" if self.too_old == 1 else "sightings are"
        return f"{self.too_old:,} {verb} left out: the lake is kept from {day} on; gold.quality counts them as expired"

    @property
    def sealed_faults(self) -> list[str]:
        """The faults that whoever follows should hear of: half a batch of an open segment is none."""
        return [fault for fault in self.faults if not fault.partition(":")[0].endswith(OPEN_SUFFIX)]


def build(
    spark: Session,
    captures: Place | str,
    lake: Place | str,
    tables: Iterable[str] | None = None,
    *,
    domains: Domains = OPEN,
    settings: LakeSettings | None = None,
    redecode: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Built:
    """Bring a lake up to date with its captures: all tables, or the named tables and the tables that they read.

    With `redecode` every source is read again; a source that is gone is read from bronze.sightings. Tables that are not
    wanted stay as they are; `stale_tables` tells which of them are older than the tables they were made from.
    """
    wanted = in_order(all_tables() if tables is None else tables, all_tables())
    refuse_path(place_of(lake))
    found = find_sources(captures, _known_sources(lake))
    return _built(spark, found, lake, wanted, domains, settings or LakeSettings(), progress, redecode=redecode)


def step(
    lake: Place | str, sources: Iterable[Place], *, domains: Domains = OPEN, settings: LakeSettings | None = None
) -> Manifest:
    """Take new sources, or sources that have grown, into a lake, without Spark: as a stream does, again and again.

    The tables are those that a build of all sources gives. A WholeNeeded says that this is work for a build.
    """
    found: dict[str, FoundSource] = {}
    known = _known_sources(lake)
    for source in sources:
        found |= find_sources(source, known)[0]
    return step_sources(lake, found, domains=domains, settings=settings).manifest


def step_sources(
    lake: Place | str,
    found: Mapping[str, FoundSource],
    *,
    ends: Mapping[str, int | None] | None = None,
    gone: Mapping[str, StoredSource] | None = None,
    foreign: Sequence[Fault] = (),
    domains: Domains = OPEN,
    settings: LakeSettings | None = None,
    spark: Session | None = None,
) -> Built:
    """Make a step of sources that were found, as `step` does.

    `ends` says up to where segments are read; the next step goes on there. `gone` are sources that are not there any
    more, with what is missing of them. `foreign` are files that are no captures. `spark` judges the lake as a whole
    where there is more to judge than a step can; without it that is a WholeNeeded.
    """
    wanted = in_order(all_tables(), all_tables())
    used = settings or LakeSettings()
    return _built(spark or no_spark, (found, foreign), lake, wanted, domains, used, ends=ends, gone=gone)


def _known_sources(lake: Place | str) -> Mapping[str, StoredSource]:
    """The sources that a lake has, if there is a lake."""
    return read_manifest(lake).sources if manifest_numbers(place_of(lake)) else {}


def need_captures(captures: Iterable[Place | str], lake: Place | str) -> None:
    """Refuse captures that are not there, or of which none can be read, as a build does."""
    known = _known_sources(lake)
    for place in captures:
        find_sources(place, known)


def bad_captures(captures: Iterable[Place | str], lake: Place | str) -> list[str]:
    """Give the captures that are there and are not in a lake in full: those that a build calls bad."""
    known = _known_sources(lake)
    bad = []
    for place in captures:
        with suppress(LakeError, OSError):  # captures may be removed once they are read
            found, foreign = find_sources(place, known)
            bad += [*_bad_sources(found, known), *_bad_files(foreign)]
    return bad


def _bad_sources(found: Iterable[str], known: Mapping[str, StoredSource]) -> list[str]:
    return [name for name in found if name in known and known[name].is_bad]


def _bad_files(foreign: Iterable[Fault]) -> list[str]:
    return [shown_name(fault.path.name) for fault in foreign if fault.detail != LEFT_ALONE]


def rejudge(lake: Place | str, spark: Session, settings: LakeSettings, wait_seconds: float = 0.0) -> Manifest:
    """Judge the flows of a lake anew that what has left the lake has changed; nothing is read from captures."""
    wanted = in_order(all_tables(), all_tables())
    with writing(lake, settings.file_mode, wait_seconds) as run:
        build, before = _Build(run, spark, settings, lambda what, done, total: None), run.before
        build.put_sources(before.sources, ())
        build.judge(wanted)
        if not run.tables:
            return before
        removal = msgspec.structs.replace(before.removal, number=before.number + 1, erased=before.number + 1)
        return run.publish(before.sources, before.decoder, before.domains, removal, RULES)


def no_spark() -> SparkSession:
    """Say that there is more to do than a step can."""
    raise WholeNeeded("there is more to judge than a step can; build the lake: hopwire lake build CAPTURES LAKE")


def _built(
    spark: Session,
    sources: tuple[Mapping[str, FoundSource], Sequence[Fault]],
    lake: Place | str,
    wanted: Sequence[Table],
    domains: Domains,
    settings: LakeSettings,
    progress: Progress = lambda what, done, total: None,
    *,
    redecode: bool = False,
    ends: Mapping[str, int | None] | None = None,
    gone: Mapping[str, StoredSource] | None = None,
) -> Built:
    found, foreign = sources
    with writing(lake, settings.file_mode) as run:
        build = _Build(run, spark, settings, progress)
        basis = decoder_basis(domains)
        if run.before.domains and not domains.domains and not redecode:
            remedy = "name them again, or read all anew without them: --redecode"
            judges_before = ", ".join(run.before.domains)
            raise LakeError(f"the lake has judged signatures by the domains {judges_before}: {remedy}")
        stored = {**run.before.sources, **{name: each.stored for name, each in found.items()}}
        tasks = tasks_of(found, run, basis, redecode=redecode, ends=ends)
        known = {
            **build.read(tasks, stored, domains, basis, is_anew=redecode, are_all_wanted=_are_stepped(wanted)),
            **(gone or {}),
        }
        build.put_sources(known, foreign)
        build.judge(wanted)
        judges = [domain.name for domain in domains.domains]
        rules = RULES if _are_stepped(wanted) else run.before.rules
        manifest = run.publish(known, basis, judges, rules=rules) if run.tables else run.before
        forget_old(run.lake, settings)
    manifest = expire_old(lake, settings) or manifest
    read = tuple(dict.fromkeys(task.name for task in tasks))
    bad = _bad_sources(found, known)
    names = {name: each.source.path.name for name, each in found.items()}  # an open segment has another name
    told = dict.fromkeys([*read, *bad])
    faults = [f"{names.get(name, name)}: {fault}" for name in told for fault in known[name].faults]
    faults += [f"{shown_name(fault.path.name)}: {fault.detail}" for fault in foreign]
    bad += _bad_files(foreign)
    before = run.before.sources
    too_old = sum(known[name].expired - (before[name].expired if name in before else 0) for name in read)
    return Built(named_place(lake), manifest, read, tuple(build.made), tuple(faults), tuple(bad), max(too_old, 0))


def _are_stepped(wanted: Iterable[Table]) -> bool:
    """Tell whether all tables are wanted that a step makes."""
    return {*STEPPED, *OWN} <= {table.name for table in wanted}


def _day_of(at_ns: int) -> date:
    """Give the day of a time, in UTC."""
    return datetime.fromtimestamp(at_ns // NS_PER_SECOND, UTC).date()


def _bytes_of(rows: pa.Table) -> pa.Buffer:
    """Give rows as bytes that change with any value."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return sink.getvalue()


class _Build:
    """One build on its way."""

    def __init__(self, run: LakeRun, spark: Session, settings: LakeSettings, progress: Progress) -> None:
        self.run, self.settings, self.progress = run, settings, progress
        self.made: list[str] = []
        self.sources: Mapping[str, StoredSource] = run.before.sources
        self._notes: dict[str, Any] = {"inherited": inherited_of(run.before)}  # what was found on the way
        self._spark = spark
        self._begun: BegunSpread | None = None  # what was spread by flow while captures were read

    @property
    def spark(self) -> SparkSession:
        """The session, which starts with its first use."""
        if callable(self._spark):
            self._spark = self._spark()
        return self._spark

    def read(
        self,
        tasks: Sequence[IngestTask],
        found: Mapping[str, StoredSource],
        domains: Domains,
        basis: str,
        *,
        is_anew: bool,
        are_all_wanted: bool,
    ) -> Mapping[str, StoredSource]:
        """Read the sources of the tasks, and give all sources that the lake has then.

        If all tables are wanted and there is more than a step judges, sightings are spread by flow on the way.
        """
        if not tasks:
            return self.sources
        total = sum(task.size_bytes for task in tasks)
        self.progress("captures", 0, total)
        if total <= self.settings.task_bytes or self._spark is no_spark:
            reports = ingest_here(self.run, tasks, domains, self.settings)
        else:
            spark = self.spark
            spread = self._spread_job(total) if are_all_wanted else None
            with plain_errors("captures"):
                reports = ingest(
                    spark,
                    self.run,
                    tasks,
                    domains,
                    self.settings,
                    lambda done: self.progress("captures", done, total),
                    spread,
                )
            self._begun = BegunSpread.of(spread, reports) if spread else None
        self.progress("captures", total, total)
        self.sources = take_in(self.run, reports, found, basis, is_anew=is_anew)
        return self.sources

    def _spread_job(self, new_bytes: int) -> SpreadJob | None:
        """Give how sightings of captures are spread by flow, unless a step is likely to judge them."""
        known = self.run.before.tables.get(MESSAGES_TABLE.name)
        if new_bytes // SIGHTING_BYTES <= self.settings.step_rows:
            return None
        return spread_job(self.run, known.row_count if known else 0, new_bytes, self.settings.task_bytes)

    def put_sources(self, sources: Mapping[str, StoredSource], foreign: Sequence[Fault]) -> None:
        """Write bronze.sources, if its rows have changed."""
        rows = rows_of_sources(sources, foreign)
        basis = hash_of(RULES, hash_of_bytes(_bytes_of(rows)))
        if self._is_current(SOURCES_TABLE, basis):
            return
        write_rows(self.run, SOURCES_TABLE, basis, rows)
        if FORGOTTEN_TABLE.name not in self.run.before.tables:
            write_rows(self.run, FORGOTTEN_TABLE, "", FORGOTTEN_TABLE.schema.empty_table())

    def judge(self, wanted: Sequence[Table]) -> None:
        """Bring tables up to date with what was read, by a step or on Spark."""
        self.step(wanted)
        for table in wanted:
            if table.build is not None:
                self.make(table)
        self.begin_steps()
        self.check_balance()

    def step(self, wanted: Sequence[Table]) -> None:
        """Bring the judged tables up to date by a step, if all of them are wanted and a step is enough."""
        tables = [table for table in wanted if table.name in (*STEPPED, *OWN)]
        if not _are_stepped(wanted) or all(self._is_current(each, self._basis(each)) for each in tables):
            return
        try:
            step_tables(
                self.run,
                self.settings,
                self._node_names,
                self._basis,
                lambda done, total: self.progress("flows", done, total),
            )
            self.made += STEPPED
        except WholeNeeded:
            self._forget(tables)
            self._judge_whole(tables)

    def _judge_whole(self, tables: Sequence[Table]) -> None:
        """Let the workers judge the whole lake, unless a flow is too large: then Spark makes each table by itself."""
        try:
            with plain_errors("flows"):
                whole_tables(
                    self.spark,
                    self.run,
                    self.settings,
                    self._node_names,
                    self._basis,
                    self._recent_ns,
                    self.progress,
                    self._begun,
                )
            self.made += STEPPED
        except WholeNeeded:
            self._forget(tables)
            self._notes["is_whole"] = True

    def _forget(self, tables: Sequence[Table]) -> None:
        for table in tables:
            self.run.tables.pop(table.name, None)

    def make(self, table: Table) -> None:
        """Build a table, unless the table is up to date."""
        basis = self._basis(table)
        if self._is_current(table, basis):
            return
        self.progress(table.name, 0, 1)
        inputs = [all_tables()[name] for name in table.reads]
        size = sum(source.size_bytes for source in self.sources.values())
        with plain_errors(table.name), sized_shuffles(self.spark, size):
            frames = [self._frame(each) for each in inputs]
            rows, place = table.rows(frames, self.settings, self._notes), self.run.place(table.name)
            beside = (CLOSED_TABLE, self.run.place(CLOSED_TABLE.name)) if table.name == "gold.flows" else None
            files, self._notes[f"beside {table.name}"] = write_frames(
                table,
                rows,
                place,
                self.settings,
                run=self.run.name,
                names=self._node_names,
                beside=beside,
                recent_ns=self._recent_ns,
            )
        self.run.put(table.name, basis, table.stored_schema, files, made_from=table.reads)
        self.made.append(table.name)
        self.progress(table.name, 1, 1)

    def begin_steps(self) -> None:
        """Let the next build go on by a step, if Spark has judged the whole lake."""
        if "is_whole" not in self._notes:
            return
        crossings, index = self._notes.get("crossings"), self._notes.get("beside gold.flows")
        if crossings is None or index is None or not self.run.tables.keys() >= set(STEPPED):
            for name in OWN:
                self.run.put(name, "", all_tables()[name].stored_schema, [])
            return
        begin_steps(self.run, self.settings, self._node_names, self._basis, crossings, index)

    @cached_property
    def _recent_ns(self) -> int:
        """From when on rows are recent, and likely to be opened again by the next step."""
        return spans_of(self.run).last_seen_at_ns - RECENT_NS

    def _frame(self, table: Table) -> DataFrame:
        """A table as it is at this moment, without the columns for people."""
        return frame_of(self.spark, self.run.schema(table.name), self.run.paths(table.name), table.schema.names).select(
            table.schema.names
        )

    @cached_property
    def _node_names(self) -> dict[bytes, str]:
        return spans_of(self.run).node_names

    def _basis(self, table: Table) -> str:
        columns = [(column.name, str(column.type)) for column in table.stored_columns]
        bases = list(self.run.bases(table.reads).values())
        return hash_of(RULES, table.name, columns, bases, self._settings_in_rows)

    @cached_property
    def _settings_in_rows(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self.settings).items() if name not in NOT_IN_ROWS}

    def _is_current(self, table: Table, basis: str) -> bool:
        if table.name in self.run.tables:
            return self.run.tables[table.name].stored.basis == basis
        before = self.run.before.tables.get(table.name)
        return before is not None and before.basis == basis and self.run.is_whole(table.name)

    def check_balance(self) -> None:
        """Refuse a run whose rows do not add up."""
        if QUALITY not in self.run.tables:
            return
        for file in self.run.paths(QUALITY):
            rows = read_whole(file)
            for row in rows.filter(pc.invert(pc.fill_null(rows["is_balanced"], False))).to_pylist():
                where = row["segment"] or "the whole lake"
                raise BalanceError(
                    f"{where}: {row['rows_in']} rows went into step {row['step']}, {row['rows_out']} came out; "
                    "nothing was published: this is a fault of hopwire, please report it"
                )
