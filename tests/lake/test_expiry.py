"""What is too old leaves a lake: whole flows, out of all tables and off the disk; no other flow is judged anew."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hopwire.capture.sources import list_sources, read_source
from hopwire.capture.times import time_text
from hopwire.errors import LakeError
from hopwire.lake import expiry, retention
from hopwire.lake.build import Session, build, step
from hopwire.lake.compaction import compact
from hopwire.lake.expiry import expire, limit_of, limit_of_days
from hopwire.lake.manifest import part_name
from hopwire.lake.settings import LakeSettings
from hopwire.lake.simulation import _read_truth, check_lake
from hopwire.lake.store import files_of, read_arrow, read_manifest, writing
from hopwire.lake.tables import all_tables
from hopwire.simulate.check import check_tables
from tests.cli.running import hopwire
from tests.lake.days import DAY, FIRST_DAY, SECOND, Days, make_days
from tests.lake.killing import kill_at
from tests.lake.pure import put_rows
from tests.lake.test_increment import CutCaptures, assert_same, cut, no_spark, rows_of, too_large

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["cut"]
pytestmark = pytest.mark.slow

AT_ONCE = LakeSettings(keep_snapshots=1, keep_seconds=1e-9)
OF_FLOWS = ("silver.hops", "gold.requests", "gold.flows")


@dataclass(frozen=True)
class MadeDays:
    """Captures of three days, and lakes with the first of them and with the first two, each made once."""

    place: Path

    @property
    def days(self) -> list[list[Path]]:
        return [sorted((self.place / "captures").glob(f"*-{day:02}.arrows")) for day in range(3)]

    def lake(self, name: str, to: Path) -> Path:
        """Give a lake of its own to a test."""
        return Path(shutil.copytree(self.place / name, to / "lake"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeDays:
    made = MadeDays(tmp_path_factory.mktemp("days"))
    make_days(made.place / "captures", 3)
    step(made.place / "one", made.days[0])
    shutil.copytree(made.place / "one", made.place / "two")
    step(made.place / "two", made.days[1])
    return made


def flows_of(lake: Path) -> list[str]:
    return sorted(each.decode() for each in read_arrow(lake, "gold.flows")["correlation_id"].to_pylist())


def assert_balanced(lake: Path) -> None:
    rows = read_arrow(lake, "gold.quality").to_pylist()
    assert all(row["is_balanced"] for row in rows)
    read = [row for row in rows if row["step"] == "read"]
    assert sum(row["rows_in"] - row["expired"] for row in read) == len(read_arrow(lake, "bronze.sightings"))
    messages = len(read_arrow(lake, "silver.messages"))
    assert [(row["rows_in"], row["rows_out"]) for row in rows if row["step"] == "link"] == [(messages, messages)]


def test_day_leaves_all_tables_and_flows_over_midnight_stay_whole(made: MadeDays, tmp_path: Path) -> None:
    lake = made.lake("two", tmp_path)
    step(lake, made.days[2])
    before = flows_of(lake)
    rows = {name: {repr(row) for row in read_arrow(lake, name).to_pylist()} for name in OF_FLOWS}
    done = expire(lake, date(2026, 1, 2), AT_ONCE)
    gone = {flow for flow in before if flow.startswith(("day-0", "before-midnight-0"))}
    assert flows_of(lake) == [flow for flow in before if flow not in gone]
    assert done.rows["gold.flows"] == len(gone) == 21
    for name in OF_FLOWS:
        assert {repr(row) for row in read_arrow(lake, name).to_pylist()} < rows[name], name
    for name in ("bronze.sightings", "silver.messages", "silver.hops"):
        time = "seen_at_ns" if name != "silver.hops" else "left_at_ns"
        found = read_arrow(lake, name)
        old = found.filter(pc.less(found[time], FIRST_DAY + DAY))
        if "correlation_id" in old.column_names:
            assert set(old["correlation_id"].to_pylist()) == {b"over-midnight-0"}
    for name in ("gold.links", "gold.latencies"):
        first = pc.min(read_arrow(lake, name)["minute"].cast("int64")).as_py()
        assert first == (FIRST_DAY + DAY) // 1000 - 60_000_000, "the minute of the flow over midnight"
    assert not len(read_arrow(lake, "silver.quarantine").filter(pc.field("seen_at_ns") < FIRST_DAY + DAY))
    assert_balanced(lake)
    for path in lake.rglob("*"):
        assert path.is_dir() or b"the secret of day-0" not in path.read_bytes()
    manifest, found = read_manifest(lake), rows_of(lake)
    for name in all_tables():
        assert len(read_arrow(lake, name)) == manifest.tables[name].row_count
    asked = hopwire("lake", "sql", "select count(*) from flows", str(lake), "--csv")
    assert asked.out.split() == ["count_star()", "45"]
    build(no_spark, made.place / "captures", lake, redecode=True)
    again = rows_of(lake)
    for name in (*OF_FLOWS, "silver.messages", "bronze.sightings", "bronze.spans", "silver.clocks", "gold.contracts"):
        assert again[name] == found[name], "a whole build gives the same verdicts"


def first_seen(paths: Sequence[Path]) -> int:
    batches = [batch for path in paths for batch in read_source(list_sources(path)[0])]
    return min(int(pc.min(batch.column("seen_at_ns")).as_py()) for batch in batches)


def test_flows_that_stay_are_those_of_a_lake_that_never_lost_any(cut: CutCaptures, tmp_path: Path) -> None:
    """Wrong clocks, losses, kills: the limit is before everything that is still to come, and steps go on behind it."""
    lake, full, size = tmp_path / "lake", tmp_path / "full", -(-len(cut.files) // 3)
    step(full, cut.files, domains=cut.domains)
    for first in range(0, len(cut.files), size):
        some = cut.files[first : first + size]
        if first:
            limit = first_seen(cut.files[first:]) - SECOND
            expiry._expired(lake, limit, LakeSettings())
            assert_balanced(lake)
        step(lake, some, domains=cut.domains)
        assert_balanced(lake)
    stay = set(read_arrow(lake, "gold.flows")["flow_id"].to_pylist())
    assert 0 < len(stay) < len(read_arrow(full, "gold.flows"))
    for name in (*OF_FLOWS, "silver.clocks", "silver.lives", "bronze.spans"):
        rows = read_arrow(full, name).to_pylist()
        if name in OF_FLOWS:
            rows = [row for row in rows if row["flow_id"] in stay]
        found = sorted(map(repr, read_arrow(lake, name).to_pylist()))
        assert set(found) - set(map(repr, rows)) == set(), name
        assert found == sorted(map(repr, rows)), name
    assert_checked(lake, full, cut.place.parent / "truth")


def make_expired(tmp_path: Path) -> tuple[Path, Path, list[str]]:
    """A lake in which a flow that lasts stays among flows that leave, its captures, and its clocks before.

    A clock that is ahead shows times after the limit.
    """
    days, begin, lake = Days(tmp_path / "captures"), FIRST_DAY + 600 * SECOND, tmp_path / "lake"
    days.ask(b"lasts", begin, took=300 * SECOND, ahead=60 * SECOND)
    for each in range(40):
        days.ask(b"short-%d" % each, begin + 10 * each * SECOND, ahead=60 * SECOND)
    step(lake, days.write("all"))
    clocks = rows_of(lake)["silver.clocks"]
    expiry._expired(lake, begin + 200 * SECOND, LakeSettings())
    assert flows_of(lake) == ["lasts", *sorted(f"short-{each}" for each in range(20, 40))]
    return lake, days.place, clocks


def assert_judged_anew(spark: Session, lake: Path, captures: Path, clocks: list[str], step_rows: int) -> None:
    """All flows are judged anew, and nothing changes but the files."""
    before = rows_of(lake)
    build(spark, captures, lake, settings=LakeSettings(compression="none", step_rows=step_rows))
    found = rows_of(lake)
    assert found["silver.clocks"] == clocks
    for name in OF_FLOWS:
        assert found[name] == before[name], name


def test_whole_build_knows_what_flows_that_are_gone_have_proved_of_the_clocks(tmp_path: Path) -> None:
    lake, captures, clocks = make_expired(tmp_path)
    assert_judged_anew(no_spark, lake, captures, clocks, LakeSettings().step_rows)


@pytest.mark.spark
@pytest.mark.parametrize("by_tables", [False, True])
def test_spark_knows_what_flows_that_are_gone_have_proved_of_the_clocks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_tables: bool
) -> None:
    lake, captures, clocks = make_expired(tmp_path)
    if by_tables:
        monkeypatch.setattr("hopwire.lake.build.whole_tables", too_large)
    assert_judged_anew(spark, lake, captures, clocks, 1)


def assert_checked(lake: Path, full: Path, truth: Path) -> None:
    """What has left on purpose is not missed by the check; what else is not there is."""
    known = {(tally.aspect, tally.fault): tally for tally in check_lake(full, truth).tallies}
    checked = check_lake(lake, truth)
    for tally in checked.tallies:
        before = known[tally.aspect, tally.fault]
        assert (tally.missed <= before.missed, tally.false <= before.false) == (True, True), tally
    facts = sum(tally.expected for tally in known.values()) - sum(tally.expected for tally in checked.tallies)
    assert checked.gone == facts > 0
    day = time_text(read_manifest(lake).removal.before_ns)[:10]
    said = f"{facts:,} facts are not compared, since they have left the lake: the lake knows from {day} on"
    assert said in hopwire("lake", "check", str(lake), str(truth), columns=120).out
    read = partial(read_arrow, lake)
    missed = check_tables(all_tables(), read, partial(_read_truth, truth), left_count=1)
    assert (missed.gone, missed.is_same) == (0, False), "more is gone than has left on purpose"


def expired_in(lake: Path) -> int:
    return sum(source.expired for source in read_manifest(lake).sources.values())


def test_what_comes_late_is_not_taken_in_and_counted(made: MadeDays, tmp_path: Path) -> None:
    lake, days, captures = tmp_path / "lake", made.days, made.place / "captures"
    step(lake, days[1])
    expire(lake, date(2026, 1, 2))
    before, gone = flows_of(lake), expired_in(lake)
    built = build(no_spark, captures, lake)
    found = flows_of(lake)
    assert not [flow for flow in found if flow.startswith("day-0")]
    assert built.too_old == expired_in(lake) - gone > 44
    assert built.left_out.startswith(f"{built.too_old} sightings are left out: the lake is kept from 2026-01-02 on")
    assert set(before) < set(found)
    sources = {row["segment"]: row for row in read_arrow(lake, "bronze.sources").to_pylist()}
    assert (sources["anna-00.arrows"]["row_count"], sources["anna-00.arrows"]["expired"]) == (45, 44)
    assert_balanced(lake)
    number = read_manifest(lake).number
    assert build(no_spark, captures, lake).left_out == "", "what was left out before is not told again"
    assert_balanced(lake)
    assert flows_of(lake) == found
    assert not [row["faults"] for row in read_arrow(lake, "bronze.sources").to_pylist() if row["faults"]]
    build(no_spark, captures, lake, redecode=True)
    assert flows_of(lake) == found, "what has left stays away, also if everything is read again"
    assert_balanced(lake)
    assert read_manifest(lake).number > number


def test_lake_of_long_ago_is_empty_afterwards_and_goes_on(made: MadeDays, tmp_path: Path) -> None:
    lake, days = made.lake("one", tmp_path), made.days
    expire(lake, date(2026, 1, 3), AT_ONCE)
    assert flows_of(lake) == []
    assert len(read_arrow(lake, "bronze.sightings")) == len(read_arrow(lake, "silver.open_sightings")) == 0
    steps = [stored.step for stored in read_manifest(lake).tables.values() if stored.step]
    assert {(step.open_rows, step.name) for step in steps} == {(0, steps[0].name)}, "the next step can go on"
    assert_balanced(lake)
    step(lake, days[2])
    assert len(flows_of(lake)) == 22
    assert_balanced(lake)


def test_setting_takes_out_what_is_too_old_once_a_day(
    made: MadeDays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = (FIRST_DAY + 3 * DAY + 5 * SECOND) / 1e9
    monkeypatch.setattr(time, "time", lambda: now)
    lake, days = made.lake("two", tmp_path), made.days
    keep = LakeSettings(keep_days=2)
    step(lake, days[2], settings=keep)
    manifest = read_manifest(lake)
    assert manifest.removal.before_ns == limit_of(date(2026, 1, 2)) == limit_of_days(2, now)
    assert (manifest.number, len(flows_of(lake))) == (4, 45)
    assert step(lake, days[2], settings=keep).number == manifest.number + 1, "sources were counted anew, and no more"
    assert step(lake, days[2], settings=keep).number == manifest.number + 1


def test_dry_run_leaves_everything_and_an_old_state_stays_until_its_time_is_over(
    made: MadeDays, tmp_path: Path
) -> None:
    lake = made.lake("two", tmp_path)
    before = {path: path.read_bytes() for path in lake.rglob("*.*") if path.is_file()}
    old = read_manifest(lake)
    files = files_of(lake, "gold.flows", old)
    said = json.loads(hopwire("lake", "expire", str(lake), "--before", "2026-01-02", "--dry-run", "--json").out)
    assert {path: path.read_bytes() for path in lake.rglob("*.*") if path.is_file()} == before
    done = json.loads(hopwire("lake", "expire", str(lake), "--before", "2026-01-02", "--json").out)
    assert said["rows"] == done["rows"]
    assert all(path.exists() for path in files)
    assert len(read_arrow(lake, "gold.flows", manifest=old)) == 44
    assert (said["sources"], said["is_dry_run"]) == ({"anna-00.arrows": 43, "bert-00.arrows": 43}, True)
    status = json.loads(hopwire("lake", "status", str(lake), "--json").out)
    assert (status["known_since_ns"], status["expired"]) == (FIRST_DAY + DAY, 86)
    assert "the lake knows from 2026-01-02 on; 86 sightings" in hopwire("lake", "status", str(lake)).out
    assert hopwire("lake", "expire", str(lake), "--before", "2026-01-02").out == "nothing is older than 2026-01-02\n"
    expire(lake, date(2026, 1, 2), LakeSettings(keep_seconds=1e-9))
    assert not all(path.exists() for path in files), "old states hold nothing back, however few there are"
    with pytest.raises(LakeError, match="has no version"):
        read_manifest(lake, old.number)


def test_day_that_is_none_is_refused_in_one_line(made: MadeDays, tmp_path: Path) -> None:
    for day in ("yesterday", "2026-13-01", "0001-01-01x", "2999-01-01"):
        refused = hopwire("lake", "expire", str(made.place / "one"), "--before", day)
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert read_manifest(made.place / "one").number == 1
    assert hopwire("lake", "expire", str(tmp_path / "none"), "--before", "2026-01-01").code == 2
    assert not (tmp_path / "none").exists()


def test_day_that_has_just_begun_is_refused_until_nothing_of_before_can_change(
    made: MadeDays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, began = made.lake("one", tmp_path), (FIRST_DAY + DAY) / 1e9
    monkeypatch.setattr(time, "time", lambda: began + 599)
    with pytest.raises(LakeError, match="2026-01-02 began less than 10 min ago"):
        expire(lake, date(2026, 1, 2))
    assert read_manifest(lake).number == 1
    monkeypatch.setattr(time, "time", lambda: began + 601)
    assert expire(lake, date(2026, 1, 2)).manifest.number == 2


def test_expiry_that_is_killed_shows_nothing_half_and_is_done_by_the_next(made: MadeDays, tmp_path: Path) -> None:
    before = rows_of(made.place / "two")
    published = set()
    lakes = {point: made.lake("two", tmp_path / str(point)) for point in (7, 25)}
    kill_at({point: f"expire({str(lake)!r}, date(2026, 1, 2), AT_ONCE)" for point, lake in lakes.items()})
    for lake in lakes.values():
        published.add(read_manifest(lake).number)
        if read_manifest(lake).number == 2:
            assert_same(rows_of(lake), before)
        else:
            assert len(flows_of(lake)) == 23
            step(lake, made.days[2])
        expire(lake, date(2026, 1, 2), AT_ONCE)
        found = flows_of(lake)
        assert "over-midnight-0" in found
        assert not [flow for flow in found if flow.startswith(("day-0", "before-midnight-0"))]
        assert_balanced(lake)
        for path in lake.rglob("*.parquet"):
            assert b"the secret of day-0" not in path.read_bytes()
    assert published == {2, 3}, "one was killed before its manifest was there, one after"


def test_log_of_a_table_has_no_more_than_its_manifests_need(tmp_path: Path) -> None:
    settings = LakeSettings(keep_snapshots=2, keep_seconds=1e-9)
    sizes = []
    for number in range(45):
        with writing(tmp_path) as run:
            put_rows(
                run, "gold.flows", pa.table({"number": [number]}), str(number), f"{part_name(run.name, 0)}.parquet"
            )
            run.publish({}, "")
            retention.forget_old(run.lake, settings)
        sizes.append(len(list((tmp_path / "gold" / "flows" / "_delta_log").iterdir())))
        assert read_arrow(tmp_path, "gold.flows")["number"].to_pylist() == [number]
    assert max(sizes) < 36
    assert len(list((tmp_path / "_hopwire" / "manifests").iterdir())) <= retention.SWEEP + 2
    for path in (tmp_path / "_hopwire" / "manifests").iterdir():
        manifest = read_manifest(tmp_path, int(path.stem))
        assert read_arrow(tmp_path, "gold.flows", manifest=manifest)["number"].to_pylist() == [manifest.number - 1]


STEPPER = """
import sys
from pathlib import Path
from hopwire.errors import LakeError
from hopwire.lake.build import step

