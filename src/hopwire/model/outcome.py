"""What became of a message that gets no answer, as nodes say so on the wire and the lake reads it there."""

from __future__ import annotations

from hopwire.model import names
from hopwire.model.payload import Payload

__all__ = ["Outcome"]


class Outcome(Payload, identity=names.OUTCOME.decode(), version=1, omit_defaults=True):
    """What became of a message, said to whoever waits for it: `failed`, `undelivered` or `received`."""

    kind: str
    reason: str = ""
    detail: str = ""
    contract: str = ""  # of the message, in words: it may be another than the question, further along in the flow
    node: bytes = b""  # that says so
