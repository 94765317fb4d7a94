"""Who can be reached: receivers here, receivers on other nodes, and an index of both by contract.

    tables.local        receiver -> contract -> flag       the truth about here
    tables.remote       node -> receiver -> contracts      what other nodes announced
    tables.candidates   contract -> actors, nodes          who takes turns; derived from both

The tables are one mutable object with one owner: the thread that decides is the thread that registers, and nobody else
reads them. Persistent tables would let others read, and slow down every lookup and registration for it; a reader
elsewhere asks the owner for routes, which are values.

Rules:
- Every operation is idempotent. It tells what changed, so that the caller announces that and no more.
- Whatever the order of operations, the tables equal tables built afresh from what is registered now.
- A lookup and a registration cost the same at one route and at a million; removing costs what is removed.

What an operation on one side writes into `candidates`, its opposite takes out; they change together.
"""

from __future__ import annotations

from hopwire.model import Contract
from hopwire.routing.local import LocalTable
from hopwire.routing.remote import RemoteTable
from hopwire.routing.routes import Route
from hopwire.routing.turns import CandidateIndex

__all__ = ["Tables"]


class Tables:
    """All routes that one node knows.

    >>> tables = Tables()
    >>> [route.receiver for route in tables.local.register(b"\\1greeter", [Contract(b"greet", 1, b"")])]
    [b'\\x01greeter']
    """

    __slots__ = ("candidates", "local", "remote")

    def __init__(self) -> None:
        self.candidates = CandidateIndex()
        self.local = LocalTable(self.candidates)
        self.remote = RemoteTable(self.candidates)

    def handlers_of(self, contract: Contract) -> list[Route]:
        """Give every route to an actor that handles a contract, those here first."""
        return self.local.handlers_of(contract) + self.remote.handlers_of(contract)
