"""The lake on disk: the old one or the new one, never something between."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.transaction import AddAction, create_table_with_add_actions

from hopwire.cli import lake as command
from hopwire.cli.exits import ExitCode
from hopwire.cli.main import run as hopwire
from hopwire.errors import LakeError
from hopwire.lake import build as runs
from hopwire.lake import delta_log, store
from hopwire.lake.build import Built
from hopwire.lake.compaction import compact
from hopwire.lake.expiry import expire
from hopwire.lake.forgetting import forget
from hopwire.lake.manifest import Manifest, StoredFile, StoredTable, stale_tables
from hopwire.lake.parquet_output import ParquetFileWriter, TableLayout, stored_file
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import (
    LakeRun,
    log_of,
    manifest_numbers,
    manifest_path,
    read_arrow,
    read_manifest,
    writing,
)
from hopwire.lake.tables import all_tables
from hopwire.security import OPEN
from tests.lake.killing import Mortals
from tests.lake.pure import put_rows

SCHEMA = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])


def write(run: LakeRun, table: str, name: str, numbers: list[int]) -> StoredFile:
    rows = pa.table([numbers, [str(each) for each in numbers]], schema=SCHEMA)
    pq.write_table(rows, run.place(table) / f"{name}.parquet")
    return stored_file(run.place(table), f"{name}.parquet")


def fill(lake: Path, name: str, numbers: list[int], *tables: str) -> None:
    with writing(lake) as run:
        for table in tables or ("gold.t",):
            run.put(table, name, SCHEMA, [write(run, table, name, numbers)])
        run.publish({}, "")


def numbers_in(lake: Path) -> list[int]:
    found: list[int] = read_arrow(lake, "gold.t").column("a").to_pylist()
    return sorted(found)


def test_what_is_published_can_be_read(tmp_path: Path) -> None:
    fill(tmp_path / "lake", "one", [1, 2, 3])
    assert numbers_in(tmp_path / "lake") == [1, 2, 3]
    table = read_manifest(tmp_path / "lake").tables["gold.t"]
    assert (table.row_count, table.file_count, table.version) == (3, 1, 0)
    few = read_arrow(tmp_path / "lake", "gold.t", ["b"], pc.field("a") > 1)
    assert few.to_pylist() == [{"b": "2"}, {"b": "3"}]


def test_old_states_of_a_lake_stay_readable(tmp_path: Path) -> None:
    for number in range(4):
        fill(tmp_path, f"file-{number}", [number])
    assert [read_manifest(tmp_path, each).number for each in manifest_numbers(tmp_path)] == [1, 2, 3, 4]
    for number in range(4):
        old = read_manifest(tmp_path, number + 1)
        assert read_arrow(tmp_path, "gold.t", manifest=old)["a"].to_pylist() == [number]
    with pytest.raises(LakeError, match="has no version 9, it has 1 to 4"):
        read_manifest(tmp_path, 9)


def test_table_may_keep_files_of_before(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    with writing(tmp_path) as run:
        run.put("gold.t", "x", SCHEMA, [write(run, "gold.t", "two", [2])], keep=lambda file: file.part == "one")
        assert sorted(path.name for path in run.paths("gold.t")) == ["one.parquet", "two.parquet"]
        assert all(path.exists() for path in run.paths("gold.t"))
        run.publish({}, "")
    assert numbers_in(tmp_path) == [1, 2]
    with writing(tmp_path) as run:
        run.put("gold.t", "y", SCHEMA, [], keep=lambda file: file.part == "two")
        run.publish({}, "")
    assert numbers_in(tmp_path) == [2]


def test_run_that_fails_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])

    def fail() -> None:
        with writing(tmp_path) as run:
            write(run, "gold.t", "two", [2])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert numbers_in(tmp_path) == [1]
    assert head_numbers(tmp_path) == [1]


def head_numbers(lake: Path, table: str = "t") -> list[int]:
    """What any engine sees that opens the table and knows nothing of manifests."""
    found: list[int] = DeltaTable(str(lake / "gold" / table)).to_pyarrow_table()["a"].to_pylist()
    return sorted(found)


WRITING = """
from tests.lake.test_store import SCHEMA, write

