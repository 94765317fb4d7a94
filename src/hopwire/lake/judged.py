"""Rows that Spark brings together and Python workers judge: as a DataFrame, or straight into files.

Written, the result never goes back to the JVM: a worker writes the Parquet file of its partition itself and gives back
its name. Names are those of no other attempt, and only what comes back is published: as with captures (`worker.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from hopwire.lake.settings import LakeSettings
from hopwire.lake.worker import ParquetOutput

__all__ = ["Batches", "Judged"]

Batches: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
NAME = pa.schema([pa.field("name", pa.string())])


@dataclass(frozen=True, slots=True)
class Judged:
    """Rows in partitions, sorted as the judge wants them, and the judge: a function from their batches to others."""

    together: DataFrame
    judge: Batches
    schema: pa.Schema

    def frame(self) -> DataFrame:
        """Give what the judge says as a DataFrame."""
        return self.together.mapInArrow(self.judge, from_arrow_schema(self.schema)).select(self.schema.names)

    def write(self, place: Path, settings: LakeSettings) -> list[str]:
        """Let the workers write what the judge says; gives the names of the files."""
        judge, schema, directory = self.judge, self.schema, str(place.absolute())

        def write_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            output = ParquetOutput(Path(directory, f"{uuid.uuid4().hex}.parquet"), schema, settings, repeating=True)
            for batch in judge(batches):
                output.add(batch)
            if output.close():
                yield pa.RecordBatch.from_arrays([pa.array([output.path.name])], schema=NAME)

        return sorted(row.name for row in self.together.mapInArrow(write_batches, "name string").collect())
