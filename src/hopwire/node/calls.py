"""What can be said of a call of a hub: to whom, for how long, in which flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypedDict

from hopwire.errors import SettingsError
from hopwire.model.names import is_actor, is_hub

__all__ = [
    "Address",
    "Handled",
    "Options",
    "Receipt",
    "StreamOptions",
    "TellOptions",
    "Towards",
    "check_seconds",
    "check_towards",
]

SHORTEST_SECONDS = 1e-6  # less than it takes to say anything
LONGEST_SECONDS = 10**9  # what the ticks of a time to live can say, and more than anybody waits


@dataclass(frozen=True, slots=True)
class Address:
    """Where one receiver lives: a node, and an actor or hub on it, or any that fits."""

    node: bytes
    receiver: bytes = b""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message has arrived; this says on which node."""

    node: bytes


@dataclass(frozen=True, slots=True)
class Handled:
    """Somebody handles a contract: how many actors on how many nodes, and how one of them is chosen, by which key."""

    contract: str
    choose: str
    key: str
    actors: int
    nodes: int


class Options(TypedDict, total=False):
    """What can be said of a question."""

    timeout: float  # seconds; also the time to live of the message
    to: Address | None  # one node, or one actor on it, instead of any
    partition: bytes
    correlation_id: bytes  # of the flow that it belongs to; a new one otherwise
    trace: bool  # whether the routers on the way write themselves down
    at_least_once: bool


class StreamOptions(TypedDict, total=False):
    """What can be said of a question that many answers come to."""

    timeout: float  # seconds, for the whole stream; also the time to live of its messages
    to: Address | None
    partition: bytes
    correlation_id: bytes
    trace: bool


class TellOptions(TypedDict, total=False):
    """What can be said of a message that nothing is waited for."""

    ttl: float | None  # seconds
    to: Address | None
    partition: bytes
    correlation_id: bytes
    trace: bool


Towards: TypeAlias = tuple[
    Address | None, bytes, bytes, bool
]  # to whom, partition, correlation id, whether it is traced


def check_seconds(name: str, seconds: float) -> None:
    """Refuse a time that is none."""
    if not isinstance(seconds, (int, float)) or not SHORTEST_SECONDS <= seconds < LONGEST_SECONDS:
        limits = f"from {SHORTEST_SECONDS:g} to {LONGEST_SECONDS:g}"
        raise SettingsError(f"{name} must be a number of seconds {limits}, found {seconds!r:.80}")


def check_towards(towards: Towards) -> None:
    """Refuse an address, a partition or a correlation id that is none."""
    to, partition, correlation_id, _ = towards
    if type(partition) is not bytes:
        raise SettingsError(f"partition must be bytes, found {partition!r:.80}")
    if type(correlation_id) is not bytes:
        raise SettingsError(f"correlation_id must be bytes, found {correlation_id!r:.80}")
    if to is not None and not _is_address(to):
        raise SettingsError(f"to must be an Address, as Node.host() gives it, found {to!r:.80}")


def _is_address(to: object) -> bool:
    if not isinstance(to, Address) or not isinstance(to.node, bytes) or not isinstance(to.receiver, bytes):
        return False
    return is_hub(to.receiver) or is_actor(to.receiver) or (not to.receiver and bool(to.node))
