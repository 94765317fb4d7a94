"""What a certificate says, as Python's ssl tells it."""

from __future__ import annotations

from typing import Any

import pytest

from hopwire.node.certificate import Certificate, certificate_from, names_of


def told(*uris: str, **more: Any) -> Certificate:
    return certificate_from({"subjectAltName": tuple(("URI", uri) for uri in uris), **more}, b"der")


@pytest.mark.parametrize("node", [b"payment-1", b"a b,c", b"\xff\0", "größe".encode(), b"%41"])
def test_any_identity_can_be_named(node: bytes) -> None:
    uris = [each.removeprefix("URI:") for each in names_of(node, ["orders", "a,b", "*"]).split(",")]
    found = told(*uris)
    assert found.node == node
    assert "whatever" in found.hosts
    assert told(*uris[:-1]).hosts == {"orders", "a,b"}


@pytest.mark.parametrize(
    "uris", [(), ("hopwire:node:",), ("hopwire:node:a", "hopwire:node:b"), ("https://a",), ("hopwire:domain:orders",)]
)
def test_who_names_no_node_or_several_is_nobody(uris: tuple[str, ...]) -> None:
    found = told(*uris)
    assert found.node is None
    assert found.is_of(b"anybody")
    assert "of nobody" in found.shown


def test_names_of_machines_do_not_matter() -> None:
    found = certificate_from({"subjectAltName": (("DNS", "hopwire:node:a"), ("URI", "hopwire:node:b"))}, b"der")
    assert found.node == b"b"
    assert not found.is_of(b"a")


def test_what_people_are_shown_has_no_escapes() -> None:
    assert "\x1b" not in told("hopwire:node:%1B]0;x").shown


def test_the_end_of_a_certificate_is_a_time() -> None:
    assert told("hopwire:node:a", notAfter="Jan  1 00:00:10 1970 GMT").not_after == 10
