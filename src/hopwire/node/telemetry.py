"""OpenTelemetry: the context of whoever speaks travels with each message, and is there again when it is handled.

With `NodeSettings(telemetry=True)` a message carries W3C `traceparent` in its extension frame, taken where it is said;
each handler runs within a span of its own, whose parent is what the message carried. What a handler says belongs to its
span. Peers that know no extension frame drop the context, and nothing else.

The names of attributes are OpenTelemetry's conventions for messaging, which are still being developed: they stand here
and nowhere else. Only this module knows OpenTelemetry; it is imported when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from hopwire.errors import SettingsError, WireError
from hopwire.model import Message
from hopwire.wire.extension import Extension, extension_of, with_extension

__all__ = ["Telemetry"]

try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    trace = None  # type: ignore[assignment]

FIELD = "traceparent"


class Telemetry:
    """Puts the current context into messages, and takes it out again."""

    def __init__(self) -> None:
        if trace is None:
            raise SettingsError("telemetry needs OpenTelemetry: pip install 'hopwire[otel]'")
        self._tracer = trace.get_tracer("hopwire")
        self._propagator = TraceContextTextMapPropagator()

    def carried(self, message: Message) -> Message:
        """Give the message with the context of whoever says it, if there is any."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        if FIELD not in carrier:
            return message
        said = extension_of(message) if message.extensions else Extension()
        return with_extension(message, msgspec.structs.replace(said, traceparent=carrier[FIELD]))

    @contextmanager
    def handling(self, message: Message) -> Iterator[None]:
        """Be within the span of a handler."""
        identity = message.identity.decode(errors="replace")
        attributes: dict[str, str | int] = {
            "messaging.system": "hopwire",
            "messaging.operation.type": "process",
            "messaging.destination.name": identity,
            "messaging.message.conversation_id": message.correlation_id.decode(errors="replace"),
            "messaging.message.body.size": sum(map(len, message.body_frames)),
        }
        parent = self._propagator.extract({FIELD: _traceparent(message)})
        kind = trace.SpanKind.CONSUMER
        with self._tracer.start_as_current_span(f"process {identity}", parent, kind, attributes):
            yield

    def failed(self, error: BaseException) -> None:
        """A handler raised: its span says so."""
        span = trace.get_current_span()
        span.record_exception(error)
        span.set_status(trace.StatusCode.ERROR, type(error).__name__)


def _traceparent(message: Message) -> str:
    try:
        return extension_of(message).traceparent
    except WireError:
        return ""
