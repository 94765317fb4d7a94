"""`silver.carried`: what the next step begins with, beside the sightings of open flows."""

from __future__ import annotations

from typing import TypeAlias

import msgspec
import pyarrow as pa

from hopwire.flows.clocks import ClockFold, FoldParts
from hopwire.flows.crossings import Crossing
from hopwire.flows.findings import Contract
from hopwire.lake.tables import Column, Table, declare

__all__ = ["CARRIED_TABLE", "Carried", "carried_from_rows", "rows_from_carried"]

CARRIED_TABLE = declare(
    Table(
        "silver.carried",
        key=("name",),
        reads=(),
        columns=(
            Column("name", pa.string(), "what is carried over"),
            Column("content", pa.binary(), "in MessagePack: see `lake/silver/carried.py`"),
        ),
        meaning="What the next step begins with: what is known of the clocks, and counts of the whole lake.",
    )
)


ContractPart: TypeAlias = tuple[
    bytes, int | None, bytes | None, bytes | None, bytes, str, str, int, int, int, int, int, int, int
]  # the columns of PART_SCHEMA


class Carried(msgspec.Struct, frozen=True):
    """Small things that a step hands to the next."""

    fold: FoldParts = ClockFold().parts()  # the clocks up to a window that is complete, as it seems
    folded: list[tuple[Crossing, int]] = []  # crossings of open flows in this fold
    counted: list[tuple[Crossing, int]] = []  # crossings of open flows that count as of closed ones
    answered: list[Contract] = []  # contracts that somebody answered
    closed_answered: list[tuple[Contract, int]] = []  # requests that were answered, of closed flows
    closed_unhandled: list[tuple[bytes, int]] = []  # requests that nobody handled, of closed flows, by identity
    signed: list[tuple[bytes, int]] = []  # hops with a valid signature, by identity
    names: list[tuple[bytes, str]] = []  # of nodes
    contracts: list[ContractPart] = []  # what gold.contracts is made of


def rows_from_carried(carried: Carried) -> pa.Table:
    """Give rows."""
    rows = [
        {"name": name, "content": msgspec.msgpack.encode(getattr(carried, name))} for name in Carried.__struct_fields__
    ]
    return pa.Table.from_pylist(rows, CARRIED_TABLE.schema)


def carried_from_rows(rows: pa.Table) -> Carried | None:
    """Give what rows say; None if somebody else wrote them."""
    kinds = {each.name: each.type for each in msgspec.structs.fields(Carried)}
    try:
        found = {
            row["name"]: msgspec.msgpack.decode(row["content"], type=kinds[row["name"]]) for row in rows.to_pylist()
        }
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError):
        return None
    return Carried(**found) if found.keys() == kinds.keys() else None
