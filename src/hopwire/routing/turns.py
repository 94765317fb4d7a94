"""Fair turns: who is next among those that handle one contract.

| side | candidate | weight |
|---|---|---|
| local | an actor here | 1 |
| remote | a node | the number of its actors that handle the contract, up to a limit |

So every actor weighs the same, wherever the actor lives. A remote candidate is a node and not an actor: a router adds
no receiver to a message that names none, and the node that gets the message takes turns among its own actors. The limit
(`MOST_TURNS`, or what a node was told) is for nodes that announce more actors than they have: with 999 announced, and
32 actors on other nodes, the others get half of the turns.

- Within a side, the candidate at the front is next. The candidate has as many turns as it weighs, then goes to the
  end. No other candidate moves.
- Between the sides, a remainder is carried on, as a line is drawn with pixels: of n picks the remote side gets
  n * remote / (local + remote), rounded to a whole number. With 1 actor here and 2 elsewhere, 9 picks are 3 and 6.
- Together: with k actors that stay, n picks give each actor n / k, give or take one.

Where a contract is chosen by load (`LightCandidates`), turns only propose: the candidate whose turn it is, and the next
one behind it. The one with less to do for each of its actors is picked, and the first if both have the same. The sides
are compared in the same way. What a candidate has to do is asked of the caller's `load`.

A pick costs the same with one candidate and with a million. Each excluded candidate at the front adds one step.

The trap: the turns of a node come in a row. To spread the turns out would need a priority queue. Turns in a row have an
advantage: messages to one node share a train (`wire/train.py`).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import TypeAlias

from hopwire.model import Version

__all__ = ["MOST_TURNS", "CandidateIndex", "Candidates", "ContractKey", "LightCandidates", "Load", "Turns"]

MOST_TURNS = 32  # of one node in a round of one contract: more than most nodes have actors of one kind

ContractKey: TypeAlias = tuple[
    bytes, Version, bytes
]  # a contract, or the plain tuple of its fields, which is made faster


Load: TypeAlias = Callable[[ContractKey, bytes], float]  # what a node or an actor has to do of one contract


class Turns:
    """Candidates in the order of their turns; a candidate that is added twice has two turns in each round.

    A candidate has at most `most` turns in a round, however often it is added.
    """

    __slots__ = ("_current", "_left", "_most", "_order", "_surplus", "only", "total")

    def __init__(self, most: int = MOST_TURNS) -> None:
        self._most = most
        self._surplus: dict[bytes, int] | None = None  # how often candidates were added beyond their turns, if any was
        self._order: OrderedDict[bytes, int] = OrderedDict()  # a dict finds its first key slowly after many removals
        self._current = b""
        self._left = 0
        self.only = b""  # the candidate, while there is one alone: every turn is its turn
        self.total = 0

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._order)

    def weight(self, candidate: bytes) -> int:
        """Give the turns that a candidate has in each round."""
        return self._order.get(candidate, 0)

    def add(self, candidate: bytes) -> None:
        """Give a candidate one turn more, up to the limit; a new candidate comes last."""
        weight = self._order.get(candidate, 0)
        if weight >= self._most:
            surplus = self._surplus = self._surplus or {}
            surplus[candidate] = surplus.get(candidate, 0) + 1
            return
        self._order[candidate] = weight + 1
        self.total += 1
        self.only = candidate if len(self._order) == 1 else b""

    def remove(self, candidate: bytes) -> None:
        """Take one turn from a candidate; a candidate without turns is removed."""
        surplus = self._surplus
        if surplus and candidate in surplus:
            surplus[candidate] -= 1
            if not surplus[candidate]:
                del surplus[candidate]
            return
        weight = self._order.get(candidate, 0) - 1
        if weight < 0:
            return
        self.total -= 1
        if weight:
            self._order[candidate] = weight
        else:
            del self._order[candidate]
        self.only = next(iter(self._order)) if len(self._order) == 1 else b""
        if candidate == self._current:
            self._left = min(self._left, weight)

    def pick(self, exclude: Container[bytes] = ()) -> bytes:
        """Give the candidate whose turn it is, or b"" if none is left."""
        if self.only and not exclude:
            return self.only
        if self._left and self._current not in exclude:
            self._left -= 1
            return self._current
        for candidate in self._order:
            if candidate not in exclude:
                break
        else:
            return b""
        self._order.move_to_end(candidate)
        self._current, self._left = candidate, self._order[candidate] - 1
        return candidate

    def following(self, exclude: Container[bytes] = ()) -> bytes:
        """Give the candidate that `pick` would give, and take no turn."""
        if self._left and self._current not in exclude:
            return self._current
        return next((candidate for candidate in self._order if candidate not in exclude), b"")


class _StillTurns(Turns):
    """The turns of others, as they are: a pick takes no turn."""

    __slots__ = ("_turns",)

    def __init__(self, turns: Turns) -> None:
        self._turns, self._order, self.total = turns, turns._order, turns.total

    def pick(self, exclude: Container[bytes] = ()) -> bytes:
        return self._turns.following(exclude)


class _LightTurns(Turns):
    """Turns that propose two candidates, of which the one with less to do is picked."""

    __slots__ = ("_load",)

    def __init__(self, most: int, load: Callable[[bytes], float]) -> None:
        super().__init__(most)
        self._load = load

    def take_over(self, turns: Turns) -> None:
        """Take the candidates of others, in their order."""
        self._order, self._surplus = turns._order.copy(), dict(turns._surplus or {})
        self._current, self._left, self.only, self.total = turns._current, turns._left, turns.only, turns.total

    def lightest(self) -> float:
        """Give what the candidate that would be picked has to do."""
        first, second = self._two(())
        return min(self._weighed(first), self._weighed(second) if second else math.inf)

    def pick(self, exclude: Container[bytes] = ()) -> bytes:
        first, second = self._two(exclude)
        super().pick(exclude)
        if second and self._weighed(second) < self._weighed(first):
            self._order.move_to_end(second)
            return second
        return first

    def following(self, exclude: Container[bytes] = ()) -> bytes:
        first, second = self._two(exclude)
        return second if second and self._weighed(second) < self._weighed(first) else first

    def _two(self, exclude: Container[bytes]) -> tuple[bytes, bytes]:
        """Give the candidate whose turn it is, and the next behind it; b"" where there is none."""
        found = [self._current] if self._left and self._current not in exclude else []
        for candidate in self._order:
            if len(found) == 2:
                break
            if candidate not in exclude and candidate not in found:
                found.append(candidate)
        first, second = (*found, b"", b"")[:2]
        return first, second

    def _weighed(self, candidate: bytes) -> float:
        return self._load(candidate) / self._order[candidate]


NO_TURNS = Turns()  # shared by all empty sides, and never added to: most contracts have only one side


class Candidates:
    """The two sides of one contract: actors here, nodes elsewhere."""

    __slots__ = ("_carried", "local", "remote")

    def __init__(self) -> None:
        self.local = NO_TURNS
        self.remote = NO_TURNS
        self._carried = 0

    def __len__(self) -> int:
        return len(self.local) + len(self.remote)

    def new_side(self, most: int) -> Turns:
        """Give a side without candidates."""
        return Turns(most)

    def is_remote_turn(self) -> bool:
        """Tell whether the next turn is the remote side's, and count it as taken."""
        remote = self.remote.total
        if not remote:
            return False
        total = self.local.total + remote
        carried = self._carried + remote
        self._carried = carried % total
        return carried >= total

    def still(self) -> Candidates:
        """Give both sides as they are: picks from what is given take no turn, and cost what a pick costs."""
        carried = self._carried
        still = _StillCandidates(self.is_remote_turn())
        self._carried = carried
        still.local, still.remote = _StillTurns(self.local), _StillTurns(self.remote)
        return still


