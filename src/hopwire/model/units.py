"""Units of time and size: each factor once, named for what it converts."""

from __future__ import annotations

__all__ = [
    "MEBIBYTE",
    "NS_PER_DAY",
    "NS_PER_MINUTE",
    "NS_PER_MS",
    "NS_PER_SECOND",
    "NS_PER_TICK",
    "NS_PER_US",
    "TICKS_PER_SECOND",
]

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_SECOND = 1_000_000_000
NS_PER_MINUTE = 60 * NS_PER_SECOND
NS_PER_DAY = 24 * 60 * NS_PER_MINUTE

NS_PER_TICK = 100  # a time to live counts ticks, in all four formats
TICKS_PER_SECOND = NS_PER_SECOND // NS_PER_TICK

MEBIBYTE = 1024 * 1024
