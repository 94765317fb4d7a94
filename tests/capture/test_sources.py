"""Sources: every kind of file is found and read, and the parts of a large file have all its rows once."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.capture import (
    SCHEMA,
    CaptureWriter,
    Direction,
    Fault,
    FaultKind,
    Sighting,
    batch_from_sightings,
    sightings_from_batch,
)
from hopwire.capture.sources import Source, SourceKind, list_sources, parts_of, read_source
from hopwire.errors import CaptureError
from tests.capture.making import MS, START, numbers, write, writer
from tests.capture.recording.recordings import Recording, message, pcap, pcapng


def rows(source: Source, **wanted: object) -> list[Sighting]:
    return [row for batch in read_source(source, **wanted) for row in sightings_from_batch(batch)]  # type: ignore[arg-type]


def talk() -> Recording:
    recording = Recording()
    recording.open()
    recording.greet()
    recording.say(message([b"", b"7"]))
    return recording


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """One of each: a sealed segment, an open one, Parquet, pcap, pcapng, and things that are none."""
    write(tmp_path, 6)
    writer(tmp_path, b"node-b", batch_rows=1).append(START, "in", b"", [b"", b"1"])  # type: ignore[arg-type]
    pq.write_table(pa.table({"frames": pa.array([[b"", b"5"]], pa.list_(pa.binary()))}), tmp_path / "a.parquet")
    (tmp_path / "b.pcap").write_bytes(pcap(talk().packets))
    (tmp_path / "c.pcapng").write_bytes(pcapng(talk().packets))
    (tmp_path / "_d.parquet").write_bytes(b"")
    (tmp_path / ".e.pcap").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("not a source")
    (tmp_path / "inner").mkdir()
    return tmp_path


def test_directory_has_sources_of_every_kind_in_the_order_of_names(directory: Path) -> None:
    found = list_sources(directory)
    assert [(source.kind, source.is_open, source.summary is not None) for source in found] == [
        (SourceKind.SEGMENT, False, True),
        (SourceKind.SEGMENT, True, False),
        (SourceKind.PARQUET, False, False),
        (SourceKind.PCAP, False, False),
        (SourceKind.PCAP, False, False),
    ]
    assert [source.name for source in found] == sorted(source.name for source in found)
    assert all(source.size_bytes == source.path.stat().st_size for source in found)
    assert [len(rows(source)) for source in found] == [6, 1, 1, 2, 2]


def test_every_source_gives_batches_of_a_capture(directory: Path) -> None:
    for source in list_sources(directory):
        batches = list(read_source(source))
        assert batches
        assert all(batch.schema.equals(SCHEMA) for batch in batches)


def test_source_is_a_value_that_travels(directory: Path) -> None:
    for source in list_sources(directory):
        again = pickle.loads(pickle.dumps(source))
        assert (again, hash(again)) == (source, hash(source))
        assert rows(again) == rows(source)


def test_open_segment_keeps_its_name_when_it_is_sealed(tmp_path: Path) -> None:
    capture = writer(tmp_path, batch_rows=1)
    capture.append(START, "in", b"", [b"", b"0"])  # type: ignore[arg-type]
    [before] = list_sources(tmp_path)
    capture.close()
    [after] = list_sources(tmp_path)
    assert before.is_open
    assert not after.is_open
    assert before.name == after.name
    assert rows(before) == rows(after)  # the old name still leads there


def test_file_is_told_by_its_content(directory: Path, tmp_path: Path) -> None:
    for source in list_sources(directory):
        copy = tmp_path / "copy.dat"
        copy.write_bytes(source.path.read_bytes())
        [told] = list_sources(copy)
        assert told.kind == source.kind
        assert len(rows(told)) == len(rows(source))


def test_rows_and_columns_can_be_chosen(directory: Path) -> None:
    sealed, *_, recording = list_sources(directory)
    assert numbers(rows(sealed, since=START + 2 * MS, until=START + 4 * MS)) == [2, 3]
    assert rows(sealed, nodes={b"node-x"}) == []
    assert {row.direction for row in rows(recording, nodes=[b"node-b"])} == {"in"}
    [batch] = read_source(recording, columns=["peer", "sequence"])
    assert batch.schema.names == ["peer", "sequence"]
    with pytest.raises(CaptureError, match="no column 'colour'"):
        read_source(recording, columns=["colour"])


def test_source_that_has_nothing_of_what_is_asked_is_not_opened(directory: Path) -> None:
    sealed, *_ = list_sources(directory)
    sealed.path.unlink()
    assert list(read_source(sealed, since=START + 10**9)) == []
    with pytest.raises(FileNotFoundError):
        list(read_source(sealed))


def test_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list_sources(tmp_path / "nowhere")


def test_foreign_files_are_refused_or_reported(tmp_path: Path) -> None:
    for name in ("a.arrows", "b.parquet", "c.pcap"):
        (tmp_path / name).write_bytes(b"something else")
    for source in list_sources(tmp_path):
        with pytest.raises(CaptureError, match=source.path.name):
            list(read_source(source))
        faults: list[Fault] = []
        assert list(read_source(source, on_fault=faults.append)) == []
        assert [fault.kind for fault in faults] == [FaultKind.FOREIGN]
        assert "\n" not in str(faults[0])


def test_parquet_of_a_capture_is_read_as_it_was(tmp_path: Path) -> None:
    write(tmp_path / "capture", 10)
    [segment] = list_sources(tmp_path / "capture")
    pq.write_table(pa.Table.from_batches(read_source(segment)), tmp_path / "x.parquet")
    assert rows(*list_sources(tmp_path / "x.parquet")) == rows(segment)
    assert batch_from_sightings(rows(segment)).schema.equals(SCHEMA)


# -- parts of a source: all rows once, in their order, and nothing read twice to find them


NOW = 1_700_000_000_000_000_000


def sightings(sizes: list[int]) -> list[Sighting]:
    return [
        Sighting(b"anna", "anna", 1, number, NOW + number, "in", b"", [bytes(size)])
        for number, size in enumerate(sizes)
    ]


def segment(path: Path, batches: list[list[Sighting]], is_sealed: bool = True) -> Source:
    with pa.OSFile(str(path), "wb") as file:
        stream = pa.ipc.new_stream(file, SCHEMA)
        for batch in batches:
            stream.write_batch(batch_from_sightings(batch))
        if is_sealed:
            stream.close()
    (source,) = list_sources(path)
    return source


def numbers_of(sources: list[Source], faults: list[Fault] | None = None) -> list[int]:
    found: list[Fault] = [] if faults is None else faults
    batches = [batch for source in sources for batch in read_source(source, on_fault=found.append)]
    assert found == [] or faults is not None
    return [number for batch in batches for number in batch.column("sequence").to_pylist()]


@pytest.mark.slow
@given(sizes=st.lists(st.lists(st.integers(0, 3000), max_size=5), max_size=8), max_bytes=st.integers(1, 20_000))
def test_parts_of_a_segment_have_every_row_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[list[int]], max_bytes: int
) -> None:
    rows = sightings([size for batch in sizes for size in batch])
    batches = [[rows.pop(0) for _ in batch] for batch in sizes]
    source = segment(tmp_path_factory.mktemp("parts") / "anna.arrows", batches)
    parts = parts_of(source, max_bytes)
    assert numbers_of(parts) == numbers_of([source]) == list(range(sum(map(len, sizes))))
    ends = [part.end for part in parts]
    assert ends == [*(part.begin for part in parts[1:]), None]
    largest = max((part.end - part.begin for part in parts if part.end), default=0)
    assert largest <= max(max_bytes, 4000 + max((sum(batch) for batch in sizes), default=0) + 1500)


def test_what_a_node_writes_is_parted(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path, b"anna", incarnation=1) as writer:
        for number in range(20):
            writer.offer(NOW + number, Direction.IN, b"", [bytes(10_000)])
            writer.flush(NOW + number)
    (source,) = list_sources(tmp_path)
    parts = parts_of(source, 50_000)
    assert len(parts) == 5
    assert numbers_of(parts) == list(range(20))


def test_small_source_stays_whole(tmp_path: Path) -> None:
    source = segment(tmp_path / "anna.arrows", [sightings([1, 2, 3])])
    assert parts_of(source, source.size_bytes) == [source]


def test_parts_of_parquet_are_row_groups_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "frames.parquet"
    frames = pa.table({"frames": [[bytes(1000)] for _ in range(100)]})
    pq.write_table(frames, path, row_group_size=10, compression="none", use_dictionary=False)
    (source,) = list_sources(path)
    parts = parts_of(source, 25_000)
    assert [(part.begin, part.end) for part in parts] == [(0, 2), (2, 4), (4, 6), (6, 8), (8, None)]
    assert numbers_of(parts) == numbers_of([source]) == list(range(100))


def test_recording_of_the_network_and_a_damaged_file_stay_whole(tmp_path: Path) -> None:
    for name in ("some.pcap", "some.parquet", "some.arrows"):
        (tmp_path / name).write_bytes(b"noise" * 1000)
    assert [len(parts_of(source, 10)) for source in list_sources(tmp_path)] == [1, 1, 1]


def test_damage_costs_the_rest_of_its_part_only(tmp_path: Path) -> None:
    batches = [[row] for row in sightings([5000] * 10)]
    source = segment(tmp_path / "anna.arrows", batches)
    parts = parts_of(source, 20_000)
    assert [numbers_of([part]) for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    with open(tmp_path / "anna.arrows", "r+b") as file:
        file.seek(parts[1].begin)
        file.write(b"\xff\xff\xff\xff\xff")
    faults: list[Fault] = []
    assert numbers_of(parts, faults) == [0, 1, 2, 6, 7, 8, 9]
    assert [str(fault.kind) for fault in faults] == ["cut_off"]


@pytest.mark.parametrize("cut", [1, 8, 9, 700, 5300])
def test_segment_that_is_cut_off_is_parted_as_far_as_it_goes(tmp_path: Path, cut: int) -> None:
    source = segment(tmp_path / "anna.arrows", [[row] for row in sightings([5000] * 6)])
    source.path.write_bytes(source.path.read_bytes()[:-cut])
    (source,) = list_sources(source.path)
    whole: list[Fault] = []
    parted: list[Fault] = []
    assert numbers_of(parts_of(source, 12_000), parted) == numbers_of([source], whole)
    assert [fault.detail for fault in parted] == [fault.detail for fault in whole]
    assert len(whole) == 1
