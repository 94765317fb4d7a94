"""Many messages at a time: the batch reader beside the row reader and beside copying the same data."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa

from benchmarks.timing import best_times, print_table
from hopwire.wire import FORMATS, decode, decode_batch, encode, encode_batch
from hopwire.wire.samples import sample_message

ROWS = 16_384
FEW = ("identity", "correlation_id", "hops", "ttl_ticks", "reason")
FRAMES = pa.list_(pa.binary())


def captures() -> dict[str, list[list[bytes]]]:
    """Messages of each format, and of all four in turns."""
    chance = Random(7)
    of_format = {fmt.name: [encode(sample_message(fmt, chance), fmt) for _ in range(ROWS)] for fmt in FORMATS}
    mixed = [of_format[FORMATS[row % len(FORMATS)].name][row] for row in range(ROWS)]
    return {"mixed": mixed, **of_format}


def run() -> None:
    """Measure and print."""
    rows, written = [], []
    for name, messages in captures().items():
        frames = pa.array(messages, FRAMES)
        order = pa.array(np.arange(ROWS))
        batch = decode_batch(frames)
        assert batch.column("reason").null_count == ROWS
        assert encode_batch(batch).equals(frames)
        decoded = [decode(message) for message in messages]
        fmts = [next(f for f in FORMATS if f.number == number) for number in batch.column("wire_format").to_pylist()]
        pairs = list(zip(decoded, fmts, strict=True))
        times = best_times(
            {
                "row": lambda messages=messages: [decode(message) for message in messages],
                "batch": lambda frames=frames: decode_batch(frames),
                "few": lambda frames=frames: decode_batch(frames, columns=FEW),
                "copy": lambda frames=frames, order=order: frames.take(order),
                "memcpy": lambda frames=frames: [bytes(buffer) for buffer in frames.buffers() if buffer is not None],
                "row write": lambda pairs=pairs: [encode(message, fmt) for message, fmt in pairs],
                "batch write": lambda batch=batch: encode_batch(batch),
            },
            ROWS,
        )
        size = frames.nbytes / ROWS
        rows.append(
            [
                name,
                f"{size:.0f}",
                *(f"{times[what]:.0f}" for what in ("row", "batch", "few", "copy", "memcpy")),
                f"{times['row'] / times['batch']:.1f} x",
                f"{times['batch'] / times['copy']:.1f} x",
                f"{times['batch'] / times['memcpy']:.1f} x",
                f"{1e3 / times['batch']:.2f} M/s",
            ]
        )
        write_ratio = times["row write"] / times["batch write"]
        written.append([name, f"{times['row write']:.0f}", f"{times['batch write']:.0f}", f"{write_ratio:.1f} x"])
    header = ["messages", "bytes each", "row ns", "batch ns", "5 columns ns", "Arrow copy ns", "memcpy ns"]
    header += ["faster than rows", "of an Arrow copy", "of a memcpy", "batch"]
    print_table(f"decode_batch, {ROWS:,} messages a batch, one core", header, rows)
    print_table("encode_batch", ["messages", "row ns", "batch ns", "faster than rows"], written)


if __name__ == "__main__":
    run()
