"""Seals: what proves that a record or an accusation was written by the member that it names.

Records and accusations come through others. Where there is security, their owner signs them, and whoever hears them
judges them before they count. How is a matter of the node (`node/owner_seals.py`); here is only what is signed, and
what the verdicts are.

| verdict | what it says | what happens |
|---|---|---|
| `GENUINE` | its owner has written it | it counts |
| `FORGED` | the signature is wrong | the rest of the message is not read: honest members pass on nothing forged |
| `UNKNOWN` | the key does not count here, or not any more | the record is left out: others may know more, or less |
| `CLAIMED` | another key than that of the member that lives under this name | the claim waits until that one is gone |

What is signed is the whole record but its signature, behind a label. So nobody can put an old address, other routes, a
goodbye or a proof into the record of another. An old record does no harm: the larger (incarnation, sequence) holds.

    B has the record of A with sequence 4. M repeats sequence 3: older, not even judged. M writes 5: the signature is
    wrong. M takes the signature of 4 for 5: the sequence is signed.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

import msgspec
from msgspec.structs import replace

from hopwire.cluster.announce import Hello
from hopwire.cluster.gossip import Accusation, MemberRecord

__all__ = [
    "CLAIMED",
    "FORGED",
    "GENUINE",
    "UNKNOWN",
    "UNSEALED",
    "Seals",
    "signed_accusation",
    "signed_hello",
    "signed_record",
]

GENUINE, FORGED, UNKNOWN, CLAIMED = "genuine", "forged", "unknown", "claimed"


class Seals(Protocol):
    """Signs what this member writes, and judges what others have written."""

    def sign(self, record: MemberRecord) -> MemberRecord:
        """Give a record of this member with its key and its signature."""

    def accuse(self, said: Accusation) -> Accusation:
        """Give an accusation of this member with its signature."""

    def judge(self, record: MemberRecord, known: MemberRecord | None) -> str:
        """Judge a record; `known` is the record of the member that lives under this name, if there is one."""

    def is_accused(self, said: Accusation, accuser: MemberRecord | None) -> bool:
        """Tell whether an accusation was written by the member that it names as accuser."""

    def seal(self, said: Hello, to: bytes) -> Hello:
        """Seal a hello for one process."""

    def is_sealed(self, said: Hello, key: bytes, here: bytes) -> bool:
        """Tell whether a hello was said by the owner of a key, to this node."""

    def hosts_of(self, record: MemberRecord) -> Container[str] | None:
        """Give the domains that a member may host by its certificate; None where there are no certificates."""

    def counts(self, record: MemberRecord) -> bool:
        """Tell whether the certificate of a member counts here now, as far as there are certificates."""

    @property
    def changes(self) -> int:
        """How often the files have changed that say which certificates count."""

    def look(self) -> bool:
        """Look at files that may have changed; tell whether this node signs with another key than before."""


class _Unsealed:
    """A network without keys: nothing is signed, and everything counts."""

    def sign(self, record: MemberRecord) -> MemberRecord:
        return record

    def accuse(self, said: Accusation) -> Accusation:
        return said

    def judge(self, record: MemberRecord, known: MemberRecord | None) -> str:
        return GENUINE

    def is_accused(self, said: Accusation, accuser: MemberRecord | None) -> bool:
        return True

    def seal(self, said: Hello, to: bytes) -> Hello:
        return said

    def is_sealed(self, said: Hello, key: bytes, here: bytes) -> bool:
        return True

    def hosts_of(self, record: MemberRecord) -> Container[str] | None:
        return None

    def counts(self, record: MemberRecord) -> bool:
        return True

    @property
    def changes(self) -> int:
        return 0

    def look(self) -> bool:
        return False


UNSEALED: Seals = _Unsealed()


def signed_record(record: MemberRecord) -> bytes:
    """Give what the owner of a record signs."""
    return msgspec.msgpack.encode(("hopwire record", replace(record, signature=b"")))


def signed_accusation(said: Accusation) -> bytes:
    """Give what an accuser signs."""
    return msgspec.msgpack.encode(("hopwire accusation", replace(said, signature=b"")))


def signed_hello(said: Hello, to: bytes) -> bytes:
    """Give what a member signs that says hello to another: `heard` is the start of that one."""
    return msgspec.msgpack.encode(("hopwire hello", said.node, said.incarnation, said.uri, to, said.heard))
