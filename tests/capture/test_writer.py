"""The writer: round trips, rolling, names, and a balance that adds up whatever the disk does."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from hopwire.capture import CaptureWriter, Direction, State, list_segments
from hopwire.errors import CaptureError
from tests.capture.making import MS, NODE, START, S, append_many, covered, frames, names, numbers, rows, write, writer


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    with writer(tmp_path, incarnation=9) as capture:
        capture.append(START, Direction.IN, b"peer", [b"", b"a"])
        capture.append(START + 1, Direction.OUT, b"", [])
        capture.append(START + 2, Direction.DEAD, b"\xff", (b"b",), "no_route", "nobody knows it")
    found = rows(tmp_path)
    assert [row[:3] for row in found] == [(NODE, "NODE-A", 9)] * 3
    assert [row[3:] for row in found] == [
        (0, START, "in", b"peer", [b"", b"a"], "", "", 0),
        (1, START + 1, "out", b"", [], "", "", 0),
        (2, START + 2, "dead", b"\xff", [b"b"], "no_route", "nobody knows it", 0),
    ]


def test_frames_may_be_any_bytes(tmp_path: Path) -> None:
    with writer(tmp_path) as capture:
        capture.append(START, Direction.IN, b"", [bytearray(b"a"), memoryview(b"bc"), b"d"])  # type: ignore[list-item]
    assert rows(tmp_path)[0].frames == [b"a", b"bc", b"d"]


def test_no_file_is_made_before_there_is_something_to_write(tmp_path: Path) -> None:
    capture = writer(tmp_path)
    capture.offer(START, Direction.IN, b"", [b"x"])
    capture.tick(START)
    assert names(tmp_path) == []
    capture.close()
    writer(tmp_path).close()
    assert len(names(tmp_path)) == 1


def test_offer_leaves_the_disk_to_tick(tmp_path: Path) -> None:
    capture = writer(tmp_path)
    for number in range(10):
        capture.offer(START, Direction.IN, b"", frames(number))
    assert names(tmp_path) == []
    capture.tick(START)
    assert numbers(rows(tmp_path)) == list(range(8)), "two full batches"
    capture.tick(START + 200 * MS)
    assert numbers(rows(tmp_path)) == list(range(10)), "and the rest when it is old enough"


def test_flush_writes_what_is_not_due(tmp_path: Path) -> None:
    capture = writer(tmp_path)
    capture.offer(START, Direction.IN, b"", frames(0))
    capture.flush(START)
    assert numbers(rows(tmp_path)) == [0]


def test_segments_are_rolled_by_size(tmp_path: Path) -> None:
    write(tmp_path, 80, segment_bytes=6_000)
    segments = list_segments(tmp_path)
    assert len(segments) > 2
    assert all(6_000 <= segment.size_bytes < 9_000 for segment in segments[:-1])
    assert [segment.state for segment in segments] == [State.SEALED] * len(segments)
    assert numbers(rows(tmp_path)) == list(range(80))


def test_segments_are_rolled_by_age_also_when_nothing_comes(tmp_path: Path) -> None:
    capture = writer(tmp_path, segment_age_s=60)
    append_many(capture, 4)
    capture.tick(START + 59 * S)
    assert [segment.state for segment in list_segments(tmp_path)] == [State.OPEN]
    capture.tick(START + 61 * S)
    assert [segment.state for segment in list_segments(tmp_path)] == [State.SEALED]
    append_many(capture, 4, first=62_000)
    capture.close()
    assert len(names(tmp_path)) == 2


def test_names_sort_by_time_and_say_what_is_sealed(tmp_path: Path) -> None:
    capture = writer(tmp_path, segment_bytes=1)
    append_many(capture, 8)
    assert names(tmp_path) == [
        "20270115T080000.000000000Z-node-a-000001.arrows",
        "20270115T080000.004000000Z-node-a-000002.arrows",
    ]
    assert names(tmp_path, ".json") == [name.replace(".arrows", ".json") for name in names(tmp_path)]
    capture = writer(tmp_path, b"\x00/..", segment_bytes=10**6)
    append_many(capture, 4, first=8)
    assert names(tmp_path)[-1] == "20270115T080000.008000000Z-002f2e2e-000001.open.arrows"
    capture.close()


def test_a_name_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    for _ in range(3):
        write(tmp_path, 4)
    assert len(names(tmp_path)) == 3
    assert numbers(rows(tmp_path)) == [0, 1, 2, 3] * 3


@pytest.mark.parametrize("sync", ["batch", "segment", "never"])
def test_every_way_to_sync_writes_the_same(tmp_path: Path, sync: str) -> None:
    write(tmp_path, 20, sync=sync, segment_bytes=4_000)
    assert numbers(rows(tmp_path)) == list(range(20))


@pytest.mark.parametrize(("sync", "expected"), [("batch", 3 + 3), ("segment", 3), ("never", 0)])
def test_the_disk_is_told_as_often_as_the_setting_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str, expected: int
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    write(tmp_path, 12, sync=sync)
    assert len(calls) == expected, "each batch; then the segment, its index and the directory"


# -- when there is no room


def assert_adds_up(capture: CaptureWriter, directory: Path) -> None:
    """Prove the balance from the capture alone."""
    status = capture.status
    found = rows(directory)
    assert covered(found) == list(range(status.offered))
    assert sum(not row.skipped for row in found) == status.written
    assert sum(row.skipped for row in found) == status.skipped == status.skips_recorded
    assert status.offered == status.written + status.skipped
    assert status.waiting == 0


def test_skipped_sightings_are_recorded_and_add_up(tmp_path: Path) -> None:
    capture = writer(tmp_path, buffer_rows=5)
    taken = [capture.offer(START + n, Direction.IN, b"", frames(n)) for n in range(12)]
    capture.tick(START + 20)
    taken += [capture.offer(START + n, Direction.IN, b"", frames(n)) for n in range(12, 14)]
    status = capture.close()
    assert taken == [True] * 5 + [False] * 7 + [True] * 2
    assert (status.offered, status.written, status.skipped) == (14, 7, 7)
    gap = next(row for row in rows(tmp_path) if row.skipped)
    assert (gap.sequence, gap.skipped, gap.reason, gap.direction) == (5, 7, "too_slow", "skipped")
    assert_adds_up(capture, tmp_path)


def test_the_balance_holds_at_any_time(tmp_path: Path) -> None:
    capture = writer(tmp_path, buffer_rows=7)
    for number in range(60):
        capture.offer(START + number, Direction.IN, b"", frames(number))
        if number % 11 == 10:
            capture.tick(START + number)
        status = capture.status
        assert status.offered == number + 1 == status.written + status.skipped + status.waiting
    capture.close()
    assert_adds_up(capture, tmp_path)


def test_one_thread_may_offer_while_another_writes(tmp_path: Path) -> None:
    capture = writer(tmp_path, buffer_rows=50, segment_bytes=50_000, batch_rows=16)

    def offer_all() -> None:
        for number in range(5_000):
            capture.offer(START + number, Direction.IN, b"", frames(number))

    network = threading.Thread(target=offer_all)
    network.start()
    while network.is_alive():
        capture.tick(START)
        status = capture.status
        assert status.waiting >= 0
    network.join()
    assert capture.close().offered == 5_000
    assert_adds_up(capture, tmp_path)


def test_frames_that_are_none_are_skipped_and_recorded(tmp_path: Path) -> None:
    capture = writer(tmp_path)
    wrong: Any = [b"a", [1]]
    capture.offer(START, Direction.IN, b"", wrong)
    capture.tick(START + S)
    append_many(capture, 4, first=1)
    capture.close()
    assert rows(tmp_path)[0].reason == "not_frames"
    assert_adds_up(capture, tmp_path)


def test_what_comes_after_the_end_is_refused(tmp_path: Path) -> None:
    capture = writer(tmp_path)
    append_many(capture, 3)
    capture.close()
    assert capture.append(START, Direction.IN, b"", [b"late"]) is False
    assert capture.close() == capture.status
    assert (capture.status.written, capture.status.skipped) == (3, 1)


# -- when the disk refuses


def test_a_directory_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match="file/capture: no capture can be written here: Not a directory"):
        writer(tmp_path / "file" / "capture")


def test_a_directory_that_goes_away_costs_nothing_but_what_was_in_it(tmp_path: Path) -> None:
    directory = tmp_path / "capture"
    capture = writer(directory, segment_bytes=1)
    append_many(capture, 4)
    shutil.rmtree(directory)
    directory.write_text("in the way")
    append_many(capture, 6, first=4)
    assert capture.status.trouble == "File exists"
    assert (capture.status.written, capture.status.waiting, capture.status.skipped) == (4, 6, 0)
    directory.unlink()
    append_many(capture, 2, first=10)
    assert capture.close().trouble == ""
    assert numbers(rows(directory)) == list(range(4, 12))


def test_a_disk_that_refuses_to_the_end_raises_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "capture"
    capture = writer(directory, buffer_rows=5)
    shutil.rmtree(directory)
    directory.write_text("in the way")
    append_many(capture, 10)
    status = capture.close()
    assert (status.offered, status.written, status.skipped, status.waiting) == (10, 0, 10, 0)
    assert (status.skips_recorded, status.trouble) == (0, "File exists")


def test_a_sync_that_fails_loses_no_row_and_writes_none_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    capture = writer(tmp_path, sync="batch")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        append_many(capture, 4)
        assert capture.status.trouble == "Input/output error"
    append_many(capture, 4, first=4)
    assert capture.close().trouble == ""
    assert numbers(rows(tmp_path)) == list(range(8))
    assert_adds_up(capture, tmp_path)
