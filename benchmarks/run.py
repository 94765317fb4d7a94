"""Every benchmark, one after another: `make bench`."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import ask, batch, capture, cluster, codec, lake, routing


def main() -> None:
    """Run them all."""
    print(f"# Benchmarks\n\nPython {platform.python_version()}, {platform.machine()}.")
    print("Ratios count; absolute figures move with the machine.")
    codec.run()
    batch.run()
    capture.run()
    routing.run()
    cluster.run()
    ask.run()
    ask.show_profiles()
    lake.run()


if __name__ == "__main__":
    main()
