"""The build: only what is needed, once, all at once, and it adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hopwire.capture import batch_from_sightings
from hopwire.errors import BalanceError, LakeError
from hopwire.lake import build as runs
from hopwire.lake.build import Built, build
from hopwire.lake.catalog import find_sources
from hopwire.lake.dataframes import read_table
from hopwire.lake.ingest import decoder_basis
from hopwire.lake.manifest import stale_tables
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import files_of as paths_of
from hopwire.lake.store import read_arrow, read_manifest
from hopwire.lake.tables import Column, Table, all_tables
from hopwire.security import OPEN, Domain, Domains, Key
from tests.lake.captures import DOMAINS, SECRET, make_capture, make_sightings, write_segment

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FEW = ("silver.messages", "silver.quarantine", "gold.contracts")
MESSAGES_PER_NODE, NOISE_PER_NODE = 36, 4


def no_spark() -> SparkSession:
    raise AssertionError("Spark was started")


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    return make_capture(tmp_path / "captures")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def rows_of(lake: Path, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_arrow(lake, table).to_pylist()
    return sorted(rows, key=repr)


def files_of(lake: Path) -> set[str]:
    return {str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file() and path.name != "lock"}


def counts(lake: Path) -> dict[str, int]:
    return {name: table.row_count for name, table in read_manifest(lake).tables.items()}


def test_build_gives_every_row_and_what_it_says(spark: SparkSession, captures: Path, lake: Path) -> None:
    built = build(spark, captures, lake, FEW, domains=DOMAINS)
    assert counts(lake)["bronze.sightings"] == 82
    assert counts(lake)["silver.messages"] == 2 * MESSAGES_PER_NODE
    assert counts(lake)["silver.quarantine"] == 2 * NOISE_PER_NODE
    assert built.read == ("anna.arrows", "bert.arrows")
    assert built.tables == ("gold.contracts",)
    assert built.faults == ()
    messages = read_table(spark, lake, "silver.messages")
    assert {row.verdict for row in messages.select("verdict").distinct().collect()} == {"valid", "unsigned"}
    assert messages.columns == all_tables()["silver.messages"].stored_schema.names


def test_every_table_is_built_as_declared_and_adds_up(spark: SparkSession, captures: Path, lake: Path) -> None:
    built = build(spark, captures, lake, domains=DOMAINS)
    assert set(built.manifest.tables) == set(all_tables())
    for name, table in all_tables().items():
        assert read_arrow(lake, name).schema == table.stored_schema
        keys = read_arrow(lake, name, table.key).to_pylist()
        assert len({repr(key) for key in keys}) == len(keys), f"the key of {name} is one"
    assert all(row["is_balanced"] for row in rows_of(lake, "gold.quality"))
    assert build(no_spark, captures, lake, domains=DOMAINS).tables == ()


def test_to_build_twice_is_to_build_once(spark: SparkSession, captures: Path, lake: Path) -> None:
    build(spark, captures, lake, FEW)
    before = files_of(lake)
    again = build(no_spark, captures, lake, FEW)
    assert (again.read, again.tables) == ((), ())
    assert files_of(lake) == before


def test_new_source_is_read_and_the_others_are_not(spark: SparkSession, captures: Path, lake: Path) -> None:
    build(spark, captures, lake, FEW)
    before = files_of(lake)
    write_segment(captures / "cleo.arrows", make_sightings("cleo"))
    built = build(spark, captures, lake, FEW)
    assert built.read == ("cleo.arrows",)
    assert built.tables == ("gold.contracts",)
    kept = {name for name in before if name.startswith(("bronze/sightings", "silver"))}
    assert kept <= files_of(lake)
    assert counts(lake)["silver.messages"] == 3 * MESSAGES_PER_NODE


def test_open_segment_that_has_grown_replaces_its_rows(spark: SparkSession, tmp_path: Path, lake: Path) -> None:
    rows = make_sightings("anna")
    captures = tmp_path / "captures"
    captures.mkdir()
    path = write_segment(captures / "anna.open.arrows", rows[:16], is_sealed=False)
    build(spark, captures, lake, FEW)
    assert counts(lake)["bronze.sightings"] == 16
    path.unlink()
    write_segment(captures / "anna.arrows", rows)
    build(spark, captures, lake, FEW)
    assert counts(lake)["bronze.sightings"] == 41
    sequences = [row["sequence"] for row in rows_of(lake, "bronze.sightings")]
    assert len(set(sequences)) == len(sequences) == 41


def test_sources_that_are_gone_stay_and_can_be_decoded_again(spark: SparkSession, captures: Path, lake: Path) -> None:
    build(spark, captures, lake, FEW, domains=DOMAINS)
    before = rows_of(lake, "silver.messages")
    (captures / "bert.arrows").unlink()
    assert build(no_spark, captures, lake, FEW, domains=DOMAINS).read == ()
    built = build(spark, captures, lake, FEW, domains=DOMAINS, redecode=True)
    assert sorted(built.read) == ["anna.arrows", "bert.arrows"]
    assert built.tables == ("gold.contracts",)
    assert rows_of(lake, "silver.messages") == before


def test_other_domains_judge_everything_anew(spark: SparkSession, captures: Path, lake: Path) -> None:
    build(spark, captures, lake, FEW)
    assert {row["verdict"] for row in rows_of(lake, "silver.messages")} == {"no_key", "unsigned"}
    build(spark, captures, lake, FEW, domains=DOMAINS)
    assert {row["verdict"] for row in rows_of(lake, "silver.messages")} == {"valid", "unsigned"}


def test_what_the_lake_remembers_of_domains_does_not_depend_on_secrets() -> None:
    def basis(secret: bytes) -> str:
        return decoder_basis(Domains([Domain("d", [Key("k", secret)], ["d.*"])]))

    assert basis(SECRET) == basis(SECRET[::-1]) != decoder_basis(OPEN)


def test_faults_of_files_are_told_and_the_build_goes_on(spark: SparkSession, captures: Path, lake: Path) -> None:
    (captures / "odd.arrows").write_bytes(b"no capture, whatever its name says")
    (captures / "letter.txt").write_text("dear reader")
    cut = captures / "bert.arrows"
    cut.write_bytes(cut.read_bytes()[:-600])
    built = build(spark, captures, lake, FEW)
    assert [fault.partition(":")[0] for fault in built.faults] == ["bert.arrows", "odd.arrows", "letter.txt"]
    sources = {row["segment"]: row for row in rows_of(lake, "bronze.sources")}
    assert sources["odd.arrows"]["row_count"] == sources["letter.txt"]["row_count"] == 0
    assert sources["bert.arrows"]["row_count"] == 32
    assert all(sources[name]["faults"] for name in ("odd.arrows", "letter.txt", "bert.arrows"))
    assert build(no_spark, captures, lake, FEW).read == ()


def test_lake_and_captures_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    name = "my läke[1] a{b}c%x"  # a part that is taken for a pattern or an escape leads nowhere
    captures, lake = make_capture(tmp_path / f"caps of {name}"), tmp_path / name
    build(spark, captures, lake, ["silver.hops", "gold.contracts"])
    assert read_table(spark, lake, "silver.messages").count() == 2 * MESSAGES_PER_NODE
    for table in ("silver.hops", "gold.contracts"):
        assert read_table(spark, lake, table).count() == counts(lake)[table] > 0
    write_segment(captures / "cleo.arrows", make_sightings("cleo"))
    build(spark, captures, lake, ["gold.contracts"])
    assert read_table(spark, lake, "silver.messages").count() == 3 * MESSAGES_PER_NODE


def test_frame_of_before_many_builds_can_be_read_behind_them(spark: SparkSession, captures: Path, lake: Path) -> None:
    build(spark, captures, lake, FEW)
    before = {name: read_table(spark, lake, name) for name in FEW}
    rows = {name: frame.count() for name, frame in before.items()}
    write_segment(captures / "cleo.arrows", make_sightings("cleo"))
    for _ in range(3):
        build(spark, captures, lake, FEW, redecode=True)
    assert {name: frame.count() for name, frame in before.items()} == rows
    assert read_table(spark, lake, "silver.messages").count() == 3 * MESSAGES_PER_NODE
    assert read_table(spark, lake, "silver.messages", read_manifest(lake, 1)).count() == 2 * MESSAGES_PER_NODE
    build(spark, captures, lake, FEW, redecode=True, settings=LakeSettings(keep_snapshots=1, keep_seconds=1e-9))
    named = {path.name for name in read_manifest(lake).tables for path in paths_of(lake, name)}
    assert {path.name for path in lake.rglob("*.parquet")} == named, "what no state of the lake names is gone"


def test_source_that_only_has_the_name_of_another_does_not_replace_it(
    spark: SparkSession, tmp_path: Path, lake: Path
) -> None:
    for node in ("anna", "bert"):
        (tmp_path / node).mkdir()
        rows = pa.Table.from_batches([batch_from_sightings(make_sightings(node, 20, skipped=0))])
        pq.write_table(rows, tmp_path / node / "part-00000.parquet")
    build(spark, tmp_path / "anna", lake, ["silver.messages"])
    with pytest.raises(
        LakeError, match=r"bert/part-00000\.parquet: the lake has another file of this name, .*anna/part"
    ):
        build(no_spark, tmp_path / "bert", lake, ["silver.messages"])
    assert {row["node"] for row in rows_of(lake, "bronze.sightings")} == {b"anna"}
    (tmp_path / "bert" / "part-00000.parquet").rename(tmp_path / "bert" / "part-b.parquet")
    build(spark, tmp_path / "bert", lake, ["silver.messages"])
    assert counts(lake)["bronze.sightings"] == 40


def test_tables_that_a_partial_build_leaves_behind_are_stale(spark: SparkSession, captures: Path, lake: Path) -> None:
    build(spark, captures, lake, ["gold.links", "gold.contracts"])
    assert stale_tables(read_manifest(lake)) == {}
    built = build(spark, captures, lake, ["silver.messages"], redecode=True)
    stale = stale_tables(built.manifest)
    assert set(stale) == {"gold.links", "gold.contracts", "silver.hops", "silver.clocks"}
    assert all("silver.messages" in newer for newer in stale.values())
    build(spark, captures, lake, ["gold.contracts"])
    assert set(stale_tables(read_manifest(lake))) == {"gold.links", "silver.hops", "silver.clocks"}
    build(spark, captures, lake, ["gold.links"])
    assert stale_tables(read_manifest(lake)) == {}


def test_progress_begins_and_ends(spark: SparkSession, captures: Path, lake: Path) -> None:
    told: list[tuple[str, int, int]] = []
    build(spark, captures, lake, FEW, progress=lambda *step: told.append(step))
    size = sum(path.stat().st_size for path in captures.iterdir())
    assert told[0] == ("captures", 0, size)
    assert ("captures", size, size) in told
    assert told[-2:] == [("gold.contracts", 0, 1), ("gold.contracts", 1, 1)]


# -- what goes wrong


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Declare a table for this test only."""

    def declare(
        build_table: Callable[[DataFrame], DataFrame], name: str = "gold.broken", **columns: pa.DataType
    ) -> None:
        declared = tuple(Column(each, kind, "x") for each, kind in columns.items())
        table = Table(name, (), ("silver.messages",), declared, "One row.", build_table)
        monkeypatch.setitem(all_tables(), name, table)

    return declare


