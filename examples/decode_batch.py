"""Decode many messages at once: Arrow in, Arrow out, and a reason for each row that is not a message.

Run it: python examples/decode_batch.py
"""

import random
from collections import Counter

import pyarrow as pa

from hopwire.wire import FORMATS, decode_batch, encode
from hopwire.wire.samples import break_frames, sample_message


def main() -> None:
    chance = random.Random(7)
    captured = []
    for number in range(2_000):
        fmt = FORMATS[number % len(FORMATS)]
        frames = encode(sample_message(fmt, chance), fmt)
        captured.append(break_frames(frames, chance) if number % 25 == 0 else frames)

    messages = decode_batch(pa.array(captured, pa.list_(pa.binary())))

    print(f"{messages.num_rows} rows, {messages.num_columns} columns: {', '.join(messages.schema.names[:6])}, ...")
    print("formats   ", dict(Counter(messages.column("wire_format").drop_null().to_pylist())))
    print("identities", Counter(messages.column("identity").drop_null().to_pylist()).most_common(3))
    print("reasons   ", dict(Counter(messages.column("reason").drop_null().to_pylist())))


if __name__ == "__main__":
    main()