class _StillCandidates(Candidates):
    """The two sides of a contract to look at."""

    __slots__ = ("_is_remote",)

    def __init__(self, is_remote: bool) -> None:
        super().__init__()
        self._is_remote = is_remote

    def is_remote_turn(self) -> bool:
        return self._is_remote


class LightCandidates(Candidates):
    """The two sides of a contract that is chosen by load."""

    __slots__ = ("_load",)

    def __init__(self, load: Callable[[bytes], float]) -> None:
        super().__init__()
        self._load = load

    def new_side(self, most: int) -> Turns:
        """Give a side without candidates."""
        return _LightTurns(most, self._load)

    def is_remote_turn(self) -> bool:
        """Tell whether the lighter side is the remote one; the side whose turn it is, if both have the same to do."""
        is_remote = super().is_remote_turn()
        local, remote = self.local, self.remote
        if isinstance(local, _LightTurns) and isinstance(remote, _LightTurns) and local.total and remote.total:
            here, there = local.lightest(), remote.lightest()
            return is_remote if here == there else there < here
        return is_remote


class CandidateIndex(dict[ContractKey, Candidates]):
    """The candidates of every contract that has any."""

    __slots__ = ("_load", "_most")

    def __init__(self, most: int = MOST_TURNS, load: Load | None = None) -> None:
        super().__init__()
        self._most, self._load = most, load

    def choose_by_load(self, contract: ContractKey) -> None:
        """Let the load of its candidates decide from now on, for as long as the contract has any."""
        candidates = self.get(contract)
        if candidates is None or type(candidates) is LightCandidates or self._load is None:
            return
        light = LightCandidates(partial(self._load, contract))
        light._carried = candidates._carried
        for name in ("local", "remote"):
            turns = getattr(candidates, name)
            if turns is not NO_TURNS:
                side = _LightTurns(self._most, light._load)
                side.take_over(turns)
                setattr(light, name, side)
        self[contract] = light

    def __missing__(self, contract: ContractKey) -> Candidates:
        self[contract] = candidates = Candidates()
        return candidates

    def add_local(self, contract: ContractKey, actor: bytes) -> None:
        """Let an actor of this node take turns."""
        candidates = self[contract]
        if candidates.local is NO_TURNS:
            candidates.local = candidates.new_side(self._most)
        candidates.local.add(actor)

    def add_remote(self, contract: ContractKey, node: bytes) -> None:
        """Let one actor more of a node take turns."""
        candidates = self[contract]
        if candidates.remote is NO_TURNS:
            candidates.remote = candidates.new_side(self._most)
        candidates.remote.add(node)

    def remove_local(self, contract: ContractKey, actor: bytes) -> None:
        """Undo `add_local`."""
        self[contract].local.remove(actor)
        self._drop_if_empty(contract)

    def remove_remote(self, contract: ContractKey, node: bytes) -> None:
        """Undo `add_remote`."""
        self[contract].remote.remove(node)
        self._drop_if_empty(contract)

    def _drop_if_empty(self, contract: ContractKey) -> None:
        if not self[contract]:
            del self[contract]
