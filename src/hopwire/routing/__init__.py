"""Routing: who can be reached, whose turn it is, and where a message goes. The room holds identities, never sockets."""

from hopwire.model.names import is_actor, is_hub
from hopwire.model.reasons import ROUTING_REASONS as REASONS
from hopwire.routing.choosing import MOST_KEPT, Moved
from hopwire.routing.decide import HOP_LIMIT, Decision, decide, forwarded, peek
from hopwire.routing.route_tables import LocalTable, RemoteNode, RemoteTable, Route, Tables
from hopwire.routing.turns import MOST_TURNS, Candidates

__all__ = [
    "HOP_LIMIT",
    "MOST_KEPT",
    "MOST_TURNS",
    "REASONS",
    "Candidates",
    "Decision",
    "LocalTable",
    "Moved",
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
