"""`hopwire keys`: authorities, certificates of nodes and keys of domains in a folder; no secret is printed unasked."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from hopwire.cli.authority import NODE_SETTINGS, Issued, KeyFolder
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.disk import read_regular
from hopwire.errors import SettingsError
from hopwire.report.words import plural, printable
from hopwire.security.schemes import DEFAULT_SCHEME

__all__ = ["COMMANDS", "list_keys", "new", "revoke", "show", "sign", "use"]

AUTHORITY_DAYS, NODE_DAYS = 3650, 365
MAX_KEY_BYTES = 1024 * 1024


class KeyKind(StrEnum):
    """What keys there are."""

    AUTHORITY = "authority"
    NODE = "node"
    DOMAIN = "domain"


Folder = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder of the keys of a network.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


def new(
    kind: Annotated[KeyKind, typer.Argument(help="What to make.")],
    name: Annotated[str, typer.Argument(help="Its name; that of a node is its identity.")],
    directory: Folder = Path("keys"),
    identity: Annotated[
        list[str] | None, typer.Option("--identity", help="What a domain owns, such as 'orders.*'; may be repeated.")
    ] = None,
    scheme: Annotated[str, typer.Option(help="How a domain signs.")] = DEFAULT_SCHEME,
    days: Annotated[int, typer.Option(min=1, max=36_500, help="How long an authority is valid.")] = AUTHORITY_DAYS,
    as_json: AsJson = False,
) -> None:
    """Make an authority, the key of a node, or a domain with its key. Of a domain that is there, one more key is made.

    A new key of a domain is read from now on, and signs only after `hopwire keys use`. A new authority is trusted from
    now on, and signs from now on.
    """
    folder = KeyFolder(directory)
    if kind is KeyKind.AUTHORITY:
        made = folder.new_authority(name, days)
        words = f"made in {directory}; {made}.key is the secret of the whole network: keep it off the nodes"
    elif kind is KeyKind.NODE:
        made, words = str(folder.new_node(name)), f"made; next: hopwire keys sign {name}"
    else:
        made = folder.new_domain(name, identity or [], scheme)
        count = len(folder.domains()[name]["keys"])
        then = "" if count == 1 else f"; it does not sign yet: hopwire keys use {made}, once all nodes have it"
        words = f"made in {directory}, domain {name} has {plural(count, 'key')}{then}"
    _tell(made, words, as_json, kind=kind.value, directory=str(directory))


def sign(
    name: Annotated[str, typer.Argument(help="The node: the identity that the certificate names.")],
    directory: Folder = Path("keys"),
    hosts: Annotated[
        list[str] | None, typer.Option("--hosts", help="A domain that the node may host; '*' is all; may be repeated.")
    ] = None,
    asks: Annotated[
        list[str] | None, typer.Option("--asks", help="A domain whose key the node gets, and that it may not host.")
    ] = None,
    request: Annotated[Path | None, typer.Option(help="A request (PEM) whose key is on another machine.")] = None,
    authority: Annotated[str, typer.Option(help="Which authority signs; else the newest one.")] = "",
    days: Annotated[int, typer.Option(min=1, max=36_500, help="How long the certificate is valid.")] = NODE_DAYS,
    as_json: AsJson = False,
) -> None:
    """Sign the certificate of a node. All that the node needs is then in one folder.

    Signed again, a node has two certificates that are valid; `hopwire keys revoke` takes the old one back.
    """
    row = KeyFolder(directory).sign(name, hosts or [], asks or [], days, authority, request)
    may = ", ".join(row.hosts) or "no domain"
    place = directory / "nodes" / name
    start = f"start it with: hopwire node -c {place / NODE_SETTINGS}"
    words = f"all that the node needs; it may host {may}, until {row.not_after}; {start}"
    _tell(str(place), words, as_json, **asdict(row))


def list_keys(
    directory: Folder = Path("keys"),
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each.")] = False,
) -> None:
    """List authorities, certificates and keys of domains. Each is shown with what it is for, until when, and whether it
    counts."""
    rows = _rows(KeyFolder(directory))
    if not rows:
        raise SettingsError(f"{directory} has no keys; hopwire keys new authority NAME makes the first")
    if as_json:
        for row in rows:
            say(json.dumps(row))
        return
    table = plain_table()
    for column in ("what", "name", "for", "until", "state"):
        table.add_column(column)
    for row in rows:
        table.add_row(*[printable(str(row[column])) for column in ("what", "name", "for", "until", "state")])
    screen().print(table)


def revoke(
    name: Annotated[str, typer.Argument(help="A node, sha256:..., an authority, or the key of a domain.")],
    directory: Folder = Path("keys"),
    keep_latest: Annotated[bool, typer.Option("--old", help="Of a node: all certificates but the latest.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take back the certificates of a node, or a key. Also one certificate, or an authority.

    Nodes that have the new files close the connections of a revoked certificate within a second.
    """
    folder = KeyFolder(directory)
    if name in folder.authorities():
        folder.drop_authority(name)
        _tell(name, "trusted no more; bring authority.pem to all nodes", as_json, kind="authority")
        return
    domain = _domain_of(folder, name)
    if domain:
        folder.drop_key(domain, name)
        _tell(name, "taken away; bring domains.toml to all nodes", as_json, kind="domain")
        return
    found = [row for row in folder.issued() if name in (row.node, f"sha256:{row.fingerprint}")]
    if not found:
        raise SettingsError(f"{directory} knows no node, certificate, authority or key of the name {name!r:.80}")
    gone = folder.revoke(found[:-1] if keep_latest else found)
    had = ", ".join(sorted({domain for row in gone for domain in (*row.hosts, *row.asks)}))
    then = f"; it still knows keys of {had}: hopwire keys new domain makes others" if had and not keep_latest else ""
    words = f"{plural(len(gone), 'certificate')} revoked; bring revoked.txt to all nodes{then}"
    _tell(name, words, as_json, kind="node", revoked=[f"sha256:{row.fingerprint}" for row in gone])


