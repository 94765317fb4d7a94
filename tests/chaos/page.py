"""The report as a page of Markdown, which reads well in a terminal too."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

from tests.chaos.judge import Check, counted, unstopped_lags
from tests.chaos.network import Report
from tests.chaos.record import member_of
from tests.chaos.stranger import ATTACKS

__all__ = ["page_of"]

MOMENT_SECONDS = 0.1  # what is over sooner did not last


def page_of(report: Report, checks: Sequence[Check]) -> str:
    """Give all that was done and found."""
    return "\n".join(
        [
            "# Chaos",
            "",
            *_order(report),
            "",
            "## What was done",
            "",
            *_done(report),
            "",
            "## What held",
            "",
            *_table(("rule", "held", "found"), [(check.rule, _word(check.is_held), check.found) for check in checks]),
            "",
            "## Members",
            "",
            "Memory and descriptors are first / median / most of all samples. Lags are of loops that were not stopped.",
            "",
            *_members(report),
            "",
            "Everything held." if all(check.is_held for check in checks) else "Something broke.",
        ]
    )


def _order(report: Report) -> list[str]:
    order = report.order
    names = "; ".join(f"{network.name}: {', '.join(network.members)}" for network in report.order.networks)
    return [
        f"`python -m tests.chaos --seconds {order.seconds:.0f} --seed {order.seed} --rate {order.rate:.0f}` took "
        f"{report.ended_at - report.began_at:.0f} s. Networks ({names}) and what each is given are in "
        "`tests/chaos/network.py`."
    ]


def _done(report: Report) -> list[str]:
    kinds = Counter(spell.kind for spell in report.spells)
    lines = [f"- {count} x {kind}: {_whom(report, kind)}" for kind, count in sorted(kinds.items())]
    if report.order.attacks:
        lines.append(f"- a stranger, all the time: {', '.join(ATTACKS)}")
    told = Counter(promise.told or "killed before it was told" for promise in report.recorded.promises.values())
    lines.append(f"- {len(report.recorded.promises):,} promises: {counted(told)}")
    return lines + [f"- left out: {why}" for why in report.left_out]


def _whom(report: Report, kind: str) -> str:
    spells = [spell for spell in report.spells if spell.kind == kind]
    members = Counter(spell.member + (f" {spell.words}" if spell.words else "") for spell in spells)
    seconds = [spell.ended_at - spell.began_at for spell in spells]
    lasted = f", each for {min(seconds):.1f} s to {max(seconds):.1f} s" if max(seconds) > MOMENT_SECONDS else ""
    return ", ".join(f"{count} x {words}" for words, count in sorted(members.items())) + lasted


def _members(report: Report) -> list[str]:
    head = (
        "member",
        "lives",
        "memory, MB",
        "descriptors",
        "worst lag, s",
        "dead letters of lives that went by themselves",
    )
    return _table(head, [_member(report, name) for network in report.order.networks for name in network.members])


def _member(report: Report, name: str) -> tuple[str, ...]:
    lives = [life for life in report.lives if member_of(life.name) == name]
    lags = [lag.seconds for lag in unstopped_lags(report) if member_of(lag.life) == name]
    samples = [sample for life in lives for sample in life.samples]
    dead = sum((Counter(life.counts.get("dead_letters", {})) for life in lives), Counter[str]())
    return (
        name,
        f"{len(lives)}, {sum(life.was_killed for life in lives)} killed, the last with exit {lives[-1].exit_code}",
        _spread([sample.rss_mb for sample in samples]),
        _spread([sample.descriptors for sample in samples]),
        f"{max(lags, default=0.0):.2f}",
        counted(dead),
    )


def _spread(values: Sequence[int]) -> str:
    return f"{values[0]} / {statistics.median(values):.0f} / {max(values)}" if values else "-"


def _word(is_held: bool) -> str:
    return "yes" if is_held else "NO"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines]
