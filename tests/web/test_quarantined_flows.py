"""The flow that a quarantined sighting would have joined: by its id if that can be read, else by a lost hop."""

from __future__ import annotations

from typing import Any, cast

from hopwire.model.message import Message
from hopwire.model.units import NS_PER_SECOND
from hopwire.web.lake_views import LakeViews
from hopwire.web.quarantined_flows import flows_of_quarantined
from hopwire.wire import encode
from hopwire.wire.dissect import dissect
from hopwire.wire.formats import V5

NOW = 10 * NS_PER_SECOND


class Tables:
    """A lake that knows one flow and some hops."""

    def __init__(self, *lost_at_ns: int) -> None:
        self.lost_at_ns = lost_at_ns

    def near(self, table: str, **wanted: tuple[int, int]) -> str:
        return table

    def rows(self, sql: str, given: list[Any]) -> list[dict[str, Any]]:
        if "gold.flows" in sql:
            return [{"flow_id": b"order-1", "correlation_id": each} for each in given if each == b"order-1"]
        return [
            {"flow_id": f"lost-{at}".encode(), "from_node": b"shop", "to_node": b"stock", "left_at_ns": at}
            for at in sorted(self.lost_at_ns)
            if given[0] <= at <= given[1]
        ]


def found(frames: list[bytes], tables: Tables, peer: bytes = b"shop") -> dict[str, Any] | None:
    row = {"frames": frames, "node": b"stock", "peer": peer, "seen_at_ns": NOW}
    return flows_of_quarantined(cast("LakeViews", tables), [row]).get(0)


def damaged() -> list[bytes]:
    """A message of which a byte is wrong such that it is none any more, and its id can still be read."""
    frames = list(encode(Message(b"shop.order", 1, correlation_id=b"order-1", body_frames=(b"x",)), V5))
    for number, frame in enumerate(frames):
        for place in range(len(frame)):
            tried = list(frames)
            tried[number] = frame[:place] + bytes([frame[place] ^ 0x7F]) + frame[place + 1 :]
            if dissect(tuple(tried)).error is not None and b"order-1" in tried:
                return tried
    raise AssertionError("no byte does any harm")


def test_an_id_that_can_still_be_read_names_the_flow() -> None:
    home = found(damaged(), Tables())
    assert home is not None
    assert (home["id"], home["is_guess"]) == ("order-1", False)


def test_else_the_latest_hop_that_never_arrived_is_a_guess() -> None:
    nonsense = [b"shop", b"GET / HTTP/1.1"]
    home = found(nonsense, Tables(NOW - 1_000_000, NOW - 5_000_000, NOW - 9 * NS_PER_SECOND))
    assert home is not None
    assert (home["id"], home["is_guess"]) == (f"lost-{NOW - 1_000_000}", True)
    assert found(nonsense, Tables(NOW - 9 * NS_PER_SECOND)) is None
    assert found(nonsense, Tables(NOW - 1_000_000), peer=b"elsewhere") is None
    assert found(nonsense, Tables(NOW - 1_000_000), peer=b"") is None
