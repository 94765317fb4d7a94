"""Rows that a process has written, and that its next step reads again: the rows of open flows.

A step puts down what is open, so that whoever comes next can go on, in whatever process. A follower is that next one
itself. It has the rows still in memory, and reads no file of them. Which rows count is said by the lake alone: rows are
found by the name of their part, which is never given twice, and only where the lake has the files of this part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from hopwire.lake.manifest import StoredFile
from hopwire.model.units import MEBIBYTE

__all__ = ["keep_rows", "kept_rows"]

MAX_BYTES = 256 * MEBIBYTE  # of all rows together; what is larger is read again

_kept: dict[str, pa.Table] = {}  # the name of a part: its rows, of the last step of this process


def keep_rows(parts: Mapping[str, pa.Table]) -> None:
    """Keep the rows of parts, in place of all rows that were kept before."""
    _kept.clear()
    if sum(rows.nbytes for rows in parts.values()) <= MAX_BYTES:
        _kept.update(parts)


def kept_rows(files: Sequence[StoredFile]) -> pa.Table | None:
    """Give the rows of files, if these are all files of one part that was kept."""
    parts = {file.part for file in files}
    rows = _kept.get(parts.pop()) if len(parts) == 1 else None
    return rows if rows is not None and len(rows) == sum(file.row_count for file in files) else None
