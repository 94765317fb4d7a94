"""The hub: how code that is not an actor talks to actors, and gets answers.

| call | ends with |
|---|---|
| `ask` | the answer, `HandlerFailed`, `UnexpectedAnswer`, or one of the errors of `send` |
| `stream` | parts of an answer, one after the other, then the end or one of the errors of `ask` |
| `send` | a receipt from the node that took it, or `NoRoute`, `Expired`, `Unreachable`, `QueueFull`, `Timeout` |
| `tell`, `broadcast` | nothing: at most once, and what goes nowhere is a dead letter |

With `at_least_once` a message is sent again, to another route where there is one, until the promise is kept or the time
is over: `send` until a receipt comes, `ask` until the answer comes. After a receipt the node that gave it is asked
again, with the same id, and answers from memory what it has answered before. If that node dies, another is asked.
Receivers handle a message once. Every promise ends: at the latest when its time is over.

What a handler returns is the answer if its contract was asked for. Anything else goes on in the flow, to whoever takes
it, and the answer may come from there. So `UnexpectedAnswer` says one of two things: what was returned finds nobody, or
the handler of the question itself returned nothing. Both times the question was handled, and is not asked again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import get_ident
from typing import Any, NamedTuple, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

import msgspec

from hopwire.errors import (
    Closed,
    DeliveryError,
    Expired,
    HandlerFailed,
    NoRoute,
    PayloadError,
    QueueFull,
    SettingsError,
    Timeout,
    UnexpectedAnswer,
    Unreachable,
    WireError,
)
from hopwire.model import (
    CallbackPoint,
    Contract,
    Distribution,
    Message,
    Payload,
    Version,
    body_from_payload,
    contract_of,
    names,
    payload_from_body,
)
from hopwire.model.outcome import Outcome
from hopwire.node.dead import DeadLetter
from hopwire.node.deadlines import Deadlines
from hopwire.node.demand import NO_MORE, Demand, Enough
from hopwire.node.parts import Ending, StreamParts
from hopwire.node.retries import Retries
from hopwire.node.router import Envelope, Room, Router
from hopwire.node.spawn import (
    NO_ANSWER,
    OUTCOME,
    RECEIPT,
    ROUTING,
    STREAM,
    Way,
    seconds_from_ticks,
    ticks_from_seconds,
    words_of,
)
from hopwire.report.words import plural, text_or_hex
from hopwire.routing import is_actor, is_hub
from hopwire.security import Domains
from hopwire.wire.extension import Extension, extension_of, with_extension

__all__ = ["Address", "Hub", "Options", "Receipt", "StreamOptions", "TellOptions", "check_seconds"]

R = TypeVar("R", bound=Payload)
S = TypeVar("S", bound=Payload)
Key: TypeAlias = tuple[bytes, Version, bytes]  # identity, version and partition
FOR_GOOD = frozenset(("expired", "cannot_carry", "cannot_sign", "bad_value"))  # no other attempt ends better
LOOK_SECONDS = 0.1  # between two looks at a message that waits in our own queue
LONGEST_RETRY_SECONDS = 2.0  # between two attempts without a receipt, unless a round trip takes longer
ASK_AGAIN_SECONDS, LONGEST_ASK_SECONDS = 1.0, 10.0  # after a receipt, until the answer is asked for again
MOST_DOUBLINGS = 10  # of a pause
JITTER = 0.5  # the part of a pause that chance may add, or all who lost a message at once would send again at once
HELD = 1.5  # pauses that took so many times as long as they should count for nothing
TRACE_ONLY = Extension(trace_only=True)
SHORTEST_SECONDS = 1e-6  # less than it takes to say anything
LONGEST_SECONDS = 10**9  # what the ticks of a time to live can say, and more than anybody waits
ERRORS: Mapping[str, type[DeliveryError]] = {
    "expired": Expired,
    "unreachable": Unreachable,
    "closed": Unreachable,
    "not_met": Unreachable,
    "queue_full": QueueFull,
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where one receiver lives: a node, and an actor or hub on it, or any that fits."""

    node: bytes
    receiver: bytes = b""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message has arrived; this says on which node."""

    node: bytes


class Options(TypedDict, total=False):
    """What can be said of a question."""

    timeout: float  # seconds; also the time to live of the message
    to: Address | None  # one node, or one actor on it, instead of any
    partition: bytes
    correlation_id: bytes  # of the flow that it belongs to; a new one otherwise
    trace: bool  # whether the routers on the way write themselves down
    at_least_once: bool


class StreamOptions(TypedDict, total=False):
    """What can be said of a question that many answers come to."""

    timeout: float  # seconds, for the whole stream; also the time to live of its messages
    to: Address | None
    partition: bytes
    correlation_id: bytes
    trace: bool


class TellOptions(TypedDict, total=False):
    """What can be said of a message that nothing is waited for."""

    ttl: float | None  # seconds
    to: Address | None
    partition: bytes
    correlation_id: bytes
    trace: bool


class _Expected(NamedTuple):
    """What may come as an answer."""

    types: Mapping[Key, type[Payload]]
    points: tuple[CallbackPoint, ...]


NOTHING = _Expected({}, ())
Towards: TypeAlias = tuple[
    Address | None, bytes, bytes, bool
]  # to whom, partition, correlation id, whether it is traced


def _expected(reply: type[Payload] | tuple[type[Payload], ...], partition: bytes) -> _Expected:
    if isinstance(reply, type):
        return _expected_of((reply,), partition)
    replies = reply
    if type(replies) is not tuple or not replies or not all(isinstance(each, type) for each in replies):
        raise SettingsError(f"reply is a payload class, or a tuple of several, found {reply!r:.80}")
    return _expected_of(replies, partition)


@lru_cache(maxsize=1024)  # the same few questions are asked again and again
def _expected_of(replies: tuple[type[Payload], ...], partition: bytes) -> _Expected:
    types: dict[Key, type[Payload]] = {contract_of(each, partition): each for each in replies}
    return _Expected(types, tuple(CallbackPoint(*contract) for contract in types))


class _Promise(msgspec.Struct):
    """Somebody waits for an answer."""

    future: asyncio.Future[Any]
    expected: Mapping[Key, type[Payload]]  # nothing: only a receipt is waited for
    question: Message
    sent_to: tuple[bytes, ...] = ()
    is_insisted: bool = False  # whether the message is sent until the promise is kept
    news: asyncio.Future[None] | None = None  # done when a receipt came, or the message is lost, since the last attempt
    taken_by: bytes = b""  # the node that the receipt came from
    attempts: int = 0  # of a message that is sent until the promise is kept
    parts: StreamParts | None = None  # of a stream; the future is done when the stream has ended
    last: str = ""  # what was heard of it and did not end the promise


class Queues(Protocol):
    """What waits here for other nodes."""

    def mark(self, node: bytes) -> int:
        """Give the number of the last message that waits here for a node, or 0 where none does."""

    def is_queued(self, node: bytes, mark: int) -> bool:
        """Tell whether a message up to that mark still waits here for a node: it has not even left."""


class Hub:
    """Sends messages and receives answers; made by `Node.hub()`."""

    def __init__(
        self,
        identity: bytes,
        router: Router,
        outgoing: Queues,
        retries: Retries,
        new_id: Callable[[], bytes],
        new_key: Callable[[], int],
        max_body_bytes: int,
        domains: Domains,
        on_close: Callable[[Hub], None],
        longest_wait: float = math.inf,
    ) -> None:
        self.identity = identity
        self._node, self._router, self._outgoing, self._timing = router.here, router, outgoing, router.timing
        self._retries, self._new_id, self._new_key = retries, new_id, new_key
        self._max_body_bytes, self._domains, self._on_close = max_body_bytes, domains, on_close
        self._longest_wait = longest_wait  # seconds for room; a handler that waited for ever could wait for itself
        self._promises: dict[int, _Promise] = {}
        self._deadlines = Deadlines(self._time_out)
        self._is_closed = False

    @property
    def open_promises(self) -> int:
        """How many answers are waited for."""
        return len(self._promises)

    @overload
    async def ask(self, payload: Payload, reply: type[R], **options: Unpack[Options]) -> R: ...
    @overload
    async def ask(self, payload: Payload, reply: tuple[type[R], type[S]], **options: Unpack[Options]) -> R | S: ...
    @overload
    async def ask(self, payload: Payload, reply: tuple[type[R], ...], **options: Unpack[Options]) -> R: ...
    async def ask(
        self,
        payload: Payload,
        reply: type[Payload] | tuple[type[Payload], ...],
        *,
        timeout: float = 30.0,
        to: Address | None = None,
        partition: bytes = b"",
        correlation_id: bytes = b"",
        trace: bool = False,
        at_least_once: bool = False,
    ) -> Payload:
        """Send a message and wait for the answer, which is of the type that is named, or of one of several."""
        towards = (to, partition, correlation_id, trace)
        _check_towards(towards)
        expected = _expected(reply, partition)
        answer: Payload = await self._promised(payload, expected, timeout, at_least_once, towards)
        return answer

    @overload
    def stream(self, payload: Payload, part: type[R], **options: Unpack[StreamOptions]) -> AsyncGenerator[R, None]: ...
    @overload
    def stream(
        self, payload: Payload, part: tuple[type[R], type[S]], **options: Unpack[StreamOptions]
    ) -> AsyncGenerator[R | S, None]: ...
    @overload
    def stream(
        self, payload: Payload, part: tuple[type[R], ...], **options: Unpack[StreamOptions]
    ) -> AsyncGenerator[R, None]: ...
    def stream(
        self,
        payload: Payload,
        part: type[Payload] | tuple[type[Payload], ...],
        *,
        timeout: float = 30.0,
        to: Address | None = None,
        partition: bytes = b"",
        correlation_id: bytes = b"",
        trace: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Ask a question that many answers come to, and give them one by one: `async for part in hub.stream(...)`.

        The question is sent when the first part is waited for. Whoever leaves the loop closes the handler too.
        """
        towards = (to, partition, correlation_id, trace)
        _check_towards(towards)
        check_seconds("timeout", timeout)
        expected = _expected(part, partition)
        if contract_of(payload, partition) in expected.types:
            raise _own_answer(payload)
        return self._streamed(payload, expected, timeout, towards)

    async def send(
        self,
        payload: Payload,
        *,
        timeout: float = 30.0,
        to: Address | None = None,
        partition: bytes = b"",
        correlation_id: bytes = b"",
        trace: bool = False,
        at_least_once: bool = False,
    ) -> Receipt:
        """Send a message and wait until a node has taken it, which may be this one."""
        towards = (to, partition, correlation_id, trace)
        _check_towards(towards)
        receipt: Receipt = await self._promised(payload, NOTHING, timeout, at_least_once, towards)
        return receipt

    async def tell(
        self,
        payload: Payload,
        *,
        ttl: float | None = None,
        to: Address | None = None,
        partition: bytes = b"",
        correlation_id: bytes = b"",
        trace: bool = False,
    ) -> None:
        """Send a message and wait for nothing but room."""
        await self._pass_on(payload, ttl, (to, partition, correlation_id, trace))

    async def broadcast(
        self,
        payload: Payload,
        *,
        ttl: float | None = None,
        partition: bytes = b"",
        correlation_id: bytes = b"",
        trace: bool = False,
    ) -> None:
        """Send a message to every actor that handles it, here and on every node."""
        await self._pass_on(payload, ttl, (None, partition, correlation_id, trace), Distribution.BROADCAST)

    async def trace(
        self, payload: Payload, *, timeout: float = 5.0, to: Address | None = None, partition: bytes = b""
    ) -> Way:
        """Find out which way a message would take, and who would get it, without delivering it."""
        towards = (to, partition, b"", True)
        _check_towards(towards)
        way: Way = await self._promised(payload, _expected(Way, b""), timeout, False, towards, is_trace=True)
        return way

    # -- sending

    def _message(
        self,
        payload: Payload,
        towards: Towards,
        ttl_ticks: int,
        points: tuple[CallbackPoint, ...] = (),
        key: int = 0,
        distribution: int = 0,
    ) -> Message:
        if self._is_closed:
            raise Closed("the hub is closed")
        if get_ident() != self._timing.thread:
            raise _wrong_thread(self._timing.thread)
        to, partition, correlation_id, trace = towards
        contract, body = contract_of(payload, partition), body_from_payload(payload)
        if len(body) > self._max_body_bytes:
            name, limit = type(payload).__name__, self._max_body_bytes
            raise PayloadError(f"{name} has {len(body)} bytes, the limit is {limit}: no node would read it")
        if self._domains.signing:
            self._domains.domain_of(contract.identity)  # or nobody would believe it
        return Message(
            identity=contract.identity,
            version=contract.version,
            partition=partition,
            body_frames=(body,),
            correlation_id=correlation_id or self._new_id(),
            receiver_identity=to.receiver if to else b"",
            receiver_node_identity=to.node if to else b"",
            callback_points=points,
            callback_key=key,
            callback_receiver_identity=self.identity if key else b"",
            callback_receiver_node_identity=self._node if key else b"",
            trace_options=ROUTING if trace else 0,
            distribution=distribution,
            ttl_ticks=ttl_ticks,
        )

    async def _pass_on(
        self, payload: Payload, ttl: float | None, towards: Towards, distribution: Distribution = Distribution.UNICAST
    ) -> None:
        _check_towards(towards)
        ttl_ticks, deadline = 0, 0.0
        if ttl is not None:
            check_seconds("ttl", ttl)
            ttl_ticks, deadline = ticks_from_seconds(ttl), self._timing.clock() + ttl
        if self._timing.hub_share.is_full():
            await self._timing.hub_share.turn()
        message = self._message(payload, towards, ttl_ticks, distribution=int(distribution))
        await self._submit(Envelope(message, deadline, may_wait=True))

    async def _submit(self, envelope: Envelope, avoid: tuple[bytes, ...] = ()) -> tuple[bytes, ...]:
        """Hand a message to the router, and wait for room where there is none."""
        nodes, full = self._router.say(envelope, avoid)
        if full:
            await self._wait_for(full, envelope)
        return nodes

    async def _wait_for(self, full: Iterable[Room], envelope: Envelope) -> None:
        until = min(envelope.deadline or math.inf, self._timing.clock() + self._longest_wait)
        for put in full:
            try:
                async with asyncio.timeout_at(until if until < math.inf else None):
                    reason = await put(envelope)
            except TimeoutError:
                is_over = until == envelope.deadline
                reason, detail = ("expired", "in time") if is_over else ("queue_full", f"for {self._longest_wait:g} s")
                self._router.give_up(envelope, reason, f"there was no room for it {detail}")
                if not is_over and not envelope.message.callback_key:  # nobody else would be told
                    contract = words_of(envelope.message.contract)
                    raise QueueFull("queue_full", f"{contract}: there was no room for it {detail}", contract) from None
                continue
            if reason:
                self._router.give_up(envelope, reason)

    async def _promised(
        self,
        payload: Payload,
        expected: _Expected,
        timeout: float,
        at_least_once: bool,
        towards: Towards,
        is_trace: bool = False,
    ) -> Any:
        check_seconds("timeout", timeout)
        if self._timing.hub_share.is_full():
            await self._timing.hub_share.turn()
        while (key := self._new_key()) in self._promises:
            pass
        points = (*expected.points, RECEIPT) if at_least_once or not expected.types else expected.points
        message = self._message(payload, towards, ticks_from_seconds(timeout), points, key)
        if (message.identity, message.version, message.partition) in expected.types:
            raise _own_answer(payload)
        now = self._timing.clock()
        promise = _Promise(self._timing.loop.create_future(), expected.types, message)
        ending = self._deadlines.add(key, now, timeout)
        self._promises[key] = promise
        envelope = Envelope(message, now + timeout, b"", True)
        try:
            if at_least_once:
                return await self._insist(promise, envelope)
            if is_trace:
                envelope.message = with_extension(message, TRACE_ONLY)
                self._router.trace(envelope)
                return await promise.future
            promise.sent_to, full = self._router.say(envelope)
            if full:
                await self._wait_for(full, envelope)
            return await promise.future
        finally:
            ending.pop(key, None)
            del self._promises[key]

    async def _streamed(
        self, payload: Payload, expected: _Expected, timeout: float, towards: Towards
    ) -> AsyncGenerator[Payload, None]:
        if self._timing.share.is_full():
            await self._timing.share.turn()
        while (key := self._new_key()) in self._promises:
            pass
        message = self._message(payload, towards, ticks_from_seconds(timeout), (*expected.points, STREAM), key)
        message = with_extension(message, Extension(message_id=self._new_id()))  # a copy makes no second stream
        now, parts = self._timing.clock(), StreamParts()
        promise = _Promise(self._timing.loop.create_future(), expected.types, message, parts=parts)
        promise.future.add_done_callback(lambda _: parts.wake())
        ending = self._deadlines.add(key, now, timeout)
        self._promises[key] = promise
        word: Payload = Demand(NO_MORE)
        try:
            promise.sent_to, full = self._router.say(envelope := Envelope(message, now + timeout, b"", True))
            if full:
                await self._wait_for(full, envelope)
            while parts or not promise.future.done():
                if parts:
                    part, demand = parts.pop(), parts.demand()
                    if demand is not None and not promise.future.done():
                        self._say_to_producer(promise, demand)
                    yield part
                else:
                    await parts.news()
            promise.future.result()
        except GeneratorExit:  # whoever asked has left the loop
            word = Enough(parts.taken)
            raise
        finally:
            ending.pop(key, None)
            del self._promises[key]
            if not _has_ended(promise):
                self._say_to_producer(promise, word)

    def _say_to_producer(self, promise: _Promise, word: Payload) -> None:
        """Say something to the node that makes a stream, or to the node that has the question."""
        for node in (promise.taken_by,) if promise.taken_by else promise.sent_to or (self._node,):
            self._say_to_feeds(node, _word_on(promise.question, node, word))

    def _say_to_feeds(self, node: bytes, word: Message) -> None:
        if node == self._node:
            self._router.is_home(word)
        elif self._router.is_known(node):
            self._router.route(Envelope(word))

    async def _insist(self, promise: _Promise, envelope: Envelope) -> Any:
        """Send until the promise is kept, or no time is left; without a receipt each attempt takes another route."""
        message_id, timing = self._new_id(), self._timing
        promise.is_insisted = True
        self._retries.first()
        while not promise.future.done():
            message, avoid = envelope.message, promise.sent_to
            if promise.taken_by and not message.receiver_node_identity:
                message, avoid = message.replace(receiver_node_identity=promise.taken_by), ()
            extension = Extension(message_id=message_id, attempt=promise.attempts)
            promise.attempts += 1
            promise.news = timing.loop.create_future()
            began = timing.clock()
            again = Envelope(with_extension(message, extension), envelope.deadline, may_wait=True)
            promise.sent_to = await self._submit(again, avoid=avoid)
            await self._until_due(promise, began)
        return await promise.future

    async def _until_due(self, promise: _Promise, began: float) -> None:
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
            await self._for_receipt(promise)
            if promise.taken_by and promise.attempts == 1:
                self._retries.measured(promise.taken_by, timing.clock() - began)
        if promise.taken_by and not promise.future.done():
            await self._for_answer(promise)

    async def _for_receipt(self, promise: _Promise) -> None:
        """Wait for a receipt until it is late, and resends are left; a pause in which the loop was held is repeated."""
        timing, retries = self._timing, self._retries
        pause = retries.late_after(promise.sent_to)
        pause *= min(_doubled(promise), max(1.0, LONGEST_RETRY_SECONDS / pause))
        pause *= 1 + JITTER * timing.chance()
        began = timing.clock()
        while not await self._has_news(promise, pause):
            was_held = timing.clock() - began > HELD * pause  # a receipt may have come and not been read
            if (not was_held or pause >= LONGEST_RETRY_SECONDS) and retries.may_send(timing.clock()):
                return
            pause, began = min(2 * pause, max(pause, LONGEST_RETRY_SECONDS)), timing.clock()

    async def _for_answer(self, promise: _Promise) -> None:
        """Wait for the answer of a node that has the question; what this node itself has cannot get lost."""
        promise.news = self._timing.loop.create_future()
        pause = min(ASK_AGAIN_SECONDS * _doubled(promise), LONGEST_ASK_SECONDS)
        while promise.taken_by == self._node and not await self._has_news(promise, LONGEST_ASK_SECONDS):
            pass
        if promise.taken_by and not _is_over(promise):
            await self._has_news(promise, pause * (1 + JITTER * self._timing.chance()))

    async def _has_news(self, promise: _Promise, seconds: float) -> bool:
        assert promise.news is not None
        ends = (promise.future, promise.news)
        done, _ = await asyncio.wait(ends, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)

    # -- receiving

    def take(self, message: Message) -> None:
        """Take a message that was sent to this hub: an answer, or what became of a question."""
        promise = self._promises.get(message.callback_key)
        if promise is None or promise.future.done():
            self._router.dead.add(DeadLetter("nobody_waits", "", message))
            if message.extensions:
                self._stop_producer(message)
            return
        if message.correlation_id != promise.question.correlation_id:
            self._router.dead.add(DeadLetter("wrong_flow", "", message))
            return
        try:
            key = (message.identity, message.version, message.partition)
            if promise.parts is not None and (key in promise.expected or key == OUTCOME):
                self._take_part(promise, promise.parts, message)
            elif key in promise.expected:
                promise.future.set_result(payload_from_body(promise.expected[key], message.body))
            elif key == OUTCOME:
                self._take_outcome(promise, payload_from_body(Outcome, message.body))
            else:
                self._router.dead.add(DeadLetter("unexpected_answer", "", message))
        except (PayloadError, WireError, ValueError) as error:  # an answer or an outcome that makes no sense
            self._router.dead.add(DeadLetter("bad_payload", str(error), message))
            contract = words_of(message.contract)
            asked = words_of(promise.question.contract)
            text = f"{asked} was answered with {contract}, and its body makes no sense: {error}"
            node = message.socket_identity
            promise.future.set_exception(UnexpectedAnswer("bad_payload", text, contract, node))

    def take_answer(self, cause: Message, contract: Contract, payload: Payload) -> bool:
        """Take an answer from an actor of this node; False where nobody waits for it, or not for this."""
        promise = self._promises.get(cause.callback_key)
        expected = None if promise is None else promise.expected.get(contract)
        if promise is None or expected is None or promise.future.done() or promise.parts is not None:
            return False
        if cause.correlation_id != promise.question.correlation_id:
            return False
        promise.future.set_result(payload_from_body(expected, body_from_payload(payload)))  # a copy, as from elsewhere
        return True

    def _take_part(self, promise: _Promise, parts: StreamParts, message: Message) -> None:
        """Take a part of a stream, or what ends the stream."""
        item = _item(promise, message)
        if item is None:
            return
        number, node = extension_of(message).part, message.socket_identity or self._node
        if number:
            promise.taken_by = node
            reason = parts.put(number, item, sum(map(len, message.body_frames)))
            if reason:
                self._router.dead.add(DeadLetter(reason, f"part {number}", message))
            ending = parts.settle()
            if reason == "queue_full":
                text = f"{words_of(promise.question.contract)}: more parts came than were asked for"
                ending = Ending(QueueFull(reason, text, words_of(message.contract), node))
        elif isinstance(item, Ending):
            ending = item
        else:
            parts.add(item)
            text = f"{words_of(promise.question.contract)} was answered by a node that does not number its answers"
            ending = Ending(UnexpectedAnswer("no_stream", text, words_of(message.contract), node))
        if ending is None:
            parts.wake()
        elif ending.error is None:
            promise.future.set_result(None)
        else:
            promise.future.set_exception(ending.error)

    def _stop_producer(self, message: Message) -> None:
        """A part came that nobody waits for: whoever makes it is told, or would go on as long as there is time."""
        node = message.socket_identity or self._node
        number = extension_of(message).part
        if number and message.identity != names.OUTCOME:
            self._say_to_feeds(node, _word_on(message, node, Demand(NO_MORE, number)))

    def _take_outcome(self, promise: _Promise, outcome: Outcome) -> None:
        if outcome.kind == "received":
            node = bytes.fromhex(outcome.detail)
            if node != promise.taken_by:  # a receipt for a copy says nothing new, and must not bring the next copy
                promise.taken_by = node
                _tell_news(promise)
            if not promise.expected:
                promise.future.set_result(Receipt(node))
            promise.last = "received"
            return
        is_last_word, error = _judged(promise, outcome)
        if is_last_word:
            promise.future.set_exception(error)
        elif promise.taken_by and outcome.kind == "undelivered":  # who had it has it no longer
            promise.taken_by = b""
        promise.last = outcome.reason

    def _time_out(self, key: int) -> None:
        promise = self._promises.get(key)
        if promise is not None and not promise.future.done():
            promise.future.set_exception(_timeout(promise))

    def lose_node(self, node: bytes, reason: str) -> None:
        """A node is gone: what it had and did not answer is lost, or sent again at once where that was asked for."""
        for promise in self._promises.values():
            had = (promise.taken_by,) if promise.taken_by else promise.sent_to
            if node not in had or promise.future.done():
                continue
            if promise.is_insisted:
                promise.taken_by, promise.last = b"", "unreachable"
                _tell_news(promise)
                continue
            contract = words_of(promise.question.contract)
            detail = f"{contract} at {text_or_hex(node)}: the node is gone: {reason}"
            promise.future.set_exception(Unreachable("unreachable", detail, contract, node))

    def close(self) -> None:
        """Take no more; everything that is waited for ends."""
        if self._is_closed:
            return
        self._is_closed = True
        for promise in self._promises.values():
            if not promise.future.done():
                promise.future.set_exception(Closed("the hub was closed"))
        self._on_close(self)


