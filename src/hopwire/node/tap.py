"""The tap: writes down everything that a node receives, sends and gives up, and what its hubs tell instead of answers.

Offering costs a microsecond and never waits; a thread writes. What the disk cannot follow is counted in the capture
itself. Another thread ships sealed segments elsewhere, if that is asked for (`capture/shipping.py`).

A node without a capture loads neither the writer nor pyarrow and numpy, which the writer needs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopwire.disk import local_path
from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.model.sighting import Direction
from hopwire.node.dead import DeadLetter
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.transport import Frames
from hopwire.wire import encode
from hopwire.wire.train import is_train

if TYPE_CHECKING:
    from hopwire.capture import CaptureStatus, SegmentShipper, ShipStatus

__all__ = ["Tap"]

log = logging.getLogger("hopwire.node")
TICK_SECONDS = 0.05


class Tap:
    """The capture of one node."""

    def __init__(
        self,
        directory: str | Path,
        node: bytes,
        incarnation: int,
        name: str,
        ship: str | None = None,
        *,
        keep_shipped: bool = True,
    ) -> None:
        from hopwire.capture import CaptureWriter, SegmentShipper
        from hopwire.flows.keys import message_key

        self._node, self._key_of = node, message_key
        self._writer = CaptureWriter(directory, node, incarnation=incarnation, node_name=name)
        self._shipper: SegmentShipper | None = None
        if ship is not None:
            self._shipper = SegmentShipper(local_path(directory), ship, keep_shipped=keep_shipped, tell=_warn)
        self._ticker: asyncio.Task[None] | None = None
        self.now_ns: Callable[[], int] = time.time_ns
        self.aside: Callable[..., Awaitable[Any]] = asyncio.to_thread  # calls what may wait for the disk
        self._is_abandoned = False
        self._directory, self._trouble, self._notices = directory, "", Notices(time.monotonic)

    @property
    def status(self) -> CaptureStatus:
        """How much was offered, written and skipped."""
        return self._writer.status

    @property
    def ship_status(self) -> ShipStatus | None:
        """How many segments were shipped, if they are."""
        return self._shipper.status if self._shipper is not None else None

    def start(self) -> None:
        """Begin to write."""
        self._ticker = asyncio.ensure_future(self._tick())
        if self._shipper is not None:
            self._shipper.start()

    def saw_in(self, frames: list[bytes], count: int = 1) -> None:
        """A message arrived, or a train of so many; the first frame is the sender.

        A train of one may be given as its message, which readers read faster.
        """
        train = count if is_train(frames) else 0
        self._writer.offer(self.now_ns(), Direction.IN, frames[0] if frames else b"", frames, train=train)

    def saw_sent(self, frames: Frames, count: int) -> None:
        """A message leaves, or a train of so many; the first frame is the node that it is for."""
        train, node = count if is_train(frames) else 0, frames[0]
        self._writer.offer(self.now_ns(), Direction.OUT, node, [b"", *frames[1:]], train=train)

    def saw_dead(self, letter: DeadLetter) -> None:
        """Something goes no further."""
        frames = letter.frames if letter.message is None else _frames_of(letter.message)
        self._writer.offer(self.now_ns(), Direction.DEAD, b"", frames, letter.reason, letter.detail)

    def saw_told(self, question: Message, told: str, text: str) -> None:
        """A promise ended, and not by an answer on the wire: with an error, or `answered` within the node."""
        frames = _frames_of(question.replace(body_frames=(b"",)))
        self._writer.offer(self.now_ns(), Direction.TOLD, b"", frames, told, text)

    def saw_local(self, message: Message) -> None:
        """A message goes from an actor or a hub of this node to another."""
        self._writer.offer(self.now_ns(), Direction.LOCAL, self._node, _frames_of(message))

    def saw_crossing(self, message: Message, goes_on: Message, other: bytes, *, is_in: bool) -> None:
        """A message crosses from one node of a gateway to the other, and goes on there as another message."""
        direction = Direction.IN if is_in else Direction.OUT
        frames = _frames_of(message.replace(socket_identity=b""))
        self._writer.offer(self.now_ns(), direction, other, frames, "", self._key_of(goes_on).hex())

    async def stop(self) -> None:
        """Write what waits, and close."""
        if self._ticker is not None:
            self._ticker.cancel()
        if not self._is_abandoned:
            await self.aside(self._writer.close)
            if self._shipper is not None:
                await self.aside(self._shipper.stop)

    def abandon(self) -> None:
        """Write nothing more, as if the process had been killed."""
        self._is_abandoned = True
        if self._shipper is not None:
            self._shipper.abandon()
        if self._ticker is not None:
            self._ticker.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await self.aside(self._writer.tick, self.now_ns())
            self._tell_of_trouble()

    def _tell_of_trouble(self) -> None:
        """Warn when the disk begins to refuse."""
        before, self._trouble = self._trouble, self._writer.status.trouble
        if self._trouble and not before:
            where = shown(str(self._directory))
            text = f"the capture in {where} is not written: {self._trouble}; what is missing is counted"
            self._notices.warn("capture", lambda: Notice(text, {"event": "capture", "reason": self._trouble}))


def _warn(line: str) -> None:
    log.warning("%s", line, extra={"hopwire_event": "shipping"})


def _frames_of(message: Message) -> Sequence[bytes]:
    """Give the frames of a message; of a message that cannot be written, its body."""
    try:
        return encode(message)
    except WireError:
        return message.body_frames
