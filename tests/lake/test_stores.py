"""Captures and lakes in a bucket: the rows are those of a lake on a disk, and what goes wrong is one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hopwire.capture.sources import list_sources
from hopwire.errors import LakeError, PlaceError
from hopwire.lake import read, store
from hopwire.lake.build import build, no_spark, step
from hopwire.lake.compaction import compact
from hopwire.lake.increment import OWN
from hopwire.lake.lake_standing import lake_status
from hopwire.lake.manifest import Manifest, StoredFile
from hopwire.lake.parquet_output import ParquetFileWriter, TableLayout
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.simulation import simulate_here
from hopwire.lake.sql import query
from hopwire.lake.store import LakeRun, files_of, read_arrow, read_manifest, read_whole, writing
from hopwire.lake.straight import read_straight
from hopwire.model.sighting import Sighting
from hopwire.model.units import NS_PER_MINUTE
from hopwire.places import Place, list_below, look_at, place_of, put, read_file, remove_files, upload
from hopwire.simulate import SimulateSettings
from tests.lake.captures import make_sightings, write_segment
from tests.lake.killing import DYING
from tests.lake.test_store import SCHEMA
from tests.s3_server import S3Server

SECRET = b"never-seen-anywhere"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stored") / "network"
    simulate_here(SimulateSettings(messages=150), out)
    return out


@pytest.fixture(scope="module")
def expected(network: Path) -> dict[str, list[str]]:
    """The rows of a lake on a disk."""
    build(no_spark, network / "captures", network / "lake")
    return rows_of(network / "lake")


def rows_of(lake: Place | str) -> dict[str, list[str]]:
    """All rows of all tables, but of those that steps have for themselves: they depend on how captures were cut."""
    names = read_manifest(lake).tables.keys() - OWN
    return {name: sorted(map(repr, read_arrow(lake, name).to_pylist())) for name in names}


def messages_in(lake: str) -> set[str]:
    return set(map(repr, read_arrow(lake, "silver.messages").to_pylist()))


def later(rows: list[Sighting], days: int) -> list[Sighting]:
    return [row._replace(seen_at_ns=row.seen_at_ns + days * 24 * 60 * NS_PER_MINUTE) for row in rows]


def ship(files: list[Path], place: Place | str) -> None:
    for file in files:
        upload(file, place_of(place) / file.name)


def test_lake_in_a_bucket_has_the_rows_of_a_lake_on_a_disk(
    bucket: str, s3_server: S3Server, network: Path, expected: dict[str, list[str]]
) -> None:
    captures, lake = network / "captures", f"{bucket}/my/lake"
    segments = sorted(captures.iterdir())
    for cut in (len(segments) // 2, len(segments)):
        ship(segments[:cut], f"{bucket}/captures")
        build(no_spark, f"{bucket}/captures", lake)
    assert rows_of(lake) == expected
    assert read_manifest(lake).number == 2, "two steps"
    s3_server.asked()
    assert build(no_spark, f"{bucket}/captures", lake).read == ()
    assert not [path for method, path in s3_server.asked() if method == "GET" and path.endswith(".arrows")]
    # everything that reads
    counted = query(lake, "select count(*) as n from gold.flows")["n"].to_pylist()
    assert counted == [len(expected["gold.flows"])]
    assert len(read(lake, "flows", as_="polars").collect()) == counted[0]
    assert lake_status(lake, 0).open_flows >= 0
    assert len(list_sources(f"{bucket}/captures")) == len(list_sources(captures))
    straight = read_straight(place_of(f"{bucket}/captures"))
    assert straight.flow_ids.equals(read_straight(captures).flow_ids)
    assert_no_secret(place_of(bucket))


def assert_no_secret(place: Place) -> None:
    for file in list_below(place):
        assert SECRET not in read_file(place / file.name, 2**30), file.name


def test_query_opens_the_files_that_may_have_its_rows(bucket: str, s3_server: S3Server, tmp_path: Path) -> None:
    for number, node in enumerate(("anna", "bert")):
        write_segment(tmp_path / f"{node}.arrows", later(make_sightings(node, 40), number))
        step(f"{bucket}/lake", [tmp_path / f"{node}.arrows"])
    days = query(f"{bucket}/lake", "select date::varchar as day, count(*) from messages group by 1 order by 1")["day"]
    assert len(days) == 2
    wanted = str(days[1])
    files = files_of(f"{bucket}/lake", "silver.messages")
    of_day = {file.name for file in files if wanted in read_whole(file, ["date"])["date"].cast(pa.string()).to_pylist()}
    s3_server.asked()
    found = query(f"{bucket}/lake", f"select distinct date::varchar as day from messages where date = '{wanted}'")
    assert found["day"].to_pylist() == [wanted]
    opened = {path for method, path in s3_server.asked() if method == "GET" and path.endswith(".parquet")}
    assert len(of_day) == len(files) / 2
    assert {path.rpartition("/")[2] for path in opened} == of_day


def test_compaction_and_retention_work_in_a_bucket(bucket: str, tmp_path: Path) -> None:
    lake = f"{bucket}/lake"
    for number in range(2):
        file = write_segment(tmp_path / f"n{number}.arrows", make_sightings(f"node{number}", 20))
        step(lake, [file])
    before = messages_in(lake)
    late = write_segment(tmp_path / "late.arrows", later(make_sightings("late", 20), 2))
    step(lake, [late])
    merged = compact(lake)
    assert merged.after["silver.messages"] < merged.before["silver.messages"]
    removed = forget_old(place_of(lake), LakeSettings(keep_snapshots=1, keep_seconds=0.001), is_now=True)
    assert removed > 0
    assert before < messages_in(lake)


# -- what goes wrong

KILLED = f"""{DYING}
from hopwire.lake.build import build, no_spark

