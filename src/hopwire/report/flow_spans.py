"""A flow as spans, which is what other tools draw: who worked on what from when to when, and because of whom.

| of the lake | span | at | from | to |
|---|---|---|---|---|
| a flow | INTERNAL `flow NAME` | the node where it began | its first sighting | its last |
| a request | CLIENT `ask NAME` | the node that asked | asking | the answer, or when it was last seen |
| a hop | PRODUCER `send NAME` | the node that it left | leaving | arriving |
| its arrival | CONSUMER or SERVER `receive NAME` | the node that it came to | arriving | the last that it caused |
| a dead letter | INTERNAL `dead letter NAME` | the node where it ended | its end | its end |

What is not known must not look known. A span whose other end nobody saw has no length, and `hopwire.unknown` says what
is missing; `hopwire.is_corrected` says whether the clocks of the two nodes are known against each other. What is lost
is an error, with an event at the time when it left.

The trap: clocks that are not corrected may let a message arrive before it leaves. No span ends before it begins: its
end is its beginning, and `hopwire.negative_us` says by how much the clocks disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from hopwire.model.units import NS_PER_US
from hopwire.report.flow_tree import finding_line, name_of, request_line, witnesses_of
from hopwire.report.words import node_label, text_or_hex

__all__ = ["Attribute", "ExportedFlow", "Span", "SpanEvent", "service_attributes", "service_name", "spans_of_flow"]

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"
BAD_FATES = {"lost", "foreign", "dead"}
BAD_OUTCOMES = {"lost", "expired", "late", "failed"}
MAX_FINDINGS = 100  # of a flow, as events; their number is an attribute

Attribute = str | int | bool
Row = Mapping[str, Any]


class ExportedFlow(NamedTuple):
    """A row of gold.flows, and the rows of gold.requests that belong to it."""

    flow: Row
    requests: Sequence[Row]


class SpanEvent(NamedTuple):
    """Something that happened at one moment of a span."""

    at_ns: int
    name: str
    attributes: dict[str, Attribute]


@dataclass(slots=True)
class Span:
    """One span; `node` is the identity of the node where it happened."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    kind: str
    name: str
    node: bytes
    peer: bytes
    start_ns: int
    end_ns: int
    attributes: dict[str, Attribute]
    error: str = ""
    events: list[SpanEvent] = field(default_factory=list)
    links: list[bytes] = field(default_factory=list)  # ids of spans of the same trace


def service_name(node: bytes, names: Mapping[bytes, str]) -> str:
    """Give what other tools call a node."""
    return node_label(node, names.get(node, "")) if node else "?"


def service_attributes(node: bytes, clock: Row | None) -> dict[str, Attribute]:
    """Say what is known of a node: its identity, and how its clock was corrected."""
    known: dict[str, Attribute] = {"hopwire.node": text_or_hex(node), "hopwire.clock.is_known": clock is not None}
    if clock is not None:
        for name in ("is_corrected", "offset_ns", "error_ns"):
            if clock[name] is not None:
                known[f"hopwire.clock.{name}"] = clock[name]
    return known


def spans_of_flow(exported: ExportedFlow, names: Mapping[bytes, str]) -> list[Span]:
    """Give the spans of a flow, the whole first; a hop stands behind what caused it, as in the flow."""
    return _FlowSpans(exported, names).spans()


