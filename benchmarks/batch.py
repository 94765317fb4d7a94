"""Many messages at a time: the batch reader beside the row reader and beside copying the same data."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa

from benchmarks.timing import best_times, print_table
from hopwire.wire import FORMATS, decode, decode_batch, encode, encode_batch, recognise
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
    measured = {name: _measure(messages) for name, messages in captures().items()}
    header = ["messages", "bytes each", "row ns", "batch ns", "5 columns ns", "Arrow copy ns", "memcpy ns"]
    header += ["faster than rows", "of an Arrow copy", "of a memcpy", "batch"]
    print_table(f"decode_batch, {ROWS:,} messages a batch, one core", header, [_reading(*m) for m in measured.items()])
    header = ["messages", "row ns", "batch ns", "faster than rows"]
    print_table("encode_batch", header, [_writing(*m) for m in measured.items()])


def _measure(messages: list[list[bytes]]) -> dict[str, float]:
    frames = pa.array(messages, FRAMES)
    order = pa.array(np.arange(ROWS))
    batch = decode_batch(frames)
    assert batch.column("reason").null_count == ROWS
    assert encode_batch(batch).equals(frames)
    pairs = [(decode(message), recognise(message)) for message in messages]
    times = best_times(
        {
            "row": lambda: [decode(message) for message in messages],
            "batch": lambda: decode_batch(frames),
            "few": lambda: decode_batch(frames, columns=FEW),
            "copy": lambda: frames.take(order),
            "memcpy": lambda: [bytes(buffer) for buffer in frames.buffers() if buffer is not None],
            "row write": lambda: [encode(message, fmt) for message, fmt in pairs],
            "batch write": lambda: encode_batch(batch),
        },
        ROWS,
    )
    return {"bytes": frames.nbytes / ROWS, **times}


def _reading(name: str, ns: dict[str, float]) -> list[str]:
    figures = [f"{ns[what]:.0f}" for what in ("bytes", "row", "batch", "few", "copy", "memcpy")]
    ratios = [ns["row"] / ns["batch"], ns["batch"] / ns["copy"], ns["batch"] / ns["memcpy"]]
    return [name, *figures, *(f"{ratio:.1f} x" for ratio in ratios), f"{1000 / ns['batch']:.2f} M/s"]


def _writing(name: str, ns: dict[str, float]) -> list[str]:
    ratio = ns["row write"] / ns["batch write"]
    return [name, f"{ns['row write']:.0f}", f"{ns['batch write']:.0f}", f"{ratio:.1f} x"]


if __name__ == "__main__":
    run()
