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


def test_a_connection_that_is_not_sure_counts_for_nothing_and_pushes_out_none_that_is() -> None:
    known = Callers({b"A"})
    known.hear(b"sure", b"A")
    for number in range(3 * EACH):
        known.hear(b"%d" % number, b"A", is_sure=False)
    assert known.of(b"A") == (b"sure",)
    assert len(known) == 1 + EACH
    secret = known.secret(b"23")
    assert known.secret(b"23") == secret
    assert known.is_proved(b"23", secret)
    assert not known.is_proved(b"22", secret)
    assert not known.is_proved(b"22", b"")
    known.hear(b"23", b"A")
    assert known.of(b"A") == (b"sure", b"23")
    known.hear(b"23", b"A", is_sure=False)  # what is sure stays so
    assert known.is_sure(b"23")


def test_what_is_known_of_a_connection_ends_with_it() -> None:
    known = Callers({b"A"})
    known.hear(b"one", b"A")
    known.echo(b"one")
    secret = known.secret(b"one")
    assert known.has_echoed(b"one")
    known.end(b"one")
    known.end(b"never heard")
    assert not known.nodes
    assert not known.has_echoed(b"one")
    assert not known.is_proved(b"one", secret)
