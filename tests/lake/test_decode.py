"""The batch reader inside Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from hopwire.wire import SCHEMA, decode_batch
from tests.wire.golden import golden_vectors


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield decode_batch(batch.column("frames"))


@pytest.mark.spark
@pytest.mark.slow
def test_spark_workers_read_messages_as_this_process_does(spark: SparkSession) -> None:
    rows = [vector.frames for vector in golden_vectors() if len(vector.message.body) < 10_000] + [[b"noise"]]
    sightings = spark.createDataFrame([(frames,) for frames in rows], "frames array<binary>")
    messages = sightings.coalesce(1).mapInArrow(_decoded, from_arrow_schema(SCHEMA))
    expected = decode_batch(pa.array(rows, pa.list_(pa.binary())))
    assert messages.toArrow().cast(SCHEMA).to_pylist() == expected.to_pylist()
