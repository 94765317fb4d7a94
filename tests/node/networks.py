"""Networks with keys: a folder as `hopwire keys` makes it, and nodes that use it."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hopwire.cli.authority import KeyFolder
from hopwire.node import Node, Tls

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="NOT INSTALLED: openssl, by which keys are made"
)


def key_folder(path: Path) -> KeyFolder:
    """Give an authority and two domains: that of the nodes, and that of a greeter."""
    shutil.copytree(_first(path.parent), path, dirs_exist_ok=True)
    return KeyFolder(path)


@cache
def _first(path: Path) -> Path:
    """Make them once for all tests."""
    folder = KeyFolder(path / "first-keys")
    folder.new_authority("tests", 10)
    folder.new_domain("network", ["hopwire.*"], "hopwire-2")
    folder.new_domain("greeting", ["greeter.*"], "hopwire-2")
    return folder.path


def member(folder: KeyFolder, name: str, hosts: tuple[str, ...] = (), asks: tuple[str, ...] = ()) -> Path:
    """Make the key and the certificate of a node, and give the folder with all it needs."""
    folder.new_node(name)
    folder.sign(name, hosts, asks, 10)
    return folder.path / "nodes" / name


def tls_in(place: Path, **more: Any) -> Tls:
    return Tls(place / "node.pem", place / "node.key", place / "authority.pem", revoked=place / "revoked.txt", **more)


def node_in(place: Path, *peers: Node, is_signed: bool = True, **more: Any) -> Node:
    """Make a node of such a folder."""
    options: dict[str, Any] = {"domains": place / "domains.toml"} if is_signed else {}
    return Node(**{"peers": [peer.uri for peer in peers], "tls": tls_in(place), **options, **more})
