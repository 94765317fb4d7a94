"""Who may say what: domains, their keys, and the identities that belong to them.

A domain is a name, some keys, and the identities of the messages that the domain may send, in any version and any
partition. An identity is exact (`"KINO.PING"`), or a prefix that ends in a star (`"orders.*"`). An identity belongs to
one domain at most.

| question | answer |
|---|---|
| which key signs | of the keys that are valid at the time, the first in the order given |
| which keys verify | all that are valid at the time; a rotation adds the new key everywhere, then puts the key first |
| when is a key valid | `not_before_ns <= time < not_after_ns`; a bound that is None does not bind |
| who says what became of a question | the domain of the question, or of its answer: see `proofs.py` |
| what may go unsigned | nothing, unless named: by `unsigned`, by ALWAYS, by `Domains(signing=False)` |

The trap: text that shows a secret. Only `Key.secret` holds a secret; no repr and no error may show it. Keys can be
pickled, because workers need them: a pickle of a key is as secret as the key.

The schemes and algorithms that a domain may choose stand in the table of `schemes.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hmac import compare_digest

from hopwire.errors import NotInDomain, SettingsError
from hopwire.model.names import DEMAND, ENOUGH, OUTCOME
from hopwire.security.patterns import Identity, is_covered, is_prefix, patterns_from, shown, stem, utf8
from hopwire.security.schemes import DEFAULT_SCHEME, MAX_KEY_ID_BYTES, SCHEMES

__all__ = ["ALWAYS", "NEVER", "OPEN", "Domain", "Domains", "Key"]

MAX_SHOWN = 20  # characters of a scheme or an algorithm that is none
NEVER: tuple[Identity, ...] = ()
ALWAYS: tuple[Identity, ...] = ("*",)
ABOUT_QUESTIONS = frozenset((OUTCOME, DEMAND, ENOUGH))  # what nodes say about a question of any domain


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """A secret with an id, and the time in which the secret is valid."""

    id: str
    secret: bytes = field(repr=False)
    not_before_ns: int | None = None
    not_after_ns: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip() or len(utf8(self.id, "key id")) > MAX_KEY_ID_BYTES:
            raise SettingsError(f"key id must be text of 1 to {MAX_KEY_ID_BYTES} bytes, found {self.id!r:.80}")
        if not isinstance(self.secret, bytes) or not self.secret:
            raise SettingsError(f"key {self.id!r}: the secret must be bytes, at least one")
        if self.not_before_ns is not None and self.not_after_ns is not None and self.not_before_ns >= self.not_after_ns:
            raise SettingsError(f"key {self.id!r}: is never valid, not_before must come before not_after")

    def is_valid_at(self, at_ns: int | None) -> bool:
        """Tell whether the key may be used at a time; where no time is known (None), the key may be used."""
        if at_ns is None:
            return True
        has_begun = self.not_before_ns is None or self.not_before_ns <= at_ns
        return has_begun and (self.not_after_ns is None or at_ns < self.not_after_ns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return self._public == other._public and compare_digest(self.secret, other.secret)

    def __hash__(self) -> int:
        return hash(self._public)

    @property
    def _public(self) -> tuple[str, int | None, int | None]:
        return self.id, self.not_before_ns, self.not_after_ns


@dataclass(frozen=True, slots=True, init=False)
class Domain:
    """A name, its keys, and the identities of the messages that the domain may send."""

    name: str
    keys: tuple[Key, ...]
    identities: tuple[bytes, ...]
    scheme: str
    algorithm: str
    unsigned: tuple[bytes, ...]

    def __init__(
        self,
        name: str,
        keys: Iterable[Key] = (),
        identities: Iterable[Identity] = (),
        scheme: str = DEFAULT_SCHEME,
        algorithm: str = "sha256",
        unsigned: Iterable[Identity] = NEVER,
    ) -> None:
        if not isinstance(name, str) or not name.strip() or not utf8(name, "domain name"):
            raise SettingsError(f"domain name must be text that is not blank, found {name!r:.80}")
        where = f"domain {name!r}"
        keys = tuple(keys)
        if not all(isinstance(key, Key) for key in keys):
            raise SettingsError(f"{where}: keys must be a list of keys")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "identities", patterns_from(identities, f"{where}: identities"))
        object.__setattr__(self, "scheme", scheme)
        object.__setattr__(self, "algorithm", algorithm)
        object.__setattr__(self, "unsigned", patterns_from(unsigned, f"{where}: unsigned"))
        if fault := next(self._faults(), None):
            raise SettingsError(f"{where}: {fault}")

    def _faults(self) -> Iterator[str]:
        if self.scheme not in SCHEMES:
            yield f"unknown scheme{_if_short(self.scheme)}, expected {_one_of(SCHEMES)}"
        scheme = SCHEMES[self.scheme]
        if self.algorithm not in scheme.algorithms:
            found = f"unknown algorithm{_if_short(self.algorithm)} in {self.scheme}"
            yield f"{found}, expected {_one_of(scheme.algorithms)}"
        if not self.keys and b"*" not in self.unsigned:
            yield "has no key, though not all of it goes unsigned"
        if twice := _first_twice(key.id for key in self.keys):
            yield f"has two keys with the id {twice!r}"
        for key in self.keys:
            if len(key.secret) < scheme.min_secret_bytes:
                yield f"key {key.id!r}: the secret is short of the {scheme.min_secret_bytes} bytes of {self.scheme}"
        for pattern in self.unsigned:
            if pattern != b"*" and not is_covered(pattern, self.identities):
                yield f"unsigned {shown(pattern)} is not among its identities"

    def key_at(self, at_ns: int | None) -> Key | None:
        """Give the key that signs at a time, or None."""
        return next(iter(self.keys_at(at_ns)), None)

    def keys_at(self, at_ns: int | None, key_id: str | None = None) -> list[Key]:
        """Give the keys that verify at a time, in their order; with `key_id` only the key of that id."""
        return [key for key in self.keys if (key_id is None or key.id == key_id) and key.is_valid_at(at_ns)]

    def allows_unsigned(self, identity: bytes) -> bool:
        """Tell whether an identity of this domain goes without a signature."""
        return is_covered(identity, self.unsigned)


@dataclass(frozen=True, slots=True, init=False)
class Domains:
    """All domains of a node or of a run; no identity belongs to two domains.

    >>> orders = Domain("orders", [Key("2024", b"sixteen or more bytes")], ["orders.*"])
    >>> Domains([orders]).domain_of(b"orders.new").name
    'orders'
    """

    domains: tuple[Domain, ...]
    signing: bool
    _names: dict[str, Domain] = field(init=False, repr=False, compare=False)
    _exact: dict[bytes, Domain] = field(init=False, repr=False, compare=False)
    _prefixes: dict[bytes, Domain] = field(init=False, repr=False, compare=False)
    _lengths: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __init__(self, domains: Iterable[Domain] = (), signing: bool = True) -> None:
        domains = tuple(domains)
        if twice := _first_twice(domain.name for domain in domains):
            raise SettingsError(f"two domains have the name {twice!r}")
        object.__setattr__(self, "domains", domains)
        object.__setattr__(self, "signing", signing)
        object.__setattr__(self, "_names", {domain.name: domain for domain in domains})
        object.__setattr__(self, "_exact", {})
        object.__setattr__(self, "_prefixes", {})
        claims = [(domain, pattern) for domain in domains for pattern in domain.identities]
        for domain, pattern in claims:
            index = self._prefixes if is_prefix(pattern) else self._exact
            _refuse_two(pattern, domain, index.setdefault(stem(pattern), domain))
        object.__setattr__(self, "_lengths", tuple(sorted({len(prefix) for prefix in self._prefixes})))
        for domain, pattern in claims:
            _refuse_two(pattern, domain, self._owner_of_prefix(stem(pattern)) or domain)

    def get(self, name: str) -> Domain | None:
        """Give the domain of that name, or None."""
        return self._names.get(name)

    def find(self, identity: bytes) -> Domain | None:
        """Give the domain that an identity belongs to, or None."""
        domain = self._exact.get(identity)
        return self._owner_of_prefix(identity) if domain is None else domain

    def domain_of(self, identity: bytes) -> Domain:
        """Give the domain that an identity belongs to, or raise NotInDomain."""
        domain = self.find(identity)
        if domain is None:
            raise NotInDomain(f"identity {shown(identity)} belongs to no domain")
        return domain

    def owner(self, name: str, identity: bytes) -> Domain | None:
        """Give the domain that may say an identity under a name: the one that it belongs to.

        What is said about a question (`ABOUT_QUESTIONS`) may be said by any domain whose signatures cover the question;
        whoever waits for an answer asks which.
        """
        named, domain = self._names.get(name), self.find(identity)
        if named is None or named is domain or identity not in ABOUT_QUESTIONS:
            return domain
        speaks = bool(named.keys) and SCHEMES[named.scheme].has_stamp and not named.allows_unsigned(identity)
        return named if speaks else domain

    def allows_unsigned(self, identity: bytes) -> bool:
        """Tell whether an identity goes without a signature."""
        domain = self.find(identity)
        return not self.signing or (domain is not None and domain.allows_unsigned(identity))

    def _owner_of_prefix(self, identity: bytes) -> Domain | None:
        for length in self._lengths:
            domain = self._prefixes.get(identity[:length])
            if domain is not None:
                return domain
        return None


def _refuse_two(pattern: bytes, domain: Domain, owner: Domain) -> None:
    if owner is not domain:
        raise SettingsError(f"identity {shown(pattern)} belongs to domain {owner.name!r} and to domain {domain.name!r}")


def _first_twice(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _if_short(word: object) -> str:
    """Give a word that is wrong; a long one may be a secret in the wrong place, and is not shown."""
    return f" {word!r}" if len(repr(word)) <= MAX_SHOWN else ""


def _one_of(names: Iterable[str]) -> str:
    return " or ".join(sorted(names))


OPEN = Domains(signing=False)  # no domains, no signatures: for networks that trust everybody who can reach them
