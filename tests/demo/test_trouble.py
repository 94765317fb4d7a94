"""Troubles are found by the correlation id; the wire does what they say and no more; nobody believes the stranger."""

from __future__ import annotations

import asyncio

import pytest

from hopwire.demo.agreement import AGREES
from hopwire.demo.shop import domains_of
from hopwire.demo.trouble import TROUBLES, FaultyWire, broken_frames, flow_id, forged_frames, trouble_of
from hopwire.errors import WireError
from hopwire.model import Message
from hopwire.node.transport import Frames
from hopwire.security import Verdict, verify
from hopwire.wire import V5, V6, WireFormat, decode, encode

MESSAGE = Message(b"shop.order", 1, body_frames=(b"an order",))

# fmt: off
WIRES: tuple[tuple[str, list[bytes]], ...] = (
    # trouble    the bodies that arrive
    ("order",    [b"an order"]),
    ("dropped",  []),
    ("doubled",  [b"an order", b"an order"]),
    ("altered",  [b"an ordes"]),
)
# fmt: on


@pytest.mark.parametrize("name", TROUBLES)
def test_a_correlation_id_names_its_trouble(name: str) -> None:
    assert flow_id(name, 1) == f"{name}-001".encode()
    assert trouble_of(flow_id(name, 12)) == name


@pytest.mark.parametrize("flow", [b"", b"order-001", b"\xff-001", b"droppedX-1"])
def test_other_correlation_ids_name_none(flow: bytes) -> None:
    assert trouble_of(flow) == ""


@pytest.mark.parametrize("name", [each.name for each in TROUBLES.values() if each.seen])
def test_what_a_hub_sees_fits_to_what_the_lake_shows(name: str) -> None:
    assert TROUBLES[name].shown[0] in AGREES[TROUBLES[name].seen]


@pytest.mark.slow
@pytest.mark.parametrize("fmt", [V5, V6], ids=lambda fmt: fmt.name)
@pytest.mark.parametrize(("name", "bodies"), WIRES)
def test_the_wire_does_what_the_trouble_says(name: str, bodies: list[bytes], fmt: WireFormat) -> None:
    frames = encode(MESSAGE.replace(correlation_id=flow_id(name, 1)), fmt)
    last = encode(MESSAGE.replace(correlation_id=b"last", body_frames=(b"last",)))
    arrived: list[bytes] = []

    async def story() -> None:
        is_done = asyncio.Event()

        def take(frames: Frames) -> int:
            arrived.append(decode(frames).body)
            if arrived[-1] == b"last":
                is_done.set()
            return 1

        there, here = FaultyWire(b"there", "tcp://127.0.0.1:0"), FaultyWire(b"here", "tcp://127.0.0.1:0")
        uri = there.start(take, lambda uri, frames, reason: None)
        here.start(lambda frames: 1, lambda uri, frames, reason: None)
        here.connect(uri)
        for each in (frames, last):
            assert here.send(uri, each, sum(map(len, each))) == ""
        await asyncio.wait_for(is_done.wait(), 10)
        await asyncio.gather(there.close(1), here.close(1))

    asyncio.run(story())
    assert arrived == [*bodies, b"last"]


# -- the stranger


def test_a_forged_order_is_whole_and_not_believed() -> None:
    message = decode(forged_frames(1))
    assert trouble_of(message.correlation_id) == "forged"
    assert verify(message, domains_of(b"the secret of the shop")) is Verdict.INVALID


def test_no_broken_message_can_be_read_and_they_break_in_several_ways() -> None:
    reasons = set()
    for number in range(1, TROUBLES["broken"].times + 1):
        with pytest.raises(WireError) as caught:
            decode(broken_frames(number))
        reasons.add(caught.value.reason)
    assert len(reasons) > 2
