"""Routes in layers are the same as routes in a set, and change at a price that does not grow with them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hopwire.cluster.announce import AnnouncedRoute
from hopwire.cluster.layers import RouteLayers

ROUTES = st.integers(0, 30).map(lambda number: (bytes([number]), b"greet", 1, b""))
CHANGES = st.lists(st.tuples(st.frozensets(ROUTES, max_size=8), st.frozensets(ROUTES, max_size=8)), max_size=20)


@given(CHANGES)
def test_layers_hold_what_a_set_would_hold(
    changes: list[tuple[frozenset[AnnouncedRoute], frozenset[AnnouncedRoute]]],
) -> None:
    routes, plain = RouteLayers(), frozenset[AnnouncedRoute]()
    for added, removed in changes:
        before = routes, plain
        routes, plain = routes.changed(added, removed - added), plain.difference(removed).union(added)
        assert sorted(routes) == sorted(plain)
        assert all((route in routes) == (route in plain) for route in before[1].union(added, removed))
        assert set(before[0]) == before[1]  # nobody's routes change behind their back


def test_many_small_changes_make_few_layers() -> None:
    routes = RouteLayers()
    for number in range(2000):
        routes = routes.changed([(b"%d" % number, b"greet", 1, b"")], [(b"%d" % (number - 100), b"greet", 1, b"")])
    assert len(routes.layers) <= 12
    assert len(list(routes)) == 100
    assert sum(map(len, routes.layers)) < 1000  # what is gone does not stay for ever
