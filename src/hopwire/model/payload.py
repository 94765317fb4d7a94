"""Payloads: what the body of a message means, as a typed value.

A payload is a frozen struct with a contract: an identity, a version and a codec. The partition belongs to the message,
not to the payload, and is chosen when the payload is sent.

    class Greet(Payload, identity="greeter.greet", version=1):
        name: str

| codec    | the body is                                                                                       |
|----------|---------------------------------------------------------------------------------------------------|
| MSGPACK  | a MessagePack map of the fields; the default                                                      |
| JSON     | a JSON object of the fields                                                                       |
| RAW      | the bytes of the only field                                                                       |
| PROTOBUF | the only field, whose type writes itself by `SerializeToString` and is read by `FromString`       |

A reader skips fields that it does not know, and fields with a default may be missing. So a contract can grow without a
new version. No codec runs code that the bytes name; there is no pickle.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar, cast, dataclass_transform, get_type_hints

import msgspec

from hopwire.errors import PayloadError, SettingsError
from hopwire.model.message import Contract

__all__ = [
    "Codec",
    "Payload",
    "PayloadContract",
    "body_from_payload",
    "check_readable",
    "contract_of",
    "payload_from_body",
]

MAX_VERSION = 2**16 - 1  # what V5 and V6 carry
MAX_IDENTITY_BYTES = 255  # long enough for any name, short enough to be repeated in every message
P = TypeVar("P", bound="Payload")


class Codec(StrEnum):
    """How a payload is written into the body of a message."""

    MSGPACK = "msgpack"
    JSON = "json"
    RAW = "raw"
    PROTOBUF = "protobuf"


Write: TypeAlias = Callable[[Any], bytes]
Read: TypeAlias = Callable[[bytes], Any]


class PayloadContract(NamedTuple):
    """What a payload class promises."""

    identity: bytes
    version: int
    codec: Codec
    contract: Contract  # with no partition, as most messages have it
    write: Write
    read: Read


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
        cls.__contract__ = None if identity is None else _contract(cls, identity, version, codec)
        return cls


def _contract(cls: Any, identity: str | bytes, version: int, codec: Codec) -> PayloadContract:
    name = cls.__name__
    raw = identity.encode() if isinstance(identity, str) else identity
    if not isinstance(raw, bytes) or not 1 <= len(raw) <= MAX_IDENTITY_BYTES:
        raise SettingsError(f"{name}: the identity has 1 to {MAX_IDENTITY_BYTES} bytes, found {identity!r:.80}")
    if not isinstance(version, int) or not 0 <= version <= MAX_VERSION:
        raise SettingsError(f"{name}: the version is a number from 0 to {MAX_VERSION}, found {version!r:.80}")
    if codec not in tuple(Codec):
        raise SettingsError(f"{name}: the codec is one of {', '.join(Codec)}, found {codec!r:.80}")
    write, read = _CODECS[Codec(codec)][0], _first_reader(cls, Codec(codec))
    return PayloadContract(raw, version, Codec(codec), Contract(raw, version, b""), write, read)


class Payload(msgspec.Struct, metaclass=_PayloadMeta):
    """A typed body. A subclass gets its identity in the class statement, and is used like a dataclass."""

    __contract__: ClassVar[PayloadContract | None]


def contract_of(payload: Payload | type[Payload], partition: bytes = b"") -> Contract:
    """Give the contract of a message with this payload: identity, version and partition."""
    promised: PayloadContract | None = getattr(payload, "__contract__", None)
    if promised is None:
        raise _no_contract(payload if isinstance(payload, type) else type(payload))
    return Contract(promised.identity, promised.version, partition) if partition else promised.contract


def body_from_payload(payload: Payload) -> bytes:
    """Write the body of a message; a PayloadError names the payload that cannot be written."""
    try:
        return payload.__contract__.write(payload)  # type: ignore[union-attr] # a contract of None is an error below
    except Exception as error:  # a protobuf class may raise anything
        if isinstance(payload, type):
            raise SettingsError(f"expected an instance of {payload.__name__}, found the class itself") from None
        raise _refusal(type(payload), "cannot be written", error) from None


def payload_from_body(cls: type[P], body: bytes) -> P:
    """Read the body of a message; a PayloadError says how the body breaks the contract."""
    try:
        return cast(P, cls.__contract__.read(body))  # type: ignore[union-attr]
    except Exception as error:
        raise _refusal(cls, f"cannot be read from {len(body)} bytes", error) from None


def _refusal(cls: type, what: str, error: Exception) -> Exception:
    promised: PayloadContract | None = getattr(cls, "__contract__", None)
    if promised is None:
        return _no_contract(cls)
    if isinstance(error, SettingsError):
        return error
    return PayloadError(f"{cls.__name__} {what} as {promised.codec}: {_one_line(error)}")


def check_readable(cls: type[Payload]) -> None:
    """Refuse a payload class that can never be read from a body, such as a class with codec RAW and two fields."""
    _CODECS[cls.__contract__.codec][1](cls)  # type: ignore[union-attr]


def _no_contract(cls: type) -> SettingsError:
    what = "has no identity" if issubclass(cls, Payload) else "is no payload"
    return SettingsError(f"{cls.__name__} {what}: class {cls.__name__}(Payload, identity=...)")


# -- the codecs: how a class is written, and how it is read

_MSGPACK = msgspec.msgpack.Encoder()
_JSON = msgspec.json.Encoder()


def _read_msgpack(cls: type[Payload]) -> Read:
    return msgspec.msgpack.Decoder(cls).decode


def _read_json(cls: type[Payload]) -> Read:
    return msgspec.json.Decoder(cls).decode


def _write_raw(payload: Payload) -> bytes:
    return bytes(getattr(payload, _only_field(type(payload))))


def _read_raw(cls: type[Payload]) -> Read:
    name = _only_field(cls)
    return lambda body: cls(**{name: body})


def _write_protobuf(payload: Payload) -> bytes:
    return bytes(getattr(payload, _only_field(type(payload))).SerializeToString())


def _read_protobuf(cls: type[Payload]) -> Read:
    name = _only_field(cls)
    read = get_type_hints(cls)[name].FromString
    return lambda body: cls(**{name: read(body)})


_CODECS: dict[Codec, tuple[Write, Callable[[type[Payload]], Read]]] = {
    Codec.MSGPACK: (_MSGPACK.encode, _read_msgpack),
    Codec.JSON: (_JSON.encode, _read_json),
    Codec.RAW: (_write_raw, _read_raw),
    Codec.PROTOBUF: (_write_protobuf, _read_protobuf),
}


def _first_reader(cls: type[Payload], codec: Codec) -> Read:
    """Make the reader at the first message, since annotations may name classes that are defined later."""

    def read(body: bytes) -> Any:
        made = _CODECS[codec][1](cls)
        assert cls.__contract__ is not None
        cls.__contract__ = cls.__contract__._replace(read=made)
        return made(body)

    return read


def _only_field(cls: type[Payload]) -> str:
    names = cls.__struct_fields__
    if len(names) != 1:
        raise SettingsError(f"{cls.__name__} has {len(names)} fields; with its codec it has exactly one")
    return names[0]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
