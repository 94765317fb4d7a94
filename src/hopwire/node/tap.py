"""The tap: writes down everything that a node receives, sends and gives up.

Offering costs a microsecond and never waits; a thread writes. What the disk cannot follow is counted in the capture
itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from hopwire.capture import CaptureStatus, CaptureWriter, Direction
from hopwire.errors import WireError
from hopwire.node.dead import DeadLetter
from hopwire.wire import encode

__all__ = ["Tap"]

TICK_SECONDS = 0.05


class Tap:
    """The capture of one node."""

    def __init__(self, directory: str | Path, node: bytes, incarnation: int, name: str) -> None:
        self._writer = CaptureWriter(directory, node, incarnation=incarnation, node_name=name)
        self._ticker: asyncio.Task[None] | None = None

    @property
    def status(self) -> CaptureStatus:
        """How much was offered, written and skipped."""
        return self._writer.status

    def start(self) -> None:
        """Begin to write."""
        self._ticker = asyncio.ensure_future(self._tick())

    def saw_in(self, frames: Sequence[bytes]) -> None:
        """Something arrived; the first frame is the sender."""
        self._writer.offer(time.time_ns(), Direction.IN, frames[0] if frames else b"", frames)

    def saw_out(self, peer: bytes, frames: Sequence[bytes], left_at_ns: int) -> None:
        """Something was sent."""
        self._writer.offer(left_at_ns, Direction.OUT, peer, frames)

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
