"""Programs that are no nodes and import nothing of ours: Python with pyzmq, and C with libzmq, as processes."""

from __future__ import annotations

import ast
import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from plain_formats import Plain, read, write

from hopwire.errors import HandlerFailed
from hopwire.node import Foreign, Node
from hopwire.security import Domains
from tests.node.foreigners import ANSWERS, IDS, KINDS, SECRET, PlainGreet, PlainGreeter, PlainGreeting

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "examples" / "foreign"
VECTORS = ROOT / "tests" / "vectors"
SECONDS = 20.0
each_kind = pytest.mark.parametrize(("fmt", "domains"), KINDS, ids=IDS)

PYTHON_ASKS = (sys.executable, str(PROGRAMS / "asks.py"))
PYTHON_ANSWERS = (sys.executable, str(PROGRAMS / "answers.py"))


@pytest.fixture(scope="session")
def plain_peer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program in C, if there is a compiler and libzmq with its header (Debian: gcc, libzmq3-dev)."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("NOT INSTALLED: gcc, by which the program in C is compiled")
    probe = subprocess.run([compiler, "-E", "-"], input=b"#include <zmq.h>\n", capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("NOT INSTALLED: libzmq3-dev, which the program in C is compiled with")
    made = tmp_path_factory.mktemp("plain_peer") / "plain_peer"
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1")
    subprocess.run([compiler, *flags, str(PROGRAMS / "plain_peer.c"), "-o", str(made), "-lzmq"], check=True)
    return str(made)


def secret_of(domains: Domains) -> tuple[str, ...]:
    return (SECRET.decode(),) if domains.signing else ()


async def asked(words: Sequence[str]) -> str:
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode().strip()


@asynccontextmanager
async def answering(words: Sequence[str]) -> AsyncIterator[str]:
    """A program that listens; it ends when its input does."""
    process = await asyncio.create_subprocess_exec(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


async def ask_ours(program: Sequence[str], fmt: str, domains: Domains, failure: str) -> None:
    """A foreigner asks us, and gets the answer, or the error."""
    async with asyncio.timeout(SECONDS), Node(domains=domains, settings=ANSWERS) as node:
        node.host(PlainGreeter())
        answers = [asked((*program, node.uri, fmt, name, *secret_of(domains))) for name in ("Ada", "")]
        greeted, failed = await asyncio.gather(*answers)
        assert greeted == "hello Ada"
        assert failed.startswith(failure)


async def ask_theirs(program: Sequence[str], fmt: str, domains: Domains) -> None:
    """We ask a foreigner, and get the answer."""
    async with asyncio.timeout(SECONDS), answering((*program, "legacy-1", *secret_of(domains))) as uri:
        peer = Foreign(identity=b"legacy-1", uri=uri, format=fmt, handles=[PlainGreet])
        async with Node(domains=domains, foreign=[peer]) as node:
            await node.knows(PlainGreet)
            hub = node.hub()
            for name in ("Ada", "Bob", "Eve"):
                assert await hub.ask(PlainGreet(name), PlainGreeting) == PlainGreeting(f"hello {name}")
            if program is PYTHON_ANSWERS:
                with pytest.raises(HandlerFailed, match="a name is needed"):
                    await hub.ask(PlainGreet(""), PlainGreeting)
            assert not node.dead_letters.counts


@each_kind
@pytest.mark.slow
def test_program_in_python_asks(fmt: str, domains: Domains) -> None:
    asyncio.run(ask_ours(PYTHON_ASKS, fmt, domains, "KINO.EXCEPTION"))


@each_kind
@pytest.mark.slow
def test_program_in_python_answers(fmt: str, domains: Domains) -> None:
    asyncio.run(ask_theirs(PYTHON_ANSWERS, fmt, domains))


@each_kind
@pytest.mark.slow
def test_program_in_c_asks(fmt: str, domains: Domains, plain_peer: str) -> None:
    asyncio.run(ask_ours((plain_peer, "ask"), fmt, domains, "KINO.EXCEPTION"))


@each_kind
@pytest.mark.slow
def test_program_in_c_answers(fmt: str, domains: Domains, plain_peer: str) -> None:
    asyncio.run(ask_theirs((plain_peer, "answer"), fmt, domains))


def test_programs_import_nothing_of_ours() -> None:
    for path in PROGRAMS.glob("*.py"):
        names = [name for node in ast.walk(ast.parse(path.read_text("utf-8"))) for name in imported(node)]
        assert not [name for name in names if name.startswith("hopwire")], path


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def plain_from(fields: dict[str, object]) -> Plain | None:
    """Give a vector of the original as the programs have a message; None if it has more than they know."""

    def raw(name: str, values: dict[str, object] = fields) -> bytes:
        value = values.get(name)
        return bytes.fromhex(value) if isinstance(value, str) else b""

    def version(values: dict[str, object]) -> object:
        found = values["version"]
        return found if isinstance(found, int) else {"312e30": 1}.get(str(found))

    points = fields["callback_points"]
    assert isinstance(points, list)
    if fields["routing"] or version(fields) is None or any(version(each) is None for each in points):
        return None
    if not isinstance(fields["body"], str):
        return None
    return Plain(
        identity=raw("identity"),
        version=version(fields),  # type: ignore[arg-type]
        partition=raw("partition"),
        body=raw("body"),
        correlation_id=raw("correlation_id"),
        receiver=raw("receiver_identity"),
        receiver_node=raw("receiver_node_identity"),
        callback_receiver=raw("callback_receiver_identity"),
        callback_node=raw("callback_receiver_node_identity"),
        callback_key=fields.get("callback_key", 0),  # type: ignore[arg-type]
        points=tuple((raw("identity", each), version(each), raw("partition", each)) for each in points),  # type: ignore[misc]
        trace_options=fields["trace_options"],  # type: ignore[arg-type]
        distribution=fields["distribution"],  # type: ignore[arg-type]
        hops=fields["hops"],  # type: ignore[arg-type]
        ttl_ticks=fields["ttl_ticks"],  # type: ignore[arg-type]
        domain=str(fields.get("domain") or "").encode(),
        signature=raw("signature"),
    )


@pytest.mark.parametrize("fmt", ["V3", "V4", "V5", "V6"])
def test_programs_write_and_read_what_the_original_wrote(fmt: str) -> None:
    """Their writer is the judge of our bytes, so it is judged itself by bytes of the original."""
    vectors = [json.loads(line) for line in (VECTORS / f"{fmt.lower()}.jsonl").read_text("utf-8").splitlines()]
    compared = 0
    for vector in vectors:
        plain = plain_from(vector["fields"])
        if plain is None or not all(isinstance(frame, str) for frame in vector["frames"]):
            continue
        frames = [bytes.fromhex(frame) for frame in vector["frames"]][1:]
        assert write(fmt, plain) == frames, vector["name"]
        assert read(frames) == (fmt, plain), vector["name"]
        compared += 1
    assert compared >= 15


@pytest.mark.slow
def test_example_with_a_node_among_them_runs() -> None:
    example = [sys.executable, str(ROOT / "examples" / "foreign_peers.py")]
    said = subprocess.run(example, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    formats = ("V3", "V4", "V5", "V6")
    assert said == [
        line
        for fmt in formats
        for line in (f"{fmt} the program asked, and heard: hello Ada", f"{fmt} the node asked, and heard: hello Bob")
    ]
