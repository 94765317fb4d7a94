"""What has to hold, whatever was done: each rule is a check with a sentence about what was found.

| rule | how it is found out |
|---|---|
| no promise hangs | every call of a member that lived has an end in its record |
| promises end in time | no call takes longer than its timeout and a moment, unless its member was stopped |
| nothing acknowledged is lost | the member that gave the receipt wrote down that it handled the message or gave it up |
| nothing is handled twice | no life wrote down that it began twice with the same message |
| no process ends | each ended because it was killed here, or when it was told to go, with 0 |
| the network heals | soon after a cut its member has answers, unless hindered anew; in the end all reach all |
| clocks do not matter where nobody signs | every prompt question of the open network is answered |
| memory and descriptors are bounded | samples of every process, twice a second |
| loops turn | members write down when theirs did not, and it counts where they were not stopped |
| a full disk is told | the rows of the capture tell of as many skipped sightings as the member counted |
| the lake is not wrong | see `lake_judge.py` |
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import pyarrow.compute as pc

from hopwire.capture import CaptureSettings, read_capture
from hopwire.model.units import MEBIBYTE, NS_PER_SECOND
from hopwire.node.addresses import BACKLOG
from tests.chaos.life import Life
from tests.chaos.member import BEATS, SETTINGS, SIDES, TIMEOUT_SECONDS, TOIL_TIMEOUT_SECONDS
from tests.chaos.network import OPEN, SMALL_DISK, Report
from tests.chaos.record import Lag, Promise, life_of, member_of
from tests.chaos.work import TOIL_SECONDS, Toiler

__all__ = ["Check", "checks_of", "counted", "some", "unstopped_lags"]

SHOWN = 5  # examples in one sentence
SPARE_MB = 100  # that a process may take beside what its limits allow
PEERS = 3
LIMITS_MB = (SETTINGS.inbox_bytes + PEERS * SETTINGS.outbox_bytes + CaptureSettings().buffer_bytes) // MEBIBYTE
SPARE_DESCRIPTORS = BACKLOG + 100  # a loop that stood still takes all who waited at once, and who comes meanwhile
KEPT = 15  # descriptors more in the last quarter of a life than in the first are a leak
LAG_SECONDS = BEATS.silence_ns / NS_PER_SECOND  # a member that stands still for longer is given up by its peers
MOMENT_SECONDS = 2.0  # for a loop that is busy when a timeout is over
HEAL_SECONDS = 8.0  # two for the next retransmission or the next dial, and the rest for a busy machine
HINDRANCES = frozenset({"kill", "stop", "cut"})  # of a member, or of all those that it asks
WAIT_SECONDS = {"send": 5.0, "toil": SETTINGS.inbox_messages * TOIL_SECONDS / Toiler.concurrency + 5.0}  # in an inbox


class Check(NamedTuple):
    """A rule, whether it held, and what was found."""

    rule: str
    is_held: bool
    found: str


def checks_of(report: Report) -> list[Check]:
    """Hold a report against every rule."""
    return [
        _hanging(report),
        _in_time(report),
        _acknowledged(report),
        _handled_once(report),
        _ended(report),
        _healed(report),
        *([_unsigned(report)] if any(OPEN.has(life.name) for life in report.lives) else []),
        _memory(report),
        _descriptors(report),
        _lags(report),
        *([_told_of_full_disk(report)] if any(spell.kind == "disk" for spell in report.spells) else []),
        Check("attackers work", not report.attacks, some(report.attacks)),
    ]


def some(found: Iterable[object]) -> str:
    """Give the first of what was found, in words."""
    texts = [str(each) for each in found]
    return "; ".join(texts[:SHOWN]) + (f" and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else "") or "none"


def _hanging(report: Report) -> Check:
    hanging = report.hanging()
    restless = [life.name for life in _last_lives(report) if not life.counts.get("is_idle")]
    open_ones = {life.name: life.counts["open_promises"] for life in report.lives if life.counts.get("open_promises")}
    words = f"{len(report.recorded.promises):,} promises, {len(hanging)} without an end"
    if hanging or restless or open_ones:
        words += f": {some(hanging)}; not idle in the end: {some(restless)}; open in hubs: {open_ones}"
    return Check("no promise hangs", not (hanging or restless or open_ones), words)


def _in_time(report: Report) -> Check:
    """Promises end soon after their timeout; the time does not count in which their process had no processor."""
    idle: dict[str, list[Lag]] = defaultdict(list)
    for lag in report.recorded.lags:
        idle[lag.life].append(lag)
    late = []
    for promise in report.recorded.promises.values():
        timeout = TOIL_TIMEOUT_SECONDS if promise.call == "toil" else TIMEOUT_SECONDS
        over = promise.ended_at - promise.asked_at - timeout
        if over > MOMENT_SECONDS:
            lags = [lag for lag in idle[life_of(promise.flow)] if promise.asked_at < lag.at <= promise.ended_at + 1]
            over -= sum(max(0.0, lag.seconds - lag.worked) for lag in lags)
        if over > MOMENT_SECONDS and not _is_stopped(report, life_of(promise.flow), promise.asked_at, promise.ended_at):
            late.append((over, promise))
    late.sort(reverse=True, key=lambda each: each[0])
    words = f"{len(late):,} ended {MOMENT_SECONDS:g} s or more after their timeout"
    if late:
        words += f", the last {late[0][0]:.1f} s after: {some([late[0][1]])}"
    return Check("promises end in time", not late, words)


def _is_stopped(report: Report, life: str, begin: float, end: float) -> bool:
    """Tell whether a member was stopped between two times."""
    stops = [spell for spell in report.spells if spell.kind == "stop" and spell.member == member_of(life)]
    return any(spell.overlaps(begin, end) for spell in stops)


def _last_lives(report: Report) -> Iterator[Life]:
    last = {member_of(life.name): life for life in report.lives}
    return iter(last.values())


def _acknowledged(report: Report) -> Check:
    """Count what became of everything for which somebody gave a receipt, or an answer to one who insists."""
    fates: Counter[str] = Counter()
    lost = []
    for promise in report.recorded.promises.values():
        if promise.told == "answered" and promise.call in ("send", "toil", "insist"):
            fate = _fate(report, promise)
            fates[fate] += 1
            lost += [promise] if fate == "lost" else []
    words = f"{fates.total():,} acknowledged: {counted(fates)}"
    return Check("nothing acknowledged is lost", not lost, words + (f": {some(lost)}" if lost else ""))


def _fate(report: Report, promise: Promise) -> str:
    handled = report.recorded.handled.get(promise.flow, ())
    if any(not promise.holder or member_of(each.life) == promise.holder for each in handled):
        return "handled"
    if promise.flow in report.recorded.given_up:
        return f"given up as {some(sorted(set(report.recorded.given_up[promise.flow])))}"
    wait = WAIT_SECONDS.get(promise.call, 0.0)
    for life in report.lives:
        is_holder = member_of(life.name) == promise.holder
        if is_holder and life.was_killed and promise.asked_at <= life.ended_at <= promise.ended_at + wait:
            return "killed with its holder"
    return "lost"


def _handled_once(report: Report) -> Check:
    handled = report.recorded.handled
    twice = [
        f"{flow} by {life}"
        for flow, handlings in handled.items()
        if len(handlings) > 1
        for life, count in Counter(each.life for each in handlings).items()
        if count > 1 and "reaches" not in flow
    ]
    return Check("nothing is handled twice by one life", not twice, f"{len(handled):,} messages; twice: {some(twice)}")


def _ended(report: Report) -> Check:
    killed = sum(life.was_killed for life in report.lives)
    wrong = [f"{life.name} with {life.exit_code}" for life in _last_lives(report) if life.exit_code]
    words = f"{killed} killed here; by themselves: {some([*report.ended, *wrong])}"
    return Check("no process ends", not report.ended and not wrong, words)


def _healed(report: Report) -> Check:
    took = {life.name: life.counts.get("reached", [None]) for life in _last_lives(report)}
    cut_off = [name for name, seconds in took.items() if None in seconds]
    slow = [seconds for seconds in _until_answered(report) if seconds > HEAL_SECONDS]
    longest = max(_until_answered(report), default=0.0)
    words = (
        f"after a cut the first answer came within {longest:.1f} s; in the end not all are reached by: {some(cut_off)}"
    )
    return Check("the network heals", not cut_off and not slow, words)


def _until_answered(report: Report) -> Iterator[float]:
    """Give how long it took after each cut until its member had an answer, if the member lived on.

    Time counts while nothing hinders the member nor one of those that it asks, and counts anew after each hindrance:

        a1 is cut until 10.0 s. b2 is killed, and back at 12.0 s. b1 is cut from 10.5 s to 14.0 s. The first answer
        comes at 12.4 s: it took 0.5 s, from 10.0 s to 10.5 s, and then 0.4 s. So it took 0.5 s.
    """
    answers: dict[str, list[float]] = defaultdict(list)
    for promise in report.recorded.promises.values():
        if promise.told == "answered":
            answers[life_of(promise.flow)].append(promise.ended_at)
    for spell in report.spells:
        for life in report.lives:
            ended_at = life.ended_at or report.ended_at
            lives_on = life.began_at < spell.began_at and spell.ended_at + HEAL_SECONDS < ended_at
            if spell.kind == "cut" and spell.member == member_of(life.name) and lives_on:
                after = [at for at in answers[life.name] if at > spell.ended_at]
                yield _longest_free(report, spell.member, spell.ended_at, min(after, default=ended_at))


def _longest_free(report: Report, member: str, begin: float, end: float) -> float:
    """Give the longest time between two times in which a member and one of those that it asks were not hindered."""
    asked = {each for life in report.lives if (each := member_of(life.name))[:1] == SIDES[member[:1]].decode()}
    spells = [each for each in report.spells if each.kind in HINDRANCES and each.overlaps(begin, end)]
    times = sorted({begin, end, *(at for each in spells for at in (each.began_at, each.ended_at) if begin < at < end)})
    longest = since = 0.0
    for at, until in pairwise(times):
        hindered = {each.member for each in spells if each.began_at <= at and until <= each.ended_at}
        since = 0.0 if member in hindered or asked <= hindered else since + until - at
        longest = max(longest, since)
    return longest


def _unsigned(report: Report) -> Check:
    met_at = 1.0 + max(life.ready_at for life in report.lives if OPEN.has(life.name))
    prompt = [
        promise
        for promise in report.recorded.promises.values()
        if OPEN.has(promise.flow) and promise.temper == "prompt" and promise.asked_at > met_at
    ]
    told = Counter(promise.told for promise in prompt)
    wrong = [promise for promise in prompt if promise.told != "answered"]
    words = f"{counted(told)}" + (f": {some(wrong)}" if wrong else "")
    return Check("clocks do not matter where nobody signs", not wrong, words)


def _memory(report: Report) -> Check:
    grown = []
    for life in report.lives:
        first = life.samples[0].rss_mb if life.samples else 0
        most = max((sample.rss_mb for sample in life.samples), default=0)
        if most > first + LIMITS_MB + SPARE_MB:
            grown.append(f"{life.name} from {first} to {most} MB")
    most = max((sample.rss_mb for life in report.lives for sample in life.samples), default=0)
    words = f"{most} MB at most, limits allow {LIMITS_MB} + {SPARE_MB} MB more than at first; grown: {some(grown)}"
    return Check("memory is bounded", not grown, words)


def _descriptors(report: Report) -> Check:
    grown = []
    for life in report.lives:
        counts = [sample.descriptors for sample in life.samples]
        quarter = len(counts) // 4
        if counts and max(counts) > counts[0] + SPARE_DESCRIPTORS:
            grown.append(f"{life.name} from {counts[0]} to {max(counts)}")
        elif quarter >= 10 and statistics.median(counts[-quarter:]) > statistics.median(counts[:quarter]) + KEPT:
            grown.append(f"{life.name} keeps growing")
    most = max((sample.descriptors for life in report.lives for sample in life.samples), default=0)
    return Check("descriptors are bounded", not grown, f"{most} at most; grown: {some(grown)}")


def _lags(report: Report) -> Check:
    """A loop may stand still because its process has no processor; what the process itself does in a turn is short."""
    lags = unstopped_lags(report)
    longest = max((lag.seconds for lag in lags), default=0.0)
    worst = max(lags, key=lambda lag: lag.worked, default=None)
    words = f"{worst.worked:.2f} s of work in one turn at most, in {worst.life}" if worst else "never 0.1 s"
    return Check("loops turn", worst is None or worst.worked < LAG_SECONDS, f"{words}; {longest:.2f} s on the wall")


def unstopped_lags(report: Report) -> list[Lag]:
    """Give the times when loops did not turn though their process was not stopped."""
    lags = report.recorded.lags
    return [lag for lag in lags if not _is_stopped(report, lag.life, lag.at - lag.seconds, lag.at)]


def _told_of_full_disk(report: Report) -> Check:
    """Hold the rows of a capture that say what was skipped against what the member counted in its last life."""
    reasons, by_life = Counter[str](), Counter[int]()
    for batch in read_capture(report.captures):
        own = batch.filter(pc.equal(batch["node_name"], SMALL_DISK)).select(["incarnation", "reason", "skipped"])
        for row in own.to_pylist():
            by_life[row["incarnation"]] += row["skipped"]
            if row["skipped"]:
                reasons[row["reason"]] += row["skipped"]
    (last,) = (life for life in _last_lives(report) if member_of(life.name) == SMALL_DISK)
    status = last.counts.get("capture", {"offered": 0, "written": 0, "skipped": -1})
    told = by_life[max(by_life)]  # the clock of this member is never set, so the largest incarnation is the last
    is_right = told == status["skipped"] and status["offered"] == status["written"] + status["skipped"]
    words = f"rows tell of {counted(reasons)}; of the last life {told:,}, and it counted {status['skipped']:,}"
    return Check("a full disk is told", is_right, words)


def counted(counts: Counter[str]) -> str:
    """Give counts in words."""
    return ", ".join(f"{count:,} {word or 'without an end'}" for word, count in counts.most_common()) or "none"
