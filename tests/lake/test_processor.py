"""What numpy leaves alone on some processors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hopwire.lake.processor import DISABLED, numpy_settings

WIDE = ["X86_V3", "X86_V4", "AVX512_ICL"]


@pytest.fixture
def amd(tmp_path: Path) -> Path:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nvendor_id\t: AuthenticAMD\n")
    return path


def test_processor_of_amd_sorts_without_its_widest_registers(amd: Path) -> None:
    assert numpy_settings({}, amd, WIDE) == {DISABLED: "X86_V4"}
    assert numpy_settings({}, amd, ["AVX2", "AVX512F", "AVX512_SKX"]) == {DISABLED: "AVX512_SKX"}


def test_other_processors_and_what_somebody_has_set_are_left_alone(amd: Path, tmp_path: Path) -> None:
    assert numpy_settings({}, amd, ["X86_V3"]) == {}, "no such registers"
    assert numpy_settings({DISABLED: ""}, amd, WIDE) == {}
    assert numpy_settings({}, tmp_path / "no file", WIDE) == {}
    intel = tmp_path / "intel"
    intel.write_text("vendor_id\t: GenuineIntel\n")
    assert numpy_settings({}, intel, WIDE) == {}


@pytest.mark.slow
def test_numpy_of_this_machine_starts_with_the_settings_and_says_nothing() -> None:
    environ = {name: value for name, value in os.environ.items() if name != DISABLED}
    environ |= numpy_settings({})
    code = "import numpy; numpy.sort(numpy.arange(100))"
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""
