"""How large a Parquet file becomes when it is unpacked, found out before anything is unpacked.

| where it stands | what it says |
|---|---|
| the footer | where the pages of each column are, and how many bytes they have |
| the head of each page | how many bytes the page becomes, and how its values are written |

The footer also has sums of the numbers in the heads. The sums are not believed: the author of a decompression bomb can
write any number there.

A row group is refused if it would become more than `MAX_GROUP_BYTES`, or would grow more than a thousandfold.
Dictionaries pass: `parquet.py` measures the values that they stand for.

The footer is read in `parquet_footer.py`. The head of a page is a struct in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, NamedTuple

from hopwire.capture.parquet_footer import ColumnChunk, RowGroup
from hopwire.capture.thrift import CompactReader, Struct
from hopwire.errors import CaptureError
from hopwire.model.units import MEBIBYTE

__all__ = ["Unpacked", "check_ratio", "unpacked_sizes"]

MAX_GROUP_BYTES = 2048 * MEBIBYTE  # of one row group; 128 MB are usual, compressed
MAX_RATIO, SMALL_BYTES = 1000, 64 * MEBIBYTE  # up to SMALL_BYTES any growth is allowed
HEAD_BYTES, MAX_HEAD_BYTES = 4096, MEBIBYTE  # of the head of a page, which may hold its least and largest value

# ids of fields in the head of a page, and of those in the two structs that it may have
UNPACKED, PACKED, FIRST_KIND, SECOND_KIND = 2, 3, 5, 8
ENCODINGS_AT = {FIRST_KIND: 2, SECOND_KIND: 4}
DICTIONARIES = (2, 8)  # as encodings are numbered
PREFIXED = 7  # DELTA_BYTE_ARRAY: a value may repeat all of the value before, without a byte of its own


class Unpacked(NamedTuple):
    """What a row group becomes when it is unpacked."""

    size_bytes: int
    coded: frozenset[str]  # the columns that have a dictionary, as Arrow wants them named


def check_ratio(where: str, unpacked: int, packed: int) -> None:
    """Refuse data that grows more than a thousandfold."""
    if unpacked > SMALL_BYTES and unpacked > MAX_RATIO * packed:
        raise CaptureError(f"{where} has {packed:,} bytes that would become {unpacked:,}; write it in smaller parts")


def unpacked_sizes(file: BinaryIO, schema: Any, group: RowGroup, number: int, names: Collection[str]) -> Unpacked:
    """Give what some columns of a row group become, or refuse the row group if that is too much.

    The schema is that of Parquet, as Arrow has read it.
    """
    where = f"row group {number}"
    if len(group.columns) != len(schema):
        raise CaptureError(f"{where} has {len(group.columns)} columns, the file has {len(schema)}")
    packed, unpacked, coded = 0, 0, set()
    for place, chunk in enumerate(group.columns):
        column = schema.column(place)
        if column.path.partition(".")[0] not in names:
            continue
        for page in _pages(file, chunk, f"column {column.path} of {where}"):
            packed, unpacked = packed + page.packed, unpacked + page.unpacked
            if unpacked > MAX_GROUP_BYTES:
                raise CaptureError(f"{where} would become {unpacked:,} bytes or more; write it in smaller parts")
            if page.is_coded and column.physical_type == "BYTE_ARRAY":
                coded.add(column.path)
    check_ratio(where, unpacked, packed)
    return Unpacked(unpacked, frozenset(coded))


class _Page(NamedTuple):
    unpacked: int
    packed: int
    is_coded: bool


def _pages(file: BinaryIO, chunk: ColumnChunk, where: str) -> Iterator[_Page]:
    at, end = chunk.begin, chunk.begin + chunk.size_bytes
    while at < end:
        fields, size = _head_at(file, at, end, where)
        unpacked, packed = fields.get(UNPACKED), fields.get(PACKED)
        kinds = {number: each for number in ENCODINGS_AT if isinstance(each := fields.get(number), dict)}
        encodings = [each.get(ENCODINGS_AT[number]) for number, each in kinds.items()]
        if not isinstance(unpacked, int) or not isinstance(packed, int) or min(unpacked, packed) < 0:
            raise CaptureError(f"{where} has a page at byte {at} that makes no sense")
        if PREFIXED in encodings:
            raise CaptureError(f"{where} is encoded as DELTA_BYTE_ARRAY, which may become any size; write it otherwise")
        yield _Page(unpacked, packed, any(each in DICTIONARIES for each in encodings))
        at += size + packed


def _head_at(file: BinaryIO, at: int, end: int, where: str) -> tuple[Struct, int]:
    """Read the head of a page, and give its size; most heads are short, so a short piece is tried first."""
    for most in (HEAD_BYTES, MAX_HEAD_BYTES):
        file.seek(at)
        head = CompactReader(file.read(min(most, end - at)))
        try:
            return head.struct(), head.at
        except IndexError:
            continue
        except ValueError:
            break
    raise CaptureError(f"{where} has a page at byte {at} without a head")
