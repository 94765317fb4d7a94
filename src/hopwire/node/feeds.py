"""Streams of answers, where they are made: a generator handler is asked for parts, and each part is sent home.

A part is an answer like any other, with a number in the extension frame: 1, 2, 3 ... Behind the last part comes an
outcome with the next number: `ended`, what the handler raised, or that it made something else that nobody takes. The
handler is not asked for the next part while `WINDOW_PARTS` parts, or `WINDOW_BYTES` bytes, are on the way that nobody
has taken. Whoever takes the parts says how many were taken, by a `Demand` to the receiver `FEEDS` of this node, and
after each half of a window.

    32 parts were sent, none was taken: the handler waits. A demand says that 16 were taken: it goes on to part 48.

The numbers in a demand count from the start of the stream. So a demand that is lost or repeated does no harm. A stream
ends when the handler ends, when its time is over, when somebody says `Enough`, and when the node is gone that takes it.
Then the generator is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeAlias

from hopwire.errors import PayloadError
from hopwire.model import Contract, Message, Payload, contract_of, payload_from_body
from hopwire.model.outcome import Outcome
from hopwire.model.payload import Weigh
from hopwire.node.actors import payloads_from
from hopwire.node.dead import DeadLetter
from hopwire.node.demand import NO_MORE, WINDOW_BYTES, WINDOW_PARTS, Demand, Enough
from hopwire.node.envelope import Envelope
from hopwire.node.router import Router
from hopwire.node.spawn import choice_within, numbered, spawned, without_callback

__all__ = ["Feeds", "Place", "place_of"]

log = logging.getLogger("hopwire.node")
Place: TypeAlias = tuple[bytes, bytes, int]  # where a stream goes: a node, a hub, and the key of the question


WORDS: dict[Contract, type[Demand] | type[Enough]] = {contract_of(each): each for each in (Demand, Enough)}


class _Feed:
    """One stream on its way home."""

    def __init__(self, envelope: Envelope, router: Router, new_id: Callable[[], bytes]) -> None:
        self.envelope = envelope
        self._router, self._new_id = router, new_id
        self._taken_parts = self._taken_bytes = self._sent_bytes = 0
        self._room: asyncio.Future[None] | None = None
        self.task: asyncio.Task[BaseException | None] | None = None
        self.is_stopped = False

    def demand(self, parts: int, size_bytes: int) -> None:
        """So much was taken since the start."""
        self._taken_parts = max(self._taken_parts, min(parts, self.envelope.parts))
        self._taken_bytes = max(self._taken_bytes, min(size_bytes, self._sent_bytes))
        if self._room is not None and not self._room.done() and self._has_room():
            self._room.set_result(None)

    def stop(self) -> None:
        """Let the handler make no more parts, and close its generator."""
        self.is_stopped = True
        if self.task is not None:
            self.task.cancel()

    async def pump(self, parts: AsyncGenerator[Any, None], where: str) -> BaseException | None:
        """Send part after part, and then the end; gives what the handler raised.

        A task that raises SystemExit or KeyboardInterrupt would end the loop, and the node with it.
        """
        try:
            await self._pump(parts, where)
        except BaseException as error:
            return error
        return None

    async def _pump(self, parts: AsyncGenerator[Any, None], where: str) -> None:
        try:
            async for part in parts:
                await self._give(payloads_from(part, where))
                if self.is_stopped:  # a generator may catch what cancels it, and go on
                    return
        finally:
            await parts.aclose()
        await self._end(self.envelope.message, Outcome("ended"))

    async def _end(self, about: Message, outcome: Outcome) -> None:
        """Send the end of the stream: what became of the question, or of something that was said in its place."""
        told = self._router.outcome(about, outcome)
        if told is not None:
            await self._send(numbered(told, self.envelope.parts + 1, self._new_id()))

    async def _give(self, payloads: Sequence[Payload]) -> None:
        """Send what the handler made: what was asked for goes home, and anything else to whoever takes it.

        What nobody takes ends the stream, unless the handler made it together with a part.
        """
        cause, deadline = self.envelope.message, self.envelope.deadline
        messages = [(spawned(cause, each, cause.ttl_ticks, partition=cause.partition), each) for each in payloads]
        has_part = any(message.receiver_identity for message, _ in messages)
        for message, payload in messages:
            if not message.receiver_identity:
                is_astray = not has_part and message.contract not in self._router.candidates
                choice = choice_within(payload, message)
                self._router.say(Envelope(without_callback(message), deadline, choice=choice))
                if is_astray:
                    await self._end(message, Outcome("undelivered", "no_route"))
                    self.is_stopped = True
                    return
                continue
            while not self._has_room():
                self._room = asyncio.get_running_loop().create_future()
                await self._room
            self.envelope.parts += 1
            self._sent_bytes += sum(map(len, message.body_frames))
            await self._send(numbered(message, self.envelope.parts, self._new_id()))

    async def _send(self, message: Message) -> None:
        """Send a part, and wait for room in the queue to its node; what cannot be sent ends the stream."""
        envelope = Envelope(message, self.envelope.deadline, may_wait=True)
        nodes, full = self._router.say(envelope)
        is_gone = not nodes and not envelope.is_taken
        for put in full:
            reason = await put(envelope)
            if reason:
                self._router.give_up(envelope, reason)
                is_gone = True
        if is_gone:
            self.is_stopped = True

    def _has_room(self) -> bool:
        is_ahead = self.envelope.parts - self._taken_parts >= WINDOW_PARTS
        return not is_ahead and self._sent_bytes - self._taken_bytes < WINDOW_BYTES


class Feeds:
    """The streams that the actors of a node make; takes what is said to them."""

    def __init__(self, router: Router, new_id: Callable[[], bytes]) -> None:
        self._router, self._new_id = router, new_id
        self._open: dict[Place, _Feed] = {}
        self.onward: list[Callable[[Message], bool]] = []  # whoever passes streams on that are made in other networks

    def __len__(self) -> int:
        return len(self._open)

    async def run(self, envelope: Envelope, parts: AsyncGenerator[Any, None], where: str) -> None:
        """Send parts to whoever asked, until the stream ends; what the handler raises is raised here."""
        feed, place = _Feed(envelope, self._router, self._new_id), place_of(envelope.message)
        timing = self._router.timing
        self._open[place] = feed
        feed.task = task = asyncio.ensure_future(feed.pump(parts, where))
        timer = timing.loop.call_at(envelope.deadline, feed.stop) if envelope.deadline else None
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # the actor is being stopped
            feed.stop()
            await asyncio.wait({task})
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if self._open.get(place) is feed:
                del self._open[place]
        error = asyncio.CancelledError() if task.cancelled() else task.result()  # cancelled before its first step
        if error is not None and not feed.is_stopped:
            raise error
        if error is not None and not isinstance(error, asyncio.CancelledError):
            log.info("%s failed while it was closed: %s", where, type(error).__name__, exc_info=error)
        if feed.is_stopped and self._router.is_expired(envelope):
            # whoever asked has the same deadline, and is told by the own clock
            self._router.dead.add(DeadLetter("expired", f"{where} had more to say", envelope.message))

    def take(self, message: Message) -> None:
        """Take a demand, or the word that no more is wanted; a stream that has ended needs neither."""
        word = WORDS.get(message.contract)
        if word is None:
            self._router.dead.add(DeadLetter("handler_missing", "streams", message))
            return
        try:
            said = payload_from_body(word, message.body)
        except PayloadError as error:
            self._router.dead.add(DeadLetter("bad_payload", str(error), message))
            return
        feed = self._open.get(place_of(message))
        if feed is None and any(passes_on(message) for passes_on in self.onward):
            return
        if feed is None or feed.envelope.message.correlation_id != message.correlation_id:
            return
        if not self._router.is_vouched(feed.envelope.message, message):
            return
        if isinstance(said, Demand) and said.parts != NO_MORE:
            feed.demand(said.parts, said.size_bytes)
        else:
            feed.stop()

    def take_known(self, contract: Contract, key: int, correlation_id: bytes, body: bytes) -> bool:
        """Nothing that is said to streams is an answer."""
        return False

    def take_answer(
        self, contract: Contract, key: int, correlation_id: bytes, payload: Payload, weigh: Weigh | None
    ) -> bool:
        """Nobody waits here for an answer."""
        return False

    def sent_late(self, key: int, nodes: tuple[bytes, ...]) -> None:
        """Nobody waits here for an answer."""

    def lose_node(self, node: bytes) -> None:
        """A node is gone: the streams that went there end."""
        for place, feed in list(self._open.items()):
            if place[0] == node:
                feed.stop()


def place_of(message: Message) -> Place:
    """Give where the stream goes that a message belongs to."""
    return message.callback_receiver_node_identity, message.callback_receiver_identity, message.callback_key