left = int(sys.argv[3])
build(no_spark, sys.argv[1], sys.argv[2])
"""


def test_build_that_is_killed_between_commits_leaves_the_old_lake(
    bucket: str, network: Path, expected: dict[str, list[str]]
) -> None:
    segments, lake = sorted((network / "captures").iterdir()), f"{bucket}/lake"
    ship(segments[: len(segments) // 2], f"{bucket}/captures")
    build(no_spark, f"{bucket}/captures", lake)
    before = read_arrow(lake, "silver.messages")
    ship(segments, f"{bucket}/captures")
    command = [sys.executable, "-c", KILLED, f"{bucket}/captures", lake, "12"]  # commits, of some twenty
    assert subprocess.run(command, check=False, env=dict(os.environ)).returncode == -9
    assert read_arrow(lake, "silver.messages").equals(before)
    build(no_spark, f"{bucket}/captures", lake)
    assert rows_of(lake) == expected


def test_of_two_runs_at_once_the_second_fails_and_nothing_is_half_visible(bucket: str) -> None:
    lake = f"{bucket}/lake"
    fill(lake, [1], "first")
    with writing(lake) as slow:
        slow.put("gold.t", "slow", SCHEMA, [write_to(slow, "slow", [2])])
        fill(lake, [3], "quick")
        with pytest.raises(LakeError, match=r"is another build at work\? build again|another build was quicker"):
            slow.publish({}, "")
    assert read_arrow(lake, "gold.t")["a"].to_pylist() == [3]
    fill(lake, [4], "next")
    assert read_arrow(lake, "gold.t")["a"].to_pylist() == [4]


def write_to(run: LakeRun, name: str, numbers: list[int]) -> StoredFile:
    writer = ParquetFileWriter(run.place("gold.t") / f"{name}.parquet", TableLayout(SCHEMA), LakeSettings(), 1)
    writer.add(pa.table([numbers, [str(each) for each in numbers]], schema=SCHEMA))
    return writer.close(f"{name}.parquet")


def fill(lake: str, numbers: list[int], basis: str) -> Manifest:
    with writing(lake) as run:
        run.put("gold.t", basis, SCHEMA, [write_to(run, basis, numbers)])
        return run.publish({}, "")


def test_notes_of_runs_that_died_long_ago_are_removed(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = place_of(f"{bucket}/lake")
    fill(str(lake), [1], "first")
    notes = lake / "_hopwire" / "work" / "0123456789ab" / "groups.json"
    put(notes, b"[]")
    fill(str(lake), [2], "second")
    assert look_at(notes), "the run may still be at work"
    monkeypatch.setattr(store, "DEAD_NS", -1_000_000_000)
    fill(str(lake), [3], "third")
    assert look_at(notes) is None


def test_place_with_other_files_is_no_lake(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    upload(tmp_path / "file", place_of(f"{bucket}/mine/file"))
    with pytest.raises(LakeError, match="has other files in it and is not a lake"), writing(f"{bucket}/mine"):
        pass
    with pytest.raises(LakeError, match="is not a lake; build one"):
        read_manifest(f"{bucket}/none")


def test_captures_that_are_not_there_are_one_line(bucket: str) -> None:
    with pytest.raises(LakeError, match="is not there; name a directory of captures"):
        build(no_spark, f"{bucket}/captures", f"{bucket}/lake")
    with pytest.raises(PlaceError, match="there is no such bucket"):
        build(no_spark, "s3://no-such-bucket/captures", f"{bucket}/lake")


def test_credentials_that_expire_in_the_middle_leave_the_lake_as_it_was(
    bucket: str, s3_server: S3Server, tmp_path: Path
) -> None:
    lake = f"{bucket}/lake"
    step(lake, [write_segment(tmp_path / "anna.arrows", make_sightings("anna", 40))])
    file = write_segment(tmp_path / "bert.arrows", make_sightings("bert", 40))
    for after in (5, 200):  # while the lake is opened, and between commits
        s3_server.refuse("ExpiredToken", after)
        with pytest.raises(PlaceError, match="credentials have expired; renew AWS_ACCESS_KEY_ID") as refused:
            step(lake, [file])
        assert "\n" not in str(refused.value)
        s3_server.refuse()
        assert read_manifest(lake).number == 1
    step(lake, [file])
    step(tmp_path / "lake", [tmp_path / "anna.arrows"])
    step(tmp_path / "lake", [file])
    assert rows_of(lake) == rows_of(tmp_path / "lake")


def test_file_that_is_gone_from_a_bucket_is_named(bucket: str, tmp_path: Path) -> None:
    lake = f"{bucket}/lake"
    step(lake, [write_segment(tmp_path / "anna.arrows", make_sightings("anna", 40))])
    (gone, *_) = files_of(lake, "silver.messages")
    remove_files(gone)
    with pytest.raises(LakeError, match=r"silver.messages: .* cannot be read \(it is not there\)"):
        read_arrow(lake, "silver.messages")
