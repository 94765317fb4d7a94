"""What members of a cluster tell each other about members: nine control messages.

| message | says | when |
|---|---|---|
| `Ping` | I watch you: are you there? | every period, to each monitored member; every second period over long links |
| `Ack` | I am | in answer |
| `Rumours` | records and accusations that are new to me | at once, to every neighbour but the one that told me |
| `Compare` | these are the hashes of my 256 buckets of members | when the digests of two neighbours differ |
| `Roster` | all my living members of some buckets, or some members to ask instead of me | in answer |
| `RoutesAsked` | I have these versions of the routes of these owners | when a record tells of a newer version |
| `RoutesGiven` | changes, or a page of all routes, of some owners | in answer, by whoever holds them |
| `Sought` | does anybody handle this contract? | when a message finds no route |
| `Found` | these owners do | in answer |

A record is written by its owner alone. Others pass it on as it is, and never change it. Of two records of one owner the
one with the larger (incarnation, sequence) holds. An incarnation is the time of a start. The sequence grows with every
change within a start: another address, other routes, other proofs, another status, or an answer to an accusation.

Where messages are signed, a record has a proof for each domain of its owner's routes (`security/host_proofs.py`).
Whoever has the key of the domain can judge the proof, whoever passed the record on. Others pass the proof on.

Where there is security, records and accusations are signed by who wrote them (`seals.py`).

An accusation names one record of its target. A record that is newer makes the accusation void. Nobody says that another
member is dead: every member draws its own conclusion from the accusations (`members.py`).

A ping and an ack carry what is new along, and the digest of all living members: two members with the same digest know
the same.

Every list has a limit here. What goes beyond makes the whole message void.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hopwire.cluster.announce import (
    LARGEST,
    NAME_BYTES,
    ROUTE_BYTES,
    URI_CHARACTERS,
    WORD_CHARACTERS,
    WORDS,
    AnnouncedRoute,
)
from hopwire.model import Payload

__all__ = [
    "BUCKETS",
    "CAPABILITY",
    "DOMAIN_CHARACTERS",
    "GOSSIP",
    "LEFT",
    "LIVING",
    "MOST_ACCUSED",
    "MOST_PROOFS",
    "MOST_RECORDS",
    "ROUTES_AT_A_TIME",
    "Accusation",
    "Ack",
    "Compare",
    "Found",
    "MemberRecord",
    "OwnedRoutes",
    "Ping",
    "Roster",
    "RoutesAsked",
    "RoutesGiven",
    "Rumours",
    "Sought",
    "beyond_limits",
]

CAPABILITY = "members"  # of a node that belongs to a cluster
BUCKETS = 256  # of a table of members: at 10,000 members, 40 in each
MOST_RECORDS = 400  # in one message: about 64 KB
MOST_ACCUSED = 100
MOST_WANTED = 64  # owners in one question for routes
ROUTES_AT_A_TIME = 1000  # in one answer: about 64 KB
RECORD_BYTES, WORD_BYTES, PROOF_BYTES = 900, 64, 160  # of a record, a word and a proof, beside what they say
MOST_PROOFS = 64  # in one record: domains that one node hosts
DOMAIN_CHARACTERS, HOST_PROOF_BYTES = 255, 288  # a proof has a key id of up to 255 bytes and 33 bytes more
ROUTES_HASH_BYTES = 16
KEY_BYTES, SIGNATURE_BYTES = 4096, 512  # a certificate has some hundred bytes; RSA of 4096 bits signs with 512
LIVING, LEFT = 0, 1  # the status of a record


class MemberRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a member says of itself."""

    node: bytes
    incarnation: int  # the time of its start, in nanoseconds
    sequence: int  # of what it said since then
    uri: str
    formats: tuple[int, ...] = (6,)
    capabilities: tuple[str, ...] = ()
    routes_version: int = 0
    routes_hash: bytes = b""  # of all its routes, to check what others hold of them
    status: int = LIVING
    proofs: tuple[tuple[str, bytes], ...] = ()  # of domains: that this process has a key of each
    key: bytes = b""  # of its owner: a certificate, or a public key
    signature: bytes = b""  # of all the above, by this key

    @property
    def age(self) -> tuple[int, int]:
        """What is larger in a newer record."""
        return self.incarnation, self.sequence

    @property
    def size_bytes(self) -> int:
        """About what the record takes in memory."""
        words = sum([WORD_BYTES + len(word) for word in self.capabilities])
        proofs = sum([PROOF_BYTES + len(domain) + len(proof) for domain, proof in self.proofs])
        own = len(self.node) + len(self.uri) + len(self.routes_hash) + len(self.key) + len(self.signature)
        return RECORD_BYTES + own + words + proofs


class Accusation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a member says of another: it does not answer me."""

    target: bytes
    incarnation: int  # and sequence, of the record that the accuser has
    sequence: int
    accuser: bytes
    is_gone: bool = False  # its connection died and was not opened again; else it is silent
    since: int = 0  # the incarnation of the accuser
    signature: bytes = b""  # of all the above, by the key of the accuser


class OwnedRoutes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Routes of one owner: what changed from version `base` to `version`, or from `offset` a page of all (`base` 0)."""

    owner: bytes
    incarnation: int
    base: int
    version: int
    added: tuple[AnnouncedRoute, ...] = ()
    removed: tuple[AnnouncedRoute, ...] = ()
    offset: int = 0
    total: int = 0  # of all routes, if these are a page of them


