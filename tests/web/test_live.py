"""What is live: the ring of newest rows, the tail of captures, pictures of nodes, and events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from hopwire.capture import CaptureWriter
from hopwire.model.message import Message
from hopwire.model.sighting import Direction, Sighting
from hopwire.model.sighting_batch import batch_from_sightings
from hopwire.web import capture_tail, live_pages
from hopwire.web.capture_tail import CaptureTail, rows_from_batch
from hopwire.web.live import Live
from hopwire.web.live_ring import LiveRing
from hopwire.web.page_server import FILTERS, page_app
from hopwire.wire import encode

MARKUP = "<script>x</script>"
PICTURE: dict[str, Any] = {
    "node": "n1", "name": "till", "uri": "tcp://127.0.0.1:1",
    "rates": {"messages_in": 5.0, "messages_out": 6.0, "bytes_in": 70.0, "bytes_out": 80.0},
    "counts": {"inbox_messages": 3, "outbox_messages": 4, "open_promises": 2},
    "dead_letters": {"no_route": 7},
    "members": [{"node": MARKUP, "uri": "tcp://x", "silent_seconds": 9.0, "is_silent": True, "routes": 1, "lines": 2,
                 "full_lines": 1, "waiting": 0}],
    "contracts": {"shop.order v1": [1, 2]},
    "partners": [],
}  # fmt: skip


def sighting(number: int, identity: str = "shop.order", direction: str = Direction.IN, reason: str = "") -> Sighting:
    frames = encode(Message(identity.encode(), 1, correlation_id=f"order-{number}".encode(), body_frames=(b"secret",)))
    return Sighting(b"till-1", "till", 1, number, 10**18 + number, direction, b"shop", frames, reason)


# -- the ring


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))), st.integers(1, 20), st.integers(1, 20))
def test_a_reader_of_the_ring_gets_or_misses_every_row(came: list[tuple[int, int]], size: int, most: int) -> None:
    ring = LiveRing(size)
    got, missed, at = [], 0, 0
    for shown, skipped in came:
        begin = ring.total + skipped
        ring.add(({"number": number} for number in range(begin, begin + shown)), skipped)
        rows, at, gone = ring.after(at, most)
        got += [row["number"] for row in rows]
        missed += gone
    assert len(got) + missed == ring.total == at
    assert got == sorted(set(got))


def test_what_a_reader_does_not_want_is_not_missed() -> None:
    ring = LiveRing(10)
    ring.add({"number": number} for number in range(8))
    assert ring.after(0, 10, lambda row: row["number"] % 2 == 0)[1:] == (8, 0)
    assert ring.after(0, 3, lambda row: row["number"] % 2 == 0).missed == 1


# -- the tail


def test_sightings_become_rows_for_people() -> None:
    batch = batch_from_sightings(
        [
            sighting(1),
            sighting(2, MARKUP, Direction.DEAD, "no_route"),
            Sighting(b"till-1", "till", 1, 3, 10**18, Direction.IN, b"shop", [b"GET / HTTP/1.1"]),
            Sighting(b"till-1", "till", 1, 4, 10**18, Direction.SKIPPED, b"", [], "queue_full", "", 12),
        ]
    )
    rows = rows_from_batch(batch, {b"shop": "the shop"})
    assert [row["contract"] for row in rows] == ["shop.order v1", f"{MARKUP} v1", "", ""]
    assert [row["flow"] for row in rows] == ["order-1", "order-2", "", ""]
    assert [bool(row["trouble"]) for row in rows] == [False, True, True, True]
    assert (rows[0]["node"], rows[0]["peer"], rows[3]["skipped"]) == ("till", "the shop", 12)


def test_of_a_large_batch_only_the_newest_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_tail, "MAX_DECODED", 3)
    rows = rows_from_batch(batch_from_sightings([sighting(number) for number in range(10)]), {})
    assert [row["flow"] for row in rows] == ["order-7", "order-8", "order-9"]


@pytest.mark.slow
def test_the_tail_follows_a_capture_as_it_is_written(tmp_path: Path) -> None:
    ring = LiveRing(100)
    tail = CaptureTail(tmp_path, ring, 0)
    tail.start()
    with CaptureWriter(tmp_path, b"till-1", incarnation=1, node_name="till") as writer:
        for number in range(20):
            one = sighting(number)
            writer.offer(one.seen_at_ns, Direction.IN, one.peer, one.frames)
    waited = asyncio.run(_until(lambda: ring.total >= 20))
    tail.stop()
    assert waited
    assert [row["flow"] for row in ring.after(0, 100).rows] == [f"order-{number}" for number in range(20)]


async def _until(is_so: Callable[[], bool]) -> bool:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)
    return True


# -- pages and events


async def _no_more() -> AsyncIterator[dict[str, Any]]:
    yield PICTURE
    await asyncio.Event().wait()


def test_a_page_without_a_lake_shows_nodes(tmp_path: Path) -> None:
    live = Live({"tcp://127.0.0.1:1": _no_more}, tmp_path)
    live.take("tcp://127.0.0.1:1", PICTURE)
    live.ring.add(rows_from_batch(batch_from_sightings([sighting(1, MARKUP), sighting(2, "hopwire.beat")]), {}))
    client = TestClient(page_app(None, ("testserver",), live=live))
    assert client.get("/").url.path == "/live"
    text = client.get("/live").text
    for word in ("till", "shop.order v1", "no_route 7", "silent", "order-1"):
        assert word in text
    assert MARKUP not in text
    assert "order-2" not in text  # what nodes say among themselves is left out
    assert "order-2" in client.get("/live?all=1").text
    assert "secret" not in text + client.get("/live.json").text
    assert [row["flow"] for row in client.get("/live.json?flow=order-1").json()["rows"]] == ["order-1"]
    assert client.get("/flows").status_code == 404
    assert client.get("/live?contract=" + "x" * 300).status_code == 400
    assert (
        "expected one of contract, node, flow, trouble, all" in client.get("/live.json?flows=order-1").json()["error"]
    )


def test_a_node_that_does_not_answer_is_said_and_its_last_picture_stays() -> None:
    live = Live({"tcp://127.0.0.1:1": _no_more})
    client = TestClient(page_app(None, ("testserver",), live=live))
    assert "waiting for its first answer" in client.get("/live").text
    live.take("tcp://127.0.0.1:1", {"trouble": "no answer in 5 s"})
    assert "no answer in 5 s" in client.get("/live").text
    live.take("tcp://127.0.0.1:1", PICTURE)
    live.take("tcp://127.0.0.1:1", {"trouble": "no answer in 5 s"})
    text = client.get("/live").text
    assert "What follows is old" in text
    assert "shop.order v1" in text


async def _told(live: Live, query: dict[str, str], count: int) -> list[tuple[str, dict[str, Any]]]:
    """The first events that a reader gets."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(loader=PackageLoader("hopwire.web"), autoescape=True)
    environment.filters |= FILTERS
    events = live_pages.events(live, query, environment, has_lake=False)
    found = []
    async with asyncio.timeout(30):
        async for event in events:
            name, data = event.splitlines()[:2]
            found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
            if len(found) == count:
                break
    await events.aclose()  # type: ignore[attr-defined]
    return found


