"""The transport over TCP: ZMTP spoken by ourselves on sockets that never block (`zmtp_socket.py`).

A link to a peer is one connection for both directions, whichever side opened it. A node that hears a hello over a
connection that others opened answers over the same connection. Until the other side has proved that it heard the
answer, nothing but control messages goes that way: anybody may repeat a hello that somebody else once said. Where no
proof comes, the node dials the address that the hello named. Two nodes that dial each other at the same moment keep
both connections, and each sends over its own.

The death of a connection is seen at once. Who is dialled again and does not answer soon is reported as gone. So is an
address that refuses every connection for as long: the machine is there, and no process listens.

A cut cable ends no connection. When the cable is mended, the kernel may wait for as long again as the cut was. So a
peer whose machine acknowledges nothing is dialled anew, and the new connection takes the place of the old one. The
machine of a process that stands still acknowledges, and the process keeps its connection.

A name belongs to one connection at a time, and what was believed of a connection ends with it (`on_ended`). Whoever
connects later under the same name begins as a stranger.

- Sends never wait. Each peer has a bounded queue of its own (`outbox.py`); what the kernel does not take stays there.
- What was sent in part when its connection died is refused: the other side cannot have read it. Sent again, a message
  that the other side refuses would cut the connection off for ever.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from hopwire.cluster.events import Pace
from hopwire.errors import SettingsError
from hopwire.model.limits import Limits
from hopwire.model.units import NS_PER_SECOND
from hopwire.node.addresses import (
    advertised,
    check_addresses,
    check_uri,
    host_of,
    is_ipc,
    is_not_ipv4,
    is_reachable,
    listening,
    path_of,
    port_of,
    prepare,
)
from hopwire.node.admission import LOOK_SECONDS, REFUSALS, Admission
from hopwire.node.certificate import Certificate
from hopwire.node.notices import Notice, Notices, shown
from hopwire.node.outbox import EARLY_MESSAGES, NEVER_EARLY, Outbox, Outboxes
from hopwire.node.strangers import Strangers
from hopwire.node.transport import (
    ADOPTED,
    FirstWords,
    Frames,
    OnEnded,
    OnFrames,
    OnGone,
    OnRefused,
    OnSent,
    OutboxLimits,
    Tls,
    forget_nothing,
    ignore,
    in_silence,
)
from hopwire.node.unfinished import HELD_UP, Unfinished
from hopwire.node.waking import Waking
from hopwire.node.zmtp_socket import (
    DISCONNECTED,
    HANDSHAKE_SECONDS,
    LARGE_BYTES,
    NO_TLS,
    TlsSocket,
    ZmtpSocket,
)
from hopwire.wire.connection import CHANCE_BYTES, connection_name
from hopwire.wire.train import USUAL, pack_alone, pack_train
from hopwire.wire.zmtp import Zmtp, framed, heads

__all__ = ["Streams"]

log = logging.getLogger("hopwire.node")
MAX_CONNECTIONS = 4096  # that others opened
MAX_FROM_ONE_ADDRESS = 1024
QUIET_SECONDS = 2.0  # two beats: a connection that is quiet for longer gives its name up to who comes from elsewhere
PROOF_SECONDS = 1.0  # for the answer to an answer; then the address is dialled
GONE_SECONDS = Pace().gone_ns / NS_PER_SECOND  # without a connection, after there was one, and the peer is gone
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0  # between two attempts to connect
STUCK_LOOK_SECONDS = 0.5  # between two looks for connections that carry nothing
ACCEPT_AGAIN_SECONDS = 0.1  # after the process ran out of descriptors
EXPIRY_LOOKS = 40  # at files, after which connections are closed whose certificate has expired: ten seconds
ACCEPT_AT_MOST = 64  # connections in one turn of the loop
TURNED_AWAY_SECONDS, MOST_TURNED_AWAY = 60.0, 8  # for how long, and how many, it is remembered who was cut off
MOST_ADOPTED = 1024  # connections of programs that are no nodes, each with a queue of its own
ADOPTED_LIMITS = OutboxLimits(1_000, 256 * 1024)  # what waits for one of them: who does not read gets no more
KEPT_BYTES = 8 * 1024 * 1024  # a block that is freed once: glibc keeps blocks up to this size from then on
ADOPTED_CHANCE_BYTES = 16  # of an address that stands for a connection: no hello can name it
NO_HELLO = "connected, and no hello comes back: are the keys the same on both sides?"
HUNG_UP = "connected, and cut off: does it refuse this node?"
# fmt: off
CUT_OFF = {
    # reason            in words
    "not_zmtp":         "it does not speak ZMTP",
    "old_zmtp":         "it speaks a version of ZMTP that is too old",
    "mechanism":        "it wants to encrypt as this node does not: are the keys the same on both sides?",
    "socket_type":      "its socket type cannot talk to a node",
    "too_large":        "it sent a message above the limits",
    "too_many_frames":  "it sent a message above the limits",
    "unread":           "it asks and does not read the answers",
    "noise":            "it sends what is no message",
    HELD_UP:            "it kept others waiting that were in the middle of large messages, and did not end its own",
    NO_TLS:             "it does not speak TLS, or shows no certificate of our authority",
    **REFUSALS,
}
# fmt: on


class _OutgoingLink:
    """The connection to one peer, and the name that it has there."""

    __slots__ = (
        "candidate",
        "connection",
        "dialling",
        "fault",
        "is_adopted",
        "is_foreign",
        "is_leaving",
        "is_refused",
        "missed",
        "name",
        "opening",
        "pause",
        "proof",
        "sending",
        "uri",
    )

    def __init__(self, uri: str, name: bytes) -> None:
        self.uri, self.name = uri, name
        self.connection: ZmtpSocket | None = None  # once it may be written to
        self.opening: ZmtpSocket | None = None  # that this side has opened, and that is not ready yet
        self.candidate: ZmtpSocket | None = None  # that a hello came over; for control messages until it is proved
        self.proof: asyncio.TimerHandle | None = None  # when waiting for the proof ends
        self.missed: asyncio.TimerHandle | None = None  # when a peer that was connected counts as gone
        self.dialling: asyncio.Task[None] | None = None
        self.pause = FIRST_PAUSE_SECONDS
        self.fault = ""  # why the last attempt to connect failed, in words
        self.is_refused = False  # by the machine at the address, in the last attempt
        self.sending: list[Frames] = []  # messages of which the kernel has taken a part
        self.is_foreign = self.is_adopted = False  # to a program that is no node: dialled, or over its own connection
        self.is_leaving = False  # nobody needs it: it ends with its connection

    def rest(self) -> None:
        """Stop everything that goes on by itself."""
        for going_on in (self.dialling, self.proof, self.missed):
            if going_on is not None:
                going_on.cancel()
        self.dialling = self.proof = self.missed = None


def _fault(error: Exception) -> str:
    """Say in words why a connection could not be opened: connection refused, no such file or directory."""
    if isinstance(error, TimeoutError):
        return "nothing answers there in time"
    number = getattr(error, "errno", None)
    text = os.strerror(number) if number else str(error) or type(error).__name__
    return text[:1].lower() + text[1:]


def _cut_off(host: str, reason: str) -> Notice:
    text = f"a connection {'to' if '://' in host else 'from'} {shown(host)} was cut off: {CUT_OFF[reason]}"
    return Notice(text, {"host": host, "reason": reason})


def _unreadable(fault: str) -> Notice:
    return Notice(f"what was known before still counts: {fault}", {"event": "unreadable", "reason": fault})


def _name_of(connection: ZmtpSocket) -> bytes:
    """Give the name that the other side gave a connection, or the one that it has here without it."""
    return connection.zmtp.identity or connection.name


class Streams(Outboxes):
    """Moves frames between addresses over TCP."""

    def __init__(
        self,
        identity: bytes,
        listen: str,
        limits: OutboxLimits | None = None,
        advertise: str = "",
        message_limits: Limits | None = None,
        tls: Tls | None = None,
        gone_seconds: float = GONE_SECONDS,
        waking: Waking | None = None,
    ) -> None:
        check_addresses(listen, advertise)
        self._gone_seconds = gone_seconds
        self._admission = None if tls is None else Admission(tls, identity)
        # TLS encrypts and writes piece by piece, so its receiver begins early by itself, and long trains cost it less
        super().__init__(limits, LARGE_BYTES, NEVER_EARLY if tls else EARLY_MESSAGES, waking)
        self._identity, self._listen, self._advertise = identity, listen, advertise
        self._message_limits = message_limits or Limits()
        self._links: dict[str, _OutgoingLink] = {}
        self._inbound: dict[ZmtpSocket, None] = {}  # connections that others opened, the oldest first
        self._names: dict[bytes, ZmtpSocket] = {}  # inbound connections by the name that they gave themselves
        self._dialled: dict[bytes, tuple[ZmtpSocket, str]] = {}  # connections of ours by the name that listeners gave
        self._stirred_at: dict[ZmtpSocket, float] = {}  # when something came over a connection that others opened
        self._users: dict[ZmtpSocket, _OutgoingLink] = {}  # links that send over a connection that others opened
        self._from: Counter[str] = Counter()  # connections by the address that they come from
        self._hosts: dict[ZmtpSocket, str] = {}
        self._adopted = 0  # connections that an address stands for
        self._looking: asyncio.TimerHandle | None = None  # when files are looked at next
        self._looks = 0
        self._looking_for_stuck: asyncio.TimerHandle | None = None
        self._turned_away: dict[tuple[str, str], float] = {}  # when somebody was cut off, by host and reason
        self.closed: Counter[str] = Counter()  # connections by the reason of their end

    @property
    def open_address(self) -> str:
        """The address that other machines can reach without a key, or nothing."""
        return self._listen if is_reachable(self._listen) and self._admission is None else ""

    # -- listening

    def start(
        self,
        on_frames: OnFrames,
        on_refused: OnRefused,
        on_gone: OnGone = ignore,
        first_words: FirstWords = in_silence,
        on_ended: OnEnded = forget_nothing,
        on_sent: OnSent | None = None,
    ) -> str:
        """Bind, and give the address that others reach this node by."""
        self._on_frames, self._on_refused, self._on_gone = on_frames, on_refused, on_gone
        self._first_words, self._on_ended, self._on_sent = first_words, on_ended, on_sent
        self._loop = asyncio.get_running_loop()
        bytes(KEPT_BYTES)  # or the kernel clears new pages for each large message
        self._strangers, self._unfinished = Strangers(self._loop), Unfinished(self._loop)
        self._notices = Notices(self._loop.time)
        try:
            self._server = listening(self._listen)
        except OSError as error:
            raise SettingsError(f"cannot listen on {self._listen}: {error.strerror or error}") from None
        self._loop.add_reader(self._server, self._accept)
        if self._admission is not None:
            self._looking = self._loop.call_later(LOOK_SECONDS, self._look)
        self._looking_for_stuck = self._loop.call_later(STUCK_LOOK_SECONDS, self._look_for_stuck)
        if is_ipc(self._listen):
            return self._advertise or self._listen
        bound_host, bound_port, *_ = self._server.getsockname()
        shown_host = f"[{bound_host}]" if ":" in bound_host else bound_host
        return advertised(self._advertise, f"tcp://{shown_host}:{bound_port}")

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_MOST):
            try:
                sock, address = self._server.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    self.closed["no_descriptors"] += 1
                    self._loop.remove_reader(self._server)
                    self._loop.call_later(ACCEPT_AGAIN_SECONDS, self._accept_again)
                return
            host = str(address[0]) if address else ""
            if not self._has_room(host):
                self.closed["too_many_connections"] += 1
                sock.close()
                continue
            try:
                prepare(sock)
                connection = self._open(sock, self._new_name(), self._inbound_ready, self._inbound_closed, True)
            except OSError:  # reset before anything was done with it
                self.closed["broken"] += 1
                sock.close()
                continue
            self._inbound[connection] = None
            self._from[host] += 1
            self._hosts[connection] = host

    def _has_room(self, host: str) -> bool:
        """Make room for one more connection: the oldest makes way over which nobody was believed yet."""
        is_full, is_full_from = len(self._inbound) >= MAX_CONNECTIONS, self._from[host] >= MAX_FROM_ONE_ADDRESS
        if not is_full and not is_full_from:
            return True
        unproved = (each for each in self._inbound if not each.is_proved)
        oldest = next((each for each in unproved if is_full or self._hosts[each] == host), None)
        if oldest is not None:
            oldest.close("made_room")
        return oldest is not None

    def stirred(self) -> list[bytes]:
        """Give the names of connections over which bytes came since the last look, also of unfinished messages."""
        found, now = [], self._loop.time()
        for connection in (*self._inbound, *(connection for connection, _ in self._dialled.values())):
            if connection.has_stirred:
                connection.has_stirred = False
                self._stirred_at[connection] = now
                found.append(_name_of(connection))
        return found

    def believe(self, connection: bytes) -> None:
        """Believe that a node is at the other end of a connection: a hello over it was believed."""
        if connection in self._names:
            self._names[connection].prove()

    def _open(
        self,
        sock: socket.socket,
        name: bytes,
        on_ready: Callable[[ZmtpSocket], None],
        on_closed: Callable[[ZmtpSocket, str], None],
        is_server: bool,
    ) -> ZmtpSocket:
        zmtp, nobody = Zmtp(self._message_limits, name), b"\0" + os.urandom(4)
        strangers = self._strangers if is_server else None
        shared = (self._waking, self._unfinished, strangers)
        parts = (self._loop, sock, zmtp, nobody, self._on_frames, on_ready, on_closed, *shared)
        if self._admission is None:
            return ZmtpSocket(*parts)
        admit = partial(self._admission.refusal, is_new=True)
        return TlsSocket(self._admission.contexts[is_server], is_server, admit, *parts)

    # -- who may be connected

    def certificate_of(self, connection: bytes) -> Certificate | None:
        """Give the certificate at the other end of a connection; None where there is no TLS."""
        there = self._dialled[connection][0] if connection in self._dialled else self._names.get(connection)
        return None if there is None else there.certificate

    def certificate_at(self, uri: str) -> Certificate | None:
        """Give the certificate of whoever gets what is sent to an address; None where that is nobody, or no TLS."""
        link = self._links.get(uri)
        return None if link is None or link.connection is None else link.connection.certificate

    def reload(self) -> None:
        """Look whether files have changed that say who may be connected, and close what they do not let in."""
        if self._admission is None or self._is_closed:
            return
        has_changed, faults = self._admission.look()
        for fault in faults:
            self._notices.warn(("files", fault), partial(_unreadable, fault))
        self._looks += 1
        if has_changed or not self._looks % EXPIRY_LOOKS:
            for connection in (*self._inbound, *[connection for connection, _ in self._dialled.values()]):
                self._refuse_connection(connection)

    def _refuse_connection(self, connection: ZmtpSocket) -> bool:
        """Close a connection if its certificate does not count, and tell whether it was closed."""
        if self._admission is None or connection.certificate is None:
            return False
        refusal = self._admission.refusal(connection.certificate)
        if refusal:
            connection.close(refusal)
        return bool(refusal)

    def _look(self) -> None:
        self.reload()
        self._looking = self._loop.call_later(LOOK_SECONDS, self._look)

    def _new_name(self) -> bytes:
        return connection_name(self._identity, os.urandom(CHANCE_BYTES)) if self._identity else b""

    def _accept_again(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._server, self._accept)

    def _inbound_ready(self, connection: ZmtpSocket) -> None:
        """Remember the name of a connection; a connection that a node was heard over keeps its name while it lives."""
        name = _name_of(connection)
        former = self._names.get(name)
        if not connection.zmtp.identity and former is None:  # the name was drawn here, for this connection
            self._names[name] = connection
            return
        if name in self._dialled or (former is not None and not self._makes_way(former, connection)):
            connection.close("name_taken")
            return
        if former is not None:
            former.close("replaced")
        self._on_ended(name)
        self._names[name] = connection

    def _makes_way(self, former: ZmtpSocket, connection: ZmtpSocket) -> bool:
        """Tell whether a connection gives up its name to another: after some silence, or if nobody is known there.

        Whoever has recorded a connection knows its name, and behind a proxy all hosts are one. So the connection of a
        node that lives makes way to nobody. What it has said counts also where it was not read yet: the loop stood
        still, or the network has just come back.
        """
        if not former.is_proved and self._hosts.get(former) == self._hosts.get(connection):
            return True
        if former.has_stirred or former.has_unread:
            return False
        return self._loop.time() - self._stirred_at.get(former, 0.0) > QUIET_SECONDS

    def _ended(self, name: bytes) -> None:
        """Tell of the end of a connection, once what was heard before is handed over, unless another has its name."""
        if name not in self._names and name not in self._dialled:
            self._on_ended(name)

    def _inbound_closed(self, connection: ZmtpSocket, reason: str) -> None:
        self._inbound.pop(connection, None)
        self._stirred_at.pop(connection, None)
        name = _name_of(connection)
        if self._names.get(name) is connection:
            del self._names[name]
            self._loop.call_soon(self._ended, name)
        link = self._users.pop(connection, None)
        if link is None:
            self.closed[reason] += 1
        else:
            self._link_closed(link, connection, reason)
        host = self._hosts.pop(connection, "")
        if reason in CUT_OFF and not self._is_closed:
            self._turned_away.pop((host, reason), None)
            if len(self._turned_away) >= MOST_TURNED_AWAY:
                del self._turned_away[next(iter(self._turned_away))]
            self._turned_away[host, reason] = self._loop.time()
            self._notices.warn(("cut_off", host, reason), partial(_cut_off, host, reason))
        self._from[host] -= 1
        if not self._from[host]:
            del self._from[host]

    # -- links

    def connect(self, uri: str, over: bytes = b"") -> None:
        """Open a connection, or answer over one that others opened; frames may be sent to it from now on."""
        check_uri(uri, "a peer")
        if uri in self._links:
            self._links[uri].is_leaving = False
        if uri in self._links or self._is_closed:
            return
        self._links[uri] = link = _OutgoingLink(uri, self._new_name())
        self._peers[uri] = Outbox(self._limits)
        candidate = self._names.get(over)
        if candidate is None or candidate in self._users:
            link.dialling = self._loop.create_task(self._dial(link))
            return
        link.candidate, self._users[candidate] = candidate, link
        link.proof = self._loop.call_later(PROOF_SECONDS, self._dial_unproved, link)

    def why_silent(self, uri: str) -> str:
        """Say in words why an address could not be reached, as far as that is known; nothing where it is not."""
        link = self._links.get(uri)
        if link is None:
            return ""
        return link.fault if link.connection is None or link.is_foreign else NO_HELLO

    def turned_away(self) -> list[str]:
        """Say in words which connections of others were cut off in the last minute, and why."""
        now = self._loop.time()
        recent = [who for who, at in self._turned_away.items() if now - at < TURNED_AWAY_SECONDS]
        return [f"cut off a connection from {shown(host)}: {CUT_OFF[reason]}" for host, reason in recent]

    def dial(self, uri: str) -> None:
        """Send what is for an address over a connection of our own, where one that others opened was used so far."""
        link = self._links.get(uri)
        if link is None or self._is_closed:
            return
        borrowed = [each for each in (link.connection, link.candidate) if each is not None and each in self._users]
        for connection in borrowed:
            del self._users[connection]
            connection.on_written = None
        if borrowed:
            link.rest()
            link.connection, link.candidate, link.sending = None, None, []
            link.dialling = self._loop.create_task(self._dial(link))

    def address_of(self, connection: bytes) -> str:
        """Give the address that a connection leads to, if this side opened it; nothing if others did."""
        return self._dialled[connection][1] if connection in self._dialled else ""

    def opened_as(self, name: bytes) -> str:
        """Give the address of the connection that this side opened under a name, or nothing."""
        return next((link.uri for link in self._links.values() if link.name == name), "")

    def reply(self, connection: bytes, frames: Frames) -> None:
        """Send a control message over a connection that others opened, whoever they are; it may get lost."""
        there = self._names.get(connection)
        if there is not None and not there.is_writing and not self._is_closed:
            there.write(heads(frames[1:]))

    def dial_foreign(self, uri: str) -> None:
        """Open a connection to a program that is no node, under the identity of this node itself."""
        check_uri(uri, "a foreign peer")
        if uri not in self._links and not self._is_closed:
            self._links[uri] = link = _OutgoingLink(uri, self._identity)
            self._peers[uri] = Outbox(self._limits)
            link.is_foreign = True
            link.dialling = self._loop.create_task(self._dial(link))

    def adopt(self, connection: bytes) -> str:
        """Give an address that stands for a connection which others opened, and ends with it."""
        there = self._names.get(connection)
        if there is None or self._is_closed:
            return ""
        link = self._users.get(there)
        if link is not None:
            return link.uri if link.is_adopted else ""
        if self._adopted >= MOST_ADOPTED:
            return ""
        uri = f"{ADOPTED}{os.urandom(ADOPTED_CHANCE_BYTES).hex()}"
        self._links[uri] = self._users[there] = link = _OutgoingLink(uri, b"")
        self._peers[uri] = Outbox(ADOPTED_LIMITS)
        link.is_adopted = True
        self._adopted += 1
        self._ready(link, there)
        return uri

    def prove(self, uri: str, over: bytes) -> None:
        """Send everything for an address over the connection that the peer there has proved to be its own."""
        link, connection = self._links.get(uri), self._names.get(over)
        if link is None or link.connection is not None or connection is None:
            return
        if self._users.setdefault(connection, link) is not link:
            return
        if link.candidate is not None and link.candidate is not connection:
            self._users.pop(link.candidate, None)
        link.rest()
        link.candidate = None
        self._ready(link, connection)

    def _dial_unproved(self, link: _OutgoingLink) -> None:
        link.proof = None
        link.dialling = self._loop.create_task(self._dial(link))

    def _says_directly(self, uri: str, frames: Frames) -> bool:
        """Send a control message over a connection that is not proved yet: control messages need no proof.

        They are written past the queue, one at a time: nothing piles up for somebody who does not read.
        """
        link = self._links.get(uri)
        candidate = None if link is None or link.connection is not None else link.candidate
        if candidate is None or candidate.is_writing:
            return False
        self._write(candidate, frames)
        return True

    def _look_for_stuck(self) -> None:
        """Dial those again whose connection is stuck, which stays until another is ready: the network may heal first.

        A cable is cut at 10.0 s. The kernel sends again at 10.2, 10.6, 11.4, 13.0 and 15.0 s, and then every 2 s; an
        older one at 13.0, 16.2, 22.6 and 35.4 s. From 15.5 s or 16.5 s on this node dials every second. The cable is
        plugged in at 23.0 s: a new connection is ready by 24.1 s.
        """
        for link in self._links.values():
            is_looked_for = link.dialling is not None or link.opening is not None
            if link.is_foreign or link.is_adopted or is_looked_for or link.connection is None:
                continue
            if link.connection.is_stuck:
                link.dialling = self._loop.create_task(self._dial(link))
        self._looking_for_stuck = self._loop.call_later(STUCK_LOOK_SECONDS, self._look_for_stuck)

    async def _dial(self, link: _OutgoingLink) -> None:
        """Try to connect, again and again with growing pauses; names are looked up anew each time."""
        while not self._is_closed and self._links.get(link.uri) is link and not self._is_served(link):
            began = self._loop.time()
            sock = await self._connected(link)
            if sock is None:
                if link.is_refused and link.missed is None and not link.is_foreign:
                    link.missed = self._loop.call_later(self._gone_seconds, self._gone, link)
                await self._pause(link, self._loop.time() - began)
                continue
            try:
                ready, closed = partial(self._dialled_ready, link), partial(self._dialled_closed, link)
                link.opening = self._open(sock, link.name, ready, closed, False)
            except OSError:  # reset before anything was done with it
                sock.close()
                await self._pause(link)
                continue
            break
        link.dialling = None

    def _is_served(self, link: _OutgoingLink) -> bool:
        """Tell whether a link has a connection that carries something."""
        return link.connection is not None and not link.connection.is_stuck

    async def _pause(self, link: _OutgoingLink, spent: float = 0.0) -> None:
        """Wait before the next attempt; an attempt that took long was pause enough."""
        await asyncio.sleep(max(0.0, link.pause - spent))
        link.pause = min(2 * link.pause, LONGEST_PAUSE_SECONDS)

    async def _dial_again(self, link: _OutgoingLink) -> None:
        await self._pause(link)  # or a listener that hangs up at once would be dialled without end
        await self._dial(link)

    async def _connected(self, link: _OutgoingLink) -> socket.socket | None:
        """Connect to the first of the addresses behind a name that answers; nothing where none does."""
        uri, link.is_refused = link.uri, False
        found: list[tuple[Any, ...]] = [(socket.AF_UNIX, socket.SOCK_STREAM, 0, "", path_of(uri))]
        if not is_ipc(uri):
            try:
                found = await self._loop.getaddrinfo(host_of(uri), port_of(uri), type=socket.SOCK_STREAM)
            except (OSError, ValueError):  # no such host, or what cannot be the name of one
                link.fault = "unknown host"
                return None
        for family, kind, _, _, address in sorted(found, key=is_not_ipv4):
            try:
                sock = socket.socket(family, kind)
            except OSError as error:  # no descriptor is left
                link.fault = _fault(error)
                return None
            try:
                prepare(sock)
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await self._loop.sock_connect(sock, address)
            except (OSError, ValueError) as error:
                link.fault = _fault(error)
                link.is_refused = isinstance(error, ConnectionRefusedError | FileNotFoundError)
                sock.close()
            except BaseException:  # nobody wants the link any more
                sock.close()
                raise
            else:
                return sock
        return None

    def _dialled_ready(self, link: _OutgoingLink, connection: ZmtpSocket) -> None:
        link.opening = None
        if link.is_foreign:  # what it calls itself is no secret: others could take that name first
            connection.zmtp.identity = b""
        name = _name_of(connection)
        if self._refuse_connection(connection):
            return
        if name in self._names or name in self._dialled:  # of a connection that lives: nobody else has that name
            connection.close("name_taken")
            return
        self._on_ended(name)
        self._dialled[name] = connection, link.uri
        self._ready(link, connection)

    def _dialled_closed(self, link: _OutgoingLink, connection: ZmtpSocket, reason: str) -> None:
        if link.opening is connection:
            link.opening, link.fault = None, HUNG_UP
        name = _name_of(connection)
        self._stirred_at.pop(connection, None)
        link.fault = CUT_OFF.get(reason, link.fault)
        if reason in REFUSALS and not self._is_closed:
            if link.uri in self._peers and self._peers[link.uri].has_messages:
                self.empty(link.uri)
            self._notices.warn(("cut_off", link.uri, reason), partial(_cut_off, link.uri, reason))
        if self._dialled.get(name, (None,))[0] is connection:
            del self._dialled[name]
            self._loop.call_soon(self._ended, name)
        self._link_closed(link, connection, reason)

    def _ready(self, link: _OutgoingLink, connection: ZmtpSocket) -> None:
        if self._links.get(link.uri) is not link:
            connection.close(DISCONNECTED)
            return
        if self._is_served(link):  # the peer was quicker
            connection.close(DISCONNECTED)
            return
        link.rest()
        former, link.connection = link.connection, connection
        link.pause = FIRST_PAUSE_SECONDS
        if former is not None:
            self._leave(link, former)
        connection.on_written = lambda: self._written(link)
        for frames in self._first_words(link.uri):
            self._write(connection, frames)
        self._send_waiting(link.uri, self._peers[link.uri])

    def _leave(self, link: _OutgoingLink, former: ZmtpSocket) -> None:
        """Close a connection in whose place there is another.

        One that others opened is theirs to close, unless a message was sent over it in part: that is refused, so its
        rest must not arrive.
        """
        refused, link.sending = link.sending, []
        for frames in refused:
            self._on_refused(link.uri, frames, "unreachable")
        former.on_written = None
        if self._users.pop(former, None) is None or refused:
            former.close("replaced")

    def _link_closed(self, link: _OutgoingLink, connection: ZmtpSocket, reason: str) -> None:
        """A connection has ended: dial again, and if that takes too long, the peer is gone."""
        self.closed[reason] += 1
        if link.connection is not None and link.connection is not connection:  # there is a better one
            if link.dialling is None and not self._is_served(link) and not self._is_closed:
                link.dialling = self._loop.create_task(self._dial_again(link))
            return
        was_connected, link.connection, link.candidate = link.connection is not None, None, None
        for frames in link.sending:
            self._on_refused(link.uri, frames, "unreachable")
        link.sending = []
        if link.is_adopted:
            self._adopted -= 1
            self.disconnect(link.uri)
            return
        if self._is_closed or self._links.get(link.uri) is not link:
            return
        if link.is_leaving and not self._peers[link.uri].queued:
            self.disconnect(link.uri)
            return
        if was_connected and link.is_foreign:
            link.rest()
            self._on_gone(link.uri)
        elif was_connected:
            link.rest()
            link.missed = self._loop.call_later(self._gone_seconds, self._gone, link)
        elif link.proof is not None:
            link.rest()
        if link.dialling is None:
            link.dialling = self._loop.create_task(self._dial_again(link))

    def _gone(self, link: _OutgoingLink) -> None:
        """Report a peer that was connected and is not any more, or that refuses to be."""
        if link.missed is not None:
            link.missed.cancel()
            link.missed = None
            self._on_gone(link.uri)

    def hang_up(self, connection: bytes) -> None:
        """Close a connection that others opened: who is at the other end has to say hello again."""
        there = self._names.get(connection)
        if there is not None:
            there.close(DISCONNECTED)

    def leave(self, uri: str) -> None:
        """Let a link end with its connection, unless something waits for the peer by then."""
        super().leave(uri)
        if uri in self._links:
            self._links[uri].is_leaving = True

    def disconnect(self, uri: str) -> None:
        """Close a connection; what waits for it is refused."""
        link = self._links.pop(uri, None)
        if link is None:
            return
        self._busy.pop(uri, None)
        self._let_go(link)
        self._refuse(uri, self._peers.pop(uri), "unreachable")

    def _let_go(self, link: _OutgoingLink) -> None:
        """Close the connections of ours, also one that is not ready yet; one that others opened is theirs to close."""
        link.rest()
        for connection in (link.candidate, link.connection, link.opening):
            if connection is not None and self._users.pop(connection, None) is not None:
                connection.on_written = None
            elif connection is not None:
                connection.close(DISCONNECTED)

    # -- sending

    def _send_waiting(self, uri: str, outbox: Outbox) -> bool:
        """Send what waits for a peer until the kernel takes no more; when it does again, `_written` goes on."""
        link = self._links[uri]
        connection = link.connection
        if connection is None or connection.is_writing:
            return True
        while outbox.queued:
            link.sending, frames = outbox.next_load()
            if self._on_sent is not None:
                self._on_sent(frames if len(link.sending) > 1 else link.sending[0], len(link.sending))
            if not connection.write(heads(frames[1:])):
                break
            link.sending = []
        self._wake(outbox)
        return True

    def _sends_at_once(self, uri: str, frames: Frames, train_at_ns: int | None) -> bool:
        link = self._links[uri]
        connection = link.connection
        if connection is None or connection.is_writing:
            return False
        if self._on_sent is not None:
            self._on_sent(frames, 1)
        outbox = self._peers[uri]
        if train_at_ns is None or not outbox.takes_trains:
            parts = heads(frames[1:])
        elif outbox.dates_trains and len(frames) == USUAL:
            parts = [framed(pack_alone(frames, train_at_ns))]
        else:
            parts = [framed(pack_train([frames], train_at_ns if outbox.dates_trains else None))]
        if not connection.write(parts):
            link.sending = [frames]
        return True

    def _write(self, connection: ZmtpSocket, frames: Frames) -> None:
        """Hand a message to a connection that others opened or that is new; the first frame stays here."""
        if self._on_sent is not None:
            self._on_sent(frames, 1)
        connection.write(heads(frames[1:]))

    def _written(self, link: _OutgoingLink) -> None:
        link.sending = []
        self._send_waiting(link.uri, self._peers[link.uri])

    # -- the end

    async def close(self, timeout: float) -> None:
        """Send what waits, for so many seconds at most, and stop; what is left then is refused."""
        if self._is_closed:
            return
        give_up_at = self._loop.time() + timeout
        while self._is_sending() and self._loop.time() < give_up_at:
            await asyncio.sleep(0.002)
        self._is_closed = True
        for timer in (self._looking, self._looking_for_stuck):
            if timer is not None:
                timer.cancel()
        if self._flush_at is not None:
            self._flush_at.cancel()
        self._loop.remove_reader(self._server)
        self._server.close()
        if is_ipc(self._listen) and not self._listen.startswith("ipc://@"):
            with suppress(OSError):
                os.unlink(path_of(self._listen))
        for uri, link in self._links.items():
            self._let_go(link)
            self._refuse(uri, self._peers[uri], "closed", is_end=True)
        for connection in list(self._inbound):
            connection.close(DISCONNECTED)

    def _is_sending(self) -> bool:
        """Whether something waits for a peer that can be written to; for others there is no hope within this time."""
        return any(
            link.connection is not None and (self._peers[uri] or link.connection.is_writing)
            for uri, link in self._links.items()
        )
