"""What may cross the border to a partner network: a list for one direction.

An entry is the name of a domain, which stands for all identities of the domain, or a pattern of identities as domains
have them: `"orders.*"`, `"billing.charge"`. Identities of the nodes themselves never cross, whatever a list says: no
partner is asked for its status, or says a control message to a member.
"""

from __future__ import annotations

from collections.abc import Iterable

from hopwire.errors import SettingsError
from hopwire.model.names import KINO_PREFIX, OWN_PREFIX
from hopwire.security.domains import Domains
from hopwire.security.patterns import is_covered, patterns_from

__all__ = ["AllowList"]

MOST_ENTRIES = 1000  # each is looked at for each contract
NEVER_CROSS = (OWN_PREFIX, KINO_PREFIX)


class AllowList:
    """The identities that may cross in one direction."""

    __slots__ = ("entries", "patterns")

    def __init__(self, entries: Iterable[str], domains: Domains, where: str = "an allow-list") -> None:
        if isinstance(entries, str | bytes):
            raise SettingsError(f"{where} is a list of domains or identities, found {entries!r:.80}")
        self.entries = tuple(entries)
        if len(self.entries) > MOST_ENTRIES:
            raise SettingsError(f"{where} has {len(self.entries)} entries, the limit is {MOST_ENTRIES}")
        for entry in self.entries:
            if not isinstance(entry, str):
                raise SettingsError(f"{where} is a list of domains or identities, found {entry!r:.80} in it")
        named = {entry: domains.get(entry) for entry in self.entries}
        owned = [pattern for domain in named.values() if domain is not None for pattern in domain.identities]
        others = patterns_from([entry for entry, domain in named.items() if domain is None], where)
        self.patterns: tuple[bytes, ...] = (*others, *patterns_from(owned, where))

    def allows(self, identity: bytes) -> bool:
        """Tell whether messages of an identity may cross."""
        return not identity.startswith(NEVER_CROSS) and is_covered(identity, self.patterns)
