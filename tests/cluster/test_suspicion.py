"""From when on a member is dead, by who accuses it."""

from __future__ import annotations

from math import inf

import pytest

from hopwire.cluster.suspicion import Suspicion, verdict_ns

T = 1000
MONITORS = [b"a", b"b", b"c"]


# fmt: off
CASES = [
    # accusers                                       monitors    needed  verdict
    ({},                                             MONITORS,   2,      inf),
    ({b"a": (0, True), b"b": (100, True)},           MONITORS,   2,      300),
    ({b"a": (0, True), b"b": (100, False)},          MONITORS,   2,      4_100),
    ({b"a": (0, True)},                              MONITORS,   2,      24_000),
    ({b"a": (0, True)},                              MONITORS,   1,      200),
    ({b"a": (0, True)},                              [b"a"],     2,      200),
    ({b"a": (0, False)},                             [b"a"],     1,      24_000),
    ({b"x": (0, True), b"y": (50, True)},            MONITORS,   2,      24_050),
    ({b"x": (0, True), b"dead": (50, True)},         MONITORS,   2,      inf),
    ({b"x": (0, True)},                              [],         2,      inf),
]
# fmt: on


@pytest.mark.parametrize(("accusers", "monitors", "needed", "verdict"), CASES)
def test_the_more_independent_accusers_there_are_the_sooner_they_count(
    accusers: dict[bytes, tuple[int, bool]], monitors: list[bytes], needed: int, verdict: float
) -> None:
    suspicion = Suspicion((1, 1), accusers)
    assert verdict_ns(suspicion, monitors, lambda node: node != b"dead", T, needed) == verdict


def test_whose_connection_died_is_told_from_whose_silence() -> None:
    suspicion = Suspicion((1, 1), {b"a": (0, True), b"b": (0, False)})
    assert [suspicion.is_gone_for(node) for node in (b"a", b"b", b"c")] == [True, False, False]
