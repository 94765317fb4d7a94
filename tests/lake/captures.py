"""Captures for the tests of the lake: messages of all formats, noise, and a place where sightings are missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa

from hopwire.capture import SCHEMA, Sighting, batch_from_sightings
from hopwire.security import Domain, Domains, Key, sign
from hopwire.wire import FORMATS, encode
from hopwire.wire.samples import sample_message

NOW = 1_700_000_000_000_000_000
SECRET = b"a secret that nobody may see"
DOMAINS = Domains(
    [
        Domain("orders", [Key("2024", SECRET)], ["orders.*"]),
        Domain("stock", [Key("2024", SECRET)], ["stock.*"], "legacy", "md5"),
        Domain("billing", [Key("2024", SECRET)], ["billing.*"], "legacy"),
    ]
)


def make_sightings(node: str, count: int = 40, seed: int = 1, skipped: int = 3) -> list[Sighting]:
    """Give what a node saw: every tenth is noise, the last says that some are missing."""
    chance = Random(f"{node}{seed}")
    rows = []
    for number in range(count):
        fmt = FORMATS[number % len(FORMATS)]
        signed = sign(sample_message(fmt, chance), DOMAINS, NOW, chance.randbytes(16))
        message = signed.replace(domain="", signature=b"") if "domain" in fmt.not_carried else signed
        frames = [b"noise"] if number % 10 == 9 else encode(message, fmt)
        direction = "out" if number % 2 else "in"
        rows.append(Sighting(node.encode(), node, 1, number, NOW + number, direction, b"peer", frames))
    if skipped:
        rows.append(Sighting(node.encode(), node, 1, count, NOW + count, "skipped", b"", (), "too_slow", "", skipped))
    return rows


def write_segment(path: Path, sightings: Sequence[Sighting], batch_rows: int = 16, is_sealed: bool = True) -> Path:
    """Write a segment as a node does."""
    with pa.OSFile(str(path), "wb") as file:
        stream = pa.ipc.new_stream(file, SCHEMA)
        for start in range(0, len(sightings), batch_rows):
            stream.write_batch(batch_from_sightings(sightings[start : start + batch_rows]))
        if is_sealed:
            stream.close()
    return path


def make_capture(place: Path, nodes: Sequence[str] = ("anna", "bert"), count: int = 40) -> Path:
    """Write a segment for each node."""
    place.mkdir(parents=True, exist_ok=True)
    for node in nodes:
        write_segment(place / f"{node}.arrows", make_sightings(node, count))
    return place
