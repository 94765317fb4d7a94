"""An actor at work: takes messages from its queue, calls the handler, sends what it returns."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hopwire.errors import PayloadError
from hopwire.model import Message, Payload, Version, contract_of, payload_from_body
from hopwire.node.actors import Actor, ExecutorKind, Handler, Supervision, handlers_of, payloads_from
from hopwire.node.calls import Address
from hopwire.node.envelope import Envelope
from hopwire.node.feeds import Feeds
from hopwire.node.latencies import EVERY_SECONDS, Latencies
from hopwire.node.news import ActorFailed, ActorRestarted, ActorStarted, ActorStopped, News
from hopwire.node.notices import Notice, Notices
from hopwire.node.recruiting import Recruiter
from hopwire.node.router import Inbox, Router
from hopwire.node.share import in_slices
from hopwire.node.spawn import RECEIPT, choice_within, spawned, wants_stream, without_callback
from hopwire.node.stepping import Stepping
from hopwire.node.supervision import Life
from hopwire.node.threads import ActorThreads, Threads

if TYPE_CHECKING:
    from hopwire.node.processes import ActorProcesses

__all__ = ["Running", "Workplace"]

log = logging.getLogger("hopwire.node")
MakeContext = Callable[[Envelope, bool], Any]  # of a message, and whether its handler blocks


class Workplace(NamedTuple):
    """What all actors of a node have in common."""

    node: bytes
    router: Router
    make_context: MakeContext
    feeds: Feeds
    news: News
    notices: Notices
    threads: Threads
    route: Callable[[Running], None]  # lets messages find the actor
    unroute: Callable[[Running], None]
    escalate: Callable[[Running, BaseException, str], None]  # stops the node
    latencies: Latencies | None = None  # none: nobody measures


class Running:
    """One hosted actor."""

    def __init__(
        self,
        actor: Actor,
        identity: bytes,
        partition: bytes,
        inbox: Inbox,
        place: Workplace,
        supervision: Supervision,
        is_local_only: bool = False,
    ) -> None:
        self.actor, self.identity, self.inbox, self.is_local_only = actor, identity, inbox, is_local_only
        self.handlers: dict[tuple[bytes, Version, bytes], Handler] = {
            contract_of(each.payload, partition): each for each in handlers_of(type(actor))
        }
        self._usual = {
            contract: each
            for contract, each in self.handlers.items()
            if each.kind == "coroutine" and not each.takes_context
        }
        self._place, self._router, self._make_context = place, place.router, place.make_context
        self._feeds, self._supervision, self._address = place.feeds, supervision, Address(place.node, identity)
        self._name = type(actor).__name__
        self._threads: ActorThreads | None = None  # until the first message for a handler that blocks
        self._processes = _processes_of(actor, self._name)
        timing = place.router.timing
        self.life = Life(actor, self._work, supervision, self, timing.now, timing.share.clock)
        self._clock: Callable[[], float] = timing.now
        self._recruiter: Recruiter | None = None  # while the actor is up
        self._at_work = 0
        self._is_down = False
        self._failed: tuple[BaseException, str] | None = None  # what has ended the actor

    def start(self) -> None:
        """Begin to take messages."""
        self.life.start()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do."""
        return not len(self.inbox) and not self._at_work

    def load(self) -> int:
        """Give how many messages wait for the actor, or are being handled."""
        return len(self.inbox) + self._at_work

    def went_up(self, restarts: int, workers: int) -> None:
        """The actor takes messages."""
        self._recruiter = Recruiter(self.inbox, self.life.hire, self.actor.concurrency - workers)
        self._recruiter.start(workers)
        if self._is_down:
            self._is_down = False
            self._place.route(self)
        if restarts:
            log.info("%s was restarted", self._name, extra={"hopwire_actor": self._name})
        if self._place.news:
            if restarts:
                self._place.news.tell(ActorRestarted(self._address, self._name, restarts))
            else:
                self._place.news.tell(ActorStarted(self._address, self._name))

    def went_down(self, error: BaseException, where: str, restarts_in: float | None) -> None:
        """The actor has failed: nobody sends it anything until it is up again."""
        self._is_down = True
        if self._recruiter is not None:
            self._recruiter.stop()
        self._place.unroute(self)
        if self._place.news:
            self._place.news.tell(ActorFailed(self._address, self._name, where, error, restarts_in))
        if self._supervision is Supervision.STOP:
            self._failed = error, where
            in_slices(self._router.timing.loop, self.close("failed"))
        elif self._supervision is Supervision.ESCALATE:
            self._place.escalate(self, error, where)

    def held(self, work: Envelope | None, seconds: float) -> None:
        """The actor held the loop for so long."""
        handler = self._handler_for(work.message) if work is not None else None
        where = handler.where if handler is not None else self._name
        text = f"{where} held the loop for {seconds:.1f} s: nothing else ran here; in a thread it would do no harm"
        fields = {"event": "held_loop", "where": where, "seconds": f"{seconds:.3f}"}
        self._place.notices.warn(("held_loop", where), lambda: Notice(text, fields))

    def close(self, reason: str) -> Iterator[None]:
        """Take nothing more with the first step, and give up one of those that wait with each step behind it."""
        if self.inbox.is_closed:
            return
        if self._recruiter is not None:
            self._recruiter.stop()
        waiting = self.inbox.close()
        if self._threads is not None:
            self._threads.close()
        if self._processes is not None:
            self._processes.close()
        if self._place.news:
            self._place.news.tell(ActorStopped(self._address, self._name, reason))
        yield
        for envelope in waiting:
            if self._failed is not None:
                self._router.fail(envelope, *self._failed)
            else:
                self._router.give_up(envelope, "closed")
            self._router.consumed(envelope)
            yield

    def _own_threads(self) -> ActorThreads:
        if self._threads is None:
            self._threads = ActorThreads(self._place.threads, max(1, self.actor.concurrency), self._name)
        return self._threads

    async def _work(self, stepping: Stepping) -> None:
        inbox, telemetry, share, life = self.inbox, self._router.telemetry, self._router.timing.share, self.life
        clock, self._clock, consumed = share.clock, self._router.timing.clock, self._router.consumed
        elsewhere = self._router.waiting_elsewhere
        measure_at = math.inf if self._place.latencies is None else 0.0  # when the next message is measured
        usual, answer_known, known, handler = self._usual, self._router.answer_known, None, None
        is_one_clock = self._router.timing.is_one_clock
        unusual_at = measure_at if telemetry is None else 0.0
        while not (life.is_ending or life.is_fallen):
            try:
                now = clock()
                if now >= share.ends_at and share.is_over():
                    await share.turn()
                    now = clock()
                envelope = inbox.pop()
                if envelope is None:
                    if elsewhere:
                        self._router.call_here(self.handlers)
                    await inbox.arrival()
                    continue
            except asyncio.CancelledError as error:
                if stepping.is_ending(error):
                    raise
                stepping.go_on()  # the handler of the last message has cancelled its task, and then returned
                continue
            stepping.work = envelope
            self._at_work += 1
            if envelope.came_from:
                consumed(envelope)
            try:
                if envelope.known is not known:
                    known = envelope.known
                    handler = None if known is None else usual.get(known.contract)
                if (
                    handler is not None
                    and now < unusual_at
                    and (now if is_one_clock else self._clock()) < envelope.deadline
                ):
                    payload = envelope.payload
                    if payload is None:
                        payload = _read_known(handler, envelope.body)
                    if type(payload) is handler.payload:
                        try:
                            result = await handler.method(self.actor, payload)
                            if answer_known(envelope, result):
                                envelope.payload = None  # nobody asks for it any more
                            else:
                                await self._take_result(envelope, handler, result)
                        except BaseException as error:
                            self._end(envelope, handler, stepping, error)
                        payload = result = None  # whoever waits for the next message keeps neither
                        continue
                if now >= measure_at:
                    measure_at = clock() + EVERY_SECONDS
                    unusual_at = measure_at if telemetry is None else 0.0
                    handling = self._measured(envelope, stepping)
                else:
                    handling = self._handle(envelope, stepping)
                if telemetry is None:
                    await handling
                else:
                    with telemetry.handling(envelope.message):
                        await handling
            except BaseException as error:
                if not stepping.is_ending(error):
                    self._router.fail(envelope, error, f"a worker of {self._name}")
                raise
            finally:
                self._at_work -= 1

    async def _measured(self, envelope: Envelope, stepping: Stepping) -> None:
        """Handle a message, and count how long that takes by the contract of the handler."""
        latencies, began = self._place.latencies, self._clock()
        assert latencies is not None
        try:
            await self._handle(envelope, stepping)
        finally:
            known = envelope.known
            contract = known.contract if known is not None else envelope.message.contract
            latencies.of_handler(contract if contract in self.handlers else None).observe(self._clock() - began)

    async def _handle(self, envelope: Envelope, stepping: Stepping) -> None:
        known, payload = envelope.known, envelope.payload
        handler = None if known is None else self.handlers.get(known.contract)
        if handler is None or self._clock() >= envelope.deadline:
            payload, handler = self._read(envelope)
        elif payload is None:
            payload = _read_known(handler, envelope.body)
            if payload is None:
                payload, handler = self._read(envelope)
        elif type(payload) is not handler.payload:
            payload, handler = self._read(envelope)
        if payload is None or handler is None:
            return
        try:
            if handler.kind == "coroutine":
                if handler.takes_context:
                    result = await handler.method(self.actor, payload, self._make_context(envelope, False))
                else:
                    result = await handler.method(self.actor, payload)
            elif handler.kind == "generator":
                arguments = (self._make_context(envelope, False),) if handler.takes_context else ()
                await self._handle_parts(envelope, handler, handler.method(self.actor, payload, *arguments))
                return
            elif self._processes is not None:
                result = await self._processes.call(handler.name, payload)
            else:
                arguments = (self._make_context(envelope, True),) if handler.takes_context else ()
                call = self._own_threads().call
                result = await call(_call_in_thread, handler.method, self.actor, payload, *arguments)
            if envelope.known is None or not self._router.answer_known(envelope, result):
                await self._take_result(envelope, handler, result)
        except BaseException as error:
            self._end(envelope, handler, stepping, error)

    def _end(self, envelope: Envelope, handler: Handler, stepping: Stepping, error: BaseException) -> None:
        """A handler has raised; also SystemExit and KeyboardInterrupt, which would end the loop and the node."""
        if stepping.is_ending(error):
            self._router.give_up(envelope, "closed", handler.where)
            raise error
        stepping.go_on()
        self._fail(envelope, handler, error)

    async def _take_result(self, envelope: Envelope, handler: Handler, result: Any) -> None:
        """Send what a handler returned, or tell whoever waits that it returned nothing."""
        if len(envelope.message.callback_points) > 1 and _is_streamed(envelope.message, result):
            await self._feeds.run(envelope, _parts_of(result), handler.where)
        elif isinstance(result, Payload):
            if not self._router.is_answered(envelope.message, result):
                self._answer(envelope, (result,))
        elif payloads := payloads_from(result, handler.where):
            self._answer(envelope, payloads)
        else:
            self._router.unanswered(envelope, handler.where)

    async def _handle_parts(self, envelope: Envelope, handler: Handler, parts: AsyncGenerator[Any, None]) -> None:
        if wants_stream(envelope.message):
            await self._feeds.run(envelope, parts, handler.where)
            return
        is_silent, is_answered = True, False
        async for part in parts:
            payloads = payloads_from(part, handler.where)
            is_silent = is_silent and not payloads
            is_answered = self._answer(envelope, payloads, is_answered)
        if is_silent:
            self._router.unanswered(envelope, handler.where)

    def _fail(self, envelope: Envelope, handler: Handler, error: BaseException) -> None:
        points = envelope.message.callback_points  # whoever waits for more than a receipt is told anyway
        level = logging.INFO if any(point != RECEIPT for point in points) else logging.WARNING
        self.life.log(level, handler.where, error)
        if self._router.telemetry is not None:
            self._router.telemetry.failed(error)
        self._router.fail(envelope, error, handler.where)

    def _read(self, envelope: Envelope) -> tuple[Payload | None, Handler | None]:
        """Give the payload and who handles it; what cannot be handled is given up here."""
        if envelope.deadline and self._clock() >= envelope.deadline:
            self._router.give_up(envelope, "expired", f"before {self._name} could handle it")
            return None, None
        known = envelope.known
        handler = self.handlers.get(known.contract) if known is not None else None
        handler = handler or self._handler_for(envelope.message)
        if handler is None:
            self._router.give_up(envelope, "handler_missing", self._name)
            return None, None
        payload = envelope.payload
        if type(payload) is handler.payload:
            return payload, handler
        try:
            body = envelope.message.body if known is None or payload is not None else envelope.body
            return payload_from_body(handler.payload, body), handler
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
        messages = [(spawned(cause, each, cause.ttl_ticks, partition=cause.partition), each) for each in payloads]
        if len(messages) > 1:
            messages.sort(key=lambda pair: not pair[0].receiver_identity)
        for message, payload in messages:
            is_home = bool(message.receiver_identity)
            if is_home:
                self._router.answer(envelope, message)
            else:
                said = without_callback(message) if is_answered else message
                self._router.say(Envelope(said, envelope.deadline, choice=choice_within(payload, message)))
            is_answered = is_answered or is_home
        return is_answered


def _read_known(handler: Handler, body: bytes) -> Payload | None:
    """Read the payload of a known message; None if its body makes no sense."""
    try:
        return handler.payload.__contract__.read(body)  # type: ignore[union-attr, no-any-return]
    except Exception:  # a protobuf class may raise anything
        return None


def _processes_of(actor: Actor, name: str) -> ActorProcesses | None:
    if actor.executor != ExecutorKind.PROCESSES:
        return None
    from hopwire.node.processes import ActorProcesses  # what it needs takes time to load, and few actors need it

    return ActorProcesses(actor, actor.concurrency, name)


def _is_streamed(question: Message, result: Any) -> bool:
    """Tell whether what a handler returned is all of a stream; anything else goes on in the flow, with the question."""
    if result is None or not wants_stream(question):
        return False
    if not isinstance(result, Payload):
        return True
    contract = contract_of(result, question.partition)
    return any((each.identity, each.version, each.partition) == contract for each in question.callback_points)


async def _parts_of(result: Any) -> AsyncGenerator[Any, None]:
    yield result


def _call_in_thread(method: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return method(*arguments)
    except (StopIteration, GeneratorExit) as error:  # a future cannot hold the one, and the other ends who waits for it
        raise RuntimeError(type(error).__name__) from error
