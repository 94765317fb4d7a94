"""Every table of the lake, in the order of the layers: importing this module declares them all."""

from __future__ import annotations

from hopwire.lake.bronze import sightings, sources, spans
from hopwire.lake.gold import contracts, flows, links, quality, requests, security
from hopwire.lake.silver import clocks, hops, messages, quarantine
from hopwire.lake.table import TABLES

__all__ = [
    "TABLES",
    "clocks",
    "contracts",
    "flows",
    "hops",
    "links",
    "messages",
    "quality",
    "quarantine",
    "requests",
    "security",
    "sightings",
    "sources",
    "spans",
]
