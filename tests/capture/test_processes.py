"""A capture whose writer is another process: read while it works, after it is killed, and when its disk refuses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hopwire.capture import FaultKind, State, list_segments, sightings_from_batch
from tests.capture.making import covered, numbers, read_all, rows

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


class Child:
    """The process, one order at a time."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        self.running = running

    def tell(self, order: str) -> dict[str, Any]:
        """Give an order and wait for the answer, which is the balance; nothing if the process has died of it."""
        self.send(order)
        assert self.running.stdout is not None
        line = self.running.stdout.readline()
        return literal_eval(line) if line else {}

    def send(self, order: str) -> None:
        """Give an order and do not wait."""
        assert self.running.stdin is not None
        self.running.stdin.write(f"{order}\n")
        self.running.stdin.flush()


@contextmanager
def child(directory: Path, settings: str = "") -> Iterator[Child]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    arguments = [sys.executable, "-m", "tests.capture.child", str(directory), settings]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, cwd=ROOT
    ) as running:
        yield Child(running)


def test_a_capture_is_read_while_another_process_writes_it(tmp_path: Path) -> None:
    states: set[State] = set()
    with child(tmp_path, "segment_bytes=9000") as writing:
        for total in range(10, 60, 10):
            status = writing.tell("append 10")
            found, faults = rows(tmp_path), read_all(tmp_path)[1]
            assert numbers(found) == list(range(status["written"]))
            assert status["written"] == total - total % 4
            assert faults == []
            states |= {segment.state for segment in list_segments(tmp_path)}
        assert states == {State.OPEN, State.SEALED}
        writing.tell("close")
        assert numbers(rows(tmp_path)) == list(range(50))
        assert {segment.state for segment in list_segments(tmp_path)} == {State.SEALED}


def test_a_reader_that_never_waits_sees_a_beginning_of_the_whole_each_time(tmp_path: Path) -> None:
    seen = 0
    with child(tmp_path, "segment_bytes=30000 batch_rows=10") as writing:
        writing.send("append 5000")
        while seen < 5_000:
            batches, faults = read_all(tmp_path)
            found = [row for batch in batches for row in sightings_from_batch(batch)]
            assert numbers(found) == list(range(len(found)))
            assert len(found) >= seen
            assert all(fault.kind == FaultKind.CUT_OFF for fault in faults)
            seen = len(found)


def test_a_writer_that_is_killed_leaves_every_batch_that_it_wrote(tmp_path: Path) -> None:
    with child(tmp_path) as writing:
        status = writing.tell("append 42")
        writing.running.send_signal(signal.SIGKILL)
        assert writing.running.wait() == -signal.SIGKILL
    assert status["written"] == 40
    assert numbers(rows(tmp_path)) == list(range(40))
    (segment,) = list_segments(tmp_path)
    assert segment.state == State.OPEN


def test_a_writer_that_is_killed_within_a_batch_leaves_all_before_it_and_the_cut_is_told(tmp_path: Path) -> None:
    with child(tmp_path) as writing:
        writing.tell("append 40")
        size = list_segments(tmp_path)[0].size_bytes
        writing.tell("break")
        assert writing.tell("append 4") == {}
        assert writing.running.wait() == -signal.SIGKILL
    (segment,) = list_segments(tmp_path)
    cut = segment.size_bytes - size
    assert cut > 100
    assert segment.state == State.CUT_OFF
    assert str(segment.fault) == f"{segment.path}: {cut} bytes after the last whole batch are cut off"
    assert numbers(rows(tmp_path)) == list(range(40))


def test_the_next_incarnation_writes_beside_what_a_killed_one_left(tmp_path: Path) -> None:
    for _ in range(2):
        with child(tmp_path) as writing:
            writing.tell("append 8")
            writing.running.kill()
    assert numbers(rows(tmp_path)) == [*range(8), *range(8)]


def test_a_file_that_may_not_grow_is_sealed_and_the_next_one_loses_nothing(tmp_path: Path) -> None:
    with child(tmp_path) as writing:
        writing.tell("append 4")
        writing.tell("limit 6000")
        status = writing.tell("append 60")
        assert status["skipped"] == 0
        status = writing.tell("close")
    segments = list_segments(tmp_path)
    assert len(segments) > 2
    assert {segment.state for segment in segments} == {State.SEALED}
    assert all(segment.size_bytes <= 6_000 for segment in segments)
    assert numbers(rows(tmp_path)) == list(range(64))
    assert (status["written"], status["skipped"]) == (64, 0)


def test_a_disk_that_refuses_for_a_while_is_told_in_the_capture(tmp_path: Path) -> None:
    with child(tmp_path, "buffer_rows=20") as writing:
        writing.tell("append 8")
        writing.tell("limit 100")
        status = writing.tell("append 50")
        assert (status["written"], status["waiting"], status["skipped"]) == (8, 20, 30)
        assert status["trouble"] == "File too large"
        writing.tell("limit 0")
        status = writing.tell("append 10")
        assert status["trouble"] == ""
        status = writing.tell("close")
    found = rows(tmp_path)
    assert covered(found) == list(range(68))
    gap = next(row for row in found if row.skipped)
    assert (gap.reason, gap.note) == ("disk_error", "File too large")
    assert (status["offered"], status["written"], status["skipped"]) == (68, 68 - gap.skipped, gap.skipped)


def test_the_last_row_counts_what_no_disk_took(tmp_path: Path) -> None:
    with child(tmp_path, "buffer_rows=200 batch_rows=100") as writing:
        writing.tell("limit 3500")  # room for a row or two, not for a batch
        status = writing.tell("append 150")
        assert status["written"] == 0
        status = writing.tell("close")
    found = rows(tmp_path)
    assert [(gap.sequence, gap.skipped) for gap in found] == [(0, 149), (149, 1)], "since when, and until when"
    assert {(gap.reason, gap.note) for gap in found} == {("disk_error", "File too large")}
    assert (status["skipped"], status["skips_recorded"], status["waiting"]) == (150, 150, 0)


def test_a_disk_that_takes_nothing_at_all_leaves_no_file_and_no_traceback(tmp_path: Path) -> None:
    with child(tmp_path) as writing:
        writing.tell("limit 100")
        writing.tell("append 20")
        status = writing.tell("close")
    assert list(tmp_path.iterdir()) == []
    assert (status["offered"], status["skipped"], status["skips_recorded"]) == (20, 20, 0)
