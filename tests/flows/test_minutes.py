"""Links and findings on signatures by the minute, and that no sender can make a row large."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from hopwire.flows.minutes import MAX_NAMED, crossings_in, links_of, security_of, signed_in, touched
from hopwire.flows.schemas import HOP_SCHEMA

MINUTE = datetime(2023, 11, 14, 22, 13, tzinfo=UTC)
NOW = int(MINUTE.timestamp()) * 1_000_000_000
LAST = NOW + 59_999_999_999  # the last nanosecond of that minute
Found = Callable[..., dict[str, dict[str, Any]]]


def hop(verdict: str = "valid", identity: bytes = b"x", **more: Any) -> dict[str, Any]:
    plain = {"from_node": b"a", "to_node": b"b", "repeat": "", "left_at_ns": NOW, "fate": "arrived"}
    return {**plain, "verdict": verdict, "identity": identity, **more}


def rows_of(*hops: dict[str, Any]) -> pa.Table:
    return crossings_in(pa.Table.from_pylist(list(hops), HOP_SCHEMA))


@pytest.fixture
def found() -> Found:
    """Give the findings of some hops, which are all of one sender and one minute, by their names."""

    def of(*hops: dict[str, Any]) -> dict[str, dict[str, Any]]:
        signed = signed_in(pa.Table.from_pylist(list(hops), HOP_SCHEMA))
        table = security_of(rows_of(*hops), signed).to_pylist()
        assert {(row["sender"], row["minute"]) for row in table} <= {(b"a", MINUTE)}
        return {row["finding"]: row for row in table}

    return of


def test_links_count_and_measure_by_pair_identity_and_minute() -> None:
    rows = [hop(latency_us=number, left_at_ns=LAST, size_bytes=10) for number in range(1, 101)]
    rows += [hop(fate="duplicate", left_at_ns=None, arrived_at_ns=NOW, size_bytes=10), hop(fate="dead")]
    rows += [hop(fate="lost", size_bytes=10), hop(fate="lost", identity=b"y"), hop(fate="lost", left_at_ns=LAST + 1)]
    first, later, other = sorted(links_of(rows_of(*rows)).to_pylist(), key=repr)
    assert (first["minute"], later["minute"].minute, other["identity"]) == (MINUTE, 14, b"y")
    assert (first["hop_count"], first["size_bytes"]) == (102, 1020)
    assert (first["arrived_count"], first["lost_count"], first["duplicate_count"]) == (100, 1, 1)
    assert (first["p50_us"], first["p95_us"], first["p99_us"]) == (50, 95, 99)
    assert other["p50_us"] is None


def test_minutes_are_touched_by_what_is_other_and_not_by_what_is_the_same() -> None:
    same, lost = hop(latency_us=1), hop(fate="lost", left_at_ns=LAST + 1)
    arrived = hop(latency_us=2, left_at_ns=LAST + 1, arrived_at_ns=LAST + 60 * 10**9)
    assert touched(rows_of(same, lost), rows_of(lost, same)) == set()
    first = NOW // (60 * 10**9)
    assert touched(rows_of(same, lost), rows_of(same, arrived)) == {first + 1}
    assert touched(rows_of(same), rows_of(same, same)) == {first}, "a row more is another minute, too"


def test_what_is_not_valid_and_what_came_again_is_counted(found: Found) -> None:
    again: dict[str, Any] = {"fate": "duplicate", "repeat": "replayed"}
    table = found(
        hop(),
        hop("invalid"),
        hop("invalid", b"y", fate="lost"),
        hop(**again, left_at_ns=None, arrived_at_ns=NOW),
        hop("not_in_domain", **again),
        hop("no_key", fate="dead"),
        hop(fate="duplicate", repeat="duplicate"),
    )
    counts = {name: (row["message_count"], row["identities"], row["receivers"]) for name, row in table.items()}
    assert counts == {
        "invalid": (2, [b"x", b"y"], [b"b"]),
        "replayed": (2, [b"x"], [b"b"]),
        "not_in_domain": (1, [b"x"], [b"b"]),
    }


def test_unsigned_is_a_finding_only_where_others_of_the_identity_are_valid(found: Found) -> None:
    assert found(hop("unsigned", b"prices"), hop("unsigned", b"prices"), hop("valid", b"orders")) == {}
    table = found(hop("unsigned", b"prices"), hop("unsigned", b"orders"), hop("valid", b"orders", from_node=b"c"))
    assert table["unsigned"]["identities"] == [b"orders"]
    assert table["unsigned"]["message_count"] == 1


def test_forger_cannot_make_what_goes_unsigned_look_as_if_it_were_signed(found: Found) -> None:
    hops = [
        hop("unsigned", b"prices"),
        *(hop(verdict, b"prices") for verdict in ("invalid", "no_key", "not_in_domain")),
    ]
    assert set(found(*hops)) == {"invalid", "no_key", "not_in_domain"}


def test_names_are_few_and_the_first_however_many_there_are(found: Found) -> None:
    names = [f"{number:03}".encode() for number in range(100)]
    invented = [hop("invalid", name) for name in reversed(names)]
    told = [hop("invalid", b"050", to_node=name) for name in names]
    row = found(*invented, *told)["invalid"]
    assert row["message_count"] == 200
    assert row["identities"] == row["receivers"] == names[:MAX_NAMED]
