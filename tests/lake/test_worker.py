"""What a worker makes of a source, and what it says when something is wrong."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopwire.capture import Sighting, batch_from_sightings
from hopwire.capture.records import RECORDS, Origin, Row, batch_from_rows
from hopwire.flows.spans import Gap, SourceSpan
from hopwire.lake import parquet_output
from hopwire.lake.settings import LakeSettings
from hopwire.lake.worker import INGESTED, RESULT, IngestJob, IngestReport, IngestTask, ingest_group, ingest_groups
from hopwire.security import Domains
from hopwire.wire import FORMATS, encode
from hopwire.wire.samples import sample_message
from hopwire.wire.train import SMALLEST, pack_train
from tests.capture.recording.recordings import Recording, message, pcap
from tests.lake.captures import DOMAINS, NOW, make_sightings, write_segment

SETTINGS = LakeSettings()
DAY = 86_400 * 10**9


@pytest.fixture
def job(tmp_path: Path) -> IngestJob:
    job = IngestJob(str(tmp_path / "lake"), str(tmp_path / "work"), "0" * 12)
    for table in INGESTED:
        job.place(table).mkdir(parents=True)
    job.marks.mkdir(parents=True)
    return job


def ingest_source(task: IngestTask, job: IngestJob, domains: Domains, settings: LakeSettings) -> IngestReport:
    (report,) = ingest_group([task], 0, job, domains, settings)
    return report


def task(path: Path, kind: str = "segment") -> IngestTask:
    return IngestTask(path.name, str(path), kind, path.stat().st_size)


def rows_of(job: IngestJob, report: IngestReport, table: str) -> pa.Table:
    return pa.concat_tables(
        pq.ParquetFile(job.place(table) / file.path).read() for file in report.files[table]
    ).combine_chunks()


def test_source_becomes_three_files_that_add_up(tmp_path: Path, job: IngestJob) -> None:
    path = write_segment(tmp_path / "anna.arrows", make_sightings("anna"))
    report = ingest_source(task(path), job, DOMAINS, SETTINGS)
    counts = {table: len(rows_of(job, report, table)) for table in INGESTED}
    assert counts == {"bronze.sightings": 41, "silver.messages": 36, "silver.quarantine": 4}
    assert (report.row_count, report.skipped_rows, report.skipped, report.faults, report.error) == (41, 1, 3, [], "")
    assert rows_of(job, report, "silver.messages").schema.equals(INGESTED["silver.messages"].schema)
    verdicts = Counter(rows_of(job, report, "silver.messages").column("verdict").to_pylist())
    assert set(verdicts) == {"valid", "unsigned"}


def _coupled(sightings: list[Sighting]) -> list[Row]:
    """Give the records of a node that saw sightings in trains of four, as far as they fit a train."""
    rows: list[Row] = []
    waiting: list[Sighting] = []
    for sighting in [*sightings, None]:
        is_fit = sighting is not None and len(sighting.frames) > SMALLEST
        if is_fit and sighting is not None:
            waiting.append(sighting)
        if waiting and (not is_fit or len(waiting) == 4):
            first = waiting[0]
            train = [first.frames[0], pack_train([each.frames for each in waiting])]
            rows.append((*first[3:7], train, *first[8:], len(waiting)))
            waiting = []
        if sighting is not None and not is_fit:
            rows.append((*sighting[3:], 0))
    return rows


def test_trains_give_the_tables_that_their_messages_give(tmp_path: Path, job: IngestJob) -> None:
    sightings = [
        row._replace(seen_at_ns=NOW, direction="in" if row.frames else row.direction, frames=[b"peer", *row.frames[1:]])
        if len(row.frames) > 1
        else row._replace(seen_at_ns=NOW)
        for row in make_sightings("anna", 200)
    ]
    rows = _coupled(sightings)
    assert len(rows) < len(sightings) / 2
    alone, coupled = tmp_path / "alone" / "anna.arrows", tmp_path / "coupled" / "anna.arrows"
    for path in (alone, coupled):
        path.parent.mkdir()
    write_segment(alone, sightings)
    with pa.OSFile(str(coupled), "wb") as file, pa.ipc.new_stream(file, RECORDS) as stream:
        for start in range(0, len(rows), 7):
            stream.write_batch(batch_from_rows(Origin(b"anna", "anna", 1), rows[start : start + 7]))
    one, other = (ingest_source(task(path), job, DOMAINS, SETTINGS) for path in (alone, coupled))
    assert one.spans == other.spans
    assert (one.row_count, one.skipped, other.faults) == (other.row_count, other.skipped, [])
    for table in INGESTED:
        assert rows_of(job, one, table).equals(rows_of(job, other, table))


def test_a_damaged_train_is_a_gap_in_the_lake_and_a_fault_of_its_source(tmp_path: Path, job: IngestJob) -> None:
    path = tmp_path / "anna.arrows"
    rows: list[Row] = [
        (0, NOW, "in", b"peer", [b"peer", b"noise"], "", "", 0, 0),
        (1, NOW + 1, "in", b"peer", [b"peer", b"HWT\x01damaged"], "", "", 0, 64),
        (65, NOW + 2, "in", b"peer", [b"peer", b"noise"], "", "", 0, 0),
    ]
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, RECORDS) as stream:
        stream.write_batch(batch_from_rows(Origin(b"anna", "anna", 1), rows))
    report = ingest_source(task(path), job, DOMAINS, SETTINGS)
    (span,) = report.spans
    assert (span.first_sequence, span.last_sequence, span.skipped, span.missing) == (0, 65, 64, 0)
    assert (report.skipped, report.is_bad, report.error) == (64, True, "")
    assert "has trains that cannot be taken apart: 1" in report.faults[0]
    assert rows_of(job, report, "bronze.sightings").column("reason").to_pylist() == ["", "bad_train", ""]


@pytest.mark.parametrize(
    ("name", "cut", "is_bad"), [("anna.arrows", 0, False), ("anna.arrows", 3, True), ("anna.open.arrows", 3, False)]
)
def test_a_segment_that_is_cut_off_is_damaged_unless_its_writer_was_killed(
    tmp_path: Path, job: IngestJob, name: str, cut: int, is_bad: bool
) -> None:
    path = write_segment(tmp_path / name, make_sightings("anna"))
    path.write_bytes(path.read_bytes()[: -cut or None])
    given = msgspec.structs.replace(task(path), is_open=name.endswith(".open.arrows"))
    report = ingest_source(given, job, DOMAINS, SETTINGS)
    assert (report.is_bad, bool(report.faults)) == (is_bad, bool(cut))


def test_report_says_which_numbers_a_source_has(tmp_path: Path, job: IngestJob) -> None:
    rows = [row for row in make_sightings("anna") if row.sequence not in (20, 21)]
    path = write_segment(tmp_path / "anna.arrows", rows)
    for settings in (SETTINGS, LakeSettings(batch_rows=7)):
        report = ingest_source(task(path), job, DOMAINS, settings)
        assert report.spans == [
            SourceSpan(
                "anna.arrows", b"anna", 1, "anna", 0, 42, NOW, NOW + 40, 38, skipped=3, missing=2,
                gaps=(Gap(20, 42, NOW + 19, NOW + 40),), ending="closed",
            )
        ]  # fmt: skip
        assert msgspec.json.decode(msgspec.json.encode(report), type=IngestReport) == report


def test_report_says_whether_a_source_was_closed_by_its_node(tmp_path: Path, job: IngestJob) -> None:
    rows = make_sightings("anna")
    sealed = write_segment(tmp_path / "sealed.arrows", rows)
    cut_off = write_segment(tmp_path / "cut.arrows", rows)
    cut_off.write_bytes(cut_off.read_bytes()[:-1])
    table = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_batches([batch_from_sightings(rows)]), table)
    without = tmp_path / "without.parquet"
    pq.write_table(pa.Table.from_batches([batch_from_sightings(rows)]).drop_columns(["sequence"]), without)
    tasks = {
        "closed": task(sealed),
        "open": msgspec.structs.replace(task(sealed), is_open=True),
        "cut off": task(cut_off),
        "table": task(table, "parquet"),
        "overheard": task(without, "parquet"),
    }
    endings = {name: ingest_source(each, job, DOMAINS, SETTINGS).spans[0].ending for name, each in tasks.items()}
    assert endings == {
        "closed": "closed",
        "open": "open",
        "cut off": "open",
        "table": "open",
        "overheard": "overheard",
    }


def test_rows_without_numbers_of_their_nodes_prove_nothing(tmp_path: Path, job: IngestJob) -> None:
    rows = pa.Table.from_batches([batch_from_sightings([*make_sightings("anna"), *make_sightings("bert")])])
    for missing in ("sequence", "incarnation"):
        pq.write_table(rows.drop_columns([missing]), tmp_path / "rows.parquet")
        spans = ingest_source(task(tmp_path / "rows.parquet", "parquet"), job, DOMAINS, SETTINGS).spans
        assert [(span.node, span.sighting_count, span.skipped) for span in spans] == [
            (b"anna", 40, 3),
            (b"bert", 40, 3),
        ]
        assert not any(span.is_numbered or span.gaps or span.missing for span in spans)
    pq.write_table(rows, tmp_path / "rows.parquet")
    spans = ingest_source(task(tmp_path / "rows.parquet", "parquet"), job, DOMAINS, SETTINGS).spans
    assert all(span.is_numbered and len(span.gaps) == 1 for span in spans)


def write_recording(path: Path) -> Path:
    recording = Recording()
    recording.open()
    recording.greet()
    for number in range(5):
        recording.say(message([b"", b"%d" % number]))
    path.write_bytes(pcap(recording.packets))
    return path


def test_recording_of_the_network_has_numbers_of_its_own(tmp_path: Path, job: IngestJob) -> None:
    path = write_recording(tmp_path / "net.pcap")
    spans = ingest_source(task(path, "pcap"), job, DOMAINS, SETTINGS).spans
    assert len(spans) == 2
    assert all(span.is_numbered and span.first_sequence == 0 and not span.missing and not span.gaps for span in spans)


@pytest.mark.slow
def test_small_batches_and_row_groups_give_the_same_rows(tmp_path: Path, job: IngestJob) -> None:
    path = write_segment(tmp_path / "anna.arrows", make_sightings("anna", 200))
    few = LakeSettings(batch_rows=7, row_group_bytes=5000)
    reports = [ingest_source(task(path), job, DOMAINS, settings) for settings in (SETTINGS, few)]
    whole, pieces = (rows_of(job, report, "silver.messages") for report in reports)
    assert pieces.to_pylist() == whole.to_pylist()
    (file,) = reports[1].files["silver.messages"]
    assert pq.ParquetFile(job.place("silver.messages") / file.path).num_row_groups > 5


def test_two_attempts_at_one_source_do_not_touch_each_other(tmp_path: Path, job: IngestJob) -> None:
    path = write_segment(tmp_path / "anna.arrows", make_sightings("anna"))
    one, two = (ingest_source(task(path), job, DOMAINS, SETTINGS) for _ in range(2))
    assert not set(one.parts) & set(two.parts)
    assert rows_of(job, one, "silver.messages").equals(rows_of(job, two, "silver.messages"))


def test_cut_off_segment_is_used_as_far_as_it_is_whole(tmp_path: Path, job: IngestJob) -> None:
    path = write_segment(tmp_path / "anna.arrows", make_sightings("anna", 32, skipped=0))
    path.write_bytes(path.read_bytes()[:-500])
    report = ingest_source(task(path), job, DOMAINS, SETTINGS)
    assert report.row_count == 16
    assert len(report.faults) == 1
    assert "cut off" in report.faults[0]


@pytest.mark.parametrize(
    "content", [b"", b"no capture at all, though its name says so", b"\xff\xff\xff\xff\x00\x01\x00\x00"]
)
def test_foreign_file_is_a_fault_and_no_rows(tmp_path: Path, job: IngestJob, content: bytes) -> None:
    path = tmp_path / "odd.arrows"
    path.write_bytes(content)
    report = ingest_source(task(path), job, DOMAINS, SETTINGS)
    assert (report.row_count, report.files, report.error, len(report.faults)) == (0, {}, "", 1)


def test_wrong_schema_is_a_fault_that_names_the_column(tmp_path: Path, job: IngestJob) -> None:
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"frames": ["text"]}), path)
    report = ingest_source(task(path, "parquet"), job, DOMAINS, SETTINGS)
    assert report.row_count == 0
    assert "frames" in report.faults[0]


def test_source_that_vanished_is_an_error_that_names_it(tmp_path: Path, job: IngestJob) -> None:
    path = write_segment(tmp_path / "anna.arrows", make_sightings("anna"))
    gone = task(path)
    path.unlink()
    assert "anna.arrows: No such file or directory" in ingest_source(gone, job, DOMAINS, SETTINGS).error


@pytest.mark.slow
def test_giant_body_passes(tmp_path: Path, job: IngestJob) -> None:
    from random import Random

    message = sample_message(FORMATS[-1], Random(1)).replace(body_frames=(bytes(70 * 1024 * 1024),))
    giant = Sighting(b"anna", "anna", 1, 40, NOW, "in", b"", encode(message, FORMATS[-1]))
    path = write_segment(tmp_path / "anna.arrows", [*make_sightings("anna", 40, skipped=0), giant])
    report = ingest_source(task(path), job, DOMAINS, SETTINGS)
    assert report.row_count == 41
    assert max(rows_of(job, report, "silver.messages").column("size_bytes").to_pylist()) > 70 * 1024 * 1024


def test_groups_are_read_by_number_and_reports_come_back(tmp_path: Path, job: IngestJob) -> None:
    paths = [write_segment(tmp_path / f"{node}.arrows", make_sightings(node)) for node in ("anna", "bert", "cleo")]
    groups = [[task(paths[0])], [task(path) for path in paths[1:]]]
    job.groups.write_bytes(msgspec.json.encode(groups))
    numbers = pa.RecordBatch.from_arrays([pa.array([1])], ["id"])
    results = list(ingest_groups(job, DOMAINS, SETTINGS)(iter([numbers])))
    assert all(batch.schema == RESULT for batch in results)
    reports = [json.loads(row) for batch in results for row in batch.column(0).to_pylist()]
    assert [report["name"] for report in reports] == ["bert.arrows", "cleo.arrows"]
    assert len(list(job.marks.iterdir())) == 2


def test_small_sources_share_files_and_a_source_that_is_read_as_a_whole_again_has_its_own(
    tmp_path: Path, job: IngestJob
) -> None:
    nodes = ("anna", "cleo", "dora")
    tasks = [task(write_segment(tmp_path / f"{node}.arrows", make_sightings(node))) for node in nodes]
    tasks[0] = msgspec.structs.replace(tasks[0], is_open=True)  # an open segment is read on, and not again
    tasks.insert(1, task(write_recording(tmp_path / "net.pcap"), "pcap"))
    reports = ingest_group(tasks, 7, job, DOMAINS, SETTINGS)
    shared = {report.parts[0] for report in reports if report.name != "net.pcap"}
    assert len(shared) == 1
    assert shared.isdisjoint(reports[1].parts)
    assert [len(report.files.get("bronze.sightings", ())) for report in reports] == [0, 1, 0, 1]
    rows = rows_of(job, reports[3], "bronze.sightings")
    assert sorted(set(rows["segment"].to_pylist())) == ["anna.arrows", "cleo.arrows", "dora.arrows"]


def days_of(job: IngestJob, report: IngestReport) -> list[set[int]]:
    """The days of each file."""
    place = job.place("bronze.sightings")
    files = [place / file.path for file in report.files["bronze.sightings"]]
    return [set(pq.read_table(file)["date"].cast(pa.int32()).to_pylist()) for file in files]


@pytest.mark.slow
def test_rows_of_small_days_share_a_file_with_their_neighbours(
    tmp_path: Path, job: IngestJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row._replace(seen_at_ns=NOW + number % 40 * DAY) for number, row in enumerate(make_sightings("anna", 200))]
    path = write_segment(tmp_path / "anna.arrows", rows)
    assert len(*days_of(job, ingest_source(task(path), job, DOMAINS, LakeSettings()))) == 40
    monkeypatch.setattr(parquet_output, "SHARED_BYTES", 20_000)
    found = days_of(job, ingest_source(task(path), job, DOMAINS, LakeSettings()))
    assert 1 < len(found) < 40
    assert sorted(day for days in found for day in days) == sorted({row.seen_at_ns // DAY for row in rows})
    assert all(max(days) - min(days) == len(days) - 1 for days in found)


@pytest.mark.slow
def test_rows_of_many_large_days_are_kept_by_days(
    tmp_path: Path, job: IngestJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_output, "SHARED_BYTES", 1)
    rows = [row._replace(seen_at_ns=NOW + number % 40 * DAY) for number, row in enumerate(make_sightings("anna", 200))]
    path = write_segment(tmp_path / "anna.arrows", rows)
    report = ingest_source(task(path), job, DOMAINS, LakeSettings(batch_rows=50, row_group_bytes=1))
    files = report.files["bronze.sightings"]
    assert {len(days) for days in days_of(job, report)} == {1}
    assert len(files) > 40, "few files are open at a time"
    assert len({file.path for file in files}) == len(files)
    assert {file.part for file in files} == set(report.parts)
    found = rows_of(job, report, "bronze.sightings").sort_by("sequence")
    assert found["seen_at_ns"].to_pylist() == [row.seen_at_ns for row in rows]
    days = [(value // DAY) for value in found["seen_at_ns"].to_pylist()]
    assert found["date"].cast(pa.int32()).to_pylist() == days
    assert found["seen_at"].cast(pa.int64()).to_pylist() == [value // 1000 for value in found["seen_at_ns"].to_pylist()]


FILL = """
import resource, sys, signal
from hopwire.lake import parquet_output
from hopwire.lake.settings import LakeSettings
from hopwire.lake.worker import IngestJob, IngestTask, ingest_group
from hopwire.security import OPEN
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
task, job = IngestTask("anna.arrows", sys.argv[1], "segment", 1), IngestJob(*sys.argv[2:])
print(ingest_group([task], 0, job, OPEN, LakeSettings())[-1].error)
"""


@pytest.mark.slow
def test_full_disk_is_said_in_one_line_with_the_remedy(tmp_path: Path, job: IngestJob) -> None:
    assert resource.RLIMIT_FSIZE
    path = write_segment(tmp_path / "anna.arrows", make_sightings("anna", 400))
    command = [sys.executable, "-c", FILL, str(path), job.lake, job.work, job.run]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout.startswith("the disk of the lake is full (File too large) at anna.arrows"), ended
    assert ended.stdout.endswith("make room and build again\n")
    assert ended.stderr == ""
