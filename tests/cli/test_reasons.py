"""`hopwire reasons`: every code with its meaning."""

from __future__ import annotations

import json

from hopwire.model.reasons import WIRE_REASONS
from tests.cli.running import hopwire


def test_every_reason_is_listed() -> None:
    found = hopwire("reasons")
    assert found.code == 0
    for reason, meaning in WIRE_REASONS.items():
        assert reason in found.out
        assert meaning in found.out


def test_json_is_the_table_itself() -> None:
    assert json.loads(hopwire("reasons", "--json").out) == WIRE_REASONS
