"""Receivers, nodes and routes: what they are told by, and what is refused."""

from __future__ import annotations

import pytest

from hopwire.errors import SettingsError
from hopwire.routing import RemoteNode, is_actor, is_hub
from hopwire.routing.routes import keys_of
from tests.routing.network import BYE, GREET, actor, hub


def test_the_first_byte_tells_a_hub_from_an_actor() -> None:
    assert (is_hub(hub(1)), is_actor(hub(1))) == (True, False)
    assert (is_hub(actor(1)), is_actor(actor(1))) == (False, True)
    assert (is_hub(b""), is_actor(b"")) == (False, False)


def test_an_actor_is_reached_by_each_contract_once_and_a_hub_by_itself() -> None:
    assert keys_of(actor(1), [GREET, BYE, GREET]) == (GREET, BYE)
    assert keys_of(hub(1), []) == keys_of(hub(1), [GREET]) == (None,)


@pytest.mark.parametrize("receiver", [b"", b"\x02other", b"plain text"])
def test_a_receiver_that_is_neither_hub_nor_actor_is_refused(receiver: bytes) -> None:
    with pytest.raises(SettingsError, match=r"neither a hub .* nor an actor"):
        keys_of(receiver, [GREET])


def test_a_node_elsewhere_needs_an_identity() -> None:
    with pytest.raises(SettingsError, match="needs an identity"):
        RemoteNode(b"")
