from __future__ import annotations

import re
from pathlib import Path

import hopwire.node
from hopwire.model.reasons import DEAD_REASONS, NODE_REASONS, PROMISE_REASONS

SOURCES = "\n".join(path.read_text() for path in Path(hopwire.node.__file__).parent.glob("*.py"))


def test_every_reason_that_a_node_gives_is_in_the_table() -> None:
    given = re.findall(r'(?:give_up\(\w+, |DeadLetter\(|counts\[|return )"(\w+)"', SOURCES)
    assert len(given) > 12
    assert set(given) <= set(DEAD_REASONS)


def test_every_reason_of_the_table_is_given_somewhere() -> None:
    assert [reason for reason in (*NODE_REASONS, *PROMISE_REASONS) if f'"{reason}"' not in SOURCES] == []


def test_every_reason_has_a_meaning_of_one_line() -> None:
    assert all(meaning and "\n" not in meaning for meaning in (*DEAD_REASONS.values(), *PROMISE_REASONS.values()))
