"""Fair turns: who is next among those that handle one contract.

| side | candidate | weight |
|---|---|---|
| local | an actor here | 1 |
| remote | a node | the number of its actors that handle the contract |

So every actor weighs the same, wherever the actor lives. A remote candidate is a node and not an actor: a router adds
no receiver to a message that names none, and the node that gets the message takes turns among its own actors.

- Within a side, the candidate at the front is next. The candidate has as many turns as it weighs, then goes to the
  end. No other candidate moves.
- Between the sides, a remainder is carried on, as a line is drawn with pixels: of n picks the remote side gets
  n * remote / (local + remote), rounded to a whole number. With 1 actor here and 2 elsewhere, 9 picks are 3 and 6.
- Together: with k actors that stay, n picks give each actor n / k, give or take one.

A pick costs the same with one candidate and with a million. Each excluded candidate at the front adds one step.

The trap: the turns of a node come in a row. To spread the turns out would need a priority queue. Turns in a row have an
advantage: messages to one node share a train (`wire/train.py`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator
from typing import TypeAlias

from hopwire.model import Version

__all__ = ["CandidateIndex", "Candidates", "ContractKey", "Turns"]

ContractKey: TypeAlias = tuple[
    bytes, Version, bytes
]  # a contract, or the plain tuple of its fields, which is made faster


class Turns:
    """Candidates in the order of their turns; a candidate that is added twice has two turns in each round."""

    __slots__ = ("_current", "_left", "_order", "only", "total")

    def __init__(self) -> None:
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
        """Give a candidate one turn more; a new candidate comes last."""
        self._order[candidate] = self._order.get(candidate, 0) + 1
        self.total += 1
        self.only = candidate if len(self._order) == 1 else b""

    def remove(self, candidate: bytes) -> None:
        """Take one turn from a candidate; a candidate without turns is removed."""
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

    def is_remote_turn(self) -> bool:
        """Tell whether the next turn is the remote side's, and count it as taken."""
        remote = self.remote.total
        if not remote:
            return False
        total = self.local.total + remote
        carried = self._carried + remote
        self._carried = carried % total
        return carried >= total


class CandidateIndex(dict[ContractKey, Candidates]):
    """The candidates of every contract that has any."""

    __slots__ = ()

    def __missing__(self, contract: ContractKey) -> Candidates:
        self[contract] = candidates = Candidates()
        return candidates

    def add_local(self, contract: ContractKey, actor: bytes) -> None:
        """Let an actor of this node take turns."""
        candidates = self[contract]
        if candidates.local is NO_TURNS:
            candidates.local = Turns()
        candidates.local.add(actor)

    def add_remote(self, contract: ContractKey, node: bytes) -> None:
        """Let one actor more of a node take turns."""
        candidates = self[contract]
        if candidates.remote is NO_TURNS:
            candidates.remote = Turns()
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
