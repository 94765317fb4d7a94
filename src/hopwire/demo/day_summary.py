"""What the tables say of a day, beside what the hubs saw of it: rows for a report.

The lake knows nothing but what nodes wrote down; the hubs know only what came back to them. Both must tell the same
story, request by request (`AGREES`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hopwire.cluster.announce import CONTROL
from hopwire.demo.supervisor import Day
from hopwire.demo.trouble import TROUBLES, Trouble, trouble_of
from hopwire.model import contract_of

__all__ = ["AGREES", "DaySummary", "Disagreement", "LinkTraffic", "TroubleMet", "summarise"]

# fmt: off
AGREES: Mapping[str, frozenset[str]] = {
    # the hub saw          what the lake may call it
    "answered":      frozenset({"answered"}),
    "HandlerFailed": frozenset({"failed"}),
    "NoRoute":       frozenset({"failed", "lost"}),             # somebody sent word of it, or it never left home
    "Unreachable":   frozenset({"failed", "lost", "late", "expired"}),  # the same; or the node was slow, and not gone
    "UnexpectedAnswer": frozenset({"failed", "lost"}),          # the same, of what came after it
    "Expired":       frozenset({"expired"}),
    "Timeout":       frozenset({"expired", "late", "lost"}),    # a hub that gets no answer cannot know why
}
# fmt: on
CONTROLS = frozenset(contract_of(each).identity for each in CONTROL)
PERCENTILES = (50, 95, 99)


class LinkTraffic(NamedTuple):
    """What one node sent to another in one format; latencies in microseconds, of what arrived."""

    from_node: str
    to_node: str
    wire_format: int
    sent: int
    lost: int
    p50_us: int | None
    p95_us: int | None
    p99_us: int | None


class TroubleMet(NamedTuple):
    """One kind of trouble: what the hubs saw of it, and how many of its flows the lake shows in which way."""

    name: str
    what: str
    times: int
    seen: dict[str, int]
    shown: dict[str, int]
    is_as_expected: bool


class Disagreement(NamedTuple):
    """A request of which hub and lake tell different stories."""

    flow: str
    hub: str
    lake: str


@dataclass(frozen=True, slots=True)
class DaySummary:
    """Everything that is reported."""

    seconds: float
    endings: dict[str, int]  # of questions, as the hubs saw them
    troubles: list[TroubleMet]
    outcomes: dict[str, int]  # of requests, as the lake sees them
    losses: dict[str, int]  # why requests are lost, as the lake sees it
    differences: list[Disagreement]
    links: list[LinkTraffic]
    control_count: int
    dead_letters: dict[str, int]
    verdicts: dict[str, int]  # of what arrived
    quarantine: dict[str, int]  # of what arrived
    balance: dict[str, int]
    has_lake: bool

    @property
    def is_fine(self) -> bool:
        """Whether hubs and lake agree, the rows add up, and every trouble was found."""
        return not self.differences and self.is_balanced and all(met.is_as_expected for met in self.troubles)

    @property
    def is_balanced(self) -> bool:
        """Whether every row that went in came out somewhere."""
        out = sum(count for name, count in self.balance.items() if name != "rows_in")
        return self.balance.get("rows_in", 0) == out


def summarise(day: Day, lake: Path | None) -> DaySummary:
    """Give the summary of a day; without a lake it has only what the hubs saw."""
    return _with_lake(day, _LakeRows.read(lake)) if lake else _without_lake(day)


def _without_lake(day: Day) -> DaySummary:
    met = [_met(trouble, day.endings, Counter(), False) for trouble in TROUBLES.values()]
    endings = _counts(day.endings.values())
    return DaySummary(day.seconds, endings, met, {}, {}, [], [], 0, {}, {}, {}, {}, False)


class _LakeRows(NamedTuple):
    """The rows of the lake that count here."""

    hops: list[dict[str, Any]]  # without what nodes say to each other by themselves
    control_count: int
    requests: list[dict[str, Any]]
    findings: list[tuple[bytes, str]]
    quarantine: list[dict[str, Any]]
    balance: dict[str, int]

    @classmethod
    def read(cls, lake: Path) -> _LakeRows:
        """Read them, without Spark."""
        from hopwire.lake.store import read_arrow

        hops = read_arrow(lake, "silver.hops", HOP_COLUMNS).to_pylist()
        flows = read_arrow(lake, "gold.flows", ["flow_id", "findings"]).to_pylist()
        said = [hop for hop in hops if hop["identity"] not in CONTROLS]
        quarantine = read_arrow(lake, "silver.quarantine", ["direction", "reason"]).to_pylist()
        return cls(
            said,
            sum(hop["fate"] != "dead" for hop in hops) - sum(hop["fate"] != "dead" for hop in said),
            read_arrow(lake, "gold.requests", ["flow_id", "outcome", "reason"]).to_pylist(),
            [(flow["flow_id"], finding["kind"]) for flow in flows for finding in flow["findings"]],
            [row for row in quarantine if row["direction"] == "in"],
            _balance(read_arrow(lake, "gold.quality").to_pylist()),
        )


HOP_COLUMNS = (
    "flow_id",
    "identity",
    "from_node",
    "to_node",
    "fate",
    "wire_format",
    "verdict",
    "latency_us",
    "dead_reason",
)


def _balance(quality: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    steps = [row for row in quality if row["step"] == "decode"]
    names = ("rows_in", "message_count", "quarantine_count", "skipped_rows")
    return {name: sum(row[name] for row in steps) for name in names}


def _with_lake(day: Day, rows: _LakeRows) -> DaySummary:
    shown = _shown(rows)
    arrived = [hop for hop in rows.hops if hop["fate"] in ("arrived", "unsent", "foreign", "duplicate")]
    return DaySummary(
        seconds=day.seconds,
        endings=_counts(day.endings.values()),
        troubles=[_met(trouble, day.endings, shown[trouble.name], True) for trouble in TROUBLES.values()],
        outcomes=_counts(row["outcome"] for row in rows.requests),
        losses=_counts(row["reason"] for row in rows.requests if row["outcome"] == "lost"),
        differences=_differences(day.endings, rows.requests),
        links=_links(rows.hops),
        control_count=rows.control_count,
        dead_letters=_counts(hop["dead_reason"] for hop in rows.hops if hop["fate"] == "dead"),
        verdicts=_counts(hop["verdict"] for hop in arrived),
        quarantine=_counts(row["reason"] for row in rows.quarantine),
        balance=rows.balance,
        has_lake=True,
    )


def _counts(words: Iterable[str]) -> dict[str, int]:
    """How often there is each word; the most frequent first, and always in the same order."""
    return dict(sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])))


def _shown(rows: _LakeRows) -> dict[str, Counter[str]]:
    """How many flows of each trouble the lake shows in which way."""
    shows = {(row["flow_id"], row["outcome"]) for row in rows.requests}
    shows |= {(hop["flow_id"], hop["verdict"]) for hop in rows.hops if hop["verdict"] == "invalid"}
    shows |= set(rows.findings)
    counts: dict[str, Counter[str]] = {name: Counter() for name in TROUBLES}
    for flow, word in shows:
        if name := trouble_of(flow):
            counts[name][word] += 1
    counts["broken"]["quarantined"] = len(rows.quarantine)
    return counts


def _met(trouble: Trouble, endings: Mapping[str, str], shown: Counter[str], has_lake: bool) -> TroubleMet:
    seen = Counter(ending for flow, ending in endings.items() if trouble_of(flow.encode()) == trouble.name)
    words = {word: shown[word] for word in trouble.shown} if has_lake else {}
    is_found = all(count == trouble.times for count in words.values())
    return TroubleMet(trouble.name, trouble.what, trouble.times, dict(seen), words, is_found)


def _differences(endings: Mapping[str, str], requests: Iterable[Mapping[str, Any]]) -> list[Disagreement]:
    """Where the two stories part, also where one of them does not have a request at all."""
    outcomes: dict[str, list[str]] = {}
    for row in requests:
        outcomes.setdefault(row["flow_id"].decode(errors="replace"), []).append(row["outcome"])
    told = {flow: ", ".join(words) for flow, words in outcomes.items()}
    pairs = [(flow, endings.get(flow, "nothing"), told.get(flow, "nothing")) for flow in {**endings, **told}]
    return [Disagreement(*pair) for pair in sorted(pairs) if pair[2] not in AGREES.get(pair[1], ())]


def _links(hops: Iterable[Mapping[str, Any]]) -> list[LinkTraffic]:
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for hop in hops:
        if hop["fate"] not in ("dead", "duplicate", "foreign"):  # nobody sent these
            key = (hop["from_node"].decode(), hop["to_node"].decode(), hop["wire_format"])
            groups.setdefault(key, []).append(hop)
    links = [LinkTraffic(*key, len(group), _lost(group), *_percentiles(group)) for key, group in groups.items()]
    return sorted(links, key=lambda link: (-link.sent, link))


def _lost(hops: Iterable[Mapping[str, Any]]) -> int:
    return sum(hop["fate"] == "lost" for hop in hops)


def _percentiles(hops: Iterable[Mapping[str, Any]]) -> tuple[int | None, int | None, int | None]:
    latencies = [hop["latency_us"] for hop in hops if hop["latency_us"] is not None]
    if not latencies:
        return None, None, None
    p50, p95, p99 = np.percentile(latencies, PERCENTILES, method="inverted_cdf")
    return int(p50), int(p95), int(p99)
