"""Bodies of messages as JSON, where the payload of the contract is known.

    read(LAKE, "messages", "pandas", payloads=[Order, Paid])
    hopwire lake sql "select body ->> '$.article' from messages" LAKE --payloads shop.actors

A body says nothing of its fields by itself. Whoever reads the lake names the payload classes, or a module that has
them. A message belongs to the class with its identity and version. Two columns stand beside the message then:

| column | value |
|---|---|
| `body` | the payload as JSON text; null where no class is named for the contract, or the body cannot be read |
| `body_fault` | why a body cannot be read by the class of its contract; else null |

Bytes within a payload are base64 in JSON. V3 and V4 write a version as text: version 1 is `1`. Bodies are read when
somebody asks for them, and are not stored: a class that was mended reads all old bodies anew.

A body is data of others. The class decodes it as a node would; nothing in a body names code, and no body is evaluated.
The module that a user names is code of the user, and is imported as `hopwire node` imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from hopwire.errors import PayloadError, SettingsError
from hopwire.model import Payload, contract_of, payload_from_body
from hopwire.report.words import cut

__all__ = ["BODY_COLUMNS", "NEEDED", "Readers", "payloads_in", "readers_of", "with_bodies"]

BODY_COLUMNS = ("body", "body_fault")
NEEDED = ("identity", "version", "version_raw", "body_frames")  # columns of messages that bodies are read from
FAULT_LENGTH = 300

Readers: TypeAlias = Mapping[tuple[bytes, str], type[Payload]]  # by identity and version, as text


def readers_of(payloads: Iterable[type[Payload]]) -> Readers:
    """Give payload classes by their contracts; two classes of one contract are refused."""
    found: dict[tuple[bytes, str], type[Payload]] = {}
    for each in payloads:
        if not (isinstance(each, type) and issubclass(each, Payload)):
            raise SettingsError(f"payloads: found {each!r:.80}, expected a class of payloads")
        contract = contract_of(each)
        other = found.setdefault((contract.identity, str(contract.version)), each)
        if other is not each:
            raise SettingsError(f"payloads: {other.__name__} and {each.__name__} have the same identity and version")
    return found


def payloads_in(module: str, directory: str = "") -> list[type[Payload]]:
    """Give the payload classes that a module has, also those it imports; modules in the directory are found too."""
    if directory and directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        values = vars(import_module(module)).values()
    except Exception as error:  # code of the user: whatever it raises is told in one line
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SettingsError(f"--payloads {module!r:.80}: cannot be imported ({cut(reason, FAULT_LENGTH)})") from error
    found = [each for each in values if isinstance(each, type) and issubclass(each, Payload)]
    named = [each for each in found if getattr(each, "__contract__", None) is not None]
    if not named:
        raise SettingsError(f"--payloads {module!r:.80}: has no payload class with an identity")
    return list(dict.fromkeys(named))


def with_bodies(rows: pa.Table | pa.RecordBatch, readers: Readers) -> tuple[pa.Array, pa.Array]:
    """Give the columns `body` and `body_fault` of messages."""
    bodies: list[str | None] = []
    faults: list[str | None] = []
    columns = (rows[name].to_pylist() for name in NEEDED)
    for identity, version, version_raw, frames in zip(*columns, strict=True):
        known = readers.get((identity, _version_text(version, version_raw)))
        body, fault = (None, None) if known is None else _read(known, b"".join(frames or ()))
        bodies.append(body)
        faults.append(fault)
    return pa.array(bodies, pa.string()), pa.array(faults, pa.string())


def _version_text(version: int | None, version_raw: bytes | None) -> str:
    return str(version) if version is not None else (version_raw or b"").decode("ascii", "replace")


def _read(kind: type[Payload], body: bytes) -> tuple[str | None, str | None]:
    try:
        return msgspec.json.encode(payload_from_body(kind, body), enc_hook=_plain).decode(), None
    except (PayloadError, msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        return None, cut(" ".join(str(error).split()) or type(error).__name__, FAULT_LENGTH)


def _plain(value: Any) -> Any:
    """Give a value that JSON does not know: a message of protobuf by its fields, all else by its text."""
    fields: Callable[[], Any] | None = getattr(value, "ListFields", None)
    if fields is not None:
        return {field.name: list(each) if field.is_repeated else each for field, each in fields()}
    return str(value)
