"""Names of segments, and what is left of one when the disk refuses at the worst moment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hopwire.capture import Sighting, State, batch_from_sightings, list_segments
from hopwire.capture.records import records_from_sightings
from hopwire.capture.segment import SegmentFile, index_path, sealed_path, segment_name
from tests.capture.making import START, names, read_all

BATCH = batch_from_sightings([Sighting(b"n", "", 1, 0, START, "in", b"p", [b"x"])])
REFUSAL = OSError(28, "No space left on device")

# fmt: off
NAMES = [
    (b"node-a",            "node-a"),
    (b"a.b_c-D9",          "a.b_c-D9"),
    (b"",                  ""),
    (b"..",                "2e2e"),
    (b"a/b",               "612f62"),
    (b".open",             "2e6f70656e"),
    ("\u00e4".encode(),    "c3a4"),
    (b"x" * 100,           "x" * 40),
    (bytes(range(200, 232)), bytes(range(200, 220)).hex()),
]
# fmt: on


@pytest.mark.parametrize(("node", "text"), NAMES)
def test_a_node_has_a_name_that_every_disk_takes(node: bytes, text: str) -> None:
    assert segment_name(START, node, 7) == f"20270115T080000.000000000Z-{text}-000007"


def test_an_open_segment_knows_its_other_names() -> None:
    path = Path("d.arrows/x.open.arrows")
    assert sealed_path(path) == Path("d.arrows/x.arrows") == sealed_path(sealed_path(path))
    assert index_path(path) == Path("d.arrows/x.json") == index_path(sealed_path(path))


def refusing(after: int) -> Any:
    """Give a write that takes so many bytes in all, and then refuses, as a full disk does."""
    room = after

    def limited(fd: int, parts: list[Any], position: int) -> int:
        nonlocal room
        if not room:
            raise REFUSAL
        taken = os.pwrite(fd, b"".join(parts)[:room], position)
        room -= taken
        return taken

    return limited


@pytest.mark.parametrize("room", [1, 100, 500])
def test_a_batch_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    segment = SegmentFile(tmp_path, "x", START)
    segment.append(records_from_sightings(BATCH))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", refusing(room))
        with pytest.raises(OSError, match="No space left"):
            segment.append(records_from_sightings(BATCH))
    assert segment.path.stat().st_size == segment.size_bytes
    segment.seal(is_synced=False)
    assert read_all(tmp_path) == ([BATCH], [])


@pytest.mark.parametrize("room", [0, 10])
def test_a_segment_that_cannot_begin_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(os, "pwritev", refusing(room))
    with pytest.raises(OSError, match="No space left"):
        SegmentFile(tmp_path, "x", START)
    assert list(tmp_path.iterdir()) == []


def test_a_segment_whose_end_finds_no_room_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = SegmentFile(tmp_path, "x", START)
    segment.append(records_from_sightings(BATCH))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", refusing(3))
        with pytest.raises(OSError, match="No space left"):
            segment.seal(is_synced=False)
    assert names(tmp_path) == ["x.open.arrows"]
    assert read_all(tmp_path) == ([BATCH], [])


def test_a_segment_whose_index_finds_no_room_is_sealed_without(tmp_path: Path) -> None:
    segment = SegmentFile(tmp_path, "x", START)
    segment.append(records_from_sightings(BATCH))
    (tmp_path / "x.unfinished").mkdir()  # so that the index cannot be written
    (tmp_path / "x.unfinished" / "in the way").touch()
    segment.seal(is_synced=True)
    (found,) = list_segments(tmp_path)
    assert (found.path.name, found.state, found.summary.row_count) == ("x.arrows", State.SEALED, 1)
    assert names(tmp_path, ".json") == []


def test_a_sealed_segment_is_never_written_over(tmp_path: Path) -> None:
    SegmentFile(tmp_path, "x", START).seal(is_synced=False)
    with pytest.raises(FileExistsError):
        SegmentFile(tmp_path, "x", START)
