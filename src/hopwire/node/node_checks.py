"""What a node is refused for before it begins: addresses, identity, domains and settings that could not work.

Each check raises a SettingsError of one line, which says what was found and what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hopwire.errors import SettingsError
from hopwire.node.actors import Supervision
from hopwire.node.addresses import check_uri
from hopwire.node.settings import NodeSettings
from hopwire.node.transport import Tls
from hopwire.node.trust import HELLO
from hopwire.security import Domains
from hopwire.wire.connection import MAX_NODE_BYTES

__all__ = ["check_domains", "check_doors", "check_node", "refuse_text", "supervision_from"]

MAX_IDENTITY_BYTES = MAX_NODE_BYTES  # those that begin with 0 are ZeroMQ's own


def supervision_from(found: Any) -> Supervision:
    """Give the supervision that a word stands for."""
    try:
        return Supervision(found)
    except ValueError:
        raise SettingsError(f"supervision must be one of {', '.join(Supervision)}, found {found!r:.80}") from None


def refuse_text(addresses: object, name: str = "peers") -> None:
    """Refuse a single text in the place of a list of addresses."""
    if isinstance(addresses, str | bytes):
        raise SettingsError(f"{name} is a list of addresses, found {addresses!r:.80}")


def check_doors(doors: Iterable[object], is_tcp: bool) -> None:
    """Refuse what is no address of a door."""
    for door in doors if is_tcp else ():
        name = door[6:] if isinstance(door, str) and door.startswith("dns://") else ""
        try:
            check_uri(f"tcp://{name}" if name else door, "a door")
        except SettingsError:
            text = f"the address of a door is like tcp://host:port or dns://name:port, found {door!r:.80}"
            raise SettingsError(text) from None


def check_node(
    identity: object, peers: Iterable[object], domains: object, settings: object, tls: object, is_tcp: bool
) -> None:
    """Refuse a node that could not run, or that nobody could talk to."""
    if not isinstance(identity, bytes) or not 1 <= len(identity) <= MAX_IDENTITY_BYTES or identity[:1] == b"\0":
        text = f"an identity is 1 to {MAX_IDENTITY_BYTES} bytes, the first of them not 0"
        raise SettingsError(f"{text}, found {identity!r:.80}")
    for uri in peers if is_tcp else ():
        check_uri(uri, "a peer")
    check_domains(domains)
    if not isinstance(settings, NodeSettings):
        raise SettingsError(f"settings must be NodeSettings, found {type(settings).__name__}")
    if tls is not None and not isinstance(tls, Tls):
        raise SettingsError(f"tls must be Tls(certificate=..., key=..., authority=...), found {type(tls).__name__}")


def check_domains(domains: object) -> None:
    """Refuse what are no domains, and domains that could not sign a word of the node itself."""
    if not isinstance(domains, Domains):
        what = "Domains, as hopwire.domains_file.domains_from_file gives them, or the path of their file"
        raise SettingsError(f"domains must be {what}, found {type(domains).__name__}")
    if domains.signing and domains.find(HELLO) is None:
        raise SettingsError("no domain owns hopwire.*, so this node could sign no message of its own: name it in one")
