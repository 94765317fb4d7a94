"""`spark.readStream.format("hopwire").load(path)`: sightings as nodes write them, for Structured Streaming.

    stream = spark.readStream.format("hopwire").option("maxRowsPerBatch", 50_000).load("captures")

The offset of a stream is a position for each segment: behind the last whole batch that was read. A segment that is
sealed and was read to its end has its size. What lies between two offsets never changes, so a micro-batch that is done
again after a death has the same rows.

A micro-batch takes batches of all segments in the order of time (`step_admission.py`): `maxRowsPerBatch` sightings at
most,
unless a single batch has more. `trigger(availableNow=True)` takes what is there at the begin, and ends. Segments are
followed as they grow; Parquet is read once; recordings of the network are left out, since they cannot be read on.

With `pieces` a row is not a sighting but a piece of a segment: its name, where it lies, from which byte to which byte,
and whether the segment is sealed there. Whoever reads these pieces by other means needs no row to go through Java: that
is how a stream feeds a lake (`stream_feed.py`).

A segment that is gone before it was read ends the query, and the line says how much is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from hopwire.capture.reader import Wanted
from hopwire.capture.sources import Source, SourceKind, list_sources, read_source
from hopwire.errors import SettingsError
from hopwire.lake.step_admission import ReadSource, StepLimits, admit_after
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, RemotePath, place_of

__all__ = ["PIECES", "CaptureStream", "CaptureStreamOptions"]

MAX_BYTES = 256 * MEBIBYTE  # of captures for one micro-batch
ALL = StepLimits(2**62, 2**62)
PIECES = pa.schema(
    [
        ("segment", pa.string()),
        ("path", pa.string()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
        ("is_sealed", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class CaptureStreamOptions:
    """What a stream reads, and how."""

    places: tuple[Place, ...]
    wanted: Wanted
    on_fault: Callable[..., None]
    max_rows: int
    is_pieces: bool


class _PiecePartition(InputPartition):
    """A piece of a segment, or the list of all pieces, is a partition."""

    def __init__(self, pieces: Sequence[Source]) -> None:
        super().__init__(tuple((str(each.path), each.begin) for each in pieces))
        self.pieces = tuple(pieces)


class CaptureStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads captures as they grow."""

    def __init__(self, options: CaptureStreamOptions, schema: pa.Schema) -> None:
        self._options, self._schema = options, schema
        self._target: dict[str, Source] | None = None  # what there was when the query began, if it is to end there

    def initialOffset(self) -> dict[str, int]:
        """Nothing was read."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """As many sightings as the option says."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is there now: the query ends when that is read."""
        self._target = self._sources()

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        """Give how far the next micro-batch reads."""
        sources = self._sources() if self._target is None else self._target
        known = [
            ReadSource(each, start.get(name, 0), name in start)
            for name, each in sources.items()
            if start.get(name, 0) < each.size_bytes
        ]
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.max_rows
        limits = ALL if isinstance(limit, ReadAllAvailable) else StepLimits(rows, MAX_BYTES)
        admitted = admit_after(known, limits)
        end = dict(start)
        for name, position in admitted.positions.items():
            source = sources[name]
            is_whole = admitted.ends[name] is None and not source.is_open
            end[name] = source.size_bytes if is_whole else position
        return end

    def reportLatestOffset(self) -> dict[str, int]:
        """Give the sizes of all segments, for the status of the query."""
        return {name: each.size_bytes for name, each in self._sources().items()}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        """Give the pieces between two offsets."""
        begins = {name: start.get(name, 0) for name, position in end.items() if position > start.get(name, 0)}
        if not begins:
            return []
        sources = self._sources()
        pieces = []
        for name, begin in sorted(begins.items()):
            source = sources.get(name)
            if source is None or source.size_bytes < end[name]:
                found = "is gone" if source is None else f"has {source.size_bytes:,} bytes"
                raise SettingsError(
                    f"{name}: {found}, its bytes from {begin:,} to {end[name]:,} were not read; "
                    "put it back, or begin with a new checkpoint"
                )
            is_part = source.kind == SourceKind.SEGMENT
            pieces.append(replace(source, begin=begin, end=end[name]) if is_part else source)
        return [_PiecePartition(pieces)] if self._options.is_pieces else [_PiecePartition([each]) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the rows of a piece, or the pieces themselves."""
        assert isinstance(partition, _PiecePartition)
        if self._options.is_pieces:
            yield pa.RecordBatch.from_pylist([_piece_row(each) for each in partition.pieces], PIECES)
            return
        wanted = self._options.wanted
        for source in partition.pieces:
            for batch in read_source(
                source,
                since=wanted.since,
                until=wanted.until,
                nodes=wanted.nodes,
                columns=wanted.columns,
                on_fault=self._options.on_fault,
            ):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)

    def _sources(self) -> dict[str, Source]:
        """The sources that a stream can read, by name; a directory that is not there yet has none."""
        places = [place for place in self._options.places if isinstance(place, RemotePath) or place.exists()]
        sources = [each for place in places for each in list_sources(place)]
        return {each.name: each for each in sources if each.kind != SourceKind.PCAP and not each.fault}


def _piece_row(source: Source) -> dict[str, object]:
    end = source.size_bytes if source.end is None else source.end
    is_sealed = not source.is_open and end >= source.size_bytes
    return {
        "segment": source.name,
        "path": str(place_of(source.path)),
        "begin": source.begin,
        "end": end,
        "is_sealed": is_sealed,
    }
