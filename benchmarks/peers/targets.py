"""What hopwire has to reach: a table, and what a run found beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.peers import PEERS
from benchmarks.peers.measure import Results

__all__ = ["P50", "RATE", "TARGETS", "Found", "Target", "found_in"]

RATE, P50 = "round_trips_per_second", "p50_us"
SMALL, LARGE = 256, 65_536


@dataclass(frozen=True, slots=True)
class Target:
    """One figure of hopwire beside the same figure of another row, in the same round."""

    figure: str
    ours: str
    other: str
    body_bytes: int
    factor: float | None  # at least so many times its round trips, at most so many times its p50; None: only shown


# fmt: off
TARGETS = (
    #      figure  hopwire             beside     body   factor
    Target(RATE,   "hopwire",          "echo",    SMALL, 2.5),
    Target(RATE,   "hopwire-uvloop",   "echo",    SMALL, None),
    Target(RATE,   "hopwire",          "nats",    SMALL, 2.5),
    Target(RATE,   "hopwire-uvloop",   "nats",    SMALL, None),
    Target(P50,    "hopwire",          "echo",    SMALL, 1.3),
    Target(P50,    "hopwire-uvloop",   "echo",    SMALL, 1.0),
    Target(RATE,   "hopwire",          "echo",    LARGE, 0.95),
    Target(RATE,   "hopwire-uvloop",   "echo",    LARGE, None),
    Target(RATE,   "hopwire-local",    "pykka",   SMALL, 1.5),
    Target(P50,    "hopwire-local",    "pykka",   SMALL, 0.2),
    Target(RATE,   "hopwire-capture",  "hopwire", SMALL, 0.9),
    Target(RATE,   "hopwire-signed",   "hopwire", SMALL, 0.6),
    Target(RATE,   "hopwire-signed-1", "hopwire", SMALL, 0.6),
    Target(RATE,   "hopwire-tls",      "hopwire", SMALL, None),
    Target(RATE,   "hopwire",          "bare",    SMALL, None),
    Target(P50,    "bare-uvloop",      "echo",    SMALL, None),
    Target(RATE,   "bare",             "echo",    LARGE, None),
    Target(RATE,   "bare-local",       "pykka",   SMALL, None),
    Target(RATE,   "bare-promised",    "pykka",   SMALL, None),
    Target(RATE,   "bare-written",     "bare",    SMALL, None),
    Target(RATE,   "bare-signed",      "bare",    SMALL, None),
    Target(RATE,   "hopwire",          "ray",     SMALL, 1.0),
    Target(RATE,   "hopwire",          "xoscar",  SMALL, 1.0),
    Target(RATE,   "hopwire",          "grpc",    SMALL, 1.0),
)
# fmt: on
BY_KEY = {peer.key: peer for peer in PEERS}


@dataclass(frozen=True, slots=True)
class Found:
    """What the rounds of a run say of one target."""

    target: Target
    ratios: tuple[float, ...]  # one for each round

    @property
    def is_met(self) -> bool | None:
        """Tell whether the median of the rounds reaches the target; None where there is nothing to reach."""
        factor, middle = self.target.factor, median(self.ratios)
        if factor is None:
            return None
        return middle >= factor if self.target.figure == RATE else middle <= factor

    @property
    def row(self) -> list[str]:
        """The row of the table."""
        target, is_rate = self.target, self.target.figure == RATE
        ours, other = BY_KEY[target.ours], BY_KEY[target.other]
        what = "round trips/s" if is_rate else "p50, one at a time"
        wanted = "" if target.factor is None else f"{'at least' if is_rate else 'at most'} {target.factor:g} x"
        rounds = f"{min(self.ratios):.2f} to {max(self.ratios):.2f}"
        verdict = {True: "met", False: "missed", None: ""}[self.is_met]
        where = f"{what}, {ours.where}, {size_text(target.body_bytes)}"
        return [ours.title, where, other.title, wanted, f"{median(self.ratios):.2f} x", rounds, verdict]


HEADER = ["", "measured", "beside", "target", "found", "rounds", ""]


def found_in(results: Results) -> Iterator[Found]:
    """Give what is known of each target; a target is left out where one of its two rows was not measured."""
    for target in TARGETS:
        ratios = results.ratios(target.ours, target.other, target.figure, target.body_bytes)
        if ratios:
            yield Found(target, tuple(ratios))


def size_text(size: int) -> str:
    """Write a size of bodies."""
    return f"{size} B" if size < 1024 else f"{size // 1024} KB"
