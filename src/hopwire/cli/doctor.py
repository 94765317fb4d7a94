"""`hopwire doctor`: looks for what keeps nodes apart, and says what to do about it.

A check is a function that gives findings, and one line in CHECKS. A finding is `fine`, `doubtful` or `bad`; whatever is
not fine has a remedy. What has to be known of a secret is said by the names of its domain and its key.
"""

from __future__ import annotations

import asyncio
import json
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from hopwire.cli.exits import ExitCode
from hopwire.cli.network_client import ConfigFile, Domains, Seconds, joined
from hopwire.cli.node import Peers, given_settings
from hopwire.cli.terminal import plain_table, say, screen
from hopwire.errors import DeliveryError, HopwireError
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.addresses import check_addresses, check_uri, host_of, is_ipc, is_not_ipv4, listening, port_of
from hopwire.node.partner import PartnersFile
from hopwire.node.status import Status, StatusWanted, own_versions
from hopwire.runner.http_server import http_address
from hopwire.runner.settings import RunSettings
from hopwire.security.domains import Domain

__all__ = ["doctor"]

OLDEST_PYTHON = (3, 11)
SOON_SECONDS = 30 * 86_400  # a key that ends within this time is said to end soon
FEW_FILES = 1024
GATEWAY_SECONDS = 3.0
FINE, DOUBTFUL, BAD = "fine", "doubtful", "bad"
PACKAGES = ("hopwire", "msgspec", "numpy", "pyarrow")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is, what was found, and what to do."""

    check: str
    verdict: str
    found: str
    remedy: str = ""


def doctor(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ADDRESS]...", help="Nodes to look at, beside the peers.", show_default=False),
    ] = None,
    peers: Peers = None,
    domains: Domains = None,
    config: ConfigFile = None,
    timeout: Seconds = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each finding.")] = False,
) -> None:
    """Find what keeps nodes apart, and say what to do about it. Versions, keys, ports, names, other nodes and their
    clocks are looked at.

    Looked at is the node that `hopwire node` would run with the same settings. The command ends with 1 if something
    is bad.
    """
    settings = given_settings({"peers": peers, "domains": domains, "config": config, "others": None})
    found: list[Finding] = []
    for check in CHECKS:
        found += check(settings)
    for address in dict.fromkeys((*(addresses or ()), *settings["peers"])):
        found += _network(address, settings, domains, config, timeout)
    table = plain_table()
    for title in ("", "check", "found", "remedy"):
        table.add_column(title, no_wrap=title in ("", "check"))
    for each in found:
        if as_json:
            say(json.dumps(asdict(each)))
        else:
            table.add_row(each.verdict, each.check, each.found, each.remedy)
    if not as_json:
        screen().print(table)
    if any(each.verdict == BAD for each in found):
        raise typer.Exit(ExitCode.BAD)


# -- this machine


def _versions(_: RunSettings) -> Iterator[Finding]:
    is_new = sys.version_info >= OLDEST_PYTHON
    remedy = "" if is_new else f"use Python {'.'.join(map(str, OLDEST_PYTHON))} or newer"
    yield Finding("python", FINE if is_new else BAD, platform.python_version(), remedy)
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} not installed as a package")
    yield Finding("packages", FINE, ", ".join(found))


def _open_files(_: RunSettings) -> Iterator[Finding]:
    if sys.platform == "win32":
        return
    import resource

    most, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_enough = most == resource.RLIM_INFINITY or most >= FEW_FILES
    remedy = "" if is_enough else f"each peer is an open file: ulimit -n {FEW_FILES}"
    yield Finding("open files", FINE if is_enough else DOUBTFUL, f"{most} at a time", remedy)


def _keys(settings: RunSettings) -> Iterator[Finding]:
    try:
        domains, tls = settings.domains(), settings.tls()
        if tls is not None:
            tls.contexts()
            yield Finding("certificate", FINE, f"{tls.certificate} fits its key")
    except HopwireError as error:
        yield Finding("keys", BAD, str(error), "repair the file, or name the variable or file that has the secret")
        return
    if not domains.signing:
        yield Finding("keys", FINE, "nothing is signed", "" if tls else "only on 127.0.0.1: others need --domains")
        return
    for domain in domains.domains:
        yield from _domain(domain, time.time_ns())
    if domains.find(b"hopwire.hello") is None:
        yield Finding("keys", BAD, "no domain owns hopwire.*", 'add a domain with identities = ["hopwire.*"]')


def _domain(domain: Domain, now_ns: int) -> Iterator[Finding]:
    check = f"keys of {domain.name}"
    valid = [key for key in domain.keys if key.is_valid_at(now_ns)]
    if not valid:
        yield Finding(check, BAD, "no key is valid now", "add a key, first to all nodes as the second of its domain")
        return
    ends_ns = max(key.not_after_ns or sys.maxsize for key in valid)
    ids = ", ".join(key.id for key in valid)
    if ends_ns - now_ns < SOON_SECONDS * NS_PER_SECOND:
        days = (ends_ns - now_ns) // (86_400 * NS_PER_SECOND)
        yield Finding(check, DOUBTFUL, f"{ids}; the last ends in {days} days", "add the next key to all nodes now")
    else:
        yield Finding(check, FINE, f"{ids}; {valid[0].id} signs")


def _ports(settings: RunSettings) -> Iterator[Finding]:
    try:
        check_addresses(settings["listen"], settings["advertise"])
    except HopwireError as error:
        yield Finding("listen", BAD, str(error), "HOPWIRE_LISTEN and HOPWIRE_ADVERTISE are like tcp://host:port")
    else:
        yield _port("listen", settings["listen"], lambda: listening(settings["listen"]).close())
    if settings["http"]:
        host, port = http_address(settings["http"])
        uri = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
        yield _port("http", settings["http"], lambda: listening(uri).close())


def _port(check: str, address: str, bind: Callable[[], None]) -> Finding:
    try:
        bind()
    except OSError as error:
        remedy = "is the node running already? choose another port, or end the process that has it"
        return Finding(check, DOUBTFUL, f"{address}: {error.strerror or error}", remedy)
    return Finding(check, FINE, f"{address} is free")


def _names(settings: RunSettings) -> Iterator[Finding]:
    given = [settings["advertise"] or settings["listen"], *settings["peers"], *settings["join"]]
    for host in dict.fromkeys(host_of(uri) for uri in given if not is_ipc(uri) and "://" in uri):
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", "") or str(error)
            remedy = "is the name spelled right, and known to the DNS of this machine?"
            yield Finding("name", BAD, f"{host}: {why}", remedy)
        else:
            yield Finding("name", FINE, f"{host} is {min(found, key=is_not_ipv4)[4][0]}")


def _partners(settings: RunSettings) -> Iterator[Finding]:
    """Look at the file of partner networks: the lists, the port of each border, and the gateways of the others."""
    try:
        partners = PartnersFile(settings["partners"]).partners if settings["partners"] else ()
    except HopwireError as error:
        yield Finding("partners", BAD, str(error), "repair the file; docs/network.md has an example")
        return
    for partner in partners:
        check, (exported, imported) = f"partner {partner.name}", partner.lists()
        if not exported.entries and not imported.entries:
            yield Finding(check, DOUBTFUL, "nothing is on its lists", "name domains in export or import")
        listen = partner.listen
        yield _port(check, listen, partial(_bind, listen))
        for uri in partner.gateways:
            yield _gateway(check, uri)


def _bind(uri: str) -> None:
    listening(uri).close()


def _gateway(check: str, uri: str) -> Finding:
    try:
        check_uri(uri, "a gateway")
        if not is_ipc(uri):
            socket.create_connection((host_of(uri), port_of(uri)), GATEWAY_SECONDS).close()
    except HopwireError as error:
        return Finding(check, BAD, str(error), "name an address like tcp://host:port")
    except (OSError, UnicodeError) as error:
        found = f"{uri}: {getattr(error, 'strerror', '') or error}"
        return Finding(check, DOUBTFUL, found, "is it running, and does a firewall let this machine through?")
    return Finding(check, FINE, f"{uri} answers")


CHECKS: tuple[Callable[[RunSettings], Iterable[Finding]], ...] = (
    _versions,
    _open_files,
    _keys,
    _ports,
    _names,
    _partners,
)


# -- other nodes


def _network(
    address: str, settings: RunSettings, domains: Path | None, config: Path | None, timeout: float
) -> Iterable[Finding]:
    """Meet a node, and compare clocks."""
    try:
        check_uri(address, "a node")
    except HopwireError as error:
        return [Finding("node", BAD, str(error), "name an address like tcp://host:port")]
    if not is_ipc(address):
        try:
            socket.create_connection((host_of(address), port_of(address)), timeout).close()
        except (OSError, UnicodeError) as error:
            found = f"{address}: {getattr(error, 'strerror', '') or error}"
            return [Finding("node", BAD, found, "start it, open the port in the firewall, or correct the address")]
    try:
        return asyncio.run(_met(address, settings, domains, config, timeout))
    except HopwireError as error:
        remedy = "something listens there: compare keys, certificates and the time of both machines; see its log"
        return [Finding("node", BAD, str(error), remedy)]


async def _met(
    address: str, settings: RunSettings, domains: Path | None, config: Path | None, timeout: float
) -> list[Finding]:
    async with joined(address, domains, config, timeout) as there:
        found = [Finding("node", FINE, f"{address} is {there.met.node.decode(errors='replace')}")]
        before = time.time_ns()
        try:
            status = await there.ask_it(StatusWanted(), Status, timeout)
        except DeliveryError as error:
            return [*found, Finding("clock", DOUBTFUL, error.detail, "its clock cannot be compared")]
        after = time.time_ns()
    ahead = (status.now_ns - (before + after) // 2) / NS_PER_SECOND
    skew = settings["clock_skew_seconds"]
    verdict = FINE if abs(ahead) < skew / 2 else DOUBTFUL if abs(ahead) < skew else BAD
    remedy = "" if verdict == FINE else f"set both clocks by NTP; {skew:g} s are allowed"
    where, unsure = "ahead" if ahead > 0 else "behind", (after - before) / 2 / NS_PER_SECOND
    text = f"{address} is {abs(ahead):.3f} s {where}, give or take {unsure:.3f} s"
    return [*found, Finding("clock", verdict, text, remedy), _version_there(address, status.versions)]


def _version_there(address: str, versions: Mapping[str, str]) -> Finding:
    there, here = versions.get("hopwire", ""), own_versions()["hopwire"]
    text = f"{address} has hopwire {there or '(not said)'} on Python {versions.get('python', '(not said)')}"
    if there == here:
        return Finding("version", FINE, text)
    remedy = f"here is {here or 'none that is installed'}: nodes of two versions get on, but bring all to the newer one"
    return Finding("version", DOUBTFUL, text, remedy)
