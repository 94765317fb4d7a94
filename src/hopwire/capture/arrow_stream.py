"""One file of a capture, read batch by batch: sealed, being written, or left behind by a crash.

The reader gives the sightings of the whole batches at the beginning of the file, and tells what is wrong with the rest.
It raises FileNotFoundError and nothing else. Files are read, not mapped: a mapped file that shrinks kills the process.
Each batch is validated in full before it is given out: a damaged offset would kill the process too. Trains are taken
apart into their messages (`expansion.py`).

A file is an Arrow stream. Its messages are a schema, then batches:

    ff ff ff ff, u32 length of the head, the head (a FlatBuffers table), then the body

The head of a message is read before Arrow reads the message, because Arrow unpacks a compressed batch as a whole: 29 KB
become 850 MB. No capture is compressed, so a compressed batch is not given to Arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.capture.expansion import Expansion
from hopwire.capture.file_faults import Fault, FaultKind, refused
from hopwire.capture.records import TRAIN, check_schema
from hopwire.capture.segment import END, OPEN_SUFFIX, sealed_path
from hopwire.errors import CaptureError
from hopwire.model.units import MEBIBYTE
from hopwire.places import Place, open_file

__all__ = ["BatchPlace", "MessageHead", "measure_stream", "place_of", "read_head", "read_stream"]

CONTINUATION = b"\xff\xff\xff\xff"  # the first bytes of each message; then comes the length of its head
PREFIX_BYTES = 8
MAX_HEADER_BYTES = MEBIBYTE  # a schema is some hundred bytes; a head that claims more is something else

# places in the tables `Message` and `RecordBatch` of Arrow's Message.fbs
TYPE_SLOT, HEADER_SLOT, BODY_LENGTH_SLOT = 1, 2, 3
COMPRESSION_SLOT = 3
DICTIONARY, BATCH = 2, 3  # values of the type

PACKED = "has compressed batches from byte {} on, which no capture has; write it anew without compression"


def read_stream(
    path: Place, on_fault: Callable[[Fault], None], start: int = 0, end: int | None = None, together_bytes: int = 0
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Give the sightings of the whole batches at the beginning of a file, and tell `on_fault` what is wrong.

    With each batch comes the position of its end. A later call can begin (`start`) or end (`end`) at such a position.
    Small batches become one of at most `together_bytes`.
    """
    expansion = Expansion()
    batches = _batches(path, on_fault, start, end)
    for batch, position in _together(batches, together_bytes) if together_bytes else batches:
        for sightings in expansion.sightings(batch):
            yield sightings, position
    if expansion.trouble:
        on_fault(Fault(path, FaultKind.UNREADABLE, expansion.trouble))


class BatchPlace(NamedTuple):
    """One batch of a file, without its rows."""

    end: int  # the position behind the batch
    sighting_count: int
    seen_at_ns: int  # the latest time of its sightings


def measure_stream(path: Place, start: int = 0) -> Iterator[BatchPlace]:
    """Give the whole batches behind a position, as far as they can be read; trains are counted, not taken apart."""
    for batch, position in _batches(path, lambda _: None, start, None):
        trains = batch.column(TRAIN) if TRAIN in batch.schema.names else None
        count = len(batch) if trains is None else pc.sum(pc.max_element_wise(trains, 1)).as_py() or 0
        yield BatchPlace(position, count, pc.max(batch.column("seen_at_ns")).as_py() or 0)


