"""What somebody asks for leaves a lake for good: every table, every old state, every byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from hopwire.errors import LakeError, SettingsError
from hopwire.lake.build import build, step
from hopwire.lake.compaction import compact
from hopwire.lake.forgetting import forget
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import manifest_numbers, read_arrow, read_manifest
from tests.cli.running import hopwire
from tests.lake.days import ANNA, BERT, DAY, FIRST_DAY, SECOND, Days
from tests.lake.killing import kill_at
from tests.lake.test_increment import GrowingFile, assert_same, no_spark, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

PLAIN = LakeSettings(compression="none")  # so that bytes can be looked for
CARL, DORA = b"carl", b"dora"


def three_nodes(place: Path) -> list[list[Path]]:
    """Two days: anna asks bert, bert asks carl, and carl sees noise."""
    days, found = Days(place), []
    for number in range(2):
        begin = FIRST_DAY + number * DAY
        for each in range(10):
            days.ask(b"anna-%d-%d" % (number, each), begin + each * 1000 * SECOND)
            days.ask(b"carl-%d-%d" % (number, each), begin + each * 1000 * SECOND + SECOND, one=BERT, other=CARL)
        days.see(CARL, DORA, "in", begin + 20_000 * SECOND, [b"noise of carl"])
        days.see(BERT, CARL, "in", begin + 20_001 * SECOND, [b"noise about carl"])
        found.append(days.write(f"{number}"))
    return found


def everything(lake: Path) -> bytes:
    return b"\n".join(
        str(path).encode() + b"\n" + path.read_bytes() for path in sorted(lake.rglob("*")) if path.is_file()
    )


def assert_nowhere(lake: Path, *words: bytes) -> None:
    """No byte of a word is below the lake: not in files of rows, whatever packs them, nor in logs or manifests."""
    found = everything(lake)
    for word in words:
        assert word not in found
    for name, stored in read_manifest(lake).tables.items():
        rows = read_arrow(lake, name).to_pylist()
        text = repr(rows).encode()
        assert len(rows) == stored.row_count
        for word in words:
            assert word not in text, name


def assert_balanced(lake: Path) -> dict[str, int]:
    rows = read_arrow(lake, "gold.quality").to_pylist()
    assert all(row["is_balanced"] for row in rows)
    read = {row["segment"]: row for row in rows if row["step"] == "read"}
    left = sum(row["rows_in"] - row["forgotten"] for row in read.values())
    assert left == len(read_arrow(lake, "bronze.sightings"))
    return {name: row["forgotten"] for name, row in read.items()}


def flows_of(lake: Path) -> set[bytes]:
    return set(read_arrow(lake, "gold.flows")["correlation_id"].to_pylist())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made")
    for sources in three_nodes(place / "captures"):
        step(place / "lake", sources, settings=PLAIN)
    compact(place / "lake", PLAIN)
    return place


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "lake"


def test_flow_leaves_every_table_and_every_old_state(lake: Path) -> None:
    assert b"carl-0-3" in everything(lake)
    before = rows_of(lake)
    done = forget(lake, flow="carl-0-3", settings=PLAIN)
    assert (done.flow_count, done.rows["silver.messages"], done.rows["silver.hops"]) == (1, 4, 2)
    assert manifest_numbers(lake) == [done.manifest.number]
    assert_nowhere(lake, b"carl-0-3")
    forgotten = {name: count for name, count in assert_balanced(lake).items() if count}
    assert forgotten == {"bert-0.arrows": 2, "carl-0.arrows": 2}
    after = rows_of(lake)
    for name in ("silver.hops", "gold.requests", "gold.flows", "silver.clocks"):
        assert set(after[name]) <= set(before[name]), "all others are as they were"
    assert len(flows_of(lake)) == 39
    build(no_spark, lake.parent / "captures", lake, redecode=True, settings=PLAIN)
    assert_nowhere(lake, b"carl-0-3")
    assert len(flows_of(lake)) == 39
    assert_balanced(lake)
    build(no_spark, lake.parent / "captures", lake)  # other files than plain ones: all is judged anew
    assert rows_of(lake)["silver.clocks"] == after["silver.clocks"], "others were judged by its crossings, and are so"


def test_source_leaves_with_all_its_flows_and_the_rest_is_as_if_it_had_never_been(lake: Path) -> None:
    done = forget(lake, source="carl-0.arrows", settings=PLAIN)
    assert done.flow_count == 10
    words = [b"carl-0.arrows", *(b"carl-0-%d" % each for each in range(10))]
    assert_nowhere(lake, *words)
    assert flows_of(lake) == {b"anna-%d-%d" % (day, each) for day in range(2) for each in range(10)} | {
        b"carl-1-%d" % each for each in range(10)
    }
    forgotten = assert_balanced(lake)
    assert sorted(forgotten.values(), reverse=True)[:3] == [21, 20, 0]
    number = read_manifest(lake).number
    build(no_spark, lake.parent / "captures", lake, redecode=True, settings=PLAIN)
    assert_nowhere(lake, *words)
    assert assert_balanced(lake) == forgotten
    assert read_manifest(lake).number > number


def test_node_leaves_with_its_name_and_others_are_judged_without_it(lake: Path, tmp_path: Path) -> None:
    done = forget(lake, node="carl", settings=PLAIN)
    assert done.flow_count == 20
    assert_nowhere(lake, b"carl", b"noise of", b"noise about")
    assert flows_of(lake) == {b"anna-%d-%d" % (day, each) for day in range(2) for each in range(10)}
    forgotten = assert_balanced(lake)
    assert sum(forgotten.values()) == 2 * (20 + 21 + 1)
    build(no_spark, tmp_path / "captures", lake, settings=PLAIN)
    build(no_spark, tmp_path / "captures", lake, redecode=True, settings=PLAIN)
    assert_nowhere(lake, b"carl")
    assert assert_balanced(lake) == forgotten
    days = Days(tmp_path / "later", dict.fromkeys((ANNA, BERT, CARL), 1000))
    days.ask(b"carl-later", FIRST_DAY + 3 * DAY, one=BERT, other=CARL)
    step(lake, days.write("later"), settings=PLAIN)
    assert b"carl-later" in flows_of(lake), "what comes later is not what was forgotten"


def test_node_leaves_all_files_of_a_part_that_has_many(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hopwire.lake.parquet_output.SHARED_BYTES", 1)  # each day is large, and has files of its own
    lake = tmp_path / "lake"
    build(no_spark, made / "captures", lake, settings=PLAIN)
    files = [path.name.partition(".")[0] for path in (lake / "silver/messages").glob("*.parquet")]
    assert len(files) > len(set(files)), "a part has files of two days"
    done = forget(lake, node="carl", settings=PLAIN)
    assert done.flow_count == 20
    assert_nowhere(lake, b"carl", b"noise of", b"noise about")
    assert_balanced(lake)
    found = rows_of(lake)
    build(no_spark, made / "captures", lake, redecode=True, settings=PLAIN)
    again = rows_of(lake)
    for name in ("bronze.sightings", "silver.messages", "silver.hops", "gold.requests", "gold.flows"):
        assert again[name] == found[name], name


def test_forgetting_that_is_killed_is_done_by_the_next_and_shows_nothing_half(made: Path, tmp_path: Path) -> None:
    before, number = rows_of(made / "lake"), read_manifest(made / "lake").number
    published = set()
    lakes = {point: Path(shutil.copytree(made / "lake", tmp_path / str(point))) for point in (5, 45)}
    kill_at({point: f"forget({str(lake)!r}, node='carl', settings=PLAIN)" for point, lake in lakes.items()})
    for lake in lakes.values():
        published.add(read_manifest(lake).number > number)
        if read_manifest(lake).number == number:
            assert_same(rows_of(lake), before)
            forget(lake, node="carl", settings=PLAIN)
        else:
            build(no_spark, made / "captures", lake, settings=PLAIN)
        assert_nowhere(lake, b"the secret of carl", b"carl-0-1")
        assert_balanced(lake)
    assert published == {False, True}, "one was killed before its manifest was there, one after"


@pytest.mark.spark
def test_node_leaves_a_lake_that_one_process_cannot_judge(lake: Path, spark: SparkSession) -> None:
    tiny, number = LakeSettings(compression="none", step_rows=1), read_manifest(lake).number
    with pytest.raises(LakeError, match=r"which needs Spark: .*; nothing was done"):
        forget(lake, node="carl", settings=tiny)
    assert read_manifest(lake).number == number
    started: list[int] = []

    def start() -> SparkSession:
        started.append(read_manifest(lake).number)
        return spark

    assert forget(lake, node="carl", settings=tiny, spark=start).flow_count == 20
    assert started[0] == number, "Spark is there before anything has left"
    assert_nowhere(lake, b"carl")
    assert flows_of(lake) == {b"anna-%d-%d" % (day, each) for day in range(2) for each in range(10)}
    assert_balanced(lake)


def test_command_starts_spark_only_if_it_is_needed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, **settings: object) -> None:
        raise SettingsError(f"{name}: no Java here")

    monkeypatch.setattr("hopwire.lake.session.session", refuse)
    monkeypatch.setattr("hopwire.lake.forgetting.LakeSettings", lambda: LakeSettings(step_rows=1))
    number = read_manifest(lake).number
    refused = hopwire("lake", "forget", str(lake), "--node", "carl")
    assert (refused.code, refused.err) == (2, "hopwire: hopwire lake forget: no Java here\n")
    assert read_manifest(lake).number == number, "nothing has left"
    monkeypatch.setattr("hopwire.lake.forgetting.LakeSettings", LakeSettings)
    assert "\n20 flows forgotten" in hopwire("lake", "forget", str(lake), "--node", "carl").out


def test_what_is_not_there_is_refused_in_one_line(lake: Path) -> None:
    number = read_manifest(lake).number
    with pytest.raises(LakeError, match="nothing was done"):
        forget(lake, flow="carl")
    with pytest.raises(LakeError, match="nothing was done"):
        forget(lake, node="nobody")
    with pytest.raises(LakeError, match="nothing was done"):
        forget(lake, source="carl")
    with pytest.raises(SettingsError, match="name one of them"):
        forget(lake, flow="a", node="b")
    assert read_manifest(lake).number == number
    refused = hopwire("lake", "forget", str(lake))
    assert (refused.code, refused.err.splitlines()) == (2, ["hopwire: name one of them: --source, --node or --flow"])
    said = json.loads(hopwire("lake", "forget", str(lake), "--flow", "anna-0-0", "--json").out)
    assert (said["flows"], said["sources"]) == (1, {"anna-0.arrows": 2, "bert-0.arrows": 2})


def test_segments_go_on_behind_a_flow_that_was_forgotten(tmp_path: Path) -> None:
    """The rows of the flow leave bronze.sightings, while the noise of the same part stays where it is."""
    days, lake, live, chance = Days(tmp_path / "whole"), tmp_path / "lake", tmp_path / "live", Random(1)
    days.see(ANNA, BERT, "in", FIRST_DAY, [b"noise"])
    for each in range(20):
        days.ask(b"flow-%d" % each, FIRST_DAY + (each + 1) * 1000 * SECOND)
    live.mkdir()
    growing = [GrowingFile(path, live) for path in days.write("0")]
    step(lake, [each.grow(chance) for each in growing])
    forget(lake, flow="flow-1")
    while not all(each.is_over for each in growing):
        step(lake, [each.grow(chance) for each in growing if not each.is_over])
    build(no_spark, tmp_path / "whole", tmp_path / "one build")
    forget(tmp_path / "one build", flow="flow-1")
    assert_same(rows_of(lake), rows_of(tmp_path / "one build"))
