from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from hopwire.capture import SCHEMA, Direction, read_capture
from hopwire.errors import CaptureError, SettingsError
from hopwire.lake.source import HopwireSource, path_from_text, read_options
from hopwire.wire.train import pack_train
from tests.capture.making import MS, START, write, writer
from tests.capture.recording.recordings import Recording, message, pcap

NODE_A, NODE_B = "X'6e6f64652d61'", "X'6e6f64652d62'"


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two segments of two nodes, six rows each."""
    directory = tmp_path_factory.mktemp("captures")
    write(directory, 6)
    write(directory, 6, node=b"node-b", first=6)
    return directory


# -- options


def test_everything_is_asked_for_by_default() -> None:
    asked = read_options({"path": "x"})
    assert asked.paths == ("x",)
    assert (asked.wanted.since, asked.wanted.until, asked.wanted.nodes) == (None, None, None)
    assert asked.wanted.columns == tuple(SCHEMA.names)


def test_options_narrow_what_is_asked_for() -> None:
    options = {"path": "x", "Start": "1970-01-01T00:00:01Z", "END": "2000000000000000000", "node": "a, 0x00ff"}
    wanted = read_options({**options, "columns": "frames,node"}).wanted
    assert (wanted.since, wanted.until) == (1_000_000_000, 2_000_000_000_000_000_000)
    assert wanted.nodes == frozenset({b"a", b"\0\xff"})
    assert wanted.columns == ("frames", "node")


# fmt: off
SENSELESS: tuple[tuple[dict[str, str], str], ...] = (
    ({},                              "nothing to read: give load() a directory or a file"),
    ({"path": "x", "colour": "red"},  "option 'colour' is not known; there are path, paths, start,"),
    ({"path": "x", "start": "noon"},  "option start: found 'noon', expected a time such as"),
    ({"path": "x", "end": "9" * 19},  "option end: found '9999999999999999999', expected a time such as"),
    ({"path": "x", "node": "0xyz"},   "option node: found '0xyz', expected text, or hex behind 0x"),
    ({"path": "x", "columns": "a"},   "no column 'a'; there are node, node_name,"),
    ({"path": "x", "faults": "a"},    "option faults: found 'a', expected one of refuse, skip"),
)
SCHEMAS = (
    (pa.field("colour", pa.string()),              "no column 'colour'; there are node,"),
    (pa.field("frames", pa.list_(pa.string())),    "column frames: found array<string>, expected array<binary>"),
)
# fmt: on


@pytest.mark.parametrize(("options", "words"), SENSELESS)
def test_option_that_makes_no_sense_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises((SettingsError, CaptureError)) as caught:
        HopwireSource(options).schema()
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(("column", "words"), SCHEMAS)
def test_schema_that_is_not_of_a_capture_is_named(column: pa.Field, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        HopwireSource({"path": "x"}).reader(from_arrow_schema(pa.schema([column])))
    assert str(caught.value).startswith(words)


def test_files_without_anything_that_is_asked_for_are_left_out(captures: Path) -> None:
    for option, count in ((("node", "node-b"), 1), (("start", str(START + 6 * MS)), 1), (("node", "node-x"), 0)):
        source = HopwireSource({"path": str(captures), option[0]: option[1]})
        assert len(source.reader(source.schema()).partitions()) == count


# fmt: off
PATHS = (
    # what load() is given       where it leads
    ("/my caps/a%20b[1]",        "/my caps/a%20b[1]"),
    ("file:/my%20caps/l%C3%A4",  "/my caps/lä"),
    ("file:///my%20caps",        "/my caps"),
    ("file:///my caps",          "/my caps"),
    ("file://localhost/a%2520",  "/a%20"),
)
# fmt: on


@pytest.mark.parametrize(("given", "place"), PATHS)
def test_path_is_taken_as_it_is_and_a_uri_is_decoded(given: str, place: str) -> None:
    assert str(path_from_text(given)) == place


def test_path_without_a_root_begins_here() -> None:
    assert path_from_text("a b") == Path.cwd() / "a b"
    assert path_from_text("file:a") == Path.cwd() / "file:a"


# -- Spark


def load(spark: SparkSession, path: Path | list[str], **options: str) -> DataFrame:
    return spark.read.format("hopwire").options(**options).load(path if isinstance(path, list) else str(path))


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_a_capture_as_this_process_does(spark: SparkSession, captures: Path) -> None:
    sightings = load(spark, captures)
    assert sightings.schema == from_arrow_schema(SCHEMA)
    expected = pa.Table.from_batches(read_capture(captures))
    assert sightings.orderBy("seen_at_ns").toArrow().cast(SCHEMA).to_pylist() == expected.to_pylist()


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_trains_as_their_messages(spark: SparkSession, tmp_path: Path) -> None:
    messages = [[b"peer", b"", b"%d" % number, b"meta"] for number in range(60)]
    with writer(tmp_path / "coupled") as coupled, writer(tmp_path / "alone") as alone:
        for first in range(0, 60, 20):
            some, at = messages[first : first + 20], START + first
            coupled.append(at, Direction.IN, b"peer", [b"peer", pack_train(some)], train=20)
            for frames in some:
                alone.append(at, Direction.IN, b"peer", frames)
    found = [load(spark, tmp_path / name).orderBy("sequence").collect() for name in ("coupled", "alone")]
    assert found[0] == found[1]
    assert [row.sequence for row in found[0]] == list(range(60))
    assert load(spark, tmp_path / "coupled", start=str(START + 20), columns="sequence").count() == 40


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_parquet_and_recordings_of_the_network(spark: SparkSession, tmp_path: Path) -> None:
    recording = Recording()
    recording.open()
    recording.greet()
    recording.say(message([b"", b"overheard"]))
    (tmp_path / "a.pcap").write_bytes(pcap(recording.packets))
    pq.write_table(pa.table({"frames": pa.array([[b"", b"stored"]], pa.list_(pa.binary()))}), tmp_path / "b.parquet")
    found = load(spark, tmp_path, columns="direction,frames").collect()
    assert sorted((row.direction, row.frames[-1]) for row in found) == [
        ("in", b"overheard"),
        ("in", b"stored"),
        ("out", b"overheard"),
    ]


@pytest.mark.spark
@pytest.mark.slow
def test_options_and_schema_choose_rows_and_columns(spark: SparkSession, captures: Path) -> None:
    some = load(spark, captures, node="node-b", start=str(START + 8 * MS), columns="sequence,node")
    assert sorted(map(tuple, some.collect())) == [(sequence, b"node-b") for sequence in range(2, 6)]
    two = spark.read.format("hopwire").schema("frames array<binary>, sequence bigint").load(str(captures))
    assert two.where("sequence = 1").select("frames").first() == ([b"", b"1", bytes(10)],)
    assert load(spark, captures, node="node-x").count() == 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("is_pushed", ["true", "false"])
def test_conditions_of_one_query_do_not_narrow_another(spark: SparkSession, captures: Path, is_pushed: str) -> None:
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    spark.conf.set(setting, is_pushed)
    try:
        sightings = load(spark, captures)
        part, other = sightings.where(f"node = {NODE_A}"), sightings.where(f"node = {NODE_B}")
        assert (part.count(), sightings.count(), part.union(other).count()) == (6, 12, 12)
    finally:
        spark.conf.set(setting, str(before))


@pytest.mark.spark
@pytest.mark.slow
def test_several_paths_are_read_together(spark: SparkSession, captures: Path, tmp_path: Path) -> None:
    write(tmp_path, 3, node=b"node-c")
    assert load(spark, [captures.as_uri(), str(tmp_path)], columns="node").count() == 15


@pytest.mark.spark
@pytest.mark.slow
def test_directory_may_have_any_name(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "my läke[1] a{b}c%20x"  # a part that is taken for a pattern or an escape leads nowhere
    place.mkdir()
    write(place, 3)
    for path in (str(place), place.as_uri(), place.as_uri().replace("file://", "file:")):
        assert load(spark, [path], columns="node").count() == 3
        assert spark.read.format("hopwire").load(path).count() == 3


@pytest.mark.spark
@pytest.mark.slow
def test_what_is_wrong_is_said_in_the_last_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"SettingsError: .*nowhere: is not there; load\(\) takes"):
        load(spark, tmp_path / "nowhere").count()
    (tmp_path / "x.arrows").write_bytes(b"something else")
    with pytest.raises(PythonException, match=r"CaptureError: .*x\.arrows: is not an Arrow stream"):
        load(spark, tmp_path).collect()
    assert load(spark, tmp_path, faults="skip").collect() == []
