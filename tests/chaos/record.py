"""What members write down while they live, line by line, so that a kill leaves everything that was known by then.

    ["asked", "a1-3-17", "send", "prompt", 10.2]         a1 in its fourth life began its call 17
    ["ended", "a1-3-17", "answered", 10.4, "b2"]         what the call came to; b2 gave the receipt
    ["handled", "a1-3-17", "b2-0", 10.3]                 a handler of b2 in its first life began with the message
    ["given up", "a1-3-17", "b2-0", "expired"]           b2 made a dead letter of the message
    ["lag", "a1-3", 0.2, 10.7, 0.1]                      the loop of a1 did not turn for 0.2 s, until then, in which its
                                                         thread had the processor for 0.1 s
    ["blind", 10.7]                                      a capture has skipped sightings since the last look

Times are seconds of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

__all__ = ["Handling", "Lag", "Promise", "Record", "Recorded", "life_of", "member_of", "read_records"]


class Record:
    """Writes lines; one write for each line, so that a kill tears none."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(self, *line: str | float) -> None:
        """Write a line."""
        os.write(self._file, msgspec.json.encode(line) + b"\n")


@dataclass(frozen=True, slots=True)
class Promise:
    """One call of a member, and what it came to; nothing where the member was killed first."""

    flow: str
    call: str
    temper: str
    asked_at: float = 0.0
    told: str = ""
    ended_at: float = 0.0
    holder: str = ""  # who gave the receipt


class Handling(NamedTuple):
    """A handler of a life began with a message, at this time."""

    life: str
    at: float


@dataclass(frozen=True, slots=True)
class Lag:
    """The loop of a life did not turn for so long, until this time."""

    life: str
    seconds: float
    at: float
    worked: float = 0.0  # of these seconds the thread had the processor


@dataclass(slots=True)
class Recorded:
    """All that was written down."""

    promises: dict[str, Promise] = field(default_factory=dict)  # by flow
    handled: dict[str, list[Handling]] = field(default_factory=lambda: defaultdict(list))  # by flow
    given_up: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # by flow: reasons
    lags: list[Lag] = field(default_factory=list)
    blind_at: list[float] = field(default_factory=list)  # in order


def life_of(flow: str) -> str:
    """Give the life of a member that a flow began in."""
    return flow.rpartition("-")[0]


def member_of(life: str) -> str:
    """Give the member that leads a life."""
    return life.rpartition("-")[0]


def read_records(directory: Path) -> Recorded:
    """Read what all members wrote down."""
    found = Recorded()
    for line in _lines(directory):
        match line:
            case ["asked", flow, call, temper, at]:
                found.promises[flow] = Promise(flow, call, temper, at)
            case ["ended", flow, told, at, holder]:
                found.promises[flow] = replace(found.promises[flow], told=told, ended_at=at, holder=holder)
            case ["handled", flow, life, at]:
                found.handled[flow].append(Handling(sys.intern(life), at))
            case ["given up", flow, _, reason]:
                found.given_up[flow].append(reason)
            case ["lag", life, seconds, at, *worked]:
                found.lags.append(Lag(life, seconds, at, *worked))
            case ["blind", at]:
                found.blind_at.append(at)
    found.blind_at.sort()
    return found


def _lines(directory: Path) -> Iterator[list[Any]]:
    for path in sorted(directory.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            yield msgspec.json.decode(line, type=list[Any])
