from __future__ import annotations

from hopwire.node.callers import ALL, EACH, Callers


def test_a_connection_is_known_by_the_node_that_said_hello_until_it_is_forgotten() -> None:
    known = Callers({b"A", b"B"})
    known.hear(b"one", b"A")
    known.hear(b"two", b"A")
    known.hear(b"three", b"B")
    assert known.nodes == {b"one": b"A", b"two": b"A", b"three": b"B"}
    known.forget(b"A")
    known.forget(b"nobody")
    assert known.nodes == {b"three": b"B"}
    known.hear(b"three", b"A")
    known.forget(b"B")
    assert known.nodes == {b"three": b"A"}


def test_a_node_has_so_many_connections_and_pushes_out_only_its_own() -> None:
    known = Callers({b"A", b"B"})
    known.hear(b"other", b"B")
    for number in range(3 * EACH):
        known.hear(b"%d" % number, b"A")
    assert list(known.nodes) == [b"other", *(b"%d" % number for number in range(2 * EACH, 3 * EACH))]


def test_the_silent_make_room_for_others_first() -> None:
    met = {b"A"}
    known = Callers(met)
    known.hear(b"of A", b"A")
    for number in range(ALL + 10):
        known.hear(b"%d" % number, b"silent %d" % number)
    assert len(known) == ALL
    assert known.nodes[b"of A"] == b"A"
    assert b"0" not in known.nodes
