"""Who follows whom, and that everybody works out the same monitors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopwire.cluster.member_ring import MemberRing, place_of

NODES = [f"node-{number}".encode() for number in range(20)]


def test_members_follow_each_other_in_the_order_of_their_hashes() -> None:
    ring, order = MemberRing(NODES), sorted(NODES, key=place_of)
    assert ring.after(order[0], 3) == order[1:4]
    assert ring.before(order[0], 2) == [order[-1], order[-2]]
    assert ring.after(order[18], 3, absent={order[19]}) == [order[0], order[1], order[2]]


@pytest.mark.slow
@given(st.sets(st.sampled_from(NODES), min_size=1), st.sets(st.sampled_from(NODES)))
def test_whoever_monitors_is_a_monitor(nodes: set[bytes], absent: set[bytes]) -> None:
    ring = MemberRing(nodes)
    for one in nodes - absent:
        for other in ring.after(one, 4, absent):
            assert one in ring.before(other, 4, absent)
        assert len(ring.after(one, 4, absent)) == min(4, len(nodes - absent - {one}))


def test_shared_ring_is_copied_when_it_changes() -> None:
    ring = MemberRing(NODES[:3])
    other = ring.shared()
    other.add(NODES[3])
    ring.remove(NODES[0])
    ring.remove(b"nobody")
    other.add(NODES[3])
    assert (len(ring), len(other)) == (2, 4)


def test_chance_chooses_every_member() -> None:
    ring = MemberRing(NODES)
    assert {ring.at(number / 20) for number in range(20)} == {*NODES}
    assert MemberRing().at(0.5) == b""
