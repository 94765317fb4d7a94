"""Who accuses a member, and from when on it counts as dead.

Each member weighs the accusations that it has heard by itself. The more independent they are, the sooner they count.

| accused by | dead after |
|---|---|
| two monitors whose connections died and could not be opened again | 0.2 T |
| one whose connection died, where no other monitor is there, or none can be reached by who weighs | 0.2 T |
| two monitors | 4 T |
| one monitor, or two others that live | 24 T |

T is the period of the members. The time runs from the last accusation that was needed.

Example: monitors A and B accuse X of silence at 10 s and 12 s. X is dead at 16 s: 4 T after the second one. Had B said
nothing, X would be dead at 34 s.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import inf

from hopwire.cluster.gossip import Accusation

__all__ = ["GRACE", "ONE", "TWO", "Suspicion", "verdict_ns"]

GRACE, TWO, ONE = 0.2, 4.0, 24.0  # periods that accusations stand before they count


@dataclass(slots=True)
class Suspicion:
    """Who accuses a member, since when, and whether their connections died."""

    age: tuple[int, int]  # of the record that they accuse
    accusers: dict[bytes, tuple[int, bool]] = field(default_factory=dict)
    said: dict[bytes, Accusation] = field(default_factory=dict)  # as they were signed
    verdict_ns: float = inf

    def is_gone_for(self, node: bytes) -> bool:
        """Tell whether a node accuses the member because its connection died."""
        return self.accusers.get(node, (0, False))[1]


def verdict_ns(
    suspicion: Suspicion,
    monitors: Collection[bytes],
    is_living: Callable[[bytes], bool],
    period_ns: int,
    needed: int,
) -> float:
    """Give the time at which a member is dead that says nothing; `needed` are the monitors whose connections died."""
    accusers = suspicion.accusers.items()
    counted = sorted(at for each, (at, _) in accusers if each in monitors)
    gone = sorted(at for each, (at, is_gone) in accusers if is_gone and each in monitors)
    everybody = sorted(at for each, (at, _) in accusers if is_living(each))
    verdict, needed = inf, min(needed, len(monitors))
    if needed and len(gone) >= needed:
        verdict = gone[needed - 1] + GRACE * period_ns
    if len(counted) >= 2:
        verdict = min(verdict, counted[1] + TWO * period_ns)
    if counted:
        verdict = min(verdict, counted[0] + ONE * period_ns)
    if len(everybody) >= 2:
        verdict = min(verdict, everybody[1] + ONE * period_ns)
    return verdict
