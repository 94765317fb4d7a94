"""Structs in Thrift's compact protocol: the footer of a Parquet file, and the heads of its pages.

A field is a byte, then its value. The byte has the kind of the value, and how far the id is from the id before:

    15 04    id 1 (0 + 1), kind 5: the number 2

Whoever writes a file could write a field so that two readers read two numbers from it: a reader that takes the first
field and a reader that takes the last field of an id, or a reader of 32 bits and a reader of 64. The size that was
checked would then not be the size that Arrow unpacks. So a struct with a field that stands twice, with an id that is
no i16, or with a number that its kind cannot hold is a ValueError here. What ends too early is an IndexError.
"""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["CompactReader", "Struct", "Value"]

Struct: TypeAlias = "dict[int, Value]"
Value: TypeAlias = "int | Struct | list[Struct]"  # other values are passed over

# kinds of values
NUMBER_BITS = {4: 16, 5: 32, 6: 64}
BYTES, LISTS, STRUCT = 8, (9, 10), 12
SIZES = {3: 1, 7: 8}  # a byte, a double
TRUTHS = (1, 2)  # the kind is the value; only in a list the value is a byte
MAX_VARINT_BITS = 70
MAX_ID = 2**15
LONG_LIST = 15
MAX_DEPTH = 10  # the footer of a Parquet file has structs in it, five deep


class CompactReader:
    """A struct in the compact protocol, read once from front to back."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> Struct:
        """Give the fields that are numbers, structs, or lists of structs, by their ids."""
        if depth > MAX_DEPTH:
            raise ValueError
        found: Struct = {}
        seen: set[int] = set()
        last = 0
        while head := self._byte():
            last = last + (head >> 4) if head >> 4 else self._number(16)
            if last in seen or not 0 <= last < MAX_ID:
                raise ValueError
            seen.add(last)
            kind = head & 15
            value = None if kind in TRUTHS else self._value(kind, depth)
            if value is not None:
                found[last] = value
        return found

    def _value(self, kind: int, depth: int) -> Value | None:
        if kind in NUMBER_BITS:
            return self._number(NUMBER_BITS[kind])
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in LISTS:
            return self._list(depth)
        if kind != BYTES and kind not in SIZES:
            raise ValueError  # Parquet has no other kinds
        self._skip(self._varint() if kind == BYTES else SIZES[kind])
        return None

    def _list(self, depth: int) -> list[Struct]:
        head = self._byte()
        count = self._varint() if head >> 4 == LONG_LIST else head >> 4
        kind = head & 15
        if kind in TRUTHS:
            self._skip(count)
            return []
        found = (self._value(kind, depth) for _ in range(count))
        return [each for each in found if isinstance(each, dict)]

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

    def _number(self, bits: int) -> int:
        value = self._varint()
        if value >> bits:
            raise ValueError
        return (value >> 1) ^ -(value & 1)
