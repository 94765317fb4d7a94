"""How long questions and handlers take, by contract, as histograms.

A node measures if `NodeSettings(latencies=True)` says so. Each hub and each actor measures at most one message in
`EVERY_SECONDS`, and whoever is not due does nothing for it but compare two numbers. So a histogram shows how long
things take, and not how many there are: those are counted elsewhere. Example: of 5,000 questions in a second a hub
measures 100; of 50 that come one after another it measures all.

| histogram | from | to | labels |
|---|---|---|---|
| `asked` | the call of `ask` or `send` | its answer, receipt or error | contract, and how the question ended |
| `handled` | the message is taken from the inbox | the handler has returned, and its answer is sent | contract |

Labels are names of this process: contracts of payload classes that are used here, and classes of errors. What arrives
from outside never becomes a label. There is room for `MOST_SERIES` of each kind, and the rest share one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from hopwire.errors import HopwireError
from hopwire.model import Contract, contract_of
from hopwire.node.spawn import words_of

__all__ = ["BOUNDS_SECONDS", "EVERY_SECONDS", "Histogram", "Latencies"]

R = TypeVar("R")
EVERY_SECONDS = 0.01  # a hundred in a second show every latency that anybody looks for
# fmt: off
BOUNDS_SECONDS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)
# fmt: on
MOST_SERIES = 200  # each is some twenty lines of text whenever somebody looks
REST = "other"
ANSWERED, CANCELLED, FAILED = "answered", "cancelled", "failed"


class Histogram:
    """Counts durations, each in the first bound that is not below it; the last count is for all that are longer."""

    __slots__ = ("counts", "sum_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds


class Latencies:
    """The histograms of one node."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], Histogram] = {}
        self._handled: dict[str, Histogram] = {}
        self._by_question: dict[tuple[type, str], Histogram] = {}  # found again without putting a contract into words
        self._by_contract: dict[Contract | None, Histogram] = {}

    @property
    def asked(self) -> Mapping[tuple[str, str], Histogram]:
        """Questions of this node, by contract and how they ended."""
        return self._asked

    @property
    def handled(self) -> Mapping[str, Histogram]:
        """Messages that actors of this node handled, by contract."""
        return self._handled

    def of_question(self, kind: type, ended: str) -> Histogram:
        """Give the histogram of questions with such a payload that ended in some way."""
        found = self._by_question.get((kind, ended))
        if found is None:
            if len(self._by_question) >= MOST_SERIES:
                self._by_question.clear()  # classes that are made without end
            is_payload = getattr(kind, "__contract__", None) is not None
            place = (words_of(contract_of(kind)) if is_payload else REST, ended)
            if place not in self._asked and len(self._asked) >= MOST_SERIES:
                place = (REST, REST)
            found = self._by_question[kind, ended] = self._asked.setdefault(place, Histogram())
        return found

    def of_handler(self, contract: Contract | None) -> Histogram:
        """Give the histogram of a contract that is handled here; None stands for what has no handler."""
        found = self._by_contract.get(contract)
        if found is None:
            if len(self._by_contract) >= MOST_SERIES:
                self._by_contract.clear()
            place = REST if contract is None else words_of(contract)
            if place not in self._handled and len(self._handled) >= MOST_SERIES:
                place = REST
            found = self._by_contract[contract] = self._handled.setdefault(place, Histogram())
        return found

    async def asking(self, kind: type, call: Coroutine[Any, Any, R], clock: Callable[[], float]) -> R:
        """Wait for a question with such a payload, and count how long it took and how it ended."""
        began, ended = clock(), CANCELLED
        try:
            answer = await call
            ended = ANSWERED
            return answer
        except Exception as error:
            ended = type(error).__name__ if isinstance(error, HopwireError) else FAILED
            raise
        finally:
            self.of_question(kind, ended).observe(clock() - began)
