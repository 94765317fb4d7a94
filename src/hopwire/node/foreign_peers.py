"""The foreign peers of a node: programs that are no nodes, and that the node dials (`foreign.py`).

A foreign peer is there while its connection is open. Then it has routes as a node has, and takes its turns with nodes.
When the connection dies, the routes go, what was asked there ends, and the address is dialled again.

What leaves for a foreign peer has nothing in it that is hopwire's own:

| in the message | what leaves |
|---|---|
| extensions | none |
| the callback point of a receipt | the original's, `KINO.RCPTCONFIRM` |
| the callback point of a stream | none: one answer is what the formats know |
| a word to whoever makes a stream, a trace | nothing |

Who waits for an answer waits for the original's `KINO.EXCEPTION` too. What comes back under these two names is the
receipt, and the error of the handler.

V3 and V4 have no place for the callback key and the node of whoever waits. So the callback receiver of such a question
is a name that was drawn for this question alone, and the answer brings the name back as its receiver:

    hub A, node N, key 7 ask at 10.000 s; the question leaves with the callback receiver X and nothing else
    at 10.002 s an answer for the receiver X comes: it is for hub A on node N, key 7

The trap: the peer may have begun anew without a word. So whatever was asked over a connection ends with the connection.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from hopwire.cluster.events import LOST
from hopwire.errors import WireError
from hopwire.model import CallbackPoint, Message, body_from_payload
from hopwire.model.names import ACTOR, FEEDS, HUB, KINO_EXCEPTION, KINO_RECEIPT, is_hub
from hopwire.model.outcome import Outcome
from hopwire.node.foreign import Foreign
from hopwire.node.news import News, PeerLost, PeerMet, RoutesUpdated
from hopwire.node.notices import shown
from hopwire.node.post import Outgoing
from hopwire.node.spawn import OUTCOME, RECEIPT, STREAM
from hopwire.node.transport import Frames, Transport
from hopwire.routing import RemoteNode as KnownNode
from hopwire.routing import Tables
from hopwire.wire import V6, transcode
from hopwire.wire.exception_body import RaisedError, read_exception
from hopwire.wire.extension import extension_of

__all__ = ["EXCEPTION_POINT", "RECEIPT_POINT", "ForeignPeers"]

log = logging.getLogger("hopwire.node")

MOST_ASKED = 10_000  # questions in V3 and V4 whose answers are waited for; the oldest are forgotten
EXCEPTION_POINT = CallbackPoint(KINO_EXCEPTION, 1)
RECEIPT_POINT = CallbackPoint(KINO_RECEIPT, 1)


class _Waiting(NamedTuple):
    """Who waits for the answer to a question that could not say so."""

    peer: bytes
    hub: bytes
    node: bytes
    key: int


class ForeignPeers:
    """Programs that are no nodes, and that this node dials."""

    def __init__(
        self,
        foreign: tuple[Foreign, ...],
        transport: Transport,
        outgoing: Outgoing,
        tables: Tables,
        on_lost: Callable[[bytes, str], None],
        on_routes: Callable[[], None],
        news: News,
    ) -> None:
        self._by_uri = {peer.uri: peer for peer in foreign}
        self._transport, self._outgoing, self._tables = transport, outgoing, tables
        self._on_lost, self._on_routes, self._news = on_lost, on_routes, news
        self._there: dict[bytes, None] = {}
        self._asked: dict[bytes, _Waiting] = {}  # by the name that was drawn for the question
        self.reserved = frozenset[bytes | str]((*self._by_uri, *(peer.identity for peer in foreign)))

    @property
    def there(self) -> tuple[bytes, ...]:
        """The foreign peers whose connections are open."""
        return tuple(self._there)

    def unanswered(self) -> tuple[str, ...]:
        """The addresses where nobody answers."""
        return tuple([uri for uri, peer in self._by_uri.items() if peer.identity not in self._there])

    def start(self) -> None:
        """Dial all of them."""
        for uri in self._by_uri:
            self._transport.dial_foreign(uri)

    def at(self, connection: bytes) -> Foreign | None:
        """Give the foreign peer at the other end of a connection that this node opened, or None."""
        return self._by_uri.get(self._transport.address_of(connection)) if self._by_uri else None

    # -- who is there

    def first_words(self, uri: str) -> list[Frames] | None:
        """A connection is open: its peer is there, and nothing is said to it; None if no foreign peer lives there."""
        peer = self._by_uri.get(uri)
        if peer is None:
            return None
        self.miss(uri)
        self._there[peer.identity] = None
        self._outgoing.meet_foreign(peer.identity, uri, peer.wire_format, partial(self._adapted, peer))
        node, contracts = KnownNode(peer.identity, (uri,)), peer.contracts
        self._tables.remote.register(node, ACTOR + peer.identity, contracts)
        fields = {"hopwire_event": "peer_met", "hopwire_peer": shown(peer.identity), "hopwire_uri": uri}
        log.info("met foreign peer %s at %s", shown(peer.identity), shown(uri), extra=fields)
        if self._news:
            self._news.tell(PeerMet(peer.identity, uri))
            self._news.tell(RoutesUpdated(peer.identity, len(contracts), 0, True))
        self._on_routes()
        return []

    def miss(self, uri: str) -> bool:
        """A connection has ended: its peer is gone, and what was asked there ends; False if it was no such peer."""
        peer = self._by_uri.get(uri)
        if peer is None:
            return False
        if peer.identity in self._there:
            del self._there[peer.identity]
            self._tables.remote.unregister_node(peer.identity)
            self._outgoing.lose_foreign(peer.identity)
            self._asked = {name: who for name, who in self._asked.items() if who.peer != peer.identity}
            fields = {"hopwire_event": "peer_lost", "hopwire_peer": shown(peer.identity), "hopwire_uri": uri}
            why = LOST["unreachable"]
            log.info("lost foreign peer %s at %s: %s", shown(peer.identity), shown(uri), why, extra=fields)
            self._on_lost(peer.identity, "unreachable")
            if self._news:
                self._news.tell(PeerLost(peer.identity, "unreachable"))
        return True

    # -- what leaves

    def _adapted(self, peer: Foreign, message: Message) -> Message | str:
        """Give a message as a foreign peer reads it, or the reason why it does not leave; "" says that all is done."""
        if message.receiver_identity == FEEDS:  # nobody there makes a stream
            return ""
        if message.extensions:
            try:
                if extension_of(message).trace_only:  # without the extension it would be handled
                    return "cannot_carry"
            except WireError as error:
                return error.reason
        points, is_theirs = message.callback_points, message.callback_receiver_node_identity == peer.identity
        if points and not is_theirs:
            points = tuple([RECEIPT_POINT if point == RECEIPT else point for point in points if point != STREAM])
            points = points if EXCEPTION_POINT in points else (*points, EXCEPTION_POINT)
        message = message.replace(callback_points=points, extensions=(), signature=b"")
        if "callback_key" not in peer.wire_format.not_carried:
            return message
        name = message.callback_receiver_identity
        if name and not is_theirs:
            name = self._drawn(peer, message)
        return message.replace(callback_receiver_identity=name, callback_receiver_node_identity=b"", callback_key=0)

    def _drawn(self, peer: Foreign, message: Message) -> bytes:
        """Give the name under which the answer to a question comes back."""
        if len(self._asked) >= MOST_ASKED:
            del self._asked[next(iter(self._asked))]
        name = HUB + str(uuid.uuid4()).encode()
        hub, node = message.callback_receiver_identity, message.callback_receiver_node_identity
        self._asked[name] = _Waiting(peer.identity, hub, node, message.callback_key)
        return name

    # -- what comes back

    def restored(self, message: Message) -> Message:
        """Give what came from a foreign peer as nodes say it: for the hub that waits, and in our words."""
        if not self._by_uri:
            return message
        waiting = self._asked.get(message.receiver_identity)
        if waiting is not None:
            if message.identity != KINO_RECEIPT:
                del self._asked[message.receiver_identity]
            message = message.replace(receiver_identity=waiting.hub, receiver_node_identity=waiting.node)
        else:
            waiting = self._asked.get(message.callback_receiver_identity)
        if waiting is not None:
            _, hub, node, key = waiting
            message = message.replace(
                callback_receiver_identity=hub, callback_receiver_node_identity=node, callback_key=key, signature=b""
            )
        if not is_hub(message.receiver_identity) or message.partition or message.version != 1:
            return message
        if message.identity == KINO_RECEIPT:
            return _told(message, Outcome("received", detail=message.socket_identity.hex()))
        return _told(message, _failure(message)) if message.identity == KINO_EXCEPTION else message

    def returned(self, uri: str, message: Message) -> Message:
        """Give a message that could not leave as it was said here."""
        if uri not in self._by_uri:
            return message
        try:
            return self.restored(transcode(message, V6))
        except WireError:  # nobody could say more of it
            return message


def _failure(message: Message) -> Outcome:
    try:
        raised = read_exception(message.body)
    except WireError as error:
        raised = RaisedError("", f"its body makes no sense: {error}")
    return Outcome("failed", raised.kind or KINO_EXCEPTION.decode(), raised.text, node=message.socket_identity)


def _told(message: Message, outcome: Outcome) -> Message:
    return message.replace(
        identity=OUTCOME.identity,
        version=OUTCOME.version,
        body_frames=(body_from_payload(outcome),),
        callback_points=(),
        callback_receiver_identity=b"",
        callback_receiver_node_identity=b"",
        signature=b"",
    )
