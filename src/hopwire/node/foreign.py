"""A foreign peer: a program that speaks ZeroMQ and one of the four wire formats, and is no node.

    Node(foreign=[Foreign(identity=b"legacy-1", uri="tcp://10.0.0.7:7000", format="V5", handles=[Greet])])

Such a program says no hello and announces no routes. So whoever dials the program says here what a node would have
said: who lives there, which format is read there, and what is handled there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hopwire.errors import HopwireError, SettingsError
from hopwire.model import Contract, Payload, contract_of
from hopwire.node.addresses import check_uri
from hopwire.node.spawn import words_of
from hopwire.wire import FORMATS, VERSIONS, WireFormat
from hopwire.wire.connection import MAX_NODE_BYTES

__all__ = ["Foreign", "foreign_from"]

BY_NAME = {fmt.name: fmt for fmt in FORMATS}


@dataclass(frozen=True, slots=True)
class Foreign:
    """A program that is no node and that a node dials: who it is, where it listens, how it reads, what it handles."""

    identity: bytes
    uri: str
    format: str
    handles: Iterable[type[Payload]] = ()

    def __post_init__(self) -> None:
        named = isinstance(self.identity, bytes) and 1 <= len(self.identity) <= MAX_NODE_BYTES
        if not named or self.identity[:1] == b"\0":
            text = f"the identity of a foreign peer is 1 to {MAX_NODE_BYTES} bytes, the first of them not 0"
            raise SettingsError(f"{text}, found {self.identity!r:.80}")
        check_uri(self.uri, "a foreign peer")
        if not isinstance(self.format, str) or self.format not in BY_NAME:
            known = ", ".join(sorted(BY_NAME))
            raise SettingsError(f"the format of a foreign peer is one of {known}, found {self.format!r:.80}")
        if isinstance(self.handles, str | bytes | type) or not isinstance(self.handles, Iterable):
            raise SettingsError(f"handles is a list of payload classes, found {self.handles!r:.80}")
        object.__setattr__(self, "handles", tuple(self.handles))
        for contract in self.contracts:
            if not self.wire_format.version_type.is_number and contract.version not in VERSIONS.values():
                raise SettingsError(f"{self.format} spells no version but 1, found {words_of(contract)}")

    @property
    def wire_format(self) -> WireFormat:
        """The format that is read there."""
        return BY_NAME[self.format]

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """What is handled there."""
        return tuple([_contract(each) for each in self.handles])


def _contract(handled: object) -> Contract:
    if not isinstance(handled, type) or not issubclass(handled, Payload):
        raise SettingsError(f"handles is a list of payload classes, found {handled!r:.80} in it")
    try:
        return contract_of(handled)
    except HopwireError as error:
        raise SettingsError(f"handles is a list of payload classes: {error}") from None


def foreign_from(
    given: object, identity: bytes, listen: str, peers: Iterable[str], has_tls: bool
) -> tuple[Foreign, ...]:
    """Give the foreign peers of a node, or refuse those that the node could not talk to."""
    if isinstance(given, str | bytes | Foreign) or not isinstance(given, Iterable):
        raise SettingsError(f"foreign is a list of Foreign(...), found {given!r:.80}")
    foreign: list[Foreign] = []
    for each in given:
        if not isinstance(each, Foreign):
            raise SettingsError(f"foreign is a list of Foreign(...), found {each!r:.80} in it")
        if each.identity == identity:
            raise SettingsError(f"a foreign peer has the identity of this node: {identity!r:.80}")
        if each.uri == listen or each.uri in peers:
            whose = "this node" if each.uri == listen else "a peer"
            raise SettingsError(f"{each.uri} is the address of {whose}, and cannot be that of a foreign peer")
        foreign.append(each)
    for what, found in (("identity", [each.identity for each in foreign]), ("address", [each.uri for each in foreign])):
        for value, count in Counter[bytes | str](found).items():
            if count > 1:
                raise SettingsError(f"two foreign peers have one {what}: {value!r:.80}")
    if foreign and has_tls:
        raise SettingsError(f"a foreign peer speaks no TLS, and this node speaks nothing else: {foreign[0].uri}")
    return tuple(foreign)
