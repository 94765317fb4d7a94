"""Whether a node that is run can be given work, and whether it lives.

| state | `/health` | `/ready` |
|---|---|---|
| `starting`: actors are made, the node does not listen yet | 200 | 503 |
| `running`, and given peers have not answered, or nobody was met by `join`, for `grace_seconds` at most | 200 | 503 |
| `running` | 200 | 200 |
| `draining`: the node was told to end | 200 | 503 |
| `stopped` | 503 | 503 |

A node that was ready stays ready until it drains: that a peer is gone is no fault of this node. Example with 10 s of
grace: the node listens at 0 s and its peer answers at 3 s, so it is ready from 3 s on; without an answer from 10 s on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hopwire.node import Node
from hopwire.node.metric_families import families_of, text_from_families
from hopwire.runner.http_server import HttpAnswer, json_answer

__all__ = ["DRAINING", "RUNNING", "STARTING", "STOPPED", "Health"]

STARTING, RUNNING, DRAINING, STOPPED = "starting", "running", "draining", "stopped"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
SHOWN_PEERS = 20


class Health:
    """The state of a node that is run, and the pages that show it."""

    def __init__(
        self, node: Node, grace_seconds: float, clock: Callable[[], float], doors: tuple[str, ...] = ()
    ) -> None:
        self._node, self._grace_seconds, self._clock, self._doors = node, grace_seconds, clock, doors
        self._running_since = 0.0
        self._was_ready = False
        self.state = STARTING

    def run(self) -> None:
        """The node listens."""
        self.state, self._running_since = RUNNING, self._clock()

    def missing(self) -> tuple[str, ...]:
        """Give the addresses that a node still waits for before it is ready: all given peers, or any door."""
        if self._was_ready or self._clock() - self._running_since >= self._grace_seconds:
            return ()
        return self._node.unanswered or (() if self._node.peers else self._doors)

    def is_ready(self) -> bool:
        """Tell whether the node can be given work."""
        ready = self.state == RUNNING and not self.missing()
        self._was_ready = self._was_ready or ready
        return ready

    def pages(self) -> dict[str, Callable[[], HttpAnswer]]:
        """Give the pages by their paths."""
        return {"/ready": self._ready, "/health": self._health, "/metrics": self._metrics}

    def _ready(self) -> HttpAnswer:
        is_ready = self.is_ready()
        said: dict[str, Any] = {"ready": is_ready, "state": self.state}
        if self.state == RUNNING and not is_ready:
            said["waits_for"] = self.missing()[:SHOWN_PEERS]
        return json_answer(200 if is_ready else 503, said)

    def _health(self) -> HttpAnswer:
        lives = self.state != STOPPED
        return json_answer(
            200 if lives else 503, {"healthy": lives, "state": self.state, "peers": len(self._node.peers)}
        )

    def _metrics(self) -> HttpAnswer:
        return HttpAnswer(200, text_from_families(families_of(self._node)), PROMETHEUS)
