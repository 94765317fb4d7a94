"""The buffer: what finds room, what does not, and how the gap is told."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hopwire.capture.buffer import Buffer
from hopwire.capture.records import Row
from hopwire.capture.settings import CaptureSettings
from hopwire.model.reasons import SKIP_REASONS
from hopwire.model.sighting import Direction
from hopwire.model.units import NS_PER_SECOND


def buffer(**settings: Any) -> Buffer:
    return Buffer(CaptureSettings(**{"batch_rows": 3, "buffer_rows": 4, **settings}))


def offer(given: Buffer, size: int = 1, at: int = 0, train: int = 0) -> bool:
    return given.offer(at, Direction.IN, b"p", [bytes(size)], "", "", train)


def told(rows: list[Row]) -> list[tuple[int, int, str]]:
    """Sequence, how many are missing, and why."""
    return [(row[0], row[7], row[5]) for row in rows]


def test_rows_leave_in_order_and_in_batches() -> None:
    full = buffer()
    assert [offer(full) for _ in range(4)] == [True] * 4
    assert told(full.take()) == [(0, 0, ""), (1, 0, ""), (2, 0, "")]
    full.done()
    assert told(full.take()) == [(3, 0, "")]
    full.done()
    assert full.waiting == (0, 0)


def test_what_is_handed_out_still_takes_room() -> None:
    full = buffer()
    for _ in range(4):
        offer(full)
    full.take()
    assert offer(full) is False
    full.done()
    assert offer(full) is True


def test_a_gap_is_told_before_the_next_row() -> None:
    full = buffer(batch_rows=10)
    assert [offer(full, at=n) for n in range(6)] == [True] * 4 + [False] * 2
    full.take()
    full.done()
    offer(full)
    assert told(full.take()) == [(6, 0, "")]
    assert (full.offered, full.skipped) == (7, 2)


def test_a_gap_at_the_end_is_told_with_the_next_batch() -> None:
    full = buffer(batch_rows=10)
    for number in range(6):
        offer(full, at=number)
    rows = full.take()
    assert told(rows)[-1] == (4, 2, "too_slow")
    assert rows[-1][1] == 4, "the time of the first that is missing"


def test_a_long_gap_tells_when_it_ended_also_if_it_grows_while_the_disk_refuses() -> None:
    full = buffer(batch_rows=100)
    for number in range(50):
        offer(full, at=number * NS_PER_SECOND)
        full.take()
        full.put_back()
    assert full.waiting[0] == 6
    rows = full.take()
    assert told(rows)[-2:] == [(4, 45, "too_slow"), (49, 1, "too_slow")]
    assert [row[1] for row in rows[-2:]] == [4 * NS_PER_SECOND, 49 * NS_PER_SECOND]


def test_a_batch_that_comes_back_keeps_its_place() -> None:
    full = buffer()
    for _ in range(4):
        offer(full)
    first = told(full.take())
    full.put_back()
    assert told(full.take()) == first


def test_a_full_buffer_before_a_dead_disk_does_not_grow() -> None:
    full = buffer(batch_rows=100)
    for _ in range(50):
        offer(full)
        full.take()
        full.put_back()
    assert full.waiting[0] == 5
    assert told(full.take())[-1] == (4, 46, "too_slow")


def test_the_bound_in_bytes_counts_the_frames() -> None:
    full = buffer(buffer_rows=100, buffer_bytes=10)
    assert [offer(full, 4), offer(full, 4), offer(full, 4), offer(full, 2)] == [True, True, False, True]


def test_a_message_larger_than_the_buffer_is_told_as_such() -> None:
    full = buffer(buffer_bytes=10)
    assert not offer(full, 11)
    ((*_, reason, note, skipped, _),) = full.take()
    assert (reason, note, skipped) == ("too_large", "11 bytes", 1)


def test_a_disk_that_refuses_is_the_reason() -> None:
    full = buffer(buffer_rows=1, batch_rows=10)
    offer(full)
    full.trouble = "No space left on device"
    offer(full)
    (_, (*_, reason, note, skipped, _)) = full.take()
    assert (reason, note, skipped) == ("disk_error", "No space left on device", 1)


def test_the_row_that_fills_a_batch_is_its_last() -> None:
    full = buffer(batch_bytes=10, batch_rows=100, buffer_rows=100)
    for size in (4, 6, 4, 30, 1):
        offer(full, size)
    sizes = []
    while full.waiting[0]:
        sizes.append([len(row[4][0]) for row in full.take()])
        full.done()
    assert sizes == [[4, 6], [4, 30], [1]]


def test_what_is_given_up_becomes_one_gap() -> None:
    full = buffer()
    for _ in range(6):
        offer(full)
    full.give_up("disk_error", "gone")
    assert told(full.take()) == [(0, 6, "disk_error")]
    assert (full.offered, full.skipped, full.size_bytes) == (6, 6, 0)


def test_a_train_is_one_row_and_takes_a_number_for_each_message() -> None:
    full = buffer(batch_rows=10)
    assert [offer(full, train=train) for train in (0, 64, 1, 0, 64, 0)] == [True] * 4 + [False] * 2
    assert (full.offered, full.skipped, full.waiting[0]) == (132, 65, 5)
    rows = full.take()
    assert [(row[0], row[8]) for row in rows] == [(0, 0), (1, 64), (65, 1), (66, 0), (67, 0)]
    assert told(rows)[-1] == (67, 65, "too_slow")


def test_a_train_that_is_given_up_counts_all_its_messages() -> None:
    full = buffer()
    for train in (64, 0, 3):
        offer(full, train=train)
    full.give_up("disk_error", "gone")
    assert told(full.take()) == [(0, 68, "disk_error")]
    assert (full.offered, full.skipped) == (68, 68)


def test_the_frames_are_those_of_the_moment() -> None:
    frames = [b"a"]
    kept = buffer()
    kept.offer(0, Direction.IN, b"", frames, "", "")
    frames.append(b"b")
    assert kept.take()[0][4] == (b"a",)


ACTIONS = st.lists(st.sampled_from(["offer", "offer", "train", "large", "take", "done", "back", "up", "close"]))


@given(ACTIONS)
def test_every_number_is_told_once_and_in_order_whatever_happens(actions: list[str]) -> None:
    full = buffer(buffer_rows=3, batch_rows=2, buffer_bytes=20)
    out: list[Row] = []
    written: list[Row] = []
    for action in actions:
        if action in ("offer", "large", "train"):
            offer(full, 21 if action == "large" else 1, train=5 if action == "train" else 0)
        elif action == "take" and not out:
            out = full.take()
        elif action == "close":
            full.is_closed = True
        elif action in ("done", "back", "up") and out:
            if action == "done":
                written += out
                full.done()
            elif action == "back":
                full.put_back()
            else:
                full.give_up("not_frames", "")
            out = []
        assert full.size_bytes <= 20
    full.put_back()
    while full.waiting[0]:
        written += full.take()
        full.done()
    told_numbers = [n for row in written for n in range(row[0], row[0] + (row[7] or row[8] or 1))]
    assert told_numbers == list(range(full.offered))
    assert sum(row[7] for row in written) == full.skipped
    assert {row[5] for row in written if row[7]} <= set(SKIP_REASONS)
    assert full.size_bytes == 0
