"""A disk without room: what it refuses is told by the capture itself, also if the process is killed meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hopwire.capture import CaptureWriter, Direction, State, follow_capture, list_segments, read_capture
from hopwire.capture import sightings_from_batch as sightings_from
from hopwire.capture.segment import RESERVE_BYTES, RESERVE_COUNT, reserve_paths
from hopwire.flows.spans import joined_spans, lives_of, placed, skips_of, spans_from_batch
from tests.capture.making import NODE, START, S, append_many, covered, frames, numbers, rows, writer
from tests.chaos.small_disk import SmallDisk

LARGE = 3_000  # bytes of a frame, so that a batch takes more room than a mark


def refused(disk: SmallDisk, count: int = 10, **settings: Any) -> CaptureWriter:
    """Give a writer that has written four sightings, and waits with the others in front of a full disk."""
    capture = writer(disk.path, **settings)
    append_many(capture, 4, step_ns=S, size=LARGE)
    disk.fill()
    append_many(capture, count - 4, first=4, step_ns=S, size=LARGE)
    assert capture.status.trouble == "No space left on device"
    return capture


def test_what_a_full_disk_refuses_is_told_while_it_waits(disk: SmallDisk) -> None:
    capture = refused(disk)
    assert (capture.status.written, capture.status.waiting) == (4, 6)
    found = rows(disk.path)
    assert covered(found) == list(range(10)), "so that a kill loses nothing in silence"
    assert [(row.sequence, row.skipped, row.reason) for row in found[4:]] == [
        (4, 5, "disk_error"),
        (9, 1, "disk_error"),
    ]
    assert [row.seen_at_ns for row in found[4:]] == [START + 4 * S, START + 9 * S]
    assert list_segments(disk.path)[-1].state == State.OPEN, "the life did not end in order"


def test_the_lake_knows_from_when_to_when_a_killed_node_was_blind(disk: SmallDisk) -> None:
    refused(disk)
    known = placed(joined_spans(span for batch in read_capture(disk.path) for span in spans_from_batch(batch, "one")))
    (life,), (skip, *_) = lives_of(known), skips_of(known)
    assert (life.last_ns, life.ending) == (START + 9 * S, "open")
    assert (skip.first_ns, skip.last_ns) == (START + 4 * S, START + 9 * S)


def test_nothing_is_missing_once_there_is_room_again(disk: SmallDisk) -> None:
    capture = refused(disk)
    disk.free()
    append_many(capture, 2, first=10, step_ns=S)
    assert capture.close().trouble == ""
    assert numbers(rows(disk.path)) == list(range(12))
    assert {segment.state for segment in list_segments(disk.path)} == {State.SEALED}
    assert not any(map(Path.exists, reserve_paths(disk.path, NODE))), "nobody needs them any more"


def test_sightings_that_found_no_room_in_the_buffer_are_a_row_once_there_is_room_again(disk: SmallDisk) -> None:
    capture = refused(disk, count=100, buffer_rows=8)
    assert covered(rows(disk.path)) == list(range(100))
    disk.free()
    append_many(capture, 4, first=100, step_ns=S)
    capture.close()
    found = rows(disk.path)
    assert covered(found) == list(range(104))
    assert sum(row.skipped for row in found) == capture.status.skipped == 104 - 4 - 8 - 3, (
        "the first of the last four too"
    )


def test_a_disk_may_be_full_again_and_again(disk: SmallDisk) -> None:
    capture = writer(disk.path, buffer_rows=8)
    for spell in range(5):
        append_many(capture, 20, first=40 * spell, size=LARGE)
        disk.fill()
        append_many(capture, 20, first=40 * spell + 20, size=LARGE)
        assert covered(rows(disk.path)) == list(range(40 * spell + 40))
        disk.free()
    capture.close()
    assert covered(rows(disk.path)) == list(range(200))


def test_a_capture_that_ends_on_a_full_disk_ends_in_order(disk: SmallDisk) -> None:
    status = refused(disk).close()
    assert (status.written, status.skipped, status.skips_recorded) == (4, 6, 6)
    assert covered(rows(disk.path)) == list(range(10))
    assert list_segments(disk.path)[-1].state == State.SEALED


def test_a_life_that_begins_on_a_full_disk_tells_of_itself_with_the_reserve_of_the_life_before(disk: SmallDisk) -> None:
    append_many(writer(disk.path), 4)  # and is killed
    disk.fill()
    append_many(writer(disk.path, incarnation=2), 6, first=10, step_ns=S, size=LARGE)
    assert [(row.incarnation, row.sequence, row.skipped) for row in rows(disk.path)[4:]] == [(2, 0, 5), (2, 5, 1)]


def test_lives_that_are_killed_one_after_the_other_on_a_full_disk_all_tell_of_themselves(disk: SmallDisk) -> None:
    append_many(writer(disk.path), 4)
    disk.fill()
    for life in range(2, RESERVE_COUNT + 2):  # each is killed, and the next begins
        append_many(writer(disk.path, incarnation=life), 2, first=10 * life, step_ns=S, size=LARGE)
    told = {row.incarnation: row.reason for row in rows(disk.path) if row.skipped}
    assert told == dict.fromkeys(range(2, RESERVE_COUNT + 2), "disk_error")


def test_a_life_that_has_no_reserve_does_not_look_as_if_it_had_ended_in_order(disk: SmallDisk) -> None:
    capture = writer(disk.path)
    append_many(capture, 4, step_ns=S, size=LARGE)
    for reserve in reserve_paths(disk.path, NODE):
        reserve.unlink()
    disk.fill()
    append_many(capture, 6, first=4, step_ns=S, size=LARGE)
    assert [segment.state for segment in list_segments(disk.path)] == [State.OPEN]
    disk.free()
    append_many(capture, 2, first=10, step_ns=S)
    capture.close()
    assert numbers(rows(disk.path)) == list(range(12))


def test_whoever_follows_gets_the_rows_and_not_the_mark_in_their_place(disk: SmallDisk) -> None:
    capture = refused(disk)
    steps = iter((disk.free, lambda: append_many(capture, 2, first=10, step_ns=S), capture.close))

    def wait() -> bool:
        step = next(steps, None)
        if step:
            step()
        return step is not None

    found = [row for batch in follow_capture(disk.path, wait) for row in sightings_from(batch)]
    assert numbers(found) == covered(found) == list(range(12))


def test_a_disk_that_cannot_tell_whether_it_has_room_is_tried(disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unknown)
    capture = refused(disk)
    assert covered(rows(disk.path)) == list(range(10)), "the mark is back after a batch was tried in vain"
    disk.free()
    append_many(capture, 2, first=10, step_ns=S)
    capture.close()
    assert numbers(rows(disk.path)) == list(range(12))


# -- who else may write to the directory


@pytest.mark.parametrize("kind", ["symlink", "link", "fifo", "directory", "small"])
def test_a_reserve_that_somebody_else_made_is_not_written_to(disk: SmallDisk, tmp_path: Path, kind: str) -> None:
    target = (disk.path if kind == "link" else tmp_path) / "precious"
    target.write_bytes(b"x" * RESERVE_BYTES)
    reserve, *_ = reserve_paths(disk.path, NODE)
    match kind:
        case "symlink":
            reserve.symlink_to(target)
        case "link":
            os.link(target, reserve)
        case "fifo":
            os.mkfifo(reserve)
        case "directory":
            reserve.mkdir()
        case "small":
            reserve.write_bytes(b"")
    capture = refused(disk)
    assert target.read_bytes() == b"x" * RESERVE_BYTES
    disk.free()
    capture.offer(START + S, Direction.IN, b"", frames(10))
    capture.close()
    assert numbers(rows(disk.path)) == list(range(11))


def test_half_a_reserve_is_made_whole(tmp_path: Path) -> None:
    reserve, *_ = reserve_paths(tmp_path, NODE)
    reserve.write_bytes(b"half")
    writer(tmp_path)
    assert reserve.stat().st_size == RESERVE_BYTES
