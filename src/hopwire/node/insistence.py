"""Sends a message again and again until its promise is kept: `at_least_once`.

Without a receipt each attempt takes another route where there is one, after the pause that `retries.py` knows. After a
receipt the node that gave it is asked again, with the same id, until the answer comes. A node that is lost is replaced
at once.

    0.00 s  sent to B, which is slow; the receipt comes at 0.02 s
    1.00 s  asked again, and B says that the question is there already
    2.50 s  B is killed; missed at 2.80 s, and C is asked
    2.81 s  C answers
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from hopwire.node.deadlines import UntilDone
from hopwire.node.envelope import Envelope
from hopwire.node.loads import Loads
from hopwire.node.promise import Promise
from hopwire.node.retries import Retries
from hopwire.node.timing import Timing
from hopwire.wire.extension import Extension, with_extension

__all__ = ["Insistence", "Queues"]

LOOK_SECONDS = 0.1  # between two looks at a message that waits in our own queue
LONGEST_RETRY_SECONDS = 2.0  # between two attempts without a receipt, unless a round trip takes longer
ASK_AGAIN_SECONDS, LONGEST_ASK_SECONDS = 1.0, 10.0  # after a receipt, until the answer is asked for again
MOST_DOUBLINGS = 10  # of a pause
JITTER = 0.5  # the part of a pause that chance may add, or all who lost a message at once would send again at once
HELD = 1.5  # pauses that took so many times as long as they should count for nothing


class Queues(Protocol):
    """What waits here for other nodes."""

    def mark(self, node: bytes) -> int:
        """Give the number of the last message that waits here for a node, or 0 where none does."""

    def is_queued(self, node: bytes, mark: int) -> bool:
        """Tell whether a message up to that mark still waits here for a node: it has not even left."""


class Insistence:
    """Keeps promises of one hub that must be kept."""

    def __init__(
        self,
        here: bytes,
        submit: Callable[[Envelope, tuple[bytes, ...], Promise], Awaitable[tuple[bytes, ...]]],
        outgoing: Queues,
        retries: Retries,
        timing: Timing,
        new_id: Callable[[], bytes],
        loads: Loads,
    ) -> None:
        self._node, self._submit, self._outgoing = here, submit, outgoing
        self._retries, self._timing, self._new_id = retries, timing, new_id
        self._loads = loads

    async def keep(self, promise: Promise, envelope: Envelope) -> Any:
        """Send until the promise is kept, or no time is left; without a receipt each attempt takes another route."""
        message_id, timing = self._new_id(), self._timing
        promise.is_insisted = True
        self._retries.first()
        while not promise.future.done():
            if promise.attempts and timing.hub_share.is_full():  # thousands may have lost the same node
                async with UntilDone(promise.future):
                    await timing.hub_share.turn()
                if promise.future.done():
                    break
            message, avoid = envelope.message, promise.sent_to
            if promise.taken_by and not message.receiver_node_identity:
                message, avoid = message.replace(receiver_node_identity=promise.taken_by), ()
            extension = Extension(message_id=message_id, attempt=promise.attempts)
            promise.attempts += 1
            promise.receipts = 0
            promise.news = timing.loop.create_future()
            began = timing.clock()
            again = Envelope(with_extension(message, extension), envelope.deadline, may_wait=True)
            again.choice = envelope.choice  # an actor that has died is replaced as its rule says
            promise.sent_to = await self._submit(again, avoid, promise)
            self._loads.move(promise, promise.sent_to)
            await self._until_due(promise, began)
        future = promise.future
        del promise  # or an error of the promise would hold itself by its traceback
        try:
            return await future
        finally:
            del future

    async def _until_due(self, promise: Promise, began: float) -> None:
        """Wait until the promise is kept, or it is time to send again.

        What still waits in our own queue is not lost, and a second copy would only make the queue longer. So a message
        that leaves its queue at 3.00 s is sent again at 3.10 s, not at 0.10 s.
        """
        timing, outgoing = self._timing, self._outgoing
        queued = [(node, outgoing.mark(node)) for node in promise.sent_to]
        if queued:
            await asyncio.sleep(0)  # what was sent in this turn of the loop leaves at its end
        while queued := [each for each in queued if outgoing.is_queued(*each)]:
            if await self._has_news(promise, LOOK_SECONDS):
                break
        if not promise.taken_by and not _is_over(promise):
            sent_at = timing.clock()
            await self._for_receipt(promise, sent_at)
            if promise.taken_by:
                self._retries.received()
                if promise.attempts == 1:
                    self._retries.measured(promise.taken_by, timing.clock() - began, sent_at)
        if promise.taken_by and not promise.future.done():
            await self._for_answer(promise)

    async def _for_receipt(self, promise: Promise, sent_at: float) -> None:
        """Wait for a receipt until it is late, and resends are left; a pause in which the loop was held is repeated."""
        timing, retries = self._timing, self._retries
        pause = retries.late_after(promise.sent_to)
        pause *= min(_doubled(promise), max(1.0, LONGEST_RETRY_SECONDS / pause))
        pause *= 1 + JITTER * timing.chance()
        began = timing.clock()
        while not await self._has_news(promise, pause):
            was_held = timing.clock() - began > HELD * pause  # a receipt may have come and not been read
            if not was_held or pause >= LONGEST_RETRY_SECONDS:
                is_lost = retries.is_overtaken(promise.sent_to, sent_at)
                if retries.may_send(timing.clock(), is_lost=is_lost):
                    promise.overtaken += is_lost  # the node is there, so the next pause need not be longer
                    return
            pause, began = min(2 * pause, max(pause, LONGEST_RETRY_SECONDS)), timing.clock()

    async def _for_answer(self, promise: Promise) -> None:
        """Wait for the answer of a node that has the question; what this node itself has cannot get lost.

        A node that is asked again has the answer, or says that it has the question. Who hears neither asks once more
        soon, for that was lost; who hears that the question is there waits for twice as long as before.
        """
        promise.news = self._timing.loop.create_future()
        while promise.taken_by == self._node and not await self._has_news(promise, LONGEST_ASK_SECONDS):
            pass
        if not promise.receipts and await self._is_unheard(promise):
            return
        pause = min(ASK_AGAIN_SECONDS * 2 ** min(promise.waited, MOST_DOUBLINGS), LONGEST_ASK_SECONDS)
        promise.waited += 1
        if promise.taken_by and not _is_over(promise):
            await self._has_news(promise, pause * (1 + JITTER * self._timing.chance()))

    async def _is_unheard(self, promise: Promise) -> bool:
        """Wait for a word of a node that was asked again; gives whether none came, and resends are left."""
        retries, timing = self._retries, self._timing
        pause = retries.late_after((promise.taken_by,)) * (1 + JITTER * timing.chance())
        if await self._has_news(promise, pause) or promise.receipts:
            return False
        return retries.may_send(timing.clock(), is_lost=True)

    async def _has_news(self, promise: Promise, seconds: float) -> bool:
        assert promise.news is not None
        ends = (promise.future, promise.news)
        done, _ = await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)


def _doubled(promise: Promise) -> int:
    """Give 1, 2, 4 ... for the first, second, third attempt, without those that were overtaken."""
    return 1 << min(promise.attempts - promise.overtaken - 1, MOST_DOUBLINGS)


def _is_over(promise: Promise) -> bool:
    """Tell whether nothing is waited for any more after the last attempt."""
    return promise.future.done() or (promise.news is not None and promise.news.done())
