"""Logs as lines: for people, or as JSON for programs. A record is one line, whatever is in it.

Fields of hopwire's own records (`hopwire_reason`, `hopwire_peer`) stand beside the text, in JSON without their prefix:

    {"time": "2026-01-02T03:04:05.678Z", "level": "info", "logger": "hopwire.runner", "message": "...", "uri": "..."}

The errors of handlers bring their stack: in JSON as a field, in text as lines of its own below.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

from hopwire.report.words import cut, printable, printable_lines

__all__ = ["JsonLines", "TextLines", "set_up_logs"]

FIELD_PREFIX = "hopwire_"
OWN_NAMES = ("time", "level", "logger", "message", "exception")
MOST_CHARACTERS = 16 * 1024  # of a text or a field: nobody reads more in a line


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the line."""
        line: dict[str, str | float] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": cut(record.getMessage(), MOST_CHARACTERS),
        }
        for name, value in vars(record).items():
            short = name.removeprefix(FIELD_PREFIX)
            if short != name and short not in OWN_NAMES:
                line[short] = value if isinstance(value, int | float) else cut(str(value), MOST_CHARACTERS)
        if record.exc_info:
            line["exception"] = cut(self.formatException(record.exc_info), MOST_CHARACTERS)
        return json.dumps(line)


class TextLines(logging.Formatter):
    """Writes a record as one line of text, and a stack below it if the record has one."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the lines."""
        text = cut(printable(record.getMessage()), MOST_CHARACTERS)
        line = f"{_time(record)} {record.levelname.lower():7} {text}"
        if record.exc_info:
            line += "\n" + printable_lines(cut(self.formatException(record.exc_info), MOST_CHARACTERS))
        return line


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03}Z"


def set_up_logs(level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Let every record of this process be a line on stderr."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    logging.captureWarnings(True)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
