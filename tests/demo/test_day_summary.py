"""The summary of a day: links with their counts and latencies, and what is left without a lake."""

from __future__ import annotations

from pathlib import Path

from hopwire.demo.day_summary import _links, summarise
from hopwire.demo.supervisor import Day
from hopwire.demo.trouble import TROUBLES
from hopwire.security import OPEN

HOP = {"from_node": b"a", "to_node": b"b", "wire_format": 6, "fate": "arrived", "latency_us": 1}


def test_a_link_counts_what_was_sent_and_how_long_it_took() -> None:
    hops = [{**HOP, "latency_us": latency} for latency in range(1, 101)]
    hops += [{**HOP, "fate": "lost", "latency_us": None}, {**HOP, "fate": "duplicate"}, {**HOP, "fate": "dead"}]
    (link,) = _links(hops)
    assert (link.sent, link.lost, link.p50_us, link.p95_us, link.p99_us) == (101, 1, 50, 95, 99)


def test_without_a_lake_there_is_what_the_hubs_saw() -> None:
    summary = summarise(Day(Path("captures"), OPEN, {"order-001": "answered", "dropped-001": "Timeout"}, 1.0), None)
    assert summary.endings == {"Timeout": 1, "answered": 1}
    assert {met.name: met.seen for met in summary.troubles if met.seen} == {"dropped": {"Timeout": 1}}
    assert len(summary.troubles) == len(TROUBLES)
    assert summary.is_fine
