"""What the lake says of a chaotic network, held against what each asker was told, promise by promise.

| asker | lake |
|---|---|
| was killed before it was told | may say anything |
| was told something | says what agrees with it by the table `AGREES`, or nothing where the question never left home |
| insisted, and was told Timeout | may say failed: after one bad word an asker that insists still waits for a good one |
| insisted, and was told Expired | may say what became of another copy: failed, late or lost |
| was answered after the deadline, and soon killed | may say late: the lake knows only the deadline |
| sent to a slow consumer, with a minute of time | may say open, where the captures end within this minute |

A difference may have an excuse. Differences are counted by excuse, so that an excuse hides nothing:

| excuse | why nobody could have told the lake |
|---|---|
| skipped | a capture skipped sightings; but who was answered may not be called lost, failed or expired for this |
| unwritten | a member was killed before its full disk had room again; the same holds, since the capture tells of it |
| clock | clocks of the network were set, and the lake calls such a clock doubtful for minutes |

Two more checks look at what the lake has beside the outcome. `told` says what the asker was told, unless the life that
asked was killed, or skipped sightings. No hop is called lost, and no message foreign, if its receiver wrote down that
it handled the message. Clocks that were set excuse both. A cable that was cut excuses `foreign`: what the system holds
back meanwhile comes later than patience, and its sender may be killed before it writes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from hopwire.demo.agreement import is_agreed, outcomes_by_flow
from tests.chaos.judge import Check, counted, some
from tests.chaos.member import TIMEOUT_SECONDS, TOIL_TIMEOUT_SECONDS
from tests.chaos.network import ATTACKED, SMALL_DISK, Report
from tests.chaos.record import Promise, life_of, member_of

__all__ = ["HOP_COLUMNS", "REQUEST_COLUMNS", "Difference", "capture_checks", "differences_of", "lake_check"]

REQUEST_COLUMNS = ("correlation_id", "outcome", "reason", "told", "is_told_otherwise", "identity")
HOP_COLUMNS = ("correlation_id", "fate", "is_reply", "is_control", "from_node", "to_node")

# a question that found no way out of its node was seen by no capture as a departure; its dead letter may be missing too
# where the writer of its node was killed soon after
AT_HOME = frozenset({"NoRoute", "Unreachable", "Timeout", "Expired", "QueueFull", "Closed"})
INSISTING = {"Timeout": {"failed"}, "Expired": {"failed", "late", "lost"}}
BLIND_TO_ANSWERS = ("", "open", "late")  # what the lake may say of an answer that was skipped
WRITTEN_SECONDS = 2.0  # until a member has written what it saw; the lake believes the same
GAP_SECONDS = 1.0  # gaps of a capture that begin in the same second are one gap


class Difference(NamedTuple):
    """A promise of which asker and lake tell different stories."""

    flow: str
    call: str
    temper: str
    told: str
    lake: str
    excuse: str


class Unwritten(NamedTuple):
    """From when to when the sightings of a member were lost."""

    begin: float
    end: float


def lake_check(report: Report, requests: list[Mapping[str, Any]]) -> Check:
    """Hold the requests of the lake against every promise."""
    differences, compared = differences_of(report, requests)
    wrong = [each for each in differences if not each.excuse]
    excuses = Counter(each.excuse for each in differences if each.excuse)
    outcomes = Counter(str(request["outcome"]) for request in requests)
    words = (
        f"{len(requests):,} requests: {counted(outcomes)}; {compared:,} promises compared, {len(wrong):,} differ; "
        f"with an excuse: {counted(excuses)}"
    )
    return Check("the lake is not wrong", not wrong, words + (f": {some(wrong)}" if wrong else ""))


def differences_of(report: Report, requests: Iterable[Mapping[str, Any]]) -> tuple[list[Difference], int]:
    """Give the promises on which asker and lake do not agree, and how many were compared."""
    outcomes = outcomes_by_flow(requests, "correlation_id")
    compared, found = 0, []
    unwritten = list(_unwritten(report))
    for promise in report.recorded.promises.values():
        if not promise.told:
            continue
        compared += 1
        lake = outcomes.get(promise.flow, [])
        is_at_home = not lake and promise.told in AT_HOME
        if not is_at_home and not is_agreed(promise.told, lake, _also(report, promise)):
            words = ", ".join(lake)
            excuse = _excuse(report, promise, words, unwritten)
            found.append(Difference(promise.flow, promise.call, promise.temper, promise.told, words, excuse))
    return found, compared


def capture_checks(
    report: Report, requests: Iterable[Mapping[str, Any]], hops: Iterable[Mapping[str, Any]]
) -> tuple[Check, Check]:
    """Hold what was told, and hops that are called lost or foreign, against what members wrote down."""
    silent = {life.name for life in report.lives if life.was_killed}
    asked, otherwise, compared = report.recorded.promises, [], 0
    for request in requests:
        flow = request["correlation_id"].decode(errors="replace")
        promise = asked.get(flow)
        if promise is None or not promise.told or not request["identity"].startswith(b"chaos."):
            continue
        if life_of(flow) in silent or (member_of(life_of(flow)) == SMALL_DISK and report.recorded.blind_at):
            continue
        compared += 1
        fits = (None, "answered") if promise.told == "answered" else (promise.told,)
        if request["told"] not in fits or request["is_told_otherwise"]:
            otherwise.append((flow, promise.told, request["told"]))
    acted = list(_acted(report, hops))
    told = f"{compared:,} requests compared, {len(otherwise):,} differ"
    words = f"{len(acted):,} hops are called lost or foreign, and were handled"
    return (
        Check(
            "the lake has what askers were told", not otherwise, told + (f": {some(otherwise)}" if otherwise else "")
        ),
        Check("nothing is lost that was handled", not acted, words + (f": {some(acted)}" if acted else "")),
    )


def _acted(report: Report, hops: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """The hops of questions that are called lost or foreign though their receiver handled the message."""
    handled = report.recorded.handled
    doubted = ("lost",) if any(spell.kind == "cut" for spell in report.spells) else ("lost", "foreign")
    for hop in hops:
        flow, to = hop["correlation_id"].decode(errors="replace"), hop["to_node"].decode(errors="replace")
        if hop["fate"] not in doubted or hop["is_reply"] or hop["is_control"] or not ATTACKED.has(flow):
            continue
        if any(member_of(life) == to for life in handled.get(flow, ())):
            yield flow, to, hop["fate"]


def _also(report: Report, promise: Promise) -> set[str]:
    """Give what the lake may say beside what agrees with what the asker was told."""
    if promise.call == "toil" and promise.asked_at + TOIL_TIMEOUT_SECONDS + TIMEOUT_SECONDS > report.ended_at:
        return {"open"}
    if promise.told == "answered" and promise.ended_at - promise.asked_at > TIMEOUT_SECONDS:
        own = [life for life in report.lives if life.name == life_of(promise.flow) and life.was_killed]
        return {"late"} if any(life.ended_at < promise.ended_at + WRITTEN_SECONDS for life in own) else set()
    return INSISTING.get(promise.told, set()) if promise.call == "insist" else set()


def _excuse(report: Report, promise: Promise, lake: str, unwritten: Iterable[Unwritten]) -> str:
    if not ATTACKED.has(promise.flow):
        return "clock"
    if not _may_meet(promise, SMALL_DISK):
        return ""
    is_fair = promise.told != "answered" or lake in BLIND_TO_ANSWERS
    if is_fair and any(each.begin <= promise.ended_at and promise.asked_at <= each.end for each in unwritten):
        return "unwritten"
    return "skipped" if is_fair and _is_blind(report, promise) else ""


def _may_meet(promise: Promise, member: str) -> bool:
    """Tell whether a call may have been between its member and this one: members ask the other side."""
    return member_of(life_of(promise.flow)) == member or promise.flow[0] != member[0]


def _is_blind(report: Report, promise: Promise) -> bool:
    blind_at = report.recorded.blind_at
    begin, end = promise.asked_at - GAP_SECONDS, promise.ended_at + TIMEOUT_SECONDS + GAP_SECONDS
    return bisect_left(blind_at, begin) < bisect_right(blind_at, end)


def _unwritten(report: Report) -> Iterator[Unwritten]:
    """Give the times that a member lived through, and that were lost with it before its full disk had room again."""
    for spell in report.spells:
        for life in report.lives:
            is_same = spell.kind == "disk" and spell.member == member_of(life.name) and life.was_killed
            if is_same and spell.overlaps(life.ended_at, life.ended_at, WRITTEN_SECONDS):
                yield Unwritten(max(spell.began_at, life.began_at) - GAP_SECONDS, life.ended_at)
