"""Why nobody handles a message, in words: what a node knows that may be the reason.

    nobody handles payments.charge v1 that this node knows of; no answer yet from tcp://127.0.0.1:1 (connection refused)

The words are made only when an error is made. What other processes say of themselves is shown by `shown` before it gets
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from hopwire.model import Contract, Version
from hopwire.node.spawn import words_of
from hopwire.report.words import plural

__all__ = ["Refusals", "Surmise", "why_nobody"]

MOST_LOOKED_AT = 10_000  # contracts, among which another version is looked for
MOST_NAMED = 4  # addresses, refusals or versions in one line
MOST_REFUSALS = 16  # that are remembered: a stranger may make up names


class Refusals:
    """Who was not believed of late, and why, in words."""

    def __init__(self) -> None:
        self._whys: dict[bytes, tuple[str, str]] = {}

    def note(self, node: bytes, who: str, why: str) -> None:
        """Remember why a node was not believed, with words for the node; the oldest of many is forgotten."""
        self._whys.pop(node, None)
        if len(self._whys) >= MOST_REFUSALS:
            del self._whys[next(iter(self._whys))]
        self._whys[node] = who, why

    def forget(self, node: bytes) -> None:
        """A node is believed."""
        self._whys.pop(node, None)

    def words(self) -> list[str]:
        """Give one line for each, the latest first."""
        return [f"refused what {who} says: {why}" for who, why in reversed(self._whys.values())]


class Surmise(NamedTuple):
    """What may be the reason that nobody handles a contract."""

    contracts: Iterable[tuple[bytes, Version, bytes]]  # that somebody handles
    silent: Sequence[tuple[str, str]]  # addresses that have not answered, and why as far as that is known
    refusals: Sequence[str] = ()
    is_alone: bool = False  # whether no other node is known, and no address was given


def why_nobody(contract: Contract, known: Surmise, advice: str = "", who: str = "") -> str:
    """Say that nobody handles a contract, and what may be the reason; `who` are other words for the contract."""
    handled = [words for each in islice(known.contracts, MOST_LOOKED_AT) if (words := _other(contract, each))]
    if handled:
        version = words_of(Contract(contract.identity, contract.version, b"")).rpartition(" ")[2]
        partition = words_of(contract).partition(" in partition ")
        return f"{_listed(handled)} is handled, {version}{partition[1]}{partition[2]} is not"
    parts = [f"nobody handles {who or words_of(contract)} that this node knows of"]
    if known.silent:
        addresses = [f"{uri} ({why})" if why else uri for uri, why in known.silent]
        parts.append(f"no answer {'yet ' if advice else ''}from {_listed(addresses)}")
    parts += known.refusals[:MOST_NAMED]
    if known.is_alone:
        parts.append("this node knows no other node: give it peers=[...], or host the actor here")
    elif advice:
        parts.append(advice)
    return "; ".join(parts)


def _other(contract: Contract, found: tuple[bytes, Version, bytes]) -> str:
    return words_of(Contract(*found)) if found[0] == contract.identity and found != contract else ""


def _listed(words: Sequence[str]) -> str:
    more = len(words) - MOST_NAMED
    return ", ".join(words[:MOST_NAMED]) + (f" and {plural(more, 'other')}" if more > 0 else "")
