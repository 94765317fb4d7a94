"""What the captures in the lake cover, as the judge wants it: a row for each node, none for messages."""

from __future__ import annotations

from pyspark.sql import DataFrame

from hopwire.flows.coverage import Coverage, coverage_from_rows
from hopwire.flows.rules import Rules
from hopwire.lake.settings import LakeSettings
from hopwire.model.units import NS_PER_SECOND

__all__ = ["coverage_of", "rules_of"]


def rules_of(settings: LakeSettings) -> Rules:
    """Give the rules of the judge by the settings of the build."""
    return Rules(
        patience_ns=round(settings.patience_seconds * NS_PER_SECOND),
        patience_without_ttl_ns=round(settings.patience_without_ttl_seconds * NS_PER_SECOND),
        duplicate_window_ns=round(settings.duplicate_window_seconds * NS_PER_SECOND),
        hop_limit=settings.hop_limit,
        max_flow_rows=settings.max_flow_rows,
    )


def coverage_of(clocks: DataFrame) -> Coverage:
    """Give what the nodes captured and skipped, and how wrong their clocks are."""
    return coverage_from_rows(clocks.toArrow())
