from __future__ import annotations

import struct

from hopwire.report.pcapng import MOST_TEXT, ExportedHop, pcapng_from_hops


def test_texts_that_are_longer_than_an_option_are_cut_in_whole_characters() -> None:
    hop = ExportedHop(1, b"a", b"b", False, (b"", b"x"), "ü" * 100_000)
    blocks = list(pcapng_from_hops([hop], {b"a": "ä" * 100_000}))
    for block in blocks:
        (size,) = struct.unpack_from("<I", block, 4)
        assert size == len(block)
    assert "ä".encode() * (MOST_TEXT // 2) in blocks[2]
    assert blocks[-1].count("ü".encode()) == MOST_TEXT // 2
