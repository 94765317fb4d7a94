"""Installs the peers into `.venv-peers`, beside the project's own: `python benchmarks/peers/install.py`.

Each is installed by itself, so that one that cannot be had does not keep the others away; the benchmark names it as
missing. nats-server is no Python package: if it is not there, Debian's is fetched and unpacked, which needs no root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1]
VENV = BENCHMARKS.parent / ".venv-peers"
PYTHON = VENV / "bin/python"
NATS_SERVER = VENV / "nats-server"


def main() -> None:
    """Install what is not there yet."""
    if not PYTHON.exists():
        print(f"== set up {VENV.name}")
        venv.create(VENV, with_pip=True)
    lines = (BENCHMARKS / "requirements.in").read_text().splitlines()
    missing = [name for name in lines if name and not name.startswith("#") and not _installs(name)]
    if not _has_nats_server():
        missing.append("nats-server")
    print(f"== missing: {', '.join(missing)}" if missing else "== every peer is there")


def _installs(name: str) -> bool:
    print(f"== {name}")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "-qq", "install"]
    return subprocess.run([*pip, "-c", str(BENCHMARKS / "requirements.txt"), name]).returncode == 0


def _has_nats_server() -> bool:
    print("== nats-server")
    places = os.pathsep.join([str(NATS_SERVER / "usr/sbin"), os.environ.get("PATH", ""), "/usr/sbin"])
    if shutil.which("nats-server", path=places):
        return True
    try:
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(["apt-get", "-qq", "download", "nats-server"], cwd=directory, check=True)
            package = next(Path(directory).glob("*.deb"))
            subprocess.run(["dpkg-deb", "-x", package, NATS_SERVER], check=True)
    except (OSError, subprocess.CalledProcessError, StopIteration) as error:
        print(f"Debian's package cannot be had here ({error}); install nats-server by other means", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    main()
