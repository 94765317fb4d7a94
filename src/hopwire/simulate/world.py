"""The simulated world: nodes, contracts, domains, and the times of all events. Everything follows from the settings.

A minute of simulated time (seconds from its begin):

| from | to | what happens |
|---|---|---|
| 0 | 0.4 | in the first minute every node sends a message, which shows that the node captures |
| 6 | 20.5 | flows begin, long after every node was seen for the first time; the slowest flow ends before 30 |
| 32 | 32.5 | in some minutes one node, which is going to crash, sends its last message that is captured |
| 32.5 | 34 | flows of the fault `unwritten` begin from 32.5 to 33; the crashing node writes none of their sightings |
| 34 | 38 | the node is gone; flows of the fault `crash` begin from 35 to 36.5, too late for the node to see them |
| 38 | 38.5 | the node begins its next life, and sends a message |
| 44 | 50 | in some minutes one node skips its sightings; flows of the fault `skipped` begin from 44.5 to 46 |
| 50 | 50.5 | the node that skipped sends a message, so that the end of its gap is known |

So no event of one chunk reaches into the next chunk, and a fault that concerns a node meets only flows of that fault.

Keys are rotated half-way through the simulation. Both keys are valid from one minute before to one minute after the
rotation, so that clocks that differ by 2 s do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from hopwire.model.names import HUB, guid_from_bytes
from hopwire.model.units import NS_PER_SECOND
from hopwire.security import Domain, Domains, Key
from hopwire.simulate.settings import SimulateSettings

__all__ = [
    "CHUNKS",
    "CLOSING_GAP_NS",
    "FAMILIES",
    "PARTITIONS",
    "SKIPPING",
    "Family",
    "SimulatedNode",
    "SimulatedWorld",
    "generator",
]

BEGIN = datetime(2026, 1, 5, 8, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * NS_PER_SECOND
CHUNK_NS = 60 * NS_PER_SECOND
CLOSING_GAP_NS = 120 * NS_PER_SECOND  # longer than anybody waits for an answer
ROTATION_SECONDS = 60  # so long before and after the rotation both keys are valid
MAX_SKEW_NS = 2 * NS_PER_SECOND
CRASH_AT_NS = 35 * NS_PER_SECOND  # later sightings of the node belong to its next life
SKIPPING = (44 * NS_PER_SECOND, 50 * NS_PER_SECOND)

PARTITIONS = (b"", b"EU-WEST", b"US-EAST")
WORLD, CHUNKS = 1, 2  # purposes of a generator


class Family(NamedTuple):
    """The contracts of one subject; contracts without a domain are not signed."""

    domain: str
    identities: tuple[bytes, ...]  # request, onward, further, reply, event
    scheme: str = ""
    algorithm: str = ""
    has_rotation: bool = False
    has_versions: bool = False  # whether there is a version 2, in formats whose versions are numbers


def _identities(*names: str) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in names)


# fmt: off
FAMILIES = (
    Family("orders",  _identities("orders.create", "orders.check", "orders.book", "orders.created", "orders.changed"),
           "hopwire-1", "sha256", True),
    Family("stock",   _identities("stock.reserve", "stock.find", "stock.pick", "stock.reserved", "stock.moved"),
           "legacy", "md5"),
    Family("billing", _identities("billing.charge", "billing.rate", "billing.post", "billing.charged", "billing.paid"),
           "legacy", "sha256", True, True),
    Family("",        _identities("weather.ask", "weather.look", "weather.sum", "weather.report", "weather.alarm")),
)
# fmt: on
UNSIGNED_DOMAINS = {"hopwire": "hopwire.*", "kino": "KINO.*"}
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """One node; a dark node captures nothing."""

    name: str
    identity: bytes
    hub: bytes
    uri: str
    offset_ns: int  # of its clock: the time of the clock minus the true time
    is_dark: bool = False


def generator(settings: SimulateSettings, purpose: int, number: int = 0) -> np.random.Generator:
    """Give the random generator of one chunk, or of the world."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((settings.seed, purpose, number))))


