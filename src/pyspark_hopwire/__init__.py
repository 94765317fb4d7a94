"""Where Spark finds `format("hopwire")`: it imports every module named `pyspark_*`, and asks it for a DefaultSource."""

from hopwire.lake.source import HopwireSource as DefaultSource

__all__ = ["DefaultSource"]
