"""The law of steps on a lake: any cutting of captures into builds gives the tables of one build, row for row."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from hopwire.capture import SCHEMA
from hopwire.capture.segment import sealed_path
from hopwire.capture.sources import list_sources, read_placed, read_source
from hopwire.domains_file import domains_from_file
from hopwire.errors import WholeNeeded
from hopwire.flows.steps import advance
from hopwire.lake import compaction, flow_tasks, increment, store, stored_flows, worker
from hopwire.lake.build import Built, build, step
from hopwire.lake.compaction import compact
from hopwire.lake.delta_log import DeltaLog
from hopwire.lake.increment import OWN, STEPPED
from hopwire.lake.manifest import StoredFile
from hopwire.lake.settings import LakeSettings
from hopwire.lake.simulation import simulate_here
from hopwire.lake.store import files_of, read_arrow, read_manifest
from hopwire.lake.stored_flows import TableFiles
from hopwire.lake.tables import all_tables
from hopwire.places import Place, put, remove_files
from hopwire.security import Domains
from hopwire.simulate import SimulateSettings
from tests.lake.captures import make_capture, make_sightings, write_segment
from tests.lake.days import Days

pytestmark = pytest.mark.slow

Rows = dict[str, list[str]]
SMALL_TREES = LakeSettings(max_flow_rows=4)


def no_spark() -> SparkSession:
    raise AssertionError("Spark was started")


@dataclass(frozen=True)
class CutCaptures:
    """Captures of a simulated network as many small files, in the order of time."""

    place: Path
    domains: Domains
    files: tuple[Path, ...]

    def build(self, lake: Path, live: Path, some: Iterable[Path], settings: LakeSettings | None = None) -> Built:
        """Build a lake from those that are there already, and some more."""
        live.mkdir(exist_ok=True)
        for path in some:
            shutil.copy(path, live)
        return build(no_spark, live, lake, domains=self.domains, settings=settings)


def write_part(path: Path, rows: pa.Table, is_sealed: bool = True) -> Path:
    with pa.OSFile(str(path), "wb") as file:
        stream = pa.ipc.new_stream(file, SCHEMA)
        for batch in rows.to_batches(max_chunksize=100):
            stream.write_batch(batch)
        if is_sealed:
            stream.close()
    return path


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> CutCaptures:
    out = tmp_path_factory.mktemp("steps") / "network"
    simulate_here(SimulateSettings(messages=1_000), out)
    place = out / "cut"
    place.mkdir()
    found = []
    for source in list_sources(out / "captures"):
        rows = pa.Table.from_batches(read_source(source)).combine_chunks()
        size = max(-(-len(rows) // 3), 20)
        for first in range(0, len(rows), size):
            part = rows.slice(first, size)
            path = place / f"{source.path.name.partition('.arrows')[0]}-{first // size}.arrows"
            found.append((pc.max(part["seen_at_ns"]).as_py(), write_part(path, part)))
    return CutCaptures(place, domains_from_file(str(out / "domains.toml")), tuple(path for _, path in sorted(found)))


def rows_of(lake: Place) -> Rows:
    """All rows of all tables that people read, sorted."""
    names = set(all_tables()) - set(OWN)
    return {name: sorted(map(repr, read_arrow(lake, name).to_pylist())) for name in sorted(names)}


def assert_same(found: Rows, expected: Rows) -> None:
    for name, rows in expected.items():
        assert set(found[name]) - set(rows) == set(), name
        assert found[name] == rows, name


@pytest.fixture(scope="module")
def whole(cut: CutCaptures, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    lake = tmp_path_factory.mktemp("whole") / "lake"
    build(no_spark, cut.place, lake, domains=cut.domains)
    return rows_of(lake)


@pytest.fixture(scope="module")
def whole_of_large_flows(cut: CutCaptures, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    lake = tmp_path_factory.mktemp("large") / "lake"
    build(no_spark, cut.place, lake, domains=cut.domains, settings=SMALL_TREES)
    assert sum(read_arrow(lake, "gold.flows")["is_oversized"].to_pylist()) > 2
    return rows_of(lake)


@pytest.mark.parametrize(
    ("count", "seed"), [(3, None), (4, 2), *(pytest.param(7, seed, marks=pytest.mark.long) for seed in (None, 2, 3))]
)
def test_any_cutting_in_any_order_gives_the_tables_of_one_build(
    cut: CutCaptures, whole: Rows, tmp_path: Path, count: int, seed: int | None
) -> None:
    files = list(cut.files) if seed is None else Random(seed).sample(cut.files, len(cut.files))
    size = -(-len(files) // count)
    for first in range(0, len(files), size):
        step(tmp_path / "lake", files[first : first + size], domains=cut.domains)
    assert read_manifest(tmp_path / "lake").number == -(-len(files) // size)
    assert_same(rows_of(tmp_path / "lake"), whole)


def test_compaction_between_steps_changes_no_row(
    cut: CutCaptures, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MAX_FILES", 1)
    lake, size = tmp_path / "lake", -(-len(cut.files) // 3)
    for first in range(0, len(cut.files), size):
        step(lake, cut.files[first : first + size], domains=cut.domains)
        before = rows_of(lake) if first else {}
        assert bool(compact(lake).before) == (first > 0), "the first step writes one file of each day"
        after = rows_of(lake) if first else {}
        assert_same(after, before)
    assert_same(after, whole)
    for name in ("bronze.sightings", "silver.messages", "silver.hops", "gold.requests"):
        days = [file.parent for file in files_of(lake, name)]
        assert max(map(days.count, days)) <= 3, "closed rows, rows of open flows, a source that may grow"


def test_flows_that_are_larger_than_their_trees_are_judged_by_steps(
    cut: CutCaptures, whole_of_large_flows: Rows, tmp_path: Path
) -> None:
    size = -(-len(cut.files) // 3)
    for first in range(0, len(cut.files), size):
        step(tmp_path / "lake", cut.files[first : first + size], domains=cut.domains, settings=SMALL_TREES)
    assert_same(rows_of(tmp_path / "lake"), whole_of_large_flows)


def too_large(*_: Any) -> None:
    raise WholeNeeded("a flow is too large")


@pytest.mark.spark
@pytest.mark.parametrize("is_by_table", [False, True])
def test_step_goes_on_from_a_lake_that_spark_has_judged(
    cut: CutCaptures,
    whole: Rows,
    whole_of_large_flows: Rows,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    is_by_table: bool,
) -> None:
    settings, expected = LakeSettings(), whole
    if is_by_table:
        monkeypatch.setattr("hopwire.lake.build.whole_tables", too_large)
        settings, expected = SMALL_TREES, whole_of_large_flows
    lake, live = tmp_path / "lake", tmp_path / "live"
    live.mkdir()
    half = len(cut.files) * 3 // 4
    for path in cut.files[:half]:
        shutil.copy(path, live)
    build(spark, live, lake, domains=cut.domains, settings=replace(settings, step_rows=1))
    assert read_manifest(lake).tables["silver.closed_flows"].row_count == len(read_arrow(lake, "gold.flows"))
    built = cut.build(lake, live, cut.files[half:], settings)
    assert built.tables == STEPPED
    crossings = read_arrow(lake, "silver.crossings")
    assert set(crossings["build"].to_pylist()) == {1, 2}, "the step has gone on from what Spark has found"
    assert_same(rows_of(lake), expected)


class WorkersHere:
    """What a whole build needs of Spark, in this process."""

    def range(self, begin: int, end: int, step: int, count: int) -> WorkersHere:
        self.numbers = range(begin, end, step)
        return self

    def mapInArrow(self, work: Any, schema: str) -> WorkersHere:
        batches = [pa.record_batch([pa.array([number])], names=["id"]) for number in self.numbers]
        self.rows = [SimpleNamespace(**row) for each in batches for out in work([each]) for row in out.to_pylist()]
        return self

    def collect(self) -> list[Any]:
        return self.rows


@pytest.mark.parametrize("piece_rows", [flow_tasks.PIECE_ROWS, 20])
def test_whole_lake_in_parts_and_pieces_has_the_rows_of_a_step(
    cut: CutCaptures, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_rows: int
) -> None:
    monkeypatch.setattr(flow_tasks, "PIECE_ROWS", piece_rows)
    settings = LakeSettings(step_rows=1)
    build(WorkersHere, cut.place, tmp_path / "lake", domains=cut.domains, settings=settings)  # type: ignore[arg-type]
    assert_same(rows_of(tmp_path / "lake"), whole)


@pytest.fixture
def spread_later(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tasks that spread files of the lake by flow; what is spread while captures are read has none."""
    tasks: list[Any] = []

    def spread(task: Any, *others: Any) -> Any:
        tasks.append(task)
        return flow_tasks.spread_files(task, *others)

    monkeypatch.setattr("hopwire.lake.whole.spread_files", spread)
    return tasks


