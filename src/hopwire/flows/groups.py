"""Columns as numbers, and the few moves that judging is made of: code, pack, group, reduce, look back.

A column of bytes or text becomes codes: equal values have equal numbers. Columns that are compared with each other are
coded together. Several codes are packed into one number, so that grouping by all of them is one sort.

A row *counts* where a mask says so: the earliest of the rows that count, the sum of the rows that count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.model.names import KINO_PREFIX, OF_QUESTIONS, OWN_PREFIX

__all__ = [
    "NEVER",
    "NO_TIME",
    "Groups",
    "codes",
    "distinct_lists",
    "equal_text",
    "filled_forward",
    "has_bytes",
    "in_order",
    "is_control",
    "is_reserved",
    "lists_of_groups",
    "nullable",
    "number_codes",
    "order_by",
    "other_places",
    "pack",
]

NO_TIME, NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max  # before and after every time
LARGEST = 2**61  # of packed numbers, so that the next product does not overflow
FIRST = 3  # columns by which nearly all rows differ
HALF_BITS = 32  # of a number
HEAD_BYTES = 8  # of a value, which fit into a number


def equal_text(column: Any, text: str) -> Bools:
    """Tell which rows have this text."""
    return bools(pc.equal(one_array(column), text))


def has_bytes(column: Any) -> Bools:
    """Tell which values are not empty."""
    return bools(pc.greater(pc.binary_length(one_array(column)), 0))


def is_reserved(identities: pa.Array) -> pa.Array:
    """Tell which identities belong to nodes, and not to their users."""
    values = identities.dictionary_encode()  # few contracts, many messages
    begins = [pc.starts_with(values.dictionary, prefix.decode()) for prefix in (OWN_PREFIX, KINO_PREFIX)]
    return pc.or_(*begins).take(values.indices)


def is_control(identities: pa.Array) -> pa.Array:
    """Tell which identities nodes use among themselves, and not to say what became of a question of somebody."""
    return pc.and_not(is_reserved(identities), pc.is_in(identities, pa.array(OF_QUESTIONS, identities.type)))


def codes(*columns: Any) -> tuple[list[Ints], pa.Array]:
    """Give columns of bytes or text as numbers into one array of distinct values; null is the empty value."""
    arrays = [one_array(column) for column in columns]
    together = pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0]
    encoded = pc.dictionary_encode(together)
    values = encoded.dictionary
    numbers = encoded.indices
    if numbers.null_count:
        empty = pc.index(values, pa.scalar(b"" if pa.types.is_binary(values.type) else "", values.type)).as_py()
        if empty < 0:
            empty, values = len(values), pa.concat_arrays([values, pa.array([""], pa.string()).cast(values.type)])
        numbers = pc.fill_null(numbers, pa.scalar(empty, numbers.type))
    flat = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
    bounds = np.cumsum([len(array) for array in arrays])
    return np.split(flat, bounds[:-1]), values


def number_codes(numbers: Ints) -> Ints:
    """Give numbers of any size as small numbers: equal numbers stay equal."""
    return ints(pc.dictionary_encode(pa.array(numbers)).indices)


def pack(*columns: Ints) -> Ints:
    """Give one number for each combination of numbers; they sort as the columns do, the first column first."""
    packed = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        low = int(column.min(initial=0))
        width = int(column.max(initial=0)) - low + 1
        if size * width > LARGEST:
            _, packed = np.unique(packed, return_inverse=True)
            size = len(packed) + 1
        packed = packed * width + (column - low)
        size *= width
    return packed


def order_by(*columns: Ints) -> Ints:
    """Give the order of rows by columns, the first column first; rows that are equal in all columns stay as they come.

    numpy sorts numbers ten times as fast as it tells their order. So a number has the place of its row in its last
    bits. Columns that do not fit into one number are sorted one after the other, the last column first.
    What is in order already is not sorted: to see this takes a fraction of the time.
    """
    place = order = np.arange(len(columns[0]))
    if _is_in_order(*columns):
        return order
    bits = len(place).bit_length()
    packed, size = np.zeros_like(place), 1
    halves = [half for column in columns for half in _halves(column, LARGEST >> bits)]
    for column in reversed(halves):
        low = int(column.min())
        width = int(column.max()) - low + 1
        if size * width > LARGEST >> bits:
            order, packed, size = _sorted_again(order, packed, bits), np.zeros_like(place), 1
        packed += np.subtract(column, low, dtype=np.int64) * size
        size *= width
    return _sorted_again(order, packed, bits)


def _halves(column: Ints, most: int) -> list[Ints]:
    """Give a column, or its upper and its lower half if its numbers differ by more than fits beside a place."""
    if int(column.max()) - int(column.min()) < most:
        return [column]
    return [column >> HALF_BITS, column & (1 << HALF_BITS) - 1]


def _sorted_again(order: Ints, number: Ints, bits: int) -> Ints:
    numbers = (number[order] << bits) + np.arange(len(order))
    numbers.sort()
    found: Ints = order[numbers & ((1 << bits) - 1)]
    return found


def _is_in_order(first: Ints, *others: Ints) -> bool:
    """Tell whether no row comes before the row in front of it."""
    is_later = first[1:] > first[:-1]
    is_same = first[1:] == first[:-1]
    for column in others:
        if not (is_later | is_same).all():
            return False
        is_later |= is_same & (column[1:] > column[:-1])
        is_same &= column[1:] == column[:-1]
    return bool((is_later | is_same).all())


class Groups:
    """Rows by a number: an order that brings rows with equal numbers together, and where each group starts in it."""

    def __init__(self, number: Ints, *then_by: Ints, order: Ints | None = None) -> None:
        """Rows of a group come by further columns, or in a known order of all rows, which groupings can share."""
        self.order = order_by(number, *then_by) if order is None else order[order_by(number[order])]
        in_order = number[self.order]
        is_first = np.ones(len(number), dtype=np.bool_)
        is_first[1:] = in_order[1:] != in_order[:-1]
        self.starts = np.flatnonzero(is_first)
        self.of = np.empty(len(number), dtype=np.int64)  # the group of each row
        self.of[self.order] = np.cumsum(is_first) - 1

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Ints:
        """How many rows each group has."""
        return np.diff(np.append(self.starts, len(self.of)))

    @property
    def first(self) -> Ints:
        """The first row of each group."""
        return self.order[self.starts]

    def least(self, values: Ints, where: Bools | None = None) -> Ints:
        """Give the least value among the rows of each group that count; NEVER where no row counts."""
        return self._reduced(np.minimum, values if where is None else np.where(where, values, NEVER))

    def most(self, values: Ints, where: Bools | None = None) -> Ints:
        """Give the largest value among the rows of each group that count; NO_TIME where no row counts."""
        return self._reduced(np.maximum, values if where is None else np.where(where, values, NO_TIME))

    def total(self, values: Ints | Bools) -> Ints:
        """Give the sum of each group."""
        return self._reduced(np.add, values.astype(np.int64))

    def has(self, where: Bools) -> Bools:
        """Tell in which groups any row counts."""
        return self.total(where) > 0

    def first_where(self, where: Bools) -> Ints:
        """Give the first row of each group that counts, -1 where no row counts."""
        places = np.where(where[self.order], np.arange(len(self.order)), len(self.order))
        place = np.minimum.reduceat(places, self.starts) if len(self.starts) else places
        padded = np.append(self.order, -1)
        return padded[place]

    def last_where(self, where: Bools) -> Ints:
        """Give the last row of each group that counts, -1 where no row counts."""
        places = np.where(where[self.order], np.arange(len(self.order)), -1)
        place = np.maximum.reduceat(places, self.starts) if len(self.starts) else places
        padded = np.append(self.order, -1)
        return padded[place]

    def _reduced(self, reduce: Any, values: Ints) -> Ints:
        if not len(self.starts):
            return np.zeros(0, dtype=np.int64)
        return np.asarray(reduce.reduceat(values[self.order], self.starts))


def filled_forward(groups: Groups, where: Bools) -> Ints:
    """Give for each row the last row before it in its group that counts, -1 where no row before it counts."""
    order = groups.order
    place = np.where(where[order], np.arange(len(order)), -1)
    before = np.empty_like(place)
    before[:1] = -1
    before[1:] = np.maximum.accumulate(place)[:-1]
    before[before < groups.starts[groups.of[order]]] = -1
    found = np.empty_like(before)
    found[order] = np.append(order, -1)[before]
    return found


def nullable(values: Ints) -> pa.Array:
    """Give numbers as a column that is null where the number is NO_TIME."""
    return pa.array(values, mask=values == NO_TIME)


def lists_of_groups(group: Ints, values: pa.Array, size: int) -> pa.Array:
    """Give values, which are sorted by their group, as one list for each of `size` groups."""
    bounds = np.searchsorted(group, np.arange(size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds), values)


def distinct_lists(group: Ints, code: Ints, names: pa.Array, size: int) -> pa.Array:
    """Give the distinct names of each of `size` groups as a list, sorted, without the empty name."""
    order = pc.sort_indices(names)
    rank = np.empty(len(names), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(names))
    width = len(names) + 1
    pairs = np.sort(group * width + rank[code])
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]]
    sorted_names = names.take(order)
    pairs = pairs[has_bytes(sorted_names)[pairs % width]]
    return lists_of_groups(pairs // width, sorted_names.take(pa.array(pairs % width)), size)


def other_places(before: pa.Table, after: pa.Table, place: Ints) -> Ints:
    """Give a row of each place whose rows are not the same before and after; both tables are numbered as one.

    `place` has a number for each row of both, and equal rows have equal places. Where a place has more rows or fewer
    than before, no row is compared.
    """
    both = pa.concat_tables([before, after])
    sign = np.repeat([-1, 1], [len(before), len(after)])
    groups = Groups(place)
    is_other = groups.total(sign) != 0
    is_open = ~is_other[groups.of]
    if is_open.any():
        rows = both.append_column("=place", pa.array(groups.of)).append_column("=sign", pa.array(sign))
        sums = rows.filter(pa.array(is_open)).group_by([*both.column_names, "=place"]).aggregate([("=sign", "sum")])
        is_other[ints(sums.filter(pc.not_equal(sums["=sign_sum"], 0))["=place"])] = True
    return np.asarray(groups.first[is_other])


def in_order(rows: pa.Table, *names: str) -> pa.Table:
    """Give rows in the order of columns of numbers, bytes or text, the first column first; nulls come last.

    Few rows are equal in the first columns, and only these are compared by all others.
    """
    first = [_ranks(rows[name]) for name in names[:FIRST]]
    order = order_by(*first)
    if len(names) > FIRST:
        is_same = np.all([column[order[1:]] == column[order[:-1]] for column in first], axis=0)
        places = np.flatnonzero(np.append(is_same, False) | np.append(False, is_same)[: len(order)])
        equal = order[places]
        few = rows.select(list(names[FIRST:])).take(pa.array(equal))
        others = [_ranks(few[name]) for name in few.column_names]
        order[places] = equal[np.lexsort([*reversed(others), *(column[equal] for column in reversed(first))])]
    return rows.take(pa.array(order))


def _ranks(column: pa.ChunkedArray) -> Ints:
    """Give numbers that sort as the values of a column do."""
    if pa.types.is_integer(column.type):
        return ints(column, NEVER)
    coded = pc.dictionary_encode(one_array(column))
    rank = np.empty(len(coded.dictionary) + 1, dtype=np.int64)
    rank[_sorted_values(coded.dictionary)] = np.arange(len(coded.dictionary))
    rank[-1] = len(coded.dictionary)
    return rank[ints(coded.indices, -1)]


def _sorted_values(values: pa.Array) -> Ints:
    """Give the order of bytes or texts that are all different: by their first eight bytes, if these are different."""
    offsets, data = values.buffers()[1:]
    bounds = np.frombuffer(offsets, np.int32)[values.offset :][: len(values) + 1]
    if len(values) and np.diff(bounds).min() >= HEAD_BYTES:
        letters = np.frombuffer(data, np.uint8)
        heads = np.stack([letters[bounds[:-1] + place] for place in range(HEAD_BYTES)], axis=1).view(">u8")[:, 0]
        head = heads.astype(np.uint64)
        order = np.argsort(head)
        if (head[order[1:]] != head[order[:-1]]).all():
            return order
    return np.asarray(pc.sort_indices(values).to_numpy(), dtype=np.int64)
