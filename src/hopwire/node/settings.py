"""What can be set of a node, and what it counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hopwire.cluster.events import Pace
from hopwire.cluster.member_events import Tempo
from hopwire.errors import SettingsError
from hopwire.model.limits import Limits
from hopwire.node.mailbox import Overflow
from hopwire.routing import HOP_LIMIT, MOST_KEPT, MOST_TURNS
from hopwire.wire import FORMATS

__all__ = ["NodeSettings", "Statistics"]

NUMBERS = (
    "inbox_messages",
    "inbox_bytes",
    "outbox_messages",
    "outbox_bytes",
    "peer_routes",
    "hop_limit",
    "node_turns",
    "sticky_callers",
    "seen_messages",
)


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What can be set of a node, each with a default that is safe."""

    inbox_messages: int = 10_000  # that wait for one actor
    inbox_bytes: int = 64 * 1024 * 1024  # that wait for one actor
    outbox_messages: int = 10_000  # that wait for one peer
    outbox_bytes: int = 64 * 1024 * 1024  # that wait for one peer
    overflow: Overflow = Overflow.WAIT  # what happens when one of these is full
    peer_routes: int = 100_000  # that one peer may announce; the rest are refused
    hop_limit: int = HOP_LIMIT  # nodes that a message may pass
    node_turns: int = MOST_TURNS  # of one node in a round of one contract, however many actors it announces
    sticky_callers: int = MOST_KEPT  # whose actors are remembered, where a contract is sticky
    formats: tuple[int, ...] = tuple(fmt.number for fmt in reversed(FORMATS))  # that it tells others it reads
    seen_messages: int = 100_000  # that are remembered, to drop what arrives twice
    replay_seconds: float = 300.0  # how old a signed message may be
    clock_skew_seconds: float = 30.0  # by how much the clocks of nodes may differ
    limits: Limits = field(default_factory=Limits)  # how large a message may be
    pace: Pace = field(default_factory=Pace)  # how often peers are talked to, and how long their silence is borne
    tempo: Tempo = field(default_factory=Tempo)  # of a cluster: how often its members look after each other
    express: bool = True  # messages that repeat themselves take fewer steps; without it all take the ordinary way
    answer_foreign: bool = False  # questions of programs that are no nodes, over the connection that they came over
    telemetry: bool = False  # carry OpenTelemetry's context along, and make spans; needs hopwire[otel]
    latencies: bool = False  # measure how long questions and handlers take, for the metrics

    def __post_init__(self) -> None:
        for name in NUMBERS:
            _check(self, name, lambda value: isinstance(value, int) and value >= 1, "a number from 1")
        for name in ("express", "telemetry", "answer_foreign", "latencies"):
            _check(self, name, lambda value: isinstance(value, bool), "True or False")
        for name in ("replay_seconds", "clock_skew_seconds"):
            _check(self, name, lambda value: isinstance(value, int | float) and value >= 0, "a number of seconds")
        numbers = {fmt.number for fmt in FORMATS}
        _check(self, "formats", lambda value: value and {*value} <= numbers, f"some of {sorted(numbers)}")
        _check(self, "overflow", lambda value: value in tuple(Overflow), f"one of {', '.join(Overflow)}")
        object.__setattr__(self, "overflow", Overflow(self.overflow))


def _check(settings: NodeSettings, name: str, is_right: Callable[[Any], Any], expected: str) -> None:
    value = getattr(settings, name)
    if not is_right(value):
        raise SettingsError(f"{name} must be {expected}, found {value!r:.80}")


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a node has counted since it was made, and what is there now."""

    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    peers: int
    actors: int
    open_promises: int
    inbox_messages: int
    inbox_bytes: int
    outbox_messages: int
    outbox_bytes: int
    dead_letters: Mapping[str, int]