def _batches(
    path: Place, on_fault: Callable[[Fault], None], start: int, end: int | None
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Give the batches as they are in the file: of records, or of sightings."""
    try:
        opened = _opened(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        return on_fault(refused(path, error))
    with opened as file:
        size = file.size()
        found = _stream(path, file, size, on_fault)
        if found is None:
            return
        stream, columns = found
        whole = max(start, file.tell())
        stop = size if end is None else min(end, size)
        file.seek(whole)
        while whole < stop and (head := _head(file, whole)) is not None:
            if head.is_packed:
                return on_fault(Fault(path, FaultKind.UNSUITABLE, PACKED.format(whole), stop - whole))
            if whole + head.size_bytes > stop or (batch := _next(stream, columns)) is None:
                break  # a batch that is cut off is not read: Arrow would allocate all of it first
            whole = file.tell()
            yield batch, whole
        if end is None or whole < stop:
            _check_end(path, file, whole, stop, on_fault)


def _together(batches: Iterator[tuple[pa.RecordBatch, int]], most_bytes: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Give neighbouring batches as one: each batch has its cost, however few rows there are."""
    waiting: list[pa.RecordBatch] = []
    size = last = 0
    try:
        for batch, position in batches:
            if waiting and size + batch.nbytes > most_bytes:
                yield _one(waiting), last
                waiting, size = [], 0
            waiting.append(batch)
            size, last = size + batch.nbytes, position
    except Exception:
        if waiting:
            yield _one(waiting), last  # what comes before a fault is given before the fault is told
        raise
    if waiting:
        yield _one(waiting), last


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _check_end(path: Place, file: Any, whole: int, stop: int, on_fault: Callable[[Fault], None]) -> None:
    """Tell what follows the last whole batch, if it is not the mark of the end."""
    file.seek(whole)
    is_ended = file.read(len(END)) == END
    whole += len(END) if is_ended else 0
    if whole < stop:
        detail = f"{stop - whole} bytes after the last whole batch are cut off"
        on_fault(Fault(path, FaultKind.CUT_OFF, detail, stop - whole))
    elif not is_ended and not path.name.endswith(OPEN_SUFFIX):
        on_fault(Fault(path, FaultKind.CUT_OFF, "is cut off behind a batch: the mark of its end is missing"))


def _opened(path: Place) -> Any:
    """Open a segment; if it was sealed a moment ago, open it by its new name."""
    try:
        return pa.PythonFile(open_file(path), mode="r")
    except FileNotFoundError:
        if sealed_path(path) == path:
            raise
        return _opened(sealed_path(path))


def _head(file: Any, position: int) -> MessageHead | None:
    file.seek(position)
    head = read_head(file)
    file.seek(position)
    return head


def _stream(
    path: Place, file: Any, size: int, on_fault: Callable[[Fault], None]
) -> tuple[pa.RecordBatchStreamReader, list[str]] | None:
    """Read the schema of the file, and give its columns; give None, and tell why, if it is not that of a capture."""
    prefix = file.read(PREFIX_BYTES)
    file.seek(0)
    length = int.from_bytes(prefix[4:], "little")
    if not CONTINUATION.startswith(prefix[:4]) or length > MAX_HEADER_BYTES:
        on_fault(Fault(path, FaultKind.FOREIGN, "is not an Arrow stream", size))
        return None
    if size < PREFIX_BYTES + length or size < PREFIX_BYTES:
        detail = "is cut off within its head" if size else "is empty"
        on_fault(Fault(path, FaultKind.CUT_OFF, detail, size))
        return None
    try:
        stream = pa.ipc.open_stream(file)
        columns = check_schema(stream.schema).names
    except (pa.ArrowException, OSError):
        on_fault(Fault(path, FaultKind.FOREIGN, "is not an Arrow stream", size))
        return None
    except CaptureError as error:
        on_fault(Fault(path, FaultKind.UNSUITABLE, str(error), size))
        return None
    return stream, columns


def _next(stream: Any, columns: list[str]) -> pa.RecordBatch | None:
    try:
        batch = stream.read_next_batch().select(columns)
        batch.validate(full=True)
    except (StopIteration, pa.ArrowException, OSError):
        return None
    if any(column.null_count for column in (*batch.columns, batch.column("frames").values)):
        return None  # no writer makes nulls: they are damage that Arrow takes for values
    return batch


# -- the heads of the messages of an Arrow stream


class MessageHead(NamedTuple):
    """The head of a message of an Arrow stream."""

    size_bytes: int  # of prefix, head and body together
    is_packed: bool  # compressed, or a dictionary for the columns of others


def read_head(file: Any) -> MessageHead | None:
    """Read the head of the message that begins at the position of the file; None if there is none."""
    prefix = file.read(PREFIX_BYTES)
    length = int.from_bytes(prefix[4:], "little")
    if len(prefix) < PREFIX_BYTES or prefix[:4] != CONTINUATION or not 0 < length <= MAX_HEADER_BYTES:
        return None
    try:
        return _head_from(file.read(length), PREFIX_BYTES + length)
    except struct.error:
        return None


def _head_from(data: bytes, size_bytes: int) -> MessageHead | None:
    message = struct.unpack_from("<I", data)[0]
    body = _number(data, message, BODY_LENGTH_SLOT, "<q")
    if body < 0:
        return None
    kind, at = _number(data, message, TYPE_SLOT, "<B"), place_of(data, message, HEADER_SLOT)
    is_packed = kind == DICTIONARY
    if kind == BATCH and at is not None:
        is_packed = place_of(data, at + struct.unpack_from("<I", data, at)[0], COMPRESSION_SLOT) is not None
    return MessageHead(size_bytes + body, is_packed)


def place_of(data: bytes, table: int, slot: int) -> int | None:
    """Say where a field of a FlatBuffers table lies, as its vtable says; None if the table does not have the field."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise struct.error("a table in front of the data")
    at = 4 + 2 * slot
    (vtable_bytes,) = struct.unpack_from("<H", data, vtable)
    (offset,) = struct.unpack_from("<H", data, vtable + at) if vtable_bytes > at else (0,)
    return table + offset if offset else None


def _number(data: bytes, table: int, slot: int, form: str) -> int:
    at = place_of(data, table, slot)
    return 0 if at is None else int(struct.unpack_from(form, data, at)[0])
