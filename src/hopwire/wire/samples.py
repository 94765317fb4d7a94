"""Messages for demonstrations, benchmarks and tests: an ordinary day on the network, and what breaks it.

`sample_message` gives about 650 bytes of an order system: requests, replies on their way home, broadcasts.
`break_frames` damages frames as bad networks and bad programs do. Half of the time the damaged message can still be
read, but says something else.

Chance is an argument: the same `random.Random(seed)` gives the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from hopwire.model import CallbackPoint, Distribution, Message, RoutingEntry, TraceOptions, Version
from hopwire.model.names import ACTOR, HUB, KINO_EXCEPTION, guid_from_bytes
from hopwire.model.units import TICKS_PER_SECOND
from hopwire.wire.schema import WireFormat

__all__ = ["Chance", "break_frames", "sample_message"]

T = TypeVar("T")

CONTRACTS = (
    # domain     request                   reply
    ("orders", b"orders.create", b"orders.created"),
    ("orders", b"orders.cancel", b"orders.cancelled"),
    ("stock", b"stock.reserve", b"stock.reserved"),
    ("stock", b"stock.level", b"stock.level.report"),
    ("billing", b"billing.charge", b"billing.receipt"),
)
EMPTY_MESSAGE = Message(b"")
PARTITIONS = (b"", b"", b"EU-WEST", b"US-EAST")
TTL_SECONDS = (0, 5, 30, 30, 120)
NODES = tuple(f"tcp://10.0.{site}.{host}:7400" for site in (1, 2) for host in range(11, 15))
BROADCAST_SHARE, REPLY_SHARE, TRACED_SHARE = 0.1, 0.4, 0.7
SIGNATURE_BYTES = 32
BODY_BYTES = (128, 384)


class Chance(Protocol):
    """The methods of `random.Random` that this module calls."""

    def random(self) -> float:
        """Give a number from 0 to 1."""

    def randrange(self, start: int, stop: int, /) -> int:
        """Give a whole number below `stop`."""

    def choice(self, options: Sequence[T], /) -> T:
        """Give one of the options."""

    def randbytes(self, count: int, /) -> bytes:
        """Give some bytes."""


def sample_message(fmt: WireFormat, chance: Chance) -> Message:
    """Make one message of an order system, with all that the format can carry."""
    domain, request, reply = chance.choice(CONTRACTS)
    version: Version = 1 if fmt.version_type.is_number else b"1.0"
    partition = chance.choice(PARTITIONS)
    is_reply = chance.random() < REPLY_SHARE
    is_broadcast = not is_reply and chance.random() < BROADCAST_SHARE
    home, home_node = HUB + _guid(chance), _guid(chance)
    hops = chance.randrange(0, 6)
    is_traced = chance.random() < TRACED_SHARE
    message = Message(
        identity=reply if is_reply else request,
        version=version,
        partition=partition,
        body_frames=(_body(chance),),
        correlation_id=_guid(chance),
        receiver_identity=home if is_reply else b"" if is_broadcast else ACTOR + _guid(chance),
        receiver_node_identity=home_node if is_reply else b"",
        callback_points=(CallbackPoint(reply, version, partition), CallbackPoint(KINO_EXCEPTION, version)),
        callback_key=chance.randrange(1, 1_000_000),
        callback_receiver_identity=home,
        callback_receiver_node_identity=home_node,
        routing=tuple(RoutingEntry(chance.choice(NODES), _guid(chance)) for _ in range(hops if is_traced else 0)),
        hops=hops,
        trace_options=TraceOptions.ROUTING.value if is_traced else TraceOptions.NONE.value,
        distribution=Distribution.BROADCAST.value if is_broadcast else Distribution.UNICAST.value,
        ttl_ticks=chance.choice(TTL_SECONDS) * TICKS_PER_SECOND,
        domain=domain,
        signature=chance.randbytes(SIGNATURE_BYTES),
    )
    return message.replace(**{name: getattr(EMPTY_MESSAGE, name) for name in fmt.not_carried})


def _guid(chance: Chance) -> bytes:
    return guid_from_bytes(chance.randbytes(16))


def _body(chance: Chance) -> bytes:
    head = b'{"order":%d,"sku":"A-%04d","note":"' % (chance.randrange(1, 1_000_000), chance.randrange(0, 10_000))
    size = chance.randrange(*BODY_BYTES) - len(head) - 2
    return head + chance.randbytes((size + 1) // 2).hex().encode()[:size] + b'"}'


# -- faults


def break_frames(frames: Sequence[bytes], chance: Chance) -> list[bytes]:
    """Give the frames with one fault in them."""
    broken = list(frames)
    chance.choice(FAULTS)(broken, chance)
    return broken


def _any_frame(frames: list[bytes], chance: Chance) -> int:
    """One of the frames that are not empty; the last where all are."""
    return chance.choice([index for index, frame in enumerate(frames) if frame] or [len(frames) - 1])


def _truncate(frames: list[bytes], chance: Chance) -> None:
    index = _any_frame(frames, chance)
    frames[index] = frames[index][: chance.randrange(0, len(frames[index]) or 1)]


def _cut_last(frames: list[bytes], chance: Chance) -> None:
    frames[-1] = frames[-1][: chance.randrange(0, len(frames[-1]) or 1)]


def _extend(frames: list[bytes], chance: Chance) -> None:
    frames[_any_frame(frames, chance)] += chance.randbytes(chance.randrange(1, 5))


def _flip(frames: list[bytes], chance: Chance) -> None:
    index = _any_frame(frames, chance)
    frames[index] = _with(frames[index], chance, lambda byte: byte ^ (1 << chance.randrange(0, 8)))


def _fill(frames: list[bytes], chance: Chance) -> None:
    """A byte of all ones: a length below zero, a count too large, text that is not UTF-8."""
    frames[-1] = _with(frames[-1], chance, lambda byte: 255)


def _spoil_text(frames: list[bytes], chance: Chance) -> None:
    texts = [index for index, frame in enumerate(frames) if b"tcp://" in frame] or [_any_frame(frames, chance)]
    index = chance.choice(texts)
    frames[index] = frames[index].replace(b"tcp://", b"tcp:\xff/")


def _drop(frames: list[bytes], chance: Chance) -> None:
    del frames[chance.randrange(0, len(frames))]


def _repeat(frames: list[bytes], chance: Chance) -> None:
    index = chance.randrange(0, len(frames))
    frames.insert(index, frames[index])


def _with(frame: bytes, chance: Chance, change: Callable[[int], int]) -> bytes:
    if not frame:
        return frame
    at = chance.randrange(0, len(frame))
    return frame[:at] + bytes((change(frame[at]),)) + frame[at + 1 :]


FAULTS = (_truncate, _cut_last, _extend, _flip, _fill, _spoil_text, _drop, _repeat)
