"""Sorted batches to chunks of whole groups: rows that belong together come together.

A group with more than `max_rows` rows does not fit. There are two ways out:

- `whole_chunks` gives the group as a chunk of its own: its first rows, and a summary of the others. No more than one
  batch of the others is held at a time.
- `pieces` gives the group in pieces, for a judge that can go on from one piece to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from hopwire.columnar import Ints, ints
from hopwire.flows.groups import Groups, codes, pack

__all__ = ["GroupChunk", "GroupPiece", "Summariser", "TableFunction", "pieces", "whole_chunks"]

CHUNK_ROWS = 50_000  # of one chunk, unless a group is larger: enough for numpy, and some tens of megabytes

TableFunction: TypeAlias = Callable[[pa.Table], pa.Table]


class Summariser(NamedTuple):
    """What is kept of rows that are too many: how rows are summarised, and how summaries are added up."""

    of: TableFunction
    added: TableFunction


class GroupChunk(NamedTuple):
    """Whole groups; or the first rows of one group that is too large, and the summary of its other rows."""

    rows: pa.Table
    more: pa.Table | None = None


class GroupPiece(NamedTuple):
    """Whole groups; if the piece is cut, more rows of its last group may follow."""

    rows: pa.Table
    is_cut: bool = False


def pieces(
    batches: Iterable[pa.RecordBatch], key: Sequence[str], max_rows: int, chunk_rows: int = CHUNK_ROWS
) -> Iterator[GroupPiece]:
    """Give whole groups, of batches that are sorted by the key; a group with more rows than the limit in pieces."""
    waiting: list[pa.Table] = []
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]))
        if sum(map(len, waiting)) < chunk_rows:
            continue
        rows = pa.concat_tables(waiting)
        start = _start_of_last(rows, key)
        if len(rows) - start > max_rows:
            yield GroupPiece(rows, is_cut=True)
            waiting = []
            continue
        if start:
            yield GroupPiece(rows.slice(0, start))
        waiting = [rows.slice(start)]
    if waiting:
        yield GroupPiece(pa.concat_tables(waiting))


def whole_chunks(
    batches: Iterable[pa.RecordBatch],
    key: Sequence[str],
    max_rows: int,
    summary: Summariser,
    chunk_rows: int = CHUNK_ROWS,
) -> Iterator[GroupChunk]:
    """Give chunks of whole groups, of batches that are sorted by the key."""
    waiting: list[pa.Table] = []
    giant: GroupChunk | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if giant is not None:
            giant, table = _fed(giant, table, key, summary)
            if not len(table):
                continue
            yield giant
            giant = None
        waiting.append(table)
        if sum(map(len, waiting)) < chunk_rows:
            continue
        rows = pa.concat_tables(waiting)
        start = _start_of_last(rows, key)
        yield from _chunks(rows.slice(0, start), key, max_rows, summary)
        last = rows.slice(start)
        waiting = [last]
        if len(last) > max_rows:
            giant, waiting = _giant(last, max_rows, summary), []
    if giant is not None:
        yield giant
    if waiting:
        yield from _chunks(pa.concat_tables(waiting), key, max_rows, summary)


def _fed(giant: GroupChunk, table: pa.Table, key: Sequence[str], summary: Summariser) -> tuple[GroupChunk, pa.Table]:
    """Add the rows that still belong to a giant to its summary, and give the rows that do not."""
    both = pa.concat_tables([giant.rows.slice(0, 1).select(list(key)), table.select(list(key))])
    group = _numbers(both, key)
    count = int(np.argmin(np.append(group[1:] == group[0], False)))
    if count:
        assert giant.more is not None
        giant = GroupChunk(giant.rows, summary.added(pa.concat_tables([giant.more, summary.of(table.slice(0, count))])))
    return giant, table.slice(count)


def _giant(rows: pa.Table, max_rows: int, summary: Summariser) -> GroupChunk:
    return GroupChunk(rows.slice(0, max_rows), summary.of(rows.slice(max_rows)))


def _chunks(rows: pa.Table, key: Sequence[str], max_rows: int, summary: Summariser) -> Iterator[GroupChunk]:
    """Give the groups that fit as one chunk, and each group that is too large as a chunk of its own."""
    if not len(rows):
        return
    groups = Groups(_numbers(rows, key))
    too_large = np.flatnonzero(groups.sizes > max_rows)
    is_small = ~np.isin(groups.of, too_large)
    if is_small.any():
        yield GroupChunk(rows if is_small.all() else rows.filter(pa.array(is_small)))
    for group in too_large.tolist():
        yield _giant(rows.filter(pa.array(groups.of == group)), max_rows, summary)


def _start_of_last(rows: pa.Table, key: Sequence[str]) -> int:
    group = _numbers(rows, key)
    is_other = group != group[-1]
    return int(np.flatnonzero(is_other)[-1]) + 1 if is_other.any() else 0


def _numbers(rows: pa.Table, key: Sequence[str]) -> Ints:
    columns = [rows[name] for name in key]
    return pack(*(_codes_of(column) for column in columns))


def _codes_of(column: pa.ChunkedArray) -> Ints:
    """Give a column of any kind as small numbers."""
    if pa.types.is_integer(column.type):
        return ints(column.combine_chunks().dictionary_encode().indices)
    (numbers,), _ = codes(column)
    return numbers
