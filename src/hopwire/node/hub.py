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

import math
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from functools import partial
from itertools import chain, starmap
from threading import get_ident
from typing import Any, Protocol, TypeVar, Unpack, overload

from msgspec.structs import replace

from hopwire.cluster.events import LOST
from hopwire.errors import (
    Closed,
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
    body_from_payload,
    contract_of,
    names,
    payload_from_body,
)
from hopwire.model.choice import TURNS, Choice, choice_of
from hopwire.model.outcome import Outcome
from hopwire.model.payload import Weigh, rule_of, weigher_of
from hopwire.node.calls import (
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    Address,
    Options,
    Receipt,
    StreamOptions,
    Towards,
    check_seconds,
    check_towards,
)
from hopwire.node.credit import CreditLine
from hopwire.node.dead import DeadLetter
from hopwire.node.deadlines import Deadlines, Group, UntilDone, Within
from hopwire.node.demand import NO_MORE, Demand, Enough
from hopwire.node.envelope import HEADER_BYTES, Envelope
from hopwire.node.express import KnownMessage
from hopwire.node.insistence import Insistence, Queues
from hopwire.node.latencies import EVERY_SECONDS, Latencies
from hopwire.node.loads import Loads
from hopwire.node.parts import Ending, StreamParts
from hopwire.node.promise import (
    NOTHING,
    Expected,
    Promise,
    expected_of,
    has_ended,
    is_kept,
    judged,
    own_answer,
    tell_news,
    timeout_of,
)
from hopwire.node.retries import Retries
from hopwire.node.router import Outlet, Room, Router
from hopwire.node.share import in_slices
from hopwire.node.spawn import (
    OUTCOME,
    RECEIPT,
    ROUTING,
    STREAM,
    Way,
    ticks_from_seconds,
    words_of,
)
from hopwire.node.waiters import Waiter
from hopwire.security import Domains
from hopwire.wire.extension import Extension, extension_of, with_extension

__all__ = ["Hub"]

R = TypeVar("R", bound=Payload)
S = TypeVar("S", bound=Payload)
NOWHERE = ("no_route", "unreachable", "unknown_node")  # what a new route may change
TRACE_ONLY = Extension(trace_only=True)
NOT_TAKEN = "nobody could take it in time"  # there was no room, or no route
LONGEST_TURN_SECONDS = 60.0  # that somebody who only tells waits for a turn
MOST_QUESTIONS = 1024  # kinds of questions that are remembered


class Exit(Queues, Outlet, Protocol):
    """The way to other nodes, and what waits on it."""

    def park(self, node: bytes, what: bytes, line: CreditLine, waiter: Waiter) -> None:
        """Let somebody wait for credit behind those who came before, who does at once what is to be done with it."""

    def address(self, node: bytes) -> str:
        """Give the address of a node that can be talked to; nothing of any other."""


class _Question:
    """A question that is asked again and again."""

    __slots__ = ("is_here", "known", "points", "reply", "types", "weigh")

    def __init__(self, known: KnownMessage, reply: type[Payload], expected: Expected, weigh: Weigh | None) -> None:
        self.known, self.reply, self.weigh = known, reply, weigh
        self.types, self.points = expected
        self.is_here = False  # whether one actor of this node alone took the last of them, as it was


class _LeftLine(Exception):
    """A question could not be sent when its turn had come."""


class _InLine:
    """A question in the line of those who wait for credit; when its turn comes, it is sent at once."""

    __slots__ = ("_line", "_promise", "_send")

    def __init__(self, promise: Promise, line: CreditLine, send: Callable[[], bool]) -> None:
        self._promise, self._line, self._send = promise, line, send

    def done(self) -> bool:
        return not self._promise.is_in_line or self._promise.future.done()

    def set_result(self, is_called_away: bool | None) -> None:
        waiters = self._line.waiters
        if is_called_away:
            waiters.pop(self, None)
            self._promise.future.set_exception(_LeftLine())
            return
        waiters.called -= 1
        if not self._line.has_room:  # whoever gave up has woken the next, and there is no room yet
            waiters.return_to_front(self)
        elif not self._send() and not self._promise.future.done():
            self._promise.future.set_exception(_LeftLine())


