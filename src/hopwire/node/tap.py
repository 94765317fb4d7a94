"""The tap: writes down everything that a node receives, sends and gives up.

Offering costs a microsecond and never waits; a thread writes. What the disk cannot follow is counted in the capture
itself.

A node without a capture loads neither the writer nor pyarrow and numpy, which the writer needs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hopwire.errors import WireError
from hopwire.model.sighting import Direction
from hopwire.node.dead import DeadLetter
from hopwire.node.transport import Frames
from hopwire.wire import encode
from hopwire.wire.train import is_train

if TYPE_CHECKING:
    from hopwire.capture import CaptureStatus

__all__ = ["Tap"]

TICK_SECONDS = 0.05


class Tap:
    """The capture of one node."""

    def __init__(self, directory: str | Path, node: bytes, incarnation: int, name: str) -> None:
        from hopwire.capture import CaptureWriter

        self._writer = CaptureWriter(directory, node, incarnation=incarnation, node_name=name)
        self._ticker: asyncio.Task[None] | None = None

    @property
    def status(self) -> CaptureStatus:
        """How much was offered, written and skipped."""
        return self._writer.status

    def start(self) -> None:
        """Begin to write."""
        self._ticker = asyncio.ensure_future(self._tick())

    def saw_in(self, frames: list[bytes], count: int = 1) -> None:
        """A message arrived, or a train of so many; the first frame is the sender.

        A train of one may be given as its message, which readers read faster.
        """
        train = count if is_train(frames) else 0
        self._writer.offer(time.time_ns(), Direction.IN, frames[0] if frames else b"", frames, train=train)

    def saw_sent(self, frames: Frames, count: int) -> None:
        """A message leaves, or a train of so many; the first frame is the node that it is for."""
        train, node = count if is_train(frames) else 0, frames[0]
        self._writer.offer(time.time_ns(), Direction.OUT, node, [b"", *frames[1:]], train=train)

    def saw_dead(self, letter: DeadLetter) -> None:
        """Something goes no further."""
        frames: Sequence[bytes] = letter.frames
        if letter.message is not None:
            try:
                frames = encode(letter.message)
            except WireError:
                frames = letter.message.body_frames
        self._writer.offer(time.time_ns(), Direction.DEAD, b"", frames, letter.reason, letter.detail)

    async def stop(self) -> None:
        """Write what waits, and close."""
        if self._ticker is not None:
            self._ticker.cancel()
        await asyncio.to_thread(self._writer.close)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await asyncio.to_thread(self._writer.tick, time.time_ns())