class _FlowSpans:
    def __init__(self, exported: ExportedFlow, names: Mapping[bytes, str]) -> None:
        self.flow, self.requests = exported
        self.names = names
        self.steps: Sequence[Row] = self.flow["steps"]
        self.trace_id = blake2b(self.flow["flow_id"], digest_size=16, person=b"hopwire flow").digest()
        self.root = self._id("flow", 0)
        self.asked: dict[bytes, int] = {}  # requests by their question
        for number, request in enumerate(self.requests):
            self.asked.setdefault(request["message_key"], number)
        self.first_of: dict[bytes, int] = {}  # the first step of each message
        self.children: dict[int, list[int]] = {}
        for number, step in enumerate(self.steps):
            self.first_of.setdefault(step["message_key"], number)
            self.children.setdefault(step["parent"], []).append(number)

    def _id(self, what: str, number: int) -> bytes:
        return blake2b(f"{what} {number}".encode(), digest_size=8, key=self.trace_id).digest()

    def spans(self) -> list[Span]:
        found = [*self._requests(), *(span for number in range(len(self.steps)) for span in self._step(number))]
        whole = [self._whole(found), *found]
        for span in whole:  # no tool has a time before 1970
            span.start_ns, span.end_ns = max(0, span.start_ns), max(0, span.end_ns)
        return whole

    # -- the whole

    def _whole(self, found: Sequence[Span]) -> Span:
        flow = self.flow
        began, ended = flow["started_at_ns"], flow["ended_at_ns"]
        times = [time for time in (began, ended) if time is not None]
        times += [time for span in found for time in (span.start_ns, span.end_ns)]
        start, end = min(times, default=0), max(times, default=0)
        node = self.steps[0]["from_node"] or self.steps[0]["to_node"] if self.steps else b""
        counts = ("depth", "hop_count", "message_count", "size_bytes", "lost_count", "dead_count", "in_flight_count")
        attributes: dict[str, Attribute] = {
            "hopwire.flow_id": text_or_hex(flow["flow_id"]),
            "messaging.message.conversation_id": text_or_hex(flow["correlation_id"]),
            "hopwire.outcome": flow["outcome"],
            **{f"hopwire.{name}": flow[name] for name in counts if flow[name] is not None},
            "hopwire.finding_count": len(flow["findings"]),
            "hopwire.is_oversized": bool(flow["is_oversized"]),
            "hopwire.missing_steps": max(0, flow["hop_count"] - len(self.steps)),
        }
        span = Span(
            self.trace_id, self.root, b"", INTERNAL, f"flow {text_or_hex(flow['identity'])}", node, b"", start, end,
            attributes,
        )  # fmt: skip
        span.error = flow["outcome"] if flow["outcome"] in BAD_OUTCOMES else ""
        for each in flow["findings"][:MAX_FINDINGS]:
            text = finding_line(each, self.names)
            span.events.append(SpanEvent(start, f"finding {each['kind']}", {"hopwire.finding": text}))
        return span

    # -- requests

    def _requests(self) -> Iterator[Span]:
        parents = {step["message_key"]: step["parent"] for step in reversed(self.steps)}
        for number, request in enumerate(self.requests):
            start = request["asked_at_ns"]
            end = request["answered_at_ns"]
            unknown = [] if end is not None else ["answered_at_ns"]
            if end is None:
                end = request["last_seen_at_ns"]
            start = end if start is None else start
            if start is None:
                start = end = self.flow["started_at_ns"] or 0
            attributes: dict[str, Attribute] = {
                **self._contract(request),
                "hopwire.outcome": request["outcome"],
                "hopwire.awaits": request["awaits"] or "",
                "hopwire.attempts": request["attempts"] or 0,
                "hopwire.words": request_line(request, self.names, witnesses_of(self.flow)).text,
            }
            for name in ("reason", "deadline_ns"):
                if request[name] is not None and request[name] != "":
                    attributes[f"hopwire.{name}"] = request[name]
            for name in ("lost_from_node", "lost_to_node", "reached_node", "last_seen_node"):
                if request[name]:
                    attributes[f"hopwire.{name}"] = service_name(request[name], self.names)
            for name in ("is_reused", "is_callback_unreached", "is_unhandled", "is_oversized"):
                if request[name]:
                    attributes[f"hopwire.{name}"] = True
            cause = self._behind(parents.get(request["message_key"], -1))
            end = _not_before(start, end if end is not None else start, attributes)
            span = Span(
                self.trace_id, self._id("request", number), cause, CLIENT, f"ask {text_or_hex(request['identity'])}",
                request["home_node"], request["reached_node"] or b"", start, end, _with_unknown(attributes, unknown),
            )  # fmt: skip
            if request["outcome"] in BAD_OUTCOMES:
                span.error = str(attributes["hopwire.words"])
                span.events.append(SpanEvent(end, request["outcome"], {"hopwire.words": span.error}))
            yield span

    # -- hops

    def _step(self, number: int) -> Iterator[Span]:
        step = self.steps[number]
        attributes = self._of_step(step)
        yield self._sent(number, step, dict(attributes))
        if self._has_arrival(step):
            yield self._received(number, step, dict(attributes))

    def _sent(self, number: int, step: Row, attributes: dict[str, Attribute]) -> Span:
        left, arrived = step["left_at_ns"], step["arrived_at_ns"]
        is_dead = step["fate"] == "dead"
        unknown = [name for name, time in (("left_at_ns", left), ("arrived_at_ns", arrived)) if time is None]
        start = next((time for time in (left, arrived, self.flow["started_at_ns"]) if time is not None), 0)
        end = _not_before(start, start if arrived is None else arrived, attributes)
        name = text_or_hex(step["identity"])
        attributes["messaging.operation.type"] = "send"
        span = Span(
            self.trace_id, self._id("sent", number), self._cause(number), INTERNAL if is_dead else PRODUCER,
            f"{'dead letter' if is_dead else 'send'} {name}", step["from_node"] or b"", step["to_node"] or b"",
            start, end, attributes if is_dead else _with_unknown(attributes, unknown),
        )  # fmt: skip
        if step["fate"] in BAD_FATES:
            names = [name_of(step[end] or b"", self.names) for end in ("from_node", "to_node")]
            where = f"at {names[0]}" if is_dead else f"from {names[0]} to {names[1]}"
            span.error = f"{step['fate']} {where}" + (f": {step['dead_reason']}" if step["dead_reason"] else "")
            span.events.append(SpanEvent(start, step["fate"], {"hopwire.words": span.error}))
        first = self.first_of[step["message_key"]]
        if step["attempt"] and first != number:
            span.links.append(self._id("sent", first))
        return span

    def _received(self, number: int, step: Row, attributes: dict[str, Attribute]) -> Span:
        arrived = step["arrived_at_ns"]
        caused = [self.steps[child] for child in self.children.get(number, ())]
        goes_on = any(each["message_key"] == step["message_key"] for each in caused)
        is_question = step["message_key"] in self.asked and not step["is_reply"] and not goes_on
        attributes["messaging.operation.type"] = "process"
        end = max([arrived, *(each["left_at_ns"] for each in caused if each["left_at_ns"] is not None)])
        span = Span(
            self.trace_id, self._id("received", number), self._id("sent", number), SERVER if is_question else CONSUMER,
            f"receive {text_or_hex(step['identity'])}", step["to_node"], step["from_node"] or b"", arrived, end,
            attributes,
        )  # fmt: skip
        if step["repeat"]:
            span.events.append(SpanEvent(arrived, step["repeat"], {}))
        return span

    def _of_step(self, step: Row) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {
            "messaging.system": "hopwire",
            **self._contract(step),
            "hopwire.fate": step["fate"],
            "hopwire.is_corrected": bool(step["is_corrected"]),
            "hopwire.is_critical": bool(step["is_critical"]),
            "hopwire.is_reply": bool(step["is_reply"]),
            "hopwire.message_key": text_or_hex(step["message_key"]),
        }
        for name in ("attempt", "awaits", "outcome_kind", "outcome_reason", "dead_reason", "repeat"):
            if step[name]:
                attributes[f"hopwire.{name}"] = step[name]
        if step["size_bytes"] is not None:
            attributes["messaging.message.envelope.size"] = step["size_bytes"]
        return attributes

    def _contract(self, row: Row) -> dict[str, Attribute]:
        version = row["version"] if row["version_raw"] is None else text_or_hex(row["version_raw"])
        known: dict[str, Attribute] = {"messaging.destination.name": text_or_hex(row["identity"])}
        return known if version is None else {**known, "hopwire.version": version}

    # -- what caused it

    def _has_arrival(self, step: Row) -> bool:
        return step["arrived_at_ns"] is not None and bool(step["to_node"]) and step["fate"] != "dead"

    def _cause(self, number: int) -> bytes:
        """Give the span that a hop belongs to: its request, what arrived before it, or the whole."""
        step = self.steps[number]
        key, parent = step["message_key"], step["parent"]
        goes_on = 0 <= parent < len(self.steps) and self.steps[parent]["message_key"] == key
        if key in self.asked and not step["is_reply"] and not goes_on:
            return self._id("request", self.asked[key])
        return self._behind(parent)

    def _behind(self, parent: int) -> bytes:
        if not 0 <= parent < len(self.steps):
            return self.root
        return self._id("received" if self._has_arrival(self.steps[parent]) else "sent", parent)


def _with_unknown(attributes: dict[str, Attribute], unknown: Sequence[str]) -> dict[str, Attribute]:
    if unknown:
        attributes["hopwire.unknown"] = ", ".join(unknown)
    return attributes


def _not_before(start_ns: int, end_ns: int, attributes: dict[str, Attribute]) -> int:
    if end_ns < start_ns:
        attributes["hopwire.negative_us"] = (end_ns - start_ns) // NS_PER_US
    return max(start_ns, end_ns)
