"""Limits: how large a message may be."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hopwire.errors import SettingsError
from hopwire.model.units import MEBIBYTE

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a message may be; a reader refuses a larger message before reading it."""

    max_frames: int = 100_000  # more than a 16-bit offset reaches, with room for frames in front
    max_bytes: int = 256 * MEBIBYTE  # of all frames together: a quarter of the memory of a small machine
    max_entries: int = 65_535  # of routing or callback points: the largest 16-bit count

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int) or value < 1:
                raise SettingsError(f"{field.name} must be a positive number, not {value!r}")