def test_a_reader_who_has_paused_goes_on_and_is_told_what_is_gone() -> None:
    live = Live({})
    live.ring = LiveRing(5)
    live.ring.add(rows_from_batch(batch_from_sightings([sighting(number) for number in range(12)]), {}))
    (_, nodes), (kind, data) = asyncio.run(_told(live, {"after": "2"}, 2))
    assert nodes["html"].strip() == ""
    assert (kind, data["count"], data["missed"], data["next"]) == ("messages", 5, 5, 12)
    assert data["html"].index("order-11") < data["html"].index("order-7")
    assert live.readers == 0


def test_too_many_readers_and_nonsense_are_refused() -> None:
    live = Live({})
    live.readers = live_pages.MAX_READERS
    assert asyncio.run(_told(live, {}, 1))[0][0] == "refused"
    live.readers = 0
    assert asyncio.run(_told(live, {"after": "x"}, 1)) == [
        ("refused", {"why": "after: found 'x', expected a number from 0 on"})
    ]


def test_a_member_that_is_gone_is_shown_as_its_node_tells_of_it() -> None:
    live = Live({"tcp://here": None})  # type: ignore[dict-item]
    gone = [
        {"node": name, "uri": f"tcp://{name}", "at": "2026-01-31T12:00:01.000Z", "reason": reason, "why": why}
        for name, reason, why in (("till", "dead", MARKUP), ("stock", "left", "it said goodbye"))
    ]
    rates = dict.fromkeys(("messages_in", "messages_out", "bytes_in", "bytes_out"), 0.0)
    picture = {"rates": rates, "counts": {}, "dead_letters": {}, "members": [], "contracts": {}, "partners": []}
    live.take("tcp://here", {**picture, "gone": gone})
    live.take("tcp://here", {"trouble": "no answer"})  # the last picture stays
    [(_, data)] = asyncio.run(_told(live, {}, 1))
    shown = data["html"]
    assert '<span class="tag bad">lost</span> till' in shown
    assert '<span class="tag bad">left</span> stock' in shown
    assert "since 12:00:01" in shown
    assert MARKUP not in shown
