"""A class name stands once in the source, and a module name once: in a trace or a search it means one thing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "hopwire"
MIRROR = "sync.py"  # the same classes for code that blocks
NAMED_FOR_MANY = {"__init__", "__main__", "settings"}
NAMED_FOR_ONE = ("cli", "lake/bronze", "lake/silver", "lake/gold")  # modules named for their command or their table

MODULES = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}


def more_than_once(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    places = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def test_class_name_stands_once() -> None:
    classes = (
        (name, place)
        for place, source in MODULES.items()
        if place != MIRROR
        for name in re.findall(r"^ *class _*(\w+)", source, re.MULTILINE)
    )
    assert more_than_once(classes) == {}


def test_module_name_stands_once() -> None:
    paths = [Path(place) for place in MODULES]
    modules = (
        (path.stem, path.as_posix())
        for path in paths
        if path.stem not in NAMED_FOR_MANY and path.parent.as_posix() not in NAMED_FOR_ONE
    )
    assert more_than_once(modules) == {}
