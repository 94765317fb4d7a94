"""A train: many messages in one frame, for nodes that both announced it; latency stays, throughput multiplies.

    HWT 01, then for each message: u16 number of frames, u32 length of each frame, then the frames

The first frame of a message, the socket identity, stays behind: the train has one for all. What the lengths say must be
exactly what is there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from hopwire.errors import WireError
from hopwire.model.settings import Limits

__all__ = ["CAPABILITY", "is_train", "pack_train", "unpack_train"]

CAPABILITY = "train"  # the word by which a node announces that it reads trains
MAGIC = b"HWT\x01"
MAX_FRAMES = 2**16 - 1
_LENGTHS: list[struct.Struct] = [struct.Struct(f"<H{count}I") for count in range(32)]
_COUNT = struct.Struct("<H").unpack_from
USUAL = 4  # frames of a message in V6 with one body: sender, empty, body, meta; these are packed without a loop
_PACK_USUAL = _LENGTHS[USUAL - 1].pack


def _lengths(count: int) -> struct.Struct:
    return _LENGTHS[count] if count < len(_LENGTHS) else struct.Struct(f"<H{count}I")


def pack_train(messages: Iterable[list[bytes]]) -> bytes:
    """Couple messages, each without its first frame."""
    parts = [MAGIC]
    for frames in messages:
        if len(frames) == USUAL:
            _, empty, body, meta = frames
            parts += (_PACK_USUAL(USUAL - 1, len(empty), len(body), len(meta)), empty, body, meta)
        else:
            behind = frames[1:]
            parts.append(_lengths(len(behind)).pack(len(behind), *map(len, behind)))
            parts += behind
    return b"".join(parts)


def is_train(frames: list[bytes]) -> bool:
    """Tell whether what arrived is a train: the sender's identity and one frame that says so."""
    return len(frames) == 2 and frames[1].startswith(MAGIC)


def unpack_train(frames: list[bytes], limits: Limits) -> list[list[bytes]]:
    """Uncouple a train into messages, each with the sender's identity in front, or raise a WireError."""
    sender, train = frames
    messages: list[list[bytes]] = []
    at, end = len(MAGIC), len(train)
    try:
        while at < end:
            (count,) = _COUNT(train, at)
            if count > limits.max_frames:
                raise WireError("too_many_frames", f"found {count}, the limit is {limits.max_frames}", frame=1, byte=at)
            lengths = _lengths(count)
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
    return messages
