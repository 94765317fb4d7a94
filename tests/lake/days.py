"""Captures of some days for the tests of what leaves a lake: two nodes that ask, noise, and missing sightings."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from hopwire.capture import Sighting
from hopwire.model.message import CallbackPoint, Message
from hopwire.wire import FORMATS, encode
from tests.lake.captures import write_segment

SECOND, MS = 1_000_000_000, 1_000_000
DAY = 86_400 * SECOND
FIRST_DAY = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND
ANNA, BERT = b"anna", b"bert"


@dataclass
class Days:
    """What nodes see, day by day: a segment of each node for each day."""

    place: Path
    sequence: dict[bytes, int] = field(default_factory=dict)
    rows: dict[bytes, list[Sighting]] = field(default_factory=dict)

    def see(self, node: bytes, peer: bytes, way: str, at: int, frames: list[bytes], skipped: int = 0) -> None:
        number = self.sequence.get(node, 0)
        self.sequence[node] = number + max(skipped, 1)
        more = ("too_slow", "", skipped) if skipped else ()
        self.rows.setdefault(node, []).append(Sighting(node, node.decode(), 1, number, at, way, peer, frames, *more))

    def ask(
        self, flow: bytes, at: int, *, took: int = 2 * MS, one: bytes = ANNA, other: bytes = BERT, ahead: int = 0
    ) -> None:
        """A question and its answer; the clock of who answers may be ahead."""
        question = Message(
            b"orders.create",
            1,
            body_frames=(b"the secret of " + flow,),
            correlation_id=flow,
            callback_points=(CallbackPoint(b"orders.created"),),
            callback_key=7,
            callback_receiver_identity=b"hub",
            callback_receiver_node_identity=one,
            ttl_ticks=10**8,
        )
        answer = question.replace(identity=b"orders.created", receiver_identity=b"hub", receiver_node_identity=one)
        asked, answered = encode(question, FORMATS[-1]), encode(answer, FORMATS[-1])
        self.see(one, other, "out", at, asked)
        self.see(other, one, "in", at + ahead + took // 4, asked)
        self.see(other, one, "out", at + ahead + took // 2, answered)
        self.see(one, other, "in", at + took, answered)

    def day(self, number: int, count: int = 20) -> None:
        """A day: questions all day long, two around midnight, noise, and sightings that are missing."""
        begin = FIRST_DAY + number * DAY
        for each in range(count):
            self.ask(b"day-%d-%03d" % (number, each), begin + 600 * SECOND + each * DAY // (count + 1))
        self.see(ANNA, BERT, "in", begin + DAY - 60 * SECOND, [b"noise"])
        self.see(BERT, b"", "skipped", begin + DAY - 50 * SECOND, [], skipped=3)
        self.ask(b"before-midnight-%d" % number, begin + DAY - 30 * SECOND)
        self.ask(b"over-midnight-%d" % number, begin + DAY - SECOND, took=2 * SECOND)

    def write(self, name: str) -> list[Path]:
        """Seal what was seen since, as a segment of each node."""
        self.place.mkdir(exist_ok=True, parents=True)
        rows, self.rows = self.rows, {}
        return [write_segment(self.place / f"{node.decode()}-{name}.arrows", own) for node, own in rows.items()]


def make_days(place: Path, count: int) -> list[list[Path]]:
    """Give the segments of each day."""
    days = Days(place)
    found = []
    for number in range(count):
        days.day(number)
        found.append(days.write(f"{number:02}"))
    return found