def use(
    key_id: Annotated[str, typer.Argument(help="The key of a domain, such as orders-2.")],
    directory: Folder = Path("keys"),
    as_json: AsJson = False,
) -> None:
    """Let a domain sign with this key. All nodes must have the key already."""
    folder = KeyFolder(directory)
    domain = _domain_of(folder, key_id)
    if not domain:
        raise SettingsError(f"{directory} has no domain with a key {key_id!r:.80}")
    folder.use_key(domain, key_id)
    _tell(key_id, "signs from now on; bring domains.toml to all nodes", as_json, domain=domain)


def show(
    name: Annotated[str, typer.Argument(help="An authority, a node, a domain, or the key of a domain.")],
    directory: Folder = Path("keys"),
    secret: Annotated[bool, typer.Option("--secret", help="Print the secret too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each, in a line.")] = False,
) -> None:
    """Show what is known of a node, an authority or a domain. A secret is shown only with `--secret`."""
    folder = KeyFolder(directory)
    rows = [row for row in _rows(folder) if name in (row["name"], row["of"])]
    if not rows:
        raise SettingsError(f"{directory} knows no node, authority, domain or key of the name {name!r:.80}")
    for row in rows:
        say(json.dumps(row, indent=None if as_json else 2))
    if secret:
        say(json.dumps({"secret": _secret(folder, name)}) if as_json else _secret(folder, name))


list_keys.__name__ = "list"  # the word of the command, which is a word of Python too
COMMANDS = (new, sign, list_keys, revoke, use, show)


def _tell(name: str, words: str, as_json: bool, **facts: Any) -> None:
    """Say what was done to something: as a line, or as JSON with the facts beside the words."""
    say(json.dumps({"name": name, **facts, "done": words}) if as_json else f"{name}: {words}")


def _secret(folder: KeyFolder, name: str) -> str:
    for file in (folder.path / f"{name}.key", folder.path / "nodes" / name / "node.key"):
        if file.exists():
            return read_regular(file, MAX_KEY_BYTES).decode("ascii", "replace").strip()
    raise SettingsError(
        f"{folder.path} has no secret of {name!r:.80}; the keys of a domain have names such as orders-1"
    )


def _domain_of(folder: KeyFolder, key_id: str) -> str:
    found = (name for name, each in folder.domains().items() if any(key["id"] == key_id for key in each["keys"]))
    return next(found, "")


def _rows(folder: KeyFolder) -> list[dict[str, Any]]:
    revoked, rows = folder.revoked(), []
    for name, is_trusted in folder.authorities().items():
        state = "trusted" if is_trusted else "trusted no more"
        rows.append({"what": "authority", "name": name, "of": name, "for": "certificates", "until": "", "state": state})
    for row in folder.issued():
        words = [*[f"hosts {each}" for each in row.hosts], *[f"asks {each}" for each in row.asks]]
        common = {"what": "node", "name": row.node, "of": row.node, "for": ", ".join(words), "until": row.not_after}
        rows.append({**common, "state": _state(row, revoked), **_more(row)})
    for name, domain in folder.domains().items():
        for place, key in enumerate(domain["keys"]):
            owns, state = ", ".join(domain["identities"]), "reads" if place else "signs"
            rows.append({"what": "domain", "name": key["id"], "of": name, "for": owns, "until": "", "state": state})
    return rows


def _more(row: Issued) -> dict[str, Any]:
    facts = asdict(row)
    return {"authority": facts["authority"], "fingerprint": f"sha256:{facts['fingerprint']}"}


def _state(row: Issued, revoked: frozenset[str]) -> str:
    if row.fingerprint in revoked:
        return "revoked"
    return "valid" if datetime.fromisoformat(row.not_after) > datetime.now(UTC) else "expired"
