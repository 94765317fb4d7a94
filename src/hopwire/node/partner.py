"""A partner network, as a gateway is told of it: where the gateways of the partner are, and what may cross.

    Node(join=[...], partners=[Partner("acme", ["tcp://gw1.acme:7500", "tcp://gw2.acme:7500"],
                                       listen="tcp://0.0.0.0:7500", export=["orders.*"], import_=["billing.*"])])

Everything about the link is said here, and nothing of it is shared with the gateway's own network: address, identity,
certificate, domains. `export` and `import_` are lists of domains of the link, or of patterns of identities.

A file in TOML says the same, with a table for each partner; `import_` is called `import` there, and paths count from
the file. The lists of such a file may change at any time.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hopwire.disk import file_stamp, read_named_text
from hopwire.domains_file import domains_from_file
from hopwire.errors import SettingsError
from hopwire.model.units import MEBIBYTE
from hopwire.node.transport import Tls, Transport
from hopwire.security import OPEN, Domains
from hopwire.security.allow_lists import AllowList

__all__ = ["Partner", "PartnersFile", "partners_from"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
TLS = ("tls_certificate", "tls_key", "tls_authority", "tls_allowed", "tls_revoked")
LISTS = {"gateways": "addresses", "export": "domains or identities", "import_": "domains or identities"}
NUMBERS = ("routes", "messages", "size_bytes", "rate", "questions")


@dataclass(frozen=True, slots=True)
class Partner:
    """A network of somebody else, and what a gateway lets cross to it and from it."""

    name: str  # what this network calls the other
    gateways: Iterable[str] = ()  # addresses of theirs; none if they dial us
    export: Iterable[str] = ()  # what they may use of us
    import_: Iterable[str] = ()  # what we use of theirs
    listen: str = "tcp://127.0.0.1:0"  # where their gateways reach this one
    advertise: str = ""  # what they are told, where that differs
    identity: bytes | None = None  # what they know this gateway by; else its own identity, `@` and the name
    domains: Domains | str | Path = OPEN  # of the link alone
    tls: Tls | None = None  # of the link alone, with an authority of its own
    insecure: bool = False  # let everybody dial who can reach the address
    routes: int = 10_000  # contracts that cross in one direction, and that each of their gateways may announce
    messages: int = 10_000  # of theirs that wait here
    size_bytes: int = 64 * MEBIBYTE  # of theirs that wait here
    rate: int = 10_000  # messages of theirs in a second; what is more waits
    questions: int = 10_000  # that are open in one direction
    transport: Transport | None = None  # in place of TCP, for tests

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            text = "the name of a partner is 1 to 64 letters, digits, dots and dashes"
            raise SettingsError(f"{text}, found {self.name!r:.80}")
        for name, what in LISTS.items():
            value = getattr(self, name)
            if isinstance(value, str | bytes) or not isinstance(value, Iterable):
                raise SettingsError(f"partner {self.name}: {name.rstrip('_')} is a list of {what}, found {value!r:.80}")
            object.__setattr__(self, name, tuple(value))
        for name in NUMBERS:
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise SettingsError(f"partner {self.name}: {name} must be a number from 1, found {value!r:.80}")
        if self.tls is not None and not isinstance(self.tls, Tls):
            raise SettingsError(f"partner {self.name}: tls must be Tls(...), found {type(self.tls).__name__}")
        self.lists()

    def lists(self) -> tuple[AllowList, AllowList]:
        """Give what may be exported, and what may be imported."""
        return self.list_of("export", self.export), self.list_of("import", self.import_)

    def list_of(self, what: str, entries: Iterable[str]) -> AllowList:
        """Give a list of entries that name domains of the link, or identities."""
        domains = self.domains if isinstance(self.domains, Domains) else domains_from_file(self.domains)
        return AllowList(entries, domains, f"partner {self.name}: {what}")


def partners_from(given: object) -> tuple[Partner, ...]:
    """Give the partners of a node, or refuse those that it could not tell apart."""
    if isinstance(given, Partner | bytes) or not isinstance(given, Iterable):
        raise SettingsError(f"partners is a list of Partner(...), or the path of their file, found {given!r:.80}")
    partners: list[Partner] = []
    for each in given:
        if not isinstance(each, Partner):
            raise SettingsError(f"partners is a list of Partner(...), found {each!r:.80} in it")
        partners.append(each)
    for name, count in Counter(each.name for each in partners).items():
        if count > 1:
            raise SettingsError(f"two partners have one name: {name}")
    return tuple(partners)


class PartnersFile:
    """Partners from a file, which is read again when it has changed."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._stamp = file_stamp(self._path)
        self.partners = _from_file(self._path)

    def look(self) -> bool:
        """Read the partners anew if the file has changed, and tell whether they were; a SettingsError says why not."""
        stamp = file_stamp(self._path)
        if stamp == self._stamp:
            return False
        self.partners, self._stamp = _from_file(self._path), stamp
        return True


def _from_file(path: Path) -> tuple[Partner, ...]:
    try:
        tables = tomllib.loads(read_named_text(path))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from None
    except RecursionError:
        raise SettingsError(f"{path}: is not TOML that can be read: it is nested too deep") from None
    except OSError as error:
        raise SettingsError(f"cannot read the partners {path}: {error.strerror or error}") from None
    try:
        return partners_from([_from_table(name, table, path.parent) for name, table in tables.items()])
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None


def _from_table(name: str, table: Any, folder: Path) -> Partner:
    if not isinstance(table, dict):
        raise SettingsError(f"expected a table for each partner, found {name} = {table!r:.80}")
    known = {field.name for field in fields(Partner)} - {"name", "tls", "transport", "import_"} | {"import", *TLS}
    for key in table:
        if key not in known:
            raise SettingsError(
                f"partner {name}: unknown setting {key!r:.80}, expected one of {', '.join(sorted(known))}"
            )
    given = {key: value for key, value in table.items() if key not in TLS}
    given["import_"] = given.pop("import", ())
    if "identity" in given:
        given["identity"] = str(given["identity"]).encode()
    if "domains" in given:
        given["domains"] = folder / str(given["domains"])
    files: dict[str, Any] = {key.removeprefix("tls_"): folder / str(table[key]) for key in TLS if key in table}
    if files:
        missing = [key for key in TLS[:3] if key not in table]
        if missing:
            raise SettingsError(f"partner {name}: TLS needs {', '.join(TLS[:3])}; {', '.join(missing)} is not given")
        given["tls"] = Tls(**files)
    return Partner(name, **given)
