"""A column of frames to columns of fields, without a Python loop over the messages.

1. `_claims` finds the rows that each format claims by its number.
2. `format_reader.py` reads the rows of one format: the rows of its table become steps over whole columns.
3. `_merged` brings the rows of all formats together, and `column_builder.py` copies the columns out once.
4. Rows that are no messages are shown to the walk one by one. So a reason is the same, whichever reader gives it.

`decode_batch` gives a row for each row. `decode_apart` gives the messages without gaps, and the reasons of all other
rows beside them: who wants the messages alone does not copy them a second time.

A row that two formats claim is read as both, and belongs to the format that fits the whole row. A row that fits no
format, or two, is no message. A batch that is broken throughout is read at the speed of the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hopwire.columnar import Bools, Ints
from hopwire.errors import SettingsError, WireError
from hopwire.model.limits import Limits
from hopwire.wire.arrow import SCHEMA
from hopwire.wire.batch.buffers import Frames, list_of_binary
from hopwire.wire.batch.column_builder import columns_from_part, copy_blobs, has_right_text
from hopwire.wire.batch.format_reader import Part, read_rows, spread
from hopwire.wire.formats import FORMATS, V3
from hopwire.wire.schema import FromEnd, WireFormat
from hopwire.wire.walk import DEFAULT_LIMITS, LENGTH_BYTES, read

__all__ = ["ApartRows", "decode_apart", "decode_batch"]

NUMBER = np.dtype("<u4")  # the number of a format: at most four bytes
REASONS = {"reason": "reason", "reason_frame": "frame", "reason_byte": "byte"}  # columns, and where an error has them


class ApartRows(NamedTuple):
    """Messages, and the reasons of the rows that are none; `is_message` says of each row where it is."""

    is_message: Bools
    messages: pa.RecordBatch
    reasons: pa.RecordBatch


def decode_batch(
    frames: pa.Array | pa.ChunkedArray, limits: Limits = DEFAULT_LIMITS, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Read a column of messages, one list of frames a row, in any mix of formats.

    A row that is no message gets its reason. All columns of SCHEMA are given, or the named columns, which is faster.
    Batches of 4,000 to 30,000 messages are best.
    """
    names = _column_names(columns)
    buffer = Frames(list_of_binary(frames))
    part, ok = _read(buffer, limits, names, _merged)
    batch = _batch(part, ok, names)
    return batch if ok.all() else _with_reasons(batch, buffer, np.flatnonzero(~ok), limits)


def decode_apart(frames: pa.Array | pa.ChunkedArray, limits: Limits = DEFAULT_LIMITS) -> ApartRows:
    """Read a column of messages as `decode_batch` does, and give the rows that are messages apart from the others."""
    buffer = Frames(list_of_binary(frames))
    part, ok = _read(buffer, limits, SCHEMA.names, _merged_messages)
    messages = _batch(part, np.ones(len(part.rows), dtype=np.bool_), SCHEMA.names)
    found = _reasons(buffer, np.flatnonzero(~ok), limits)
    fields = [SCHEMA.field(name) for name in REASONS]
    arrays = [pa.array(found[each.name], each.type) for each in fields]
    return ApartRows(ok, messages, pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))


def _read(
    buffer: Frames, limits: Limits, names: Sequence[str], merged: Callable[[list[Part], int], tuple[Part, Ints]]
) -> tuple[Part, Bools]:
    """Read the messages, with the blobs of the named columns copied out, and tell which rows are messages."""
    parts = [read_rows(fmt, buffer, rows, limits) for fmt, rows in _claims(buffer, limits) if len(rows)]
    part, fits = merged(parts, len(buffer))
    copy_blobs(part, buffer, names)
    if fits.max(initial=0) > 1 or not has_right_text(part).all():
        part, fits = merged([_with_right_text(part, buffer) for part in parts], len(buffer))
        copy_blobs(part, buffer, names)
    return part, fits == 1


def _batch(part: Part, ok: Bools, names: Sequence[str]) -> pa.RecordBatch:
    arrays = columns_from_part(part, ok, list(names))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([SCHEMA.field(name) for name in names]))


