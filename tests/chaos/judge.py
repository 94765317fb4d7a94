"""What the lake says of a chaotic network, held against what each asker was told, promise by promise.

| asker | lake |
|---|---|
| was killed before it was told | may say anything |
| was told something | says what agrees with it by the table `AGREES`, or nothing where the question never left home |
| insisted, and was told Timeout | may say failed: after one bad word an asker that insists still waits for a good one |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hopwire.demo.agreement import is_agreed, outcomes_by_flow
from tests.chaos.network import Report

__all__ = ["Difference", "differences_of"]

# a question that found no way out of its node was seen by no capture as a departure; its dead letter may be missing too
# where the writer of its node was killed soon after
AT_HOME = frozenset({"NoRoute", "Unreachable", "Timeout", "Expired", "QueueFull", "Closed"})


class Difference(NamedTuple):
    """A promise of which asker and lake tell different stories."""

    flow: str
    call: str
    temper: str
    told: str
    lake: str


def differences_of(report: Report, requests: Iterable[Mapping[str, Any]]) -> tuple[list[Difference], int]:
    """Give the promises on which asker and lake do not agree, and how many were compared."""
    outcomes = outcomes_by_flow(requests, "correlation_id")
    compared, found = 0, []
    for promise in report.promises.values():
        if not promise.told:
            continue
        compared += 1
        lake = outcomes.get(promise.flow, [])
        if not lake and promise.told in AT_HOME:
            continue
        also = {"failed"} if promise.call == "insist" and promise.told == "Timeout" else ()
        if not is_agreed(promise.told, lake, also):
            found.append(Difference(promise.flow, promise.call, promise.temper, promise.told, ", ".join(lake)))
    return found, compared
