"""Structured Streaming feeds a lake: `foreachBatch` with pieces of segments, and the lake's own positions as the fence.

    feed_lake(spark, ["captures"], "lake", "checkpoint")           # lake follow --spark

Spark decides when, how much and from where: its checkpoint has the offsets. The step is the one that `lake follow` and
a build make, in the process of the driver (`build.py`). `foreachBatch` is at least once: a micro-batch may come again.
How far each segment is in the lake stands in its manifest, which the step puts down as its last act. So:

| the micro-batch has | the lake has | what is done |
|---|---|---|
| bytes 0 to 900 of a segment | nothing | bytes 0 to 900 are read |
| bytes 0 to 900 | bytes up to 900: the batch comes again, or the checkpoint is new | nothing |
| bytes 0 to 900 | bytes up to 500 | bytes 500 to 900 are read |
| bytes 900 to 1,800 | bytes up to 500 | refused: the checkpoint belongs to another lake |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hopwire.capture.segment import sealed_path
from hopwire.disk import local_path
from hopwire.errors import LakeError
from hopwire.lake.build import step_sources
from hopwire.lake.catalog import FoundSource, find_sources
from hopwire.lake.manifest import Manifest, StoredSource
from hopwire.lake.settings import LakeSettings
from hopwire.lake.source import HopwireSource
from hopwire.lake.store import manifest_numbers, read_manifest
from hopwire.places import Place, look_at, place_of
from hopwire.security import OPEN, Domains

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["feed_lake", "take_pieces"]


def feed_lake(
    spark: SparkSession,
    captures: Sequence[Place | str],
    lake: Place | str,
    checkpoint: Path | str,
    *,
    max_rows: int = 100_000,
    every_seconds: float | None = None,
    domains: Domains = OPEN,
    settings: LakeSettings | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> StreamingQuery:
    """Start a query that feeds a lake; without `every_seconds` the query takes what is there, and ends.

    `tell` is given a line for each fault of a capture, and for sightings that are too old for the lake.
    """
    spark.dataSource.register(HopwireSource)
    paths = json.dumps([str(place_of(each)) for each in captures])
    reader = spark.readStream.format("hopwire").option("pieces", "true").option("maxRowsPerBatch", str(max_rows))
    stream = reader.option("paths", paths).load()
    when: Any = {"availableNow": True} if every_seconds is None else {"processingTime": f"{every_seconds} seconds"}
    place = place_of(lake)

    def take(batch: DataFrame, number: int) -> None:
        pieces = [row.asDict() for row in batch.collect()]
        take_pieces(place, pieces, domains, settings, tell, batch.sparkSession)

    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(local_path(checkpoint)))
    return writer.trigger(**when).start()


def take_pieces(
    lake: Place,
    pieces: Iterable[Mapping[str, Any]],
    domains: Domains = OPEN,
    settings: LakeSettings | None = None,
    tell: Callable[[str], None] = lambda line: None,
    spark: SparkSession | None = None,
) -> Manifest:
    """Take pieces of segments into a lake; what the lake has already is left out.

    `spark` judges the lake as a whole where there is more to judge than a step can.
    """
    before = read_manifest(lake) if manifest_numbers(lake) else Manifest()
    found: dict[str, FoundSource] = {}
    ends: dict[str, int | None] = {}
    for piece in pieces:
        name, known = piece["segment"], before.sources.get(piece["segment"])
        _refuse_ahead(piece, known)
        if known is None or piece["is_sealed"] or piece["end"] > known.position:
            found |= find_sources(_where(place_of(piece["path"])))[0]
            ends[name] = None if piece["is_sealed"] else piece["end"]
    if not ends:
        return before
    built = step_sources(lake, found, ends=ends, domains=domains, settings=settings, spark=spark)
    for line in [*built.sealed_faults, *([built.left_out] if built.left_out else [])]:
        tell(line)
    return built.manifest


def _where(path: Place) -> Place:
    """Where a segment lies; it may have been sealed since Spark saw it."""
    return path if look_at(path) else sealed_path(path)


def _refuse_ahead(piece: Mapping[str, Any], known: StoredSource | None) -> None:
    has = known.position or known.size_bytes if known else 0
    if piece["begin"] > has:
        raise LakeError(
            f"{piece['segment']}: the checkpoint has read it up to byte {piece['begin']:,}, the lake up to {has:,}; "
            "the checkpoint belongs to another lake: name a new one, nothing is taken twice"
        )
