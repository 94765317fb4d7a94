"""What a gateway is told of a partner, in a program and in a file."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from hopwire.errors import SettingsError
from hopwire.node import Node, Partner
from hopwire.node.partner import PartnersFile

FILE = """
[acme]
gateways = ["tcp://127.0.0.1:7500"]
export = ["orders.*"]
import = ["billing.*"]
listen = "tcp://127.0.0.1:0"
rate = 50
identity = "gw1"
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": ""}, "the name of a partner is 1 to 64 letters"),
        ({"name": "a/b"}, "the name of a partner is 1 to 64 letters"),
        ({"gateways": "tcp://x:1"}, "partner acme: gateways is a list of addresses"),
        ({"export": "orders"}, "partner acme: export is a list of domains or identities"),
        ({"import_": ["a*b"]}, "partner acme: import: a star may only stand at the end"),
        ({"rate": 0}, "partner acme: rate must be a number from 1, found 0"),
        ({"routes": True}, "partner acme: routes must be a number from 1, found True"),
        ({"tls": "file"}, "partner acme: tls must be Tls"),
        ({"domains": "/nowhere.toml"}, "cannot read the domains /nowhere.toml"),
    ],
)
def test_partner_that_makes_no_sense_is_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        Partner(**{"name": "acme", **given})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Partner("a"), "partners is a list"),
        ([1], "partners is a list of Partner"),
        ([Partner("a"), Partner("a")], "two partners have one name: a"),
        ([Partner("a", ["http://x"])], "partner a: the address of a peer is like tcp://host:port"),
        ([Partner("a", identity=b"x" * 300)], "partner a: an identity is 1 to"),
        ("/nowhere.toml", "cannot read the partners /nowhere.toml"),
    ],
)
def test_partners_that_a_node_could_not_have_are_refused(given: Any, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        Node(partners=given)


def test_file_says_the_same_as_a_program(tmp_path: Path) -> None:
    path = tmp_path / "partners.toml"
    path.write_text(FILE)
    [partner] = PartnersFile(path).partners
    same = Partner(
        "acme", ["tcp://127.0.0.1:7500"], export=["orders.*"], import_=["billing.*"], rate=50, identity=b"gw1"
    )
    assert partner == same


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", "expected a table for each partner, found x = 1"),
        ("[acme]\nexprot = []", "partner acme: unknown setting 'exprot', expected one of"),
        ("[acme]\ntls_key = 'x'", "partner acme: TLS needs tls_certificate"),
        ("[acme", "is not TOML"),
        ("[acme]\nexport = 5", "partner acme: export is a list of domains or identities, found 5"),
    ],
)
def test_mistake_in_a_file_is_one_line_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "partners.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=expected) as caught:
        PartnersFile(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_lists_of_a_file_that_changes_count_at_once(tmp_path: Path) -> None:
    path = tmp_path / "partners.toml"
    path.write_text(FILE.replace('"tcp://127.0.0.1:7500"', ""))

    async def story() -> None:
        async with Node(identity=b"g", partners=path) as node:
            exports = node._gateways["acme"][0].exports
            assert exports.allows(b"orders.place")
            write(path, FILE.replace("orders.*", "quotes.*"), 1)
            node.reload()
            assert (exports.allows(b"orders.place"), exports.allows(b"quotes.ask")) == (False, True)
            write(path, FILE.replace("orders.*", "or*"[:2] + "*ders"), 2)
            with pytest.raises(SettingsError, match="a star may only stand at the end"):
                node.reload()
            assert exports.allows(b"quotes.ask")
            write(path, "", 3)
            node.reload()
            assert not exports.allows(b"quotes.ask")

    asyncio.run(story())


def write(path: Path, text: str, seconds: int) -> None:
    """Write a file whose time of change is another than before, however coarse the clock of the disk is."""
    path.write_text(text)
    stat = path.stat()
    os.utime(path, (stat.st_atime, stat.st_mtime + seconds))


def test_node_whose_border_finds_its_address_taken_is_not_left_running() -> None:
    async def story() -> None:
        async with Node() as other:
            node = Node(partners=[Partner("acme", listen=other.uri)])
            with pytest.raises(SettingsError, match=r"partner acme: cannot listen on .* in use"):
                await node.start()
            await node.wait_closed()

    asyncio.run(story())
