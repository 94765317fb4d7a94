"""One file, whole, cut or foreign: the whole batches that it begins with, and one line about the rest."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from hopwire.capture import SCHEMA, Fault, FaultKind, Sighting, batch_from_sightings, read_capture
from hopwire.capture.arrow_stream import read_stream
from hopwire.capture.file_faults import refuse
from hopwire.capture.segment import END
from hopwire.capture.sources import list_sources, read_placed
from hopwire.errors import CaptureError
from hopwire.model.sighting_batch import VERSION_KEY
from tests.capture.making import read_all, write

HEAD = SCHEMA.serialize().to_pybytes()
BATCHES = [
    batch_from_sightings(
        [Sighting(b"n", "", 1, row, row, "in", b"p", [b"", bytes(row)]) for row in range(3 * n, 3 * n + 3)]
    )
    for n in range(3)
]
PARTS = [HEAD, *(batch.serialize().to_pybytes() for batch in BATCHES), END]
WHOLE = b"".join(PARTS)
WHOLE_BYTES = 1_000_000  # more than all batches have
ENDS = [len(b"".join(PARTS[: count + 1])) for count in range(len(PARTS))]  # of the head, each batch, the mark


def stream(schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema):
        pass
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.arrows", "x.open.arrows"])
def test_every_cut_gives_the_batches_before_it_and_says_what_is_left(tmp_path: Path, name: str, is_long: bool) -> None:
    """Each cut near an end, and one of seven of the others; `make long` has them all."""
    path = tmp_path / name
    path.write_bytes(b"")
    near = {size for end in (0, *ENDS, len(WHOLE)) for size in range(end - 16, end + 17)}
    for size in (size for size in range(len(WHOLE)) if is_long or size in near or size % 7 == 0):
        path.write_bytes(WHOLE[:size])
        found, faults = read_all(path)
        whole = sum(end <= size for end in ENDS[1:])
        assert found == BATCHES[:whole]
        rest = size - max([0, *(end for end in ENDS if end <= size)])
        is_quiet = name == "x.open.arrows" and size in ENDS
        assert [fault.size_bytes for fault in faults] == ([] if is_quiet else [rest])
        assert all(fault.kind == FaultKind.CUT_OFF for fault in faults)
    path.write_bytes(WHOLE)
    assert read_all(path) == (BATCHES, [])


def test_small_batches_come_together_and_before_a_fault_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.arrows"
    path.write_bytes(WHOLE[: ENDS[-1] - 1])  # without all of the mark
    two, all_bytes = BATCHES[0].nbytes + BATCHES[1].nbytes, sum(batch.nbytes for batch in BATCHES)

    def told(fault: Fault) -> None:
        raise CaptureError(fault.detail)

    for most, ends in ((1, ENDS[1:4]), (two, [ENDS[2], ENDS[3]]), (all_bytes, [ENDS[3]])):
        found: list[tuple[pa.RecordBatch, int]] = []
        with pytest.raises(CaptureError, match="cut off"):
            found.extend(read_stream(path, told, together_bytes=most))
        assert [position for _, position in found] == ends
        assert pa.Table.from_batches([batch for batch, _ in found]) == pa.Table.from_batches(BATCHES)


def test_batches_of_a_segment_that_is_written_are_left_apart(tmp_path: Path) -> None:
    (tmp_path / "x.arrows").write_bytes(WHOLE)
    (tmp_path / "y.open.arrows").write_bytes(WHOLE)
    sealed, written = sorted(list_sources(tmp_path), key=lambda source: source.name)
    counts = [len(list(read_placed(each, refuse, WHOLE_BYTES))) for each in (sealed, written)]
    assert counts == [1, len(BATCHES)], "the last batch may be the mark of a full disk"


def test_a_capture_is_an_arrow_stream_for_everyone(tmp_path: Path) -> None:
    write(tmp_path, 10)
    (path,) = tmp_path.glob("*.arrows")
    with pa.ipc.open_stream(path) as reader:
        assert reader.read_all().num_rows == 10


# fmt: off
CUT = [
    (b"",                       "is empty"),
    (HEAD[:3],                  "is cut off within its head"),
    (HEAD[:-1],                 "is cut off within its head"),
    (HEAD,                      "is cut off behind a batch: the mark of its end is missing"),
    (WHOLE[: ENDS[1] + 5],      "5 bytes after the last whole batch are cut off"),
    (WHOLE + b"more",           "4 bytes after the last whole batch are cut off"),
    (WHOLE[: ENDS[1]] + bytes(100), "100 bytes after the last whole batch are cut off"),
]
FOREIGN = [
    (b"PK\x03\x04 and so on",   "is not an Arrow stream"),
    (b"x",                      "is not an Arrow stream"),
    (bytes(1000),               "is not an Arrow stream"),
    (b"\xff" * 1000,            "is not an Arrow stream"),
    (HEAD[:8] + bytes(2000),    "is not an Arrow stream"),
    (b"ARROW1\0\0" + HEAD,      "is not an Arrow stream"),
]
UNSUITABLE = [
    (stream(pa.schema([("a", pa.int64())])),                    "is an Arrow stream, but not a capture"),
    (stream(SCHEMA.with_metadata({VERSION_KEY: "7.1"})),        "is a capture of version 7.1, expected 3 or older"),
    (stream(SCHEMA.remove(0)),                                  "has no column node, which a capture has"),
]
# fmt: on
FAULTS = [
    (data, FaultKind(kind), line)
    for kind, cases in (("cut_off", CUT), ("foreign", FOREIGN), ("unsuitable", UNSUITABLE))
    for data, line in cases
]


@pytest.mark.parametrize(("data", "kind", "line"), FAULTS, ids=range(len(FAULTS)))
def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, data: bytes, kind: FaultKind, line: str) -> None:
    path = tmp_path / "x.arrows"
    path.write_bytes(data)
    _, (fault,) = read_all(path)
    assert (fault.kind, str(fault)) == (kind, f"{path}: {line}")


@pytest.mark.parametrize(("data", "kind", "line"), FAULTS, ids=range(len(FAULTS)))
def test_only_what_is_no_capture_is_refused_by_default(tmp_path: Path, data: bytes, kind: FaultKind, line: str) -> None:
    path = tmp_path / "x.arrows"
    path.write_bytes(data)
    if kind == FaultKind.CUT_OFF:
        list(read_capture(path))
        return
    with pytest.raises(CaptureError) as caught:
        list(read_capture(path))
    assert str(caught.value) == f"{path}: {line}"


@pytest.mark.parametrize("column", SCHEMA.names)
def test_a_batch_with_nulls_is_damage(tmp_path: Path, column: str) -> None:
    index = SCHEMA.get_field_index(column)
    nulls = pa.nulls(3, SCHEMA.field(column).type)
    path = tmp_path / "x.arrows"
    path.write_bytes(HEAD + PARTS[1] + BATCHES[1].set_column(index, column, nulls).serialize().to_pybytes() + END)
    found, (fault,) = read_all(path)
    assert found == BATCHES[:1]
    assert fault.kind == FaultKind.CUT_OFF


def test_a_column_more_is_left_out(tmp_path: Path) -> None:
    newer = BATCHES[0].append_column(pa.field("more", pa.int8()), pa.array([1, 2, 3], pa.int8()))
    path = tmp_path / "x.arrows"
    path.write_bytes(newer.schema.serialize().to_pybytes() + newer.serialize().to_pybytes() + END)
    assert read_all(path) == (BATCHES[:1], [])


def test_a_file_that_is_not_there_is_said_in_the_words_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        list(read_capture(tmp_path / "no.arrows"))


def test_a_segment_that_is_sealed_between_listing_and_reading_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x.open.arrows"
    path.write_bytes(WHOLE)
    batches = read_capture(tmp_path)
    path.rename(tmp_path / "x.arrows")
    assert list(batches) == BATCHES


@pytest.mark.fuzz
@pytest.mark.slow
def test_damage_gives_sound_batches_or_a_fault(tmp_path: Path, fuzz_cases: int) -> None:
    chance = random.Random(5)
    path = tmp_path / "x.arrows"
    for _ in range(fuzz_cases // 200):
        data = bytearray(WHOLE)
        for _ in range(chance.choice((1, 1, 2, 8))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        faults: list[Fault] = []
        for batch in read_capture(path, on_fault=faults.append):
            batch.validate(full=True)
            assert sum(column.null_count for column in batch.columns) == 0
            assert batch.schema.equals(SCHEMA)
        assert len(faults) <= 1
