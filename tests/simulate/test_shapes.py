from __future__ import annotations

import pytest

from hopwire.simulate.kinds import KINDS
from hopwire.simulate.shapes import Kind, Mode, SeenAt, way_of


def kind(name: str) -> Kind:
    return next(each for each in KINDS if each.name == name)


# fmt: off
WAYS = (
    # kind                              step  way               hops
    ("ask",                             0,    (0,),             1),
    ("ask",                             1,    (0, 1),           1),   # an answer carries the way of its question
    ("ask over three",                  3,    (0, 1, 2, 3),     1),
    ("ask sent on",                     1,    (0, 1),           2),
    ("broadcast",                       2,    (0,),             1),   # each destination gets its own
    ("broadcast, as the original does", 2,    (0, 0, 0),        3),   # hops and way pile up
    ("key reused",                      2,    (0,),             1),   # a new question begins anew
    ("loop",                            16,   (0, *(1, 2) * 7, 1), 16),
)
# fmt: on


@pytest.mark.parametrize(("name", "step", "way", "hops"), WAYS)
def test_the_way_and_the_hops_are_those_that_routers_write(
    name: str, step: int, way: tuple[int, ...], hops: int
) -> None:
    assert way_of(kind(name).steps, step) == (way, hops)


def test_kinds_are_sound() -> None:
    for each in KINDS:
        assert each.outcomes or each.flow_outcome, each.name
        for number, step in enumerate(each.steps):
            assert step.cause < number, each.name
            assert step.of < number, each.name
            assert step.mode is Mode.NEW or step.of >= 0, each.name
            assert bool(step.reason) == (step.seen in (SeenAt.DEAD, SeenAt.TOLD)), each.name


def test_names_of_kinds_are_different() -> None:
    assert len({each.name for each in KINDS}) == len(KINDS)
