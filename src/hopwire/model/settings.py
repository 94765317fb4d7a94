"""Settings: every option once, with its default and its meaning."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hopwire.errors import SettingsError
from hopwire.model.units import MEBIBYTE

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of one message a reader is willing to take; what is larger is refused before it is read."""

    max_frames: int = 100_000  # what a 16-bit offset reaches, and room in front
    max_bytes: int = 256 * MEBIBYTE  # of all frames together: a quarter of what fills a small machine
    max_entries: int = 65_535  # of routing or callback points: as many as a 16-bit count can say

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or value < 1:
                raise SettingsError(f"{field.name} must be a positive number, not {value!r}")