def work(place):
    with store.writing(place) as run:
        for table in ("gold.t", "gold.u", "gold.v"):
            run.put(table, "two", SCHEMA, [write(run, table, "two", [2])])
        run.publish({}, "")
"""


@pytest.fixture(scope="module")
def mortals() -> Iterator[Mortals]:
    with Mortals(WRITING) as mortals:
        yield mortals


@pytest.mark.slow
@pytest.mark.parametrize("commits", range(5))
@pytest.mark.parametrize("is_first", [False, True])
def test_run_that_is_killed_between_two_commits_leaves_the_old_lake_or_the_new(
    mortals: Mortals, tmp_path: Path, commits: int, is_first: bool
) -> None:
    tables = ("gold.t", "gold.u", "gold.v")
    if not is_first:
        fill(tmp_path, "one", [1], *tables)
    assert mortals.live(tmp_path, commits) == (-9 if commits < 4 else 0)
    before = [] if is_first else [1]
    if commits == 4:
        assert [read_arrow(tmp_path, table)["a"].to_pylist() for table in tables] == [[2]] * 3
    elif is_first:
        with pytest.raises(LakeError, match="is not a lake"):
            read_manifest(tmp_path)
    else:
        assert [read_arrow(tmp_path, table)["a"].to_pylist() for table in tables] == [[1]] * 3
        with writing(tmp_path):
            assert [head_numbers(tmp_path, table) for table in "tuv"] == [[1]] * 3, "what the dead run did is undone"
    fill(tmp_path, "three", [3], *tables)
    for table in tables:
        assert read_arrow(tmp_path, table)["a"].to_pylist() == head_numbers(tmp_path, table[-1]) == [3]
    if before:
        old = read_manifest(tmp_path, 1)
        assert read_arrow(tmp_path, "gold.t", manifest=old)["a"].to_pylist() == before


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (("gold.t", "gold.u"), r"gold\.u: version 1 of its Delta log cannot be written .* is another build at work\?"),
        (("gold.t",), "another build was quicker; nothing was published; build again"),
    ],
)
def test_two_runs_that_no_lock_keeps_apart_do_not_mix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tables: tuple[str, ...], said: str
) -> None:
    monkeypatch.setattr(store, "fcntl", None)
    fill(tmp_path, "one", [1], "gold.t", "gold.u")
    with writing(tmp_path) as slow:
        for table in tables:
            slow.put(table, "slow", SCHEMA, [write(slow, table, "slow", [7])])
        fill(tmp_path, "quick", [2], "gold.u")
        with pytest.raises(LakeError, match=said):
            slow.publish({}, "")
    assert (read_arrow(tmp_path, "gold.t")["a"].to_pylist(), read_arrow(tmp_path, "gold.u")["a"].to_pylist()) == (
        [1],
        [2],
    )
    with writing(tmp_path):
        assert (head_numbers(tmp_path, "t"), head_numbers(tmp_path, "u")) == ([1], [2])


def test_commit_that_another_was_quicker_than_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    with writing(tmp_path) as run:
        files = [write(run, "gold.t", name, [2]) for name in ("two", "three")]
        first, second = log_of(tmp_path, "gold.t"), log_of(tmp_path, "gold.t")
        assert (first.head, second.head) == (0, 0)
        assert first.commit(files[:1], SCHEMA, 0o600, {}) == 1
        with pytest.raises(
            LakeError, match=r"gold\.t: version 1 of its Delta log cannot be written .*; is another build"
        ):
            second.commit(files[1:], SCHEMA, 0o600, {})
        assert head_numbers(tmp_path) == [2]


def test_table_that_gets_other_columns_has_no_rows_of_before(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    with writing(tmp_path) as run:
        put_rows(run, "gold.t", pa.table({"c": ["x"]}))
        run.publish({}, "")
    assert read_arrow(tmp_path, "gold.t").to_pylist() == [{"c": "x"}]
    assert DeltaTable(str(tmp_path / "gold" / "t")).to_pyarrow_table().to_pylist() == [{"c": "x"}]
    assert read_arrow(tmp_path, "gold.t", manifest=read_manifest(tmp_path, 1))["a"].to_pylist() == [1]


# -- a Delta log that somebody else has touched


def test_rows_that_somebody_else_wrote_are_refused_until_they_are_taken_back(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    place = str(tmp_path / "gold" / "t")
    write_deltalake(place, pa.table([[9], ["9"]], schema=SCHEMA), mode="append")
    assert numbers_in(tmp_path) == [1], "readers of the lake do not see them"
    with pytest.raises(LakeError) as caught:
        fill(tmp_path, "two", [2])
    said = "gold.t: somebody else has written version 1 of its Delta log, hopwire wrote 0; undo it: "
    assert str(caught.value) == f"{said}DeltaTable({place!r}).restore(0)"
    DeltaTable(place).restore(0)
    fill(tmp_path, "two", [2])
    assert numbers_in(tmp_path) == head_numbers(tmp_path) == [2]


@pytest.mark.parametrize("name", ["00000000000000000000.json", "00000000000000000001.json"])
def test_log_that_is_damaged_or_gone_is_one_line(tmp_path: Path, name: str) -> None:
    fill(tmp_path, "one", [1])
    fill(tmp_path, "two", [2])
    file = tmp_path / "gold" / "t" / "_delta_log" / name
    file.write_text("no log")
    with pytest.raises(
        LakeError, match=r"gold\.t: .*Delta log cannot be read .*; restore .*, or build the lake anew"
    ) as caught:
        numbers_in(tmp_path)
    assert "\n" not in str(caught.value)
    file.unlink()
    with pytest.raises(LakeError, match=r"gold\.t: .*Delta log"):
        numbers_in(tmp_path)
    shutil.rmtree(file.parent)
    with pytest.raises(LakeError, match=r"gold\.t: its Delta log is not there; build the lake anew"):
        numbers_in(tmp_path)


@pytest.mark.slow
def test_process_that_is_killed_leaves_nothing_that_counts(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom hopwire.lake.store import writing\n"
        "with writing(sys.argv[1]) as run:\n"
        "    (run.place('gold.t') / 'half.parquet').write_bytes(b'PAR1')\n    os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert numbers_in(tmp_path) == head_numbers(tmp_path) == [1]
    fill(tmp_path, "two", [2])
    assert numbers_in(tmp_path) == head_numbers(tmp_path) == [2]


def test_two_runs_at_once_are_refused_and_the_first_is_named(tmp_path: Path) -> None:
    with (
        writing(tmp_path),
        pytest.raises(LakeError, match=f"is being built by process {os.getpid()} on .*; wait for it, or end it"),
        writing(tmp_path),
    ):
        pass
    with writing(tmp_path):
        pass


def test_lock_that_a_dead_process_left_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / "_hopwire").mkdir()
    (tmp_path / "_hopwire" / "lock").write_text("process 999999 on elsewhere\n")
    fill(tmp_path, "one", [1])
    assert numbers_in(tmp_path) == [1]


def test_lake_of_another_format_is_refused_with_the_remedy(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    path = manifest_path(tmp_path, 1)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 7, "tables": "otherwise"}))
    remedy = "has format 7, this hopwire reads 2; build it anew in another directory, or use the hopwire that wrote it"
    with pytest.raises(LakeError, match=remedy):
        read_manifest(tmp_path)
    with pytest.raises(LakeError, match=remedy), writing(tmp_path):
        pass


def test_lake_of_the_first_edition_is_refused_with_the_command_to_run(tmp_path: Path) -> None:
    (tmp_path / "_hopwire").mkdir()
    (tmp_path / "_hopwire" / "manifest.json").write_text('{"format": 1, "tables": {}}')
    remedy = f"hopwire lake build CAPTURES {tmp_path}-2; if captures are gone, {tmp_path}/bronze/sightings has them"
    for use in (read_manifest, lambda lake: fill(lake, "one", [1])):
        with pytest.raises(
            LakeError, match="is a lake of an older hopwire, whose tables are no Delta tables"
        ) as caught:
            use(tmp_path)
        assert str(caught.value).endswith(remedy)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"format": 2, "tables": 3}', b"\xff"])
def test_damaged_manifest_is_said_in_one_line(tmp_path: Path, text: bytes) -> None:
    manifest_path(tmp_path, 1).parent.mkdir(parents=True)
    manifest_path(tmp_path, 1).write_bytes(text)
    with pytest.raises(LakeError, match=r"its manifest 0{19}1\.json is damaged; remove the lake and build it anew"):
        read_manifest(tmp_path)


def test_directory_that_is_no_lake_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(LakeError, match="has other files in it and is not a lake"), writing(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]
    with pytest.raises(LakeError, match="is not a lake; build one: hopwire lake build CAPTURES"):
        read_manifest(tmp_path)


def test_captures_in_place_of_a_lake_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "20260131T120000.000000000Z-shop-000001.arrows").touch()
    with pytest.raises(
        LakeError, match=f"has captures and is not a lake; build one: hopwire lake build {tmp_path} LAKE"
    ):
        read_manifest(tmp_path)


def test_file_in_place_of_a_lake_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(LakeError, match="is a file; name a directory"), writing(file):
        pass
    with pytest.raises(LakeError, match=r"is a file and is not a lake; name a directory$"):
        read_manifest(file)


@pytest.mark.parametrize("target", ["nowhere", "lake"])
def test_symlink_that_leads_nowhere_or_to_itself_is_no_place_for_a_lake(tmp_path: Path, target: str) -> None:
    (tmp_path / "lake").symlink_to(target)
    with pytest.raises(LakeError, match="is a symlink that leads nowhere; name another directory"):
        fill(tmp_path / "lake", "one", [1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lake"]


def test_place_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LakeError, match=r"cannot be written \(.*\); choose another directory"), writing("/proc/lake"):
        pass
    monkeypatch.setattr(os, "access", lambda *args: False)  # root may write anywhere
    with pytest.raises(LakeError, match=r"cannot be written \(Permission denied\)"), writing(tmp_path / "lake"):
        pass


def test_missing_table_is_named_with_those_there_are(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    with pytest.raises(LakeError, match=r"has no table gold\.x, it has gold\.t; build it: ") as caught:
        read_arrow(tmp_path, "gold.x")
    assert str(caught.value).endswith(f"hopwire lake build CAPTURES {tmp_path} --table gold.x")


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def garble(file: Path) -> None:
    file.write_bytes(b"x" * file.stat().st_size)


def exchange(file: Path) -> None:
    pq.write_table(pa.table({"other": [1]}), file)


# fmt: off
DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (truncate,                          "it has "),
    (lambda file: os.truncate(file, 0), "it has 0 bytes, expected "),
    (garble,                            "Parquet magic bytes not found"),
    (exchange,                          "it has "),
    (Path.unlink,                       "it is not there"),
]
# fmt: on


@pytest.mark.parametrize(("damage", "reason"), DAMAGES)
def test_damaged_file_is_named_with_the_reason_and_the_remedy(
    tmp_path: Path, damage: Callable[[Path], None], reason: str
) -> None:
    with writing(tmp_path) as run:
        run.put("gold.t", "x", SCHEMA, [write(run, "gold.t", "one", [1]), write(run, "gold.t", "two", [2])])
        run.publish({}, "")
    damage(tmp_path / "gold" / "t" / "two.parquet")
    with pytest.raises(LakeError) as caught:
        read_arrow(tmp_path, "gold.t")
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}: gold.t: two.parquet cannot be read (")
    assert reason in said
    assert said.endswith("); build the lake anew, or restore the file")
    assert "\n" not in said


@pytest.mark.parametrize(
    "schema", ["?", "AAAA", b64encode(SCHEMA.serialize())[:-8].decode(), ""], ids=["text", "bytes", "cut off", "none"]
)
def test_columns_that_cannot_be_read_are_refused_with_the_remedy(tmp_path: Path, schema: str) -> None:
    fill(tmp_path, "one", [1])
    path = manifest_path(tmp_path, 1)
    manifest = json.loads(path.read_text())
    manifest["tables"]["gold.t"]["schema"] = schema
    path.write_text(json.dumps(manifest))
    with pytest.raises(LakeError) as caught:
        read_arrow(tmp_path, "gold.t")
    remedy = "build the lake anew, or use the hopwire that wrote it"
    assert str(caught.value) == f"{tmp_path}: gold.t: the types of its columns cannot be read; {remedy}"


@pytest.mark.parametrize("name", all_tables())
def test_every_table_has_its_columns_also_without_rows(tmp_path: Path, name: str) -> None:
    schema = all_tables()[name].stored_schema
    with writing(tmp_path) as run:
        run.put(name, "x", schema, [])
        run.publish({}, "")
    assert read_arrow(tmp_path, name).schema == schema
    opened = DeltaTable(str(tmp_path.joinpath(*name.split("."))))
    assert [field.name for field in opened.schema().fields] == schema.names
    assert opened.protocol().min_reader_version == 1, "every engine can read it"
    assert opened.metadata().partition_columns == [], "a file may have several days"


def test_table_without_files_has_its_columns(tmp_path: Path) -> None:
    with writing(tmp_path) as run:
        run.put("gold.t", "x", SCHEMA, [])
        run.publish({}, "")
    assert read_arrow(tmp_path, "gold.t").schema == SCHEMA
    assert read_arrow(tmp_path, "gold.t", ["b"]).column_names == ["b"]


def test_manifest_survives_as_json(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    manifest = read_manifest(tmp_path)
    assert isinstance(manifest, Manifest)
    assert manifest_path(tmp_path, 1).read_bytes() == manifest.to_json()


# -- tables that are older than what they were made from

READS = {
    "silver.messages": (),
    "silver.hops": ("silver.messages", "silver.clocks"),
    "silver.clocks": ("silver.messages",),
    "gold.flows": ("silver.hops",),
    "gold.links": ("silver.hops",),
}


def put(lake: Path, basis: str, *tables: str) -> None:
    with writing(lake) as run:
        for name in tables:
            run.put(name, basis, all_tables()[name].stored_schema, [], made_from=READS[name])
        run.publish({}, "")


@pytest.fixture
def partly_built(tmp_path: Path) -> Path:
    """A lake whose messages were decoded again, and then its clocks and links built."""
    put(tmp_path, "old", "silver.messages", "silver.clocks", "silver.hops", "gold.flows", "gold.links")
    assert stale_tables(read_manifest(tmp_path)) == {}
    put(tmp_path, "new", "silver.messages", "silver.clocks")
    return tmp_path


def test_tables_above_what_was_built_anew_are_stale(partly_built: Path) -> None:
    newer = ("silver.messages", "silver.clocks")
    assert stale_tables(read_manifest(partly_built)) == dict.fromkeys(
        ("silver.hops", "gold.flows", "gold.links"), newer
    )
    put(partly_built, "new", "silver.hops", "gold.links")
    assert stale_tables(read_manifest(partly_built)) == {"gold.flows": ("silver.hops",)}
    put(partly_built, "new", "gold.flows")
    assert stale_tables(read_manifest(partly_built)) == {}


def test_lake_tables_marks_what_is_stale(
    partly_built: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert hopwire(["lake", "tables", str(partly_built)]) == 0
    assert capsys.readouterr().out.count("stale: built before silver.messages") == 3
    assert hopwire(["lake", "tables", str(partly_built), "--json"]) == 0
    told = {row["name"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert told["gold.flows"]["built_before"] == ["silver.messages", "silver.clocks"]
    assert told["silver.clocks"]["built_before"] == []


def test_flows_that_are_stale_are_listed_with_a_warning(partly_built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hopwire(["flows", "ls", str(partly_built)]) == 0
    written = capsys.readouterr()
    assert written.out == "0 of 0 flows\n"
    assert written.err == (
        f"hopwire: {partly_built}: its flows are stale, built before silver.messages, silver.clocks; "
        "build again without --table\n"
    )
    put(partly_built, "new", "silver.hops", "gold.flows")
    assert hopwire(["flows", "ls", str(partly_built)]) == 0
    assert capsys.readouterr().err == ""


@pytest.fixture
def build_nothing(partly_built: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run `hopwire lake build` on that lake, as if there were nothing to do."""
    built = Built(partly_built, read_manifest(partly_built), (), (), ())
    monkeypatch.setattr(runs, "build", lambda *args, **settings: replace(built, manifest=read_manifest(partly_built)))
    monkeypatch.setattr(command, "domains_from_file", lambda name: OPEN)
    return lambda *options: hopwire(["lake", "build", "captures", str(partly_built), *options])


