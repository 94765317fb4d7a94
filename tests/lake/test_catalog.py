from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pytest

from hopwire.capture.sources import Source, list_sources, read_source
from hopwire.errors import LakeError
from hopwire.lake import catalog
from hopwire.lake.catalog import find_sources, groups_of, tasks_of
from hopwire.lake.manifest import EDGE_BYTES, StoredFile, StoredSource
from hopwire.lake.store import LakeRun, writing
from hopwire.lake.worker import IngestTask
from tests.lake.captures import make_capture, make_sightings, write_segment


def run_after(tmp_path: Path, sources: dict[str, StoredSource], decoder: str = "d") -> LakeRun:
    known = {name: msgspec.structs.replace(source, parts=(name.replace(".", "-"),)) for name, source in sources.items()}
    files = [StoredFile(f"{part}.parquet", 1, 1) for source in known.values() for part in source.parts]
    with writing(tmp_path / "lake") as run:
        for file in files:
            (run.place("bronze.sightings") / file.path).write_bytes(b"1")
        run.put("bronze.sightings", "", pa.schema([("segment", pa.string())]), files)
        run.publish(known, decoder)
    with writing(tmp_path / "lake") as run:
        return run


def stored_in(captures: Path) -> dict[str, StoredSource]:
    return {name: found.stored for name, found in find_sources(captures)[0].items()}


def test_new_and_changed_sources_are_read(tmp_path: Path) -> None:
    captures = make_capture(tmp_path / "captures", ("anna", "bert"))
    known = stored_in(captures)
    write_segment(captures / "bert.arrows", make_sightings("bert", 20))
    write_segment(captures / "cleo.arrows", make_sightings("cleo"))
    tasks = tasks_of(find_sources(captures)[0], run_after(tmp_path, known), "d")
    assert [task.name for task in tasks] == ["bert.arrows", "cleo.arrows"]


def test_open_segment_is_read_again_once_it_has_grown_or_is_sealed(tmp_path: Path) -> None:
    rows = make_sightings("anna")
    path = write_segment(tmp_path / "anna.open.arrows", rows[:16], is_sealed=False)
    known = stored_in(tmp_path)
    assert tasks_of(find_sources(tmp_path)[0], run_after(tmp_path, known), "d") == []
    write_segment(path, rows[:32], is_sealed=False)
    assert len(tasks_of(find_sources(tmp_path)[0], run_after(tmp_path, known), "d")) == 1
    path.unlink()
    write_segment(tmp_path / "anna.arrows", rows[:16])
    (task,) = tasks_of(find_sources(tmp_path)[0], run_after(tmp_path, known), "d")
    assert task.name == "anna.arrows", "the name it had all along"


def test_another_decoder_reads_all_and_what_is_gone_from_bronze(tmp_path: Path) -> None:
    captures = make_capture(tmp_path / "captures", ("anna", "bert"))
    run = run_after(tmp_path, stored_in(captures))
    (captures / "bert.arrows").unlink()
    found, _ = find_sources(captures)
    tasks = {task.name: (task.kind, Path(task.path).name) for task in tasks_of(found, run, "other")}
    assert tasks == {"anna.arrows": ("segment", "anna.arrows"), "bert.arrows": ("parquet", "bert-arrows.parquet")}
    assert tasks_of(found, run, "d") == []
    assert len(tasks_of(found, run, "d", redecode=True)) == 2


def test_files_that_are_no_captures_are_named(tmp_path: Path) -> None:
    make_capture(tmp_path, ("anna",))
    for name in ("letter.txt", "anna.json", ".hidden", "_hidden", "anna.json.unfinished"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "more").mkdir()
    found, foreign = find_sources(tmp_path)
    assert list(found) == ["anna.arrows"]
    assert [str(fault.path.name) for fault in foreign] == ["letter.txt"]


def test_missing_directory_and_empty_directory_are_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="is not there; name a directory of captures"):
        find_sources(tmp_path / "nowhere")
    with pytest.raises(LakeError, match=r"has no captures in it; a node writes them: hopwire node --capture "):
        find_sources(tmp_path)
    (tmp_path / "captures").mkdir()
    make_capture(tmp_path / "captures", ("anna",))
    with pytest.raises(LakeError, match=r"has no captures in it; they are in \S+/captures$"):
        find_sources(tmp_path)


# -- files that have the name of a source


def tasks_after(tmp_path: Path, known: dict[str, StoredSource], captures: Path) -> list[str]:
    return [task.name for task in tasks_of(find_sources(captures)[0], run_after(tmp_path, known), "d")]


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Two directories."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    return first, second


@pytest.mark.parametrize("redecode", [False, True])
def test_file_that_only_has_the_name_of_a_source_is_refused(
    tmp_path: Path, places: tuple[Path, Path], redecode: bool
) -> None:
    first, second = places
    write_segment(first / "part.arrows", make_sightings("anna"))
    path = write_segment(second / "part.arrows", make_sightings("bert"))
    found = find_sources(second)[0]
    with pytest.raises(LakeError) as caught:
        tasks_of(found, run_after(tmp_path, stored_in(first)), "d", redecode=redecode)
    assert str(caught.value) == (
        f"{path}: the lake has another file of this name, {first / 'part.arrows'}; "
        "rename this one, or build another lake"
    )


