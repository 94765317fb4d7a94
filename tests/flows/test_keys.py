"""The key of a message: the same wherever it is seen, another for every other message."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hopwire.errors import WireError
from hopwire.flows.keys import KEY_BYTES, message_key, message_keys
from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.wire.arrow import batch_from_messages
from hopwire.wire.extension import MAGIC, Extension, extension_of, with_extension
from hopwire.wire.formats import V3, V5, V6

MESSAGE = Message(
    b"orders.place",
    1,
    b"eu",
    (b"one", b"two"),
    b"c-1",
    b"\1actor",
    b"there",
    callback_key=7,
    callback_receiver_identity=b"\0hub",
    callback_receiver_node_identity=b"here",
)


def keys(*messages: Message) -> list[bytes]:
    found: list[bytes] = message_keys(batch_from_messages(messages, [V6] * len(messages))).to_pylist()
    return found


@pytest.mark.parametrize(
    "change",
    [
        {"hops": 3},
        {"routing": (RoutingEntry("tcp://a", b"a"),)},
        {"ttl_ticks": 5},
        {"callback_points": (CallbackPoint(b"hopwire.receipt"),)},
        {"domain": "d", "signature": b"s"},
        {"socket_identity": b"x"},
        {"extensions": (b"e",)},
        {"trace_options": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_key_does_not_depend_on_what_routers_change(change: dict[str, Any]) -> None:
    one, other = keys(MESSAGE, MESSAGE.replace(**change))
    assert one == other
    assert len(one) == KEY_BYTES


@pytest.mark.parametrize(
    "change",
    [
        {"identity": b"orders.placed"},
        {"version": 2},
        {"partition": b"us"},
        {"body_frames": (b"one", b"tw")},
        {"correlation_id": b"c-2"},
        {"receiver_identity": b"\1other"},
        {"receiver_node_identity": b"elsewhere"},
        {"callback_key": 8},
        {"callback_receiver_identity": b"\0other"},
        {"callback_receiver_node_identity": b"other"},
        {"distribution": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_key_depends_on_what_the_message_says(change: dict[str, Any]) -> None:
    one, other = keys(MESSAGE, MESSAGE.replace(**change))
    assert one != other


def test_bytes_cannot_move_from_one_part_to_the_next() -> None:
    moved = (
        MESSAGE.replace(body_frames=(b"onet", b"wo")),
        MESSAGE.replace(body_frames=(b"onetwo",)),
        MESSAGE.replace(identity=b"orders.plac", partition=b"eeu"),
        MESSAGE.replace(body_frames=(b"one", b"two", b"")),
    )
    assert len(set(keys(MESSAGE, *moved))) == 5


def test_version_in_bytes_is_not_a_number() -> None:
    batch = batch_from_messages([Message(b"a", b"1"), Message(b"a", 1)], [V3, V5])
    one, other = message_keys(batch).to_pylist()
    assert one != other


def test_key_of_a_message_with_an_id_is_that_of_the_id() -> None:
    batch = batch_from_messages([MESSAGE, MESSAGE.replace(hops=2, body_frames=(b"x",)), MESSAGE], [V6] * 3)
    batch = batch.append_column("message_id", pa.array([b"id", b"id", b""]))
    first, second, third = message_keys(batch).to_pylist()
    assert first == second
    assert third == keys(MESSAGE)[0]


def test_row_that_is_not_a_message_has_no_key_and_slices_have_the_same() -> None:
    error = WireError("too_few_frames", "found 1")
    batch = batch_from_messages([MESSAGE, error, MESSAGE.replace(version=3)], [V6] * 3)
    first, none, last = message_keys(batch).to_pylist()
    assert none is None
    assert message_keys(batch.slice(2, 1)).to_pylist() == [last]
    assert message_keys(pa.Table.from_batches([batch, batch])).to_pylist() == [first, None, last] * 2
    assert message_keys(batch.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize("wire_format", [V5, V6])
def test_key_of_one_message_is_its_key_among_many(wire_format: Any) -> None:
    named = with_extension(MESSAGE, Extension(message_id=b"id", attempt=2))
    for each in (MESSAGE, MESSAGE.replace(body_frames=()), MESSAGE.replace(correlation_id=b"", version=3), named):
        batch = batch_from_messages([each], [wire_format])
        ids = pa.array([extension_of(each).message_id], pa.binary())
        assert message_keys(batch.append_column("message_id", ids)).to_pylist() == [message_key(each)]
    damaged = MESSAGE.replace(extensions=(MAGIC + b"\xc1",))
    assert message_key(damaged) == message_key(MESSAGE)
