"""What the tables of the lake say of a day, beside what the hubs saw: rows for a report.

The lake and the hubs must tell the same story of every question; `agreement.py` compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hopwire.cluster.announce import CONTROL
from hopwire.cluster.gossip import GOSSIP
from hopwire.demo.agreement import Disagreement, disagreements
from hopwire.demo.supervisor import Day
from hopwire.demo.trouble import TROUBLES, Trouble, trouble_of
from hopwire.flows.schemas import NO_CROSSINGS
from hopwire.model import contract_of
from hopwire.report.jsonable import jsonable
from hopwire.report.words import text_or_hex

__all__ = ["DaySummary", "LinkTraffic", "TroubleMet", "summarise", "summary_to_json"]

CONTROLS = frozenset(contract_of(each).identity for each in (*CONTROL, *GOSSIP))
PERCENTILES = (50, 95, 99)
ARRIVED = ("arrived", "unsent", "foreign", "duplicate")  # fates of hops that came to a node
NOT_SENT = (*NO_CROSSINGS, "duplicate", "foreign")  # fates of hops that no node sent
BALANCE = ("rows_in", "message_count", "quarantine_count", "skipped_rows")
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


class LinkTraffic(NamedTuple):
    """The messages that one node sent to another in one format; the latencies are of those that arrived."""

    from_node: str
    to_node: str
    wire_format: int
    sent: int
    lost: int
    p50_us: int | None
    p95_us: int | None
    p99_us: int | None


class TroubleMet(NamedTuple):
    """One kind of trouble: what the hubs saw of it, and for each word of the lake, how many flows have it."""

    name: str
    what: str
    times: int
    seen: dict[str, int]
    shown: dict[str, int]
    is_as_expected: bool


@dataclass(frozen=True, slots=True)
class DaySummary:
    """Everything that is reported of a day; without a lake, all fields of the lake are empty."""

    seconds: float
    endings: dict[str, int]  # of questions, as the hubs saw them
    troubles: list[TroubleMet]
    outcomes: dict[str, int]  # of requests, as the lake sees them
    losses: dict[str, int]  # why requests are lost, as the lake sees it
    differences: list[Disagreement]
    links: list[LinkTraffic]
    control_count: int  # hops of messages that nodes exchange by themselves
    dead_letters: dict[str, int]
    verdicts: dict[str, int]  # on messages that arrived
    quarantine: dict[str, int]  # of frames that arrived
    balance: dict[str, int]
    has_lake: bool
    members: int = 0  # that every node knew in the end
    given_up: dict[str, int] = field(default_factory=dict)  # nodes, and how many others lost them

    @property
    def is_fine(self) -> bool:
        """Whether hubs and lake agree, the rows add up, and every trouble was found."""
        return not self.differences and self.is_balanced and all(met.is_as_expected for met in self.troubles)

    @property
    def is_balanced(self) -> bool:
        """Whether as many rows came out as went in."""
        out = sum(count for name, count in self.balance.items() if name != "rows_in")
        return self.balance.get("rows_in", 0) == out


def summary_to_json(summary: DaySummary) -> dict[str, Any]:
    """Give a summary as JSON."""
    return {**jsonable(summary), "is_balanced": summary.is_balanced, "is_fine": summary.is_fine}


def summarise(day: Day, lake: Path | None) -> DaySummary:
    """Give the summary of a day; without a lake the summary has only what the hubs saw."""
    return _with_lake(day, _LakeRows.read(lake)) if lake else _without_lake(day)


def _without_lake(day: Day) -> DaySummary:
    met = [_met(trouble, day.endings, Counter(), False) for trouble in TROUBLES.values()]
    endings = _counts(day.endings.values())
    given_up = _counts(day.losses)
    return DaySummary(day.seconds, endings, met, {}, {}, [], [], 0, {}, {}, {}, {}, False, day.members, given_up)


class _LakeRows(NamedTuple):
    """The rows of the lake that a summary is made of."""

    hops: list[dict[str, Any]]  # without the messages that nodes exchange by themselves
    control_count: int
    requests: list[dict[str, Any]]
    findings: list[tuple[bytes, str]]
    quarantine: list[dict[str, Any]]
    balance: dict[str, int]

    @classmethod
    def read(cls, lake: Path) -> _LakeRows:
        """Read the rows, without Spark."""
        from hopwire.lake.store import read_arrow

        hops = read_arrow(lake, "silver.hops", HOP_COLUMNS).to_pylist()
        flows = read_arrow(lake, "gold.flows", ["flow_id", "findings"]).to_pylist()
        said = [hop for hop in hops if hop["identity"] not in CONTROLS]
        quarantine = read_arrow(lake, "silver.quarantine", ["direction", "reason"]).to_pylist()
        decoded = [row for row in read_arrow(lake, "gold.quality").to_pylist() if row["step"] == "decode"]
        return cls(
            said,
            _crossings(hops) - _crossings(said),
            read_arrow(lake, "gold.requests", ["flow_id", "outcome", "reason"]).to_pylist(),
            [(flow["flow_id"], finding["kind"]) for flow in flows for finding in flow["findings"]],
            [row for row in quarantine if row["direction"] == "in"],
            {name: sum(row[name] for row in decoded) for name in BALANCE},
        )


def _crossings(hops: list[dict[str, Any]]) -> int:
    return sum(hop["fate"] not in NO_CROSSINGS for hop in hops)


def _with_lake(day: Day, rows: _LakeRows) -> DaySummary:
    shown = _shown(rows)
    arrived = [hop for hop in rows.hops if hop["fate"] in ARRIVED]
    return DaySummary(
        seconds=day.seconds,
        endings=_counts(day.endings.values()),
        troubles=[_met(trouble, day.endings, shown[trouble.name], True) for trouble in TROUBLES.values()],
        outcomes=_counts(row["outcome"] for row in rows.requests),
        losses=_counts(row["reason"] for row in rows.requests if row["outcome"] == "lost"),
        differences=disagreements(day.endings, rows.requests),
        links=_links(rows.hops),
        control_count=rows.control_count,
        dead_letters=_counts(hop["dead_reason"] for hop in rows.hops if hop["fate"] == "dead"),
        verdicts=_counts(hop["verdict"] for hop in arrived),
        quarantine=_counts(row["reason"] for row in rows.quarantine),
        balance=rows.balance,
        has_lake=True,
        members=day.members,
        given_up=_counts(day.losses),
    )


def _counts(words: Iterable[str]) -> dict[str, int]:
    """How often each word stands there: the most frequent first, equally frequent words by the alphabet."""
    return dict(sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])))


def _shown(rows: _LakeRows) -> dict[str, Counter[str]]:
    """For each trouble, the words that the lake has for its flows, and how many flows have each word."""
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


def _links(hops: Iterable[Mapping[str, Any]]) -> list[LinkTraffic]:
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for hop in hops:
        if hop["fate"] not in NOT_SENT:
            key = (text_or_hex(hop["from_node"]), text_or_hex(hop["to_node"]), hop["wire_format"])
            groups.setdefault(key, []).append(hop)
    links = []
    for key, group in groups.items():
        lost = sum(hop["fate"] == "lost" for hop in group)
        links.append(LinkTraffic(*key, len(group), lost, *_percentiles(group)))
    return sorted(links, key=lambda link: (-link.sent, link))


def _percentiles(hops: Iterable[Mapping[str, Any]]) -> tuple[int | None, int | None, int | None]:
    latencies = [hop["latency_us"] for hop in hops if hop["latency_us"] is not None]
    if not latencies:
        return None, None, None
    p50, p95, p99 = np.percentile(latencies, PERCENTILES, method="inverted_cdf")
    return int(p50), int(p95), int(p99)
