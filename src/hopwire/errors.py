"""Every exception that hopwire raises on purpose.

HopwireError                  catch this one to catch them all
├── WireError                 bytes that are not a message, or a message that a format cannot carry
├── PayloadError              a body that is not what its contract promises
├── DeliveryError             a message that was not answered, and why
│   ├── NoRoute               nobody takes it
│   ├── Expired               its time to live ran out on the way
│   ├── Unreachable           the node that had it is gone
│   ├── QueueFull             there was no room for it
│   ├── Timeout              nothing came back in time
│   └── HandlerFailed         the actor that took it raised an error
├── Closed                    a node or hub that has been stopped
├── SecurityError             a message that may not be sent or taken, as far as domains and keys go
│   └── NotInDomain           an identity that no domain, or another domain, owns
├── CaptureError              a capture that cannot be written or read
├── LakeError                 a lake that cannot be built or read
│   └── BalanceError          rows that got lost or were made up on the way into a table
└── SettingsError             a setting, a file of settings or an argument that makes no sense

The text of an error is one line: what was found, where, what was expected. The same facts are attributes.
"""

from __future__ import annotations

__all__ = [
    "BalanceError",
    "CaptureError",
    "Closed",
    "DeliveryError",
    "Expired",
    "HandlerFailed",
    "HopwireError",
    "LakeError",
    "NoRoute",
    "NotInDomain",
    "PayloadError",
    "QueueFull",
    "SecurityError",
    "SettingsError",
    "Timeout",
    "Unreachable",
    "WireError",
]


class HopwireError(Exception):
    """The root of all errors that hopwire raises on purpose."""


class WireError(HopwireError):
    """Bytes that are not a message, or a message that a format cannot carry.

    `reason` is one of the stable codes of `hopwire.wire.REASONS`. `frame` counts from 0 at the front, `byte` from 0
    within that frame; both are None where no place can be named. `field` is the name of the row in the format's
    table, `detail` says in words what was found and what was expected.
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


class DeliveryError(HopwireError):
    """A message that was not answered; `reason` is a stable code, the class says what kind it is."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class NoRoute(DeliveryError):
    """Nobody takes the message."""


class Expired(DeliveryError):
    """The time to live of the message ran out on the way."""


class Unreachable(DeliveryError):
    """The node that had the message is gone."""


class QueueFull(DeliveryError):
    """There was no room for the message."""


class Timeout(DeliveryError):
    """Nothing came back in time."""


class HandlerFailed(DeliveryError):
    """The actor that took the message raised an error: `reason` is its type, `detail` its text."""


class Closed(HopwireError):
    """A node or hub that has been stopped."""


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


class SettingsError(HopwireError):
    """A setting, a file of settings or an argument that makes no sense."""
