"""The messages of many trains at once: where each message and each of its frames lies in the buffer.

Where a message of a train begins is known only after the message before it. So the trains of a batch go side by side:
a step finds the next message of every train. A train leaves the steps at a message that does not have the usual number
of frames, and a plain loop goes on with this train. When few trains are left, the loop is quicker for them too.

A train is right if it has as many messages as the caller says, and the last message ends where the train ends.
`unpack_train` is the law: it unpacks the same trains into the same frames, and has the words for the others.

The trap: numbers are read from wrong trains too, and a wrong length can lead to any position. Lengths have no sign, so
positions only grow: a position that has left its train never comes back to the end of the train.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hopwire.columnar import Bools, Ints
from hopwire.wire.batch.format_reader import spread
from hopwire.wire.train import (
    DATED,
    DATED_HEAD_BYTES,
    MAGIC,
    MAX_TRAIN_BYTES,
    MAX_TRAIN_MESSAGES,
    SMALLEST,
    USUAL,
    lengths_of,
)

__all__ = ["FoundMessages", "find_messages"]

Bytes = npt.NDArray[np.uint8]

COUNT_BYTES, LENGTH_BYTES = 2, 4  # in front of each message: how many frames, and the length of each
USUAL_COUNT = USUAL - 1  # frames of a usual message in a train, which leaves out the first
LENGTHS = [f"length_{number}" for number in range(USUAL_COUNT)]
USUAL_HEAD = np.dtype([("count", "<u2"), *((name, "<u4") for name in LENGTHS)])
USUAL_HEAD_BYTES = USUAL_HEAD.itemsize
FEW = 64  # trains for which a step takes as long as the loop
_read_count = struct.Struct("<H").unpack_from
_read_usual = lengths_of(USUAL_COUNT).unpack_from


class FoundMessages(NamedTuple):
    """The messages of the trains that are right, train by train; places are positions in the buffer."""

    is_right: Bools  # of each train
    start: Ints  # where the frames of each message begin; they follow one another without a gap
    stop: Ints  # where the frames of each message end
    frame_count: Ints  # of each message
    frame_bytes: Ints  # of each frame


def find_messages(data: Bytes, start: Ints, stop: Ints, messages: Ints) -> FoundMessages:
    """Find the messages of trains that lie in a buffer from `start` to `stop`, and have so many messages."""
    at, may_be_right = _begins(data, start, stop, messages)
    rows = np.flatnonzero(may_be_right)
    (train, number, head), reached = _walked(data, at[rows], stop[rows])
    found = np.bincount(train, minlength=len(rows))
    is_right = np.zeros(len(start), dtype=np.bool_)
    is_right[rows] = (reached == stop[rows]) & (found == messages[rows])
    if not is_right.all():
        of_right = is_right[rows][train]
        train, number, head = train[of_right], number[of_right], head[of_right]
    firsts = np.cumsum(np.where(is_right, messages, 0)) - messages
    heads = np.empty(len(head), dtype=np.int64)
    heads[firsts[rows][train] + number] = head
    stops = np.append(heads[1:], 0)
    stops[(firsts + messages)[is_right] - 1] = stop[is_right]
    count = _numbers(data, "<u2", heads)
    frame_bytes = _numbers(data, "<u4", spread(heads + COUNT_BYTES, count, LENGTH_BYTES))
    starts = heads + COUNT_BYTES + LENGTH_BYTES * count
    return FoundMessages(is_right, starts, stops[: len(heads)], count, frame_bytes)


def _begins(data: Bytes, start: Ints, stop: Ints, messages: Ints) -> tuple[Ints, Bools]:
    """Give where the first message of each train begins, and which trains keep the limits."""
    size = stop - start
    magic = _numbers(data, "<u4", start)
    is_dated = magic == int.from_bytes(DATED, "little")
    is_train = (is_dated | (magic == int.from_bytes(MAGIC, "little"))) & (size >= len(MAGIC))
    is_bounded = (size <= MAX_TRAIN_BYTES) & (messages > 0) & (messages <= MAX_TRAIN_MESSAGES)
    return start + np.where(is_dated, DATED_HEAD_BYTES, len(MAGIC)), is_train & is_bounded


def _numbers(data: Bytes, kind: str, at: Any) -> Ints:
    """Read a number at each position; a position behind the end of the buffer gives some number."""
    view = _view(data, kind)
    return np.asarray(view[np.minimum(at, len(view) - 1)], dtype=np.int64)


def _view(data: Bytes, kind: str) -> npt.NDArray[Any]:
    """Give a buffer as values that begin at every byte."""
    layout = np.dtype(kind)
    return np.ndarray((len(data) - layout.itemsize + 1,), layout, data, strides=(1,))


class _Heads(NamedTuple):
    """Where messages begin, in any order."""

    train: Ints
    number: Ints  # of the message within its train
    at: Ints


def _walked(data: Bytes, at: Ints, stop: Ints) -> tuple[_Heads, Ints]:
    """Find the messages of all trains; also give where the walk through each train ended."""
    steps, reached = _stepped(data, at, stop)
    trains, heads = [train for train, _ in steps], [head for _, head in steps]
    numbers = [np.repeat(np.arange(len(steps)), [len(train) for train in trains])]
    found = np.bincount(_joined(trains), minlength=len(at))
    for train in np.flatnonzero(reached < stop).tolist():
        begin = reached[train]
        rest, length = _looped(data[begin : stop[train]].tobytes())
        trains.append(np.full(len(rest), train))
        numbers.append(np.arange(found[train], found[train] + len(rest)))
        heads.append(np.array(rest, dtype=np.int64) + begin)
        reached[train] += length
    return _Heads(_joined(trains), _joined(numbers), _joined(heads)), reached


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _stepped(data: Bytes, at: Ints, stop: Ints) -> tuple[list[tuple[Ints, Ints]], Ints]:
    """Go from message to message in all trains: step n has the trains with an n-th message, and where it begins."""
    steps: list[tuple[Ints, Ints]] = []
    train, reached = np.arange(len(at)), at.copy()
    view = _view(data, f"V{USUAL_HEAD_BYTES}")
    while len(train) > FEW and len(steps) < MAX_TRAIN_MESSAGES:
        head = view[np.minimum(at, len(view) - 1)].view(USUAL_HEAD)
        is_usual = (head["count"] == USUAL_COUNT) & (at + USUAL_HEAD_BYTES <= stop)
        if not is_usual.all():
            reached[train] = at
            train, at, stop, head = train[is_usual], at[is_usual], stop[is_usual], head[is_usual]
        steps.append((train, at))
        at = at + USUAL_HEAD_BYTES
        for name in LENGTHS:
            at += head[name]
    reached[train] = at
    return steps, reached


def _looped(train: bytes) -> tuple[list[int], int]:
    """Go from message to message in the rest of one train; gives where they begin, and where the walk ended."""
    heads: list[int] = []
    at, stop = 0, len(train)
    while at + COUNT_BYTES <= stop and len(heads) < MAX_TRAIN_MESSAGES:
        if at + USUAL_HEAD_BYTES <= stop:
            count, empty, body, meta = _read_usual(train, at)
            if count == USUAL_COUNT:
                heads.append(at)
                at += USUAL_HEAD_BYTES + empty + body + meta
                continue
        (count,) = _read_count(train, at)
        lengths = lengths_of(count)
        if count < SMALLEST or at + lengths.size > stop:
            break
        heads.append(at)
        at += lengths.size - count + sum(lengths.unpack_from(train, at))
    return heads, at
