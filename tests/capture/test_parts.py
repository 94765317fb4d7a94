"""Parts of a source: all rows once, in their order, and nothing read twice to find them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.capture import SCHEMA, CaptureWriter, Direction, Sighting, batch_from_sightings
from hopwire.capture.file_faults import Fault
from hopwire.capture.parts import parts_of
from hopwire.capture.sources import Source, list_sources, read_source

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


def numbers(sources: list[Source], faults: list[Fault] | None = None) -> list[int]:
    found: list[Fault] = [] if faults is None else faults
    batches = [batch for source in sources for batch in read_source(source, on_fault=found.append)]
    assert found == [] or faults is not None
    return [number for batch in batches for number in batch.column("sequence").to_pylist()]


@given(sizes=st.lists(st.lists(st.integers(0, 3000), max_size=5), max_size=8), max_bytes=st.integers(1, 20_000))
def test_parts_of_a_segment_have_every_row_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[list[int]], max_bytes: int
) -> None:
    rows = sightings([size for batch in sizes for size in batch])
    batches = [[rows.pop(0) for _ in batch] for batch in sizes]
    source = segment(tmp_path_factory.mktemp("parts") / "anna.arrows", batches)
    parts = parts_of(source, max_bytes)
    assert numbers(parts) == numbers([source]) == list(range(sum(map(len, sizes))))
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
    assert numbers(parts) == list(range(20))


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
    assert numbers(parts) == numbers([source]) == list(range(100))


def test_recording_of_the_network_and_a_damaged_file_stay_whole(tmp_path: Path) -> None:
    for name in ("some.pcap", "some.parquet", "some.arrows"):
        (tmp_path / name).write_bytes(b"noise" * 1000)
    assert [len(parts_of(source, 10)) for source in list_sources(tmp_path)] == [1, 1, 1]


def test_damage_costs_the_rest_of_its_part_only(tmp_path: Path) -> None:
    batches = [[row] for row in sightings([5000] * 10)]
    source = segment(tmp_path / "anna.arrows", batches)
    parts = parts_of(source, 20_000)
    assert [numbers([part]) for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    with open(source.path, "r+b") as file:
        file.seek(parts[1].begin)
        file.write(b"\xff\xff\xff\xff\xff")
    faults: list[Fault] = []
    assert numbers(parts, faults) == [0, 1, 2, 6, 7, 8, 9]
    assert [str(fault.kind) for fault in faults] == ["cut_off"]


@pytest.mark.parametrize("cut", [1, 8, 9, 700, 5300])
def test_segment_that_is_cut_off_is_parted_as_far_as_it_goes(tmp_path: Path, cut: int) -> None:
    source = segment(tmp_path / "anna.arrows", [[row] for row in sightings([5000] * 6)])
    source.path.write_bytes(source.path.read_bytes()[:-cut])
    (source,) = list_sources(source.path)
    whole: list[Fault] = []
    parted: list[Fault] = []
    assert numbers(parts_of(source, 12_000), parted) == numbers([source], whole)
    assert [fault.detail for fault in parted] == [fault.detail for fault in whole]
    assert len(whole) == 1
