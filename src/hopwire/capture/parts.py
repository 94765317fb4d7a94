"""A large source in parts that are read one by one, by several workers at a time: each is a source of its own.

| kind | a part is |
|---|---|
| `segment` | some batches, from one position in the file to another; only their heads are read to find them |
| `parquet` | some row groups, from one number to another |
| `pcap` | the whole: where a message begins is known only to who has read all before it |

The parts of a source have all its rows, each once, in the order of the source. Where a batch is damaged, the rest of
its part is lost; other parts are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from hopwire.capture.ipc import read_head
from hopwire.capture.sources import Source, SourceKind
from hopwire.disk import open_regular

__all__ = ["parts_of"]


def parts_of(source: Source, max_bytes: int) -> list[Source]:
    """Give a source in parts of about so many bytes; one that is not larger, or cannot be parted, stays whole."""
    find = FINDERS.get(source.kind)
    if find is None or source.size_bytes <= max_bytes or source.fault:
        return [source]
    ends = list(_spaced(find(source.path), max_bytes))
    return [replace(source, begin=begin, end=end) for begin, end in zip([0, *ends], [*ends, None], strict=True)]


def _spaced(ends: Iterable[tuple[int, int]], max_bytes: int) -> Iterator[int]:
    """Choose the ends of parts among those of batches; what follows the last of them is a part too."""
    begin, last = 0, None
    for end, size in ends:
        if last is not None and size - begin > max_bytes:
            yield last[0]
            begin = last[1]
        last = end, size


# -- where batches end: as the reader of the kind counts, and in bytes


def _batch_ends(path: Path) -> Iterator[tuple[int, int]]:
    with open_regular(path) as file:
        size = file.seek(0, 2)
        position = 0
        file.seek(position)
        while position < size and (head := read_head(file)) is not None:
            position += head.size_bytes
            file.seek(position)
            yield position, position


def _row_group_ends(path: Path) -> Iterator[tuple[int, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(path) as file:
            metadata = pq.read_metadata(file)
    except (pa.ArrowException, OSError):
        return  # whoever reads it says what is wrong
    size = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        size += sum(group.column(column).total_compressed_size for column in range(group.num_columns))
        yield number + 1, size


FINDERS: dict[SourceKind, Callable[[Path], Iterator[tuple[int, int]]]] = {
    SourceKind.SEGMENT: _batch_ends,
    SourceKind.PARQUET: _row_group_ends,
}
