"""Conversations between nodes whose clocks change: what they see, and what the lake makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from hopwire.flows.clocks import clocks_from_crossings, rows_from_clocks
from hopwire.flows.coverage import Coverage, coverage_from_rows
from hopwire.flows.crossings import quickest_crossings
from hopwire.flows.hops import link
from hopwire.flows.rules import Rules
from hopwire.flows.spans import SourceSpan, placed
from tests.flows.story import BEGIN, MS, SECOND, Story

Ahead: TypeAlias = Callable[[int], int]  # how far a clock is ahead, by the true time since the begin
Ints: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]


def always(ahead_ns: int) -> Ahead:
    return lambda at: ahead_ns


def drifting(parts_per_million: int) -> Ahead:
    return lambda at: at * parts_per_million // 1_000_000


def set_ahead(ahead_ns: int, since_ns: int) -> Ahead:
    return lambda at: ahead_ns if at > since_ns else 0


class Talk:
    """Messages to and fro, each on its way for the same time."""

    def __init__(self, ahead: Mapping[bytes, Ahead], restarts: Mapping[bytes, tuple[int, ...]] | None = None) -> None:
        self.story = Story(*ahead)
        self.ahead, self.restarts = ahead, restarts or {}
        self.lives: dict[tuple[bytes, int], list[int]] = {}

    def say(self, *ways: tuple[bytes, bytes], seconds: int, every: int, travel_ns: int = MS) -> Talk:
        """Send a message each way, again and again."""
        for number in range(0, seconds, every):
            for place, (source, target) in enumerate(ways):
                at, key = number * SECOND + place * SECOND // 10, b"%s%s%d" % (source, target, number)
                self._see("out", source, target, at, key)
                self._see("in", target, source, at + travel_ns, key)
        return self

    def _see(self, direction: str, node: bytes, peer: bytes, at: int, key: bytes) -> None:
        own = BEGIN + at + self.ahead[node](at)
        life = 1 + sum(at > restart for restart in self.restarts.get(node, ()))
        self.lives.setdefault((node, life), []).append(own)
        see = self.story.out if direction == "out" else self.story.came
        see(node, peer, 0, key, seen_at_ns=own, incarnation=life)

    @property
    def spans(self) -> list[SourceSpan]:
        """What a source has that lacks nothing."""
        return [
            SourceSpan("s", node, life, "", 0, len(times) - 1, min(times), max(times), len(times))
            for (node, life), times in self.lives.items()
        ]

    @property
    def clocks(self) -> pa.Table:
        """The rows of silver.clocks."""
        known = placed(self.spans)
        crossings = quickest_crossings(self.story.sightings)
        return rows_from_clocks(known, clocks_from_crossings(self.ahead, crossings))

    @cached_property
    def coverage(self) -> Coverage:
        return coverage_from_rows(self.clocks)

    @property
    def hops(self) -> pa.Table:
        return link(self.story.sightings, self.coverage, Rules())

    @property
    def latencies_us(self) -> Ints:
        return np.array(self.hops["latency_us"].to_pylist())

    def latencies_after(self, seconds: int) -> Ints:
        """The latencies of what left later than some seconds after the begin."""
        hops = self.hops.to_pylist()
        return np.array([hop["latency_us"] for hop in hops if hop["left_at_ns"] > BEGIN + seconds * SECOND])
