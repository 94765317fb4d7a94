"""The import rules in pyproject.toml find an import wherever it stands: in a function too, and behind TYPE_CHECKING."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# fmt: off
BROKEN = (
    # file                 code                                              what is found
    ("wire/codec.py",      "import hopwire.flows",                           "hopwire.wire.codec -> hopwire.flows"),
    ("wire/walk.py",       "from hopwire import Message",                    "hopwire.wire.walk -> hopwire"),
    ("wire/compile.py",    "from ..routing import decide",                   "hopwire.wire.compile -> hopwire.routing"),
    ("wire/train.py",      "from .. import routing",                         "hopwire.wire.train -> hopwire.routing"),
    ("flows/__init__.py",  "from hopwire.security import Domains",           "hopwire.flows -> hopwire.security"),
    ("errors.py",          "from hopwire.model import Message",              "hopwire.errors -> hopwire.model"),
    ("lake/__init__.py",   "from hopwire.node import Node",                  "hopwire.lake -> hopwire.node"),
    ("wire/dissect.py",    "import os.path",                                 "hopwire.wire.dissect -> os"),
    ("report/words.py",    "from hopwire.disk import open_regular",          "hopwire.report.words -> hopwire.disk"),
    ("cluster/__init__.py", "def now() -> None:\n    from time import time", "hopwire.cluster -> time"),
    ("routing/decide.py",  "if TYPE_CHECKING:\n    import pyspark",          "hopwire.routing.decide -> pyspark"),
    ("cli/main.py",        "from pyspark.sql import DataFrame",              "hopwire.cli.main -> pyspark"),
    ("node/router.py",     "import zmq.asyncio",                             "hopwire.node.router -> zmq"),
    ("extra.py",           "",                                               "- hopwire.extra"),
)
# fmt: on


@pytest.mark.slow
def test_every_broken_rule_is_found(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src" / "hopwire", tmp_path / "hopwire")
    for name, code, _ in BROKEN:
        with open(tmp_path / "hopwire" / name, "a") as file:
            file.write(f"\n{code}\n")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    config = ["--config", str(ROOT / "pyproject.toml")]
    found = subprocess.run([*command, *config], cwd=tmp_path, env=environ, capture_output=True, text=True).stdout
    assert [line for _, _, line in BROKEN if line not in found] == [], found
