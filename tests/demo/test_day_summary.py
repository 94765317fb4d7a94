"""Two stories of the same requests: where they part is found, whoever has left something out."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopwire import errors
from hopwire.demo.day_summary import AGREES, Disagreement, _differences, _links, summarise
from hopwire.demo.supervisor import Day
from hopwire.demo.trouble import TROUBLES
from hopwire.flows.outcomes import OUTCOMES
from hopwire.security import OPEN

HOP = {"from_node": b"a", "to_node": b"b", "wire_format": 6, "fate": "arrived", "latency_us": 1}


def test_every_word_of_the_comparison_exists() -> None:
    assert all(hub == "answered" or hasattr(errors, hub) for hub in AGREES)
    assert frozenset().union(*AGREES.values()) <= set(OUTCOMES)


# fmt: off
STORIES: tuple[tuple[dict[str, str], list[tuple[str, str]], list[tuple[str, str, str]]], ...] = (
    # hub                  lake                              what differs
    ({"x": "answered"},    [("x", "answered")],              []),
    ({"x": "Timeout"},     [("x", "lost")],                  []),
    ({"x": "answered"},    [("x", "lost")],                  [("x", "answered", "lost")]),
    ({"x": "Timeout"},     [("x", "answered")],              [("x", "Timeout", "answered")]),
    ({"x": "answered"},    [],                               [("x", "answered", "nothing")]),
    ({},                   [("x", "answered")],              [("x", "nothing", "answered")]),
    ({"x": "answered"},    [("x", "answered")] * 2,          [("x", "answered", "answered, answered")]),
    ({"x": "Surprise"},    [("x", "lost")],                  [("x", "Surprise", "lost")]),
)
# fmt: on


@pytest.mark.parametrize(("hub", "lake", "differences"), STORIES)
def test_hub_and_lake_are_compared_request_by_request(
    hub: dict[str, str], lake: list[tuple[str, str]], differences: list[tuple[str, str, str]]
) -> None:
    requests = [{"flow_id": flow.encode(), "outcome": outcome} for flow, outcome in lake]
    assert _differences(hub, requests) == [Disagreement(*each) for each in differences]


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
