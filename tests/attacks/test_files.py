"""Who can write to captures or to a lake can falsify what is there, but touches no file outside and hangs nobody."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from hopwire.capture import CaptureSettings, CaptureWriter, Direction, FaultKind, follow_capture, list_segments
from hopwire.capture.sources import list_sources, read_source
from hopwire.cli.exits import ExitCode
from hopwire.cli.main import run
from hopwire.errors import CaptureError, LakeError, SettingsError
from hopwire.lake import build as runs
from hopwire.lake.bronze.sources import SOURCES_TABLE, rows_of_sources
from hopwire.lake.build import build
from hopwire.lake.catalog import find_sources
from hopwire.lake.manifest import Manifest, StoredSource, StoredTable, stale_tables
from hopwire.lake.parquet_output import TableLayout, TableOutput, write_rows
from hopwire.lake.readable import TIMESTAMP
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import files_of, manifest_numbers, manifest_path, read_arrow, read_manifest, writing
from hopwire.lake.tables import all_tables
from hopwire.simulate import SimulateSettings
from tests.cli.running import hopwire
from tests.lake.captures import make_capture, make_sightings, write_segment
from tests.lake.test_store import fill, numbers_in
from tests.test_disk import THINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def modes_in(place: Path) -> set[int]:
    return {stat.S_IMODE(path.lstat().st_mode) for path in (place, *place.rglob("*"))}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    fill(tmp_path / "lake", "one", [1])
    fill(tmp_path / "lake", "two", [2])
    return tmp_path / "lake"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim.parquet"
    path.write_text("mine")
    return path


# -- paths out of the files of a lake


def elsewhere(victim: Path) -> list[str]:
    return [
        str(victim),
        f"file://{victim}",
        "../../../victim.parquet",
        "date=2026-01-31/../../../../victim.parquet",
        "date=..%2F../victim.parquet",
        "./two.parquet",
        "a/two.parquet",
        "two.txt",
        "_delta_log/two.json",
        "C:/victim.parquet",
        "..\\..\\victim.parquet",
        "x%00.parquet",
        "s3://bucket/two.parquet",
        "",
    ]


@pytest.mark.parametrize("number", range(14))
def test_log_lets_nothing_elsewhere_be_read_or_removed(lake: Path, victim: Path, number: int) -> None:
    newest = lake / "gold" / "t" / "_delta_log" / "00000000000000000001.json"
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    (added,) = (line["add"] for line in lines if "add" in line)
    added["path"] = elsewhere(victim)[number]
    newest.write_text("\n".join(map(json.dumps, lines)))
    for use in (
        numbers_in,
        lambda lake: fill(lake, "three", [3]),
        lambda lake: forget_old(lake, LakeSettings(keep_snapshots=1, keep_seconds=1e-9)),
    ):
        try:
            use(lake)
        except LakeError as error:
            assert "\n" not in str(error)
            said = ("expected the path of a Parquet file within the table", "cannot be read")
            assert any(each in str(error) for each in said)
        else:
            assert use is not numbers_in
    assert victim.read_text() == "mine"
    assert (lake / "gold" / "t" / "one.parquet").exists(), "nothing was removed"


TABLE = {"version": 0, "basis": "", "schema": ""}
# fmt: off
MANIFESTS: list[tuple[dict[str, Any], str]] = [
    ({"tables": {"../x": TABLE}},                                "found the table '../x'"),
    ({"tables": {"gold.t": {**TABLE, "made_from": {"x": "y"}}}}, "made from 'x', which is not"),
    ({"tables": {"gold.t": {**TABLE, "version": -1}}},           "found version -1 of gold.t"),
    ({"tables": []},                                             "is damaged"),
    ({"number": 7},                                              "found the number 7, expected 2"),
]
# fmt: on


@pytest.mark.parametrize(("changes", "said"), MANIFESTS)
def test_manifest_that_no_run_has_written_is_one_line(lake: Path, changes: dict[str, Any], said: str) -> None:
    manifest_path(lake, 2).write_text(json.dumps({"format": 2, "number": 2, **changes}))
    with pytest.raises(LakeError, match=said):
        read_manifest(lake)


def test_tables_that_are_made_from_one_another_come_to_an_end() -> None:
    tables = {
        "gold.a": StoredTable(0, "x", "", made_from={"gold.b": "x"}),
        "gold.b": StoredTable(0, "x", "", made_from={"gold.a": "x"}),
    }
    assert stale_tables(Manifest(tables=tables)) == {}


# -- symlinks in a lake


@pytest.mark.parametrize(
    "name", ["_hopwire", "_hopwire/work", "_hopwire/manifests", "gold", "gold/t", "gold/t/_delta_log"]
)
def test_directory_of_a_lake_that_is_a_symlink_is_refused(lake: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    if (lake / name).exists():
        (lake / name).rename(outside / "moved")
    (lake / name).symlink_to(outside / "moved" if (outside / "moved").exists() else outside)
    before = sorted(outside.rglob("*"))
    with pytest.raises(LakeError, match="is a symlink, expected a directory of the lake itself"):
        fill(lake, "three", [3])
    assert sorted(outside.rglob("*")) == before


def test_symlink_in_the_place_of_a_table_is_refused(lake: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (lake / "gold" / "t").rename(outside)
    (lake / "gold" / "t").symlink_to(outside)
    schema = pa.schema([("date", pa.date32()), ("minute", TIMESTAMP)])
    rows = pa.record_batch([pa.array([1_700_000_000_000_000], TIMESTAMP)], ["minute"])
    output = TableOutput(lake / "gold" / "t", "x", TableLayout(schema, ("minute",)), LakeSettings())
    output.add(rows)
    with pytest.raises(LakeError, match="is a symlink, expected a directory of the lake itself"):
        output.close()
    assert [file.name for file in outside.iterdir() if file.name.startswith("x")] == []


def test_symlink_in_the_place_of_the_lock_is_refused(lake: Path, victim: Path) -> None:
    (lake / "_hopwire" / "lock").unlink()
    (lake / "_hopwire" / "lock").symlink_to(victim)
    with pytest.raises((LakeError, OSError)):
        fill(lake, "three", [3])
    assert victim.read_text() == "mine"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("words", "make"), THINGS, ids=range(len(THINGS)))
@pytest.mark.parametrize("name", ["manifests", "log"])
def test_manifest_or_log_that_is_no_file_is_named_and_not_waited_for(
    lake: Path, words: str, make: Callable[[Path], object], name: str
) -> None:
    path = (
        Path(str(manifest_path(lake, 2)))
        if name == "manifests"
        else lake / "gold" / "t" / "_delta_log" / f"{1:020}.json"
    )
    path.unlink()
    make(path)
    for use in (numbers_in, lambda lake: fill(lake, "three", [3])):
        with pytest.raises((LakeError, OSError), match=f"is {words}, expected a regular file"):
            use(lake)


@pytest.mark.parametrize("name", ["two.parquet", "0123456789ab-00000-01234567.parquet", "date=2026-01-31"])
def test_what_is_forgotten_is_no_symlink_and_nothing_behind_one(lake: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "0123456789ab-00000-01234567.parquet"
    file.write_text("mine")
    os.utime(file, (1, 1))
    path = lake / "gold" / "t" / name
    path.unlink(missing_ok=True)
    path.symlink_to(outside if name.startswith("date") else file)
    forget_old(lake, LakeSettings(keep_snapshots=1, keep_seconds=1e-9))
    assert manifest_numbers(lake) == [2]
    assert file.read_text() == "mine"
    assert path.is_symlink()


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("words", "make"), THINGS, ids=range(len(THINGS)))
def test_file_of_a_table_that_is_none_is_named_and_not_waited_for(
    lake: Path, words: str, make: Callable[[Path], object]
) -> None:
    (lake / "gold" / "t" / "two.parquet").unlink()
    make(lake / "gold" / "t" / "two.parquet")
    with pytest.raises(LakeError, match=rf"gold\.t: two\.parquet cannot be read \(it is {words}"):
        read_arrow(lake, "gold.t")
    fill(lake, "three", [3])
    assert numbers_in(lake) == [3]


def test_lake_itself_may_be_a_symlink_that_the_user_names(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(lake)
    fill(tmp_path / "latest", "three", [3])
    assert numbers_in(tmp_path / "latest") == numbers_in(lake) == [3]


# -- what lies among captures


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    return make_capture(tmp_path / "captures")


def put_bad_sources(captures: Path) -> dict[str, str]:
    """Put one of each kind there, and say what is to be said of it."""
    said = {}
    for number, (words, make) in enumerate(THINGS):
        for name in (
            f"bad-{number}.arrows",
            f"live-{number}.open.arrows",
            f"bad-{number}.parquet",
            f"bad-{number}.pcap",
        ):
            make(captures / name)
            said[name] = f"is {words}, expected a regular file"
    (captures / os.fsdecode(b"bad-\xff.arrows")).write_bytes(b"x")
    said["bad-\\xff.arrows"] = "its name is not UTF-8; rename it"
    os.mkfifo(captures / "anna.json")  # the index of a segment
    return said


@pytest.mark.timeout(30)
def test_what_is_no_file_is_a_source_that_cannot_be_read_and_ends_nothing(captures: Path) -> None:
    said = put_bad_sources(captures)
    found, bad = find_sources(captures)
    assert sorted(found) == ["anna.arrows", "bert.arrows"]
    assert {os.fsencode(fault.path.name).decode("utf-8", "backslashreplace"): fault.detail for fault in bad} == said
    faults = [fault for source in list_sources(captures) for fault in faults_of(source)]
    assert {fault.kind for fault in faults} == {FaultKind.NOT_REGULAR, FaultKind.FOREIGN}
    segments = [segment for segment in list_segments(captures) if segment.fault]
    assert len(segments) == 2 * len(THINGS) + 1
    told: list[Any] = []
    assert len(list(follow_capture(captures, lambda: False, on_fault=told.append))) > 0
    assert len(told) == len(segments)
    with pytest.raises(CaptureError, match="expected a regular file"):
        list(read_source(next(source for source in list_sources(captures) if source.fault)))


def faults_of(source: Any) -> list[Any]:
    faults: list[Any] = []
    list(read_source(source, on_fault=faults.append))
    return faults


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("arguments", [["capture", "ls"], ["capture", "cat"], ["decode", "-f"]])
def test_fifo_hangs_no_command(captures: Path, arguments: list[str]) -> None:
    os.mkfifo(captures / "x.arrows")
    path = captures / "anna.arrows" if arguments[0] == "decode" else captures
    done = hopwire(*arguments, str(path))
    assert done.out
    if arguments[0] == "capture":
        assert done.code == ExitCode.USAGE
        assert "x.arrows: is a FIFO, expected a regular file" in done.err
        alone = hopwire(*arguments, str(captures / "x.arrows"))
        assert (alone.code, alone.err.count("\n")) == (ExitCode.USAGE, 1)


@pytest.mark.timeout(20)
def test_symlink_that_the_user_names_is_read(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "one.arrows").symlink_to(captures / "anna.arrows")
    (tmp_path / "all").symlink_to(captures)
    [source] = list_sources(tmp_path / "one.arrows")
    assert sum(len(batch) for batch in read_source(source)) == 41
    assert source.name == "anna.arrows", "the name of what it points to"
    assert sorted(find_sources(tmp_path / "all")[0]) == ["anna.arrows", "bert.arrows"]


def test_file_that_the_system_refuses_is_a_bad_source(captures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = captures / "anna.arrows"
    opened = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if os.fspath(path) == str(refused):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **kwargs)

    monkeypatch.setattr("hopwire.disk.os.open", refuse)
    found, [fault] = find_sources(captures)
    assert list(found) == ["bert.arrows"]
    assert (fault.kind, fault.detail) == (FaultKind.REFUSED, "cannot be read: Permission denied")
    assert run(["capture", "ls", str(captures)]) == ExitCode.USAGE


def test_captures_of_which_none_can_be_read_are_refused_in_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.arrows")
    with pytest.raises(LakeError, match=r"has no captures that can be read; x\.arrows: is a FIFO"):
        find_sources(tmp_path)


# -- symlinks where captures are written


def test_symlink_in_the_place_of_an_index_is_not_followed(tmp_path: Path, victim: Path) -> None:
    writer = CaptureWriter(tmp_path / "c", b"n", incarnation=1)
    writer.append(1, Direction.IN, b"", [b"x"])
    writer.flush(1)
    (segment,) = (tmp_path / "c").glob("*.open.arrows")
    (tmp_path / "c" / segment.name.replace(".open.arrows", ".unfinished")).symlink_to(victim)
    writer.close()
    assert victim.read_text() == "mine"
    (found,) = list_segments(tmp_path / "c")
    assert found.summary.row_count == 1
    assert len(list((tmp_path / "c").glob("*.json"))) == 1


# -- who may read


@pytest.fixture
def open_umask() -> Any:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_captures_are_for_their_owner_unless_set_otherwise(tmp_path: Path) -> None:
    for name, settings, modes in (
        ("own", CaptureSettings(), {0o700, 0o600}),
        ("group", CaptureSettings(file_mode=0o640), {0o750, 0o640}),
    ):
        with CaptureWriter(tmp_path / name / "c", b"n", incarnation=1, settings=settings) as writer:
            writer.append(1, Direction.IN, b"", [b"x"])
        assert modes_in(tmp_path / name) == modes


@pytest.mark.usefixtures("open_umask")
def test_lake_is_for_its_owner_unless_set_otherwise(tmp_path: Path) -> None:
    with writing(tmp_path / "own") as run:
        write_rows(run, SOURCES_TABLE, "x", rows_of_sources({"a": StoredSource(1, "x")}, []))
        run.publish({}, "")
    assert modes_in(tmp_path / "own") == {0o700, 0o600}
    with writing(tmp_path / "group", 0o640) as run:
        place = run.place("gold.t")
        rows = read_arrow(tmp_path / "own", "bronze.sources").to_batches()
        output = TableOutput(place, "x", TableLayout(rows[0].schema), LakeSettings(file_mode=0o640))
        output.add(rows[0])
        run.put("gold.t", "x", rows[0].schema, output.close())
        run.publish({}, "")
    assert modes_in(tmp_path / "group") - {0o600} == {0o750, 0o640}, "the lock alone is for the owner"


@pytest.mark.usefixtures("open_umask")
@pytest.mark.slow
def test_simulation_is_for_its_owner(tmp_path: Path) -> None:
    from hopwire.lake.simulation import simulate_here

    simulate_here(SimulateSettings(500), tmp_path / "out")
    assert modes_in(tmp_path / "out") == {0o700, 0o600}


def test_mode_that_keeps_the_owner_out_is_refused() -> None:
    with pytest.raises(SettingsError, match="file_mode must be a mode"):
        LakeSettings(file_mode=0o400)
    with pytest.raises(SettingsError, match="file_mode must be a mode"):
        CaptureSettings(file_mode=8**5)


def test_another_mode_is_no_reason_to_build_anew(lake: Path) -> None:
    sources = all_tables()["bronze.sources"]
    with writing(lake) as writer:
        bases = {
            runs._Build(writer, Any, settings, lambda *_: None)._basis(sources)  # type: ignore[arg-type]
            for settings in (LakeSettings(), LakeSettings(file_mode=0o640))
        }
    assert len(bases) == 1


# -- all of it on Spark


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("open_umask")
def test_build_goes_on_past_every_bad_source_and_names_it(spark: SparkSession, captures: Path, tmp_path: Path) -> None:
    said = put_bad_sources(captures)
    (captures / "odd.arrows").write_bytes(b"no capture")
    (captures / "letter.txt").write_text("dear reader")
    cut = write_segment(captures / "cleo.open.arrows", make_sightings("cleo"), is_sealed=False)
    cut.write_bytes(cut.read_bytes() + b"\xff\xff\xff")
    lake = tmp_path / "run:1,ü" / "a b%"
    built = build(spark, captures, lake, ["gold.quality"])
    assert built.read == ("anna.arrows", "bert.arrows", "cleo.arrows", "odd.arrows")
    assert set(built.bad) == {*said, "odd.arrows"}
    assert "cleo.open.arrows: 3 bytes after the last whole batch are cut off" in built.faults
    assert "letter.txt: is not a capture and was left alone" in built.faults
    rows = {row["segment"]: row["faults"] for row in read_arrow(lake, "bronze.sources").to_pylist()}
    assert rows["bad-0.pcap"] == ["is a FIFO, expected a regular file"]
    assert rows["bad-\\xff.arrows"] == ["its name is not UTF-8; rename it"]
    assert modes_in(tmp_path / "run:1,ü") == {0o700, 0o600}
    again = build(spark, captures, lake, ["gold.quality"])
    assert (again.read, set(again.bad)) == ((), set(built.bad)), "they are still bad"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_fifo_ends_a_query_in_words_or_is_skipped(spark: SparkSession, captures: Path) -> None:
    os.mkfifo(captures / "x.arrows")
    source = spark.read.format("hopwire")
    assert source.option("faults", "skip").load(str(captures)).count() == 82
    with pytest.raises(Exception, match=r"x\.arrows: is a FIFO, expected a regular file"):
        source.option("faults", "refuse").load(str(captures)).count()


def test_source_that_is_set_aside_keeps_what_the_lake_has_of_it() -> None:
    from hopwire.capture.file_faults import Fault

    fault = Fault(Path("anna.open.arrows"), FaultKind.NOT_REGULAR, "is a FIFO, expected a regular file")
    [row] = rows_of_sources({"anna.arrows": StoredSource(5, "x", row_count=7)}, [fault]).to_pylist()
    assert (row["segment"], row["row_count"], row["faults"]) == ("anna.arrows", 7, [fault.detail])


def test_table_whose_files_are_gone_is_not_there(lake: Path) -> None:
    assert [path.name for path in files_of(lake, "gold.t")] == ["two.parquet"]
