"""A record is one line, whatever is in it."""

from __future__ import annotations

import json
import logging
import sys

from hopwire.runner.log_lines import MOST_CHARACTERS, JsonLines, TextLines

HOSTILE = "a\x1b[2J\nb\u2028"


def record(text: str, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("hopwire.node", logging.WARNING, "", 0, "%s", (text,), None)
    made.__dict__ |= {"created": 1_800_000_000.25, "msecs": 250.0, **fields}
    return made


def test_json_has_the_fields_of_the_record_without_their_prefix() -> None:
    line = JsonLines().format(record(HOSTILE, hopwire_reason="x", hopwire_count=3, hopwire_level="no", other="y"))
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2027-01-15T08:00:00.250Z",
        "level": "warning",
        "logger": "hopwire.node",
        "message": HOSTILE,
        "reason": "x",
        "count": 3,
    }


def test_text_is_one_line_that_commands_no_terminal() -> None:
    line = TextLines().format(record(HOSTILE))
    assert line == "2027-01-15T08:00:00.250Z warning a\\x1b[2J\\nb\\u2028"


def test_a_stack_is_a_field_and_a_long_text_is_cut() -> None:
    try:
        raise ValueError("x" * 2 * MOST_CHARACTERS)
    except ValueError:
        made = record("y" * 2 * MOST_CHARACTERS, exc_info=sys.exc_info())
    found = json.loads(JsonLines().format(made))
    assert found["exception"].startswith("Traceback")
    assert max(map(len, found.values())) <= MOST_CHARACTERS
    assert TextLines().format(made).count("\n") > 2
