"""Frames that are damaged on the way: cut short, or changed such that nobody can read them.

Not every damage makes a message unreadable. So `decode` reads each damaged message, and another damage is tried until
`decode` refuses the message. The truth notes the reason that `decode` gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hopwire.errors import WireError
from hopwire.simulate.shapes import Change
from hopwire.wire import decode

__all__ = ["damaged"]

ATTEMPTS = 50  # never reached: a message without its last frame is unreadable in every format


def damaged(frames: pa.Array, damage: Any, chance: np.random.Generator) -> tuple[pa.Array, dict[int, str]]:
    """Give the frames with some rows damaged, and the reason why each damaged row cannot be read."""
    rows = np.flatnonzero(damage).tolist()
    if not rows:
        return frames, {}
    broken, reasons = [], {}
    for row in rows:
        cut = damage[row] == Change.TRUNCATED
        changed, reasons[row] = _broken(frames[row].as_py(), _truncated if cut else _mutated, chance)
        broken.append(changed)
    index = np.arange(len(frames))
    index[rows] = len(frames) + np.arange(len(rows))
    return pa.concat_arrays([frames, pa.array(broken, frames.type)]).take(pa.array(index)), reasons


def _broken(frames: list[bytes], damage: Any, chance: np.random.Generator) -> tuple[list[bytes], str]:
    for _ in range(ATTEMPTS):
        changed = damage(list(frames), chance)
        try:
            decode(changed)
        except WireError as error:
            return changed, error.reason
    return frames[:1], "too_few_frames"


def _truncated(frames: list[bytes], chance: np.random.Generator) -> list[bytes]:
    """A message without its last frames, or without the end of its last frame."""
    if chance.random() < 0.5 and len(frames[-1]) > 1:
        return [*frames[:-1], frames[-1][: int(chance.integers(0, len(frames[-1])))]]
    return frames[: int(chance.integers(1, len(frames)))]


def _mutated(frames: list[bytes], chance: np.random.Generator) -> list[bytes]:
    """A message with one frame too many, with bytes too many in one frame, or with one changed byte."""
    place = len(frames) - 1 - int(chance.integers(0, min(len(frames) - 1, 14)))
    kind = int(chance.integers(0, 3))
    if kind == 0:
        frames.insert(place, bytes(chance.bytes(int(chance.integers(0, 9)))))
    elif kind == 1:
        frames[place] = bytes(chance.bytes(int(chance.integers(1, 5)))) + frames[place]
    elif frames[place]:
        at = int(chance.integers(0, len(frames[place])))
        frames[place] = frames[place][:at] + b"\xff" + frames[place][at + 1 :]
    return frames
