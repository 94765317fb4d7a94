"""Times as text: nanoseconds since 1970, exactly, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from hopwire.errors import CaptureError, SettingsError
from hopwire.model.units import NS_PER_SECOND

__all__ = ["compact_time", "ns_from_text", "time_text"]

FIRST_NS, LAST_NS = -(2**63), 2**63 - 1  # a column of times reaches no further
WRITTEN = re.compile(r"(?P<begin>[^.,]+)(?:[.,](?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?", re.ASCII)


def time_text(seen_at_ns: int | None) -> str:
    """Give a time for a person: 2026-01-31T12:00:00.000000001Z; empty where there is no time."""
    return "" if seen_at_ns is None else _written(seen_at_ns, "%Y-%m-%dT%H:%M:%S")


def compact_time(seen_at_ns: int) -> str:
    """Give a time for the name of a file; names sort as their times do."""
    return _written(seen_at_ns, "%Y%m%dT%H%M%S")


def _written(seen_at_ns: int, form: str) -> str:
    seconds, rest = divmod(seen_at_ns, NS_PER_SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):{form}}.{rest:09d}Z"


def ns_from_text(text: str, what: str) -> int:
    """Read a time: ISO 8601 (UTC if it names no zone), or nanoseconds since 1970; `what` names the option in errors."""
    if re.fullmatch(r"\d{14,19}", text, re.ASCII) and int(text) <= LAST_NS:
        return int(text)
    found = WRITTEN.fullmatch(text.strip())
    try:
        if found is None:
            raise ValueError
        moment = datetime.fromisoformat(found["begin"] + (found["zone"] or ""))
    except ValueError:
        raise CaptureError(f"{what}: found {text!r:.40}, expected a time such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    ns = round(moment.timestamp()) * NS_PER_SECOND + int((found["fraction"] or "").ljust(9, "0"))
    if not FIRST_NS <= ns <= LAST_NS:
        raise SettingsError(
            f"{what}: found {text!r:.40}, expected a time from {time_text(FIRST_NS)} to {time_text(LAST_NS)}"
        )
    return ns
