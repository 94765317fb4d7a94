"""What numpy should leave alone on the processor of this machine.

numpy sorts numbers with the widest registers that a processor has. The processors of AMD have AVX-512, and the
instruction that numpy sorts with there (`vpcompressq` to memory) takes them a hundred cycles. Without AVX-512 numpy
sorts five times as fast on them: 7 ns for a number in place of 33, measured with numpy 2.4 on an EPYC of 2023.

The trap: numpy reads the setting when it is imported. So it is a setting for processes that are still to start.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["DISABLED", "numpy_settings"]

DISABLED = "NPY_DISABLE_CPU_FEATURES"  # the variable that numpy reads
WIDEST = ("X86_V4", "AVX512_SKX")  # AVX-512, as numpy 2.4 and older numpy call it
AMD = "AuthenticAMD"


def numpy_settings(
    environ: Mapping[str, str], cpuinfo: Path = Path("/proc/cpuinfo"), found: list[str] | None = None
) -> dict[str, str]:
    """Give variables for processes that sort much; none if somebody has set them, or if they change nothing here."""
    features = _features() if found is None else found
    slow = [name for name in WIDEST if name in features]
    if DISABLED in environ or not slow or not cpuinfo.exists() or AMD not in cpuinfo.read_text():
        return {}
    return {DISABLED: " ".join(slow)}


def _features() -> list[str]:
    """The features that numpy can use here, and could do without."""
    config: Any = np.show_config(mode="dicts")
    return list(config.get("SIMD Extensions", {}).get("found", []))
