"""`silver.lives`: when nodes began and ended, how, and when they came back."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hopwire.flows.lives import lives_from_clocks
from hopwire.flows.schemas import LIVES
from hopwire.lake.tables import table

__all__ = ["lives"]


@table("silver.lives", key=("node", "incarnation"), reads=("silver.clocks",), columns=LIVES)
def lives(clocks: DataFrame) -> DataFrame:
    """One life of one node: from when to when, whether it was stopped or died, and when the node came back."""
    rows = lives_from_clocks(clocks.toArrow())
    return clocks.sparkSession.createDataFrame(rows).select(rows.column_names)
