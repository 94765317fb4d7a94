"""What the pages say of the tree is so: every module that they name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "hopwire"
MODULES = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
NAMES = {path.name for place in ("src", "tests") for path in (ROOT / place).rglob("*.py")}


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/concepts.md"])
def test_every_module_that_a_page_names_exists(page: str) -> None:
    found = re.findall(r"(?<![\w/])((?:[a-z_]+/)*[a-z_]+\.py)\b", (ROOT / page).read_text(encoding="utf-8"))
    assert [name for name in found if name not in (MODULES if "/" in name else NAMES)] == []


def test_every_room_has_its_row() -> None:
    rooms = {name.split("/")[0] for name in MODULES if "/" in name}
    rows = set(re.findall(r"^\| `(\w+)/` \|", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert rows == rooms
