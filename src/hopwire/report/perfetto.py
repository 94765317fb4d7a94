"""Spans in the format of Perfetto, for ui.perfetto.dev: a process for each node, and arrows from leaving to arriving.

The format is protocol buffers; the few numbers of fields that are needed stand in the tables below. Slices of one track
must lie within one another or beside one another. Spans of a node overlap as they like, so a node has as many tracks as
it takes: a span goes to the first track that is free when the span begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from hopwire.report.flow_spans import Attribute, Row, Span, service_attributes, service_name

__all__ = ["perfetto_trace"]

# fmt: off
# message           field
TRACE_PACKET      = 1
PACKET            = {"clock_snapshot": 6, "timestamp": 8, "sequence": 10, "track_event": 11, "track_descriptor": 60}
EVENT             = {"annotation": 4, "type": 9, "track": 11, "category": 22, "name": 23, "flow": 47}
ANNOTATION        = {"bool": 2, "int": 4, "text": 6, "name": 10}
TRACK             = {"uuid": 1, "name": 2, "process": 3, "parent": 5}
PROCESS           = {"pid": 1, "name": 6}
CLOCKS            = {"clock": 1}
CLOCK             = {"id": 1, "time": 2}
# fmt: on
BEGIN, END, INSTANT = 1, 2, 3
WALL_AND_TRACE = (1, 6)  # clocks: of the wall, and the one that times without a clock belong to
SEQUENCE = 1


def perfetto_trace(spans: Sequence[Span], names: Mapping[bytes, str], clocks: Mapping[bytes, Row]) -> Iterator[bytes]:
    """Give the bytes of a trace with all spans."""
    if spans:
        yield _clocks(min(span.start_ns for span in spans))
    by_node: dict[bytes, list[Span]] = {}
    for span in sorted(spans, key=_length_within):
        by_node.setdefault(span.node, []).append(span)
    crossings = {span.parent_id for span in spans if span.kind in ("CONSUMER", "SERVER")}
    for number, (node, found) in enumerate(by_node.items(), 1):
        process = _uuid(b"process", node)
        about = service_attributes(node, clocks.get(node))
        name = service_name(node, names)
        described = _number(PROCESS["pid"], number) + _text(PROCESS["name"], name)
        yield _track(process, _bytes(TRACK["process"], described))
        for lane, some in enumerate(_lanes(found)):
            track = _uuid(b"lane %d" % lane, node)
            yield _track(track, _number(TRACK["parent"], process) + _text(TRACK["name"], f"{name} {lane + 1}"))
            for span in some:
                yield from _slice(span, track, about, crossings)


def _length_within(span: Span) -> tuple[int, int]:
    return span.start_ns, -span.end_ns


def _lanes(spans: Sequence[Span]) -> list[list[Span]]:
    """Put spans, sorted by their beginning, into as few lanes as hold them without overlap."""
    lanes: list[list[Span]] = []
    for span in spans:
        free = next((lane for lane in lanes if lane[-1].end_ns <= span.start_ns), None)
        if free is None:
            lanes.append(free := [])
        free.append(span)
    return lanes


def _slice(span: Span, track: int, about: Mapping[str, Attribute], crossings: set[bytes]) -> Iterator[bytes]:
    told: dict[str, Attribute] = {**span.attributes, **about}
    if span.error:
        told["error"] = span.error
    head = _text(EVENT["name"], span.name) + _text(EVENT["category"], span.kind)
    if span.span_id in crossings:
        head += _fixed(EVENT["flow"], int.from_bytes(span.span_id, "big"))
    elif span.kind in ("CONSUMER", "SERVER"):
        head += _fixed(EVENT["flow"], int.from_bytes(span.parent_id, "big"))
    yield _event(span.start_ns, BEGIN, track, head + _annotations(told))
    for each in span.events:
        at_ns = min(max(each.at_ns, span.start_ns), span.end_ns)
        yield _event(at_ns, INSTANT, track, _text(EVENT["name"], each.name) + _annotations(each.attributes))
    yield _event(span.end_ns, END, track, b"")


def _event(at_ns: int, kind: int, track: int, rest: bytes) -> bytes:
    event = _number(EVENT["type"], kind) + _number(EVENT["track"], track) + rest
    return _packet(_number(PACKET["timestamp"], at_ns) + _bytes(PACKET["track_event"], event))


def _track(uuid: int, rest: bytes) -> bytes:
    return _packet(_bytes(PACKET["track_descriptor"], _number(TRACK["uuid"], uuid) + rest))


def _clocks(at_ns: int) -> bytes:
    """Say that the clock of the trace is that of the wall."""
    snapshot = b"".join(
        _bytes(CLOCKS["clock"], _number(CLOCK["id"], clock) + _number(CLOCK["time"], at_ns)) for clock in WALL_AND_TRACE
    )
    return _packet(_bytes(PACKET["clock_snapshot"], snapshot))


def _annotations(attributes: Mapping[str, Attribute]) -> bytes:
    found = b""
    for name, value in attributes.items():
        if isinstance(value, bool):
            written = _number(ANNOTATION["bool"], int(value))
        elif isinstance(value, int):
            written = _number(ANNOTATION["int"], value)
        else:
            written = _text(ANNOTATION["text"], value)
        found += _bytes(EVENT["annotation"], _text(ANNOTATION["name"], name) + written)
    return found


def _uuid(what: bytes, node: bytes) -> int:
    return int.from_bytes(blake2b(node, digest_size=8, person=what[:16]).digest(), "big")


# -- protocol buffers


def _varint(value: int) -> bytes:
    value &= 2**64 - 1  # numbers below zero are written as 64 bits
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _fixed(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + value.to_bytes(8, "little")


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode("utf-8", "replace"))


def _packet(packet: bytes) -> bytes:
    return _bytes(TRACE_PACKET, packet + _number(PACKET["sequence"], SEQUENCE))
