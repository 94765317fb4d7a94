"""Lakes that are not even: everything in one flow, one callback key, one message, or one body; beside an even one.

    python benchmarks/skew.py --messages 1000000

Two nodes ask and answer, both capture, so each message is seen twice. All lakes have as many messages, and the bytes of
one giant body more. Each is built by a Spark that is warm; a time is given as a multiple of that of the even lake.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.timing import show_table
from benchmarks.watch import ALL, JVM, WORKERS, watched
from hopwire.capture import Direction
from hopwire.capture.records import RECORDS, Origin, Row, batch_from_rows
from hopwire.lake.build import build
from hopwire.lake.session import session
from hopwire.lake.store import read_arrow
from hopwire.model import CallbackPoint, Message
from hopwire.wire import V5, encode

MESSAGES, WARM_UP = 1_000_000, 20_000
BODY_BYTES = 250 * 1024 * 1024  # the largest message that nodes take has 256 MiB
SEGMENT_ROWS, BATCH_ROWS = 250_000, 1_000
START, STEP_NS, TRAVEL_NS = 1_800_000_000_000_000_000, 1_000_000, 200_000
ANNA, BERT, HUB = b"anna", b"bert", b"hub"
ASK, ANSWER = b"skew.ask", b"skew.answer"
SPARK = {"spark.master": "local[2]", "spark.driver.memory": "4g"}
GB = 1024**3

Asked = Callable[[int], Message]  # the question of this number


def _question(number: int, flow: int, key: int, body: bytes = b"body") -> Message:
    return Message(
        identity=ASK,
        correlation_id=b"flow %d" % flow if flow else b"",
        body_frames=(b"%d " % number + body,),
        callback_points=(CallbackPoint(ANSWER),) if key else (),
        callback_key=key,
        callback_receiver_identity=HUB if key else b"",
        callback_receiver_node_identity=ANNA if key else b"",
    )


def even(number: int) -> Message:
    """Each question is a flow of its own."""
    return _question(number, number + 1, number + 1)


def one_flow(number: int) -> Message:
    """All questions belong to one flow."""
    return _question(number, 1, number + 1)


def one_key(number: int) -> Message:
    """All questions have one callback key."""
    return _question(number, 1, 1)


def one_message(_: int) -> Message:
    """The same is said over and over: no id, no flow, no answer."""
    return _question(0, 0, 0)


def one_body(number: int) -> Message:
    """One question has a giant body."""
    return even(number) if number else _question(0, 1, 1, bytes(BODY_BYTES))


CASES: dict[str, Asked] = {
    "even": even,
    "one flow": one_flow,
    "one callback key": one_key,
    "one message": one_message,
    "one giant body": one_body,
}


def _answer(question: Message) -> Message | None:
    if not question.callback_key:
        return None
    home = {"receiver_identity": HUB, "receiver_node_identity": ANNA}
    return question.replace(identity=ANSWER, body_frames=(question.body_frames[0][:16],), **home)


def _sightings(asked: Asked, messages: int) -> Iterator[tuple[bytes, int, Direction, bytes, list[bytes]]]:
    """What both nodes see, in the order of time."""
    said, at = 0, START
    for number in count():
        question = asked(number)
        for source, target, message in ((ANNA, BERT, question), (BERT, ANNA, _answer(question))):
            if message is None:
                continue
            if said == messages:
                return
            frames = encode(message, V5)
            yield source, at, Direction.OUT, target, frames
            yield target, at + TRAVEL_NS, Direction.IN, source, frames
            said, at = said + 1, at + STEP_NS


def write_captures(place: Path, asked: Asked, messages: int) -> None:
    """Write the captures of both nodes."""
    place.mkdir(parents=True)
    nodes = {node: _Writer(place, node) for node in (ANNA, BERT)}
    for node, at, direction, peer, frames in _sightings(asked, messages):
        nodes[node].add(at, direction, peer, frames)
    for writer in nodes.values():
        writer.close()


class _Writer:
    """The segments of one node."""

    def __init__(self, place: Path, node: bytes) -> None:
        self._place, self._origin = place, Origin(node, node.decode(), 1)
        self._rows: list[Row] = []
        self._count = 0
        self._file: Any = None
        self._stream: Any = None

    def add(self, at: int, direction: Direction, peer: bytes, frames: list[bytes]) -> None:
        if self._stream is None:
            path = self._place / f"{self._origin.node_name}-{self._count:09d}.arrows"
            self._file = pa.OSFile(str(path), "wb")
            self._stream = pa.ipc.new_stream(self._file, RECORDS)
        self._rows.append((self._count, at, direction, peer, frames, "", "", 0, 0))
        self._count += 1
        if len(self._rows) == BATCH_ROWS:
            self._write()
        if self._count % SEGMENT_ROWS == 0:
            self.close()

    def _write(self) -> None:
        self._stream.write_batch(batch_from_rows(self._origin, self._rows))
        self._rows = []

    def close(self) -> None:
        if self._stream is not None:
            self._write()
            self._stream.close()
            self._file.close()
            self._stream = None


def row_of(lake: Path) -> str:
    """Say what the lake says of its largest flow and its largest request."""
    flows = read_arrow(lake, "gold.flows", ["message_count", "hop_count", "is_oversized", "size_bytes"])
    largest = flows.slice(pc.index(flows["hop_count"], pc.max(flows["hop_count"])).as_py(), 1).to_pylist()[0]
    requests = read_arrow(lake, "gold.requests", ["hop_count", "is_reused"])
    of_request = f"a request of {pc.max(requests['hop_count']).as_py() or 0:,} hops"
    words = f"{largest['message_count']:,} messages, {largest['hop_count']:,} hops"
    words += ", oversized" if largest["is_oversized"] else ""
    words += f"; {of_request}" + (", reused" if pc.any(requests["is_reused"]).as_py() else "")
    return f"{words}; a flow of {pc.max(flows['size_bytes']).as_py() / 1e6:,.1f} MB"


def run(messages: int = MESSAGES, cases: list[str] | None = None) -> None:
    """Measure and print."""
    load = os.getloadavg()[0]
    place = Path(tempfile.mkdtemp(prefix="hopwire-bench-"))
    rows, first = [], 0.0
    try:
        spark = session("benchmark", **SPARK)
        for name, size in [("even", WARM_UP), *((name, messages) for name in cases or CASES)]:
            captures, lake = place / "captures", place / "lake"
            write_captures(captures, CASES[name], size)
            begin = time.perf_counter()
            with watched() as watch:
                build(spark, captures, lake)
            seconds = time.perf_counter() - begin
            if size == messages:
                first = first or seconds
                memory = (f"{watch.peak[kind] / GB:.2f}" for kind in (JVM, WORKERS, ALL))
                rows.append([name, f"{seconds:.0f}", f"{seconds / first:.2f} x", *memory, row_of(lake)])
            shutil.rmtree(captures)
            shutil.rmtree(lake)
    finally:
        shutil.rmtree(place)
    header = ["all in", "s", "of even", "JVM GB", "workers GB", "all GB", "what the largest rows say"]
    show_table(f"Lake, skewed, {messages:,} messages seen twice, two cores", header, rows)
    print(f"\n{os.cpu_count()} cores, load before: {load:.1f}.")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--cases", default="", help=f"commas between: {', '.join(CASES)}")
    options = parser.parse_args()
    run(options.messages, [word.strip() for word in options.cases.split(",") if word.strip()])


if __name__ == "__main__":
    main()
