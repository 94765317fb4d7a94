"""`silver.open_sightings`: the sightings of flows that may still change, as the next step needs them."""

from __future__ import annotations

import pyarrow as pa

from hopwire.flows.hops import FLOW_ID, SIGHTING_COLUMNS
from hopwire.lake.silver.messages import MESSAGES_TABLE, ROUTE
from hopwire.lake.tables import Column, Table, declare

__all__ = ["OPEN_TABLE"]

KNOWN = {column.name: column for column in (*MESSAGES_TABLE.columns, *ROUTE)}

OPEN_TABLE = declare(
    Table(
        "silver.open_sightings",
        key=("node", "incarnation", "sequence", "message_key"),
        reads=("silver.messages",),
        columns=(
            *(KNOWN[name] for name in SIGHTING_COLUMNS),
            Column(FLOW_ID, pa.binary(), "the flow that the sighting belongs to, as far as it is known"),
        ),
        meaning="One sighting of a flow that may still change: see `flows/closing.py`. A step reads these again.",
    )
)
