"""When to write and when to begin a new file: the settings, and the decisions that follow from them.

The decisions are pure: sizes and times in, yes or no out. If the clock was set back, everything that waits is due at
once. Example: a row was seen at 12:00:00 and the clock is set back to 11:00:00; the row is written now, not after
12:00:00.2 has come again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

from hopwire.disk import OWNER_ONLY, check_mode
from hopwire.errors import SettingsError
from hopwire.model.units import MEBIBYTE, NS_PER_MS, NS_PER_SECOND

__all__ = ["CaptureSettings", "Sync", "is_batch_due", "is_roll_due"]

MAX_BUFFER_BYTES = 2**31 - 1  # what the 32-bit offsets of one batch reach


class Sync(StrEnum):
    """When the disk is told to keep what it was given; the rest is lost if the machine, not only the node, crashes."""

    BATCH = "batch"
    SEGMENT = "segment"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """How a capture is written."""

    batch_rows: int = 1_000  # enough that the cost of a batch does not matter
    batch_bytes: int = 4 * MEBIBYTE  # so that a reader can hold a batch of large messages
    batch_age_ms: int = 200  # how long a reader waits for the sightings of a quiet node
    segment_bytes: int = 128 * MEBIBYTE  # small enough to pass around, large enough that a day is not a million files
    segment_age_s: int = 600  # how long a reader of sealed segments waits
    buffer_rows: int = 100_000  # some tenths of a second of a busy node
    buffer_bytes: int = 64 * MEBIBYTE  # what a slow disk may cost in memory
    sync: Sync = Sync.SEGMENT
    file_mode: int = OWNER_ONLY  # of new files, whatever the umask; users who may read them may enter new directories

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "sync" and (not isinstance(value, int) or value < 1):
                raise SettingsError(f"{field.name} must be a positive number, not {value!r}")
        if self.sync not in list(Sync):
            raise SettingsError(f"sync must be one of {', '.join(Sync)}, not {self.sync!r}")
        check_mode(self.file_mode)
        if self.buffer_bytes > MAX_BUFFER_BYTES:
            raise SettingsError(f"buffer_bytes must be at most {MAX_BUFFER_BYTES}, not {self.buffer_bytes}")


def is_batch_due(settings: CaptureSettings, row_count: int, size_bytes: int, waiting_ns: int) -> bool:
    """Decide whether rows that have waited so long are written now."""
    if row_count == 0:
        return False
    is_full = row_count >= settings.batch_rows or size_bytes >= settings.batch_bytes
    return is_full or _is_over(waiting_ns, settings.batch_age_ms * NS_PER_MS)


def is_roll_due(settings: CaptureSettings, size_bytes: int, age_ns: int) -> bool:
    """Decide whether a segment of that size and age is sealed now."""
    return size_bytes >= settings.segment_bytes or _is_over(age_ns, settings.segment_age_s * NS_PER_SECOND)


def _is_over(passed_ns: int, limit_ns: int) -> bool:
    return not 0 <= passed_ns < limit_ns
