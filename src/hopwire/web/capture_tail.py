"""What nodes capture at this moment, in short rows: a thread follows a directory of captures.

Rows are provisional: one row is what one node saw, and nothing is verified or matched yet. The lake does that. When
more is written than anybody could read, only the newest sightings of each batch are decoded, and the others counted.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from hopwire.capture.file_faults import Fault
from hopwire.capture.reader import follow_capture
from hopwire.capture.times import time_text
from hopwire.errors import HopwireError
from hopwire.model.names import KINO_PREFIX, OWN_PREFIX
from hopwire.model.sighting import Direction, Sighting
from hopwire.model.sighting_batch import sightings_from_batch
from hopwire.report.words import node_label, text_or_hex
from hopwire.web.live_ring import LiveRing
from hopwire.web.page_content import id_in_address
from hopwire.wire.batch import decode_batch

__all__ = ["CaptureTail", "rows_from_batch"]

POLL_SECONDS = 0.3
MAX_DECODED = 500  # of a batch
DECODED = ("identity", "wire_format", "reason", "version", "version_raw", "correlation_id")


class CaptureTail:
    """Follows captures from a time on, and puts rows into a ring."""

    def __init__(self, directory: Path, ring: LiveRing, since_ns: int) -> None:
        self.directory, self.ring, self.since_ns = directory, ring, since_ns
        self.trouble = ""
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hopwire-tail", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait until the thread has ended."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        names: dict[bytes, str] = {}
        while not self._is_over.is_set():
            try:
                for batch in follow_capture(self.directory, self._wait, since=self.since_ns, on_fault=self._tell):
                    self.ring.add(rows_from_batch(batch, names), max(0, batch.num_rows - MAX_DECODED))
                    self.trouble = ""
            except (HopwireError, OSError) as error:
                self.trouble = str(error)
                self._wait()

    def _wait(self) -> bool:
        return not self._is_over.wait(POLL_SECONDS)

    def _tell(self, fault: Fault) -> None:
        self.trouble = str(fault)


def rows_from_batch(batch: pa.RecordBatch, names: dict[bytes, str]) -> list[dict[str, Any]]:
    """Give the newest sightings of a batch as rows for people; `names` learns the names of nodes."""
    newest = batch.slice(max(0, batch.num_rows - MAX_DECODED))
    decoded = decode_batch(newest.column("frames"), columns=list(DECODED))
    columns = {name: decoded.column(name).to_pylist() for name in DECODED}
    found = []
    for number, sighting in enumerate(sightings_from_batch(newest)):
        names[sighting.node] = sighting.node_name
        found.append(_row(sighting, {name: values[number] for name, values in columns.items()}, names))
    return found


def _row(sighting: Sighting, message: Mapping[str, Any], names: Mapping[bytes, str]) -> dict[str, Any]:
    is_message = sighting.direction != Direction.SKIPPED and message["identity"] is not None
    identity = message["identity"] if is_message else b""
    version = message["version"] if message["version_raw"] is None else text_or_hex(message["version_raw"])
    flow = message["correlation_id"] if is_message else None
    return {
        "seen_at": time_text(sighting.seen_at_ns),
        "node": node_label(sighting.node, sighting.node_name),
        "direction": sighting.direction,
        "peer": node_label(sighting.peer, names.get(sighting.peer, "")) if sighting.peer else "",
        "contract": f"{text_or_hex(identity)} v{version}" if is_message else "",
        "flow": text_or_hex(flow) if flow else "",
        "flow_address": f"/flow/{id_in_address(flow)}" if flow else "",
        "format": f"V{message['wire_format']}" if message["wire_format"] else "",
        "size_bytes": sum(map(len, sighting.frames)),
        "trouble": sighting.reason or (message["reason"] or "" if sighting.direction != Direction.SKIPPED else ""),
        "skipped": sighting.skipped,
        "is_service": identity.startswith((OWN_PREFIX, KINO_PREFIX)),
    }
