"""Domains from a file of settings: the table that TOML or JSON gives becomes `Domains`.

    signing = true                            # false: nothing is signed, all that is unsigned is taken

    [domains.orders]
    identities = ["orders.*", "KINO.PING"]
    scheme = "hopwire-2"                      # or "hopwire-1", or "legacy"
    algorithm = "sha256"                      # legacy: md5, sha1, sha256, sha512
    unsigned = false                          # or true, or a list of identities

    [[domains.orders.keys]]                   # the first that is valid signs, all that are valid verify
    id = "2024-06"
    secret_name = "ORDERS_KEY"                # or secret_hex, or secret_base64
    not_before = 2024-06-01T00:00:00Z         # text in JSON; both may be left out
    not_after = 2024-12-01T00:00:00Z

A `secret_name` is looked up by a function of the caller. So secrets can live in files or in the environment, and this
module opens neither. Every mistake is a SettingsError of one line that names its place.

The trap: that line never repeats a value that could be a secret. It does not repeat a `secret_name` either, since users
paste secrets there by mistake. Only the function of the caller may: it raises `SecretMissing` with words that are safe.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from hopwire.errors import SettingsError
from hopwire.model.units import NS_PER_US
from hopwire.security.domains import ALWAYS, NEVER, Domain, Domains, Key
from hopwire.security.schemes import DEFAULT_SCHEME

__all__ = ["SecretMissing", "Secrets", "domains_from_table"]


class SecretMissing(SettingsError):
    """A secret that is not where its name says; the text is safe to show."""


Secrets: TypeAlias = Callable[[str], bytes]

NOT_FOUND = "secret_name was not found; expected where the secret is, not the secret"
_WORDS = {bool: "true or false", str: "text", list: "a list", Mapping: "a table", datetime: "a time"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def domains_from_table(table: Mapping[str, Any], secrets: Secrets | None = None) -> Domains:
    """Build the domains that a table of settings describes; `secrets` gives the secret of a name."""
    _check_names(table, ("signing", "domains"), "security")
    signing = _get(table, "signing", bool, "security", True)
    domains = _get(table, "domains", Mapping, "security", {})
    return Domains([_domain(name, entry, secrets) for name, entry in domains.items()], signing)


def _domain(name: str, table: Any, secrets: Secrets | None) -> Domain:
    where = f"domain {name!r}"
    _check_names(table, ("identities", "scheme", "algorithm", "unsigned", "keys"), where)
    unsigned = _get(table, "unsigned", (bool, list), where, False)
    keys = _get(table, "keys", list, where, [])
    return Domain(
        name,
        [_key(entry, f"{where}, key {place}", secrets) for place, entry in enumerate(keys, start=1)],
        _get(table, "identities", list, where, []),
        _get(table, "scheme", str, where, DEFAULT_SCHEME),
        _get(table, "algorithm", str, where, "sha256"),
        unsigned if isinstance(unsigned, list) else ALWAYS if unsigned else NEVER,
    )


def _key(table: Any, where: str, secrets: Secrets | None) -> Key:
    _check_names(table, ("id", *_SECRETS, "not_before", "not_after"), where)
    given = [name for name in _SECRETS if name in table]
    if len(given) != 1:
        raise SettingsError(f"{where}: expected one of {', '.join(_SECRETS)}, found {len(given)} of them")
    secret = _SECRETS[given[0]](_get(table, given[0], str, where, ""), where, secrets)
    key_id = _get(table, "id", str, where, "")
    not_before_ns, not_after_ns = _time_ns(table, "not_before", where), _time_ns(table, "not_after", where)
    try:
        return Key(key_id, secret, not_before_ns, not_after_ns)
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def _from_hex(text: str, where: str, secrets: Secrets | None) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise SettingsError(f"{where}: secret_hex is not hexadecimal") from None


def _from_base64(text: str, where: str, secrets: Secrets | None) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise SettingsError(f"{where}: secret_base64 is not base64") from None


def _from_name(name: str, where: str, secrets: Secrets | None) -> bytes:
    if secrets is None:
        raise SettingsError(f"{where}: secret_name cannot be looked up, no secrets were passed in")
    try:
        secret = secrets(name)
    except SecretMissing as error:
        raise SettingsError(f"{where}: {error}") from None
    except LookupError:
        raise SettingsError(f"{where}: {NOT_FOUND}") from None
    except Exception as error:  # the caller's function may raise anything; the text could hold the secret
        raise SettingsError(f"{where}: {NOT_FOUND} ({type(error).__name__})") from None
    if not isinstance(secret, bytes):
        raise SettingsError(f"{where}: secret_name gave {type(secret).__name__}, expected bytes")
    return secret


_SECRETS = {"secret_hex": _from_hex, "secret_base64": _from_base64, "secret_name": _from_name}


def _time_ns(table: Mapping[str, Any], name: str, where: str) -> int | None:
    if name not in table:
        return None
    value = _get(table, name, (datetime, str), where, "")
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise SettingsError(
            f"{where}: {name} must be a time with its zone (2024-06-01T00:00:00Z), found {str(value)!r:.80}"
        )
    return (time - _EPOCH) // timedelta(microseconds=1) * NS_PER_US


def _check_names(table: Any, known: Collection[str], where: str) -> None:
    if not isinstance(table, Mapping):
        raise SettingsError(f"{where} must be a table, found {type(table).__name__}")
    for name in table:
        if name not in known:
            raise SettingsError(f"{where}: unknown setting {name!r:.80}, expected {', '.join(known)}")


def _get(table: Mapping[str, Any], name: str, kind: type | tuple[type, ...], where: str, default: Any) -> Any:
    value = table.get(name, default)
    if not isinstance(value, kind):
        expected = " or ".join(_WORDS[each] for each in (kind if isinstance(kind, tuple) else (kind,)))
        raise SettingsError(f"{where}: {name} must be {expected}, found {type(value).__name__}")
    return value
