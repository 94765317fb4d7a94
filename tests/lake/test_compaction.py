"""Many small files become few: the same rows, the old files for old readers, and nothing between."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from hopwire.errors import LakeError
from hopwire.lake import build as runs
from hopwire.lake import compaction, merging
from hopwire.lake.build import Built
from hopwire.lake.compaction import compact
from hopwire.lake.manifest import StoredFile, StoredSource, part_name
from hopwire.lake.parquet_output import stored_file
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import LakeRun, files_of, read_arrow, read_manifest, writing
from hopwire.lake.worker import INGESTED
from tests.cli.running import hopwire
from tests.lake.killing import DYING

SCHEMA = pa.schema([("date", pa.date32()), ("flow_id", pa.binary()), ("left_at_ns", pa.int64())])
pytestmark = pytest.mark.slow

DAYS = ("2026-01-30", "2026-01-31", "2026-02-01")
HOPS = "silver.hops"


def put_small(run: LakeRun, table: str, day: str, numbers: list[int], part: str = "") -> StoredFile:
    """One file of one day."""
    rows = pa.table(
        {
            "date": pa.array([day] * len(numbers)).cast(pa.date32()),
            "flow_id": pa.array([b"%06d" % (each * 7919 % 1000) for each in numbers], pa.binary()),
            "left_at_ns": pa.array(numbers, pa.int64()),
        },
        SCHEMA,
    )
    name = f"{part or part_name(run.name, numbers[0])}.{DAYS.index(day)}.parquet"
    pq.write_table(rows, run.place(table) / name, store_schema=False)
    return stored_file(run.place(table), name)


def put_days(lake: Path, counts: tuple[int, ...], table: str = HOPS) -> None:
    """A table with so many files of each day, three rows in each."""
    with writing(lake) as run:
        files = [
            put_small(run, table, day, [base + number * 3 + each for each in range(3)])
            for day, count, base in zip(DAYS, counts, (0, 10_000, 20_000), strict=False)
            for number in range(count)
        ]
        run.put(table, "basis", SCHEMA, files)
        run.publish({}, "decoder", ["shop"])


def counts(lake: Path, table: str = HOPS) -> list[int]:
    found = [str(pq.read_table(file)["date"][-1]) for file in files_of(lake, table)]
    return [found.count(day) for day in DAYS][: 3 if DAYS[2] in found else 2]


def rows_of(lake: Path, number: int | None = None, table: str = HOPS) -> list[int]:
    found: list[int] = read_arrow(lake, table, manifest=read_manifest(lake, number))["left_at_ns"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((3, 3), (1, 3)),  # a day that is over
        ((1, 33), (1, 1)),  # too many files
        ((1, 32), (1, 32)),
        ((40, 40), (1, 1)),
    ],
)
def test_days_with_too_many_files_get_few(tmp_path: Path, before: tuple[int, int], after: tuple[int, int]) -> None:
    put_days(tmp_path, before)
    rows, old = rows_of(tmp_path), files_of(tmp_path, HOPS)
    done = compact(tmp_path)
    assert counts(tmp_path) == list(after)
    assert rows_of(tmp_path) == rows_of(tmp_path, 1) == rows
    assert all(file.exists() for file in old), "whoever reads the old lake reads on"
    manifest = read_manifest(tmp_path)
    assert (manifest.decoder, manifest.domains) == ("decoder", ("shop",))
    assert manifest.tables[HOPS].basis == "basis"
    assert done.manifest.number == manifest.number == (1 if before == after else 2)
    assert compact(tmp_path).before == {}, "what is compacted stays as it is"


def test_small_days_of_the_past_share_a_file_and_are_found_by_their_day(tmp_path: Path) -> None:
    put_days(tmp_path, (2, 1, 3))
    compact(tmp_path)
    assert counts(tmp_path) == [0, 1, 3]
    log = DeltaTable(str(tmp_path / "silver" / "hops"))
    actions = pa.table(log.get_add_actions(flatten=True)).to_pylist()
    days = {(str(row["min.date"]), str(row["max.date"])) for row in actions}
    assert days == {(DAYS[0], DAYS[1]), (DAYS[2], DAYS[2])}
    found = log.to_pyarrow_table(filters=[("date", "=", date.fromisoformat(DAYS[1]))])
    assert sorted(found["left_at_ns"].to_pylist()) == [10_000, 10_001, 10_002]
    assert rows_of(tmp_path) == rows_of(tmp_path, 1)


def test_large_file_between_small_ones_keeps_them_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_days(tmp_path, (1, 1, 1))
    large = next(file.name for file in files_of(tmp_path, HOPS) if file.name.endswith(".1.parquet"))
    monkeypatch.setattr(compaction, "_is_small", lambda file: file.path != large)
    assert compact(tmp_path).before == {}, "a file of two times would be found by the time between them"


def test_any_engine_sees_that_no_row_changed(tmp_path: Path) -> None:
    put_days(tmp_path, (5, 1))
    compact(tmp_path)
    log = DeltaTable(str(tmp_path / "silver" / "hops"))
    assert sorted(log.to_pyarrow_table()["left_at_ns"].to_pylist()) == rows_of(tmp_path)
    text = (tmp_path / "silver/hops/_delta_log" / f"{log.version():020}.json").read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    changes = [each[kind]["dataChange"] for each in actions for kind in ("add", "remove") if kind in each]
    assert changes == [False] * 6
    statistics = log.get_add_actions(flatten=True)
    assert all(count > 0 for count in pa.table(statistics)["num_records"].to_pylist())


def test_rows_stay_in_the_order_of_their_files_and_sightings_of_a_message_lie_together(tmp_path: Path) -> None:
    put_days(tmp_path, (5, 1))
    compact(tmp_path)
    assert max((pq.read_table(file)["left_at_ns"].to_pylist() for file in files_of(tmp_path, HOPS)), key=len) == [
        *range(15)
    ]
    rows = pa.table({"correlation_id": [b"b", b"a", None, b"b", b"a"], "sequence": [1, 2, 3, 4, 5]})
    assert merging._ordered("silver.messages", rows)["sequence"].to_pylist() == [2, 5, 1, 4, 3]
    assert merging._ordered("bronze.sightings", rows) is rows


@pytest.mark.parametrize(("limit", "files"), [("SMALL_BYTES", 40), ("MERGED_BYTES", 20)])
def test_large_files_stay_and_merged_files_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, files: int
) -> None:
    put_days(tmp_path, (40, 0))
    monkeypatch.setattr(compaction, limit, 1)
    compact(tmp_path)
    assert counts(tmp_path) == [files, 0]


def ingested(lake: Path, count: int, *, is_open: bool = False) -> dict[str, list[int]]:
    """A lake with so many sources, each with a part of its own; gives the rows of each source."""
    rows: dict[str, list[int]] = {}
    with writing(lake) as run:
        sources: dict[str, StoredSource] = {}
        files: dict[str, list[StoredFile]] = {name: [] for name in INGESTED}
        for number in range(count):
            part = part_name(run.name, number)
            numbers = [number * 3 + each for each in range(3)]
            for name in INGESTED:
                files[name] += [put_small(run, name, day, numbers, part) for day in DAYS[:2]]
            source = f"segment-{number:03}.arrows"
            sources[source] = StoredSource(
                1, source, 6, parts=(part,), is_open=is_open and number == 0, path=f"/captures/{source}"
            )
            rows[source] = numbers
        for name, some in files.items():
            run.put(name, "basis", SCHEMA, some)
        run.publish(sources, "decoder")
    return rows


def test_parts_of_sources_are_merged_in_all_tables_and_sources_know_their_new_part(tmp_path: Path) -> None:
    rows = ingested(tmp_path, 40, is_open=True)
    compact(tmp_path)
    sources = read_manifest(tmp_path).sources
    parts = {name: source.parts for name, source in sources.items()}
    assert len({part for name, part in parts.items() if name != "segment-000.arrows"}) == 1
    assert len(set(parts.values())) == 2, "a source that may grow has a part of its own"
    for table in INGESTED:
        assert counts(tmp_path, table) == [1, 2], "the merged part has one file, the other one for each day"
        assert rows_of(tmp_path, table=table) == sorted(2 * [number for some in rows.values() for number in some])
        names = {file.name.partition(".")[0] for file in files_of(tmp_path, table)}
        assert names == {part for each in parts.values() for part in each}


def test_bounded_compactions_one_after_the_other_merge_what_one_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ingested(tmp_path, 40)
    with writing(tmp_path) as run:
        hops = [put_small(run, HOPS, DAYS[0], [number]) for number in range(40)]
        run.put(HOPS, "basis", SCHEMA, hops)
        run.publish(run.before.sources, "decoder")
    expected = {name: rows_of(tmp_path, table=name) for name in (HOPS, *INGESTED)}
    size = hops[0].size_bytes
    monkeypatch.setattr(compaction, "MERGED_BYTES", 10 * size)
    merged: list[int] = []
    while (done := compact(tmp_path, most_bytes=1)).has_more:
        merged.append(sum(done.before.values()) - sum(done.after.values()))
        assert {name: rows_of(tmp_path, table=name) for name in expected} == expected
    assert merged[0] == 9, "ten files of judged rows first, and what is left is not crowded"
    assert len(merged) > 2, "then sightings, a group at a time"
    assert all(merged)
    assert {name: rows_of(tmp_path, table=name) for name in expected} == expected
    parts = {part for source in read_manifest(tmp_path).sources.values() for part in source.parts}
    assert len(read_manifest(tmp_path).sources) == len(rows) == 40
    for table in INGESTED:
        assert {file.name.partition(".")[0] for file in files_of(tmp_path, table)} == parts
    assert not compact(tmp_path, most_bytes=1).has_more


KILLED = f"""{DYING}
from hopwire.lake.compaction import compact

