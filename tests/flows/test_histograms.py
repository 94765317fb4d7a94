"""Latencies by contract and minute: bins that add up, and quantiles."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from hopwire.flows.histograms import LATENCIES, OF_REQUESTS, added, bins_of, latencies_of, quantile_of
from hopwire.flows.schemas import REQUEST_SCHEMA
from hopwire.model.columns import schema_from_columns

MINUTE_NS = 60 * 10**9
BEGIN = 29_000_000 * MINUTE_NS


def requests(*rows: tuple[int, str, int | None], identity: bytes = b"shop.pay") -> pa.Table:
    """Requests by minute, outcome and latency."""
    contract = {"identity": identity, "version": 1, "version_raw": None, "partition": b"", "is_control": False}
    schema = pa.schema([REQUEST_SCHEMA.field(name) for name in OF_REQUESTS])
    return pa.Table.from_pylist(
        [
            {**contract, "asked_at_ns": BEGIN + minute * MINUTE_NS + 5, "outcome": outcome, "latency_us": took}
            for minute, outcome, took in rows
        ],
        schema,
    )


@pytest.mark.parametrize(
    ("took", "up_to"),
    [(-3, 0), (0, 0), (7, 7), (31, 31), (32, 33), (1_000, 1_023), (1_024, 1_087), (10**6, 1_015_807), (2**50, None)],
)
def test_bin_is_named_by_its_largest_latency(took: int, up_to: int | None) -> None:
    (found,) = bins_of(np.array([took])).tolist()
    assert found == (up_to if up_to is not None else 2**50 + 2**46 - 1)


def test_bins_follow_one_another_and_none_is_wider_than_a_sixteenth() -> None:
    took = np.arange(1, 200_000)
    up_to = bins_of(took)
    assert (up_to >= took).all()
    assert (np.diff(up_to) >= 0).all()
    assert (bins_of(up_to) == up_to).all()
    assert (bins_of(up_to + 1) > up_to).all()
    assert ((up_to - took) * 16 < np.maximum(took, 16)).all()


def test_minute_has_counts_exact_quantiles_and_a_histogram() -> None:
    rows = [(0, "answered", took) for took in range(1, 201)] + [(0, "lost", None), (0, "late", 9), (1, "open", None)]
    first, second = sorted(latencies_of(requests(*rows)).to_pylist(), key=lambda row: str(row["minute"]))
    assert (first["request_count"], first["answered_count"], first["lost_count"], first["late_count"]) == (
        202,
        200,
        1,
        1,
    )
    assert [first[name] for name in ("p50_us", "p95_us", "p99_us", "max_us", "total_us")] == [
        100,
        190,
        198,
        200,
        20_100,
    ]
    bins = [each["up_to_us"] for each in first["latency_histogram"]]
    assert bins == sorted(set(bins))
    assert sum(each["answer_count"] for each in first["latency_histogram"]) == 200
    assert (second["request_count"], second["p50_us"], second["latency_histogram"]) == (1, None, [])


def test_histograms_of_minutes_add_up_to_the_histogram_of_all() -> None:
    chance = random.Random(5)
    rows = [(chance.randrange(10), "answered", round(chance.lognormvariate(8, 2))) for _ in range(5_000)]
    by_minute = latencies_of(requests(*rows)).to_pylist()
    whole = latencies_of(requests(*((0, outcome, took) for _, outcome, took in rows))).to_pylist()
    bins = added(row["latency_histogram"] for row in by_minute)
    assert len(by_minute) == 10
    assert bins == added(row["latency_histogram"] for row in whole)
    for name, percent in (("p50_us", 50), ("p95_us", 95), ("p99_us", 99)):
        found = quantile_of(bins, percent)
        assert found is not None
        assert whole[0][name] <= found < whole[0][name] * 17 / 16


def test_contracts_have_rows_of_their_own_and_nothing_has_none() -> None:
    both = pa.concat_tables([requests((0, "answered", 5)), requests((0, "answered", 6), identity=b"shop.ship")])
    assert sorted(row["identity"] for row in latencies_of(both).to_pylist()) == [b"shop.pay", b"shop.ship"]
    assert latencies_of(both.slice(0, 0)).schema == schema_from_columns(LATENCIES)
    assert quantile_of({}, 50) is None
