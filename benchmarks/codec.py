"""One message at a time: the row codec beside msgspec's MessagePack of the same fields."""

from __future__ import annotations

from random import Random

import msgspec

from benchmarks.timing import best_times, print_table
from hopwire.model import CallbackPoint, Message, RoutingEntry
from hopwire.wire import FORMATS, WireFormat, decode, encode, select
from hopwire.wire.samples import sample_message
from hopwire.wire.walk import read

REPEAT = 2_000


def shapes(fmt: WireFormat) -> dict[str, Message]:
    """A message without entries, and one with two callback points and two routing entries."""
    message = sample_message(fmt, Random(1))
    points = tuple(CallbackPoint(name, message.version) for name in (b"orders.created", b"KINO.EXCEPTION"))
    entries = tuple(RoutingEntry(f"tcp://10.0.1.{host}:7400", b"9" * 36) for host in (11, 12))
    return {
        "no entries": message.replace(callback_points=(), routing=()),
        "2 callback points, 2 routing entries": message.replace(callback_points=points, routing=entries),
    }


def run() -> None:
    """Measure and print."""
    rows = []
    for fmt in FORMATS:
        for shape, message in shapes(fmt).items():
            rows.append(_measure(fmt, shape, message))
    header = ["format", "shape", "encode us", "decode us", "select us", "msgpack encode us", "msgpack decode us"]
    header += ["encode ratio", "decode ratio", "careful walk us"]
    print_table("One message, row codec beside msgspec MessagePack", header, rows)


def _measure(fmt: WireFormat, shape: str, message: Message) -> list[object]:
    frames = encode(message, fmt)
    packer, unpacker = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Message)
    packed = packer.encode(message)
    assert unpacker.decode(packed) == message == decode(frames)
    repeated = range(REPEAT)
    times = best_times(
        {
            "encode": lambda: [encode(message, fmt) for _ in repeated],
            "decode": lambda: [decode(frames) for _ in repeated],
            "select": lambda: [select(frames) for _ in repeated],
            "pack": lambda: [packer.encode(message) for _ in repeated],
            "unpack": lambda: [unpacker.decode(packed) for _ in repeated],
        },
        REPEAT,
    )
    walk = best_times({"walk": lambda: [read(frames) for _ in range(100)]}, 100, rounds=5)["walk"]
    figures = [f"{times[name] / 1000:.2f}" for name in ("encode", "decode", "select", "pack", "unpack")]
    ratios = [f"{times['encode'] / times['pack']:.1f}", f"{times['decode'] / times['unpack']:.1f}"]
    return [fmt, shape, *figures, *ratios, f"{walk / 1000:.0f}"]


if __name__ == "__main__":
    run()
