"""Hops by the minute: how much goes from node to node (links), and what is wrong with signatures (security).

Both tables are by minute, so a step makes only those minutes anew whose hops have changed (`touched`).

*Links.* A crossing belongs to the minute of its departure, or of its arrival where nobody saw a departure. Quantiles
are of crossings that arrived, and exact: of 200 latencies, p95 is the 190th in order.

*Security.* A crossing belongs to the minute of its arrival, or of its departure where nobody saw an arrival. A message
has a finding in three cases:
- The verdict on its signature is neither valid nor unsigned.
- The message is signed and came again.
- The message is unsigned, and its identity wants a signature: another message of that identity has a valid signature.
  Example: `orders.create` came 100 times with a valid signature and once unsigned; the one message has a finding.

The captures do not say which identities may go unsigned: the settings of the nodes do. Nobody without a key can make an
identity look signed. So an identity of which no valid signature was ever seen has no finding `unsigned`, whatever its
domain says. V3 has no place for a signature: an unsigned message in V3 has the finding too, and nodes refuse it.

The trap: a sender can invent as many identities as there are messages. Only the first few names of a row are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.groups import Groups, codes, equal_text, number_codes, other_places, pack
from hopwire.flows.schemas import NO_CROSSINGS
from hopwire.model.columns import Column, schema_from_columns
from hopwire.model.units import NS_PER_MINUTE, NS_PER_US

__all__ = [
    "BY_ARRIVAL",
    "BY_DEPARTURE",
    "LINKS",
    "MAX_NAMED",
    "OF_HOPS",
    "SECURITY",
    "crossings_in",
    "links_of",
    "minutes_by",
    "security_of",
    "signed_in",
    "touched",
    "unsigned_minutes",
]

MINUTE = pa.timestamp("us", tz="UTC")
QUANTILES = {"p50_us": 50, "p95_us": 95, "p99_us": 99}  # of 100
MAX_NAMED = 20  # identities and receivers of one finding
BY_DEPARTURE, BY_ARRIVAL = ("left_at_ns", "arrived_at_ns"), ("arrived_at_ns", "left_at_ns")
FINDING = ["minute", "sender", "finding"]
# the columns of hops that links and security are made of
OF_HOPS = (
    "from_node", "to_node", "identity", "left_at_ns", "arrived_at_ns", "size_bytes", "fate", "latency_us", "verdict",
    "repeat",
)  # fmt: skip

# fmt: off
LINKS = (
    Column("from_node",       pa.binary(), "the node that messages left"),
    Column("to_node",         pa.binary(), "the node that messages went to"),
    Column("identity",        pa.binary(), "the message contract's identity"),
    Column("minute",          MINUTE,      "of the departure, or of the arrival where nobody saw a departure"),
    Column("hop_count",       pa.int64(),  "crossings, whatever became of them"),
    Column("size_bytes",      pa.int64(),  "of all frames of all crossings"),
    Column("arrived_count",   pa.int64(),  "of which seen to leave and to arrive"),
    Column("lost_count",      pa.int64(),  "of which lost"),
    Column("duplicate_count", pa.int64(),  "of which delivered more often than sent"),
    Column("p50_us",          pa.int64(),  "latency of crossings that arrived: half are not slower"),
    Column("p95_us",          pa.int64(),  "19 of 20 are not slower"),
    Column("p99_us",          pa.int64(),  "99 of 100 are not slower"),
)
SECURITY = (
    Column("minute",        MINUTE,                "of the arrival, or of the departure where nobody saw an arrival"),
    Column("sender",        pa.binary(),           "the node that messages came from"),
    Column("finding",       pa.string(),           "a verdict: invalid, no_key, not_in_domain; unsigned, where other "
                                                   "messages of the identity are valid; replayed, where a message "
                                                   "came before"),
    Column("message_count", pa.int64(),            "crossings from node to node with this finding"),
    Column("identities",    pa.list_(pa.binary()), f"of the messages; at most {MAX_NAMED} of them"),
    Column("receivers",     pa.list_(pa.binary()), f"the nodes that messages went to; at most {MAX_NAMED} of them"),
)
# fmt: on
LINK_SCHEMA, SECURITY_SCHEMA = schema_from_columns(LINKS), schema_from_columns(SECURITY)


def crossings_in(hops: pa.Table) -> pa.Table:
    """Give the hops that go to another node, with the columns that count here."""
    is_crossing = pc.invert(pc.is_in(hops["fate"], pa.array(NO_CROSSINGS)))
    return hops.select(OF_HOPS).filter(is_crossing)


def minutes_by(crossings: pa.Table, *times: str) -> Ints:
    """Give the minute of each crossing, from 1970 on, by the first of these times that is there."""
    return ints(pc.coalesce(*(crossings[name] for name in times))) // NS_PER_MINUTE


# -- what has changed


def touched(before: pa.Table, after: pa.Table) -> set[int]:
    """Give the minutes of links and of security whose crossings are not the same before and after."""
    both = pa.concat_tables([before, after])
    minutes = [minutes_by(both, *times) for times in (BY_DEPARTURE, BY_ARRIVAL)]
    other = other_places(before, after, pack(*minutes))
    return {minute for each in minutes for minute in each[other].tolist()}


def signed_in(hops: pa.Table) -> Counter[bytes]:
    """Count the hops whose signatures are valid, by identity."""
    rows = hops.filter(pc.equal(hops["verdict"], "valid")).group_by("identity").aggregate([([], "count_all")])
    return Counter(dict(zip(rows["identity"].to_pylist(), rows["count_all"].to_pylist(), strict=True)))


def unsigned_minutes(hops: pa.Table, identities: set[bytes]) -> set[int]:
    """Give the minutes of security with unsigned messages of these identities."""
    is_of = pc.is_in(hops["identity"], pa.array(sorted(identities), pa.binary()))
    rows = crossings_in(hops.filter(pc.and_(is_of, pc.equal(hops["verdict"], "unsigned"))))
    return set(np.unique(minutes_by(rows, *BY_ARRIVAL)).tolist())


# -- links


def links_of(crossings: pa.Table) -> pa.Table:
    """Give the links of crossings; all crossings of a minute must be among them."""
    if not len(crossings):
        return LINK_SCHEMA.empty_table()
    (source, target), _ = codes(crossings["from_node"], crossings["to_node"])
    (identity,), _ = codes(crossings["identity"])
    minute = minutes_by(crossings, *BY_DEPARTURE)
    groups = Groups(pack(source, target, identity, number_codes(minute)))
    first = pa.array(groups.first)
    fates = {name: equal_text(crossings["fate"], name) for name in ("arrived", "lost", "duplicate")}
    columns = {name: one_array(crossings[name]).take(first) for name in ("from_node", "to_node", "identity")}
    columns |= {
        "minute": _timestamps(minute[groups.first]),
        "hop_count": pa.array(groups.sizes),
        "size_bytes": pa.array(groups.total(ints(crossings["size_bytes"]))),
        **{f"{name}_count": pa.array(groups.total(where)) for name, where in fates.items()},
        **_quantiles(groups, fates["arrived"], crossings["latency_us"]),
    }
    return pa.table([columns[each.name].cast(each.type) for each in LINK_SCHEMA], schema=LINK_SCHEMA)


def _quantiles(groups: Groups, has_arrived: Bools, latency: pa.ChunkedArray) -> dict[str, pa.Array]:
    rows = np.flatnonzero(has_arrived & bools(pc.is_valid(one_array(latency))))
    took = ints(latency)[rows]
    arrived = Groups(groups.of[rows], took)
    number = groups.of[rows][arrived.first]  # the group of each group of arrivals
    found = {}
    for name, percent in QUANTILES.items():
        rank = -(-arrived.sizes * percent // 100) - 1
        values = np.zeros(len(groups), dtype=np.int64)
        values[number] = took[arrived.order[arrived.starts + rank]]
        is_none = np.ones(len(groups), dtype=np.bool_)
        is_none[number] = False
        found[name] = pa.array(values, mask=is_none)
    return found


def _timestamps(minute: Ints) -> pa.Array:
    return pa.array(minute * (NS_PER_MINUTE // NS_PER_US)).cast(pa.timestamp("us")).cast(MINUTE)


# -- security


def security_of(crossings: pa.Table, signed: Container[bytes]) -> pa.Table:
    """Give the findings of crossings; all crossings of a minute and sender must be among them."""
    (code,), names = codes(crossings["identity"])
    wants = np.array([name in signed for name in names.to_pylist()], dtype=np.bool_)[code]
    is_valid, is_unsigned, is_again = (
        equal_text(crossings[column], word)
        for column, word in (("verdict", "valid"), ("verdict", "unsigned"), ("repeat", "replayed"))
    )
    is_doubtful = np.where(is_unsigned, wants, ~is_valid)
    parts = [
        _findings(crossings, is_again, pa.repeat("replayed", len(crossings))),
        _findings(crossings, is_doubtful, one_array(crossings["verdict"])),
    ]
    rows = pa.concat_tables(parts).group_by(FINDING)
    found = rows.aggregate([([], "count_all"), ("identity", "distinct"), ("to_node", "distinct")])
    columns = {
        "message_count": found["count_all"],
        "identities": _first_names(found["identity_distinct"]),
        "receivers": _first_names(found["to_node_distinct"]),
    } | {name: found[name] for name in FINDING}
    return pa.table([columns[each.name].cast(each.type) for each in SECURITY_SCHEMA], schema=SECURITY_SCHEMA)


def _findings(crossings: pa.Table, where: Bools, finding: pa.Array) -> pa.Table:
    mask = pa.array(where)
    rows = crossings.filter(mask)
    columns = {
        "minute": _timestamps(minutes_by(rows, *BY_ARRIVAL)),
        "sender": rows["from_node"],
        "finding": finding.filter(mask),
        "identity": rows["identity"],
        "to_node": rows["to_node"],
    }
    return pa.table(columns)


def _first_names(lists: pa.ChunkedArray) -> pa.Array:
    return pa.array([sorted(names)[:MAX_NAMED] for names in lists.to_pylist()], pa.list_(pa.binary()))