left = int(sys.argv[2])
compact(sys.argv[1])
"""


@pytest.mark.parametrize("commits", [1, 2])
def test_compaction_that_is_killed_between_two_commits_changes_nothing(tmp_path: Path, commits: int) -> None:
    for table in (HOPS, "gold.flows"):
        put_days(tmp_path, (35, 1), table)
    rows = rows_of(tmp_path)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(commits)], check=False)
    assert ended.returncode == -9
    assert read_manifest(tmp_path).number == 2
    for table in (HOPS, "gold.flows"):
        assert rows_of(tmp_path, table=table) == rows
        log = DeltaTable(str(tmp_path.joinpath(*table.split("."))))
        assert sorted(log.to_pyarrow_table()["left_at_ns"].to_pylist()) == rows, "whoever knows no manifest, too"
    compact(tmp_path)
    assert (counts(tmp_path), counts(tmp_path, "gold.flows")) == ([1, 1], [1, 1])
    assert rows_of(tmp_path) == rows_of(tmp_path, 2) == rows


def test_old_files_go_when_nobody_can_read_them_any_more(tmp_path: Path) -> None:
    put_days(tmp_path, (35, 1))
    compact(tmp_path, LakeSettings(keep_snapshots=1, keep_seconds=1e-9))
    found = [file for file in (tmp_path / "silver" / "hops").rglob("*.parquet") if "_delta_log" not in str(file)]
    assert sorted(found) == sorted(files_of(tmp_path, HOPS))
    assert len(rows_of(tmp_path)) == 36 * 3


def test_damaged_file_is_named_and_nothing_is_done(tmp_path: Path) -> None:
    put_days(tmp_path, (35, 1))
    file = files_of(tmp_path, HOPS)[0]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(LakeError, match=r"silver\.hops: .* is not as it was written"):
        compact(tmp_path)
    assert read_manifest(tmp_path).number == 1


def test_build_may_merge_files_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_days(tmp_path, (35, 1))
    built = Built(tmp_path, read_manifest(tmp_path), (), (), ())
    monkeypatch.setattr(runs, "build", lambda *args, **settings: built)
    assert (
        json.loads(hopwire("lake", "build", "captures", str(tmp_path), "--json").out)["tables"][HOPS]["row_count"]
        == 108
    )
    assert counts(tmp_path) == [35, 1]
    assert hopwire("lake", "build", "captures", str(tmp_path), "--compact").code == 0
    assert counts(tmp_path) == [1, 1]


def test_command_says_what_it_merged(tmp_path: Path) -> None:
    put_days(tmp_path / "lake", (35, 1))
    found = hopwire("lake", "compact", str(tmp_path / "lake"))
    assert (found.code, found.err) == (0, "")
    assert found.out.splitlines()[-1].split() == [HOPS, "36", "2"]
    assert hopwire("lake", "compact", str(tmp_path / "lake")).out == "nothing to compact\n"
    refused = hopwire("lake", "compact", str(tmp_path / "none"))
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert not (tmp_path / "none").exists()
