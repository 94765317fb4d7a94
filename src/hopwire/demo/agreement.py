"""Two stories of one question: what the asking hub saw of it, and what the lake says of it.

The hub knows only what came back. The lake knows only what nodes wrote down. `AGREES` says which words of the lake fit
to a word of the hub. Hub and lake agree on a question if the lake has exactly one request for it, with a fitting word.

    the hub saw Timeout, the lake says lost              they agree: a hub without an answer cannot know why
    the hub saw Timeout, the lake says answered          they do not agree
    the hub saw answered, the lake says answered twice   they do not agree
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["AGREES", "Disagreement", "disagreements", "is_agreed", "outcomes_by_flow"]

# fmt: off
AGREES: Mapping[str, frozenset[str]] = {
    # the hub saw       the lake may say
    "answered":         frozenset({"answered"}),
    "HandlerFailed":    frozenset({"failed"}),
    "NoRoute":          frozenset({"failed", "lost"}),  # failed: another node sent word of it; lost: it never left home
    "Unreachable":      frozenset({"failed", "lost", "late", "expired"}),  # as NoRoute; or the node was slow, not gone
    "UnexpectedAnswer": frozenset({"failed", "lost"}),  # as NoRoute, of the message that the handler returned
    "Expired":          frozenset({"expired"}),
    "Timeout":          frozenset({"expired", "late", "lost"}),  # a hub without an answer cannot know why
}
# fmt: on
NOTHING = "nothing"


class Disagreement(NamedTuple):
    """A question on which hub and lake do not agree."""

    flow: str
    hub: str
    lake: str


def outcomes_by_flow(requests: Iterable[Mapping[str, Any]], column: str = "flow_id") -> dict[str, list[str]]:
    """Give the outcomes of the rows of gold.requests, by the flow that the column names."""
    outcomes: dict[str, list[str]] = {}
    for row in requests:
        outcomes.setdefault(row[column].decode(errors="replace"), []).append(row["outcome"])
    return outcomes


def is_agreed(seen: str, outcomes: Sequence[str], also: Collection[str] = ()) -> bool:
    """Tell whether what a hub saw fits to what the lake says; `also` are more words that fit this once."""
    return len(outcomes) == 1 and (outcomes[0] in AGREES.get(seen, ()) or outcomes[0] in also)


def disagreements(endings: Mapping[str, str], requests: Iterable[Mapping[str, Any]]) -> list[Disagreement]:
    """Give all questions on which hub and lake do not agree, also those that only one of them knows."""
    outcomes = outcomes_by_flow(requests)
    return [
        Disagreement(flow, endings.get(flow, NOTHING), ", ".join(outcomes.get(flow, ())) or NOTHING)
        for flow in sorted({**endings, **outcomes})
        if not is_agreed(endings.get(flow, NOTHING), outcomes.get(flow, ()))
    ]
