"""Times as text, to the nanosecond."""

from __future__ import annotations

import pytest

from hopwire.capture.times import compact_time, ns_from_text, time_text
from hopwire.errors import CaptureError, SettingsError

NS = 1_800_000_000_123_456_789


@pytest.mark.parametrize("ns", [NS, 0, 1, -1, 2**63 - 1, -(2**63)])
def test_a_time_is_written_and_read_exactly(ns: int) -> None:
    assert ns_from_text(time_text(ns), "--since") == ns


# fmt: off
WRITTEN = [
    ("2027-01-15T08:00:00.123456789Z",      NS),
    ("2027-01-15T08:00:00.123456789",       NS),
    ("2027-01-15 08:00:00,123456789+00:00", NS),
    ("2027-01-15T09:00:00.123456789+01:00", NS),
    ("1800000000123456789",                 NS),
    ("2027-01-15T08:00:00",                 NS - 123_456_789),
    ("2027-01-15T08:00Z",                   NS - 123_456_789),
    ("2027-01-15",                          NS - 123_456_789 - 8 * 3_600 * 1_000_000_000),
]
# fmt: on


@pytest.mark.parametrize(("text", "ns"), WRITTEN)
def test_a_time_may_be_written_in_many_ways(text: str, ns: int) -> None:
    assert ns_from_text(text, "--since") == ns


@pytest.mark.parametrize("text", ["", "now", "2027-13-01", "12:00", "2027-01-15T08:00:00.1234567890Z", "1.5"])
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(CaptureError) as caught:
        ns_from_text(text, "--since")
    assert str(caught.value) == f"--since: found {text!r}, expected a time such as 2026-01-31T12:00:00Z"


@pytest.mark.parametrize(
    "text", ["0001-01-01", "0001-01-01T00:00+01:00", "1677-09-21T00:12:43.145224191Z", "2262-04-11T23:47:16.854775808Z",
             "9999-12-31", "9999-12-31T23:59-01:00"]
)  # fmt: skip
def test_time_that_no_column_can_hold_is_refused_with_the_bounds(text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ns_from_text(text, "--from")
    assert str(caught.value) == (
        f"--from: found {text!r}, expected a time from 1677-09-21T00:12:43.145224192Z to 2262-04-11T23:47:16.854775807Z"
    )


def test_no_time_is_no_text() -> None:
    assert time_text(None) == ""


def test_compact_times_sort_as_times_do() -> None:
    times = [0, 1, 999_999_999, 1_000_000_000, NS - 1, NS]
    assert [compact_time(ns) for ns in times] == sorted(compact_time(ns) for ns in times)
    assert compact_time(NS) == "20270115T080000.123456789Z"
