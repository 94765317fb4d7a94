"""Routing: who can be reached, whose turn it is, and where a message goes. Holds identities, never sockets."""

from hopwire.model.names import is_actor, is_hub
from hopwire.model.reasons import ROUTING_REASONS as REASONS
from hopwire.routing.decide import HOP_LIMIT, Decision, decide, peek
from hopwire.routing.local import LocalTable
from hopwire.routing.remote import RemoteTable
from hopwire.routing.rewrite import forwarded
from hopwire.routing.routes import RemoteNode, Route
from hopwire.routing.tables import Tables

__all__ = [
    "HOP_LIMIT",
    "REASONS",
    "Decision",
    "LocalTable",
    "RemoteNode",
    "RemoteTable",
    "Route",
    "Tables",
    "decide",
    "forwarded",
    "is_actor",
    "is_hub",
    "peek",
]
