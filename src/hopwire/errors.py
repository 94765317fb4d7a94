"""Every exception that hopwire raises on purpose.

HopwireError                  catch this one to catch them all
├── WireError                 bytes that are not a message, or a message that a format cannot carry
├── PayloadError              a body that is not what its contract promises
├── SecurityError             a message that may not be sent or taken, as far as domains and keys go
│   └── NotInDomain           an identity that no domain, or another domain, owns
└── SettingsError             a setting, a file of settings or an argument that makes no sense

The text of an error is one line: what was found, where, what was expected. The same facts are attributes.
"""

from __future__ import annotations

__all__ = ["HopwireError", "NotInDomain", "PayloadError", "SecurityError", "SettingsError", "WireError"]


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


class SecurityError(HopwireError):
    """A message that may not be sent or taken, as far as domains and keys go."""


class NotInDomain(SecurityError):
    """An identity that no domain, or another domain, owns."""


class SettingsError(HopwireError):
    """A setting, a file of settings or an argument that makes no sense."""
