"""Where Spark finds `format("hopwire")`: Spark imports each module named `pyspark_*` and takes its DefaultSource."""

from hopwire.lake.source import HopwireSource as DefaultSource

__all__ = ["DefaultSource"]
