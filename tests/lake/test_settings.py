from __future__ import annotations

from dataclasses import replace

import pytest

from hopwire.errors import SettingsError
from hopwire.lake.settings import LakeSettings
from hopwire.routing import HOP_LIMIT


def test_defaults_make_sense_and_agree_with_the_node() -> None:
    assert LakeSettings().hop_limit == HOP_LIMIT


@pytest.mark.parametrize("name", ["batch_rows", "patience_seconds", "max_flow_rows"])
@pytest.mark.parametrize("value", [0, -1, "many"])
def test_number_that_makes_no_sense_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=f"{name} must be a positive number"):
        replace(LakeSettings(), **{name: value})  # type: ignore[arg-type]


def test_unknown_compression_is_refused() -> None:
    with pytest.raises(SettingsError, match="compression must be lz4 or zstd or none, not 'rar'"):
        LakeSettings(compression="rar")
