"""Captures into the lake: Spark hands out the sources, its Python workers do the rest.

The driver never sees a row, only a report for each source or part of one. Which sources belong to which task stands in
a file of the run; the function that is sent to the workers carries the domains and nothing else of size. So keys are in
no plan, no table and no file: they travel as Spark sends code, over its own connections.

A large source is read in parts, small ones are put together (`catalog.py`); each part has its report and its files.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hopwire.errors import LakeError
from hopwire.lake.catalog import groups_of
from hopwire.lake.manifest import StoredFile, StoredSource, hash_of
from hopwire.lake.settings import LakeSettings
from hopwire.lake.split import DECODER
from hopwire.lake.store import Run
from hopwire.lake.worker import TABLES, Job, Report, Task, ingest_groups
from hopwire.security import Domains

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["decoder_basis", "ingest", "take_in"]

LOOK_SECONDS = 0.2  # between two looks at what is done

OnBytes = Callable[[int], None]  # how many bytes of captures are done


def decoder_basis(domains: Domains) -> str:
    """Give a hash of what decides how a row comes out; of keys only what is no secret."""
    rules = [
        (
            domain.name,
            domain.scheme,
            domain.algorithm,
            [(key.id, key.not_before_ns, key.not_after_ns) for key in domain.keys],
            [pattern.hex() for pattern in domain.identities],
        )
        for domain in domains.domains
    ]
    return hash_of(DECODER, rules)


def ingest(
    spark: SparkSession, run: Run, tasks: Sequence[Task], domains: Domains, settings: LakeSettings, on_bytes: OnBytes
) -> list[Report]:
    """Read the sources and write their rows into the staging of the run; give a report for each."""
    groups = groups_of(tasks, settings.task_bytes)
    job = Job(str(run.staging.absolute()))
    for table in TABLES:
        run.place(table)
    job.marks.mkdir(parents=True, exist_ok=True)
    job.groups.write_bytes(msgspec.json.encode(groups))
    numbers = spark.range(0, len(groups), 1, len(groups))
    with _watched(job.marks, on_bytes):
        rows = numbers.mapInArrow(ingest_groups(job, domains, settings), "report binary").collect()
    reports = [msgspec.json.decode(bytes(row.report), type=Report) for row in rows]
    if error := next((report.error for report in reports if report.error), ""):
        raise LakeError(error)
    return reports


@contextmanager
def _watched(marks: Path, on_bytes: OnBytes) -> Iterator[None]:
    """Meanwhile tell how much is done: each source that is done has left a mark, with its size in its name."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(LOOK_SECONDS):
            on_bytes(sum(int(mark.name.rpartition("-")[2]) for mark in marks.iterdir()))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def take_in(
    run: Run, reports: Sequence[Report], found: Mapping[str, StoredSource], basis: str, *, is_anew: bool
) -> dict[str, StoredSource]:
    """Put what was read into the tables of the run, in place of what was read of the same sources before.

    Sources that were read anew may have come out otherwise, though they are the same: a secret may have been corrected.
    """
    read: dict[str, list[Report]] = defaultdict(list)
    for report in reports:
        read[report.name].append(report)
    kept = {name: source for name, source in run.before.sources.items() if name not in read}
    sources = kept | {name: _with_counts(found[name], parts) for name, parts in read.items()}
    content = hash_of(basis, sorted((name, each.fingerprint) for name, each in sources.items()), is_anew and run.name)
    for table, schema in TABLES.items():
        old = run.before.tables[table].files if table in run.before.tables else ()
        files: list[StoredFile] = [file for file in old if file.source in kept]
        for report in reports:
            if table in report.files:
                files += run.written(table, report.name, [report.files[table]])
        run.add(table, content, schema, files)
    return sources


def _with_counts(stored: StoredSource, parts: Sequence[Report]) -> StoredSource:
    return msgspec.structs.replace(
        stored,
        row_count=sum(part.row_count for part in parts),
        skipped_rows=sum(part.skipped_rows for part in parts),
        skipped=sum(part.skipped for part in parts),
        # parts may all say the same of their file; of a source that is gone, what was said is still true
        faults=tuple(dict.fromkeys(fault for part in parts for fault in part.faults)) or stored.faults,
    )
