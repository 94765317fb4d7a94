"""The three import rules: imports point down, the core touches nothing, Spark and ZeroMQ stay in one place.

The rules are the tables below; `broken_rules` walks them over the syntax tree of one file. Every import counts, also
one inside a function or behind TYPE_CHECKING. What a third party imports itself does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

# Each line may import the lines below it. Names on one line do not import one another.
LAYERS = (
    ("__init__", "__main__"),
    ("cli",),
    ("web", "demo"),
    ("sync", "testing"),
    ("lake", "node"),
    ("report", "capture", "simulate"),
    ("flows", "routing", "cluster", "security"),
    ("wire",),
    ("model", "disk", "columnar"),
    ("errors",),
)
DEPTH = {part: depth for depth, line in enumerate(LAYERS) for part in line}

CORE = {"model", "wire", "security", "routing", "cluster", "flows", "report", "simulate"}
SHELL_IN_CORE = {"hopwire/security/domains_file.py"}  # for whoever starts a process: reads secrets from the environment
NOT_PURE = {"disk"}  # what lies low enough for the core to import, and is not for it
NOT_IN_CORE = {"zmq", "pyspark", "socket", "threading", "asyncio", "time", "random", "logging", "os"}

ONLY_IN = {"pyspark": "hopwire/lake/", "zmq": "hopwire/node/sockets.py"}


def imported_modules(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Name every module that is imported, split at the dots; `from a import b` may mean the module a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = base + tuple(node.module.split(".") if node.module else ())
            yield from ((*module, alias.name) for alias in node.names)


def broken_rules(path: Path, source: str) -> list[str]:
    """List the rules that one file breaks; `path` is relative to the source root."""
    here = path.parts[1].removesuffix(".py")
    if here not in DEPTH:
        return [f"{path}: {here} has no place in LAYERS"]
    broken = []
    for module in imported_modules(ast.parse(source), path.parent.parts):
        if module[0] == "hopwire":
            there = module[1] if len(module) > 1 and module[1] in DEPTH else "__init__"
            if there != here and DEPTH[there] <= DEPTH[here]:
                broken.append(f"{path}: {here} may not import {there}")
            elif here in CORE and there in NOT_PURE:
                broken.append(f"{path}: the core may not import {there}")
        elif here in CORE and module[0] in NOT_IN_CORE and path.as_posix() not in SHELL_IN_CORE:
            broken.append(f"{path}: the core may not import {module[0]}")
        elif not path.as_posix().startswith(ONLY_IN.get(module[0], "")):
            broken.append(f"{path}: {module[0]} belongs in {ONLY_IN[module[0]]}")
    return broken


def test_source_keeps_the_import_rules() -> None:
    files = sorted(SOURCE.glob("hopwire/**/*.py"))
    assert files
    assert [line for file in files for line in broken_rules(file.relative_to(SOURCE), file.read_text("utf-8"))] == []


# fmt: off
BROKEN = (
    ("hopwire/wire/codec.py",    "from hopwire.flows import link",         "wire may not import flows"),
    ("hopwire/wire/codec.py",    "from hopwire import routing",            "wire may not import routing"),
    ("hopwire/wire/codec.py",    "from hopwire import Message",            "wire may not import __init__"),
    ("hopwire/wire/codec.py",    "import hopwire.node.hub",                "wire may not import node"),
    ("hopwire/wire/codec.py",    "from ..routing import decide",           "wire may not import routing"),
    ("hopwire/flows/hops.py",    "from .. import routing",                 "flows may not import routing"),
    ("hopwire/errors.py",        "from hopwire.model import Message",      "errors may not import model"),
    ("hopwire/lake/run.py",      "from hopwire.node import hub",           "lake may not import node"),
    ("hopwire/wire/rows.py",     "import os.path",                         "the core may not import os"),
    ("hopwire/report/words.py",  "from hopwire.disk import open_regular",  "the core may not import disk"),
    ("hopwire/cluster/peers.py", "def now():\n    from time import time",  "the core may not import time"),
    ("hopwire/flows/hops.py",    "if TYPE_CHECKING:\n    import pyspark",  "the core may not import pyspark"),
    ("hopwire/cli/flows.py",     "from pyspark.sql import DataFrame",      "pyspark belongs in hopwire/lake/"),
    ("hopwire/node/router.py",   "import zmq.asyncio",                     "zmq belongs in hopwire/node/sockets.py"),
    ("hopwire/extra/new.py",     "",                                       "extra has no place in LAYERS"),
)
KEPT = (
    ("hopwire/__init__.py",      "from hopwire.node import Node"),
    ("hopwire/wire/batch/decoding.py",    "import numpy\nimport pyarrow\nfrom hopwire.model import Message"),
    ("hopwire/wire/codec.py",    "from hopwire.wire.formats import V5\nfrom . import schema"),
    ("hopwire/node/sockets.py",  "import asyncio\nimport zmq"),
    ("hopwire/capture/recording/tcp.py",   "from hopwire.disk import open_regular"),
    ("hopwire/lake/spark.py",    "import os\nfrom pyspark.sql import SparkSession"),
)
# fmt: on


@pytest.mark.parametrize(("path", "source", "fault"), BROKEN)
def test_checker_names_a_broken_rule(path: str, source: str, fault: str) -> None:
    assert broken_rules(Path(path), source) == [f"{path}: {fault}"]


@pytest.mark.parametrize(("path", "source"), KEPT)
def test_checker_lets_good_imports_pass(path: str, source: str) -> None:
    assert broken_rules(Path(path), source) == []
