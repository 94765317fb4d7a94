"""The tables beside the documents: same rows, same order, same words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hopwire.wire import FORMATS, V4, V6, WireFormat
from hopwire.wire.schema import Entry, Field, FromEnd, Packed, Run, Type

DOCUMENTS = Path(__file__).parents[2] / "docs" / "wire"
DATA_TYPES = {
    "USHORT": Type.U16,
    "BYTE[]": Type.RAW,
    "STRING": Type.TEXT,
    "LONG": Type.I64,
    "ULONG": Type.U16,
    "INT": None,
}
CONTENT_COLUMN = 30  # whatever starts further right is the rest of a description

Row = tuple[str, str, str, str]  # frame, bits, content, data type


def document_rows(name: str) -> list[tuple[Row, bool]]:
    """The rows of a document, each with whether it is marked as a route selector."""
    rows: list[tuple[Row, bool]] = []
    text = (DOCUMENTS / name).read_text(encoding="utf-8-sig")
    for line in text.partition("ActorHost is responsible")[0].splitlines():
        cells = [(m.start(), m.group()) for m in re.finditer(r"\S+(?: \S+)*", line.expandtabs(4))]
        frame = _taken(cells, r"n-\d+|\d")
        data_type = _taken(cells, "|".join(map(re.escape, DATA_TYPES)))
        bits = _taken(cells, r"\d+-\d+")
        is_row = (
            bool(cells) and 0 < cells[0][0] < CONTENT_COLUMN and not cells[0][1].startswith((".", "bits", "CONTENT"))
        )
        if is_row:
            content = cells[0][1]
            if bits and not frame and rows:  # further lanes of the same frame
                frame = rows[-1][0][0]
            if content not in ("TYPE", "SELECTOR", "total"):
                rows.append(((frame, bits, content, data_type), len(cells) > 1 and cells[1][1] == "*"))
    return rows


def _taken(cells: list[tuple[int, str]], pattern: str) -> str:
    return cells.pop(0)[1] if cells and re.fullmatch(pattern, cells[0][1]) else ""


def table_rows(fmt: WireFormat) -> list[tuple[Row, bool]]:
    """The same rows as the table has them."""
    rows: list[tuple[Row, bool]] = []
    for row in fmt.rows:
        if isinstance(row, Field):
            bits = f"{row.bit}-{row.bit + 15}" if row.bit else ""
            frame = str(row.frame) if isinstance(row.frame, FromEnd | int) else ""
            rows.append(((frame, bits, row.title, _data_type(row)), row.is_selector))
        elif isinstance(row, Packed):
            rows.append((("", "", row.title, "INT"), False))
        if isinstance(row, Run | Packed):
            rows += [(("", "", entry.title, ""), False) for entry in row.entry]
    return rows


def _data_type(field: Field | Entry) -> str:
    if not isinstance(field, Field) or field.frame is not None:
        return ""
    if field.bit is not None:
        return "ULONG" if field.bit == 1 else ""
    return next(word for word, kind in DATA_TYPES.items() if kind is field.type)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_row_of_the_document_stands_in_the_table_in_the_same_place(fmt: WireFormat) -> None:
    expected = [row for row, _ in document_rows(f"{fmt.name.lower()}.txt")]
    found = [row for row, _ in table_rows(fmt)]
    if fmt is V6:  # the document numbers the body frame, which stands on the meta frame
        expected = [("", *rest) if frame == "2" else (frame, *rest) for frame, *rest in expected]  # type: ignore[misc]
    assert found == expected


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if fmt.number >= 5], ids=str)
def test_route_selectors_are_those_that_the_document_marks(fmt: WireFormat) -> None:
    expected = [row[2] for row, is_selector in document_rows(f"{fmt.name.lower()}.txt") if is_selector]
    assert [row[2] for row, is_selector in table_rows(fmt) if is_selector] == expected


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_all_formats_have_the_same_route_selectors(fmt: WireFormat) -> None:
    names = {field.name for field in fmt.fields if field.is_selector}
    assert names == {"identity", "version", "partition", "receiver_identity", "receiver_node_identity", "distribution"}


def test_tails_are_as_long_as_the_documents_say() -> None:
    assert [fmt.tail for fmt in FORMATS] == [20, 15, 17, 1]


def test_what_a_format_cannot_carry_follows_from_its_table() -> None:
    assert V6.not_carried == ()
    assert V4.not_carried == ("callback_key", "callback_receiver_node_identity", "extensions")
