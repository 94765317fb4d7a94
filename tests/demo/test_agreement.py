"""Two stories of the same questions: every place where they part is found, whichever of them leaves a question out."""

from __future__ import annotations

import pytest

from hopwire import errors
from hopwire.demo.agreement import AGREES, Disagreement, disagreements, is_agreed
from hopwire.flows.schemas import OUTCOMES


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
    assert disagreements(hub, requests) == [Disagreement(*each) for each in differences]


def test_more_words_may_fit_this_once() -> None:
    assert not is_agreed("Timeout", ["failed"])
    assert is_agreed("Timeout", ["failed"], also={"failed"})
    assert not is_agreed("Timeout", ["failed", "failed"], also={"failed"})
