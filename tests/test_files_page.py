"""The page about files of others names a test for every fault that was found, and each test exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "decisions" / "0040-files-of-others.md").read_text("utf-8")
ROWS = [
    line.strip("|").split("|")
    for line in PAGE[PAGE.index("| fault | now | proof |") :].splitlines()[2:]
    if line.startswith("| ")
]


def test_every_fault_names_tests_that_exist() -> None:
    assert len(ROWS) > 15
    for fault, _, proof in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", proof)
        assert named, fault
        for path, name in named:
            assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), name