def _item(promise: _Promise, message: Message) -> Payload | Ending | None:
    """Give what a message brings to a stream: a part, the end, or nothing."""
    expected = promise.expected.get((message.identity, message.version, message.partition))
    if expected is not None:
        return payload_from_body(expected, message.body)
    outcome = payload_from_body(Outcome, message.body)
    if outcome.kind == "received":
        return None
    return Ending(None if outcome.kind == "ended" else _judged(promise, outcome)[1])


def _has_ended(promise: _Promise) -> bool:
    """Tell whether the producer of a stream knows that nobody takes more, since the end came from there."""
    if not promise.future.done() or promise.future.cancelled():
        return False
    error = promise.future.exception()
    return error is None or isinstance(error, HandlerFailed | Unreachable | NoRoute)


def _word_on(stream: Message, node: bytes, word: Payload) -> Message:
    """Give the message that says something about a stream to the node that makes it."""
    contract = contract_of(word)
    return Message(
        identity=contract.identity,
        version=contract.version,
        body_frames=(body_from_payload(word),),
        correlation_id=stream.correlation_id,
        receiver_identity=names.FEEDS,
        receiver_node_identity=node,
        callback_key=stream.callback_key,
        callback_receiver_identity=stream.callback_receiver_identity,
        callback_receiver_node_identity=stream.callback_receiver_node_identity,
    )


