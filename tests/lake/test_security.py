"""`gold.security`: what counts as a finding, and that no sender can make a row of it large."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hopwire.flows.schemas import HOP_SCHEMA
from hopwire.lake.gold.security import MAX_NAMED, security
from hopwire.lake.tables import all_tables

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MINUTE = datetime(2023, 11, 14, 22, 13, tzinfo=UTC)
NOW = int(MINUTE.timestamp()) * 1_000_000_000
Found = Callable[..., dict[str, dict[str, Any]]]


def hop(verdict: str = "valid", identity: bytes = b"x", **more: Any) -> dict[str, Any]:
    plain = {"from_node": b"a", "to_node": b"b", "repeat": "", "left_at_ns": NOW, "fate": "arrived"}
    return {**plain, "verdict": verdict, "identity": identity, **more}


@pytest.fixture
def found(spark: SparkSession) -> Found:
    """Give the findings of some hops, which are all of one sender and one minute, by their names."""

    def of(*hops: dict[str, Any]) -> dict[str, dict[str, Any]]:
        rows = security(spark.createDataFrame(pa.Table.from_pylist(list(hops), HOP_SCHEMA)))
        table = rows.toArrow()
        assert table.schema.names == all_tables()["gold.security"].schema.names
        assert {(row["sender"], row["minute"]) for row in table.to_pylist()} <= {(b"a", MINUTE)}
        return {row["finding"]: row for row in table.to_pylist()}

    return of


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
