"""Files that are small and become large, and what reading them costs in memory."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hopwire.capture import SCHEMA, Sighting, batch_from_sightings
from tests.capture.recording.recordings import Recording, pcap

MB = 1024 * 1024
ZEROS = bytes(MB)
READ = """
import json, re, sys
from pathlib import Path
from hopwire.capture.sources import list_sources, read_source
import pyarrow.parquet, numpy

def peak_mb():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

before, faults, rows = peak_mb(), [], 0
for source in list_sources(sys.argv[1]):
    for batch in read_source(source, on_fault=faults.append):
        rows += len(batch)
print(json.dumps({"grown_mb": peak_mb() - before, "faults": [[f.kind, f.detail] for f in faults], "rows": rows}))
"""


class Cost(NamedTuple):
    """What it took to read a file."""

    grown_mb: float
    faults: list[tuple[str, str]]
    rows: int


def cost_of(path: Path) -> Cost:
    """Read a file in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, timeout=100, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return Cost(found["grown_mb"], [(kind, detail) for kind, detail in found["faults"]], found["rows"])


def sightings(frames: Sequence[Sequence[bytes]]) -> pa.RecordBatch:
    return batch_from_sightings(
        [Sighting(b"n", "", 1, number, 1, "in", b"", each) for number, each in enumerate(frames)]
    )


def compressed_arrow(path: Path, size_mb: int) -> Path:
    """One batch of so many megabytes of zeros, packed by zstd."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, SCHEMA, options=options) as stream:
        stream.write_batch(sightings([[ZEROS * 16] for _ in range(size_mb // 16)]))
    return path


def parquet(path: Path, frames: Sequence[Sequence[bytes]], **options: object) -> Path:
    """Frames as a Parquet file."""
    table = pa.table({"frames": pa.array(frames, pa.list_(pa.binary()))})
    pq.write_table(table, path, compression="zstd", **options)
    return path


def lying(path: Path, claimed: int) -> Path:
    """The same file with a footer that says that its columns unpack to so many bytes."""
    metadata = pq.read_metadata(path)
    column = metadata.row_group(0).column(0)
    data = path.read_bytes()
    size = struct.unpack("<I", data[-8:-4])[0]
    footer = data[-8 - size : -8]
    old, new = _zigzag(column.total_uncompressed_size), _zigzag(claimed)
    assert footer.count(old) >= 1
    changed = footer.replace(old, new)
    path.write_bytes(data[: -8 - size] + changed + struct.pack("<I", len(changed)) + b"PAR1")
    return path


def _zigzag(number: int) -> bytes:
    value, found = number << 1, []
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def recording(path: Path, said: bytes, *, is_greeted: bool = True) -> Path:
    """One end of a connection says so many bytes, in packets of 60 KB; the other may never say who it is."""
    heard = Recording()
    heard.open()
    if is_greeted:
        heard.greet()
    else:
        from tests.capture.recording.recordings import greeting, ready

        heard.say(greeting() + ready(b"ROUTER", b"node-a"))
    for start in range(0, len(said), 60_000):
        heard.say(said[start : start + 60_000])
    path.write_bytes(pcap(heard.packets))
    return path
