"""Addresses of nodes, and the sockets that listen on them.

| address | means |
|---|---|
| `tcp://host:port` | a host by name, IPv4 or `[IPv6]`; port 0 is any that is free |
| `ipc://path` | a socket in the file system of this machine; `ipc://@name` has no file |
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from hopwire.errors import SettingsError

__all__ = [
    "BACKLOG",
    "advertised",
    "check_addresses",
    "check_uri",
    "host_of",
    "is_ipc",
    "is_not_ipv4",
    "is_reachable",
    "listening",
    "path_of",
    "port_of",
    "prepare",
    "sends_in_vain",
]

BACKLOG = 256  # connections that wait until they are accepted
MAX_PORT = 2**16 - 1
TCP_RTO_MAX_MS = 44  # an option of Linux from 6.15 on, which Python does not name yet
RETRANSMITS_AT = 2  # the place in `tcp_info` of Linux: how often the oldest segment was sent again
IN_VAIN = 5  # of these: 5 s, as long as the silence of a peer is borne; 6 s with older kernels
RETRANSMISSION_MS = 2_000  # the longest pause between two; after 15 of them, 27 s, the kernel ends the connection
EVERYWHERE = ("0.0.0.0", "*", "::")  # noqa: S104 - addresses to listen on, and no others


def check_uri(uri: object, whose: str) -> None:
    """Refuse what is no address of another process: `tcp://host:port` or `ipc://path`."""
    if not isinstance(uri, str):
        raise SettingsError(f"the address of {whose} is text, found {uri!r:.80}")
    scheme, _, rest = uri.partition("://")
    if scheme == "ipc" and rest:
        return
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not (port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise SettingsError(f"the address of {whose} is like tcp://host:port, found {uri!r:.80}")


def host_of(uri: str) -> str:
    """Give the host of an address, without the brackets of IPv6."""
    return uri.partition("://")[2].rpartition(":")[0].strip("[]")


def port_of(uri: str) -> int:
    """Give the port of an address."""
    return int(uri.rpartition(":")[2])


def check_addresses(listen: str, advertise: str) -> None:
    """Refuse addresses that a node cannot listen on, or that nobody could reach it by."""
    check_uri(listen, "this node")
    if advertise:
        check_uri(advertise, "this node, as others see it,")
    if host_of(advertise or listen) in EVERYWHERE:
        found = advertise or listen
        raise SettingsError(f"{found} is no address that others can reach: name one with advertise=..., or --advertise")


def is_ipc(uri: str) -> bool:
    """Tell whether an address is a path on this machine."""
    return uri.startswith("ipc://")


def path_of(uri: str) -> str:
    """Give the path of an address on this machine; @ stands for a name without a file, as in ZeroMQ."""
    path = uri.removeprefix("ipc://")
    return "\0" + path[1:] if path.startswith("@") else path


def is_reachable(uri: str) -> bool:
    """Tell whether other machines can reach an address."""
    host = host_of(uri)
    if not uri.startswith("tcp://") or host in ("localhost", "lo"):
        return False
    try:
        return not ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return True


def advertised(advertise: str, bound: str) -> str:
    """Give the address that others reach a node by; a port 0 stands for the one that was bound."""
    host, _, port = advertise.rpartition(":")
    return f"{host}:{bound.rpartition(':')[2]}" if port == "0" else advertise or bound


def is_not_ipv4(found: tuple[Any, ...]) -> bool:
    """Tell whether an address is of another family than IPv4, which comes first as it does in ZeroMQ."""
    return bool(found[0] != socket.AF_INET)


def prepare(sock: socket.socket) -> None:
    """Let a socket never block, send small messages at once, and notice in the end that the other side is gone.

    What is not acknowledged is sent again after pauses that double each time, for up to two minutes each. A cable that
    is plugged in again after 30 s would be noticed up to 30 s later, so the kernel is asked for shorter pauses.
    """
    sock.setblocking(False)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sys.platform == "linux":
            with suppress(OSError):  # an older kernel
                sock.setsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS, RETRANSMISSION_MS)


def sends_in_vain(sock: socket.socket) -> bool:
    """Tell whether the kernel has sent something again and again without a word of the other machine.

    Where a process only reads nothing, its kernel says so. Systems other than Linux, and sandboxes that only look like
    Linux, do not tell.
    """
    if sys.platform != "linux" or sock.family == socket.AF_UNIX:
        return False
    with suppress(OSError):
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RETRANSMITS_AT + 1)
        return len(told) > RETRANSMITS_AT and told[RETRANSMITS_AT] >= IN_VAIN
    return False


def listening(uri: str) -> socket.socket:
    """Give a socket that listens on an address."""
    if is_ipc(uri):
        return _listening_on_path(path_of(uri))
    host = host_of(uri)
    found = socket.getaddrinfo(
        None if host in ("*", "") else host, port_of(uri), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, _, _, address = min(found, key=is_not_ipv4)
    server = socket.socket(family, kind)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return _bound(server, address)
    except OSError:
        server.close()
        raise


def _listening_on_path(path: str) -> socket.socket:
    """Give a socket that listens on a path; one that a process left behind is replaced, anything else is not."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path[:1] != "\0" and os.path.exists(path):
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise FileExistsError(errno.EEXIST, "there is a file of that name, and it is no socket")
            try:
                server.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
            else:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        mask = os.umask(0o177)  # for its owner only
        try:
            return _bound(server, path)
        finally:
            os.umask(mask)
    except OSError:
        server.close()
        raise


def _bound(server: socket.socket, address: Any) -> socket.socket:
    server.bind(address)
    server.listen(BACKLOG)
    server.setblocking(False)
    return server