def failing_build(spark: SparkSession, captures: Path, lake: Path, table: str = "gold.broken") -> str:
    with pytest.raises(LakeError) as caught:
        build(spark, captures, lake, [table])
    assert "\n" not in str(caught.value)
    assert not list(lake.rglob("_delta_log")), "nothing is visible"
    with pytest.raises(LakeError):
        read_manifest(lake)
    return str(caught.value)


def test_table_that_is_not_what_it_declares_is_refused(
    spark: SparkSession, captures: Path, lake: Path, broken: Callable[..., None]
) -> None:
    broken(lambda messages: messages.select("sequence"), sequence=pa.string())
    assert "its function gives ('sequence', 'bigint'), its columns declare ('sequence', 'string')" in failing_build(
        spark, captures, lake
    )


def test_job_that_fails_is_one_line_and_leaves_nothing(
    spark: SparkSession, captures: Path, lake: Path, broken: Callable[..., None]
) -> None:
    def fail(messages: DataFrame) -> DataFrame:
        return messages.select(F.raise_error(F.concat(F.lit("oh no "), F.col("direction"))).cast("string").alias("a"))

    broken(fail, a=pa.string())
    assert failing_build(spark, captures, lake).startswith("gold.broken: Spark failed: ")


def test_worker_that_fails_is_one_line(
    spark: SparkSession, captures: Path, lake: Path, broken: Callable[..., None]
) -> None:
    def explode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise OSError(28, "No space left on device")

    broken(lambda messages: messages.mapInArrow(explode, "a string"), a=pa.string())
    assert failing_build(spark, captures, lake) == (
        "gold.broken: the disk is full: make room for the lake and for SPARK_LOCAL_DIRS"
    )


