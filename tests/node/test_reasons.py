from __future__ import annotations

import re
from pathlib import Path

import hopwire.node
from hopwire.model.reasons import DEAD_REASONS, IN_A_NODE, NODE_REASONS, PROMISE_REASONS, REASONS, ROUTING
from hopwire.node.promise import ERRORS

SOURCES = "\n".join(path.read_text() for path in Path(hopwire.node.__file__).parent.glob("*.py"))


def test_every_reason_that_a_node_gives_is_in_the_table() -> None:
    given = re.findall(r'(?:give_up\(\w+, |DeadLetter\(|return )"(\w+)"', SOURCES)
    assert len(given) > 12
    assert set(given) <= set(DEAD_REASONS)


def test_every_reason_of_the_table_is_given_somewhere() -> None:
    assert [reason for reason in (*NODE_REASONS, *PROMISE_REASONS) if f'"{reason}"' not in SOURCES] == []


def test_every_reason_has_a_meaning_somebody_who_sees_it_and_something_to_do_in_one_line_each() -> None:
    for reason in REASONS:
        assert all(text and "\n" not in text for text in reason)


def test_the_error_that_the_table_names_is_the_error_that_is_raised() -> None:
    seen_by = {reason.code: reason.seen_by for reason in REASONS if reason.found == IN_A_NODE}
    for code, error in ERRORS.items():
        assert f"`{error.__name__}`" in seen_by[code]
    assert all("`NoRoute`" in reason.seen_by for reason in REASONS if reason.found == ROUTING)


def test_no_code_stands_twice_in_one_part_of_the_table() -> None:
    assert len({(reason.found, reason.code) for reason in REASONS}) == len(REASONS)
