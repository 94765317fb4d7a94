"""Broken messages: what bits, lengths, frames and offsets look like after an accident or an attack."""

from __future__ import annotations

from random import Random

EDGES = (b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\1\0\0\0", b"\0\0\0\0", b"\2\0", b"\xff\xff")
FRAMES = (
    b"",
    b"\3\0\0\0",
    b"\4\0\0\0",
    b"\5\0",
    b"\5\0\0\0",
    b"\6\0",
    b"\xff\xfe",
    b"\xff" * 4,
    b"\xff" * 8,
    b"\0" * 8,
)
BYTES = (0, 1, 2, 3, 4, 5, 6, 15, 16, 17, 18, 127, 128, 255)


def mutated(frames: list[bytes], chance: Random) -> list[bytes]:
    """Give the frames with one to three things wrong, most of them near the end, where the headers are."""
    broken = list(frames)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if broken:
            near_end = max(0, len(broken) - 1 - chance.randrange(20))
            _break(broken, chance.choice((near_end, near_end, chance.randrange(len(broken)))), chance)
    return broken


def _break(frames: list[bytes], index: int, chance: Random) -> None:
    frame = frames[index]
    at = chance.randrange(len(frame) + 1)
    match chance.randrange(8):
        case 0:
            frames[index] = frame[:at] + bytes([chance.choice(BYTES)]) + frame[at + 1 :]
        case 1:
            frames[index] = frame[:at]
        case 2:
            frames[index] = frame + chance.randbytes(chance.randrange(1, 5))
        case 3:
            del frames[index]
        case 4:
            frames.insert(index, chance.choice(FRAMES))
        case 5:
            edge = chance.choice(EDGES)
            frames[index] = frame[:at] + edge + frame[at + len(edge) :]
        case 6:
            frames[index] = chance.choice(FRAMES)
        case _:
            other = chance.randrange(len(frames))
            frames[index], frames[other] = frames[other], frames[index]
