"""One file of a capture, read batch by batch: sealed, being written, or left behind by a crash.

Whatever the file is, the reader gives the whole batches that it begins with and says what is wrong with the rest; only
that there is no such file is raised. Files are read, not mapped: a file that shrinks
under a map kills the process. Each batch is checked in full before it is given out: so would a damaged offset. What is
compressed is not read at all (`ipc.py`): no capture is, and nobody knows how much it becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from hopwire.capture.file_faults import Fault, FaultKind, refused
from hopwire.capture.ipc import CONTINUATION, MAX_HEADER_BYTES, PREFIX_BYTES, MessageHead, read_head
from hopwire.capture.segment import END, OPEN_SUFFIX, sealed_path
from hopwire.disk import open_regular
from hopwire.errors import CaptureError
from hopwire.model.sighting import SCHEMA, check_schema

__all__ = ["read_stream"]

PACKED = "has compressed batches from byte {} on, which no capture has; write it anew without compression"


def read_stream(
    path: Path, on_fault: Callable[[Fault], None], start: int = 0, end: int | None = None
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Give the whole batches that a file begins with, and report what is wrong with the rest of it.

    With each batch comes the position of its end; who has it can go on from there, or stop there.
    """
    try:
        opened = _opened(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        return on_fault(refused(path, error))
    with opened as file:
        size = file.size()
        stream = _stream(path, file, size, on_fault)
        if stream is None:
            return
        whole = max(start, file.tell())
        stop = size if end is None else min(end, size)
        file.seek(whole)
        while whole < stop and (head := _head(file, whole)) is not None:
            if head.is_packed:
                return on_fault(Fault(path, FaultKind.UNSUITABLE, PACKED.format(whole), stop - whole))
            if whole + head.size_bytes > stop or (batch := _next(stream)) is None:
                break  # what is not there is not asked for: Arrow would make room for it
            whole = file.tell()
            yield batch, whole
        if end is None or whole < stop:
            _check_end(path, file, whole, stop, on_fault)


def _check_end(path: Path, file: Any, whole: int, stop: int, on_fault: Callable[[Fault], None]) -> None:
    """Report what follows the last whole batch, if it is not the mark of the end."""
    file.seek(whole)
    is_ended = file.read(len(END)) == END
    whole += len(END) if is_ended else 0
    if whole < stop:
        detail = f"{stop - whole} bytes after the last whole batch are cut off"
        on_fault(Fault(path, FaultKind.CUT_OFF, detail, stop - whole))
    elif not is_ended and not path.name.endswith(OPEN_SUFFIX):
        on_fault(Fault(path, FaultKind.CUT_OFF, "is cut off behind a batch: the mark of its end is missing"))


def _opened(path: Path) -> Any:
    """Open a segment, also if it was sealed a moment ago."""
    try:
        return pa.PythonFile(open_regular(path), mode="r")
    except FileNotFoundError:
        if sealed_path(path) == path:
            raise
        return _opened(sealed_path(path))


def _head(file: Any, position: int) -> MessageHead | None:
    file.seek(position)
    head = read_head(file)
    file.seek(position)
    return head


def _stream(path: Path, file: Any, size: int, on_fault: Callable[[Fault], None]) -> Any:
    """Read the head of the file; give nothing, and say why, if it is not the head of a capture."""
    prefix = file.read(PREFIX_BYTES)
    file.seek(0)
    length = int.from_bytes(prefix[4:], "little")
    if not CONTINUATION.startswith(prefix[:4]) or length > MAX_HEADER_BYTES:
        return on_fault(Fault(path, FaultKind.FOREIGN, "is not an Arrow stream", size))
    if size < PREFIX_BYTES + length or size < PREFIX_BYTES:
        detail = "is cut off within its head" if size else "is empty"
        return on_fault(Fault(path, FaultKind.CUT_OFF, detail, size))
    try:
        stream = pa.ipc.open_stream(file)
        check_schema(stream.schema)
    except (pa.ArrowException, OSError):
        return on_fault(Fault(path, FaultKind.FOREIGN, "is not an Arrow stream", size))
    except CaptureError as error:
        return on_fault(Fault(path, FaultKind.UNSUITABLE, str(error), size))
    return stream


def _next(stream: Any) -> pa.RecordBatch | None:
    try:
        batch = stream.read_next_batch().select(SCHEMA.names)
        batch.validate(full=True)
    except (StopIteration, pa.ArrowException, OSError):
        return None
    if any(column.null_count for column in (*batch.columns, batch.column("frames").values)):
        return None  # no writer makes them: it is damage that Arrow takes for a value
    return batch.replace_schema_metadata(SCHEMA.metadata)
