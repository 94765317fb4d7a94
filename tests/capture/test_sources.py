from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopwire.capture import SCHEMA, Fault, FaultKind, Sighting, batch_from_sightings, sightings_from_batch
from hopwire.capture.sources import Source, SourceKind, list_sources, read_source
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