class Hub:
    """Sends messages and receives answers; made by `Node.hub()`."""

    def __init__(
        self,
        identity: bytes,
        router: Router,
        outgoing: Exit,
        retries: Retries,
        new_id: Callable[[], bytes],
        new_key: Callable[[], int],
        max_body_bytes: int,
        domains: Domains,
        on_close: Callable[[Hub], None],
        loads: Loads,
        longest_wait: float = math.inf,
        latencies: Latencies | None = None,
        on_told: Callable[[Message, str, str], None] | None = None,
    ) -> None:
        self.identity = identity
        self._node, self._router, self._timing = router.here, router, router.timing
        self._new_id, self._new_key, self._outgoing = new_id, new_key, outgoing
        self._candidates, self._keep = router.candidates, router.timing.waking.set_result
        self._send_known, self._credit_line = outgoing.send_known, outgoing.credit_line
        self._loads = loads
        self._insistence = Insistence(router.here, self._submit_copy, outgoing, retries, router.timing, new_id, loads)
        self._max_body_bytes, self._domains, self._on_close = max_body_bytes, domains, on_close
        self._longest_wait = longest_wait  # seconds for room; a handler that waited for ever could wait for itself
        self._promises: dict[int, Promise] = {}
        self._stranded: dict[int, Promise] = {}  # those of them that insist, and that a new route may help
        self._questions: dict[tuple[type[Payload], type[Payload]], _Question] = {}  # that were asked before
        self._latest: dict[type[Payload], _Question] = {}  # of each kind: found without a pair
        self._timeout, self._ticks = 0.0, 0  # of the last question: most have the same
        self._timeout_type: type = float
        self._deadlines = Deadlines(self._time_out)
        # of questions to an actor here: their deadlines, timeout and ticks, and until when nothing else is due
        self._usual: tuple[Group[int], float, int, float] = ({}, 0.0, 0, 0.0)
        self._waits = Deadlines(Within.end)  # of those who wait for room
        self._is_closed = self.is_ending = False  # whether some of those who waited have not ended yet
        self._on_told = on_told  # hears how a promise ended that no answer on the wire has ended, and the text of it
        self._latencies = latencies
        self._measure_at = (
            math.inf if latencies is None else 0.0
        )  # the time from which on the next question is measured

    def use(self, domains: Domains) -> None:
        """Speak for these domains from now on."""
        self._domains = domains

    @property
    def open_promises(self) -> int:
        """How many answers are waited for."""
        return len(self._promises)

    # fmt: off
    @overload
    def ask(self, payload: Payload, reply: type[R], **options: Unpack[Options]) -> Coroutine[Any, Any, R]: ...
    @overload
    def ask(self, payload: Payload, reply: tuple[type[R], type[S]],
            **options: Unpack[Options]) -> Coroutine[Any, Any, R | S]: ...
    @overload
    def ask(self, payload: Payload, reply: tuple[type[R], ...],
            **options: Unpack[Options]) -> Coroutine[Any, Any, R]: ...
    # fmt: on
    def ask(
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
    ) -> Coroutine[Any, Any, Any]:
        """Send a message and wait for the answer, which is of the type that is named, or of one of several."""
        if to is None and partition == b"" and trace is False and not at_least_once:
            question = self._latest.get(type(payload))
            if question is None or question.reply is not reply:
                question = self._question_of(type(payload), reply)
            if question is not None:
                ask_known = self._ask_here if question.is_here else self._ask_known
                return ask_known(question, payload, timeout, correlation_id)
        return self._ask(payload, reply, timeout, at_least_once, (to, partition, correlation_id, trace))

    def _question_of(self, kind: type[Payload], reply: object) -> _Question | None:
        """Give a question that was asked before; None if it was not."""
        question = self._questions.get((kind, reply)) if isinstance(reply, type) else None
        if question is not None:
            self._latest[kind] = question
        return question

    async def _ask(
        self,
        payload: Payload,
        reply: type[Payload] | tuple[type[Payload], ...],
        timeout: float,
        at_least_once: bool,
        towards: Towards,
    ) -> Any:
        check_towards(towards)
        expected = expected_of(reply, towards[1])
        answer = await self._promised(payload, expected, timeout, at_least_once, towards)
        if isinstance(reply, type):
            self._learn(type(payload), reply)
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
        check_towards(towards)
        check_seconds("timeout", timeout)
        expected = expected_of(part, partition)
        if contract_of(payload, partition) in expected.types:
            raise own_answer(payload)
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
        check_towards(towards)
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
        check_towards(towards)
        way: Way = await self._promised(payload, expected_of(Way, b""), timeout, False, towards, is_trace=True)
        rule = rule_of(payload)
        return way if to else replace(way, choose=rule.choose.value, key=rule.words())

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
        return self._written(payload, towards, ttl_ticks, points, key, distribution)

    def _written(
        self,
        payload: Payload,
        towards: Towards,
        ttl_ticks: int,
        points: tuple[CallbackPoint, ...],
        key: int,
        distribution: int = 0,
    ) -> Message:
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

    def _choice(self, payload: Payload, message: Message, towards: Towards) -> Choice | None:
        """Give how the actor of a message is chosen; None where actors take turns, or somebody is named."""
        rule = rule_of(payload)
        if rule is TURNS or towards[0] is not None or message.distribution:
            return None
        return choice_of(rule, payload, message, self.identity)

    async def _turn(self, payload: Payload, now: float, timeout: float) -> None:
        """Wait for a turn of the loop, behind those who came before with the same contract; the time counts."""
        try:
            async with Within(self._waits, now, timeout):
                await self._timing.hub_share.turn((self.identity, type(payload)))
        except TimeoutError:
            if self._is_closed:
                raise Closed("the hub was closed") from None
            asked = words_of(contract_of(payload))
            raise Timeout("timed_out", f"{asked} did not leave in {timeout:g} s: too much is said", asked) from None

    async def _turn_to_ask(
        self, payload: Payload, points: tuple[CallbackPoint, ...], now: float, timeout: float, towards: Towards
    ) -> None:
        """Wait for a turn to ask; the capture hears of a question that ends before its turn has come."""
        try:
            await self._turn(payload, now, timeout)
        except BaseException as error:
            if self._on_told is not None:
                question = self._written(payload, towards, ticks_from_seconds(timeout), points, self._new_key())
                self._tell_end(question, error)
            raise

    async def _pass_on(
        self, payload: Payload, ttl: float | None, towards: Towards, distribution: Distribution = Distribution.UNICAST
    ) -> None:
        check_towards(towards)
        ttl_ticks, deadline, now = 0, 0.0, self._timing.clock()
        if ttl is not None:
            check_seconds("ttl", ttl)
            ttl_ticks, deadline = ticks_from_seconds(ttl), now + ttl
        if self._timing.hub_share.is_full():
            await self._turn(payload, now, LONGEST_TURN_SECONDS)
        message = self._message(payload, towards, ttl_ticks, distribution=int(distribution))
        choice = self._choice(payload, message, towards)
        await self._submit(Envelope(message, deadline, may_wait=True, choice=choice))

    async def _submit(self, envelope: Envelope, avoid: tuple[bytes, ...] = ()) -> tuple[bytes, ...]:
        """Hand a message to the router, and wait for room where there is none."""
        nodes, full = self._router.say(envelope, avoid)
        if full:
            await self._wait_for(full, envelope)
        return self._sent_to(envelope, nodes)

    async def _submit_copy(self, envelope: Envelope, avoid: tuple[bytes, ...], promise: Promise) -> tuple[bytes, ...]:
        """Do the same with a copy of a message, for which nobody waits any more once its promise has ended."""
        nodes, full = self._router.say(envelope, avoid)
        if full:
            async with UntilDone(promise.future) as until:
                await self._wait_for(full, envelope)
            if until.is_over and promise.attempts == 1 and isinstance(promise.future.exception(), Timeout):
                self._router.bury(envelope, "expired", NOT_TAKEN)
        return self._sent_to(envelope, nodes)

    def _sent_to(self, envelope: Envelope, nodes: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Give the nodes that have a message which waited for room at some: it may have moved, to this node too."""
        if not envelope.moved_to:
            return nodes
        return () if envelope.moved_to == self._node else (envelope.moved_to,)

    async def _wait_for(self, full: Iterable[Room], envelope: Envelope, promise: Promise | None = None) -> None:
        """Wait for room until the time of the message is over, or of whoever waits, or the hub is closed."""
        now = self._timing.clock()
        until = min(envelope.deadline or math.inf, now + self._longest_wait)
        nodes: tuple[bytes, ...] = ()
        if promise is not None:
            nodes, promise.sent_to = promise.sent_to, ()  # nobody has it yet, so it is not lost with anybody
        for put in full:
            await self._wait_until(until, put, envelope, promise, nodes)
        if promise is not None and (nodes or envelope.moved_to):
            promise.sent_to = self._sent_to(envelope, nodes)

    async def _wait_until(
        self, until: float, put: Room, envelope: Envelope, promise: Promise | None, nodes: tuple[bytes, ...]
    ) -> None:
        now = self._timing.clock()
        try:
            async with Within(self._waits, now, max(min(until - now, LONGEST_SECONDS), SHORTEST_SECONDS)):
                reason = await put(envelope)
        except TimeoutError:
            if self._is_closed:
                raise Closed("the hub was closed") from None
            if until == envelope.deadline and promise is not None:
                promise.last = "no room"  # the promise ends by itself, in a moment if not before
                self._router.bury(envelope, "expired", NOT_TAKEN)
                return
            if until == envelope.deadline:
                self._router.give_up(envelope, "expired", NOT_TAKEN)
                return
            detail = f"there was no room for it for {self._longest_wait:g} s"
            self._router.give_up(envelope, "queue_full", detail)
            if not envelope.has_callback:  # nobody else would be told
                contract = words_of(envelope.message.contract)
                raise QueueFull("queue_full", f"{contract}: {detail}", contract) from None
            return
        if reason:
            whom = self._sent_to(envelope, nodes)
            self._router.give_up(envelope, reason, ", ".join(map(self._router.called, whom)))

    async def _promised(
        self,
        payload: Payload,
        expected: Expected,
        timeout: float,
        at_least_once: bool,
        towards: Towards,
        is_trace: bool = False,
    ) -> Any:
        check_seconds("timeout", timeout)
        began = self._timing.clock()
        if began >= self._measure_at and not is_trace:
            return await self._measured(
                payload, began, self._promised(payload, expected, timeout, at_least_once, towards)
            )
        points = (*expected.points, RECEIPT) if at_least_once or not expected.types else expected.points
        if self._timing.hub_share.is_full():
            await self._turn_to_ask(payload, points, began, timeout, towards)
        while (key := self._new_key()) in self._promises:
            pass
        message = self._message(payload, towards, ticks_from_seconds(timeout), points, key)
        if (message.identity, message.version, message.partition) in expected.types:
            raise own_answer(payload)
        envelope = Envelope(message, began + timeout, b"", True, choice=self._choice(payload, message, towards))
        promise = Promise(self._timing.loop.create_future(), expected.types, envelope, message.correlation_id)
        ending = self._deadlines.add(key, began, timeout)
        self._promises[key] = promise
        try:
            if at_least_once:
                return await self._insistence.keep(promise, envelope)
            if is_trace:
                envelope.said = with_extension(message, TRACE_ONLY)
                self._router.trace(envelope)
                return await promise.future
            promise.sent_to, full = self._router.say(envelope)
            self._loads.move(promise, promise.sent_to)
            if full:
                await self._wait_for(full, envelope, promise)
                self._loads.move(promise, promise.sent_to)
            return await promise.future
        except BaseException as error:
            self._break(promise, error)
            raise
        finally:
            ending.pop(key, None)
            del self._promises[key]
            if self._stranded:
                self._stranded.pop(key, None)
            self._loads.move(promise, ())
            del promise  # an error, its traceback and its promise would be a circle that nobody frees for a while

    def _break(self, promise: Promise, error: BaseException) -> None:
        """Let the capture know that a promise ends with an error, where there is a capture."""
        if promise.future.done() and not promise.future.cancelled():
            promise.future.exception()  # nobody will look at it any more, and asyncio would complain of that
        if self._on_told is not None:
            self._tell_end(promise.question, error)

    def _tell_end(self, question: Message, error: BaseException) -> None:
        assert self._on_told is not None
        self._on_told(question, "Cancelled" if isinstance(error, CancelledError) else type(error).__name__, str(error))

    def _keep_here(self, promise: Promise) -> None:
        """Let the capture know of an answer that comes from this node, though the question may have left."""
        has_left = promise.sent_to or promise.attempts > 1
        if has_left and self._on_told is not None and not self._router.sees_local:
            self._on_told(promise.question, "answered", "")

    async def _measured(self, payload: Payload, now: float, call: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a question and measure it; the next question that is measured comes some time later."""
        assert self._latencies is not None
        self._measure_at = now + EVERY_SECONDS
        return await self._latencies.asking(type(payload), call, self._timing.clock)

    # -- the express way of a question

    def _learn(self, kind: type[Payload], reply: type[Payload]) -> None:
        """Remember a question that was asked, so that the next one like it is asked by the express way."""
        if not self._router.is_express or rule_of(kind) is not TURNS:
            return
        expected, contract = expected_of(reply, b""), contract_of(kind)
        message = Message(
            identity=contract.identity,
            version=contract.version,
            callback_points=expected.points,
            callback_receiver_identity=self.identity,
            callback_receiver_node_identity=self._node,
        )
        if len(self._questions) >= MOST_QUESTIONS:
            self._questions.clear()
            self._latest.clear()
        self._questions[kind, reply] = _Question(KnownMessage(message), reply, expected, weigher_of(kind))

    async def _ask_here(self, question: _Question, payload: Payload, timeout: float, correlation_id: bytes) -> Any:
        """Ask the only actor that handles such questions, which lives here; whatever is unusual, `_ask_known` asks."""
        timing, known, promises, weigh = self._timing, question.known, self._promises, question.weigh
        (ending, usual_timeout, ticks, until), now, share = self._usual, timing.clock(), timing.hub_share
        candidates = self._candidates.get(known.contract)
        if (
            now >= until
            or timeout is not usual_timeout
            or correlation_id != b""
            or candidates is None
            or candidates.remote.total
            or not (actor := candidates.local.only)
            or share.waiters
            or (not timing.is_one_clock and share.clock() >= share.ends_at)
            or get_ident() != timing.thread
            or self._is_closed
            or weigh is None
            or not 0 <= (size := weigh(payload)) <= self._max_body_bytes
        ):
            asking = self._ask_known(question, payload, timeout, correlation_id)
            del payload
            return await asking
        while (key := self._new_key()) in promises:
            pass
        flow, future, size = self._new_id(), timing.new_future(), size + HEADER_BYTES
        envelope = Envelope(None, now + timeout, b"", True, known, b"", key, flow, ticks, payload, size, True)
        promise = promises[key] = Promise(future, question.types, envelope, flow)
        ending[key] = None
        del payload  # the envelope has it, and lets it go once it is handled
        try:
            if not self._router.put_here(envelope, actor):
                promise.sent_to, full = self._router.say_known(envelope, candidates)
                if full:
                    await self._wait_for(full, envelope, promise)
            return await future
        except BaseException as error:
            self._break(promise, error)
            raise
        finally:
            ending.pop(key, None)
            del promises[key], promise, future  # or an error would hold itself, as in `_promised`

    async def _ask_known(self, question: _Question, payload: Payload, timeout: float, correlation_id: bytes) -> Any:
        """Ask as `_promised` does, by the express way where everything is as usual."""
        timing, known, promises = self._timing, question.known, self._promises
        now, share = timing.clock(), timing.hub_share
        if timeout != self._timeout or type(timeout) is not self._timeout_type:
            check_seconds("timeout", timeout)
            self._timeout, self._ticks, self._timeout_type = timeout, ticks_from_seconds(timeout), type(timeout)
        ticks = all_ticks = self._ticks
        if now >= self._measure_at:
            return await self._measured(payload, now, self._ask_known(question, payload, timeout, correlation_id))
        if (share.waiters or share.clock() >= share.ends_at) and share.is_full():
            towards = None, b"", correlation_id, False
            await self._turn_to_ask(payload, question.points, now, timeout, towards)
            ticks = 0  # some of its time is over
        candidates = self._candidates.get(known.contract)
        if candidates is None or get_ident() != timing.thread or self._is_closed or type(correlation_id) is not bytes:
            return await self._ask(payload, question.reply, timeout, False, (None, b"", correlation_id, False))
        node = b"" if candidates.local.total else candidates.remote.only  # every turn is the turn of this node
        line = self._credit_line(node, known.line) if node else None
        if line is not None and (
            line.waiters or not ((line.sent < line.sure and line.sent_bytes < line.sure_bytes) or line.has_room)
        ):
            # what nobody can change, and can be written, waits unwritten; the rest by the ordinary way
            size = -1 if question.weigh is None or self._longest_wait < math.inf else question.weigh(payload)
            if 0 <= size <= self._max_body_bytes // 2:
                return await self._ask_in_line(question, payload, now, timeout, correlation_id, node, line)
            node = b""
        handed_over = None
        while (key := self._new_key()) in promises:  # before the body, as on the ordinary way: one may be in vain
            pass
        if candidates.remote.total or question.weigh is None or (size := question.weigh(payload)) < 0:
            body = body_from_payload(payload)
            size = len(body)
        else:
            handed_over, body = payload, b""
        if size > self._max_body_bytes:
            return await self._ask(payload, question.reply, timeout, False, (None, b"", correlation_id, False))
        if not correlation_id:
            correlation_id = self._new_id()
        deadline = now + timeout
        # nobody answers within this step: what is noted of a question that leaves at once is noted behind its departure
        has_left = bool(node) and self._send_known(node, known, body, key, correlation_id, deadline, line, ticks)
        future, sent_to = timing.new_future(), (node,) if node else ()
        promise = Promise(future, question.types, None, correlation_id, sent_to, known, all_ticks, key)
        promises[key] = promise
        ending = self._deadlines.add(key, now, timeout)
        question.is_here = handed_over is not None and bool(candidates.local.only)
        if question.is_here:
            until = min(self._measure_at, self._deadlines.until, share.ends_at if timing.is_one_clock else math.inf)
            self._usual = ending, timeout, all_ticks, until
        try:
            if not has_left:
                size += HEADER_BYTES
                envelope = Envelope(
                    None, deadline, b"", True, known, body, key, correlation_id, all_ticks, handed_over, size
                )
                promise.envelope = envelope
                del payload, handed_over  # the envelope has it, and lets it go once it is handled
                promise.sent_to, full = self._router.say_known(envelope, candidates)
                if full:
                    await self._wait_for(full, envelope, promise)
            return await future
        except BaseException as error:
            self._break(promise, error)
            raise
        finally:
            ending.pop(key, None)
            del promises[key], promise, future  # or an error would hold itself, as in `_promised`

    async def _ask_in_line(
        self,
        question: _Question,
        payload: Payload,
        now: float,
        timeout: float,
        correlation_id: bytes,
        node: bytes,
        line: CreditLine,
    ) -> Any:
        """Ask as soon as there is credit: the question waits in line, and is written when its turn has come."""
        known, promises, future = question.known, self._promises, self._timing.new_future()
        while (key := self._new_key()) in promises:
            pass
        flow = correlation_id or self._new_id()
        envelope = Envelope(None, now + timeout, b"", True, known, b"", key, flow, self._ticks, payload)
        promise = promises[key] = Promise(future, question.types, envelope, flow, is_in_line=True)
        ending = self._deadlines.add(key, now, timeout)
        waiting = _InLine(promise, line, partial(self._send_from_line, promise, envelope, node, line))
        self._outgoing.park(node, known.line, line, waiting)
        elsewhere = self._router.elsewhere(known.contract)
        elsewhere[waiting] = None
        try:
            return await future
        except _LeftLine:
            left = now + timeout - self._timing.clock()
            if left < SHORTEST_SECONDS:  # its turn came behind its time, and before the look that ends it
                self._router.bury(envelope, "expired", NOT_TAKEN)
                late = timeout_of(promise, self._router.called)
                self._break(promise, late)
                raise late from None
            return await self._ask(payload, question.reply, left, False, (None, b"", correlation_id, False))
        except BaseException as error:
            self._break(promise, error)
            raise
        finally:
            line.waiters.pop(waiting, None)
            elsewhere.pop(waiting, None)
            ending.pop(key, None)
            del promises[key], promise, future, waiting  # or an error would hold itself, as in `_promised`

    def _send_from_line(self, promise: Promise, envelope: Envelope, node: bytes, line: CreditLine) -> bool:
        """Write and send a question whose turn has come; False says that it needs the ordinary way."""
        payload, known = envelope.payload, envelope.known
        assert payload is not None
        assert known is not None
        promise.is_in_line = False
        if not self._outgoing.address(node):  # the node has left meanwhile
            candidates = self._candidates.get(known.contract)
            if candidates is not None and (
                candidates.local.total or candidates.remote.total > candidates.remote.weight(node)
            ):
                return False
            self._router.give_up(envelope, "unreachable", self._router.called(node))
            return True
        body = body_from_payload(payload)
        if not self._send_known(node, known, body, envelope.key, envelope.correlation_id, envelope.deadline, line):
            return False
        envelope.body, envelope.payload, envelope.size = body, None, HEADER_BYTES + len(body)
        promise.sent_to = (node,)
        return True

    async def _streamed(
        self, payload: Payload, expected: Expected, timeout: float, towards: Towards
    ) -> AsyncGenerator[Payload, None]:
        now, points = self._timing.clock(), (*expected.points, STREAM)
        if self._timing.hub_share.is_full():
            await self._turn_to_ask(payload, points, now, timeout, towards)
        while (key := self._new_key()) in self._promises:
            pass
        message = self._message(payload, towards, ticks_from_seconds(timeout), points, key)
        choice = self._choice(payload, message, towards)
        message = with_extension(message, Extension(message_id=self._new_id()))  # a copy makes no second stream
        parts = StreamParts()
        envelope = Envelope(message, now + timeout, b"", True, choice=choice)
        future = self._timing.loop.create_future()
        promise = Promise(future, expected.types, envelope, message.correlation_id, parts=parts)
        promise.future.add_done_callback(lambda _: parts.wake())
        ending = self._deadlines.add(key, now, timeout)
        self._promises[key] = promise
        word: Payload = Demand(NO_MORE)
        try:
            promise.sent_to, full = self._router.say(envelope)
            self._loads.move(promise, promise.sent_to)
            if full:
                await self._wait_for(full, envelope, promise)
                self._loads.move(promise, promise.sent_to)
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
            if self._on_told is not None and has_ended(promise) and not is_kept(promise):
                self._on_told(promise.question, "answered", "")  # nobody is told any more that it was enough
            raise
        except BaseException as error:
            self._break(promise, error)
            raise
        finally:
            ending.pop(key, None)
            del self._promises[key]
            self._loads.move(promise, ())
            if not has_ended(promise):
                self._say_to_producer(promise, word)
            del promise, future  # or an error would hold itself, as in `_promised`

    def _say_to_producer(self, promise: Promise, word: Payload) -> None:
        """Say something to the node that makes a stream, or to the node that has the question."""
        for node in (promise.taken_by,) if promise.taken_by else promise.sent_to or (self._node,):
            self._say_to_feeds(node, promise.question, word)

    def _say_to_feeds(self, node: bytes, stream: Message, word: Payload) -> None:
        said = _word_on(stream, node, word)
        if node == self._node:
            self._router.see_local(said)
            self._router.is_home(said)
        elif self._router.is_known(node):
            self._router.route(Envelope(self._router.vouched(stream, said)))

    # -- receiving

    def take(self, message: Message) -> None:
        """Take a message that was sent to this hub: an answer, or what became of a question."""
        promise = self._promises.get(message.callback_key)
        if promise is None or promise.future.done():
            self._router.dead.add(DeadLetter("nobody_waits", "", message))
            if message.extensions:
                self._stop_producer(message)
            return
        if message.correlation_id != promise.correlation_id:
            self._router.dead.add(DeadLetter("wrong_flow", "", message))
            return
        try:
            key = (message.identity, message.version, message.partition)
            if key == OUTCOME and not self._router.is_vouched(promise.question, message):
                return
            if promise.parts is not None and (key in promise.expected or key == OUTCOME):
                self._take_part(promise, promise.parts, message)
            elif key in promise.expected:
                promise.future.set_result(payload_from_body(promise.expected[key], message.body))
            elif key == OUTCOME:
                self._take_outcome(message.callback_key, promise, payload_from_body(Outcome, message.body))
            else:
                self._router.dead.add(DeadLetter("unexpected_answer", "", message))
            if not message.socket_identity and is_kept(promise):
                self._keep_here(promise)
        except (PayloadError, WireError, ValueError) as error:  # an answer or an outcome that makes no sense
            self._router.dead.add(DeadLetter("bad_payload", str(error), message))
            contract = words_of(message.contract)
            asked = words_of(promise.question.contract)
            text = f"{asked} was answered with {contract}, and its body makes no sense: {error}"
            node = message.socket_identity
            promise.future.set_exception(UnexpectedAnswer("bad_payload", text, contract, node))

    def take_known(self, contract: Contract, key: int, correlation_id: bytes, body: bytes) -> bool:
        """Take an answer of the express way; False where anything about the answer is unusual: `take` says what."""
        promise = self._promises.get(key)
        if promise is None or promise.correlation_id != correlation_id or promise.parts is not None:
            return False
        expected, future = promise.expected.get(contract), promise.future
        if expected is None or future.done():
            return False
        try:
            payload = expected.__contract__.read(body)  # type: ignore[union-attr]
        except Exception:  # a body that makes no sense; a protobuf class may raise anything
            return False
        self._keep(future, payload)
        return True

    def take_answer(
        self, contract: Contract, key: int, correlation_id: bytes, payload: Payload, weigh: Weigh | None
    ) -> bool:
        """Take an answer from an actor of this node; False where nobody waits for it, or not for this."""
        promise = self._promises.get(key)
        if promise is None or promise.correlation_id != correlation_id or promise.parts is not None:
            return False
        expected, future = promise.expected.get(contract), promise.future
        if expected is None or future.done():
            return False
        if weigh is None or expected is not type(payload) or weigh(payload) < 0:
            payload = payload_from_body(expected, body_from_payload(payload))  # a copy, as from elsewhere
        if self._on_told is not None:
            self._keep_here(promise)
        self._keep(future, payload)
        return True

    def _take_part(self, promise: Promise, parts: StreamParts, message: Message) -> None:
        """Take a part of a stream, or what ends the stream."""
        item = self._item(promise, message)
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

    def _item(self, promise: Promise, message: Message) -> Payload | Ending | None:
        """Give what a message brings to a stream: a part, the end, or nothing."""
        expected = promise.expected.get((message.identity, message.version, message.partition))
        if expected is not None:
            return payload_from_body(expected, message.body)
        outcome = payload_from_body(Outcome, message.body)
        if outcome.kind == "received":
            return None
        if outcome.kind == "ended":
            return Ending()
        return Ending(judged(promise, outcome, self._node, self._router.why_nobody, self._router.called)[1])

    def _stop_producer(self, message: Message) -> None:
        """A part came that nobody waits for: whoever makes it is told, or would go on as long as there is time."""
        node = message.socket_identity or self._node
        number = extension_of(message).part
        if number and message.identity != names.OUTCOME:
            self._say_to_feeds(node, message, Demand(NO_MORE, number))

    def _take_outcome(self, key: int, promise: Promise, outcome: Outcome) -> None:
        if outcome.kind == "received":
            node = bytes.fromhex(outcome.detail)
            promise.receipts += 1
            if node != promise.taken_by:  # a receipt for a copy says nothing new, and must not bring the next copy
                promise.taken_by = node
                tell_news(promise)
            if not promise.expected:
                promise.future.set_result(Receipt(node))
            promise.last = "received"
            return
        is_last_word, error = judged(promise, outcome, self._node, self._router.why_nobody, self._router.called)
        if is_last_word:
            promise.future.set_exception(error)
        elif promise.taken_by and outcome.kind == "undelivered":  # who had it has it no longer
            promise.taken_by = b""
        promise.last = outcome.reason
        if promise.is_insisted and not promise.taken_by and outcome.reason in NOWHERE:
            self._stranded[key] = promise

    def _time_out(self, key: int) -> None:
        promise = self._promises.get(key)
        if promise is None or promise.future.done():
            return
        promise.future.set_exception(timeout_of(promise, self._router.called))
        if promise.is_in_line and promise.envelope is not None:
            self._router.bury(promise.envelope, "expired", NOT_TAKEN)

    def sent_late(self, key: int, nodes: tuple[bytes, ...]) -> None:
        """Hear to which nodes a question went for which a route had to be found first."""
        promise = self._promises.get(key)
        if promise is not None:
            promise.sent_to = nodes

    def find_route(self) -> None:
        """There are new routes: who insists and found nobody tries again at once."""
        stranded, self._stranded = self._stranded, {}
        if stranded:
            in_slices(self._timing.loop, map(_try_again, stranded.values()))

    def lose_node(self, node: bytes, reason: str) -> None:
        """A node is gone: what it had and did not answer is lost, or sent again at once where that was asked for."""
        gone = f"the node is gone ({LOST.get(reason, reason)}); it may have been handled"
        lost = [
            (key, promise, node, gone)
            for key, promise in self._promises.items()
            if node in ((promise.taken_by,) if promise.taken_by else promise.sent_to)
        ]
        in_slices(self._timing.loop, starmap(self._lose, lost))

    def _lose(self, key: int, promise: Promise, node: bytes, gone: str) -> None:
        """A promise has lost the node that had its question."""
        if promise.future.done():
            return
        if promise.is_insisted:
            promise.taken_by, promise.last = b"", "unreachable"
            self._stranded[key] = promise
            tell_news(promise)
            return
        contract = words_of(promise.question.contract)
        detail = f"{contract} at {self._router.called(node)}: {gone}"
        promise.future.set_exception(Unreachable("unreachable", detail, contract, node))

    def close(self) -> None:
        """Take no more; everything that is waited for ends, of very many some in each turn of the loop."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._timing.thread:  # before the start nobody waits
            self.is_ending = True
            in_slices(self._timing.loop, self._end_all(self._waits.ending_all(), self._deadlines.ending_all()))
        self._on_close(self)

    def _end_all(self, *endings: Iterator[None]) -> Iterator[None]:
        """Let one of those who wait end with each step."""
        for promise in list(self._promises.values()):
            if not promise.future.done():
                promise.future.set_exception(Closed("the hub was closed"))
            yield
        yield from chain(*endings)  # who waits for room gives up
        self.is_ending = False


def _try_again(promise: Promise) -> None:
    """Let a promise that found nobody look for a route at once."""
    if not promise.taken_by and promise.last in NOWHERE:
        tell_news(promise)


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


def _wrong_thread(thread: int) -> Exception:
    if not thread:
        return Closed("the node is not started")
    return SettingsError("a hub is used on the event loop of its node; for other threads there is hopwire.sync")
