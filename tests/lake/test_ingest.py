"""What the driver makes of the reports of workers: all sources side by side, without Spark."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hopwire.capture import Sighting, batch_from_sightings
from hopwire.errors import LakeError
from hopwire.flows.spans import SourceSpan
from hopwire.lake.bronze.spans import spans_from_rows
from hopwire.lake.catalog import find_sources, groups_of, tasks_of
from hopwire.lake.ingest import decoder_basis, refuse_less, take_in
from hopwire.lake.manifest import StoredSource
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.store import files_of, read_arrow, read_manifest, writing
from hopwire.lake.worker import INGESTED, IngestJob, IngestReport, ingest_group
from hopwire.security import OPEN
from tests.lake.captures import make_sightings, write_segment


def read(captures: Path, lake: Path, *, redecode: bool = False, **settings: Any) -> dict[str, StoredSource]:
    """Read what is new, as a build does; give what the lake says of its sources."""
    chosen, basis = LakeSettings(**settings), decoder_basis(OPEN)
    found, _ = find_sources(captures)
    with writing(lake) as run:
        tasks = tasks_of(found, run, basis, redecode=redecode)
        job = IngestJob(str(run.lake), str(run.work), run.name)
        for table in INGESTED:
            run.place(table)
        job.marks.mkdir()
        groups = groups_of(tasks, chosen.task_bytes)
        reports = [report for group in groups for report in ingest_group(group, 0, job, OPEN, chosen)]
        refuse_less(run, tasks, reports)
        stored = {**run.before.sources, **{name: each.stored for name, each in found.items()}}
        run.publish(take_in(run, reports, stored, basis, is_anew=redecode), basis)
    return read_manifest(lake).sources


def spans(lake: Path) -> list[SourceSpan]:
    return sorted(spans_from_rows(read_arrow(lake, "bronze.spans")), key=lambda span: (span.segment, span.node))


def parquet(path: Path, rows: Sequence[Sighting], without: Sequence[str] = ()) -> Path:
    pq.write_table(pa.Table.from_batches([batch_from_sightings(rows)]).drop_columns(list(without)), path)
    return path


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    """One node in three segments."""
    place = tmp_path / "captures"
    place.mkdir()
    rows = make_sightings("anna", 300, skipped=0)
    for number, start in enumerate(range(0, 300, 100), 1):
        write_segment(place / f"anna-{number}.arrows", rows[start : start + 100])
    return place


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_complete_captures_lack_nothing(captures: Path, lake: Path) -> None:
    assert all(source.faults == () for source in read(captures, lake).values())
    assert [(span.segment, span.first_sequence, span.last_sequence) for span in spans(lake)] == [
        ("anna-1.arrows", 0, 99),
        ("anna-2.arrows", 100, 199),
        ("anna-3.arrows", 200, 299),
    ]


def test_segment_that_is_lost_is_told_of_the_next_until_it_is_found(captures: Path, lake: Path) -> None:
    lost = (captures / "anna-2.arrows").rename(captures.parent / "lost.arrows")
    found = read(captures, lake)
    assert found["anna-1.arrows"].faults == ()
    assert found["anna-3.arrows"].faults == (
        "sightings are missing: 100 in front of it; a file is lost, damaged or not here",
    )
    lost.rename(captures / "anna-2.arrows")
    assert all(source.faults == () for source in read(captures, lake).values())


def test_segment_that_is_damaged_lacks_its_rest(captures: Path, lake: Path) -> None:
    path = captures / "anna-2.arrows"
    path.write_bytes(path.read_bytes()[:-2000])
    found = read(captures, lake)
    assert "cut off" in found["anna-2.arrows"].faults[0]
    (fault,) = found["anna-3.arrows"].faults
    assert fault.startswith("sightings are missing: ")


def test_capture_that_does_not_begin_with_0_lacks_its_begin(captures: Path, lake: Path) -> None:
    (captures / "anna-1.arrows").unlink()
    assert "100 in front of it" in read(captures, lake)["anna-2.arrows"].faults[0]


def test_numbers_that_are_missing_within_a_source_are_told_of_it(tmp_path: Path, lake: Path) -> None:
    rows = [row for row in make_sightings("anna", 100) if not 20 <= row.sequence < 30]
    path = write_segment(tmp_path / "anna.arrows", rows)
    assert "missing: 10 within it;" in read(path, lake)["anna.arrows"].faults[0]


@pytest.mark.slow
def test_parts_of_a_source_tell_the_same_as_the_whole(captures: Path, lake: Path, tmp_path: Path) -> None:
    read(captures, lake)
    read(captures, tmp_path / "parts", task_bytes=20_000)
    assert read_manifest(tmp_path / "parts").tables["bronze.sightings"].file_count > 6
    assert spans(tmp_path / "parts") == spans(lake)


# -- the same capture twice


def refused(captures: Path, lake: Path) -> str:
    with pytest.raises(LakeError) as caught:
        read(captures, lake)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_copy_is_refused_and_both_are_named(captures: Path, lake: Path) -> None:
    shutil.copy(captures / "anna-2.arrows", captures / "copy.arrows")
    assert refused(captures, lake) == (
        "copy.arrows: is the same file as anna-2.arrows; remove one of them; nothing was published"
    )
    with pytest.raises(LakeError, match="is not a lake"):
        read_manifest(lake)
    (captures / "copy.arrows").unlink()
    read(captures, lake)


def test_copy_of_an_open_segment_that_has_grown_is_refused(captures: Path, lake: Path) -> None:
    rows = make_sightings("anna", 300, skipped=0)
    write_segment(captures / "copy.open.arrows", rows[200:240], is_sealed=False)
    assert refused(captures, lake) == (
        "copy.arrows: has sightings 200 to 239 of node anna, as has anna-3.arrows; "
        "remove one of them; nothing was published"
    )


def test_copy_of_what_the_lake_has_already_is_the_one_to_remove(captures: Path, lake: Path) -> None:
    read(captures, lake)
    before = read_manifest(lake)
    rows = make_sightings("anna", 300, skipped=0)
    write_segment(captures / "another.arrows", rows[150:250])
    (captures / "anna-2.arrows").unlink()
    assert refused(captures, lake) == (
        "another.arrows: has sightings 150 to 199 of node anna, as has anna-2.arrows; "
        "remove it, or build the lake anew without anna-2.arrows; nothing was published"
    )
    assert read_manifest(lake) == before
    (captures / "another.arrows").unlink()
    assert set(read(captures, lake)) == {"anna-1.arrows", "anna-2.arrows", "anna-3.arrows"}


def test_copy_of_parquet_without_numbers_is_refused_too(tmp_path: Path, lake: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    parquet(captures / "a.parquet", make_sightings("anna"), ["sequence"])
    shutil.copy(captures / "a.parquet", captures / "b.parquet")
    assert refused(captures, lake).startswith("b.parquet: is the same file as a.parquet;")


def test_parquet_that_shares_the_numbers_of_a_node_among_files_is_no_copy(tmp_path: Path, lake: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    rows = make_sightings("anna", 40, skipped=0)
    for direction in ("in", "out"):
        parquet(captures / f"{direction}.parquet", [row for row in rows if row.direction == direction])
    assert set(read(captures, lake)) == {"in.parquet", "out.parquet"}


def test_rows_without_numbers_have_none_when_they_are_read_from_the_lake_either(tmp_path: Path, lake: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    rows = [row for pair in zip(make_sightings("anna"), make_sightings("bert"), strict=True) for row in pair]
    gone = parquet(captures / "a.parquet", rows, ["sequence"])
    write_segment(captures / "cleo.arrows", make_sightings("cleo"))
    read(captures, lake)
    before = spans(lake)
    assert [span.is_numbered for span in before] == [False, False, True]
    gone.unlink()
    assert all(source.faults == () for source in read(captures, lake, redecode=True).values())
    assert spans(lake) == before


# -- sources that share files


def test_source_that_changes_takes_those_along_that_share_its_file(captures: Path, lake: Path) -> None:
    read(captures, lake)
    before = read_manifest(lake).sources
    assert len({source.parts for source in before.values()}) == 1
    (captures / "anna-1.arrows").unlink()
    rows = make_sightings("anna", 320, skipped=0)
    write_segment(captures / "anna-3.arrows", rows[200:], batch_rows=8)  # other bytes: not a segment that has grown
    after = read(captures, lake)
    assert all(after[name].parts != before[name].parts for name in before)
    found = read_arrow(lake, "bronze.sightings", ["segment", "sequence"]).sort_by("sequence")
    assert found["sequence"].to_pylist() == list(range(320)), "one is gone, and was read from the lake"
    assert found["segment"].to_pylist().count("anna-1.arrows") == 100
    assert spans(lake)[0].ending == "closed"


# -- what the lake has, it keeps


def test_capture_that_was_cut_off_does_not_take_rows_away(captures: Path, tmp_path: Path) -> None:
    read(captures, tmp_path / "lake")
    path = captures / "anna-2.arrows"
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(
        LakeError, match=r"anna-2.arrows: .* cut off; the lake has 100 rows of it, now there are \d+; put"
    ):
        read(captures, tmp_path / "lake")
    assert len(read_arrow(tmp_path / "lake", "bronze.sightings")) == 300


def test_file_of_the_lake_that_is_damaged_does_not_take_rows_away(captures: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    read(captures, lake)
    (file,) = files_of(lake, "bronze.sightings")
    (captures / "anna-2.arrows").unlink()
    file.write_bytes(b"PAR1 and then nothing of use")
    with pytest.raises(LakeError, match="the lake has 100 rows of it, now there are 0; build the lake anew"):
        read(captures, lake, redecode=True)


def test_source_of_which_the_lake_has_lost_a_file_is_read_again(captures: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    read(captures, lake)
    (file,) = files_of(lake, "silver.messages")
    file.unlink()
    (captures / "anna-3.arrows").unlink()
    read(captures, lake)
    assert len(read_arrow(lake, "silver.messages")) == 270


@pytest.mark.slow
def test_files_of_others_in_the_directories_of_the_lake_stay(captures: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    read(captures, lake)
    others = [lake / "gold" / "my_report" / "report.parquet", lake / "silver" / "messages" / "mine.parquet"]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
    old = files_of(lake, "bronze.sightings")
    for _ in range(3):
        read(captures, lake, redecode=True)
    assert all(path.exists() for path in old), "an old state of the lake has them"
    forget_old(lake, LakeSettings(keep_snapshots=1, keep_seconds=1e-9))
    assert all(path.exists() for path in others)
    assert not any(path.exists() for path in old)
    assert len(read_arrow(lake, "bronze.sightings")) == 300


def test_file_that_is_no_capture_is_refused_if_it_is_all_there_is(tmp_path: Path) -> None:
    letter = tmp_path / "letter.arrows"
    letter.write_text("dear reader")
    with pytest.raises(LakeError, match=r"letter.arrows: is not a capture; expected"):
        find_sources(letter)


@pytest.mark.parametrize(("how", "version"), [({}, "v1"), ({"is_partial": True}, ""), ({"is_refused": True}, "")])
def test_file_in_a_store_that_was_not_read_to_its_end_is_opened_again(
    tmp_path: Path, how: dict[str, Any], version: str
) -> None:
    found = {"anna.arrows": StoredSource(100, "x", version="v1")}
    with writing(tmp_path) as run:
        known = take_in(run, [IngestReport("anna.arrows", position=50, **how)], found, "", is_anew=False)
    assert known["anna.arrows"].version == version
