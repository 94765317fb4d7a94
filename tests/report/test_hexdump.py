"""Hex dumps: the caret stands below the byte, also when that byte is missing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.report import hexdump


def test_a_dump_has_offsets_bytes_and_text() -> None:
    assert hexdump(b"hopwire\0\xff" + bytes(8)) == [
        "     0  68 6f 70 77 69 72 65 00 ff 00 00 00 00 00 00 00  hopwire.........",
        "    16  00                                               .",
    ]
    assert hexdump(b"") == []


def test_a_mark_shows_the_lines_around_it_and_dots_for_the_rest() -> None:
    assert hexdump(bytes(range(32)), 17, width=4) == [
        "...",
        "     8  08 09 0a 0b  ....",
        "    12  0c 0d 0e 0f  ....",
        "    16  10 11 12 13  ....",
        "           ^^",
        "    20  14 15 16 17  ....",
        "    24  18 19 1a 1b  ....",
        "...",
    ]


@pytest.mark.parametrize(("size", "lines"), [(0, ["     0", "        ^^"]), (3, None), (4, None)])
def test_a_byte_that_is_missing_at_the_end_has_its_caret(size: int, lines: list[str] | None) -> None:
    found = hexdump(bytes(size), size, width=4)
    assert found[-1].endswith("^^")
    assert found[-1].index("^^") == 8 + 3 * (size % 4)
    assert lines is None or found == lines


@given(st.binary(min_size=1, max_size=200), st.data(), st.sampled_from([4, 8, 16]))
def test_the_caret_stands_below_the_byte(data: bytes, draw: st.DataObject, width: int) -> None:
    mark = draw.draw(st.integers(0, len(data) - 1))
    lines = hexdump(data, mark, width)
    caret = next(index for index, line in enumerate(lines) if line.endswith("^^"))
    column = lines[caret].index("^^")
    above = lines[caret - 1]
    assert int(above[:6]) + (column - 8) // 3 == mark
    assert above[column : column + 2] == f"{data[mark]:02x}"