class Ping(Payload, identity="hopwire.member.ping", version=1):
    """A question for a sign of life."""

    node: bytes
    incarnation: int
    nonce: int
    digest: int
    records: tuple[MemberRecord, ...] = ()
    accused: tuple[Accusation, ...] = ()


class Ack(Payload, identity="hopwire.member.ack", version=1):
    """A sign of life."""

    node: bytes
    incarnation: int
    nonce: int
    digest: int
    records: tuple[MemberRecord, ...] = ()
    accused: tuple[Accusation, ...] = ()


class Rumours(Payload, identity="hopwire.member.rumours", version=1):
    """What is new."""

    node: bytes
    incarnation: int
    records: tuple[MemberRecord, ...] = ()
    accused: tuple[Accusation, ...] = ()


class Compare(Payload, identity="hopwire.member.compare", version=1):
    """The hash of each bucket of living members; no hashes stand for an empty table."""

    node: bytes
    incarnation: int
    buckets: tuple[int, ...] = ()


class Roster(Payload, identity="hopwire.member.roster", version=1):
    """All living members of some buckets; without buckets, members that may be asked instead."""

    node: bytes
    incarnation: int
    buckets: tuple[int, ...] = ()
    records: tuple[MemberRecord, ...] = ()
    is_more: bool = False  # other buckets differ too


class RoutesAsked(Payload, identity="hopwire.member.routes.asked", version=1):
    """A question for routes: owner, incarnation, version that is held, place to go on from, version that is wanted."""

    node: bytes
    incarnation: int
    wanted: tuple[tuple[bytes, int, int, int, int], ...] = ()


class RoutesGiven(Payload, identity="hopwire.member.routes.given", version=1):
    """Routes of some owners."""

    node: bytes
    incarnation: int
    given: tuple[OwnedRoutes, ...] = ()


class Sought(Payload, identity="hopwire.member.sought", version=1):
    """A question for whoever handles a contract."""

    node: bytes
    incarnation: int
    identity: bytes
    version: int
    partition: bytes


class Found(Payload, identity="hopwire.member.found", version=1):
    """The owners that handle a contract, as far as a member knows."""

    node: bytes
    incarnation: int
    identity: bytes
    version: int
    partition: bytes
    owners: tuple[bytes, ...] = ()


GOSSIP: tuple[type[Payload], ...] = (Ping, Ack, Rumours, Compare, Roster, RoutesAsked, RoutesGiven, Sought, Found)


def _is_number(value: int) -> bool:
    return 0 <= value < LARGEST


def _is_hash(value: int) -> bool:
    return 0 <= value < 2 * LARGEST


def _is_name(value: bytes) -> bool:
    return 1 <= len(value) <= NAME_BYTES


def _is_host_proof(value: tuple[str, bytes]) -> bool:
    domain, proof = value
    return len(domain) <= DOMAIN_CHARACTERS and len(proof) <= HOST_PROOF_BYTES


def _is_record(record: MemberRecord) -> bool:
    words = record.capabilities
    return (
        _is_name(record.node)
        and all(map(_is_number, (record.incarnation, record.sequence, record.routes_version)))
        and len(record.routes_hash) <= ROUTES_HASH_BYTES
        and len(record.uri) <= URI_CHARACTERS
        and len(record.formats) <= WORDS
        and len(words) <= WORDS
        and all(len(word) <= WORD_CHARACTERS for word in words)
        and record.status in (LIVING, LEFT)
        and len(record.proofs) <= MOST_PROOFS
        and all(map(_is_host_proof, record.proofs))
        and len(record.key) <= KEY_BYTES
        and len(record.signature) <= SIGNATURE_BYTES
    )


def _is_accusation(said: Accusation) -> bool:
    return (
        all(map(_is_name, (said.target, said.accuser)))
        and all(map(_is_number, (said.incarnation, said.sequence, said.since)))
        and len(said.signature) <= SIGNATURE_BYTES
    )


def _is_given(given: OwnedRoutes) -> bool:
    numbers = (given.incarnation, given.base, given.version, given.offset, given.total)
    is_short = len(given.added) + len(given.removed) <= 2 * ROUTES_AT_A_TIME
    return _is_name(given.owner) and all(map(_is_number, numbers)) and is_short


def _few(most: int, is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda values: len(values) <= most and all(map(is_right, values))


# fmt: off
LIMITS: dict[str, Callable[[Any], bool]] = {
    # field             is within its limit
    "node":             _is_name,
    "incarnation":      _is_number,
    "nonce":            _is_number,
    "digest":           _is_hash,
    "records":          _few(MOST_RECORDS, _is_record),
    "accused":          _few(MOST_ACCUSED, _is_accusation),
    "buckets":          _few(BUCKETS, _is_hash),
    "wanted":           _few(MOST_WANTED, lambda each: _is_name(each[0]) and all(map(_is_number, each[1:]))),
    "given":            _few(MOST_WANTED, _is_given),
    "identity":         lambda value: len(value) <= ROUTE_BYTES,
    "version":          _is_number,
    "partition":        lambda value: len(value) <= ROUTE_BYTES,
    "owners":           _few(MOST_WANTED, _is_name),
}
# fmt: on


def beyond_limits(said: Payload) -> str:
    """Give the first field of a message between members that is beyond its limit, or nothing.

    >>> beyond_limits(Compare(b"A", -1))
    'incarnation'
    """
    for name in said.__struct_fields__:
        is_within = LIMITS.get(name)
        if is_within is not None and not is_within(getattr(said, name)):
            return name
    return ""