def _column_names(columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return list(SCHEMA.names)
    for name in columns:
        if name not in SCHEMA.names:
            raise SettingsError(f"no column {name!r}; there are {', '.join(SCHEMA.names)}")
    return list(columns)


def _with_right_text(part: Part, frames: Frames) -> Part:
    copy_blobs(part, frames, ())
    return part.kept(has_right_text(part))


# -- which format


def _claims(frames: Frames, limits: Limits) -> list[tuple[WireFormat, Ints]]:
    """The rows that each format claims by its number; V3 may claim a row that another format claims too."""
    rows = np.flatnonzero(frames.sound(limits))
    start, stop = frames.frame(frames.end[rows] - 1)
    held_back = np.maximum(start - (len(frames.data) - NUMBER.itemsize), 0)
    begins, size = frames.gather(NUMBER, start) >> (8 * held_back), stop - start
    return [
        (fmt, _claims_inside(fmt, frames, rows) if fmt is V3 else rows[_claims_last(fmt, begins, size)])
        for fmt in FORMATS
    ]


def _claims_last(fmt: WireFormat, begins: Ints, size: Ints) -> Bools:
    """Rows whose last frame is the number of a format, or a meta frame that begins with that number."""
    matches = np.zeros(len(begins), dtype=np.bool_)
    for number in fmt.numbers:
        fits = size > LENGTH_BYTES if fmt.has_meta_frame else size == len(number)
        matches |= fits & (begins & ((1 << 8 * len(number)) - 1) == int.from_bytes(number, "little"))
    return matches


def _claims_inside(fmt: WireFormat, frames: Frames, rows: Ints) -> Ints:
    """Rows that have the number of a format in a frame further up."""
    rows = rows[frames.count[rows] >= fmt.tail]
    place = fmt.number_field.frame
    assert isinstance(place, FromEnd)
    (number,) = fmt.numbers
    start, stop = frames.frame(frames.end[rows] - place.k)
    right = stop - start == len(number)
    rows, start = rows[right], start[right]
    return np.asarray(rows[frames.gather(NUMBER, start) == int.from_bytes(number, "little")])


# -- parts to one


def _merged(parts: list[Part], size: int) -> tuple[Part, Ints]:
    """All parts as one, in the order of the rows, and how many formats each row fits.

    A field that a format does not carry is empty or 0. A row that fits two formats belongs to neither.
    """
    fits = np.zeros(size, dtype=np.int64)
    for part in parts:
        fits[part.rows] += 1
    if len(parts) == 1 and fits.all():
        return parts[0], fits
    parts = [part.kept(fits[part.rows] == 1) for part in parts]
    whole, sizes = Part(np.arange(size)), {"": size}
    places = [{"": part.rows} for part in parts]  # where the values of each part go, by block
    for block in {block for part in parts for block in part.counts}:
        having = [
            (place, part.counts[block]) for place, part in zip(places, parts, strict=True) if block in part.counts
        ]
        counts = _scattered(size, ((place[""], piece) for place, piece in having))
        firsts = np.cumsum(counts) - counts
        for place, piece in having:
            place[block] = spread(firsts[place[""]], piece)
        whole.counts[block], sizes[block] = counts, int(counts.sum())
    for key in dict.fromkeys([("", "wire_format"), *(key for part in parts for key in part.values)]):
        pairs = zip(places, parts, strict=True)
        pieces = ((place[key[0]], part.values[key]) for place, part in pairs if key in part.values)
        whole.values[key] = _scattered(sizes[key[0]], pieces)
    return whole, fits


def _merged_messages(parts: list[Part], size: int) -> tuple[Part, Ints]:
    """All parts as one, without the rows that are no messages."""
    part, fits = _merged(parts, size)
    return part.kept(fits == 1), fits


def _scattered(size: int, pieces: Iterable[tuple[Ints, Ints]]) -> Ints:
    values = np.full(size, 0)  # zeros() would fetch new pages from the system
    for index, piece in pieces:
        values[index] = piece
    return values


# -- rows that are not messages


def _with_reasons(batch: pa.RecordBatch, frames: Frames, rows: Ints, limits: Limits) -> pa.RecordBatch:
    """Let the walk say what is wrong with the rows that are not messages."""
    wanted = [name for name in REASONS if name in batch.schema.names]
    if not wanted:
        return batch
    found = _reasons(frames, rows, limits)
    for name in wanted:
        index = batch.schema.get_field_index(name)
        values = np.full(batch.num_rows, None, dtype=object)
        values[rows] = found[name]
        batch = batch.set_column(index, SCHEMA.field(name), pa.array(values, SCHEMA.field(name).type))
    return batch


def _reasons(frames: Frames, rows: Ints, limits: Limits) -> dict[str, list[Any]]:
    errors = [_error(frames.row(row), limits) for row in rows.tolist()]
    return {name: [getattr(error, source) for error in errors] for name, source in REASONS.items()}


def _error(frames: list[bytes | None] | None, limits: Limits) -> WireError:
    try:
        read(frames, limits)
    except WireError as error:
        return error.with_traceback(None)  # or the frames of the walk live as long as the error
    raise AssertionError(f"the readers disagree on {frames!r}")
