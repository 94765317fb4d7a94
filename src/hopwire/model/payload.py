"""Payloads: what the body of a message means, as a typed value.

A payload is a frozen struct with a contract: an identity, a version and a codec. The partition belongs to the message,
not to the payload; it is chosen when something is sent.

    class Greet(Payload, identity="greeter.greet", version=1):
        name: str

| codec    | the body is                                                                                       |
|----------|---------------------------------------------------------------------------------------------------|
| MSGPACK  | a MessagePack map of the fields; the default                                                      |
| JSON     | a JSON object of the fields                                                                       |
| RAW      | the bytes of the only field                                                                       |
| PROTOBUF | the only field, whose type writes itself by `SerializeToString` and is read by `FromString`       |

Fields that a reader does not know are skipped, fields with a default may be missing: that is how a contract grows
without a new version. No codec runs code that the bytes name; there is no pickle.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar, cast, dataclass_transform, get_type_hints

import msgspec

from hopwire.errors import PayloadError, SettingsError
from hopwire.model.message import Contract

__all__ = ["Codec", "Payload", "PayloadContract", "body_from_payload", "contract_of", "payload_from_body"]

MAX_VERSION = 2**16 - 1  # what V5 and V6 carry
MAX_IDENTITY_BYTES = 255  # long enough for any name, short enough to be repeated in every message
P = TypeVar("P", bound="Payload")


class Codec(StrEnum):
    """How a payload is written into the body of a message."""

    MSGPACK = "msgpack"
    JSON = "json"
    RAW = "raw"
    PROTOBUF = "protobuf"


class PayloadContract(NamedTuple):
    """What a payload class promises."""

    identity: bytes
    version: int
    codec: Codec
    contract: Contract  # with no partition, as most messages have it


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _PayloadMeta(msgspec.StructMeta):
    """Takes the contract out of the class statement."""

    __contract__: PayloadContract | None

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        identity: str | bytes | None = None,
        version: int = 1,
        codec: Codec = Codec.MSGPACK,
        **settings: Any,
    ) -> Any:
        cls = super().__new__(mcls, name, bases, namespace, **{"frozen": True, **settings})
        cls.__contract__ = None if identity is None else _contract(name, identity, version, codec)
        return cls


def _contract(name: str, identity: str | bytes, version: int, codec: Codec) -> PayloadContract:
    raw = identity.encode() if isinstance(identity, str) else identity
    if not isinstance(raw, bytes) or not 1 <= len(raw) <= MAX_IDENTITY_BYTES:
        raise SettingsError(f"{name}: the identity has 1 to {MAX_IDENTITY_BYTES} bytes, found {identity!r:.80}")
    if not isinstance(version, int) or not 0 <= version <= MAX_VERSION:
        raise SettingsError(f"{name}: the version is a number from 0 to {MAX_VERSION}, found {version!r:.80}")
    if codec not in tuple(Codec):
        raise SettingsError(f"{name}: the codec is one of {', '.join(Codec)}, found {codec!r:.80}")
    return PayloadContract(raw, version, Codec(codec), Contract(raw, version, b""))


class Payload(msgspec.Struct, metaclass=_PayloadMeta):
    """A typed body; give a subclass its identity in the class statement, and use it like a dataclass."""

    __contract__: ClassVar[PayloadContract | None]


def contract_of(payload: Payload | type[Payload], partition: bytes = b"") -> Contract:
    """Give what a message with this payload is: identity, version and partition."""
    promised = _promised(payload if isinstance(payload, type) else type(payload))
    return Contract(promised.identity, promised.version, partition) if partition else promised.contract


def _promised(cls: type[Payload]) -> PayloadContract:
    promised: PayloadContract | None = getattr(cls, "__contract__", None)
    if promised is None:
        raise SettingsError(f"{cls.__name__} has no identity: class {cls.__name__}(Payload, identity=...)")
    return promised


def body_from_payload(payload: Payload) -> bytes:
    """Write the body of a message; a PayloadError names the payload that cannot be written."""
    codec = _promised(type(payload)).codec
    try:
        if codec is Codec.MSGPACK:
            return _MSGPACK.encode(payload)
        if codec is Codec.JSON:
            return _JSON.encode(payload)
        value = getattr(payload, _only_field(type(payload)))
        return bytes(value if codec is Codec.RAW else value.SerializeToString())
    except (msgspec.MsgspecError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise PayloadError(f"{type(payload).__name__} cannot be written as {codec}: {_one_line(error)}") from None


def payload_from_body(cls: type[P], body: bytes) -> P:
    """Read the body of a message; a PayloadError says how it breaks the contract."""
    codec = _promised(cls).codec
    try:
        if codec is Codec.MSGPACK:
            return cast(P, _decoder(cls).decode(body))
        if codec is Codec.JSON:
            return msgspec.json.decode(body, type=cls)
        name = _only_field(cls)
        return cls(**{name: body if codec is Codec.RAW else get_type_hints(cls)[name].FromString(body)})
    except SettingsError:
        raise
    except Exception as error:  # a protobuf class raises what it likes
        raise PayloadError(f"{len(body)} bytes are no {cls.__name__} in {codec}: {_one_line(error)}") from None


_MSGPACK = msgspec.msgpack.Encoder()
_JSON = msgspec.json.Encoder()


@cache  # as many as there are payload classes
def _decoder(cls: type[Payload]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(cls)


def _only_field(cls: type[Payload]) -> str:
    names = cls.__struct_fields__
    if len(names) != 1:
        raise SettingsError(f"{cls.__name__} has {len(names)} fields; with its codec it has exactly one")
    return names[0]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
