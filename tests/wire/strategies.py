"""Any message that a format can carry, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from hopwire.model import CallbackPoint, Message, RoutingEntry, Version
from hopwire.wire import WireFormat
from hopwire.wire.schema import Type

BLOBS = st.binary(max_size=40)
TEXTS = st.text(max_size=20)
NUMBERS = {
    Type.U16: st.integers(0, 2**16 - 1),
    Type.I32: st.integers(-(2**31), 2**31 - 1),
    Type.I64: st.integers(-(2**63), 2**63 - 1),
}


def versions(fmt: WireFormat) -> st.SearchStrategy[Version]:
    return NUMBERS[Type.U16] if fmt.version_type.is_number else st.binary(max_size=6)


def messages(fmt: WireFormat) -> st.SearchStrategy[Message]:
    """Messages with every field that the format carries set to anything."""
    frame_lists = st.lists(BLOBS, max_size=3).map(tuple)
    bodies = st.lists(BLOBS, min_size=1, max_size=1 if fmt.name == "V3" else 3).map(tuple)
    points = st.builds(CallbackPoint, BLOBS, versions(fmt), BLOBS)
    entries = st.builds(RoutingEntry, TEXTS, BLOBS)
    values: dict[str, st.SearchStrategy[object]] = {
        "version": versions(fmt),
        "body_frames": bodies,
        "extensions": frame_lists,
        "callback_points": st.lists(points, max_size=4).map(tuple),
        "routing": st.lists(entries, max_size=4).map(tuple),
        "socket_identity": BLOBS,
    }
    for field in fmt.fields:
        if field.name in fmt.carried and field.name not in values:
            values[field.name] = TEXTS if field.type is Type.TEXT else NUMBERS.get(field.type, BLOBS)
    return st.builds(Message, **{name: values[name] for name in fmt.carried})
