"""The spans of a lake are read once by a process, and only the lake says which spans count."""

from __future__ import annotations

from pathlib import Path

import pytest

from hopwire.flows.spans import SourceSpan, placed
from hopwire.lake import known_spans
from hopwire.lake.bronze.spans import SPANS_TABLE, rows_from_spans
from hopwire.lake.known_spans import KnownSpans, put_spans, spans_of
from hopwire.lake.store import writing
from hopwire.places import remove_files

ONE = SourceSpan("one", b"a", 1, "anna", 0, 9, 100, 200, 10)
TWO = SourceSpan("two", b"a", 1, "anne", 12, 19, 300, 400, 8)
NOTHING = KnownSpans([], SPANS_TABLE.schema.empty_table())


def put(lake: Path, *spans: SourceSpan) -> None:
    with writing(lake) as run:
        put_spans(run, "basis", NOTHING.also(spans))
        run.publish({}, "decoder")


@pytest.fixture(autouse=True)
def _forget() -> None:
    known_spans._kept.clear()


def test_spans_that_a_run_has_put_are_those_of_the_next_and_of_another_process(tmp_path: Path) -> None:
    put(tmp_path, ONE, TWO)
    with writing(tmp_path) as run:
        kept = spans_of(run)
        known_spans._kept.clear()  # as in another process
        read = spans_of(run)
    assert kept is not read
    assert kept.spans == read.spans == [ONE, TWO]
    assert kept.rows.equals(read.rows)
    assert kept.placed == placed([ONE, TWO])
    assert read.node_names == {b"a": "anne"}, "the last name counts"
    assert read.last_seen_at_ns == 400


def test_lake_that_was_built_anew_in_the_same_place_has_its_own_spans(tmp_path: Path) -> None:
    put(tmp_path, ONE)
    put(tmp_path, TWO)
    with writing(tmp_path) as run:
        assert spans_of(run).spans == [TWO]
    assert len(known_spans._kept) == 1


def test_spans_whose_file_is_gone_are_not_taken_from_memory(tmp_path: Path) -> None:
    put(tmp_path, ONE)
    with writing(tmp_path) as run:
        spans_of(run)
        remove_files(*run.paths(SPANS_TABLE.name))
        with pytest.raises(FileNotFoundError):
            spans_of(run)


def test_lake_without_spans_has_none(tmp_path: Path) -> None:
    with writing(tmp_path) as run:
        assert spans_of(run).spans == []
        assert spans_of(run).last_seen_at_ns == 0


def test_spans_of_some_sources_are_replaced_with_their_rows() -> None:
    found = NOTHING.also([ONE, TWO]).without({"one"}).also([ONE])
    assert found.spans == [TWO, ONE]
    assert found.rows.equals(rows_from_spans([TWO, ONE]))


def test_many_spans_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_spans, "MAX_KEPT", 1)
    put(tmp_path, ONE, TWO)
    assert not known_spans._kept
