from __future__ import annotations

from typing import Any

import pytest

from hopwire.errors import SettingsError
from hopwire.simulate import SimulateSettings, formats_from_text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"messages": 0}, "messages must be 1 or more, found 0"),
        ({"nodes": 3}, "nodes must be 4 to 1000, found 3"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"formats": (2, 6)}, "formats must be some of"),
        ({"formats": ()}, "formats must be some of"),
        ({"rates": {"lost": 1}}, "no fault 'lost'"),
        ({"rates": {"loss": 1.5}}, "fault loss: the rate must be 0 to 1, found 1.5"),
        ({"rates": {"loss": 0.6, "delay": 0.6}}, "add up to 1.2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        SimulateSettings(**settings)


def test_formats_are_read_from_text() -> None:
    assert formats_from_text("v6, V3") == (3, 6)
    with pytest.raises(SettingsError, match="no wire format 'V7'; there are V3, V4, V5, V6"):
        formats_from_text("V7")


def test_chunks_follow_from_the_number_of_messages() -> None:
    assert SimulateSettings(messages=1).chunk_count == 1
    assert SimulateSettings(messages=1_000_000).chunk_count == 25
