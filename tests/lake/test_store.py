"""The lake on disk: the old one or the new one, never something between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hopwire.cli import lake as command
from hopwire.cli.main import run as hopwire
from hopwire.errors import LakeError
from hopwire.lake import build as runs
from hopwire.lake import store
from hopwire.lake.build import Built
from hopwire.lake.manifest import Manifest, stale_tables
from hopwire.lake.store import LakeRun, read_arrow, read_manifest, writing
from hopwire.lake.tables import all_tables
from hopwire.security import OPEN

SCHEMA = pa.schema([pa.field("a", pa.int64()), pa.field("b", pa.string())])


def write(run: LakeRun, table: str, name: str, numbers: list[int]) -> None:
    rows = pa.table([numbers, [str(each) for each in numbers]], schema=SCHEMA)
    pq.write_table(rows, run.place(table) / f"{name}.parquet")


def fill(lake: Path, name: str, numbers: list[int]) -> None:
    with writing(lake) as run:
        write(run, "gold.t", name, numbers)
        run.add("gold.t", name, SCHEMA, run.written("gold.t"))
        run.publish({}, "")


def numbers_in(lake: Path) -> list[int]:
    found: list[int] = read_arrow(lake, "gold.t").column("a").to_pylist()
    return sorted(found)


def parquet_files(lake: Path) -> set[str]:
    return {path.name for path in lake.rglob("*.parquet")}


def test_what_is_published_can_be_read(tmp_path: Path) -> None:
    fill(tmp_path / "lake", "one", [1, 2, 3])
    assert numbers_in(tmp_path / "lake") == [1, 2, 3]
    table = read_manifest(tmp_path / "lake").tables["gold.t"]
    assert (table.row_count, table.columns) == (3, {"a": "int64", "b": "string"})
    few = read_arrow(tmp_path / "lake", "gold.t", ["b"], pc.field("a") > 1)
    assert few.to_pylist() == [{"b": "2"}, {"b": "3"}]


def test_what_is_replaced_stays_until_the_next_run_begins(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    fill(tmp_path, "two", [2])
    assert numbers_in(tmp_path) == [2]
    assert parquet_files(tmp_path) == {"one.parquet", "two.parquet"}
    with writing(tmp_path):
        assert parquet_files(tmp_path) == {"two.parquet"}
    fill(tmp_path, "three", [3])
    assert parquet_files(tmp_path) == {"two.parquet", "three.parquet"}, "two generations, never three"


def test_table_may_keep_files_of_before(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    with writing(tmp_path) as run:
        write(run, "gold.t", "two", [2])
        run.add("gold.t", "x", SCHEMA, [*run.before.tables["gold.t"].files, *run.written("gold.t")])
        assert sorted(path.name for path in run.files("gold.t")) == ["one.parquet", "two.parquet"]
        assert all(path.exists() for path in run.files("gold.t"))
        run.publish({}, "")
    assert numbers_in(tmp_path) == [1, 2]


def test_run_that_fails_leaves_the_lake_as_it_was(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])

    def fail() -> None:
        with writing(tmp_path) as run:
            write(run, "gold.t", "two", [2])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert numbers_in(tmp_path) == [1]
    assert parquet_files(tmp_path) == {"one.parquet"}


@pytest.mark.parametrize("fatal", ["_move", "replace_file"])
def test_run_that_dies_while_publishing_leaves_the_old_lake_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatal: str
) -> None:
    fill(tmp_path, "one", [1])
    real = getattr(store, fatal)

    def die(*args: object) -> None:
        if fatal == "_move":
            real(*args)
        raise KeyboardInterrupt

    with writing(tmp_path) as run:
        write(run, "gold.t", "two", [2])
        run.add("gold.t", "two", SCHEMA, run.written("gold.t"))
        monkeypatch.setattr(store, fatal, die)
        with pytest.raises(KeyboardInterrupt):
            run.publish({}, "")
        monkeypatch.undo()
    assert numbers_in(tmp_path) == [1]
    fill(tmp_path, "three", [3])
    assert numbers_in(tmp_path) == [3]
    assert parquet_files(tmp_path) == {"one.parquet", "three.parquet"}


def test_run_that_dies_while_sweeping_leaves_the_lake_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, "one", [1])
    fill(tmp_path, "two", [2])

    def die(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_replaced", die)
    with pytest.raises(KeyboardInterrupt), writing(tmp_path):
        pass
    monkeypatch.undo()
    assert numbers_in(tmp_path) == [2]
    with writing(tmp_path):
        assert parquet_files(tmp_path) == {"two.parquet"}


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
    assert parquet_files(tmp_path) == {"one.parquet", "half.parquet"}
    assert numbers_in(tmp_path) == [1]
    fill(tmp_path, "two", [2])
    assert parquet_files(tmp_path) == {"one.parquet", "two.parquet"}


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
    path = tmp_path / "_hopwire" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 7, "tables": "otherwise"}))
    remedy = "has format 7, this hopwire reads 1; build it anew in another directory, or use the hopwire that wrote it"
    with pytest.raises(LakeError, match=remedy):
        read_manifest(tmp_path)
    with pytest.raises(LakeError, match=remedy), writing(tmp_path):
        pass
    assert parquet_files(tmp_path) == {"one.parquet"}


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"format": 1, "tables": 3}', b"\xff"])
def test_damaged_manifest_is_said_in_one_line(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "_hopwire").mkdir()
    (tmp_path / "_hopwire" / "manifest.json").write_bytes(text)
    with pytest.raises(LakeError, match="its manifest is damaged; remove the lake and build it anew"):
        read_manifest(tmp_path)


def test_directory_that_is_no_lake_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(LakeError, match="has other files in it and is not a lake"), writing(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]
    with pytest.raises(LakeError, match="is not a lake; build one: hopwire lake build CAPTURES"):
        read_manifest(tmp_path)


def test_file_in_place_of_a_lake_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(LakeError, match="is a file; name a directory"), writing(file):
        pass
    with pytest.raises(LakeError, match="is not a lake"):
        read_manifest(file)


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
        write(run, "gold.t", "one", [1])
        write(run, "gold.t", "two", [2])
        run.add("gold.t", "x", SCHEMA, run.written("gold.t"))
        run.publish({}, "")
    damage(tmp_path / "gold" / "t" / "two.parquet")
    with pytest.raises(LakeError) as caught:
        read_arrow(tmp_path, "gold.t")
    said = str(caught.value)
    assert said.startswith(f"{tmp_path}: gold/t/two.parquet cannot be read (")
    assert reason in said
    assert said.endswith("); build the lake anew, or restore the file")
    assert "\n" not in said


def change_manifest(lake: Path, table: str, **changes: object) -> None:
    path = lake / "_hopwire" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["tables"][table] |= changes
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "?"},
        {"schema": "AAAA"},
        {"schema": b64encode(pa.schema([]).serialize()).decode()},
        {"schema": b64encode(SCHEMA.serialize())[:-8].decode()},
        {"columns": {"a": "int65", "b": "string"}},
        {"schema": ""},
    ],
    ids=["text", "bytes", "other", "cut off", "contradiction", "old and not declared"],
)
def test_columns_that_cannot_be_read_are_refused_with_the_remedy(tmp_path: Path, changes: dict[str, object]) -> None:
    fill(tmp_path, "one", [1])
    change_manifest(tmp_path, "gold.t", **changes)
    with pytest.raises(LakeError) as caught:
        read_arrow(tmp_path, "gold.t")
    remedy = "build the lake anew, or use the hopwire that wrote it"
    assert str(caught.value) == f"{tmp_path}: gold.t: the types of its columns cannot be read; {remedy}"


@pytest.mark.parametrize("name", all_tables())
def test_every_table_has_its_columns_in_this_and_in_an_older_manifest(tmp_path: Path, name: str) -> None:
    with writing(tmp_path) as run:
        run.add(name, "x", all_tables()[name].schema, [])
        run.publish({}, "")
    assert read_arrow(tmp_path, name).schema == all_tables()[name].schema
    change_manifest(tmp_path, name, schema="")
    assert read_arrow(tmp_path, name).schema == all_tables()[name].schema
    change_manifest(tmp_path, name, columns={"other": "int64"})
    with pytest.raises(LakeError, match="the types of its columns cannot be read"):
        read_arrow(tmp_path, name)


def test_table_without_files_has_its_columns(tmp_path: Path) -> None:
    with writing(tmp_path) as run:
        run.add("gold.t", "x", SCHEMA, [])
        run.publish({}, "")
    assert read_arrow(tmp_path, "gold.t").schema == SCHEMA
    assert read_arrow(tmp_path, "gold.t", ["b"]).column_names == ["b"]


def test_manifest_survives_as_json(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    manifest = read_manifest(tmp_path)
    assert isinstance(manifest, Manifest)
    assert (tmp_path / "_hopwire" / "manifest.json").read_bytes() == manifest.to_json()


def test_manifest_of_an_older_hopwire_is_read(tmp_path: Path) -> None:
    fill(tmp_path, "one", [1])
    path = tmp_path / "_hopwire" / "manifest.json"
    older = json.loads(path.read_text())
    del older["tables"]["gold.t"]["made_from"]
    older["sources"] = {"a.arrows": {"size_bytes": 1, "fingerprint": "x"}}
    path.write_text(json.dumps(older))
    assert numbers_in(tmp_path) == [1]
    assert (read_manifest(tmp_path).sources["a.arrows"].path, stale_tables(read_manifest(tmp_path))) == ("", {})


def test_table_that_an_older_hopwire_called_otherwise_has_its_new_name(tmp_path: Path) -> None:
    with writing(tmp_path) as run:
        write(run, "gold.clocks", "old", [1])
        run.add("gold.clocks", "x", SCHEMA, run.written("gold.clocks"))
        run.add("silver.hops", "x", SCHEMA, [], ["gold.clocks"])
        run.publish({}, "")
    assert set(read_manifest(tmp_path).tables) == {"silver.clocks", "silver.hops"}
    assert stale_tables(read_manifest(tmp_path)) == {}
    fill(tmp_path, "one", [1])
    assert read_arrow(tmp_path, "silver.clocks")["a"].to_pylist() == [1], "a run of another table keeps the old files"
    with writing(tmp_path) as run:
        write(run, "silver.clocks", "new", [2])
        run.add("silver.clocks", "y", SCHEMA, run.written("silver.clocks"))
        run.publish({}, "")
    assert read_arrow(tmp_path, "silver.clocks")["a"].to_pylist() == [2]
    assert stale_tables(read_manifest(tmp_path)) == {"silver.hops": ("silver.clocks",)}
    with writing(tmp_path):
        pass
    assert not list(tmp_path.glob("gold/clocks/*"))


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
            run.add(name, basis, all_tables()[name].schema, [], READS[name])
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


def test_build_with_keys_that_reads_nothing_says_how_to_judge_anew(
    build_nothing: Callable[..., int], partly_built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build_nothing("--domains", "x") == 0
    assert "--redecode" not in capsys.readouterr().out, "there are no findings"
    findings = [{"finding": "invalid", "message_count": 3}, {"finding": "replayed", "message_count": 5}]
    with writing(partly_built) as run:
        schema = all_tables()["gold.security"].schema
        pq.write_table(pa.Table.from_pylist(findings, schema), run.place("gold.security") / "x.parquet")
        run.add("gold.security", "x", schema, run.written("gold.security"))
        run.publish({}, "")
    assert build_nothing("--domains", "x") == 0
    said = "3 messages have an invalid signature; if a secret was corrected, build with --redecode\n"
    assert capsys.readouterr().out.endswith(said)
    assert build_nothing() == 0
    assert said not in capsys.readouterr().out, "without keys no secret can have been corrected"
