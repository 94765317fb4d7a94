"""What a handler knows of the message beside its payload, and how it goes on within the same flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hopwire.errors import Expired
from hopwire.model import Message, Payload, RoutingEntry, TraceOptions
from hopwire.node.hub import Address, Hub
from hopwire.node.router import Envelope

__all__ = ["Context"]

R = TypeVar("R", bound=Payload)
FOR_EVER = 30.0  # seconds that a question within a flow without a time limit gets


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

    async def tell(self, payload: Payload, *, to: Address | None = None, partition: bytes = b"") -> None:
        """Send a message within this flow."""
        await self._hub().tell(
            payload,
            ttl=self._time_left(),
            to=to,
            partition=partition,
            correlation_id=self.correlation_id,
            trace=self._is_traced(),
        )

    async def broadcast(self, payload: Payload, *, partition: bytes = b"") -> None:
        """Send a message to every actor that handles it, within this flow."""
        await self._hub().broadcast(
            payload,
            ttl=self._time_left(),
            partition=partition,
            correlation_id=self.correlation_id,
            trace=self._is_traced(),
        )

    async def ask(self, payload: Payload, reply: type[R], *, to: Address | None = None, partition: bytes = b"") -> R:
        """Ask another actor within this flow, for as long as there is time."""
        return await self._hub().ask(
            payload,
            reply,
            timeout=self._time_left() or FOR_EVER,
            to=to,
            partition=partition,
            correlation_id=self.correlation_id,
            trace=self._is_traced(),
        )

    def _time_left(self) -> float | None:
        left = self.time_left()
        if left == 0.0:
            raise Expired("expired", "the time of this flow is over")
        return left

    def _is_traced(self) -> bool:
        return bool(self.message.trace_options & TraceOptions.ROUTING)