SPREADING = LakeSettings(step_rows=1, task_bytes=50_000)  # so that the workers of Spark read captures


def test_sightings_are_spread_by_flow_while_captures_are_read(
    cut: CutCaptures, whole: Rows, tmp_path: Path, spread_later: list[Any]
) -> None:
    build(WorkersHere, cut.place, tmp_path / "lake", domains=cut.domains, settings=SPREADING)  # type: ignore[arg-type]
    assert not spread_later
    assert_same(rows_of(tmp_path / "lake"), whole)


def test_what_a_lake_had_is_spread_beside_what_is_read(
    cut: CutCaptures, whole: Rows, tmp_path: Path, spread_later: list[Any]
) -> None:
    lake, live = tmp_path / "lake", tmp_path / "live"
    half = len(cut.files) // 2
    cut.build(lake, live, cut.files[:half], LakeSettings())
    for path in cut.files[half:]:
        shutil.copy(path, live)
    build(WorkersHere, live, lake, domains=cut.domains, settings=SPREADING)  # type: ignore[arg-type]
    old = {path.name for path in (lake / "silver/messages").rglob("*.parquet")}
    spread = {Path(path).name for task in spread_later for table, path in task.files if table == "silver.messages"}
    assert spread < old
    assert spread
    assert_same(rows_of(lake), whole)


