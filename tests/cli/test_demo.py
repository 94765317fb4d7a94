"""`hopwire demo`: it ends, it adds up, and it is the same for the same seed."""

from __future__ import annotations

import random
import re

import pytest

from hopwire.cli.mass import BATCH_ROWS, decode_many
from tests.cli.running import hopwire


@pytest.mark.slow
def test_the_demonstration_ends_and_adds_up() -> None:
    found = hopwire("demo", "--messages", "2000")
    assert (found.code, found.err) == (0, "")
    assert "\n1. " in f"\n{found.out}"
    assert "^^" in found.out
    balance = re.search(r"2,000 in = ([\d,]+) decoded \+ (\d+) quarantined: adds up", found.out)
    assert balance is not None
    assert int(balance[1].replace(",", "")) + int(balance[2]) == 2000


@pytest.mark.parametrize("columns", [10, 40, 80])
def test_the_demonstration_fits_any_screen(columns: int) -> None:
    assert hopwire("demo", "--messages", "10", columns=columns).code == 0


@pytest.mark.slow
def test_the_seed_decides_what_is_found() -> None:
    *_, one = decode_many(BATCH_ROWS + 1, random.Random(3))
    *_, two = decode_many(BATCH_ROWS + 1, random.Random(3))
    assert (one.rows, one.formats, one.reasons) == (two.rows, two.formats, two.reasons)
    assert one.adds_up
    assert set(one.formats) == {3, 4, 5, 6}
    assert len(one.reasons) > 3
