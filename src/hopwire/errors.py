"""Every exception that hopwire raises on purpose.

HopwireError                  catch this error to catch them all
├── WireError                 bytes that are not a message, or a message that a format cannot carry
├── PayloadError              a body that is not what its contract promises
├── DeliveryError             a message that was not answered, and why
│   ├── NoRoute               no actor takes the message
│   ├── Expired               the time to live of the message ran out on the way
│   ├── Unreachable           the node that had the message is gone
│   ├── QueueFull             there was no room for the message
│   ├── Timeout               nothing came back in time; also a TimeoutError
│   ├── HandlerFailed         the actor that took the message raised an error
│   └── UnexpectedAnswer      the actor returned nothing, or an answer that was not asked for and that nobody takes
├── Closed                    a node or hub that has been stopped
├── StoryStuck                a story of `hopwire.testing` that waits for something that never comes
├── ProcessEnded              a process of an actor that has ended in the middle of a handler
├── Escalated                 a node that stopped because one of its actors had failed
├── SecurityError             a message that may not be sent or taken, as far as domains and keys go
│   └── NotInDomain           an identity that no domain, or another domain, owns
├── CaptureError              a capture that cannot be written or read
├── LakeError                 a lake that cannot be built or read
│   └── BalanceError          rows that got lost or were made up on the way into a table
├── PlaceError                a store of files that cannot be reached, or that refuses
└── SettingsError             a setting, a file of settings or an argument that makes no sense

The text of an error is one line: what was found, where, what was expected. The same facts are attributes.
"""

from __future__ import annotations

__all__ = [
    "BalanceError",
    "CaptureError",
    "Closed",
    "DeliveryError",
    "Escalated",
    "Expired",
    "HandlerFailed",
    "HopwireError",
    "LakeBusy",
    "LakeError",
    "LakeTaken",
    "NoRoute",
    "NotInDomain",
    "PayloadError",
    "PayloadWarning",
    "PlaceError",
    "ProcessEnded",
    "QueueFull",
    "SecurityError",
    "SettingsError",
    "StoryStuck",
    "Timeout",
    "UnexpectedAnswer",
    "Unreachable",
    "WholeNeeded",
    "WireError",
]


class HopwireError(Exception):
    """The root of all errors that hopwire raises on purpose."""


class WireError(HopwireError):
    """Bytes that are not a message, or a message that a format cannot carry.

    `reason` is one of the stable codes of `hopwire.wire.REASONS`. `frame` counts from 0 at the front, `byte` from 0
    within that frame; both are None where no place can be named. `field` is the name of the row in the format's
    table. `detail` says in words what was found and what was expected.
    """

    def __init__(
        self,
        reason: str,
        detail: str = "",
        *,
        frame: int | None = None,
        byte: int | None = None,
        field: str = "",
    ) -> None:
        super().__init__(reason, detail, frame, byte, field)
        self.reason = reason
        self.detail = detail
        self.frame = frame
        self.byte = byte
        self.field = field

    def __str__(self) -> str:
        places = ((self.frame, f"frame {self.frame}"), (self.byte, f"byte {self.byte}"), (self.field, self.field))
        where = ", ".join(text for value, text in places if value not in (None, ""))
        return self.reason + (f" at {where}" if where else "") + (f": {self.detail}" if self.detail else "")


class PayloadError(HopwireError):
    """A body that is not what its contract promises."""


class PayloadWarning(UserWarning):
    """Two payload classes have one identity and version, and different fields."""


class DeliveryError(HopwireError):
    """A message that was not answered; the class says in which way, and `reason` is a stable code.

    `contract` names the message that went no further, in words. `node` is the node where the message ended; empty where
    this node is not known.
    """

    def __init__(self, reason: str, detail: str = "", contract: str = "", node: bytes = b"") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.contract = contract
        self.node = node

    def __reduce__(self) -> tuple[type[DeliveryError], tuple[str, str, str, bytes]]:
        return type(self), (self.reason, self.detail, self.contract, self.node)

    def __str__(self) -> str:
        text = f"{self.reason}: {self.detail}" if self.detail else self.reason
        if text.isprintable():
            return text
        return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)  # another node wrote it


class NoRoute(DeliveryError):
    """No actor takes the message."""


class Expired(DeliveryError):
    """The time to live of the message ran out on the way."""


class Unreachable(DeliveryError):
    """The node that had the message is gone."""


class QueueFull(DeliveryError):
    """There was no room for the message."""


class Timeout(DeliveryError, TimeoutError):
    """Nothing came back in time."""


class HandlerFailed(DeliveryError):
    """The actor that took the message raised an error: `reason` is its type, `detail` its text."""


class UnexpectedAnswer(DeliveryError):
    """The actor that took the message returned nothing, or an answer that was not asked for and that nobody takes."""


class Closed(HopwireError):
    """A node or hub that has been stopped."""


class ProcessEnded(HopwireError):
    """The process that a handler ran in has ended: it was killed, ran out of memory, or could not load the actor."""


class Escalated(HopwireError):
    """A node that stopped because one of its actors had failed: `where`, and the type of the error, its cause."""

    def __init__(self, where: str, error: str) -> None:
        super().__init__(where, error)
        self.where = where
        self.error = error

    def __str__(self) -> str:
        return f"{self.where} failed: {self.error}"


class StoryStuck(HopwireError):
    """A story of `hopwire.testing` that waits for something that never comes."""


class SecurityError(HopwireError):
    """A message that may not be sent or taken, as far as domains and keys go."""


class NotInDomain(SecurityError):
    """An identity that no domain, or another domain, owns."""


class CaptureError(HopwireError):
    """A capture that cannot be written or read."""


class LakeError(HopwireError):
    """A lake that cannot be built or read."""


class BalanceError(LakeError):
    """Rows that got lost or were made up on the way into a table."""


class LakeBusy(LakeError):
    """Another process writes to the lake at this moment."""


class LakeTaken(LakeBusy):
    """Another process follows captures into the lake, and goes on with it."""


class WholeNeeded(LakeError):
    """A change of a lake that no step can make; the lake is judged as a whole then."""


class PlaceError(HopwireError):
    """A store of files that cannot be reached, or that refuses; `reason` is a stable code of `places`."""

    def __init__(self, text: str, reason: str = "refused") -> None:
        super().__init__(text, reason)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class SettingsError(HopwireError):
    """A setting, a file of settings or an argument that makes no sense."""
