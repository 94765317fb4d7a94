"""Messages between members: they are written and read, and every field has a limit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hopwire.cluster.gossip import (
    GOSSIP,
    LIMITS,
    MOST_ACCUSED,
    MOST_PROOFS,
    Accusation,
    Compare,
    MemberRecord,
    OwnedRoutes,
    Ping,
    RoutesGiven,
    Rumours,
    beyond_limits,
)
from hopwire.model import Payload, body_from_payload, payload_from_body

RECORD = MemberRecord(b"A", 1, 2, "tcp://a:1", (6,), ("members",), 3, b"hash", 0, (("orders", b"proof"),))
ACCUSED = Accusation(b"A", 1, 2, b"B", True)


def test_rumours_are_written_and_read() -> None:
    said = Rumours(b"A", 1, (RECORD,), (ACCUSED,))
    assert payload_from_body(Rumours, body_from_payload(said)) == said


def test_every_field_has_a_limit() -> None:
    free = {"is_more"}
    assert {name for each in GOSSIP for name in each.__struct_fields__} - free == {*LIMITS}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (Ping(b"A", 1, 1, 2**64 - 1), ""),
        (Ping(b"", 1, 1, 1), "node"),
        (Ping(b"A", 1, 1, 2**64), "digest"),
        (Rumours(b"A", 1, (MemberRecord(b"A", 2**63, 1, ""),)), "records"),
        (Rumours(b"A", 1, (MemberRecord(b"A", 1, 1, "x" * 2000),)), "records"),
        (Rumours(b"A", 1, (), (ACCUSED,) * (MOST_ACCUSED + 1)), "accused"),
        (Rumours(b"A", 1, (replace(RECORD, proofs=RECORD.proofs * MOST_PROOFS),)), ""),
        (Rumours(b"A", 1, (replace(RECORD, proofs=RECORD.proofs * (MOST_PROOFS + 1)),)), "records"),
        (Rumours(b"A", 1, (replace(RECORD, proofs=(("x" * 256, b""),)),)), "records"),
        (Rumours(b"A", 1, (replace(RECORD, proofs=(("x", bytes(289)),)),)), "records"),
        (Compare(b"A", 1, (0,) * 257), "buckets"),
        (RoutesGiven(b"A", 1, (OwnedRoutes(b"A", 1, 0, -1),)), "given"),
    ],
)
def test_what_is_beyond_its_limit_is_named(said: Payload, field: str) -> None:
    assert beyond_limits(said) == field
