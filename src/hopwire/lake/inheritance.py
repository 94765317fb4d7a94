"""What flows that are gone have proved, and verdicts on other flows still look at.

A verdict looks at its own flow and at who was looking when; these stay as they are when old flows leave. Three things
come from other flows, and are written down when those leave:

| known from flows that are gone | who looks at it |
|---|---|
| how wrong the clocks were up to the last window before the limit | corrected times: clocks are folded on from there |
| their crossings in later windows: a clock that is ahead shows such times | the same |
| which contracts somebody answered | the finding `unknown_version` |
| which identities were signed | unsigned messages in gold.security |
"""

from __future__ import annotations

import msgspec

from hopwire.errors import LakeError
from hopwire.flows.clocks import ClockFold, FoldParts
from hopwire.flows.crossings import Crossing
from hopwire.flows.findings import Contract
from hopwire.lake.manifest import Manifest

__all__ = ["Inherited", "inherited_of"]


class Inherited(msgspec.Struct, frozen=True):
    """What is known from flows that are gone."""

    base: FoldParts = ClockFold().parts()
    answered: list[Contract] = []
    signed: list[bytes] = []
    later: list[Crossing] = []  # of windows after those of the base

    @property
    def fold(self) -> ClockFold:
        """The clocks as far as crossings are gone."""
        return ClockFold.from_parts(self.base).copy()

    def to_bytes(self) -> bytes:
        """Give it as a manifest has it."""
        return msgspec.msgpack.encode(self)


def inherited_of(manifest: Manifest) -> Inherited:
    """Give what a manifest says of flows that are gone."""
    if not manifest.removal.inherited:
        return Inherited()
    try:
        return msgspec.msgpack.decode(manifest.removal.inherited, type=Inherited)
    except (msgspec.MsgspecError, TypeError, RecursionError):
        raise LakeError("the manifest does not say what expired flows have proved; build the lake anew") from None
