"""How large a Parquet file becomes when it is unpacked, found out before anything is unpacked.

| where it stands | what it says |
|---|---|
| the footer | where the pages of each column are, and how many bytes they have |
| the head of each page | how many bytes the page becomes, and how its values are written |

The footer also has sums of the numbers in the heads. The sums are not believed: the author of a decompression bomb can
write any number there.

A row group is refused if it would become more than `MAX_GROUP_BYTES`, or would grow more than a thousandfold.
Dictionaries pass: `parquet.py` measures the values that they stand for.

The head of a page is a struct in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, BinaryIO, NamedTuple, TypeAlias

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

Struct: TypeAlias = "dict[int, int | Struct]"


class Unpacked(NamedTuple):
    """What a row group becomes when it is unpacked."""

    size_bytes: int
    coded: frozenset[str]  # the columns that have a dictionary, as Arrow wants them named


def check_ratio(where: str, unpacked: int, packed: int) -> None:
    """Refuse data that grows more than a thousandfold."""
    if unpacked > SMALL_BYTES and unpacked > MAX_RATIO * packed:
        raise CaptureError(f"{where} has {packed:,} bytes that would become {unpacked:,}; write it in smaller parts")


def unpacked_sizes(file: BinaryIO, metadata: Any, number: int, names: Collection[str]) -> Unpacked:
    """Give what some columns of a row group become, or refuse the row group if that is too much."""
    where = f"row group {number}"
    group = metadata.row_group(number)
    columns = [group.column(index) for index in range(group.num_columns)]
    columns = [column for column in columns if column.path_in_schema.partition(".")[0] in names]
    packed, unpacked, coded = 0, 0, set()
    for column in columns:
        for page in _pages(file, column, f"column {column.path_in_schema} of {where}"):
            packed, unpacked = packed + page.packed, unpacked + page.unpacked
            if unpacked > MAX_GROUP_BYTES:
                raise CaptureError(f"{where} would become {unpacked:,} bytes or more; write it in smaller parts")
            if page.encoding in DICTIONARIES and column.physical_type == "BYTE_ARRAY":
                coded.add(column.path_in_schema)
    check_ratio(where, unpacked, packed)
    return Unpacked(unpacked, frozenset(coded))


class _Page(NamedTuple):
    unpacked: int
    packed: int
    encoding: int


def _pages(file: BinaryIO, column: Any, where: str) -> Iterator[_Page]:
    at, dictionary_at = column.data_page_offset, column.dictionary_page_offset
    at = min(at, dictionary_at) if dictionary_at else at
    end = at + column.total_compressed_size
    while 0 <= at < end:
        fields, size = _head_at(file, at, end, where)
        kinds = {number: each for number in ENCODINGS_AT if isinstance(each := fields.get(number), dict)}
        numbers = [fields.get(UNPACKED), fields.get(PACKED)]
        numbers += [each.get(ENCODINGS_AT[number]) for number, each in kinds.items()] or [0]
        unpacked, packed, encoding = (each if isinstance(each, int) and each >= 0 else -1 for each in numbers[:3])
        if min(unpacked, packed, encoding) < 0:
            raise CaptureError(f"{where} has a page at byte {at} that makes no sense")
        if encoding == PREFIXED:
            raise CaptureError(f"{where} is encoded as DELTA_BYTE_ARRAY, which may become any size; write it otherwise")
        yield _Page(unpacked, packed, encoding)
        at += size + packed


def _head_at(file: BinaryIO, at: int, end: int, where: str) -> tuple[Struct, int]:
    """Read the head of a page, and give its size; most heads are short, so a short piece is tried first."""
    for most in (HEAD_BYTES, MAX_HEAD_BYTES):
        file.seek(at)
        head = _CompactReader(file.read(min(most, end - at)))
        try:
            return head.struct(), head.at
        except IndexError:
            continue
        except ValueError:
            break
    raise CaptureError(f"{where} has a page at byte {at} without a head")


class _CompactReader:
    """A struct in the compact protocol, read once from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> Struct:
        """Give the fields that are numbers or structs, by their ids."""
        if depth > MAX_DEPTH:
            raise ValueError
        found: Struct = {}
        last = 0
        while kind := self._byte():
            last = last + (kind >> 4) if kind >> 4 else self._number()
            kind &= 15
            if kind in NUMBERS:
                found[last] = self._number()
            elif kind == STRUCT:
                found[last] = self.struct(depth + 1)
            elif kind == BYTES:
                self._skip(self._varint())
            elif kind in SIZES:
                self._skip(SIZES[kind])
            else:
                raise ValueError  # a list or a map: no head of a page has one
        return found

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError

    def _varint(self) -> int:
        value = 0
        for shift in range(0, MAX_VARINT_BITS, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
        raise ValueError

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


# kinds of values in the compact protocol
NUMBERS, BYTES, STRUCT = (4, 5, 6), 8, 12
SIZES = {1: 0, 2: 0, 3: 1, 7: 8}  # true and false, a byte, a double
MAX_VARINT_BITS = 70
MAX_DEPTH = 4  # the head of a page has structs in it, two deep
