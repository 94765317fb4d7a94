from __future__ import annotations

from pathlib import Path

import pytest

from hopwire.errors import LakeError
from hopwire.lake.catalog import find_sources, groups_of, tasks_of
from hopwire.lake.manifest import Manifest, StoredFile, StoredSource, StoredTable
from hopwire.lake.store import Run
from hopwire.lake.worker import Task
from tests.lake.captures import make_capture, make_sightings, write_segment


def run_after(tmp_path: Path, sources: dict[str, StoredSource], decoder: str = "d") -> Run:
    files = tuple(StoredFile(f"bronze/sightings/{name}.parquet", 1, 1, name) for name in sources)
    tables = {"bronze.sightings": StoredTable("", {}, files)}
    return Run(tmp_path / "lake", "run", Manifest(decoder=decoder, tables=tables, sources=sources))


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
    assert tasks == {"anna.arrows": ("segment", "anna.arrows"), "bert.arrows": ("parquet", "bert.arrows.parquet")}
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
    with pytest.raises(LakeError, match=r"has no captures in it; a node writes them: Node\(capture="):
        find_sources(tmp_path)


def test_small_sources_share_a_task_and_large_ones_come_first() -> None:
    tasks = [Task(f"{size}", "", "pcap", size) for size in (10, 500, 40, 70, 20)]
    groups = [[task.size_bytes for task in group] for group in groups_of(tasks, 100)]
    assert groups == [[500], [70], [40, 20, 10]]
    assert groups_of([], 100) == []


def test_large_segment_is_several_tasks(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "anna.arrows", make_sightings("anna", 400))
    task = Task("anna.arrows", str(path), "segment", path.stat().st_size)
    tasks = [task for group in groups_of([task], task.size_bytes // 4) for task in group]
    assert len(tasks) >= 4
    assert [each.begin for each in tasks] == [0, *(each.end for each in tasks[:-1])]
