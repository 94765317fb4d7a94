"""How a lake stands: its version, its tables, what is still open, how far behind it is, and whether somebody follows.

    lake_status(lake, now_ns) -> LakeStatus

Everything is read from the manifest, from bronze.spans, from bronze.sources, and from what the last follower wrote
down. Nothing is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow.compute as pc

from hopwire.lake.bronze.sources import LEFT_ALONE, SOURCES_TABLE
from hopwire.lake.bronze.spans import SPANS_TABLE
from hopwire.lake.follow_notes import FollowNotes, is_followed, read_notes
from hopwire.lake.manifest import Manifest
from hopwire.lake.silver.open_sightings import OPEN_TABLE
from hopwire.lake.store import manifest_numbers, manifest_path, read_arrow, read_manifest
from hopwire.model.units import NS_PER_SECOND
from hopwire.places import Place, look_at, place_of
from hopwire.report.words import node_label

__all__ = ["LakeStatus", "NodeLag", "lake_status"]

FLOWS, QUARANTINE = "gold.flows", "silver.quarantine"


class NodeLag(NamedTuple):
    """Until when a node is in the lake."""

    node: str
    last_seen_at_ns: int
    lag_seconds: float  # from then to now; less than 0 if the clock of the node is ahead


@dataclass(frozen=True)
class LakeStatus:
    """How a lake stands."""

    lake: Place
    manifest: Manifest
    versions: int  # that can be read
    published_at_ns: int  # when the newest version was put down
    nodes: tuple[NodeLag, ...]
    bad_sources: Mapping[str, tuple[str, ...]]  # that could not be read, or not in full, with what is wrong with them
    unread_bytes: int  # of captures that were begun, as far as the last step saw
    is_followed: bool
    follower: FollowNotes | None  # the last one

    @property
    def lag_seconds(self) -> float | None:
        """From the newest sighting of the lake to now; None if there is none."""
        return min((max(each.lag_seconds, 0.0) for each in self.nodes), default=None)

    @property
    def known_since_ns(self) -> int:
        """From when on the lake is kept: what is older has left; 0 if nothing has."""
        return self.manifest.removal.before_ns

    @property
    def expired(self) -> int:
        """How many sightings were too old."""
        return sum(source.expired for source in self.manifest.sources.values())

    @property
    def forgotten(self) -> int:
        """How many sightings left because somebody asked for it."""
        return sum(source.forgotten for source in self.manifest.sources.values())

    @property
    def quarantined(self) -> int:
        """How many sightings are no messages."""
        stored = self.manifest.tables.get(QUARANTINE)
        return stored.row_count if stored else 0

    @property
    def bad_source_count(self) -> int:
        """How many sources could not be read, or not in full."""
        return len(self.bad_sources)

    @property
    def rules(self) -> int:
        """By which rules all tables were last judged; 0: the lake does not say."""
        return self.manifest.rules

    @property
    def open_flows(self) -> int:
        """How many flows may still change."""
        stored = self.manifest.tables.get(FLOWS)
        return stored.step.open_rows if stored and stored.step else 0

    @property
    def open_sightings(self) -> int:
        """How many sightings the next step judges again."""
        stored = self.manifest.tables.get(OPEN_TABLE.name)
        return stored.row_count if stored else 0

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(each.row_count for each in self.manifest.tables.values())

    @property
    def files(self) -> int:
        """The files of all tables."""
        return sum(each.file_count for each in self.manifest.tables.values())

    @property
    def size_bytes(self) -> int:
        """The size of all tables."""
        return sum(each.size_bytes for each in self.manifest.tables.values())


def lake_status(lake: Place | str, now_ns: int) -> LakeStatus:
    """Look at a lake; a LakeError says why it is none."""
    place = place_of(lake)
    manifest = read_manifest(lake)
    found = look_at(manifest_path(place, manifest.number))
    return LakeStatus(
        place,
        manifest,
        len(manifest_numbers(place)),
        found.modified_ns if found else 0,
        _lags(lake, manifest, now_ns),
        _bad_sources(lake, manifest),
        sum(max(each.size_bytes - each.position, 0) for each in manifest.sources.values() if each.position),
        is_followed(place),
        read_notes(place),
    )


def _lags(lake: Place | str, manifest: Manifest, now_ns: int) -> tuple[NodeLag, ...]:
    if SPANS_TABLE.name not in manifest.tables:
        return ()
    rows = read_arrow(lake, SPANS_TABLE.name, ["node", "node_name", "last_seen_at_ns"], manifest=manifest)
    last: dict[str, int] = {}
    for row in rows.group_by(["node", "node_name"]).aggregate([("last_seen_at_ns", "max")]).to_pylist():
        name = node_label(row["node"], row["node_name"])
        last[name] = max(row["last_seen_at_ns_max"], last.get(name, 0))
    return tuple(NodeLag(name, at, (now_ns - at) / NS_PER_SECOND) for name, at in sorted(last.items()))


def _bad_sources(lake: Place | str, manifest: Manifest) -> dict[str, tuple[str, ...]]:
    """The sources that a build calls bad, and the files that the last build found and could not open."""
    known = manifest.sources
    bad = {name: source.faults for name, source in known.items() if source.is_bad}
    stored = manifest.tables.get(SOURCES_TABLE.name)
    if stored and stored.row_count > len(known):  # each source has a row, and so has each file that is none
        rows = read_arrow(lake, SOURCES_TABLE.name, ["segment", "faults"], manifest=manifest)
        faulty = rows.filter(pc.greater(pc.list_value_length(rows["faults"]), 0)).to_pylist()
        bad |= {
            row["segment"]: tuple(row["faults"])
            for row in faulty
            if row["segment"] not in known and row["faults"] != [LEFT_ALONE]
        }
    return dict(sorted(bad.items()))
