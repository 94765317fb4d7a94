"""What is said to the producer of a stream of answers, and how far a producer may be ahead."""

from __future__ import annotations

from hopwire.model import Payload, names

__all__ = ["NO_MORE", "WINDOW_BYTES", "WINDOW_PARTS", "Demand", "Enough"]

WINDOW_PARTS = 32  # on the way: enough that a stream does not wait for the round trip of each part
WINDOW_BYTES = 1024 * 1024  # on the way, and one part more
NO_MORE = -1  # instead of a number of parts


class Demand(Payload, identity=names.DEMAND.decode(), version=1):
    """How much of a stream was taken since its start, or that nobody takes more."""

    parts: int
    size_bytes: int = 0


class Enough(Payload, identity=names.ENOUGH.decode(), version=1):
    """Whoever asked for a stream has all that was wanted, before the end of the stream."""

    parts: int  # that were taken