lake, *sources = map(Path, sys.argv[1:])
for pair in zip(sources[::2], sources[1::2]):
    while True:
        try:
            step(lake, pair)
            break
        except LakeError as error:
            if "is being built" not in str(error):
                raise
"""


def read_on(lake: Path, done: Event) -> int:
    """Read the newest state again and again, each as a whole; give how many states were read."""
    numbers = set()
    while not done.wait(0.05):
        manifest = read_manifest(lake)
        for name in ("gold.flows", "silver.messages"):
            assert len(read_arrow(lake, name, manifest=manifest)) == manifest.tables[name].row_count
        numbers.add(manifest.number)
    return len(numbers)


def test_steps_compaction_expiry_and_readers_go_on_beside_one_another(made: MadeDays, tmp_path: Path) -> None:
    lake, done = made.lake("one", tmp_path), Event()
    later = [str(path) for some in made.days[1:] for path in some]
    with (
        ThreadPoolExecutor(1) as reader,
        subprocess.Popen([sys.executable, "-c", STEPPER, str(lake), *later]) as stepper,
    ):
        reading = reader.submit(read_on, lake, done)
        try:
            number = 0
            while stepper.poll() is None:
                number += 1
                with suppress(subprocess.TimeoutExpired):
                    stepper.wait(0.3)  # so that both come to their turn
                try:
                    compact(lake) if number % 2 else expire(lake, date(2026, 1, 2))
                except LakeError as error:
                    assert "is being built" in str(error)
        finally:
            done.set()
        assert (stepper.wait(), reading.result() > 1) == (0, True)
    expire(lake, date(2026, 1, 3))
    compact(lake)
    expected = [f"day-2-{each:03}" for each in range(20)]
    assert flows_of(lake) == sorted([*expected, "before-midnight-2", "over-midnight-1", "over-midnight-2"])
    assert_balanced(lake)
