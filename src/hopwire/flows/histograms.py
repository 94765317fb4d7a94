"""Latencies as histograms that add up: how long answers took, by contract and minute.

A percentile of one minute and a percentile of the next do not give the percentile of both. Counts do: a histogram says
how many answers took about how long, and histograms of any minutes, contracts and lakes are added bin by bin.

The bins are the same everywhere. Each power of two has 16 bins of equal width, so a bin is never wider than 1/16 of the
latencies in it; below 32 us each microsecond has its own. A bin is named by its largest latency, `up_to_us`:

| latency | bin up to |
|---|---|
| 7 us | 7 us |
| 1,000 us | 1,023 us: it has 992 us to 1,023 us |
| 1,024 us | 1,087 us |
| 1 s | 1,015,807 us |

A quantile that is read from a histogram is the end of its bin. It is never too small, and too large by less than 6.3 %.
`p50_us`, `p95_us` and `p99_us` of one row are exact: of 200 latencies, p95 is the 190th in order.

Only requests whose outcome is `answered` have a latency here. A request belongs to the minute in which it was asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.groups import (
    Groups,
    codes,
    equal_text,
    lists_of_groups,
    number_codes,
    order_by,
    other_places,
    pack,
)
from hopwire.flows.schemas import OUTCOMES
from hopwire.model.columns import Column, schema_from_columns
from hopwire.model.units import NS_PER_MINUTE, NS_PER_US

__all__ = [
    "LATENCIES",
    "MINUTE",
    "OF_REQUESTS",
    "QUANTILES",
    "added",
    "bins_of",
    "changed_minutes",
    "latencies_of",
    "minutes_asked",
    "quantile_of",
]

QUANTILES = {"p50_us": 50, "p95_us": 95, "p99_us": 99}  # of 100
BINS_BITS = 4  # 16 bins for each power of two
MINUTE = pa.timestamp("us", tz="UTC")
BIN = pa.struct([("up_to_us", pa.int64()), ("answer_count", pa.int64())])
CONTRACT = ("identity", "version", "version_raw", "partition", "is_control")
OF_REQUESTS = (*CONTRACT, "asked_at_ns", "outcome", "latency_us")  # the columns that latencies are made of

# fmt: off
LATENCIES = (
    Column("minute",            MINUTE,         "in which the questions were asked"),
    Column("identity",          pa.binary(),    "the identity of the question's contract"),
    Column("version",           pa.int32(),     "the version of the contract in V5 and V6"),
    Column("version_raw",       pa.binary(),    "the version of the contract in V3 and V4"),
    Column("partition",         pa.binary(),    "the partition of the contract"),
    Column("is_control",        pa.bool_(),     "whether nodes ask it among themselves"),
    Column("request_count",     pa.int64(),     "requests, whatever became of them"),
    *(Column(f"{name}_count",   pa.int64(),     f"of which {name}") for name in OUTCOMES),
    Column("total_us",          pa.int64(),     "sum of the latencies of answered requests"),
    Column("max_us",            pa.int64(),     "the longest of them; null if none was answered"),
    Column("p50_us",            pa.int64(),     "half are not slower"),
    Column("p95_us",            pa.int64(),     "19 of 20 are not slower"),
    Column("p99_us",            pa.int64(),     "99 of 100 are not slower"),
    Column("latency_histogram", pa.list_(BIN),  "how many answers took how long, by the bins of `flows/histograms.py`: "
                                                "each up to up_to_us, in order; bins of many rows add up"),
)
# fmt: on
SCHEMA = schema_from_columns(LATENCIES)


def bins_of(latency_us: Ints) -> Ints:
    """Give the bin of each latency, by the largest latency of the bin; less than none is none."""
    took = np.maximum(latency_us, 0)
    _, length = np.frexp(took.astype(np.float64))  # the number of bits, exact up to 2**53 us
    shift = np.maximum(length.astype(np.int64) - BINS_BITS - 1, 0)
    bins: Ints = (((took >> shift) + 1) << shift) - 1
    return bins


def added(histograms: Iterable[Iterable[dict[str, int]]]) -> dict[int, int]:
    """Add histograms: how many answers each bin has, in the order of the bins."""
    found: dict[int, int] = {}
    for histogram in histograms:
        for each in histogram:
            found[each["up_to_us"]] = found.get(each["up_to_us"], 0) + each["answer_count"]
    return dict(sorted(found.items()))


def quantile_of(bins: dict[int, int], percent: int) -> int | None:
    """Give the end of the bin that has a quantile; None if there is no answer. The bins are in order."""
    rank = -(-sum(bins.values()) * percent // 100)
    for up_to_us, count in bins.items():
        rank -= count
        if rank <= 0:
            return up_to_us
    return None


def changed_minutes(before: pa.Table, after: pa.Table) -> set[int]:
    """Give the minutes, from 1970 on, whose requests are not the same before and after."""
    minute = np.concatenate([minutes_asked(before), minutes_asked(after)])
    other = other_places(before.select(OF_REQUESTS), after.select(OF_REQUESTS), minute)
    return set(minute[other].tolist())


def minutes_asked(requests: pa.Table) -> Ints:
    """Give the minute in which each request was asked, from 1970 on."""
    return ints(requests["asked_at_ns"]) // NS_PER_MINUTE


def latencies_of(requests: pa.Table) -> pa.Table:
    """Give the latencies of requests by contract and minute; all requests of a minute must be among them."""
    if not len(requests):
        return SCHEMA.empty_table()
    minute = minutes_asked(requests)
    names = [codes(requests[name])[0][0] for name in ("identity", "version_raw", "partition")]
    numbers = number_codes(ints(requests["version"], -1)), number_codes(minute)
    groups = Groups(pack(*names, *numbers, bools(requests["is_control"]).astype(np.int64)))
    first = pa.array(groups.first)
    latency = one_array(requests["latency_us"])
    has_latency = equal_text(requests["outcome"], "answered") & bools(pc.is_valid(latency))
    took = np.where(has_latency, np.maximum(ints(latency), 0), 0)
    counts = {f"{name}_count": groups.total(equal_text(requests["outcome"], name)) for name in OUTCOMES}
    columns = {name: one_array(requests[name]).take(first) for name in CONTRACT}
    columns |= {
        "minute": _timestamps(minute[groups.first]),
        "request_count": pa.array(groups.sizes),
        **{name: pa.array(count) for name, count in counts.items()},
        "total_us": pa.array(groups.total(took)),
        **_quantiles(groups, has_latency, took),
        "latency_histogram": _histograms(groups, has_latency, took),
    }
    return pa.table([columns[each.name].cast(each.type) for each in SCHEMA], schema=SCHEMA)


def _quantiles(groups: Groups, where: Bools, took: Ints) -> dict[str, pa.Array]:
    rows = np.flatnonzero(where)
    some = Groups(groups.of[rows], took[rows])
    number = groups.of[rows][some.first]  # the group of each group with a latency
    found = {}
    for name, percent in {**QUANTILES, "max_us": 100}.items():
        rank = -(-some.sizes * percent // 100) - 1
        values, is_none = np.zeros(len(groups), dtype=np.int64), np.ones(len(groups), dtype=np.bool_)
        values[number] = took[rows][some.order[some.starts + rank]]
        is_none[number] = False
        found[name] = pa.array(values, mask=is_none)
    return found


def _histograms(groups: Groups, where: Bools, took: Ints) -> pa.Array:
    rows = np.flatnonzero(where)
    group, up_to = groups.of[rows], bins_of(took[rows])
    bins = Groups(pack(group, number_codes(up_to)))
    ends = up_to[bins.first]
    order = order_by(group[bins.first], ends)
    columns = [pa.array(ends[order]), pa.array(bins.sizes[order])]
    values = pa.StructArray.from_arrays(columns, fields=list(BIN))
    return lists_of_groups(group[bins.first][order], values, len(groups))


def _timestamps(minute: Ints) -> pa.Array:
    return pa.array(minute * (NS_PER_MINUTE // NS_PER_US)).cast(pa.timestamp("us")).cast(MINUTE)
