"""A train: many messages in one frame, between nodes that both announced `train`.

Trains multiply the throughput, and the latency stays. The frame of a train:

    HWT 01, then for each message: u16 number of frames, u32 length of each frame, then the frames
    HWT 02, i64 when the last of them was queued, then the same

The time is that of the sender's monotonic clock, in nanoseconds, which means nothing by itself. Two trains over one
connection tell how much longer the second was on its way than the first (`node/transit.py`).

The first frame of a message, the socket identity, is left out: the train has one socket identity for all messages. The
lengths must add up to the length of the train exactly.

| limit | a sender | a reader |
|---|---|---|
| messages | 1 to 256 | 1 to 1,024 |
| bytes | a train is full with 256 KiB | 1 MiB |
| frames of a message | 2 to 64 behind the first | 2 up to the reader's limit |

A message beyond the limits of a sender goes alone, as plain frames.

The trap: an entry of a few bytes makes the reader build a whole message. So the reader checks the numbers of messages
and of frames before it cuts out any frame of an entry.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain, repeat

from hopwire.errors import WireError
from hopwire.model.limits import Limits

__all__ = [
    "ALONE_BYTES",
    "ALONE_FORM",
    "CAPABILITY",
    "DATED",
    "DATED_CAPABILITY",
    "MAX_TRAIN_BYTES",
    "MAX_TRAIN_MESSAGES",
    "SMALLEST",
    "TRAIN_BYTES",
    "TRAIN_FRAMES",
    "TRAIN_MESSAGES",
    "USUAL",
    "USUAL_BYTES",
    "first_entry",
    "is_train",
    "pack_alone",
    "pack_train",
    "queued_at_ns",
    "read_alone",
    "read_usual",
    "unpack_train",
]

CAPABILITY = "train"  # the word by which a node announces that it reads trains
DATED_CAPABILITY = "train.dated"  # and that they may say when they were queued
MAGIC, DATED = b"HWT\x01", b"HWT\x02"
_TIME = struct.Struct("<q")
DATED_HEAD_BYTES = len(DATED) + _TIME.size
TRAIN_MESSAGES, TRAIN_BYTES = 256, 256 * 1024  # longer trains save little and keep others waiting
TRAIN_FRAMES = 64  # of one message; with more of them plain frames are as fast
MAX_TRAIN_MESSAGES, MAX_TRAIN_BYTES = 4 * TRAIN_MESSAGES, 4 * TRAIN_BYTES  # room for senders that count otherwise
SMALLEST = 2  # frames of a message behind the first: an empty one and the meta frame
_LENGTHS: list[struct.Struct] = [struct.Struct(f"<H{count}I") for count in range(TRAIN_FRAMES + 1)]
_COUNT = struct.Struct("<H").unpack_from
USUAL = 4  # frames of a message in V6 with one body: sender, empty, body, meta; packed and read without a loop
_PACK_USUAL, read_usual = _LENGTHS[USUAL - 1].pack, _LENGTHS[USUAL - 1].unpack_from
USUAL_BYTES = _LENGTHS[USUAL - 1].size  # in front of such a message: the number of its frames, and their lengths
ALONE_FORM = f"{len(DATED)}sq{USUAL_BYTES}s"  # all that stands in front of one such message in a dated train
_ALONE, _PACK_ALONE = struct.Struct(f"<{ALONE_FORM}"), struct.Struct(f"<{len(DATED)}sqH{USUAL - 1}I").pack
read_alone, ALONE_BYTES = _ALONE.unpack_from, _ALONE.size


def lengths_of(count: int) -> struct.Struct:
    """Give the form of what stands in front of a message: the number of its frames, and their lengths."""
    return _LENGTHS[count] if count < len(_LENGTHS) else struct.Struct(f"<H{count}I")


def pack_train(messages: Sequence[Sequence[bytes]], queued_ns: int | None = None) -> bytes:
    """Couple messages, at least one, each without its first frame; the caller has checked the limits."""
    if not messages:
        raise ValueError("a train has at least one message")
    head = MAGIC if queued_ns is None else DATED + _TIME.pack(queued_ns)
    if set(map(len, messages)) == {USUAL}:  # no step for each message: lengths take the places of the first frames
        parts = list(chain.from_iterable(messages))
        sizes = list(map(len, parts))
        parts[::USUAL] = map(_PACK_USUAL, repeat(USUAL - 1), sizes[1::USUAL], sizes[2::USUAL], sizes[3::USUAL])
    else:
        parts = []
        for frames in messages:
            behind = frames[1:]
            parts.append(lengths_of(len(behind)).pack(len(behind), *map(len, behind)))
            parts += behind
    parts[0] = head + parts[0]
    return b"".join(parts)


def pack_alone(message: Sequence[bytes], queued_ns: int) -> bytes:
    """Give the dated train of one usual message, as `pack_train` does: nearly all that are asked one at a time."""
    _, first, body, meta = message
    head = _PACK_ALONE(DATED, queued_ns, USUAL - 1, len(first), len(body), len(meta))
    return b"".join((head, first, body, meta))


def is_train(frames: list[bytes]) -> bool:
    """Tell whether the frames that arrived are a train: the sender's identity, and one frame that begins as a train."""
    return len(frames) == 2 and frames[1].startswith((MAGIC, DATED))


