"""Every row of a capture goes one way, with everything that can be said of it alone."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hopwire.capture import Sighting, batch_from_sightings
from hopwire.lake.silver.messages import KINO_OUTCOMES
from hopwire.lake.tables import all_tables
from hopwire.lake.worker import INGESTED, Split, rebatched, split_batch
from hopwire.model import Message
from hopwire.model.names import OUTCOME
from hopwire.model.outcome import Outcome
from hopwire.model.payload import body_from_payload
from hopwire.node.spawn import OUTCOME as NODE_OUTCOME
from hopwire.security import OPEN, verify
from hopwire.wire import FORMATS, decode, encode
from hopwire.wire.extension import MAGIC, Extension, with_extension
from tests.lake.captures import DOMAINS, NOW, make_sightings

V6 = FORMATS[-1]


def split_messages(*messages: Message) -> list[dict[str, object]]:
    rows = [
        Sighting(b"n", "n", 1, number, NOW, "in", b"p", encode(message, V6)) for number, message in enumerate(messages)
    ]
    found: list[dict[str, object]] = split_batch(batch_from_sightings(rows), "s", OPEN).messages.to_pylist()
    return found


@pytest.fixture(scope="module")
def split() -> Split:
    return split_batch(batch_from_sightings(make_sightings("anna")), "anna.arrows", DOMAINS)


def test_rows_in_are_messages_quarantine_and_gaps(split: Split) -> None:
    assert (len(split.sightings), len(split.messages), len(split.quarantine)) == (41, 36, 4)
    skipped = split.sightings.filter(pc.equal(split.sightings.column("direction"), "skipped"))
    assert skipped.column("skipped").to_pylist() == [3]


def test_tables_have_their_schemas(split: Split) -> None:
    assert [rows.schema for rows in split[:3]] == [all_tables()[name].schema for name in INGESTED]


def test_bronze_is_the_capture_untouched(split: Split) -> None:
    expected = batch_from_sightings(make_sightings("anna"))
    assert split.sightings.select(expected.schema.names).to_pylist() == expected.to_pylist()
    assert split.sightings.column("segment").unique().to_pylist() == ["anna.arrows"]


def test_message_has_what_the_row_reader_reads(split: Split) -> None:
    sightings = {each.sequence: each for each in make_sightings("anna")}
    for row in split.messages.to_pylist():
        sighting = sightings[row["sequence"]]
        message = decode(sighting.frames)
        assert row["identity"] == message.identity
        assert tuple(row["body_frames"]) == message.body_frames
        assert row["verdict"] == verify(message, DOMAINS, sighting.seen_at_ns)
        assert row["frame_count"] == len(sighting.frames)
        assert row["size_bytes"] == sum(map(len, sighting.frames))
        assert len(row["message_key"]) == 16


def test_quarantine_has_reason_and_frames(split: Split) -> None:
    row = split.quarantine.to_pylist()[0]
    assert (row["frames"], row["sequence"], row["decoder"]) == ([b"noise"], 9, 1)
    assert row["reason"]


def test_dead_letter_keeps_its_reason() -> None:
    rows = [
        Sighting(b"n", "n", 1, 0, NOW, "dead", b"", encode(Message(b"x", body_frames=(b"",)), V6), "expired", "late")
    ]
    (row,) = split_batch(batch_from_sightings(rows), "s", OPEN).messages.to_pylist()
    assert (row["direction"], row["dead_reason"], row["dead_note"]) == ("dead", "expired", "late")


def test_extension_becomes_columns() -> None:
    extension = Extension(b"id", 2, 77, "00-trace")
    said, silent = split_messages(
        with_extension(Message(b"x", body_frames=(b"",)), extension), Message(b"y", body_frames=(b"",))
    )
    names = ("message_id", "attempt", "sent_at_ns", "traceparent")
    assert [said[name] for name in names] == [b"id", 2, 77, "00-trace"]
    assert [silent[name] for name in names] == [b"", 0, 0, ""]


DEEP = b"\x81\xa1z" * 1300 + b"\xc0"
HUGE = b"\x81\xa1t\xcf" + b"\xff" * 8  # a number that no column can hold


@pytest.mark.parametrize("damage", [b"\xff", DEEP, HUGE], ids=["broken", "deep", "huge"])
def test_damaged_extension_is_a_finding_not_a_loss(damage: bytes) -> None:
    damaged, fine = split_messages(
        Message(b"x", body_frames=(b"",), extensions=(b"other", MAGIC + damage)), Message(b"y", body_frames=(b"",))
    )
    assert (damaged["message_id"], damaged["findings"]) == (b"", ["bad_extension"])
    assert fine["findings"] == []


def test_outcome_says_kind_and_reason() -> None:
    assert NODE_OUTCOME.identity == OUTCOME
    failed = body_from_payload(Outcome("undelivered", "no_route", "nobody"))
    said, broken = split_messages(Message(OUTCOME, 1, body_frames=(failed,)), Message(OUTCOME, 1, body_frames=(b"?",)))
    assert (said["outcome_kind"], said["outcome_reason"]) == ("undelivered", "no_route")
    assert (broken["outcome_kind"], broken["findings"]) == ("", ["bad_outcome"])


@pytest.mark.parametrize(("identity", "expected"), KINO_OUTCOMES.items())
def test_outcomes_of_kino_are_known_by_their_identity(identity: bytes, expected: tuple[str, str]) -> None:
    (row,) = split_messages(Message(identity, 1, body_frames=(b"anything",)))
    assert (row["outcome_kind"], row["outcome_reason"]) == expected


@pytest.mark.parametrize("kept", [slice(0, 0), slice(9, 10), slice(40, 41), slice(0, 9)])
def test_batch_of_one_kind_leaves_the_other_tables_empty(kept: slice) -> None:
    rows = make_sightings("anna")[kept]
    split = split_batch(batch_from_sightings(rows), "s", DOMAINS)
    skipped = pc.equal(split.sightings.column("direction"), "skipped").true_count
    assert len(split.messages) + len(split.quarantine) + skipped == len(split.sightings) == len(rows)
    assert split.messages.schema == all_tables()["silver.messages"].schema


def test_message_keys_follow_the_message_id() -> None:
    one, again, other = split_messages(
        *(
            with_extension(Message(name, body_frames=(name,)), Extension(number))
            for name, number in ((b"x", b"1"), (b"y", b"1"), (b"x", b"2"))
        )
    )
    assert one["message_key"] == again["message_key"] != other["message_key"]


@pytest.mark.parametrize("body", [msgspec.msgpack.encode([1, 2]), DEEP, b"\x91" * 5000], ids=["list", "maps", "arrays"])
def test_outcome_that_is_no_map_is_a_finding(body: bytes) -> None:
    (row,) = split_messages(Message(OUTCOME, 1, body_frames=(body,)))
    assert row["findings"] == ["bad_outcome"]


def test_slice_of_a_batch_is_split_as_those_rows() -> None:
    batch = batch_from_sightings(make_sightings("anna"))
    part = split_batch(batch.slice(5, 10), "s", DOMAINS)
    whole = split_batch(batch, "s", DOMAINS)
    expected = [row for row in whole.messages.to_pylist() if 5 <= row["sequence"] < 15]
    assert part.messages.to_pylist() == expected
    assert pa.Table.from_batches([part.quarantine]).num_rows == 1


# -- batches of a good size


def batch(*sizes: int) -> pa.RecordBatch:
    frames = pa.array([[bytes(size // 2), bytes(size - size // 2)] for size in sizes], pa.list_(pa.binary()))
    return pa.RecordBatch.from_arrays([pa.array(sizes, pa.int64()), frames], ["size", "frames"])


def rows_of(batches: list[pa.RecordBatch]) -> list[list[int]]:
    return [each.column("size").to_pylist() for each in batches]


def test_small_batches_are_put_together() -> None:
    assert rows_of(list(rebatched([batch(1, 2), batch(3), batch(4, 5)], 3, 10_000))) == [[1, 2, 3], [4, 5]]


def test_large_batch_is_cut_by_rows() -> None:
    assert rows_of(list(rebatched([batch(*range(7))], 3, 10_000))) == [[0, 1, 2], [3, 4, 5], [6]]


def test_giant_row_comes_alone() -> None:
    cut = rows_of(list(rebatched([batch(10, 10, 90_000, 10, 10)], 100, 10_000)))
    assert [90_000] in cut
    assert [size for each in cut for size in each] == [10, 10, 90_000, 10, 10]


@pytest.mark.parametrize("start", [0, 3])
def test_slices_are_cut_by_their_own_bytes(start: int) -> None:
    whole = batch(5000, 5000, 5000, 6000, 6000, 6000)
    pieces = list(rebatched([whole.slice(start)], 100, 9_000))
    assert rows_of(pieces) == [[size] for size in whole.column("size").to_pylist()[start:]]


def test_nothing_gives_nothing() -> None:
    assert list(rebatched([], 10, 10)) == []
