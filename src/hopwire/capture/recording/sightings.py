"""Sightings from a recording of the network: the messages of each connection, as if both ends had captured them.

Each message on the wire gives two rows: `out` at its sender and `in` at its receiver. Example: the first byte of a
message is seen at 10.000 s and its last byte at 10.002 s; the row `out` has 10.000 s, the row `in` has 10.002 s. So
every table that counts departures and arrivals works on recordings too, with one clock.

- A node has the identity that its socket announced. A socket without an identity has its address as name, such as
  `tcp://10.0.0.1:7400`.
- A ROUTER removes the first frame of each message that it sends, and puts a first frame in front of each message that
  it receives. This frame is not on the wire. Where one end is a ROUTER, the frame is put back, with the name of the
  other end in it.
- A train is taken apart into its messages.
- The incarnation is the time of the first packet. Sequences count from 0 for each node.

Whatever cannot be read is counted by its reason, and told at the end: one fault for each reason, however many
connections there are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from hopwire.capture.file_faults import Fault, FaultKind
from hopwire.capture.recording.connections import MESSAGE_BYTES, Connections, RecordedMessage
from hopwire.capture.recording.pcap import CutOff, Packet, read_packets
from hopwire.capture.recording.zmtp_listener import FRAME_BYTES
from hopwire.errors import WireError
from hopwire.model.limits import Limits
from hopwire.model.sighting import Direction, Sighting
from hopwire.model.sighting_batch import batch_from_sightings
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, open_file
from hopwire.wire.train import is_train, unpack_train

__all__ = ["read_pcap"]

BATCH_ROWS = 1024  # as in a segment
BATCH_BYTES = 16 * MEBIBYTE
READ_BYTES = MEBIBYTE


def read_pcap(path: Place, on_fault: Callable[[Fault], None], limits: Limits | None = None) -> Iterator[pa.RecordBatch]:
    """Give the messages of a recording as sightings; tell `on_fault` what is wrong and what could not be read."""
    limits = limits or Limits()
    connections = Connections(limits)
    rows = _SightingBatches(limits)
    with open_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        try:
            for packet in read_packets(file):
                rows.begin(packet)
                yield from rows.take(connections.hear(packet))
        except CutOff as cut:
            kind = FaultKind.CUT_OFF if cut.position or not size else FaultKind.FOREIGN
            on_fault(Fault(path, kind, str(cut), size - cut.position))
    yield from rows.take(connections.rest())
    if not rows.is_empty:
        yield rows.batch()
    for kind, detail, size_bytes in connections.troubles.lines():
        on_fault(Fault(path, kind, detail, size_bytes))


class _SightingBatches:
    """Sightings until there are enough for a batch."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._incarnation: int | None = None
        self._sequences: Counter[bytes] = Counter()
        self._rows: list[Sighting] = []
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._rows) >= BATCH_ROWS or self._size_bytes >= BATCH_BYTES

    @property
    def is_empty(self) -> bool:
        return not self._rows

    def batch(self) -> pa.RecordBatch:
        rows, self._rows, self._size_bytes = self._rows, [], 0
        return batch_from_sightings(rows)

    def begin(self, packet: Packet) -> None:
        """Take note of the first packet."""
        if self._incarnation is None:
            self._incarnation = packet.seen_at_ns

    def take(self, heard: Iterable[RecordedMessage]) -> Iterator[pa.RecordBatch]:
        """Add each message twice, as its sender and as its receiver saw it, and give the batches that are full."""
        for each in heard:
            for frames in self._messages(each):
                self._see(each.sender, each.first_ns, Direction.OUT, each.receiver, frames, each.is_routed)
                self._see(each.receiver, each.last_ns, Direction.IN, each.sender, frames, each.is_routed)
                if self.is_full:
                    yield self.batch()

    def _messages(self, heard: RecordedMessage) -> list[list[bytes]]:
        routed = [b"", *heard.frames]
        if not heard.is_routed or not is_train(routed):
            return [heard.frames]
        try:
            return [frames[1:] for frames in unpack_train(routed, self._limits)]
        except WireError:
            return [heard.frames]  # the reader of the message will say what is wrong

    def _see(
        self, node: bytes, seen_at_ns: int, direction: Direction, peer: bytes, frames: list[bytes], is_routed: bool
    ) -> None:
        whole = [peer, *frames] if is_routed else frames
        sequence = self._sequences[node]
        self._sequences[node] += 1
        self._rows.append(Sighting(node, "", self._incarnation or 0, sequence, seen_at_ns, direction, peer, whole))
        self._size_bytes += MESSAGE_BYTES + FRAME_BYTES * len(whole) + sum(map(len, whole))
