from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.wire.connection import CHANCE_BYTES, MAX_NODE_BYTES, claimed_node, connection_name

CHANCE = st.binary(min_size=CHANCE_BYTES, max_size=CHANCE_BYTES)


@given(st.binary(min_size=1, max_size=MAX_NODE_BYTES), CHANCE)
def test_the_name_of_a_connection_claims_its_node(node: bytes, chance: bytes) -> None:
    name = connection_name(node, chance)
    assert claimed_node(name) == node
    assert len(name) <= 255
    assert claimed_node(connection_name(name[:MAX_NODE_BYTES], chance)) == name[:MAX_NODE_BYTES]


@pytest.mark.parametrize(
    "name", [b"", b"node", b"~0123456789abcdef", b"node~0123456789ABCDEF", b"node~012345678", b"\0abc"]
)
def test_the_name_of_another_is_taken_as_it_is(name: bytes) -> None:
    assert claimed_node(name) == name
