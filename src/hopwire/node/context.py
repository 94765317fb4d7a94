"""What a handler knows of the message beside its payload, and how it goes on within the same flow.

A coroutine gets a `Context`, whose calls are awaited. A handler that is no coroutine runs in a thread and gets a
`BlockingContext`: the same calls with the same options, which wait for their result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from threading import get_ident
from typing import Any, TypeVar, overload

from hopwire.errors import Expired, SettingsError
from hopwire.model import Message, Payload, RoutingEntry, TraceOptions
from hopwire.node.blocking import CALL_SECONDS, each_of, result_of
from hopwire.node.calls import SHORTEST_SECONDS, Address, Receipt, check_seconds
from hopwire.node.envelope import Envelope
from hopwire.node.hub import Hub
from hopwire.node.spawn import Way
from hopwire.node.timing import Timing

__all__ = ["BlockingContext", "Context", "MessageContext"]

R = TypeVar("R", bound=Payload)
S = TypeVar("S", bound=Payload)
T = TypeVar("T")
UNLIMITED_FLOW_SECONDS = 30.0  # that a question gets within a flow that has no time limit
TRACE_SECONDS = 5.0


class MessageContext:
    """The message that is being handled."""

    def __init__(self, envelope: Envelope, hub: Callable[[], Hub], timing: Timing) -> None:
        self._envelope, self._hub, self._timing = envelope, hub, timing

    @property
    def message(self) -> Message:
        """The whole message."""
        return self._envelope.message

    @property
    def correlation_id(self) -> bytes:
        """What everything within this flow has in common."""
        return self.message.correlation_id

    @property
    def caller(self) -> Address | None:
        """Who waits for the answer, if anybody does."""
        message = self.message
        if not message.callback_receiver_identity:
            return None
        return Address(message.callback_receiver_node_identity, message.callback_receiver_identity)

    @property
    def route(self) -> tuple[RoutingEntry, ...]:
        """The way so far, if the message is traced."""
        return self.message.routing

    def time_left(self) -> float | None:
        """The seconds that are left; None where there is no limit."""
        return max(0.0, self._envelope.deadline - self._timing.clock()) if self._envelope.deadline else None

    def _time_for(self, name: str, seconds: float | None) -> float | None:
        """Give the seconds that something within this flow may take: what was said, or what is left if that is less."""
        if seconds is not None:
            check_seconds(name, seconds)
        left = self.time_left()
        if left is not None and left < SHORTEST_SECONDS:
            raise Expired("expired", "the time of this flow is over")
        return min((each for each in (seconds, left) if each is not None), default=None)

    def _is_traced(self) -> bool:
        return bool(self.message.trace_options & TraceOptions.ROUTING)


class Context(MessageContext):
    """The message that is being handled, and calls within its flow, which are awaited."""

    async def tell(
        self, payload: Payload, *, ttl: float | None = None, to: Address | None = None, partition: bytes = b""
    ) -> None:
        """Send a message within this flow."""
        left = self._time_for("ttl", ttl)
        flow, trace = self.correlation_id, self._is_traced()
        await self._hub().tell(payload, ttl=left, to=to, partition=partition, correlation_id=flow, trace=trace)

    async def broadcast(self, payload: Payload, *, ttl: float | None = None, partition: bytes = b"") -> None:
        """Send a message to every actor that handles it, within this flow."""
        left = self._time_for("ttl", ttl)
        flow, trace = self.correlation_id, self._is_traced()
        await self._hub().broadcast(payload, ttl=left, partition=partition, correlation_id=flow, trace=trace)

    def _within(self, timeout: float | None) -> dict[str, Any]:
        """What a question within this flow has of it: the time that is left, the correlation id, the trace."""
        seconds = self._time_for("timeout", timeout) or UNLIMITED_FLOW_SECONDS
        return {"timeout": seconds, "correlation_id": self.correlation_id, "trace": self._is_traced()}

    # fmt: off
    @overload
    async def ask(self, payload: Payload, reply: type[R], *, timeout: float | None = None, to: Address | None = None,
                  partition: bytes = b"", at_least_once: bool = False) -> R: ...
    @overload
    async def ask(self, payload: Payload, reply: tuple[type[R], type[S]], *, timeout: float | None = None,
                  to: Address | None = None, partition: bytes = b"", at_least_once: bool = False) -> R | S: ...
    # fmt: on
    async def ask(
        self,
        payload: Payload,
        reply: Any,
        *,
        timeout: float | None = None,
        to: Address | None = None,
        partition: bytes = b"",
        at_least_once: bool = False,
    ) -> Any:
        """Ask another actor within this flow, for as long as there is time, or shorter."""
        return await self._hub().ask(
            payload, reply, **self._within(timeout), to=to, partition=partition, at_least_once=at_least_once
        )

    # fmt: off
    @overload
    def stream(self, payload: Payload, part: type[R], *, timeout: float | None = None, to: Address | None = None,
               partition: bytes = b"") -> AsyncGenerator[R, None]: ...
    @overload
    def stream(self, payload: Payload, part: tuple[type[R], type[S]], *, timeout: float | None = None,
               to: Address | None = None, partition: bytes = b"") -> AsyncGenerator[R | S, None]: ...
    # fmt: on
    def stream(
        self,
        payload: Payload,
        part: Any,
        *,
        timeout: float | None = None,
        to: Address | None = None,
        partition: bytes = b"",
    ) -> AsyncGenerator[Any, None]:
        """Ask another actor within this flow, and give its answers one by one."""
        return self._hub().stream(payload, part, **self._within(timeout), to=to, partition=partition)

    async def send(
        self,
        payload: Payload,
        *,
        timeout: float | None = None,
        to: Address | None = None,
        partition: bytes = b"",
        at_least_once: bool = False,
    ) -> Receipt:
        """Send a message within this flow, and wait until a node has taken it."""
        return await self._hub().send(
            payload, **self._within(timeout), to=to, partition=partition, at_least_once=at_least_once
        )

    async def trace(
        self,
        payload: Payload,
        *,
        timeout: float = TRACE_SECONDS,
        to: Address | None = None,
        partition: bytes = b"",
    ) -> Way:
        """Find out which way a message would take, without delivering it."""
        left = self._time_for("timeout", timeout) or timeout
        return await self._hub().trace(payload, timeout=left, to=to, partition=partition)


class BlockingContext(MessageContext):
    """The message that is being handled in a thread, and calls within its flow, which wait for their result."""

    def __init__(self, envelope: Envelope, hub: Callable[[], Hub], timing: Timing) -> None:
        super().__init__(envelope, hub, timing)
        self._context = Context(envelope, hub, timing)

    def tell(
        self, payload: Payload, *, ttl: float | None = None, to: Address | None = None, partition: bytes = b""
    ) -> None:
        """Send a message within this flow."""
        self._wait(self._time_for("ttl", ttl), self._context.tell, payload, ttl=ttl, to=to, partition=partition)

    def broadcast(self, payload: Payload, *, ttl: float | None = None, partition: bytes = b"") -> None:
        """Send a message to every actor that handles it, within this flow."""
        self._wait(self._time_for("ttl", ttl), self._context.broadcast, payload, ttl=ttl, partition=partition)

    # fmt: off
    @overload
    def ask(self, payload: Payload, reply: type[R], *, timeout: float | None = None, to: Address | None = None,
            partition: bytes = b"", at_least_once: bool = False) -> R: ...
    @overload
    def ask(self, payload: Payload, reply: tuple[type[R], type[S]], *, timeout: float | None = None,
            to: Address | None = None, partition: bytes = b"", at_least_once: bool = False) -> R | S: ...
    # fmt: on
    def ask(self, payload: Payload, reply: Any, *, timeout: float | None = None, **options: Any) -> Any:
        """Ask another actor within this flow, for as long as there is time, or shorter."""
        seconds = self._time_for("timeout", timeout) or UNLIMITED_FLOW_SECONDS
        return self._wait(seconds, self._context.ask, payload, reply, timeout=timeout, **options)

    def send(
        self,
        payload: Payload,
        *,
        timeout: float | None = None,
        to: Address | None = None,
        partition: bytes = b"",
        at_least_once: bool = False,
    ) -> Receipt:
        """Send a message within this flow, and wait until a node has taken it."""
        seconds = self._time_for("timeout", timeout) or UNLIMITED_FLOW_SECONDS
        options = {"timeout": timeout, "to": to, "partition": partition, "at_least_once": at_least_once}
        return self._wait(seconds, self._context.send, payload, **options)

    # fmt: off
    @overload
    def stream(self, payload: Payload, part: type[R], *, timeout: float | None = None, to: Address | None = None,
               partition: bytes = b"") -> Iterator[R]: ...
    @overload
    def stream(self, payload: Payload, part: tuple[type[R], type[S]], *, timeout: float | None = None,
               to: Address | None = None, partition: bytes = b"") -> Iterator[R | S]: ...
    # fmt: on
    def stream(self, payload: Payload, part: Any, *, timeout: float | None = None, **options: Any) -> Iterator[Any]:
        """Ask another actor within this flow, and give its answers one by one."""
        seconds = self._time_for("timeout", timeout) or UNLIMITED_FLOW_SECONDS
        parts = self._wait(CALL_SECONDS, self._streamed, payload, part, timeout=timeout, **options)
        return each_of(parts, seconds, self._wait, self._timing.loop)

    async def _streamed(self, payload: Payload, part: Any, **options: Any) -> AsyncGenerator[Any, None]:
        return self._context.stream(payload, part, **options)

    def trace(self, payload: Payload, *, timeout: float = TRACE_SECONDS, **options: Any) -> Way:
        """Find out which way a message would take, without delivering it."""
        return self._wait(timeout, self._context.trace, payload, timeout=timeout, **options)

    def _wait(self, seconds: float | None, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run a coroutine function on the loop of the node, and wait for its result."""
        if get_ident() == self._timing.thread:
            raise SettingsError("a blocking call on the event loop of the node would wait for itself")

        async def run() -> T:
            return await function(*args, **kwargs)

        future = asyncio.run_coroutine_threadsafe(run(), self._timing.loop)
        return result_of(future, CALL_SECONDS if seconds is None else seconds)