def test_build_says_what_it_leaves_stale(build_nothing: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert build_nothing() == 0
    assert capsys.readouterr().err == (
        "hopwire: silver.hops, gold.flows, gold.links: stale, built before silver.messages, silver.clocks; "
        "build again without --table\n"
    )


def test_build_past_bad_sources_has_an_exit_code_of_its_own(
    partly_built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Built(partly_built, read_manifest(partly_built), (), (), ("a.arrows: is a FIFO",), ("a.arrows",))
    monkeypatch.setattr(runs, "build", lambda *args, **settings: bad)
    assert hopwire(["lake", "build", "captures", str(partly_built)]) == ExitCode.INCOMPLETE
    assert "hopwire: a.arrows: is a FIFO\n" in capsys.readouterr().err


def test_build_with_keys_that_reads_nothing_says_how_to_judge_anew(
    build_nothing: Callable[..., int], partly_built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build_nothing("--domains", "x") == 0
    assert "--redecode" not in capsys.readouterr().out, "there are no findings"
    findings = [{"finding": "invalid", "message_count": 3}, {"finding": "replayed", "message_count": 5}]
    with writing(partly_built) as run:
        put_rows(run, "gold.security", pa.Table.from_pylist(findings, all_tables()["gold.security"].schema))
        run.publish({}, "")
    assert build_nothing("--domains", "x") == 0
    said = "3 messages have an invalid signature; if a secret was corrected, build with --redecode\n"
    assert capsys.readouterr().out.endswith(said)
    assert build_nothing() == 0
    assert said not in capsys.readouterr().out, "without keys no secret can have been corrected"


def test_a_flow_is_looked_for_in_few_row_groups(tmp_path: Path) -> None:
    """Row groups have Bloom filters on ids; without them every row group whose range fits would be read."""
    schema = pa.schema([("flow_id", pa.binary()), ("value", pa.int64())])
    layout = TableLayout(schema)
    writer = ParquetFileWriter(tmp_path / "rows.parquet", layout, LakeSettings(), 100)
    for group in range(8):
        ids = [b"%04d" % (8 * number + group) for number in range(100)]  # every group has nearly the whole range
        writer.add(pa.table([ids, range(100)], schema=schema))
    writer.close("rows.parquet")
    with duckdb.connect() as database:
        probe = "select bloom_filter_excludes from parquet_bloom_probe(?, 'flow_id', ?::blob)"
        excluded = [row[0] for row in database.execute(probe, [str(tmp_path / "rows.parquet"), b"0403"]).fetchall()]
    assert len(excluded) == 8
    assert not excluded[3]
    assert sum(excluded) >= 6


def test_log_that_a_run_before_opened_is_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    table = delta_log._delta().DeltaTable

    def counted(place: str, **options: Any) -> DeltaTable:
        opened.append(place)
        found: DeltaTable = table(place, **options)
        return found

    monkeypatch.setattr("deltalake.DeltaTable", counted)
    for number in range(4):
        fill(tmp_path / "lake", f"part{number}", [number])
    assert len(opened) == 1  # by the second run: the first has made the log
    assert numbers_in(tmp_path / "lake") == [3]


def test_log_of_another_lake_in_the_same_place_is_opened_anew(tmp_path: Path) -> None:
    for first in (10, 20):
        for number in range(3):
            fill(tmp_path / "lake", f"part{number}", [first + number])
        assert numbers_in(tmp_path / "lake") == [first + 2]
        shutil.rmtree(tmp_path / "lake")


def test_log_that_was_opened_and_was_changed_by_others_since_is_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for number in range(3):
        fill(lake, f"part{number}", [number])
    write_deltalake(lake / "gold" / "t", pa.table([[7], ["7"]], schema=SCHEMA), mode="append")
    with pytest.raises(LakeError, match="somebody else has written version 3"):
        fill(lake, "more", [8])


def partitioned(lake: Path, schema: pa.Schema) -> tuple[StoredFile, StoredFile]:
    """Write a table as an older hopwire did; give its file, and one that does not belong to it yet."""
    place = lake / "gold" / "t"
    files: list[StoredFile] = []
    for path in ("date=2026-01-31/old.parquet", "new.parquet"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"date": [date(2026, 1, 31)], "a": [len(files)]}, schema), place / path)
        files.append(stored_file(place, path))
    old, new = files
    create_table_with_add_actions(
        str(place),
        Schema.from_arrow(schema),
        [AddAction(old.path, old.size_bytes, {"date": "2026-01-31"}, 0, True, old.statistics)],
        partition_by=["date"],
        commit_properties=CommitProperties(app_transactions=[Transaction("hopwire", 0)]),
    )
    return old, new


DAYS = pa.schema([("date", pa.date32()), ("a", pa.int64())])


@pytest.mark.parametrize(
    "work", [compact, lambda lake: expire(lake, date(2026, 1, 1)), lambda lake: forget(lake, flow="x")]
)
def test_lake_that_is_partitioned_by_day_is_refused_at_once_with_what_to_do(
    tmp_path: Path, work: Callable[[Path], object]
) -> None:
    partitioned(tmp_path, DAYS)
    stored = StoredTable(0, "", b64encode(DAYS.serialize()).decode(), 1, 1, 1)
    path = manifest_path(tmp_path, 1)
    path.parent.mkdir(parents=True)
    path.write_bytes(Manifest(number=1, tables={"gold.t": stored}).to_json())
    with pytest.raises(LakeError, match=r"gold.t is partitioned by day.*: hopwire lake build CAPTURES .*; nothing was"):
        work(tmp_path)
    assert manifest_numbers(tmp_path) == [1]


def test_table_that_was_partitioned_by_day_is_replaced_as_a_whole(tmp_path: Path) -> None:
    place, schema = tmp_path / "gold" / "t", DAYS
    log = log_of(tmp_path, "gold.t")
    old, new = partitioned(tmp_path, schema)
    assert [file.path for file in log.files()] == [old.path]
    with pytest.raises(LakeError, match="partitioned by day, as an older hopwire wrote them; first build the lake"):
        log.commit([old, new], schema, 0o600, {})
    assert log.commit([new], schema, 0o600, {}) == 1
    opened = DeltaTable(str(place))
    assert (opened.metadata().partition_columns, opened.to_pyarrow_table()["a"].to_pylist()) == ([], [1])
    assert DeltaTable(str(place), version=0).to_pyarrow_table()["a"].to_pylist() == [0]
    assert log.is_ours


def test_manifest_is_read_once_until_its_file_is_another(tmp_path: Path) -> None:
    fill(tmp_path, "a", [1])
    store._kept.clear()
    first = read_manifest(tmp_path)
    assert read_manifest(tmp_path) is first
    path = manifest_path(tmp_path, first.number)
    path.write_bytes(path.read_bytes().replace(b'"decoder": "', b'"decoder": "other'))
    assert read_manifest(tmp_path).decoder == f"other{first.decoder}"


def test_no_more_than_some_manifests_are_kept_and_none_that_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store._kept.clear()
    for number in range(store.MAX_KEPT + 1):
        fill(tmp_path, f"a{number}", [number])
    assert len(store._kept) == store.MAX_KEPT
    store._kept.clear()
    monkeypatch.setattr(store, "MAX_KEPT_BYTES", 10)
    read_manifest(tmp_path)
    assert not store._kept
