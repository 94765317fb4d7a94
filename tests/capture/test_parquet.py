from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopwire.capture import SCHEMA, Fault, FaultKind, Sighting, sightings_from_batch
from hopwire.capture.parquet import read_table

FRAMES = [[b"", b"one"], [], [b"", b"", b"three"]]
LIST = pa.list_(pa.binary())


def read(path: Path) -> tuple[list[Sighting], list[Fault]]:
    faults: list[Fault] = []
    batches = list(read_table(path, faults.append))
    assert all(batch.schema.equals(SCHEMA) for batch in batches)
    for batch in batches:
        batch.validate(full=True)
        assert not any(column.null_count for column in batch.columns)
    return [row for batch in batches for row in sightings_from_batch(batch)], faults


def saved(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


# fmt: off
FRAME_TYPES = (
    pa.list_(pa.binary()),
    pa.list_(pa.large_binary()),
    pa.large_list(pa.binary()),
    pa.large_list(pa.large_binary()),
)
# fmt: on


@pytest.mark.parametrize("kind", FRAME_TYPES, ids=str)
def test_frames_alone_are_enough(tmp_path: Path, kind: pa.DataType) -> None:
    rows, faults = read(saved(tmp_path / "x.parquet", frames=pa.array(FRAMES, kind)))
    assert faults == []
    assert [list(row.frames) for row in rows] == FRAMES
    assert [row.sequence for row in rows] == [0, 1, 2]
    assert {row._replace(frames=(), sequence=0, incarnation=0) for row in rows} == {
        Sighting(b"", "", 0, 0, 0, "in", b"", ())
    }


def test_rows_of_two_files_are_never_taken_for_the_same(tmp_path: Path) -> None:
    one, two = (
        read(saved(tmp_path / name, frames=pa.array(FRAMES, LIST)))[0][0] for name in ("a.parquet", "b.parquet")
    )
    assert one.incarnation != two.incarnation
    assert one.incarnation == read(tmp_path / "a.parquet")[0][0].incarnation


def test_any_other_column_is_taken_as_it_is(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "x.parquet",
        peer=pa.array([b"p", None, b"q"], pa.large_binary()),
        direction=pa.array(["out", "dead", None]).dictionary_encode(),
        seen_at_ns=pa.array([1, 2, None], pa.int32()),
        sequence=pa.array([7, None, 9], pa.int64()),
        colour=["red", "green", "blue"],
        frames=pa.array([[b"a", None], None, [b"c"]], LIST),
    )
    rows, faults = read(path)
    assert faults == []
    assert [(row.peer, row.direction, row.seen_at_ns, row.sequence, row.frames) for row in rows] == [
        (b"p", "out", 1, 7, [b"a", b""]),
        (b"", "dead", 2, 1, []),
        (b"q", "in", 0, 9, [b"c"]),
    ]


def test_numbers_go_on_from_batch_to_batch(tmp_path: Path) -> None:
    frames = pa.array([[b"%d" % number] for number in range(3000)], LIST)
    rows, _ = read(saved(tmp_path / "x.parquet", frames=frames))
    assert [(row.sequence, int(row.frames[0])) for row in rows] == [(number, number) for number in range(3000)]


# fmt: off
UNSUITABLE = (
    ({"body": [b"x"]},                                                   "has no column frames"),
    ({"frames": [b"x"]},                                                 "has column frames as binary"),
    ({"frames": [["text"]]},                                             "has column frames as list<"),
    ({"frames": pa.array([[b"x"]], LIST), "seen_at_ns": ["noon"]},       "has column seen_at_ns as string"),
    ({"frames": pa.array([[b"x"]], LIST), "node": ["a"]},                "has column node as string"),
)
# fmt: on


@pytest.mark.parametrize(("columns", "words"), UNSUITABLE)
def test_table_that_holds_something_else_is_named(tmp_path: Path, columns: dict[str, Any], words: str) -> None:
    rows, [fault] = read(saved(tmp_path / "x.parquet", **columns))
    assert (rows, fault.kind) == ([], FaultKind.UNSUITABLE)
    assert fault.detail.startswith(words)


def test_number_that_does_not_fit_is_a_fault(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.parquet", frames=pa.array([[b"x"]], LIST), seen_at_ns=pa.array([2**64 - 1], pa.uint64()))
    assert [fault.kind for fault in read(path)[1]] == [FaultKind.FOREIGN]


def test_text_that_is_none_is_a_fault(tmp_path: Path) -> None:
    damaged = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    path = saved(tmp_path / "x.parquet", frames=pa.array([[b"x"]], LIST), note=damaged)
    assert [fault.kind for fault in read(path)[1]] == [FaultKind.FOREIGN]


def test_damaged_file_is_a_fault(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.parquet", frames=pa.array(FRAMES, LIST))
    whole = path.read_bytes()
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        assert [fault.kind for fault in read(path)[1]] == [FaultKind.FOREIGN]


def test_missing_file_is_the_systems_business(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "x.parquet")


def changed(path: Path, old: bytes, new: bytes) -> Path:
    """A file of which some bytes were changed."""
    found = path.read_bytes()
    assert old in found
    assert len(old) == len(new)
    path.write_bytes(found.replace(old, new))
    return path


def test_footer_that_contradicts_itself_is_a_fault_and_not_the_end_of_the_process(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.parquet", frames=pa.array(FRAMES, LIST), note=["a", "b", None])
    rows, (fault,) = read(changed(path, b"\x25\x02\x18\x04note", b"\x25\x00\x18\x04note"))  # no longer has nulls
    assert rows == []
    assert fault.kind == FaultKind.FOREIGN


@pytest.mark.slow
def test_other_name_beside_the_pages_of_a_column_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    frames = pa.array([[bytes(80 * 1024**2)]], LIST)
    pq.write_table(pa.table({"frames": frames}), path, compression="zstd", use_dictionary=False)
    rows, (fault,) = read(changed(path, b"\x06frames\x04list", b"\x06harmle\x04list"))
    assert rows == []
    assert fault.detail.startswith("row group 0 has ")
