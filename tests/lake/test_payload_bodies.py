"""Bodies as JSON where the payload is known: for Python, for SQL, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from hopwire.errors import SettingsError
from hopwire.lake import read
from hopwire.lake.payload_bodies import readers_of
from hopwire.lake.sql import query
from hopwire.model import Payload, body_from_payload
from hopwire.model.payload import Codec
from tests.cli.running import hopwire
from tests.lake.pure import write_lake


class Ordered(Payload, identity="bodies.ordered", version=1):
    """In MessagePack."""

    article: str
    count: int = 1
    note: bytes = b""


class Shipped(Payload, identity="bodies.shipped", version=2, codec=Codec.JSON):
    """In JSON."""

    to: list[str]


class Blob(Payload, identity="bodies.blob", version=1, codec=Codec.RAW):
    """Bytes."""

    data: bytes


PAYLOADS: list[type[Payload]] = [Ordered, Shipped, Blob]
SCHEMA = pa.schema(
    [
        ("identity", pa.binary()),
        ("version", pa.int32()),
        ("version_raw", pa.binary()),
        ("body_frames", pa.list_(pa.binary())),
    ]
)
ROWS = [
    (b"bodies.ordered", 1, None, [body_from_payload(Ordered("tea", 2, b"\xff"))]),
    (b"bodies.ordered", None, b"1", [body_from_payload(Ordered("old"))]),
    (b"bodies.ordered", 9, None, [b"whatever"]),
    (b"bodies.ordered", 1, None, [b"\xc1broken"]),
    (b"bodies.shipped", 2, None, [b'{"to": [', b'"here"]}']),
    (b"bodies.blob", 1, None, [b"\x00\x01"]),
    (b"bodies.ordered", 1, None, [b"\x91" * 100_000]),
    (b"hopwire.beat", 1, None, None),
]
EXPECTED = [
    {"article": "tea", "count": 2, "note": "/w=="},
    {"article": "old", "count": 1, "note": ""},
    None,
    None,
    {"to": ["here"]},
    {"data": "AAE="},
    None,
    None,
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bodies") / "lake"
    rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS], SCHEMA)
    write_lake(place, {"silver.messages": rows})
    return place


def parsed(texts: list[str | None]) -> list[object]:
    return [None if text is None else json.loads(text) for text in texts]


def test_bodies_are_json_where_the_payload_is_known(lake: Path) -> None:
    found = read(lake, "messages", payloads=PAYLOADS)
    assert found.column_names == [*SCHEMA.names, "body", "body_fault"]
    assert parsed(found["body"].to_pylist()) == EXPECTED
    faults = found["body_fault"].to_pylist()
    assert [number for number, fault in enumerate(faults) if fault] == [3, 6]
    assert all("\n" not in fault and len(fault) < 400 for fault in faults if fault)
    few = read(lake, "messages", "pandas", columns=["body"], payloads=[Shipped])
    assert parsed(few["body"].dropna().tolist()) == [{"to": ["here"]}]
    assert read(lake, "messages", "polars", columns=["identity", "body"], payloads=PAYLOADS).collect().width == 2


def test_sql_reads_bodies_that_are_asked_for(lake: Path) -> None:
    asked = "select body ->> '$.article' as article from messages where article is not null"
    found = query(lake, asked, payloads=readers_of(PAYLOADS))
    assert sorted(found["article"].to_pylist()) == ["old", "tea"]
    faults = query(
        lake, "select count(*) as count from messages where body_fault is not null", payloads=readers_of(PAYLOADS)
    )
    assert faults["count"].to_pylist() == [2]


def test_command_takes_a_module_of_payloads(lake: Path) -> None:
    asked = "select body from messages where body like '%here%'"
    found = hopwire("lake", "sql", asked, str(lake), "--payloads", "tests.lake.test_payload_bodies", "--json")
    assert (found.code, json.loads(json.loads(found.out)["body"])) == (0, {"to": ["here"]})
    for module, said in (("no.such.module", "cannot be imported"), ("json", "has no payload class")):
        refused = hopwire("lake", "sql", asked, str(lake), "--payloads", module)
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        assert said in refused.err


def test_payloads_that_cannot_be_are_refused(lake: Path) -> None:
    with pytest.raises(SettingsError, match="expected a class of payloads"):
        read(lake, "messages", payloads=["Ordered"])
    with pytest.raises(SettingsError, match=r"only silver\.messages has bodies"):
        read(lake, "messages", "spark", payloads=PAYLOADS)