def first_entry(train: bytes) -> int:
    """Give where the first message of a train begins."""
    return len(MAGIC) if train.startswith(MAGIC) else DATED_HEAD_BYTES


def queued_at_ns(train: bytes) -> int | None:
    """Give when the last message of a train was queued, by the clock of its sender; None if the train does not say."""
    if not train.startswith(DATED) or len(train) < DATED_HEAD_BYTES:
        return None
    queued_ns: int = _TIME.unpack_from(train, len(DATED))[0]
    return queued_ns


def unpack_train(frames: list[bytes], limits: Limits) -> list[list[bytes]]:
    """Uncouple a train into messages, each with the sender's identity in front, or raise a WireError."""
    sender, train = frames
    messages: list[list[bytes]] = []
    at, end = first_entry(train), len(train)
    usual, last = USUAL - 1 if limits.max_frames >= USUAL - 1 else -1, end - USUAL_BYTES
    if end > MAX_TRAIN_BYTES:
        raise WireError("too_many_bytes", f"found a train of {end}, the limit is {MAX_TRAIN_BYTES}", frame=1)
    try:
        while at < end:
            for _ in range(MAX_TRAIN_MESSAGES - len(messages)):
                if at > last:
                    break
                count, first, second, third = read_usual(train, at)
                if count != usual:
                    break
                at += USUAL_BYTES
                body_at = at + first
                meta_at = body_at + second
                stop = meta_at + third
                messages.append([sender, train[at:body_at], train[body_at:meta_at], train[meta_at:stop]])
                at = stop
            if at >= end:
                break
            (count,) = _COUNT(train, at)
            if not SMALLEST <= count <= limits.max_frames or len(messages) == MAX_TRAIN_MESSAGES:
                raise _refusal(count, limits, at)
            lengths = lengths_of(count)
            _, *sizes = lengths.unpack_from(train, at)
            at += lengths.size
            message = [sender]
            for size in sizes:
                message.append(train[at : at + size])
                at += size
            messages.append(message)
    except struct.error:
        raise WireError("bad_train", "the train ends within a length", frame=1, byte=at) from None
    if at != end:
        raise WireError("bad_train", f"{at - end} bytes are missing at the end", frame=1, byte=end)
    if not messages:
        raise WireError("bad_train", "there is no message in it", frame=1, byte=end)
    return messages


def _refusal(count: int, limits: Limits, at: int) -> WireError:
    """Say what is wrong with an entry of so many frames."""
    if count > limits.max_frames:
        return WireError("too_many_frames", f"found {count}, the limit is {limits.max_frames}", frame=1, byte=at)
    if count < SMALLEST:
        detail = f"found a message of {count} frames, the smallest has {SMALLEST}"
    else:
        detail = f"found more than {MAX_TRAIN_MESSAGES} messages"
    return WireError("bad_train", detail, frame=1, byte=at)