def test_parts_that_turn_out_too_small_are_spread_again(
    cut: CutCaptures, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread_later: list[Any]
) -> None:
    monkeypatch.setattr("hopwire.lake.whole.PART_ROWS", 1_000)
    monkeypatch.setattr("hopwire.lake.whole.MAX_PARTS", 64)  # each file has a place for each part
    monkeypatch.setattr("hopwire.lake.whole.SIGHTING_BYTES", 1)
    build(WorkersHere, cut.place, tmp_path / "lake", domains=cut.domains, settings=SPREADING)  # type: ignore[arg-type]
    assert spread_later
    assert_same(rows_of(tmp_path / "lake"), whole)


def test_whole_lake_has_flows_that_are_larger_than_their_trees(
    cut: CutCaptures, whole_of_large_flows: Rows, tmp_path: Path
) -> None:
    settings = replace(SMALL_TREES, step_rows=1)
    build(WorkersHere, cut.place, tmp_path / "lake", domains=cut.domains, settings=settings)  # type: ignore[arg-type]
    assert_same(rows_of(tmp_path / "lake"), whole_of_large_flows)


def test_flow_that_fits_into_no_process_is_left_to_spark(
    cut: CutCaptures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LakeSettings(step_rows=1)
    monkeypatch.setattr("hopwire.lake.whole.FLOW_ROWS", 5)
    monkeypatch.setattr("hopwire.lake.build._Build.make", too_large)
    with pytest.raises(WholeNeeded):
        build(WorkersHere, cut.place, tmp_path / "lake", domains=cut.domains, settings=settings)  # type: ignore[arg-type]
    assert not list((tmp_path / "lake").rglob("*.arrow")), "what was between the jobs is gone"


class Died(BaseException):
    """A process that is killed: nothing catches this."""


def test_step_that_dies_between_two_commits_leaves_the_lake_as_it_was(
    cut: CutCaptures, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    lake, live = tmp_path / "lake", tmp_path / "live"
    half = len(cut.files) // 2
    cut.build(lake, live, cut.files[:half])
    before = rows_of(lake)
    commit = DeltaLog.commit
    commits = len(read_manifest(lake).tables) - 1  # bronze.forgotten has no new rows

    def dying(limit: int) -> Callable[..., int]:
        left = iter(range(limit))

        def commit_or_die(*args: Any, **more: Any) -> int:
            if next(left, None) is None:
                raise Died
            return commit(*args, **more)

        return commit_or_die

    for limit in range(commits) if is_long else (0, 9, commits - 1):
        monkeypatch.setattr(DeltaLog, "commit", dying(limit))
        with pytest.raises(Died):
            cut.build(lake, live, cut.files[half:])
        assert read_manifest(lake).number == 1
    assert_same(rows_of(lake), before)
    monkeypatch.setattr(DeltaLog, "commit", commit)
    monkeypatch.setattr(store, "put_new", lambda *args: (_ for _ in ()).throw(Died))
    with pytest.raises(Died):
        cut.build(lake, live, ())
    monkeypatch.undo()
    assert cut.build(lake, live, ()).manifest.number == 2
    assert_same(rows_of(lake), whole)


def test_segments_that_grow_are_judged_by_what_is_new(
    cut: CutCaptures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[int] = []

    def counted(state: Any, sightings: pa.Table, *more: Any) -> Any:
        judged.append(len(sightings))
        return advance(state, sightings, *more)

    monkeypatch.setattr(increment, "advance", counted)
    lake, live = tmp_path / "lake", tmp_path / "live"
    live.mkdir()
    sources = {path: pa.Table.from_batches(read_source(list_sources(path)[0])) for path in cut.files[:6]}
    for path, rows in sources.items():
        write_part(live / f"{path.stem}.open.arrows", rows.slice(0, len(rows) // 2), is_sealed=False)
    build(no_spark, live, lake, domains=cut.domains)
    for path, rows in sources.items():
        (live / f"{path.stem}.open.arrows").unlink()
        write_part(live / path.name, rows)
    build(no_spark, live, lake, domains=cut.domains)
    assert sum(judged) == len(read_arrow(lake, "silver.messages"))
    build(no_spark, live, tmp_path / "other", domains=cut.domains)
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


class GrowingFile:
    """A segment that grows by whole batches and by halves of batches, and is sealed with its last."""

    def __init__(self, given: Place, place: Place) -> None:
        path = Path(str(given))
        self.content, self.sealed = path.read_bytes(), place / path.name  # of a crash, the last name says `open` too
        self.path = place / f"{sealed_path(path).stem}.open.arrows"
        self.ends = [end for _, end in read_placed(list_sources(path)[0], lambda fault: None)]
        self.is_over = False

    def grow(self, chance: Random) -> Place:
        """Write some more, and give where the file is now."""
        if self.ends:
            put(self.path, self.content[: self.ends.pop(0) + chance.choice([0, 7, 500])])
            return self.path
        remove_files(self.path)
        put(self.sealed, self.content)
        self.is_over = True
        return self.sealed


@pytest.mark.parametrize("is_compacted", [False, True])
def test_segments_that_grow_are_read_from_where_the_last_step_ended(
    cut: CutCaptures, whole: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compacted: bool
) -> None:
    read: list[int] = []

    def counted(*args: Any) -> Any:
        for batch, position in read_placed(*args):
            read.append(len(batch))
            yield batch, position

    monkeypatch.setattr(worker, "read_placed", counted)
    monkeypatch.setattr(compaction, "MAX_FILES", 1)
    lake, live, chance = tmp_path / "lake", tmp_path / "live", Random(3)
    live.mkdir()
    growing = [GrowingFile(path, live) for path in cut.files]
    at_once = -(-len(growing) // 2)
    while growing:
        step(lake, [each.grow(chance) for each in growing[:at_once]], domains=cut.domains)
        growing = [each for each in growing if not each.is_over]
        if is_compacted:
            compact(lake)
    assert sum(read) == len(read_arrow(lake, "bronze.sightings")), "no row was read twice"
    assert_same(rows_of(lake), whole)


@pytest.mark.parametrize(("known", "is_once"), [(10**6, True), (0, False)])
def test_hashes_of_closed_flows_are_read_once_as_long_as_they_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: int, is_once: bool
) -> None:
    read: list[str] = []

    def counted(files: TableFiles, file: StoredFile, column: str) -> Any:
        read.append(files.path(file))
        return numbers(files, file, column)

    numbers = TableFiles.numbers
    monkeypatch.setattr(TableFiles, "numbers", counted)
    monkeypatch.setattr(stored_flows, "MAX_KNOWN", known)
    days = Days(tmp_path)
    for number in range(4):
        days.day(number, count=4)
        paths = days.write(f"{number}")
        for lake in ("one", "other"):  # in turns
            step(tmp_path / lake, paths)
    assert read
    assert (len(read) == len(set(read))) == is_once


def test_segment_that_is_another_file_by_now_is_read_as_a_whole(cut: CutCaptures, tmp_path: Path) -> None:
    lake, live = tmp_path / "lake", tmp_path / "live"
    live.mkdir()
    first, second = (pa.Table.from_batches(read_source(list_sources(path)[0])) for path in cut.files[:2])
    step(lake, [write_part(live / "a.open.arrows", first, is_sealed=False)], domains=cut.domains)
    assert read_manifest(lake).sources["a.arrows"].position == (live / "a.open.arrows").stat().st_size
    longer = pa.concat_tables([second, first]).combine_chunks()
    step(lake, [write_part(live / "a.open.arrows", longer, is_sealed=False)], domains=cut.domains)
    step(tmp_path / "other", [live / "a.open.arrows"], domains=cut.domains)
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


def test_source_that_is_replaced_by_another_is_judged_with_all_others(tmp_path: Path) -> None:
    captures, lake = make_capture(tmp_path / "captures"), tmp_path / "lake"
    build(no_spark, captures, lake)
    write_segment(captures / "anna.arrows", make_sightings("anna", seed=2))
    build(no_spark, captures, lake)
    build(no_spark, captures, tmp_path / "other")
    assert_same(rows_of(lake), rows_of(tmp_path / "other"))


def test_captures_in_order_leave_closed_files_alone(cut: CutCaptures, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    half = len(cut.files) * 3 // 4
    cut.build(lake, tmp_path / "live", cut.files[:half])
    manifest = read_manifest(lake)
    closed = {}
    for name in ("silver.hops", "gold.requests", "gold.flows"):
        step = manifest.tables[name].step
        assert step is not None
        closed[name] = {path for path in files_of(lake, name) if not path.name.startswith(step.open_part)}
    cut.build(lake, tmp_path / "live", cut.files[half:])
    for name, paths in closed.items():
        assert paths <= set(files_of(lake, name)), name
