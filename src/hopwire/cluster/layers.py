"""A frozen set of routes that costs little to change.

A frozen set is copied for each change: a node that hosts 20,000 actors one by one would copy 200 million routes. Here a
change is a small layer on top of larger layers. A route is there if the topmost layer that knows the route says so.

A layer that is not at most half as large as the layer below is merged with it. So there are few layers, and each route
is copied a few times: 20,000 changes leave at most 15 layers, and each route was copied about 15 times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hopwire.cluster.announce import AnnouncedRoute

__all__ = ["RouteLayers"]

Layer = Mapping[AnnouncedRoute, bool]  # whether each route is there


@dataclass(frozen=True, slots=True)
class RouteLayers:
    """Routes, in layers from large to small.

    >>> routes = RouteLayers().changed([(b"a", b"greet", 1, b""), (b"b", b"greet", 1, b"")], [])
    >>> list(routes.changed([], [(b"a", b"greet", 1, b"")]))
    [(b'b', b'greet', 1, b'')]
    """

    layers: tuple[Layer, ...] = ()

    @property
    def size(self) -> int:
        """At most so many routes are there."""
        return sum(map(len, self.layers))

    def __contains__(self, route: AnnouncedRoute) -> bool:
        for layer in reversed(self.layers):
            is_there = layer.get(route)
            if is_there is not None:
                return is_there
        return False

    def __iter__(self) -> Iterator[AnnouncedRoute]:
        return iter(_merged(self.layers, is_lowest=True))

    def changed(self, added: Iterable[AnnouncedRoute], removed: Iterable[AnnouncedRoute]) -> RouteLayers:
        """Give the routes after a change."""
        layers = [*self.layers, {**dict.fromkeys(removed, False), **dict.fromkeys(added, True)}]
        while len(layers) > 1 and len(layers[-2]) < 2 * len(layers[-1]):
            upper, lower = layers.pop(), layers.pop()
            layers.append(_merged((lower, upper), is_lowest=not layers))
        return RouteLayers(tuple(layers))


def _merged(layers: Iterable[Layer], is_lowest: bool) -> dict[AnnouncedRoute, bool]:
    merged: dict[AnnouncedRoute, bool] = {}
    for layer in layers:
        merged.update(layer)
    return {route: True for route, is_there in merged.items() if is_there} if is_lowest else merged
