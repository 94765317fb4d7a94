"""`silver.crossings`: the quickest crossings of each window, of flows that are final: clocks are compared by them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from hopwire.flows.crossings import Crossing
from hopwire.lake.tables import Column, Table, declare

__all__ = ["CROSSINGS_TABLE", "crossings_from_rows", "rows_from_crossings"]

# fmt: off
COLUMNS = (
    Column("from_node",        pa.binary(), "the node that the message left"),
    Column("to_node",          pa.binary(), "the node that the message came to"),
    Column("quickest_ns",      pa.int64(),  "how long the quickest message took, by the clocks of the two nodes"),
    Column("messages",         pa.int64(),  "how many messages were compared"),
    Column("left_at_ns",       pa.int64(),  "when the quickest message left, by the clock of its node"),
    Column("from_incarnation", pa.int64(),  "which life of from_node"),
    Column("to_incarnation",   pa.int64(),  "which life of to_node"),
    Column("window",           pa.int64(),  "the number of the window of 10 s, from 1970 on"),
    Column("build",            pa.int64(),  "the build that counted these messages"),
)
# fmt: on

CROSSINGS_TABLE = declare(
    Table(
        "silver.crossings",
        key=("from_node", "to_node", "from_incarnation", "to_incarnation", "window", "build"),
        reads=("silver.messages",),
        columns=COLUMNS,
        meaning="The quickest message from one life of a node to another in one window of 10 s, among closed flows.",
        dated_by=("left_at_ns",),
    )
)


def rows_from_crossings(crossings: Iterable[Crossing], build: int) -> pa.Table:
    """Give crossings as rows."""
    return pa.Table.from_pylist([each._asdict() | {"build": build} for each in crossings], CROSSINGS_TABLE.schema)


def crossings_from_rows(rows: pa.Table) -> list[Crossing]:
    """Give rows as crossings."""
    return [Crossing(**row) for row in rows.select(list(Crossing._fields)).to_pylist()]