def test_error_of_a_worker_ends_the_build_with_its_words(
    spark: SparkSession, captures: Path, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_sources(captures)
    monkeypatch.setattr(runs, "find_sources", lambda captures, known: found)
    (captures / "anna.arrows").unlink()
    assert "anna.arrows: No such file or directory" in failing_build(spark, captures, lake, "gold.contracts")


def test_run_that_does_not_add_up_fails_and_is_not_published(
    spark: SparkSession, captures: Path, lake: Path, broken: Callable[..., None]
) -> None:
    def lose(messages: DataFrame) -> DataFrame:
        row = ("decode", "anna.arrows", 41, 40, False)
        return spark.createDataFrame(
            [row], "step string, segment string, rows_in long, rows_out long, is_balanced boolean"
        )

    kinds = {"step": pa.string(), "segment": pa.string(), "rows_in": pa.int64(), "rows_out": pa.int64()}
    broken(lose, "gold.quality", **kinds, is_balanced=pa.bool_())
    with pytest.raises(BalanceError, match=r"anna\.arrows: 41 rows went into step decode, 40 came out"):
        build(spark, captures, lake, ["gold.quality"])
    assert not list(lake.rglob("_delta_log"))


def test_built_is_a_value(spark: SparkSession, captures: Path, lake: Path) -> None:
    built = build(spark, captures, lake, ["silver.messages"])
    assert isinstance(built, Built)
    bronze = {"bronze.forgotten", "bronze.sources", "bronze.sightings", "bronze.spans"}
    assert set(built.manifest.tables) == bronze | {"silver.messages", "silver.quarantine"}


def test_domains_that_are_forgotten_do_not_undo_verdicts(spark: SparkSession, captures: Path, lake: Path) -> None:
    build(spark, captures, lake, ("silver.messages",), domains=DOMAINS)
    with pytest.raises(LakeError, match="has judged signatures by the domains orders, stock, billing: name them again"):
        build(no_spark, captures, lake, ("silver.messages",))


def test_table_that_has_lost_a_file_is_built_again(spark: SparkSession, captures: Path, lake: Path) -> None:
    build(spark, captures, lake, FEW)
    for file in paths_of(lake, "gold.contracts"):
        file.unlink()
    assert build(spark, captures, lake, FEW).tables == ("gold.contracts",)
    assert len(rows_of(lake, "gold.contracts")) > 0
