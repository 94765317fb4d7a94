"""Values of the wire and of the lake as rows, text and JSON; no terminal, no files."""

from hopwire.report.dissection import Row, dissection_to_json, error_to_json, hexdump, rows_from_dissection
from hopwire.report.jsonable import message_from_json, message_to_json

__all__ = [
    "Row",
    "dissection_to_json",
    "error_to_json",
    "hexdump",
    "message_from_json",
    "message_to_json",
    "rows_from_dissection",
]
