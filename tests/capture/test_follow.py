"""A capture that is followed: each row once, whatever happens to the files between two rounds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from hopwire.capture import CaptureWriter, Fault, FaultKind, follow_capture, sightings_from_batch
from tests.capture.making import NODE, START, append_many, names, numbers, write, writer

Step: TypeAlias = Callable[[], object]


def follow(directory: Path, steps: list[Step], **wanted: Any) -> list[list[int]]:
    """Give what each round brings; a step is taken between two of them."""
    rounds: list[list[int]] = [[]]
    rest = iter(steps)

    def wait() -> bool:
        step = next(rest, None)
        if step is not None:
            step()
            rounds.append([])
        return step is not None

    for batch in follow_capture(directory, wait, **wanted):
        rounds[-1] += numbers(sightings_from_batch(batch))
    return rounds


def more(capture: CaptureWriter, first: int) -> Callable[[], None]:
    return lambda: append_many(capture, 4, first)


def nothing() -> None:
    """Let a round pass."""


def test_every_row_comes_once_also_when_segments_are_rolled_and_sealed(tmp_path: Path) -> None:
    capture = writer(tmp_path, segment_bytes=4_000)
    steps: list[Step] = [
        more(capture, 0),
        more(capture, 4),
        nothing,
        more(capture, 8),
        more(capture, 12),
        capture.close,
        nothing,
    ]
    found = follow(tmp_path, steps)
    assert found == [[], [0, 1, 2, 3], [4, 5, 6, 7], [], [8, 9, 10, 11], [12, 13, 14, 15], [], []]
    assert len(names(tmp_path)) > 1


def test_a_batch_that_is_half_written_comes_when_it_is_whole(tmp_path: Path) -> None:
    write(tmp_path, 8)
    (path,) = tmp_path.glob("*.arrows")
    data = path.read_bytes()
    growing = path.rename(path.with_name("x.open.arrows"))
    growing.write_bytes(b"")
    steps: list[Step] = [partial(growing.write_bytes, data[:size]) for size in (*range(0, len(data), 50), len(data))]
    found = [rows for rows in follow(tmp_path, steps) if rows]
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_only_what_is_asked_for_is_followed(tmp_path: Path) -> None:
    write(tmp_path, 4)
    other = writer(tmp_path, b"node-b")
    assert follow(tmp_path, [more(other, 10)], nodes=[NODE]) == [[0, 1, 2, 3], []]
    assert follow(tmp_path, [other.close], since=START + 12_000_000) == [[12, 13], []]


def test_a_fault_is_told_once_and_the_others_are_followed(tmp_path: Path) -> None:
    write(tmp_path, 4)
    (tmp_path / "0.arrows").write_text("hello")
    (tmp_path / "1.open.arrows").write_text("hello")
    (tmp_path / "2.arrows").write_bytes(b"")
    (tmp_path / "3.open.arrows").write_bytes(b"")
    faults: list[Fault] = []
    assert follow(tmp_path, [nothing, nothing], on_fault=faults.append) == [[0, 1, 2, 3], [], []]
    assert [fault.kind for fault in faults] == [FaultKind.FOREIGN, FaultKind.FOREIGN, FaultKind.CUT_OFF]
