"""When to write and when to roll: numbers in, yes or no out."""

from __future__ import annotations

from typing import Any

import pytest

from hopwire.capture.settings import CaptureSettings, Sync, is_batch_due, is_roll_due
from hopwire.errors import SettingsError
from tests.capture.making import MS, S

SETTINGS = CaptureSettings(batch_rows=10, batch_bytes=1_000, batch_age_ms=50, segment_bytes=5_000, segment_age_s=60)

# fmt: off
BATCHES = [
    # rows  bytes  waiting     due
    (0,     0,     3_600 * S,  False),
    (1,     1,     0,          False),
    (9,     999,   50*MS - 1,  False),
    (10,    1,     0,          True),
    (1,     1_000, 0,          True),
    (1,     1,     50 * MS,    True),
    (1,     1,     -1,         True),   # the clock was set back
]
ROLLS = [
    # bytes  age       due
    (4_999,  60*S - 1, False),
    (5_000,  0,        True),
    (1,      60 * S,   True),
    (1,      -1,       True),
]
# fmt: on


@pytest.mark.parametrize(("row_count", "size", "waiting", "due"), BATCHES)
def test_a_batch_is_due_when_it_is_full_or_old(row_count: int, size: int, waiting: int, due: bool) -> None:
    assert is_batch_due(SETTINGS, row_count, size, waiting) is due


@pytest.mark.parametrize(("size", "age", "due"), ROLLS)
def test_a_segment_is_rolled_when_it_is_large_or_old(size: int, age: int, due: bool) -> None:
    assert is_roll_due(SETTINGS, size, age) is due


@pytest.mark.parametrize(
    "wrong",
    [{"batch_rows": 0}, {"segment_age_s": -1}, {"batch_bytes": 1.5}, {"sync": "often"}, {"buffer_bytes": 2**31}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        CaptureSettings(**wrong)


def test_sync_may_be_given_as_text() -> None:
    assert CaptureSettings(sync=Sync("never")) == CaptureSettings(**{"sync": "never"})  # type: ignore[arg-type]
