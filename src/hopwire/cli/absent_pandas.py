"""A command starts without pandas: to load it took a quarter of the CPU time of a start, and no command needs it.

pyarrow looks for pandas when it makes its first array of a list, and loads pandas if it is installed. So that first
array is made while pandas cannot be found. `to_pandas` makes pyarrow look again, and finds it.

The trap: until then pyarrow takes a Series for a list. That suits a process whose code is all ours, and no library.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["start_without_pandas"]


class _NotNow:
    """Finds no pandas, and leaves everything else to those who come after."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not loaded at the start of a command", name=name)


def start_without_pandas() -> None:
    """Load pyarrow, and let it believe for the time being that there is no pandas."""
    sys.meta_path.insert(0, _NotNow)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(_NotNow)
