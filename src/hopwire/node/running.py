"""An actor at work: takes messages from its queue, calls the handler, sends what it returns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from hopwire.errors import PayloadError
from hopwire.model import Message, Payload, Version, contract_of, payload_from_body
from hopwire.node.actors import Actor, Handler, handlers_of, payloads_from
from hopwire.node.dead import DeadLetter
from hopwire.node.flow import spawned
from hopwire.node.router import Envelope, Inbox, Router

__all__ = ["Running"]

log = logging.getLogger("hopwire.node")
MakeContext = Callable[[Envelope], Any]


class Running:
    """One hosted actor."""

    def __init__(
        self, actor: Actor, identity: bytes, partition: bytes, inbox: Inbox, router: Router, make_context: MakeContext
    ) -> None:
        self.actor, self.identity, self.inbox = actor, identity, inbox
        self.handlers: dict[tuple[bytes, Version, bytes], Handler] = {
            contract_of(each.payload, partition): each for each in handlers_of(type(actor))
        }
        self._router, self._make_context = router, make_context
        self._name = type(actor).__name__
        self._workers: list[asyncio.Task[None]] = []
        self._at_work = 0

    def start(self) -> None:
        """Begin to take messages."""
        started = asyncio.ensure_future(self.actor.on_start())
        self._workers = [asyncio.ensure_future(self._work(started)) for _ in range(max(1, self.actor.concurrency))]

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not len(self.inbox) and not self._at_work

    async def stop(self) -> None:
        """Stop at once; what still waits is given up."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        for envelope in self.inbox.close():
            self._router.give_up(envelope, "closed")
        await self.actor.on_stop()

    async def _work(self, started: asyncio.Future[None]) -> None:
        failed = (await asyncio.gather(asyncio.shield(started), return_exceptions=True))[0]
        inbox = self.inbox
        while True:
            envelope = inbox.pop() or await inbox.take()
            self._at_work += 1
            try:
                if isinstance(failed, Exception):
                    self._router.fail(envelope, failed, f"{self._name}.on_start")
                else:
                    await self._handle(envelope)
            finally:
                self._at_work -= 1

    async def _handle(self, envelope: Envelope) -> None:
        payload, handler = self._read(envelope)
        if payload is None or handler is None:
            return
        arguments = (payload, self._make_context(envelope)) if handler.takes_context else (payload,)
        try:
            if handler.kind == "generator":
                async for answer in handler.method(self.actor, *arguments):
                    self._answer(envelope, answer)
                return
            if handler.kind == "coroutine":
                result = await handler.method(self.actor, *arguments)
            else:
                result = await asyncio.to_thread(handler.method, self.actor, *arguments)
            if isinstance(result, Payload):
                self._answer(envelope, result)
            elif result is not None:
                for answer in payloads_from(result, handler.where):
                    self._answer(envelope, answer)
        except asyncio.CancelledError:
            self._router.give_up(envelope, "closed", handler.where)
            raise
        except Exception as error:
            level = logging.INFO if envelope.message.callback_key else logging.WARNING  # whoever waits is told anyway
            log.log(level, "%s failed: %s: %s", handler.where, type(error).__name__, error)
            self._router.fail(envelope, error, handler.where)

    def _read(self, envelope: Envelope) -> tuple[Payload | None, Handler | None]:
        """Give the payload and who handles it; what cannot be handled is given up here."""
        message = envelope.message
        if self._router.is_expired(envelope):
            self._router.give_up(envelope, "expired", f"before {self._name} could handle it")
            return None, None
        handler = self._handler_for(message)
        if handler is None:
            self._router.give_up(envelope, "handler_missing", self._name)
            return None, None
        try:
            return payload_from_body(handler.payload, message.body), handler
        except PayloadError as error:
            self._router.dead.add(DeadLetter("bad_payload", str(error), message))
            self._router.fail(envelope, error, handler.where)
            return None, None

    def _handler_for(self, message: Message) -> Handler | None:
        """By contract; for a receiver that is named also by version alone, if that leaves no choice."""
        handler = self.handlers.get((message.identity, message.version, message.partition))
        if handler is not None or not message.receiver_identity:
            return handler
        same = [handler for each, handler in self.handlers.items() if each[1] == message.version]
        return same[0] if len(same) == 1 else None

    def _answer(self, envelope: Envelope, payload: Payload) -> None:
        cause = envelope.message
        message = spawned(cause, payload, cause.ttl_ticks, partition=cause.partition)  # what is left is in the deadline
        self._router.route(Envelope(message, envelope.deadline))
