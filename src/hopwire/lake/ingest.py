"""Captures into the lake: Spark hands out the sources, its Python workers do the rest.

The driver never sees a row, only a report for each source or part of a source. A file of the run says which sources
belong to which task. The function that is sent to the workers carries the domains, and nothing else of size. So keys
are in no plan, no table and no file: keys travel as Spark sends code, over its own connections.

A large source is read in parts, small sources are put together (`catalog.py`). Each part has its report and its files.

The numbers of sightings show whether captures are complete (`flows/spans.py`).
- Numbers that are missing are told of the source behind the gap, and the build goes on: the node counts as blind there.
- Numbers that two sources have would count twice: the build is refused. Example: the node `anna` has the sightings 0 to
  99 in `a.arrows` and 90 to 199 in `b.arrows`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from hopwire.errors import LakeError, PlaceError
from hopwire.flows.schemas import OPEN
from hopwire.flows.spans import PlacedSpan, SourceSpan, first_shared, joined_spans
from hopwire.lake.bronze.forgotten import FORGOTTEN_TABLE, ForgottenNotes
from hopwire.lake.bronze.spans import SPANS
from hopwire.lake.catalog import groups_of
from hopwire.lake.intake import Intake
from hopwire.lake.known_spans import KnownSpans, put_spans, spans_of
from hopwire.lake.manifest import StoredSource, hash_of
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.messages import DECODER
from hopwire.lake.spreading import SpreadJob
from hopwire.lake.store import LakeRun, read_whole
from hopwire.lake.worker import INGESTED, IngestJob, IngestReport, IngestTask, ingest_group, ingest_groups
from hopwire.places import Place, list_files, make_place, put
from hopwire.report.words import text_or_hex
from hopwire.security import Domains

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["decoder_basis", "ingest", "ingest_here", "refuse_less", "take_in"]

LOOK_SECONDS = 0.2  # between two looks at the progress
LOOK_SHARE = 0.02  # of the time, at most: thousands of sources have thousands of marks
FILES = 2  # how files lie in a lake: raise it, and the next build writes all files of a lake anew
NOTHING = StoredSource(0, "")
MISSING = "sightings are missing"  # so begins the fault of missing numbers, which a build with more sources replaces

OnBytes = Callable[[int], None]  # how many bytes of captures are done


def decoder_basis(domains: Domains) -> str:
    """Give a hash of all that decides how a row comes out; of a key the hash has the id and the times, no secret."""
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
    return hash_of(DECODER, SPANS, FILES, rules)


def ingest(
    spark: SparkSession,
    run: LakeRun,
    tasks: Sequence[IngestTask],
    domains: Domains,
    settings: LakeSettings,
    on_bytes: OnBytes,
    spread: SpreadJob | None = None,
) -> list[IngestReport]:
    """Read the sources and write their rows, also by flow if that is wanted; give a report for each."""
    groups = groups_of(tasks, settings.task_bytes)
    job = msgspec.structs.replace(_job(run, settings), spread=spread)
    put(job.groups, msgspec.json.encode(groups), settings.file_mode)
    numbers = spark.range(0, len(groups), 1, len(groups))
    with _watched(job.marks, on_bytes):
        rows = numbers.mapInArrow(ingest_groups(job, domains, settings), "report binary").collect()
    return _checked(run, tasks, [msgspec.json.decode(bytes(row.report), type=IngestReport) for row in rows])


def ingest_here(
    run: LakeRun, tasks: Sequence[IngestTask], domains: Domains, settings: LakeSettings
) -> list[IngestReport]:
    """Read sources and write their rows in this process; give a report for each."""
    job = _job(run, settings)
    groups = groups_of(tasks, settings.task_bytes)
    return _checked(
        run,
        tasks,
        [
            report
            for number, group in enumerate(groups)
            for report in ingest_group(group, number, job, domains, settings)
        ],
    )


def _job(run: LakeRun, settings: LakeSettings) -> IngestJob:
    intake = Intake(run.before.removal.before_ns, _notes(run))
    job = IngestJob(str(run.lake), str(run.work), run.name, intake)
    for table in INGESTED:
        run.place(table)
    make_place(job.marks, settings.file_mode)
    return job


def _notes(run: LakeRun) -> ForgottenNotes:
    """What was forgotten, and is not taken in again."""
    known = run.before.tables.get(FORGOTTEN_TABLE.name)
    if known is None or not known.row_count:
        return ForgottenNotes()
    return ForgottenNotes.from_rows(pa.concat_tables([read_whole(path) for path in run.paths(FORGOTTEN_TABLE.name)]))


def _checked(run: LakeRun, tasks: Sequence[IngestTask], reports: list[IngestReport]) -> list[IngestReport]:
    if failed := next((report for report in reports if report.error), None):
        raise PlaceError(failed.error, failed.refusal) if failed.refusal else LakeError(failed.error)
    refuse_less(run, tasks, reports)
    return reports


def refuse_less(run: LakeRun, tasks: Sequence[IngestTask], reports: Sequence[IngestReport]) -> None:
    """End the run if the lake would lose rows: a file of the lake is damaged, or a capture was cut off since."""
    own = {task.name for task in tasks if task.is_own}
    rows = Counter[str]()
    for report in reports:
        rows[report.name] += report.row_count + report.expired + report.forgotten
    for report in reports:
        before = run.before.sources.get(report.name)
        known = before.row_count - (before.expired + before.forgotten if report.name in own else 0) if before else 0
        if report.is_more or not report.faults or rows[report.name] >= known:
            continue
        lost = f"{report.faults[0]}; the lake has {known} rows of it, now there are {rows[report.name]}"
        remedy = "build the lake anew from captures" if report.name in own else "put the whole file back"
        raise LakeError(f"{report.name}: {lost}; {remedy}; nothing was published")


@contextmanager
def _watched(marks: Place, on_bytes: OnBytes) -> Iterator[None]:
    """Meanwhile tell the progress: each source that is done has left a mark, with its size in the name of the mark."""
    ended = threading.Event()

    def look() -> None:
        pause = LOOK_SECONDS
        while not ended.wait(pause):
            begin = time.perf_counter()
            on_bytes(sum(int(size) for mark in list_files(marks) if (size := mark.name.rpartition("-")[2]).isdigit()))
            pause = max(LOOK_SECONDS, (time.perf_counter() - begin) / LOOK_SHARE)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def take_in(
    run: LakeRun, reports: Sequence[IngestReport], found: Mapping[str, StoredSource], basis: str, *, is_anew: bool
) -> dict[str, StoredSource]:
    """Put the files of the reports into the tables of the run, in place of older files of the same sources.

    With `is_anew` the tables count as changed although their sources are the same: a secret may have been corrected.
    """
    read: dict[str, list[IngestReport]] = defaultdict(list)
    for report in reports:
        read[report.name].append(report)
    before = run.before.sources
    more = {report.name for report in reports if report.is_more}
    cut = {report.name for report in reports if report.is_own and before[report.name].is_cut}
    kept = {name: source for name, source in before.items() if name not in read}
    sources = kept | {
        name: _read_again(before[name], parts)
        if name in cut
        else _with_counts(found[name], parts, before[name] if name in more else NOTHING)
        for name, parts in read.items()
    }
    spans = _spans(run, reports, sources)
    _refuse_copies(sources, spans.spans, read)
    content = hash_of(
        basis, sorted((name, each.fingerprint, each.is_open) for name, each in sources.items()), is_anew and run.name
    )
    parts = {part for name, source in before.items() if name in kept or name in more for part in source.parts}
    for table, layout in INGESTED.items():
        new = [file for report in reports for file in report.files.get(table, ())]
        run.put(table, content, layout.schema, new, keep=lambda file: file.part in parts)
    put_spans(run, content, spans)
    return _with_missing(sources, spans.placed)


def _read_again(known: StoredSource, parts: Sequence[IngestReport]) -> StoredSource:
    """A source of which rows have left the lake, and the others were read from the lake itself."""
    return msgspec.structs.replace(
        known,
        row_count=sum(part.row_count for part in parts) + known.expired + known.forgotten,
        skipped_rows=sum(part.skipped_rows for part in parts),
        skipped=sum(part.skipped for part in parts),
        parts=tuple(dict.fromkeys(name for part in parts for name in part.parts)),
    )


def _with_counts(stored: StoredSource, parts: Sequence[IngestReport], known: StoredSource) -> StoredSource:
    """A source with what was read of it now, and what was known of the rows in front."""
    position = max(part.position for part in parts) if all(part.position for part in parts) else 0
    fingerprint = stored.fingerprint
    if any(part.is_refused for part in parts):
        fingerprint = hash_of(fingerprint, "refused")  # the system may give all of the source another time
    elif any(part.is_partial for part in parts):
        fingerprint = hash_of(fingerprint, "until", position)  # a later run reads the rest
    is_whole = fingerprint == stored.fingerprint
    return msgspec.structs.replace(
        stored,
        fingerprint=fingerprint,
        version=stored.version if is_whole else "",  # a file in a store that has this version is not opened again
        is_bad=any(part.is_bad for part in parts),
        row_count=known.row_count + sum(part.row_count + part.expired + part.forgotten for part in parts),
        expired=known.expired + sum(part.expired for part in parts),
        forgotten=known.forgotten + sum(part.forgotten for part in parts),
        skipped_rows=known.skipped_rows + sum(part.skipped_rows for part in parts),
        skipped=known.skipped + sum(part.skipped for part in parts),
        # all parts of a file may have the same fault; the faults of a source that is gone are still true
        faults=tuple(dict.fromkeys(fault for part in parts for fault in part.faults)) or stored.faults,
        parts=tuple(dict.fromkeys([*known.parts, *(name for part in parts for name in part.parts)])),
        position=position,
        head=next((part.head for part in parts if part.position == position and part.head), stored.head),
    )


# -- numbers


def _spans(run: LakeRun, reports: Sequence[IngestReport], sources: Mapping[str, StoredSource]) -> KnownSpans:
    """The spans of all sources: of the sources that were read, with their parts joined, and of the others in the lake.

    A source that is gone is read from bronze.sightings. There every row has a number, also where the source had none:
    so the old spans say whether its numbers prove anything, and how the source ended. If rows have left the lake since,
    the old spans are all that tells of them, and stay.
    """
    before = run.before.sources
    known = spans_of(run)
    old = known.spans
    read = {report.name for report in reports}
    more = {report.name: report.ending for report in reports if report.is_more}
    same = [span for span in old if span.segment in read and span.segment not in more]
    same = [span for span in same if sources[span.segment].fingerprint == before[span.segment].fingerprint]
    unnumbered = {span.segment for span in same if not span.is_numbered}
    endings = {(span.segment, span.life): span.ending for span in same}
    parts = sorted((span for report in reports for span in report.spans), key=lambda span: span.first_sequence)
    begun = [span for span in old if span.segment in more]
    joined = joined_spans([*begun, *parts])
    joined = [replace(span, ending=more.get(span.segment, span.ending)) for span in joined]
    new = [span.without_numbers() if span.segment in unnumbered else span for span in joined]
    cut = {report.name for report in reports if report.is_own and before[report.name].is_cut}
    new = [span for span in new if span.segment not in cut] + [span for span in old if span.segment in cut]
    new = [
        replace(span, ending=endings.get((span.segment, span.life), OPEN)) if span.ending == OPEN else span
        for span in new
    ]
    return known.without(read).also(new)


def _refuse_copies(sources: Mapping[str, StoredSource], spans: Sequence[SourceSpan], read: Container[str]) -> None:
    """End the run if two sources have the same sightings."""
    known: dict[str, str] = {}
    for name, source in sources.items():
        other = known.setdefault(source.fingerprint, name)
        if other != name and source.row_count:
            raise LakeError(_copied(other, name, "is the same file as", read))
    if shared := first_shared(spans):
        node = shared.one.node_name or text_or_hex(shared.one.node)
        numbers = f"{shared.first} to {shared.last} of node {node}"
        raise LakeError(_copied(shared.one.segment, shared.other.segment, f"has sightings {numbers}, as has", read))


def _copied(one: str, other: str, how: str, read: Container[str]) -> str:
    """What is wrong with two sources, and what to do; the lake keeps the rows of a source, also if its file is gone."""
    new, old = (one, other) if one in read and other not in read else (other, one)
    remedy = "remove one of them" if old in read else f"remove it, or build the lake anew without {old}"
    return f"{new}: {how} {old}; {remedy}; nothing was published"


def _with_missing(sources: Mapping[str, StoredSource], spans: Iterable[PlacedSpan]) -> dict[str, StoredSource]:
    """Say of each source how many numbers are missing, in place of what an earlier build said."""
    before: Counter[str] = Counter()
    within: Counter[str] = Counter()
    for span, missing_before, _ in spans:
        if missing_before or span.missing:
            before[span.segment] += missing_before
            within[span.segment] += span.missing
    changed = {name for name, source in sources.items() if source.faults or name in before}
    return dict(sources) | {
        name: msgspec.structs.replace(
            sources[name],
            faults=(
                *(fault for fault in sources[name].faults if not fault.startswith(MISSING)),
                *_missing(before[name], within[name]),
            ),
        )
        for name in changed
    }


def _missing(before: int, within: int) -> list[str]:
    counts = [f"{count} {where}" for count, where in ((before, "in front of it"), (within, "within it")) if count]
    return [f"{MISSING}: {', '.join(counts)}; a file is lost, damaged or not here"] if counts else []
