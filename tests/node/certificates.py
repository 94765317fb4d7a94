"""Certificates for tests: two networks, each with an authority of its own, valid for a hundred years."""

from __future__ import annotations

from pathlib import Path

from hopwire.node import Tls

HERE = Path(__file__).parent / "pem"


def tls_of(network: str, authority: str = "") -> Tls:
    """The certificate of a node of one network, which trusts its own authority or another."""
    return Tls(
        HERE / f"{network}-node.pem",
        HERE / f"{network}-node.key",
        HERE / f"{authority or network}-authority.pem",
        any_identity=True,
    )


OURS, THEIRS = tls_of("ours"), tls_of("theirs")
