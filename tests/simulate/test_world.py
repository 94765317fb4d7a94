from __future__ import annotations

import tomllib

from hopwire.security import domains_from_table
from hopwire.simulate import SimulatedWorld, SimulateSettings

WORLD = SimulatedWorld(SimulateSettings(messages=400_000))


def test_the_file_of_domains_says_the_same_as_the_domains() -> None:
    assert domains_from_table(tomllib.loads(WORLD.domains_toml())) == WORLD.domains


def test_keys_are_rotated_with_an_overlap() -> None:
    orders = WORLD.domains.get("orders")
    assert orders is not None
    change = WORLD.rotation_ns
    assert [key.id for key in orders.keys_at(change)] == ["2026-b", "2026-a"]
    assert [key.id for key in orders.keys_at(WORLD.begin_ns(0))] == ["2026-a"]
    assert [key.id for key in orders.keys_at(WORLD.begin_ns(WORLD.settings.closing))] == ["2026-b"]


def test_a_crash_begins_a_new_incarnation() -> None:
    crashes = [(chunk, node) for chunk, node in enumerate(WORLD.crashed) if node >= 0]
    assert crashes
    for chunk, node in crashes:
        assert WORLD.incarnation(node, chunk + 1) == WORLD.incarnation(node, chunk) + 1


def test_worlds_of_equal_settings_are_equal() -> None:
    assert SimulatedWorld(WORLD.settings).nodes == WORLD.nodes
    assert len({node.identity for node in WORLD.nodes}) == len(WORLD.nodes)