@dataclass(frozen=True)
class SimulatedWorld:
    """Everything that the chunks have in common."""

    settings: SimulateSettings

    @cached_property
    def nodes(self) -> tuple[SimulatedNode, ...]:
        """The nodes that capture, and a dark node at the end."""
        chance = generator(self.settings, WORLD)
        share = self.settings.rate("clock_skew")
        return tuple(_node(chance, number, share, self.settings.nodes) for number in range(self.settings.nodes + 1))

    @property
    def dark(self) -> int:
        """The number of the node that captures nothing."""
        return self.settings.nodes

    @cached_property
    def domains(self) -> Domains:
        """The domains with their keys."""
        chance = generator(self.settings, WORLD, 1)
        change = self.rotation_ns
        signed = [_domain(family, chance, change) for family in FAMILIES if family.domain]
        unsigned = [Domain(name, (), [pattern], unsigned=["*"]) for name, pattern in UNSIGNED_DOMAINS.items()]
        return Domains([*signed, *unsigned])

    @cached_property
    def rotation_ns(self) -> int:
        """When the new keys begin to sign."""
        return BEGIN_NS + self.settings.chunk_count * CHUNK_NS // 2

    @cached_property
    def crashed(self) -> tuple[int, ...]:
        """The node that crashes in each chunk; -1 stands for none."""
        return self._chosen(2, "crash", "unwritten")

    @cached_property
    def skipping(self) -> tuple[int, ...]:
        """The node that skips sightings in each chunk; -1 stands for none."""
        return self._chosen(3, "skipped")

    def _chosen(self, purpose: int, *faults: str) -> tuple[int, ...]:
        rate, count = max(map(self.settings.rate, faults)), self.settings.chunk_count
        chance = generator(self.settings, WORLD, purpose)
        nodes = chance.integers(0, self.settings.nodes, count)
        is_on = chance.random(count) < rate
        is_on[0] = rate > 0
        return (*np.where(is_on, nodes, -1).tolist(), -1)

    def incarnation(self, node: int, chunk: int) -> int:
        """The incarnation of a node at the begin of a chunk."""
        return 1 + self.crashed[:chunk].count(node)

    def begin_ns(self, chunk: int) -> int:
        """When a chunk begins, in true time."""
        gap = CLOSING_GAP_NS if chunk == self.settings.closing else 0
        return BEGIN_NS + chunk * CHUNK_NS + gap

    def crash_ns(self, chunk: int) -> int:
        """The moment between two incarnations of the node that crashes in a chunk."""
        return self.begin_ns(chunk) + CRASH_AT_NS

    def domains_toml(self) -> str:
        """Give the domains as the text of a file of settings."""
        return "\n".join(_domain_toml(domain) for domain in self.domains.domains)


def _node(chance: np.random.Generator, number: int, share: float, dark: int) -> SimulatedNode:
    identity, hub = guid_from_bytes(chance.bytes(16)), HUB + guid_from_bytes(chance.bytes(16))
    offset = int(chance.integers(-MAX_SKEW_NS, MAX_SKEW_NS)) if chance.random() < share else 0
    name = "dark" if number == dark else f"node-{number + 1}"
    return SimulatedNode(
        name, identity, hub, f"tcp://10.0.{number // 200}.{number % 200 + 11}:7400", offset, number == dark
    )


def _domain(family: Family, chance: np.random.Generator, change_ns: int) -> Domain:
    old, new = chance.bytes(SECRET_BYTES), chance.bytes(SECRET_BYTES)
    margin = ROTATION_SECONDS * NS_PER_SECOND
    keys = [Key("2026-a", old)]
    if family.has_rotation:
        keys = [Key("2026-b", new, change_ns - margin, None), Key("2026-a", old, None, change_ns + margin)]
    prefix = family.identities[0].decode().partition(".")[0]
    return Domain(family.domain, keys, [f"{prefix}.*"], family.scheme, family.algorithm)


def _domain_toml(domain: Domain) -> str:
    lines = [
        f"[domains.{domain.name}]",
        f"identities = {_texts(domain.identities)}",
        f'scheme = "{domain.scheme}"',
        f'algorithm = "{domain.algorithm}"',
        f"unsigned = {_texts(domain.unsigned)}",
    ]
    for key in domain.keys:
        lines += ["", f"[[domains.{domain.name}.keys]]", f'id = "{key.id}"', f'secret_hex = "{key.secret.hex()}"']
        bounds: dict[str, int | None] = {"not_before": key.not_before_ns, "not_after": key.not_after_ns}
        lines += [f"{name} = {_time(at_ns)}" for name, at_ns in bounds.items() if at_ns is not None]
    return "\n".join(lines) + "\n"


def _texts(patterns: tuple[bytes, ...]) -> str:
    return "[" + ", ".join(f'"{pattern.decode()}"' for pattern in patterns) + "]"


def _time(at_ns: int) -> Any:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_ns // NS_PER_SECOND)).strftime("%Y-%m-%dT%H:%M:%SZ")
