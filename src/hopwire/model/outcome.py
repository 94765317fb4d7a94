"""The outcome of a message that gets no answer, as nodes send it over the wire and the lake reads it."""

from __future__ import annotations

from hopwire.model import names
from hopwire.model.payload import Payload

__all__ = ["Outcome"]


class Outcome(Payload, identity=names.OUTCOME.decode(), version=1, omit_defaults=True):
    """What became of a message, sent to the hub that waits for the answer: `failed`, `undelivered`, `received`, or
    `ended` for a stream that came to its end."""

    kind: str
    reason: str = ""
    detail: str = ""
    contract: str = ""  # of that message, in words; further along in a flow it is another message than the question
    node: bytes = b""  # the node that sends the outcome
