"""An actor at work: takes messages from its queue, calls the handler, sends what it returns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hopwire.errors import PayloadError
from hopwire.model import Message, Payload, Version, contract_of, payload_from_body
from hopwire.node.actors import Actor, Handler, handlers_of, payloads_from
from hopwire.node.router import Envelope, Inbox, Router
from hopwire.node.spawn import RECEIPT, spawned, without_callback

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
        self._started: asyncio.Task[BaseException | None] | None = None
        self._workers: list[asyncio.Task[None]] = []
        self._at_work = 0
        self._is_stopping = False

    def start(self) -> None:
        """Begin to take messages."""
        self._started = asyncio.ensure_future(self._begin())
        self._workers = [asyncio.ensure_future(self._work()) for _ in range(max(1, self.actor.concurrency))]

    async def _begin(self) -> BaseException | None:
        """Let the actor prepare itself; gives the error that it raised."""
        return await self._call(self.actor.on_start)

    async def _finish(self) -> None:
        await self._call(self.actor.on_stop)

    async def _call(self, hook: Callable[[], Awaitable[None]]) -> BaseException | None:
        try:
            await hook()
        except BaseException as error:
            if _is_ending(error):
                raise
            self._log(logging.WARNING, f"{self._name}.{hook.__name__}", error)
            return error
        return None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not len(self.inbox) and not self._at_work

    async def stop(self, timeout: float) -> None:
        """Stop at once; what still waits is given up, and what does not stop in time is left behind.

        A handler that takes its own actor away goes on to its end.
        """
        self._is_stopping = True
        for envelope in self.inbox.close():
            self._router.give_up(envelope, "closed")
            self._router.consumed(envelope)
        if self._started is None:
            return
        ending: set[asyncio.Task[Any]] = {self._started, *self._workers} - {asyncio.current_task()}
        for task in ending:
            task.cancel()
        await self._end(ending, timeout / 2)
        await self._end({asyncio.ensure_future(self._finish())}, timeout / 2)

    async def _end(self, tasks: set[asyncio.Task[Any]], timeout: float) -> None:
        done, stuck = await asyncio.wait(tasks, timeout=timeout) if tasks else (set(), set())
        for task in done:
            if not task.cancelled() and task.exception() is not None:
                self._log(logging.WARNING, "stopping", task.exception())
        for task in stuck:
            task.cancel()
            log.warning("%s did not stop within %s s", self._name, timeout, extra={"hopwire_actor": self._name})

    async def _work(self) -> None:
        assert self._started is not None
        failed = await asyncio.shield(self._started)
        inbox, telemetry, share = self.inbox, self._router.telemetry, self._router.timing.share
        clock = share.clock
        while not self._is_stopping:
            if clock() >= share.ends_at and share.is_over():
                await asyncio.sleep(0)
            envelope = inbox.pop() or await inbox.take()
            self._at_work += 1
            if envelope.came_from:
                self._router.consumed(envelope)
            try:
                if failed is not None:
                    self._router.fail(envelope, failed, f"{self._name}.on_start")
                elif telemetry is None:
                    await self._handle(envelope)
                else:
                    with telemetry.handling(envelope.message):
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
                await self._handle_parts(envelope, handler, arguments)
                return
            if handler.kind == "coroutine":
                result = await handler.method(self.actor, *arguments)
            else:
                result = await asyncio.to_thread(_call_in_thread, handler.method, self.actor, *arguments)
            if isinstance(result, Payload):
                if not self._router.is_answered(envelope.message, result):
                    self._answer(envelope, (result,))
            elif payloads := payloads_from(result, handler.where):
                self._answer(envelope, payloads)
            else:
                self._router.unanswered(envelope, handler.where)
        except BaseException as error:  # also SystemExit and KeyboardInterrupt, which would end the loop and the node
            if _is_ending(error):
                self._router.give_up(envelope, "closed", handler.where)
                raise
            self._fail(envelope, handler, error)

    async def _handle_parts(self, envelope: Envelope, handler: Handler, arguments: tuple[Any, ...]) -> None:
        is_silent, is_answered = True, False
        async for part in handler.method(self.actor, *arguments):
            payloads = payloads_from(part, handler.where)
            is_silent = is_silent and not payloads
            is_answered = self._answer(envelope, payloads, is_answered)
        if is_silent:
            self._router.unanswered(envelope, handler.where)

    def _fail(self, envelope: Envelope, handler: Handler, error: BaseException) -> None:
        points = envelope.message.callback_points  # whoever waits for more than a receipt is told anyway
        level = logging.INFO if any(point != RECEIPT for point in points) else logging.WARNING
        self._log(level, handler.where, error)
        if self._router.telemetry is not None:
            self._router.telemetry.failed(error)
        self._router.fail(envelope, error, handler.where)

    def _log(self, level: int, where: str, error: BaseException | None) -> None:
        fields = {"hopwire_actor": self._name, "hopwire_where": where, "hopwire_error": type(error).__name__}
        log.log(level, "%s failed: %s", where, type(error).__name__, exc_info=error, extra=fields)

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
            self._router.fail(envelope, error, handler.where, "bad_payload")
            return None, None

    def _handler_for(self, message: Message) -> Handler | None:
        """By contract; for a receiver that is named also by version alone, if that leaves no choice."""
        handler = self.handlers.get((message.identity, message.version, message.partition))
        if handler is not None or not message.receiver_identity:
            return handler
        same = [handler for each, handler in self.handlers.items() if each[1] == message.version]
        return same[0] if len(same) == 1 else None

    def _answer(self, envelope: Envelope, payloads: Sequence[Payload], is_answered: bool = False) -> bool:
        """Send what a handler returned, first what goes home; tells whether the question is answered now.

        What is said beside or after an answer carries no callback: nobody waits for what becomes of it.
        """
        cause = envelope.message  # how much of its time is left is in the deadline
        messages = [spawned(cause, payload, cause.ttl_ticks, partition=cause.partition) for payload in payloads]
        if len(messages) > 1:
            messages.sort(key=lambda message: not message.receiver_identity)
        for message in messages:
            is_home = bool(message.receiver_identity)
            if is_home:
                self._router.answer(envelope, message)
            else:
                said = without_callback(message) if is_answered else message
                self._router.say(Envelope(said, envelope.deadline))
            is_answered = is_answered or is_home
        return is_answered


def _is_ending(error: BaseException) -> bool:
    """Tell whether the task that runs here is to end; otherwise something was cancelled that an actor waited for."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit)


def _call_in_thread(method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except StopIteration as error:  # a future cannot hold one, and whoever waits for it would wait for ever
        raise RuntimeError("StopIteration") from error