def test_source_that_is_written_anew_where_it_was_is_read_again(tmp_path: Path, places: tuple[Path, Path]) -> None:
    path = write_segment(places[0] / "part.arrows", make_sightings("anna"))
    known = stored_in(places[0])
    write_segment(path, make_sightings("bert"))
    assert tasks_after(tmp_path, known, places[0]) == ["part.arrows"]


def test_directory_under_another_name_is_another_place_only_if_its_files_are_others(
    tmp_path: Path, places: tuple[Path, Path]
) -> None:
    latest = tmp_path / "latest"
    for place, node in zip(places, ("anna", "bert"), strict=True):
        write_segment(place / "part.arrows", make_sightings(node))
    latest.symlink_to(places[0])
    known = stored_in(latest)
    assert tasks_after(tmp_path, known, places[0]) == []
    latest.unlink()
    latest.symlink_to(places[1])
    with pytest.raises(LakeError, match="the lake has another file of this name"):
        tasks_after(tmp_path, known, latest)


def test_captures_may_be_moved_and_may_grow_there(tmp_path: Path, places: tuple[Path, Path]) -> None:
    first, second = places
    rows = make_sightings("anna")
    write_segment(first / "anna.open.arrows", rows[:16], is_sealed=False)
    known = stored_in(first)
    path = write_segment(second / "anna.open.arrows", rows[:16], is_sealed=False)
    assert tasks_after(tmp_path, known, second) == []
    write_segment(path, rows[:32], is_sealed=False)
    assert tasks_after(tmp_path, known, second) == ["anna.arrows"]
    path.unlink()
    write_segment(second / "anna.arrows", rows)
    assert tasks_after(tmp_path, known, second) == ["anna.arrows"]


def test_recording_that_was_copied_while_it_grew_is_the_same(tmp_path: Path, places: tuple[Path, Path]) -> None:
    content = Random(1).randbytes(3 * EDGE_BYTES)
    for size in (100, 2 * EDGE_BYTES):
        (places[0] / "net.pcap").write_bytes(content[:size])
        (places[1] / "net.pcap").write_bytes(content)
        assert tasks_after(tmp_path, stored_in(places[0]), places[1]) == ["net.pcap"]
    (places[1] / "net.pcap").write_bytes(content[:50])
    with pytest.raises(LakeError, match="the lake has another file of this name"):
        tasks_after(tmp_path, stored_in(places[0]), places[1])


def test_parquet_does_not_grow(tmp_path: Path, places: tuple[Path, Path]) -> None:
    same = b"PAR1" + bytes(200_000)
    (places[0] / "part-00000.parquet").write_bytes(same + b"one")
    (places[1] / "part-00000.parquet").write_bytes(same + b"other")
    with pytest.raises(LakeError, match=r"another file of this name, .*first/part-00000\.parquet"):
        tasks_after(tmp_path, stored_in(places[0]), places[1])


def test_sources_that_an_older_hopwire_has_read_are_known_by_their_name(
    tmp_path: Path, places: tuple[Path, Path]
) -> None:
    write_segment(places[1] / "part.arrows", make_sightings("bert"))
    assert tasks_after(tmp_path, {"part.arrows": StoredSource(1, "x")}, places[1]) == ["part.arrows"]


def test_segment_that_is_sealed_while_the_catalog_is_made_is_the_sealed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_capture(tmp_path, ("bert",))
    path = write_segment(tmp_path / "anna.open.arrows", make_sightings("anna"), is_sealed=False)

    def list_then_seal(captures: Path, *, is_summed_up: bool = True) -> tuple[Source, ...]:
        listed = list_sources(captures, is_summed_up=is_summed_up)
        if path.exists():
            path.rename(tmp_path / "anna.arrows")
        return listed

    monkeypatch.setattr(catalog, "list_sources", list_then_seal)
    found, foreign = find_sources(tmp_path)
    assert list(found) == ["anna.arrows", "bert.arrows"]
    assert not found["anna.arrows"].stored.is_open
    assert foreign == [], "also the name that was not there when the directory was listed"
    monkeypatch.undo()
    assert find_sources(tmp_path) == (found, [])


# -- tasks


def test_small_sources_share_a_task_and_large_ones_come_first() -> None:
    tasks = [IngestTask(f"{size}", "", "pcap", size) for size in (10, 500, 40, 70, 20)]
    groups = [[task.size_bytes for task in group] for group in groups_of(tasks, 100)]
    assert groups == [[500], [70], [40, 20, 10]]
    assert groups_of([], 100) == []


def test_sources_without_a_byte_are_a_task_too() -> None:
    tasks = [IngestTask(name, "", "pcap", 0) for name in ("a", "b")]
    assert groups_of(tasks, 100) == [tasks]


def test_large_segment_is_several_tasks(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "anna.arrows", make_sightings("anna", 400))
    task = IngestTask("anna.arrows", str(path), "segment", path.stat().st_size)
    tasks = [task for group in groups_of([task], task.size_bytes // 4) for task in group]
    assert len(tasks) >= 4
    assert [each.begin for each in tasks] == [0, *(each.end for each in tasks[:-1])]


def test_large_segment_that_is_sealed_before_it_is_parted_is_one_task(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "anna.open.arrows", make_sightings("anna", 400), is_sealed=False)
    task = IngestTask("anna.arrows", str(path), "segment", path.stat().st_size, is_open=True)
    path.rename(tmp_path / "anna.arrows")
    assert groups_of([task], task.size_bytes // 4) == [[task]]
    assert sum(len(batch) for batch in read_source(task.source)) == 401
