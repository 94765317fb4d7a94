"""When a message that must arrive is sent again: after the round trip that its node usually takes, and never too often.

- The round trip of a node is measured on receipts of first attempts, and smoothed as TCP does it: a mean and a spread.
  A receipt is late after mean + 4 x spread. Receipts came after 20, 22 and 18 ms: the next one is late after about
  0.1 s, which is the least. Under a burst they come after 2.0 s: the next one is late after about 3 s.
- All resends of a node share a budget: some for each first attempt, and some for each second. Who finds the budget
  empty waits for another pause. So a network that is too slow is not made slower by copies of everything.
- What is lost is not slow. Messages to a node keep their order. A message was sent at 1.0 s, a message that was sent at
  1.3 s has its receipt, and the first has none: the first was overtaken, so it is lost, or its receipt is. Every
  receipt earns some resends of what was overtaken. So a network that loses much and delivers the rest is sent what is
  lost, and a network that delivers nothing gets no more than the budget.
"""

from __future__ import annotations

__all__ = ["Retries"]

SHORTEST_SECONDS, LONGEST_SECONDS = 0.1, 10.0
MEAN_SHARE, SPREAD_SHARE = 0.125, 0.25  # of a new measurement
SPREADS = 4
FOR_EACH, FOR_EACH_SECOND = 0.03, 50.0  # resends for each first attempt, and for each second
MOST = 1000.0  # resends that can be saved up
FOR_EACH_RECEIPT = 4.0  # resends of what was overtaken: a network that loses half of all there and back needs three
MOST_EARNED = 500.0
OVERTAKEN_SECONDS = 0.2  # when a message left its queue is known as exactly as this


class Retries:
    """What is known of round trips, and how many resends are left."""

    def __init__(self) -> None:
        self._trips: dict[bytes, tuple[float, float]] = {}  # mean and spread, by node
        self._youngest: dict[bytes, float] = {}  # when the last message was sent that has a receipt, by node
        self._left = FOR_EACH_SECOND
        self._earned = 0.0
        self._at = 0.0

    def received(self) -> None:
        """Count a receipt."""
        self._earned = min(self._earned + FOR_EACH_RECEIPT, MOST_EARNED)

    def measured(self, node: bytes, seconds: float, sent_at: float) -> None:
        """Learn how long the receipt of a node took, for a message that was sent once, at that time."""
        self._youngest[node] = max(sent_at, self._youngest.get(node, sent_at))
        if node not in self._trips:
            self._trips[node] = (seconds, seconds / 2)
            return
        mean, spread = self._trips[node]
        spread += SPREAD_SHARE * (abs(seconds - mean) - spread)
        self._trips[node] = (mean + MEAN_SHARE * (seconds - mean), spread)

    def forget(self, node: bytes) -> None:
        """Forget a node that is gone."""
        self._trips.pop(node, None)
        self._youngest.pop(node, None)

    def late_after(self, nodes: tuple[bytes, ...]) -> float:
        """Give the seconds after which a receipt of all these nodes is late; the shortest where nothing is known."""
        trips = [self._trips[node] for node in nodes if node in self._trips]
        late = max((mean + SPREADS * spread for mean, spread in trips), default=SHORTEST_SECONDS)
        return min(max(late, SHORTEST_SECONDS), LONGEST_SECONDS)

    def first(self) -> None:
        """Count a first attempt."""
        self._left = min(self._left + FOR_EACH, MOST)

    def is_overtaken(self, nodes: tuple[bytes, ...], sent_at: float) -> bool:
        """Tell whether all these nodes gave receipts for what was sent after that time."""
        return bool(nodes) and all(self._youngest.get(node, 0.0) > sent_at + OVERTAKEN_SECONDS for node in nodes)

    def may_send(self, now: float, *, is_lost: bool = False) -> bool:
        """Take a resend from the budget, or of what is lost from what was earned; False says that none is left."""
        if is_lost and self._earned >= 1:
            self._earned -= 1
            return True
        self._left = min(self._left + (now - self._at) * FOR_EACH_SECOND, max(self._left, FOR_EACH_SECOND))
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
