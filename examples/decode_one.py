"""Take one message apart: from frames to a message, its frames by name, and what is said when it is broken.

Run it: python examples/decode_one.py
"""

from hopwire.model import CallbackPoint, Message
from hopwire.report import rows_from_dissection
from hopwire.wire import V5, WireError, decode, encode, recognise
from hopwire.wire.dissect import dissect


def main() -> None:
    message = Message(
        identity=b"orders.create",
        version=1,
        body_frames=(b'{"sku": "A-1", "count": 3}',),
        correlation_id=b"0d9f1c1e-6f2b-4b3c-9a54-3a1f4d6f0b11",
        callback_points=(CallbackPoint(b"orders.created"),),
        ttl_ticks=30 * 10_000_000,
    )
    frames = encode(message, V5)
    print(f"{recognise(frames)}, {len(frames)} frames")
    assert decode(frames) == message

    for row in rows_from_dissection(dissect(frames)):
        print(f"{row.position:>5}  {row.start:>2}:{row.stop:<3} {row.name:<32} {row.meaning}")

    frames[-3] = frames[-3][:5]  # the TTL, three bytes short
    try:
        decode(frames)
    except WireError as error:
        print(f"broken: {error}")


if __name__ == "__main__":
    main()
