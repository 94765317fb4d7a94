"""Drawings: whatever came from the wire is escaped, and every step is there."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from hopwire.web.flow_steps import FlowStep
from hopwire.web.link_graph import LinkTotal, link_graph, link_matrix
from hopwire.web.sequence_diagram import sequence_diagram
from hopwire.web.svg import tag
from hopwire.web.time_chart import Bucket, bucket_width, time_chart
from hopwire.web.waterfall import MINIMAP_COLUMNS, StepTimes, minimap, waterfall

MARKUP = "<script>alert('x')</script>\"onload=\"x"


def step(number: int, fate: str = "arrived", **given: object) -> FlowStep:
    values: dict[str, object] = {
        "number": number, "parent": number - 1, "depth": number, "contract": f"shop.order{number} v1",
        "from_name": "shop", "to_name": "stock", "left_ns": 1_000 * number,
        "arrived_ns": None if fate == "lost" else 1_000 * number + 500,
        "latency_us": 0, "fate": fate, "remark": "", "is_bad": fate == "lost", "is_critical": False, "is_reply": False,
        "is_dead": fate == "dead", "is_corrected": True, "verdict": "", "left": None, "arrived": None,
    }  # fmt: skip
    return FlowStep(**{**values, **given})  # type: ignore[arg-type]


def times(*steps: FlowStep) -> dict[int, StepTimes]:
    return {each.number: StepTimes(each.begin_ns, each.end_ns, 10) for each in steps}


def test_markup_from_the_wire_is_text_in_every_drawing() -> None:
    odd = step(0, contract=MARKUP, from_name=MARKUP, to_name=MARKUP + "2", remark=MARKUP)
    link = LinkTotal(MARKUP, MARKUP + "2", 5, 1, 100, "/flows?node=x")
    for drawn in (
        waterfall([odd], times(odd), "/flow/x"),
        sequence_diagram([odd], "/flow/x"),
        link_graph([link]),
        link_matrix([link]),
        tag("text", MARKUP, title=MARKUP),
    ):
        assert "<script" not in drawn
        root = ElementTree.fromstring(drawn)
        assert all("onload" not in element.attrib for element in root.iter())


@pytest.mark.parametrize(
    "fate", ["arrived", "lost", "dead", "unwitnessed", "unsent", "in_flight", "duplicate", "foreign"]
)
def test_every_step_is_drawn_and_leads_to_its_message(fate: str) -> None:
    steps = [step(0), step(1, fate), step(2)]
    for drawn in (waterfall(steps, times(*steps), "/flow/x"), sequence_diagram(steps, "/flow/x")):
        assert [f'href="/flow/x/hop/{number}"' in drawn for number in range(3)] == [True] * 3


def test_no_word_beside_a_bar_leaves_the_drawing() -> None:
    words = ["told", "a remark of forty letters, or nearly so"]
    told = [step(number, "told", remark=words[number % 2], left_ns=1_000 * number) for number in range(8)]
    root = ElementTree.fromstring(waterfall(told, times(*told), "/flow/x"))
    beside = [each for each in root.iter() if each.get("class", "").startswith("took")]
    assert [each.text for each in beside] == 4 * words
    for each in beside:
        x, width = float(each.attrib["x"]), 6 * len(each.text or "")
        left = x - width if each.attrib["class"] == "took end" else x
        assert 0 < left < left + width <= 1_000


def test_a_step_that_is_lost_has_a_cross() -> None:
    assert 'class="cross"' in waterfall([step(0, "lost")], times(step(0, "lost")), "/flow/x")
    assert 'class="cross"' not in waterfall([step(0)], times(step(0)), "/flow/x")


def test_what_is_critical_inferred_or_not_believed_is_marked_with_both_clocks_and_their_error() -> None:
    steps = [step(0, is_critical=True), step(1, "unwitnessed"), step(2, verdict="invalid")]
    both = {each.number: StepTimes(each.begin_ns, each.end_ns, 10, (each.begin_ns, each.end_ns)) for each in steps}
    drawn = waterfall(steps, both, "/flow/x")
    for marks in ("fate-arrived critical", "fate-unwitnessed inferred", "fate-arrived suspicious"):
        assert f'class="step {marks}"' in drawn
    assert "signature: invalid" in drawn
    assert (drawn.count('class="band"'), drawn.count('class="raw"')) == (3, 3)
    assert 'class="raw"' not in waterfall(steps, times(*steps), "/flow/x")


def test_a_minimap_of_any_flow_has_few_marks() -> None:
    drawn = minimap(range(0, 5_000_000, 1_000), [7], "/flow/x?view=waterfall", range(100))
    assert 0 < drawn.count("<rect") <= MINIMAP_COLUMNS


@pytest.mark.parametrize("seconds", [0, 1, 10, 3_600, 86_400, 400 * 86_400])
def test_a_chart_has_a_hundred_columns_at_most(seconds: int) -> None:
    width = bucket_width(0, seconds * 10**9)
    assert seconds * 10**9 / width <= 100
    buckets = [Bucket(0, {"lost": 1}, 5), Bucket(seconds * 10**9 // width * width, {"answered": 2}, None)]
    drawn = time_chart(buckets, width, lambda begin, end: f"/flows?since={begin}")
    ElementTree.fromstring(drawn)


@pytest.mark.parametrize(
    ("width_ms", "label"), [(1, "06:11:21.015"), (10, "06:11:21.15"), (100, "06:11:22.5"), (1_000, "06:11:36")]
)
def test_times_below_a_chart_tell_its_columns_apart(width_ms: int, label: str) -> None:
    first = 1_763_446_281 * 10**9  # 06:11:21
    width = width_ms * 10**6
    buckets = [Bucket(first + at * width, {"answered": 1}, None) for at in range(100)]
    drawn = str(time_chart(buckets, width, lambda begin, end: "/flows"))
    labels = re.findall(r">(\d\d:\d\d:\d\d[.\d]*)<", drawn)
    assert label in labels
    assert len(set(labels)) == len(labels) == 7
