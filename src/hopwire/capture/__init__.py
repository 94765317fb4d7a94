"""Captures: the sightings of nodes on disk, written without holding up the network, and readable at any time.

A capture is complete, or says what is missing. `CaptureWriter` writes; `read_capture`, `follow_capture` and
`list_segments` read; `Sighting` is one row. `sources.py` also reads other files that hold sightings: Parquet of frames,
and recordings of the network (`recording/`).
"""

from hopwire.capture.file_faults import Fault, FaultKind
from hopwire.capture.reader import Segment, State, follow_capture, list_segments, read_capture
from hopwire.capture.segment_index import Summary
from hopwire.capture.settings import CaptureSettings, Sync
from hopwire.capture.shipping import SegmentShipper, ShipStatus
from hopwire.capture.writer import CaptureStatus, CaptureWriter
from hopwire.model.reasons import SKIP_REASONS
from hopwire.model.sighting import Direction, Sighting
from hopwire.model.sighting_batch import SCHEMA, batch_from_sightings, sightings_from_batch

__all__ = [
    "SCHEMA",
    "SKIP_REASONS",
    "CaptureSettings",
    "CaptureStatus",
    "CaptureWriter",
    "Direction",
    "Fault",
    "FaultKind",
    "Segment",
    "SegmentShipper",
    "ShipStatus",
    "Sighting",
    "State",
    "Summary",
    "Sync",
    "batch_from_sightings",
    "follow_capture",
    "list_segments",
    "read_capture",
    "sightings_from_batch",
]
