"""Sightings of messages on their way to the tasks that judge them: files of the run, in parts by a hash of the flow.

The workers that read captures have the rows at hand, and spread them at once if the whole lake is going to be judged
(`worker.py`). What the lake had before is spread by a job of its own (`flow_tasks.py`). Both count rows on the way, by
source and by contract.

The trap: sightings of one flow must be in one part. `flow_names` gives the flow without its minute, which is not known
before clocks are, and sightings of different names never meet.
"""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.flows.contract_parts import OF_MESSAGES, parts_of
from hopwire.flows.hops import flow_names
from hopwire.lake.exchange import parts_by, write_parts
from hopwire.lake.silver.messages import MESSAGES_TABLE, OF_SIGHTINGS, with_route
from hopwire.places import place_of

__all__ = ["COUNTED", "SPREAD_ROWS", "SightingSpread", "SpreadJob", "SpreadReport", "read_columns"]

SPREAD_ROWS = 250_000  # sightings of one file: about a hundred megabytes
COUNTED = {  # tables whose rows are counted by source, and the name of the count
    "bronze.sightings": "bronze_count",
    "silver.messages": "message_count",
    "silver.quarantine": "quarantine_count",
}
OF_SPREAD = tuple(dict.fromkeys([*OF_SIGHTINGS, "routing", *OF_MESSAGES]))


class SpreadJob(msgspec.Struct, frozen=True):
    """Where the run has its files, into how many parts rows go, and how many rows of a flow in one file are told."""

    work: str
    part_count: int
    large_rows: int


class SpreadReport(msgspec.Struct):
    """One file, and what was counted of its rows."""

    path: str
    parts: bytes  # of contracts: rows of PART_SCHEMA
    counts: dict[str, dict[str, int]]  # by source
    large: list[tuple[bytes, int]] = []  # flows with many sightings, by their names


def read_columns(table: str) -> list[str]:
    """Give the columns of a table that are spread or counted."""
    extra = {"bronze.sightings": ("direction", "skipped"), "silver.messages": OF_SPREAD}
    return ["segment", *extra.get(table, ())]


class SightingSpread:
    """The rows of one task on their way into files."""

    def __init__(self, job: SpreadJob, file_mode: int) -> None:
        self._job, self._file_mode = job, file_mode
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._counts: dict[str, Counter[str]] = {}
        self._reports: list[SpreadReport] = []

    def add(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        """Count rows of a table, and take those that are sightings of messages."""
        self._count(table, rows)
        if table == "silver.messages" and len(rows):
            some = rows.select(list(OF_SPREAD))
            self._waiting.append(pa.Table.from_batches([some]) if isinstance(some, pa.RecordBatch) else some)
            self._rows += len(rows)
            if self._rows >= SPREAD_ROWS:
                self._write()

    def close(self) -> list[SpreadReport]:
        """Write the rows that wait, and give the reports."""
        if self._waiting or self._counts:
            self._write()
        return self._reports

    def _count(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        for each in rows["segment"].value_counts().to_pylist():
            self._counts.setdefault(each["values"], Counter())[COUNTED[table]] += each["counts"]
        if "skipped" in rows.schema.names:
            gaps = rows.filter(pc.equal(rows["direction"], "skipped"))
            for row in gaps.select(["segment", "skipped"]).to_pylist():
                self._counts[row["segment"]].update(skipped_rows=1, skipped=row["skipped"])

    def _write(self) -> None:
        job = self._job
        path = place_of(job.work) / f"sightings-{uuid4().hex}.arrow"
        rows = pa.concat_tables([_nothing(), *self._waiting]).combine_chunks()
        narrow = with_route(rows)
        names = flow_names(narrow)
        write_parts(path, narrow, parts_by(job.part_count, names), job.part_count, self._file_mode)
        counts = {name: dict(count) for name, count in self._counts.items()}
        self._reports.append(SpreadReport(str(path), _bytes(parts_of(rows)), counts, _large(names, job.large_rows)))
        self._waiting, self._rows, self._counts = [], 0, {}


def _nothing() -> pa.Table:
    return MESSAGES_TABLE.schema.empty_table().select(list(OF_SPREAD))


def _large(names: pa.Array, large_rows: int) -> list[tuple[bytes, int]]:
    counts = names.value_counts()
    few = counts.filter(pc.greater_equal(counts.field("counts"), large_rows))
    return [(each["values"], each["counts"]) for each in few.to_pylist()]


def _bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
