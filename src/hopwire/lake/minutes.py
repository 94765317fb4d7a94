"""Minutes of Spark columns: the grain of the tables that are for dashboards."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from hopwire.model.units import NS_PER_MINUTE, NS_PER_SECOND

__all__ = ["MINUTE", "minute_of"]

MINUTE = pa.timestamp("us", tz="UTC")


def minute_of(time_ns: Column) -> Column:
    """Give the minute in which a time in nanoseconds since 1970 lies."""
    begin_ns = time_ns - F.pmod(time_ns, F.lit(NS_PER_MINUTE))  # exact; a quotient of such numbers is not
    return F.timestamp_seconds(begin_ns / F.lit(NS_PER_SECOND))
