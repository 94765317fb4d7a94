"""Domains and signatures of the messages of a chunk: right signatures, and signatures that a fault makes wrong.

Only signatures are made message by message. They are the costliest part of a chunk. The schemes are `legacy` and
`hopwire-1`, where a message is signed once for its whole way. With `hopwire-2` every hop would sign anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hopwire.model import CallbackPoint, Message
from hopwire.security import Domain
from hopwire.security.schemes import NONCE_BYTES, SCHEMES, Stamp, mac, signed_bytes, stamp_bytes
from hopwire.simulate.plan import Plan
from hopwire.simulate.shapes import Change, Says
from hopwire.simulate.world import FAMILIES, SimulatedWorld

__all__ = ["UNSIGNED_FORMAT", "domains_and_signatures", "is_signed"]

UNSIGNED_FORMAT = 3  # V3 has no place for a signature
FOREIGN_DOMAIN, FOREIGN_KEY, FOREIGN_SECRET = "archive", "2019-z", b"a secret of somebody else"
SYSTEM_DOMAINS = {Says.EXCEPTION: "kino", Says.CONFIRMED: "kino"}
OWN_DOMAIN = "hopwire"
COLUMNS = (
    "identity",
    "version",
    "version_raw",
    "partition",
    "body_frames",
    "correlation_id",
    "receiver_identity",
    "receiver_node_identity",
    "callback_points",
    "callback_key",
    "callback_receiver_identity",
    "callback_receiver_node_identity",
    "trace_options",
    "distribution",
)


def is_signed(plan: Plan) -> Any:
    """Tell which messages have a signature."""
    flow = plan.messages["flow"]
    has_domain = np.array([bool(family.domain) for family in FAMILIES])[plan.flows["family"][flow]]
    return has_domain & (plan.messages["says"] <= Says.EVENT) & (plan.flows["format"][flow] != UNSIGNED_FORMAT)


def domains_and_signatures(
    world: SimulatedWorld, plan: Plan, columns: dict[str, Any], chance: np.random.Generator
) -> tuple[pa.Array, pa.Array]:
    """Give the names of the domains and the signatures."""
    names = _domain_names(world, plan)
    count = len(names)
    signatures: list[bytes] = [b""] * count
    nonces = chance.bytes(NONCE_BYTES * count)
    rows = np.flatnonzero(is_signed(plan) & (plan.messages["base"] < 0))
    signer = _Signer(world, plan, names)
    table = pa.table({name: columns[name] for name in COLUMNS}).take(pa.array(rows))
    for row, message in zip(rows.tolist(), _messages(table), strict=True):
        signatures[row] = signer.sign(row, message, nonces[row * NONCE_BYTES : (row + 1) * NONCE_BYTES])
    for row in np.flatnonzero(plan.messages["base"] >= 0).tolist():
        signature = signatures[plan.messages["base"][row]]
        is_flipped = plan.messages["change"][row] == Change.SIGNATURE
        signatures[row] = signature[:-1] + bytes((signature[-1] ^ 1,)) if is_flipped else signature
    return pa.array(names, pa.string()), pa.array(signatures, pa.binary())


def _domain_names(world: SimulatedWorld, plan: Plan) -> list[str]:
    messages = plan.messages
    flow = messages["flow"]
    family, says = plan.flows["family"][flow], messages["says"]
    domains = [each.domain for each in FAMILIES]
    others = [*domains[1:-1], domains[0], ""]  # the domain of another family
    legacy = np.array([each.scheme == "legacy" for each in FAMILIES])[family]
    table = ["", *domains, *others, OWN_DOMAIN, "kino", FOREIGN_DOMAIN]
    index = 1 + family + len(domains) * (messages["change"] == Change.NOT_IN_DOMAIN)
    index = np.where((messages["change"] == Change.UNKNOWN_KEY) & legacy, len(table) - 1, index)
    system = np.where(np.isin(says, list(SYSTEM_DOMAINS)), len(table) - 2, len(table) - 3)
    index = np.where(says > Says.EVENT, system, index)
    index = np.where(plan.flows["format"][flow] == UNSIGNED_FORMAT, 0, index)
    return [table[number] for number in index.tolist()]


def _messages(table: pa.Table) -> list[Message]:
    """Give the rows as messages, with the fields that a signature covers."""
    values = [table.column(name).to_pylist() for name in COLUMNS]
    return [_message(row) for row in zip(*values, strict=True)]


def _message(row: tuple[Any, ...]) -> Message:
    identity, number, raw, partition, body, correlation, receiver, node, points, key, back, back_node, trace, way = row
    return Message(
        identity,
        raw if number is None else number,
        partition,
        tuple(body),
        correlation,
        receiver,
        node,
        tuple(CallbackPoint(p["identity"], _version(p), p["partition"]) for p in points),
        key,
        back,
        back_node,
        trace_options=trace,
        distribution=way,
    )


def _version(point: dict[str, Any]) -> int | bytes:
    version: int | bytes = point["version_raw"] if point["version"] is None else point["version"]
    return version


class _Signer:
    """Signs with the key that is valid at the time, or as wrongly as the fault says."""

    def __init__(self, world: SimulatedWorld, plan: Plan, names: list[str]) -> None:
        self.world, self.names, self.messages = world, names, plan.messages
        self.domains = {domain.name: domain for domain in world.domains.domains}
        self.family_domains = [self.domains.get(family.domain) for family in FAMILIES]
        self.families = plan.flows["family"][plan.messages["flow"]].tolist()
        self.change = plan.messages["change"].tolist()
        self.sent_at: list[int] = plan.messages["sent_at"].tolist()
        self.ttl: list[int] = plan.messages["ttl"].tolist()

    def sign(self, row: int, message: Message, nonce: bytes) -> bytes:
        name, change = self.names[row], self.change[row]
        domain = self.domains.get(name) or self.family_domains[self.families[row]]
        assert domain is not None
        key = self._key(domain, self.sent_at[row])
        key_id = FOREIGN_KEY if change == Change.UNKNOWN_KEY else key.id
        secret = FOREIGN_SECRET if change == Change.WRONG_KEY else key.secret
        written = b""
        if SCHEMES[domain.scheme].has_stamp:
            written = stamp_bytes(Stamp(key_id, self.sent_at[row], self.ttl[row], nonce), domain.scheme)
        return written + mac(
            secret, domain.algorithm, signed_bytes(message.replace(domain=name), domain.scheme, written)
        )

    def _key(self, domain: Domain, at_ns: int) -> Any:
        """The newest key from the rotation on, the oldest key before."""
        return domain.keys[0 if at_ns >= self.world.rotation_ns else -1]