def _tell_news(promise: _Promise) -> None:
    if promise.news is not None and not promise.news.done():
        promise.news.set_result(None)


def _doubled(promise: _Promise) -> int:
    """Give 1, 2, 4 ... for the first, second, third attempt."""
    return 1 << min(promise.attempts - 1, MOST_DOUBLINGS)


def _is_over(promise: _Promise) -> bool:
    """Tell whether nothing is waited for any more after the last attempt."""
    return promise.future.done() or (promise.news is not None and promise.news.done())


def _judged(promise: _Promise, outcome: Outcome) -> tuple[bool, DeliveryError]:
    """Give the error that an outcome is, and whether a promise ends with it."""
    reason, detail = outcome.reason, outcome.detail
    facts = (outcome.contract, outcome.node)
    asked = words_of(promise.question.contract)
    is_further_on = outcome.contract not in ("", asked)
    expected = " or ".join(words_of(Contract(*each)) for each in promise.expected)
    if outcome.kind == "failed" and reason != NO_ANSWER:
        return True, HandlerFailed(reason, detail, *facts)
    if outcome.kind == "failed":
        text = f"{asked} was handled by {detail}, which returned nothing, expected {expected}"
        return not is_further_on and promise.attempts < 2, UnexpectedAnswer(NO_ANSWER, text, *facts)
    if reason == "no_route" and is_further_on:
        text = f"{asked} was answered with {outcome.contract}, which nobody takes, expected {expected}"
        return promise.attempts < 2, UnexpectedAnswer("unexpected_answer", text, *facts)
    where = f"{outcome.contract or asked} at {text_or_hex(outcome.node)}" if outcome.node else asked
    error = ERRORS.get(reason, NoRoute)(reason, f"{where}: {detail}" if detail else where, *facts)
    return not promise.is_insisted or reason in FOR_GOOD, error


