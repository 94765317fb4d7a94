"""The reader: the rows that are asked for, in order, each once; and no file is opened in vain."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from hopwire.capture import (
    CaptureWriter,
    Fault,
    FaultKind,
    State,
    Summary,
    follow_capture,
    list_segments,
    read_capture,
    sightings_from_batch,
)
from hopwire.capture.sources import list_sources
from hopwire.errors import CaptureError
from tests.capture.making import MS, NODE, START, append_many, names, numbers, rows, write, writer


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Two nodes, eight sightings each, in segments of four."""
    write(tmp_path, 8, segment_bytes=1)
    write(tmp_path, 8, b"node-b", first=100, segment_bytes=1)
    return tmp_path


def spoil(directory: Path, *indices: int) -> None:
    """Make segments unreadable, so that whoever opens them raises; their indexes stay right."""
    for index in indices:
        path = directory / names(directory)[index]
        path.write_bytes(b"?" * path.stat().st_size)


def test_segments_come_in_order_with_what_is_in_them(capture: Path) -> None:
    segments = list_segments(capture)
    assert [segment.path.name for segment in segments] == names(capture)
    assert segments[1].summary == Summary(4, 0, START + 4 * MS, START + 7 * MS, {NODE.hex(): "NODE-A"})
    assert segments[1].size_bytes == segments[1].path.stat().st_size
    assert {segment.state for segment in segments} == {State.SEALED}


def test_rows_come_in_the_order_of_the_segments(capture: Path) -> None:
    assert numbers(rows(capture)) == [*range(8), *range(100, 108)]
    assert rows(capture) == rows(capture)


def test_since_is_included_and_until_is_not(capture: Path) -> None:
    found = rows(capture, since=START + 3 * MS, until=START + 101 * MS)
    assert numbers(found) == [3, 4, 5, 6, 7, 100]


def test_nodes_are_chosen_by_identity(capture: Path) -> None:
    assert numbers(rows(capture, nodes=[b"node-b"])) == list(range(100, 108))
    assert rows(capture, nodes=[]) == []
    assert rows(capture, nodes=[b"nobody"]) == []


def test_files_outside_the_times_are_not_opened(capture: Path) -> None:
    spoil(capture, 0, 3)
    assert numbers(rows(capture, since=START + 4 * MS, until=START + 104 * MS)) == [*range(4, 8), *range(100, 104)]
    with pytest.raises(CaptureError, match="is not an Arrow stream"):
        rows(capture)


def test_files_of_other_nodes_are_not_opened(capture: Path) -> None:
    spoil(capture, 0, 1)
    assert numbers(rows(capture, nodes=[b"node-b"])) == list(range(100, 108))


@pytest.mark.parametrize("index", [None, b"", b"{}", b"\xff", b"[" * 100_000, b'{"version": 9, "size_bytes": 1}'])
def test_an_index_that_does_not_fit_is_ignored(capture: Path, index: bytes | None) -> None:
    expected = list_segments(capture)
    for name in names(capture, ".json"):
        (capture / name).unlink() if index is None else (capture / name).write_bytes(index)
    assert list_segments(capture) == expected
    assert numbers(rows(capture, nodes=[NODE])) == list(range(8))


def test_an_index_of_another_size_is_ignored(capture: Path) -> None:
    path = capture / names(capture)[0]
    path.write_bytes(path.read_bytes()[:-20])
    segment = list_segments(capture)[0]
    assert segment.state == State.CUT_OFF
    assert segment.fault is not None
    assert segment.summary.row_count == 0


def test_columns_may_be_chosen(capture: Path) -> None:
    batches = list(read_capture(capture, columns=["sequence", "frames"], nodes=[NODE]))
    assert [batch.schema.names for batch in batches] == [["sequence", "frames"]] * 2
    with pytest.raises(CaptureError, match="no column 'size'; there are node, node_name, incarnation"):
        read_capture(capture, columns=["size"])


def test_files_and_directories_may_be_mixed(capture: Path) -> None:
    first = capture / names(capture)[0]
    assert numbers(rows([first, str(first)])) == [0, 1, 2, 3] * 2  # type: ignore[list-item]
    assert numbers(rows([capture, first])) == [*range(8), *range(100, 108), *range(4)]
    assert numbers(rows(str(first))) == [0, 1, 2, 3]  # type: ignore[arg-type]


def test_open_segments_are_read_as_far_as_they_are(tmp_path: Path) -> None:
    capture = writer(tmp_path)
    append_many(capture, 6)
    (segment,) = list_segments(tmp_path)
    assert (segment.state, segment.summary.row_count) == (State.OPEN, 4)
    assert numbers(rows(tmp_path)) == [0, 1, 2, 3]
    append_many(capture, 2, first=6)
    assert numbers(rows(tmp_path)) == list(range(8))
    capture.close()
    assert numbers(rows(tmp_path)) == list(range(8))


def test_what_is_not_a_segment_is_left_alone(capture: Path) -> None:
    (capture / "notes.txt").write_text("hello")
    (capture / "old").mkdir()
    (capture / "x.unfinished").write_text("{")
    for hidden in (".arrows", ".open.arrows", ".x.arrows", "_x.arrows"):
        (capture / hidden).write_text("hello")
    assert len(list_segments(capture)) == 4
    assert len(list_sources(capture)) == 4


def test_a_segment_seen_under_both_names_is_read_once(capture: Path) -> None:
    path = capture / names(capture)[0]
    path.with_name(path.name.replace(".arrows", ".open.arrows")).write_bytes(path.read_bytes())
    assert numbers(rows(capture, nodes=[NODE])) == list(range(8))


def test_a_file_that_is_no_segment_is_named_with_its_fault(capture: Path) -> None:
    (capture / "0.arrows").write_text("hello")
    segment = list_segments(capture)[0]
    assert (segment.state, str(segment.fault)) == (
        State.UNREADABLE,
        f"{capture / '0.arrows'}: is not an Arrow stream",
    )


def test_an_empty_directory_is_an_empty_capture(tmp_path: Path) -> None:
    assert list_segments(tmp_path) == []
    assert rows(tmp_path) == []


def test_a_directory_that_is_not_there_is_said_before_the_first_row(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_capture(tmp_path / "no")


# -- a capture that is followed: each row once, whatever happens to the files between two rounds


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
