"""A node that captures under a name is the same node after a restart."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hopwire.errors import CaptureError, NoRoute, SettingsError
from hopwire.testing import Network, run
from tests.node.stories import Greet


def test_a_node_with_a_capture_and_a_name_keeps_its_identity_across_restarts(tmp_path: Path) -> None:
    async def story(network: Network) -> None:
        async with network.node(capture=tmp_path, name="pay/ment ä") as first:
            kept = first.identity
        async with network.node(capture=tmp_path, name="pay/ment ä") as second:
            assert second.identity == kept
        async with network.node(capture=tmp_path, name="stock") as other:
            assert other.identity != kept
        async with network.node(capture=tmp_path, name="stock", identity=b"given") as given:
            assert given.identity == b"given"
        assert [path.stat().st_mode & 0o777 for path in tmp_path.glob(".*.identity")] == [0o600, 0o600]

    run(story)


@pytest.mark.parametrize("name", ["", "shop"])
def test_a_capture_that_is_a_file_is_refused_with_and_without_a_name(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a_file"
    file.touch()
    for place in (file, file / "below"):
        with pytest.raises(CaptureError, match=r"a_file.*: no capture can be written here: "):
            Network().node(capture=place, name=name)


def test_two_nodes_of_one_name_at_one_time_have_two_identities_and_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(network: Network) -> None:
        async with (
            network.node(capture=tmp_path, name="payment") as one,
            network.node(capture=tmp_path, name="payment") as two,
        ):
            assert one.identity != two.identity

    run(story)
    assert [record.message for record in caplog.records if "give each node its own name" in record.message]


def test_without_a_name_every_life_is_another_node_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(network: Network) -> None:
        async with network.node(capture=tmp_path) as one, network.node(capture=tmp_path) as two:
            assert one.identity != two.identity
        assert list(tmp_path.glob(".*.identity")) == []
        assert len(told()) == 2
        async with (
            network.node(capture=tmp_path, name="shop"),
            network.node(capture=tmp_path, identity=b"given"),
            network.node(),
        ):
            assert len(told()) == 2

    def told() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        return [line for line in lines if "give the node a name (name=...) or an identity" in line]

    run(story)


def test_who_waits_for_a_contract_in_vain_is_told_which_addresses_do_not_answer() -> None:
    async def story(network: Network) -> None:
        async with network.node(peers=["memory://nobody"]) as node:
            with pytest.raises(NoRoute, match=r"nobody handles Greet .*; no answer from memory://nobody"):
                await node.knows(Greet, timeout=1)

    run(story)


def test_a_symlink_in_place_of_the_file_is_refused_in_one_line(tmp_path: Path) -> None:
    async def story(network: Network) -> None:
        (tmp_path / ".payment.identity").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(SettingsError, match="cannot keep the identity"):
            network.node(capture=tmp_path, name="payment")

    run(story)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("kind", ["fifo", "symlink", "directory", "noise"])
def test_what_others_put_in_the_place_of_the_identity_is_refused_by_its_name(kind: str, tmp_path: Path) -> None:
    place, elsewhere = tmp_path / ".shop.identity", tmp_path / "elsewhere"
    elsewhere.write_bytes(b"kept")
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "symlink":
            place.symlink_to(elsewhere)
        case "directory":
            place.mkdir()
        case "noise":
            place.write_bytes(bytes(1000))
    with pytest.raises(SettingsError, match=re.escape(str(place))):
        Network().node(capture=tmp_path, name="shop")
    assert elsewhere.read_bytes() == b"kept"