def _timeout(promise: _Promise) -> Timeout:
    asked, seconds = words_of(promise.question.contract), seconds_from_ticks(promise.question.ttl_ticks)
    text = f"no {'answer to' if promise.expected else 'receipt for'} {asked} in {seconds:g} s"
    if promise.parts is not None:
        missing = promise.parts.missing()
        lost = f"; part {missing} is missing" if missing else ""
        return Timeout("timed_out", f"no end of the answers to {asked} in {seconds:g} s{lost}", asked)
    if promise.last or promise.attempts > 1:
        text += f"; last: {promise.last or 'nothing heard'} ({plural(max(1, promise.attempts), 'attempt')})"
    return Timeout("timed_out", text, asked)


def _own_answer(payload: Payload) -> SettingsError:
    name = type(payload).__name__
    return SettingsError(
        f"{name} is asked for as the answer to {name}: it would come straight home; give the answer a type of its own"
    )


def _wrong_thread(thread: int) -> Exception:
    if not thread:
        return Closed("the node is not started")
    return SettingsError("a hub is used on the event loop of its node; for other threads there is hopwire.sync")


def check_seconds(name: str, seconds: float) -> None:
    """Refuse a time that is none."""
    if not isinstance(seconds, (int, float)) or not SHORTEST_SECONDS <= seconds < LONGEST_SECONDS:
        raise SettingsError(f"{name} must be more than 0 seconds, found {seconds!r:.80}")


def _check_towards(towards: Towards) -> None:
    to, partition, correlation_id, _ = towards
    if type(partition) is not bytes:
        raise SettingsError(f"partition must be bytes, found {partition!r:.80}")
    if type(correlation_id) is not bytes:
        raise SettingsError(f"correlation_id must be bytes, found {correlation_id!r:.80}")
    if to is not None and not _is_address(to):
        raise SettingsError(f"to must be an Address, as Node.host() gives it, found {to!r:.80}")


def _is_address(to: object) -> bool:
    if not isinstance(to, Address) or not isinstance(to.node, bytes) or not isinstance(to.receiver, bytes):
        return False
    return is_hub(to.receiver) or is_actor(to.receiver) or (not to.receiver and bool(to.node))
