"""What a handler knows of the message beside its payload, and how it goes on within the same flow."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from hopwire.errors import Expired
from hopwire.model import Message, Payload, RoutingEntry, TraceOptions
from hopwire.node.hub import Address, Hub, Receipt, check_seconds
from hopwire.node.router import Envelope

__all__ = ["Context"]

R = TypeVar("R", bound=Payload)
UNLIMITED_FLOW_SECONDS = 30.0  # that a question gets within a flow that has no time limit


class Context:
    """The message that is being handled."""

    def __init__(self, envelope: Envelope, hub: Callable[[], Hub], clock: Callable[[], float]) -> None:
        self._envelope, self._hub, self._clock = envelope, hub, clock

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
        return max(0.0, self._envelope.deadline - self._clock()) if self._envelope.deadline else None

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

    async def ask(
        self,
        payload: Payload,
        reply: type[R],
        *,
        timeout: float | None = None,
        to: Address | None = None,
        partition: bytes = b"",
        at_least_once: bool = False,
    ) -> R:
        """Ask another actor within this flow, for as long as there is time, or shorter."""
        return await self._hub().ask(
            payload,
            reply,
            timeout=self._time_for("timeout", timeout) or UNLIMITED_FLOW_SECONDS,
            to=to,
            partition=partition,
            correlation_id=self.correlation_id,
            trace=self._is_traced(),
            at_least_once=at_least_once,
        )

    def stream(
        self,
        payload: Payload,
        part: type[R],
        *,
        timeout: float | None = None,
        to: Address | None = None,
        partition: bytes = b"",
    ) -> AsyncGenerator[R, None]:
        """Ask another actor within this flow, and give its answers one by one."""
        return self._hub().stream(
            payload,
            part,
            timeout=self._time_for("timeout", timeout) or UNLIMITED_FLOW_SECONDS,
            to=to,
            partition=partition,
            correlation_id=self.correlation_id,
            trace=self._is_traced(),
        )

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
            payload,
            timeout=self._time_for("timeout", timeout) or UNLIMITED_FLOW_SECONDS,
            to=to,
            partition=partition,
            correlation_id=self.correlation_id,
            trace=self._is_traced(),
            at_least_once=at_least_once,
        )

    def _time_for(self, name: str, seconds: float | None) -> float | None:
        """Give the seconds that something within this flow may take: what was said, or what is left if that is less."""
        if seconds is not None:
            check_seconds(name, seconds)
        left = self.time_left()
        if left == 0.0:
            raise Expired("expired", "the time of this flow is over")
        return min((each for each in (seconds, left) if each is not None), default=None)

    def _is_traced(self) -> bool:
        return bool(self.message.trace_options & TraceOptions.ROUTING)
