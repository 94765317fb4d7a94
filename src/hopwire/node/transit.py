"""How long messages were on their way, beyond what the quickest of their connection took.

A time to live counts the time in nodes. The time in queues and sockets between them is counted here: a train says when
its messages were queued, by the clock of its sender. The two clocks have nothing in common, but the quickest train of a
connection waited for nothing. A train that took longer by their reckoning was late by the difference.

    the quickest:  queued at 100.000 s (sender), read at 7.001 s (here)    difference -92.999 s
    another one:   queued at 105.000 s,          read at 14.001 s          difference -90.999 s: 2 s late

- Clocks are monotonic, so nobody sets them. They drift, so a quickest train older than ten to twenty minutes counts no
  more.
- If the first train of a connection was late itself, lateness is underestimated by as much, until a quicker one comes.
"""

from __future__ import annotations

from hopwire.model.units import NS_PER_MINUTE

__all__ = ["Transit"]

WINDOW_NS = 10 * NS_PER_MINUTE
MOST_CONNECTIONS = 16_384  # that are remembered; the oldest are forgotten


class Transit:
    """The quickest train of each connection."""

    def __init__(self) -> None:
        self._quickest: dict[bytes, tuple[int, int, int]] = {}  # since when; the least in this window, and before

    def late_ns(self, connection: bytes, queued_ns: int, now_ns: int) -> int:
        """Give by how much later a train comes than the quickest of its connection."""
        took_ns = now_ns - queued_ns
        known = self._quickest.get(connection)
        if known is None:
            if len(self._quickest) >= MOST_CONNECTIONS:
                del self._quickest[next(iter(self._quickest))]
            self._quickest[connection] = now_ns, took_ns, took_ns
            return 0
        since_ns, least, before = known
        if now_ns - since_ns > WINDOW_NS:
            since_ns, least, before = now_ns, took_ns, least
            self._quickest[connection] = since_ns, least, before
        elif took_ns < least:
            least = took_ns
            self._quickest[connection] = since_ns, least, before
        late_ns = took_ns - (least if least < before else before)
        if late_ns > WINDOW_NS:  # no queue is so long: one of the two times made no sense
            self._quickest[connection] = now_ns, took_ns, took_ns
            return 0
        return late_ns

    def forget(self, connection: bytes) -> None:
        """Begin anew with a connection: a hello says that it is another one under the same name."""
        self._quickest.pop(connection, None)
