"""The versions of a lake that pages look at.

Each build of a lake makes a version with the next number. A page shows the newest version, unless its address names
another one (`?v=7`). A version that is asked for again is still open; few are kept open at a time. A version is known
by its number and the time of its manifest: a lake that was removed and built anew begins at 1 again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from hopwire.capture.times import time_text
from hopwire.lake.store import manifest_numbers, manifest_path, read_manifest
from hopwire.places import Place, look_at, place_of
from hopwire.web.lake_views import LakeViews
from hopwire.web.page_content import Missing

__all__ = ["LakeVersion", "Snapshots"]

MAX_OPEN = 4  # versions; each holds a small database with the names of its files


class LakeVersion(NamedTuple):
    """One version of a lake, in short."""

    number: int
    made_at: str
    sources: int
    row_counts: dict[str, int]


class Snapshots:
    """The versions of one lake."""

    def __init__(self, lake: Place) -> None:
        self.lake = lake
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[int, int], LakeViews] = OrderedDict()
        self.views()  # what is no lake is refused at once

    def numbers(self) -> list[int]:
        """Give the numbers of all versions that the lake still has, the oldest first."""
        return manifest_numbers(place_of(self.lake))

    def newest(self) -> int:
        """Give the number of the newest version."""
        return max(self.numbers(), default=0)

    def views(self, number: int | None = None) -> LakeViews:
        """Give the tables of the newest version, or of another one."""
        with self._lock:
            numbers = self.numbers()
            if number is not None and number not in numbers:
                known = f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]} alone"
                raise Missing(f"the lake has no version {number}, it has {known}")
            wanted = number if number is not None else max(numbers, default=None)
            key = (wanted or 0, self._made_ns(wanted) if wanted is not None else 0)
            if key not in self._open:
                self._open[key] = LakeViews(self.lake, wanted)
                while len(self._open) > MAX_OPEN:
                    self._open.popitem(last=False)  # a page that is being made with it keeps it until it is done
            self._open.move_to_end(key)
            return self._open[key]

    def close(self) -> None:
        """Close all versions."""
        with self._lock:
            for views in self._open.values():
                views.close()
            self._open.clear()

    def versions(self, most: int) -> list[LakeVersion]:
        """Give the newest versions, the newest first."""
        return [self._version(number) for number in self.numbers()[: -most - 1 : -1]]

    def _version(self, number: int) -> LakeVersion:
        manifest = read_manifest(self.lake, number)
        counts = {name: table.row_count for name, table in sorted(manifest.tables.items())}
        return LakeVersion(number, time_text(self._made_ns(number)), len(manifest.sources), counts)

    def _made_ns(self, number: int) -> int:
        found = look_at(manifest_path(place_of(self.lake), number))
        return found.modified_ns if found else 0
