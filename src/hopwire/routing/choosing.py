"""Who is chosen by key: the rings of the contracts that need one, and what sticky callers keep.

| rule | who says so | what is done here |
|---|---|---|
| turns, least loaded | `turns.py` | nothing |
| key | the ring of the contract | the same answer on every node with the same routes |
| sticky | what this node remembers, else the ring | an actor that came later takes no caller from one that lives |

A ring has all actors of one contract, here and elsewhere, that others may know: so every node asks the same ring. The
actors that are local-only have a ring of their own, which is asked where the other ring is empty.

A ring is made when it is needed first, and then changes with the routes. Contracts that nobody chooses by key have
none, and cost nothing. What changed in a ring is counted until somebody takes the counts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass

from hopwire.model import Contract
from hopwire.model.choice import Choice, Choose
from hopwire.routing.ring import Ring

__all__ = ["MOST_KEPT", "Moved", "Rings"]

MOST_KEPT = 10_000  # callers and flows that one node remembers the actor of; the longest unheard is forgotten first
TOLD_ACTORS = 16  # that are named in one change: a node may come with thousands


@dataclass(frozen=True, slots=True)
class Moved:
    """A change of a ring: how many actors came and went, the first of them by name, and the part of keys that moved."""

    contract: Contract
    came: int
    went: int
    actors: tuple[bytes, ...]
    share: float


class _RingChange:
    """What changed in a ring since somebody asked."""

    __slots__ = ("actors", "before", "came", "went")

    def __init__(self, before: int) -> None:
        self.before, self.came, self.went = before, 0, 0
        self.actors: dict[bytes, None] = {}

    def note(self, actor: bytes, is_there: bool) -> None:
        self.came, self.went = self.came + is_there, self.went + (not is_there)
        if len(self.actors) < TOLD_ACTORS:
            self.actors[actor] = None

    def moved(self, contract: Contract) -> Moved:
        """Give the change; keys stay that were with an actor which stays, and that nobody new has taken."""
        stayed = max(0, self.before - self.went)
        after = max(1, self.before + self.came - self.went)
        share = 1.0 - (stayed / self.before) * (stayed / after) if self.before else 1.0
        return Moved(contract, self.came, self.went, tuple(self.actors), min(1.0, max(0.0, share)))


class Rings:
    """The rings of all contracts that are chosen by key."""

    __slots__ = ("_changes", "_kept", "_most_kept", "_own", "_shared")

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._shared: dict[Contract, Ring] = {}
        self._own: dict[Contract, Ring] = {}  # of actors that only this node knows
        self._kept: OrderedDict[tuple[Contract, int], bytes] = OrderedDict()
        self._most_kept = most_kept
        self._changes: dict[Contract, _RingChange] = {}

    def __bool__(self) -> bool:
        return bool(self._shared)

    def __contains__(self, contract: Contract) -> bool:
        return contract in self._shared

    def open(self, contract: Contract, shared: Iterable[bytes], own: Iterable[bytes]) -> None:
        """Make the ring of a contract from the actors that are there."""
        self._shared[contract], self._own[contract] = Ring(shared), Ring(own)

    def add(self, contract: Contract, actor: bytes, is_own: bool = False) -> None:
        """Let an actor have keys, if its contract has a ring."""
        self._change(contract, actor, is_own, Ring.add)

    def remove(self, contract: Contract, actor: bytes, is_own: bool = False) -> None:
        """Undo `add`; a ring without actors is dropped."""
        self._change(contract, actor, is_own, Ring.remove)
        if contract in self._shared and not self._shared[contract] and not self._own[contract]:
            del self._shared[contract], self._own[contract]

    def _change(self, contract: Contract, actor: bytes, is_own: bool, do: Callable[[Ring, bytes], bool]) -> None:
        ring = (self._own if is_own else self._shared).get(contract)
        if ring is None:
            return
        before = len(ring)
        if do(ring, actor) and not is_own:
            change = self._changes.get(contract) or self._changes.setdefault(contract, _RingChange(before))
            change.note(actor, len(ring) > before)

    def find(self, contract: Contract, choice: Choice, exclude: Container[bytes] = (), is_trial: bool = False) -> bytes:
        """Give the actor of a choice, or b"" if nobody is there; a trial remembers nothing."""
        ring = self._shared.get(contract) or self._own.get(contract)
        if not ring:
            return b""
        if choice.choose is not Choose.STICKY:
            return ring.find(choice.number, exclude)
        place = contract, choice.number
        kept = self._kept.get(place, b"")
        if kept not in ring or kept in exclude:
            kept = ring.find(choice.number, exclude)
        if kept and not is_trial:
            self._kept[place] = kept
            self._kept.move_to_end(place)
            if len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
        return kept

    def take_changes(self) -> list[Moved]:
        """Give what changed since the last call, one value for each contract."""
        changes, self._changes = self._changes, {}
        return [change.moved(contract) for contract, change in changes.items()]
