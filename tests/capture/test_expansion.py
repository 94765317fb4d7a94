"""Trains in captures: whoever reads sees messages, as if they had been written one by one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.capture import (
    SCHEMA,
    Direction,
    Fault,
    FaultKind,
    Sighting,
    batch_from_sightings,
    follow_capture,
    list_segments,
    read_capture,
    sightings_from_batch,
)
from hopwire.capture import expansion as expansion_module
from hopwire.capture.expansion import Expansion
from hopwire.capture.records import RECORDS, Origin, Row, batch_from_rows, coupled, records_from_sightings
from hopwire.capture.segment import END
from hopwire.capture.sources import list_sources, parts_of, read_source, survey
from hopwire.wire.train import MAX_TRAIN_BYTES, MAX_TRAIN_MESSAGES, pack_train
from tests.capture.making import NODE, START, covered, read_all, rows, write, writer

OLD = Path(__file__).parent / "files" / "version-1.arrows"
ORIGIN = Origin(NODE, "NODE-A", 1)
FRAMES = st.lists(st.binary(max_size=12), max_size=5)
MESSAGES = st.lists(st.lists(st.binary(max_size=12), min_size=3, max_size=6), min_size=1, max_size=9)
SEEN = st.lists(st.tuples(st.sampled_from(["in", "out", "dead"]), FRAMES | MESSAGES.map(tuple)), min_size=1)


def train_of(count: int, sender: bytes = b"peer") -> list[bytes]:
    return [sender, pack_train([[b"", b"", b"%d" % number, b"meta"] for number in range(count)])]


def record(frames: list[bytes], train: int, sequence: int = 10, direction: str = "in", note: str = "") -> Row:
    return (sequence, START, direction, b"peer", frames, "", note, 0, train)


def expanded(*given: Row, origin: Origin = ORIGIN) -> tuple[list[Sighting], str]:
    expansion = Expansion()
    batches = list(expansion.sightings(batch_from_rows(origin, given)))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(SCHEMA, check_metadata=True)
    return [row for batch in batches for row in sightings_from_batch(batch)], expansion.trouble


def one_by_one(row: Row) -> list[Row]:
    """Give what a record of a train stands for."""
    sequence, at, direction, peer, frames, reason, note, _, train = row
    if not train:
        return [row]
    messages = [[b"", b"", b"%d" % number, b"meta"] for number in range(train)]
    return [
        (sequence + number, at, direction, peer, [frames[0], *each[1:]], reason, note, 0, 0)
        for number, each in enumerate(messages)
    ]


@pytest.mark.slow
@given(SEEN, st.sampled_from([b"", b"peer"]), st.sampled_from([None, 7]))
def test_trains_are_the_sightings_of_their_messages(
    seen: list[tuple[str, list[bytes] | tuple[list[bytes], ...]]], sender: bytes, queued_ns: int | None
) -> None:
    in_trains: list[Row] = []
    alone: list[Row] = []
    sequence = 0
    for direction, each in seen:
        at = START + sequence
        messages = [[sender, *frames[1:]] for frames in each] if isinstance(each, tuple) else [each]
        alone += [
            (sequence + number, at, direction, b"p", frames, "", "n", 0, 0) for number, frames in enumerate(messages)
        ]
        is_train = isinstance(each, tuple)
        frames = [sender, pack_train(messages, queued_ns)] if is_train else messages[0]
        in_trains.append((sequence, at, direction, b"p", frames, "", "n", 0, len(messages) if is_train else 0))
        sequence += len(messages)
    assert expanded(*in_trains) == expanded(*alone)


def test_what_is_written_as_a_train_comes_back_message_by_message(tmp_path: Path) -> None:
    with writer(tmp_path) as capture:
        capture.append(START, Direction.IN, b"peer", [b"peer", b"alone"])
        capture.append(START + 1, Direction.IN, b"peer", train_of(3), train=3)
        capture.append(START + 2, Direction.OUT, b"peer", train_of(1, b""), train=1)
        capture.append(START + 3, Direction.DEAD, b"", [b"x"], "no_route", "nobody")
    assert [row[3:] for row in rows(tmp_path)] == [
        (0, START, "in", b"peer", [b"peer", b"alone"], "", "", 0),
        (1, START + 1, "in", b"peer", [b"peer", b"", b"0", b"meta"], "", "", 0),
        (2, START + 1, "in", b"peer", [b"peer", b"", b"1", b"meta"], "", "", 0),
        (3, START + 1, "in", b"peer", [b"peer", b"", b"2", b"meta"], "", "", 0),
        (4, START + 2, "out", b"peer", [b"", b"", b"0", b"meta"], "", "", 0),
        (5, START + 3, "dead", b"", [b"x"], "no_route", "nobody", 0),
    ]
    status = capture.status
    assert (status.offered, status.written, status.skipped, status.waiting) == (6, 6, 0, 0)
    (segment,) = list_segments(tmp_path)
    assert segment.summary.row_count == 6, "the index counts sightings"
    next(tmp_path.glob("*.json")).unlink()
    assert list_segments(tmp_path) == [segment], "and so does whoever reads the segment"


def test_frames_that_look_like_a_train_are_a_message_if_the_record_says_so(tmp_path: Path) -> None:
    with writer(tmp_path) as capture:
        capture.append(START, Direction.IN, b"peer", train_of(3))
    assert [row.frames for row in rows(tmp_path)] == [train_of(3)]


def test_skipped_trains_count_all_their_messages(tmp_path: Path) -> None:
    capture = writer(tmp_path, buffer_rows=2)
    taken = [capture.offer(START + n, Direction.IN, b"peer", train_of(n), train=n) for n in (5, 7, 9, 11)]
    assert taken == [True, True, False, False]
    assert (capture.status.offered, capture.status.skipped, capture.status.waiting) == (32, 20, 12)
    status = capture.close()
    assert (status.written, status.skipped, status.skips_recorded) == (12, 20, 20)
    found = rows(tmp_path)
    assert covered(found) == list(range(32))
    assert found[-1][3:] == (12, START + 9, "skipped", b"", [], "too_slow", "", 20)


# -- older files


def test_a_capture_of_version_1_is_read_as_ever() -> None:
    found = rows(OLD)
    assert [row.sequence for row in found] == [*range(11), 15]
    assert covered(found) == list(range(16))
    assert [row.direction for row in found] == ["in"] * 4 + ["out", "dead"] + ["in"] * 4 + ["skipped", "in"]
    assert [row.frames[2] for row in found if row.frames] == [b"%d" % number for number in (*range(10), 15)]
    assert found[5].reason == "no_route"


def test_old_and_new_files_may_lie_side_by_side(tmp_path: Path) -> None:
    shutil.copy(OLD, tmp_path / "20270115T080000.000000000Z-old-000001.arrows")
    with writer(tmp_path, b"node-b") as capture:
        capture.append(START, Direction.IN, b"peer", train_of(5), train=5)
    write(tmp_path, 3, b"node-c")
    found = rows(tmp_path)
    assert len(found) == 12 + 5 + 3
    assert [survey(source).summary.row_count for source in list_sources(tmp_path)] == [5, 3, 12]
    assert [row.sequence for row in found if row.node == b"node-b"] == list(range(5))


# -- damage


def test_a_damaged_train_is_a_gap_with_its_reason_and_its_numbers() -> None:
    cut = [b"peer", train_of(3)[1][:-1]]
    found, trouble = expanded(record(train_of(2), 2, 8), record(cut, 3), record([b"peer", b"x"], 0, 13))
    assert [row.sequence for row in found] == [8, 9, 10, 13]
    assert covered(found) == list(range(8, 14))
    gap = found[2]
    assert (gap.direction, gap.peer, gap.frames, gap.reason, gap.skipped) == ("skipped", b"", [], "bad_train", 3)
    assert (gap.node, gap.seen_at_ns) == (NODE, START)
    assert "1 bytes are missing at the end" in gap.note
    assert trouble == f"has trains that cannot be taken apart: 1, the first of them: {gap.note}"


# fmt: off
DAMAGED = [
    # frames                               said                     words
    (train_of(3),                          2,                   "found a train of 3, the record says 2"),
    (train_of(3),                          4,                   "found a train of 3, the record says 4"),
    (train_of(3),                          -7,                  "found a train of 3, the record says -7"),
    (train_of(3),                          2**62,               "found a train of 3, the record says"),
    ([b"peer"],                            2,                   "found 1 frames, expected a sender and a train"),
    ([],                                   2,                   "found 0 frames, expected a sender and a train"),
    ([b"peer", b"HWT"],                    2,                   "found 2 frames, expected a sender and a train"),
    ([*train_of(3), b""],                  3,                   "found 3 frames, expected a sender and a train"),
    ([b"peer", b"HWT\x01"],                1,                   "there is no message in it"),
    ([b"peer", train_of(1)[1] + b"\0"],        1,                   "the train ends within a length"),
    ([b"peer", train_of(1)[1] + bytes(MAX_TRAIN_BYTES)], 1,         "the limit is 1048576"),
    (train_of(MAX_TRAIN_MESSAGES + 1),         MAX_TRAIN_MESSAGES + 1,  "found more than 1024 messages"),
    (train_of(1000, bytes(2000)),          1000,                "its names would take more than 1048576 bytes"),
]
# fmt: on


@pytest.mark.parametrize(("frames", "said", "words"), DAMAGED, ids=range(len(DAMAGED)))
def test_whatever_is_wrong_with_a_train_is_said(frames: list[bytes], said: int, words: str) -> None:
    found, trouble = expanded(record(train_of(2), 2, 8), record(frames, said), record([b"x"], 0, 5))
    assert [row.sequence for row in found] == [8, 9, 10, 5]
    gap = found[2]
    assert (gap.direction, gap.reason, gap.skipped, gap.frames) == ("skipped", "bad_train", max(said, 1), [])
    assert words in gap.note
    assert words in trouble


def test_a_row_of_missing_sightings_is_no_train() -> None:
    gap: Row = (10, START, "skipped", b"", [], "too_slow", "", 3, 5)
    found, trouble = expanded(gap, record(train_of(2), 2, 13))
    assert [row.sequence for row in found] == [10, 13, 14]
    assert (found[0].skipped, trouble) == (3, "")


def _file(path: Path, *given: Row, is_sealed: bool = True) -> Path:
    parts = [RECORDS.serialize(), *(batch_from_rows(ORIGIN, [row]).serialize() for row in given)]
    path.write_bytes(b"".join(part.to_pybytes() for part in parts) + (END if is_sealed else b""))
    return path


def test_a_file_with_damaged_trains_is_read_to_its_end_and_has_one_fault(tmp_path: Path) -> None:
    bad = [b"peer", b"HWT\x01damaged"]
    path = _file(
        tmp_path / "x.arrows",
        record(train_of(2), 2, 0),
        record(bad, 4, 2),
        record(bad, 5, 6),
        record(train_of(2), 2, 11),
    )
    found, (fault,) = read_all(path)
    assert covered([row for batch in found for row in sightings_from_batch(batch)]) == list(range(13))
    assert (fault.kind, fault.is_serious) == (FaultKind.UNREADABLE, False)
    assert fault.detail.startswith("has trains that cannot be taken apart: 2, the first of them: bad_train")


def test_whoever_follows_is_told_of_damage_and_goes_on(tmp_path: Path) -> None:
    path = _file(tmp_path / "x.open.arrows", record([b"", b"HWT\x01?"], 4, 0), is_sealed=False)
    more = [record(train_of(3), 3, 4), record(train_of(2), 2, 7)]
    faults: list[Fault] = []

    def wait() -> bool:
        if not more:
            return False
        path.write_bytes(path.read_bytes() + batch_from_rows(ORIGIN, [more.pop(0)]).serialize().to_pybytes())
        return True

    batches = follow_capture(tmp_path, wait, on_fault=faults.append)
    assert [row.sequence for batch in batches for row in sightings_from_batch(batch)] == [0, 4, 5, 6, 7, 8]
    assert [fault.kind for fault in faults] == [FaultKind.UNREADABLE]


# -- much of it


def test_many_records_are_taken_in_pieces_and_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Row] = []
    sequence = 0
    for number in range(300):
        train = number % 4 * 7
        given.append(record(train_of(train) if train else [b"peer", b"alone"], train, sequence))
        sequence += train or 1
    whole = expanded(*given)
    assert whole == expanded(*(each for row in given for each in one_by_one(row)))
    monkeypatch.setattr(expansion_module, "PIECE_BYTES", 5_000)
    batches = list(Expansion().sightings(batch_from_rows(ORIGIN, given)))
    assert len(batches) > 50
    assert [row for batch in batches for row in sightings_from_batch(batch)] == whole[0]


def test_a_slice_of_a_batch_is_expanded_as_such() -> None:
    given = [record(train_of(count), count, 100 * count) for count in range(1, 9)]
    part = batch_from_rows(ORIGIN, given).slice(2, 3)
    found = [row for batch in Expansion().sightings(part) for row in sightings_from_batch(batch)]
    assert found == expanded(*given[2:5])[0]


@pytest.mark.slow
def test_long_names_around_tiny_messages_cost_no_memory() -> None:
    tiny = [b"", pack_train([[b"", b"", b""]] * MAX_TRAIN_MESSAGES)]
    before = pa.total_allocated_bytes()
    peak = 0
    given = [record(tiny, MAX_TRAIN_MESSAGES, n * MAX_TRAIN_MESSAGES, note="n" * 900) for n in range(200)]
    for batch in Expansion().sightings(batch_from_rows(ORIGIN, given)):
        peak = max(peak, pa.total_allocated_bytes() - before)
        assert batch.num_rows >= MAX_TRAIN_MESSAGES
    assert peak < 100 * 2**20, "200 MB of notes come in pieces"
    found, trouble = expanded(record(tiny, MAX_TRAIN_MESSAGES, note="n" * 1_100))
    assert (len(found), found[0].skipped) == (1, MAX_TRAIN_MESSAGES)
    assert "its names would take more than" in trouble


def test_parts_of_a_file_with_trains_have_each_sighting_once(tmp_path: Path) -> None:
    with writer(tmp_path, batch_rows=2) as capture:
        for number in range(40):
            capture.append(START + number, Direction.IN, b"peer", train_of(number % 5 + 1), train=number % 5 + 1)
    (source,) = list_sources(tmp_path)
    parts = parts_of(source, 4_000)
    assert len(parts) > 2
    read = [row for part in parts for batch in read_source(part) for row in sightings_from_batch(batch)]
    assert [row.sequence for row in read] == list(range(120))


def test_columns_and_times_are_chosen_among_sightings(tmp_path: Path) -> None:
    with writer(tmp_path) as capture:
        capture.append(START, Direction.IN, b"peer", train_of(3), train=3)
        capture.append(START + 5, Direction.IN, b"peer", train_of(2), train=2)
    (batch,) = read_capture(tmp_path, since=START + 5, columns=["sequence", "frames"])
    assert batch.to_pydict() == {
        "sequence": [3, 4],
        "frames": [[b"peer", b"", b"0", b"meta"], [b"peer", b"", b"1", b"meta"]],
    }


def test_sightings_as_records_come_back_as_they_were() -> None:
    batch = batch_from_sightings([Sighting(b"n", "", 1, 0, 5, "in", b"p", [b"x"])])
    assert list(Expansion().sightings(records_from_sightings(batch))) == [batch]


def test_sightings_of_one_moment_become_a_train_and_sightings_again() -> None:
    alone = (5, START + 1, "in", b"peer", [b"peer", b"", b"body", b"meta"], "", "", 0, 0)
    given = [record(train_of(3), 3, 0), record(train_of(2), 2, 3, "out"), alone]
    batch = pa.concat_batches(list(Expansion().sightings(batch_from_rows(ORIGIN, given))))
    records = coupled(batch)
    assert records.equals(batch_from_rows(ORIGIN, given))
    assert pa.concat_batches(list(Expansion().sightings(records))).equals(batch)
