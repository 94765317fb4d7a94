"""Domains from a table of settings."""

from __future__ import annotations

import json
import tomllib
import traceback
from typing import Any

import pytest

from hopwire.errors import SettingsError
from hopwire.model.units import NS_PER_SECOND
from hopwire.security import OPEN, Domain, Domains, Key, domains_from_table

SECRET = b"0123456789abcdef"
NOT_FOUND = "secret_name was not found; expected where the secret is, not the secret"

TOML = """
[domains.orders]
identities = ["orders.*", "KINO.PING"]
unsigned = ["KINO.PING"]

[[domains.orders.keys]]
id = "2024-06"
secret_name = "ORDERS_KEY"
not_before = 1970-01-01T01:00:01+01:00
not_after = 1970-01-01T00:00:02.000001Z

[[domains.orders.keys]]
id = "2024-01"
secret_base64 = "MDEyMzQ1Njc4OWFiY2RlZg=="

[domains.old]
identities = ["OLD"]
scheme = "legacy"
algorithm = "md5"
keys = [{ id = "only", secret_hex = "41" }]

[domains.open]
identities = ["open.*"]
unsigned = true
"""

DOMAINS = Domains(
    [
        Domain(
            "orders",
            [Key("2024-06", SECRET[::-1], NS_PER_SECOND, 2 * NS_PER_SECOND + 1000), Key("2024-01", SECRET)],
            ["orders.*", "KINO.PING"],
            unsigned=["KINO.PING"],
        ),
        Domain("old", [Key("only", b"A")], ["OLD"], "legacy", "md5"),
        Domain("open", [], ["open.*"], unsigned=["*"]),
    ]
)

NAMED = {"ORDERS_KEY": SECRET[::-1]}


def test_toml_says_all_that_a_domain_can_be() -> None:
    assert domains_from_table(tomllib.loads(TOML), NAMED.__getitem__) == DOMAINS


def test_json_says_the_same_with_times_as_text() -> None:
    table = json.loads(json.dumps(tomllib.loads(TOML), default=lambda time: time.isoformat()))
    assert domains_from_table(table, NAMED.__getitem__) == DOMAINS


def test_signing_can_be_switched_off() -> None:
    assert domains_from_table({"signing": False}) == OPEN
    assert domains_from_table({}) == Domains()


def a_key(**changes: Any) -> dict[str, Any]:
    key = {"id": "k", "secret_hex": SECRET.hex(), **changes}
    return {"domains": {"d": {"keys": [{name: value for name, value in key.items() if value is not None}]}}}


def a_domain(**settings: Any) -> dict[str, Any]:
    return {"domains": {"d": settings}}


# fmt: off
TABLES: list[tuple[Any, str]] = [
    ([],                                "security must be a table, found list"),
    ({"sining": True},                  "security: unknown setting 'sining', expected signing, domains"),
    ({"signing": "yes"},                "security: signing must be true or false, found str"),
    ({"domains": []},                   "security: domains must be a table, found list"),
    ({"domains": {"d": 1}},             "domain 'd' must be a table, found int"),
    (a_domain(sceme="x"),
     "domain 'd': unknown setting 'sceme', expected identities, scheme, algorithm, unsigned, keys"),
    (a_domain(scheme=1),                "domain 'd': scheme must be text, found int"),
    (a_domain(algorithm=None),          "domain 'd': algorithm must be text, found NoneType"),
    (a_domain(unsigned="*"),            "domain 'd': unsigned must be true or false or a list, found str"),
    (a_domain(identities="a"),          "domain 'd': identities must be a list, found str"),
    (a_domain(keys={}),                 "domain 'd': keys must be a list, found dict"),
    (a_domain(),                        "domain 'd': has no key, though not all of it goes unsigned"),
    (a_domain(keys=[SECRET.hex()]),     "domain 'd', key 1 must be a table, found str"),
    (a_key(secret_hex="41"),            "domain 'd': key 'k': the secret is short of the 16 bytes of hopwire-2"),
]

KEYS: list[tuple[dict[str, Any], str]] = [
    ({"secret": SECRET.hex()},
     "unknown setting 'secret', expected id, secret_hex, secret_base64, secret_name, not_before, not_after"),
    ({"secret_hex": None},              "expected one of secret_hex, secret_base64, secret_name, found 0 of them"),
    ({"secret_base64": "AA=="},         "expected one of secret_hex, secret_base64, secret_name, found 2 of them"),
    ({"secret_hex": "0x" + SECRET.hex()}, "secret_hex is not hexadecimal"),
    ({"secret_hex": 7},                 "secret_hex must be text, found int"),
    ({"secret_hex": ""},                "key 'k': the secret must be bytes, at least one"),
    ({"secret_hex": None, "secret_base64": SECRET.decode() + "~"}, "secret_base64 is not base64"),
    ({"secret_hex": None, "secret_base64": "é"},    "secret_base64 is not base64"),
    ({"secret_hex": None, "secret_name": "NONE"},   NOT_FOUND),
    ({"secret_hex": None, "secret_name": "LOUD"},   f"{NOT_FOUND} (ValueError)"),
    ({"secret_hex": None, "secret_name": "TEXT"},   "secret_name gave str, expected bytes"),
    ({"id": None},                      "key id must be text of 1 to 64 bytes, found ''"),
    ({"id": 5},                         "id must be text, found int"),
    ({"not_before": "soon"},            "not_before must be a time with its zone (2024-06-01T00:00:00Z), found 'soon'"),
    ({"not_after": "2024-06-01"},
     "not_after must be a time with its zone (2024-06-01T00:00:00Z), found '2024-06-01'"),
    ({"not_after": 5},                  "not_after must be a time or text, found int"),
    ({"not_before": "2024-06-02T00:00Z", "not_after": "2024-06-01T00:00Z"},
     "key 'k': is never valid, not_before must come before not_after"),
]
# fmt: on

MISTAKES = [*TABLES, *((a_key(**changes), f"domain 'd', key 1: {text}") for changes, text in KEYS)]


def secrets(name: str) -> Any:
    if name == "LOUD":
        raise ValueError(f"bad secret {SECRET.decode()}")
    return {"TEXT": SECRET.decode()}[name]


@pytest.mark.parametrize(("table", "text"), MISTAKES, ids=[text[:70] for _, text in MISTAKES])
def test_a_mistake_is_refused_in_one_line_that_names_its_place_and_no_secret(table: Any, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        domains_from_table(table, secrets)
    assert str(caught.value) == text
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET.decode() not in shown
    assert SECRET.hex() not in shown


def test_a_named_secret_needs_someone_who_knows_it() -> None:
    with pytest.raises(SettingsError, match="key 1: secret_name cannot be looked up, no secrets were passed in"):
        domains_from_table(a_key(secret_hex=None, secret_name="X"))


@pytest.mark.parametrize("secrets", [None, secrets, lambda name: name], ids=["none", "unknown", "text"])
def test_a_secret_that_is_pasted_as_a_name_is_not_repeated(secrets: Any) -> None:
    pasted = "dGhpcyBpcyB0aGUgc2VjcmV0IGl0c2VsZg"
    with pytest.raises(SettingsError) as caught:
        domains_from_table(a_key(secret_hex=None, secret_name=pasted), secrets)
    assert "key 1: secret_name" in str(caught.value)
    assert pasted not in "".join(traceback.format_exception(caught.value))
