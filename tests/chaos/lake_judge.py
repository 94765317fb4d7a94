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
| guessed | the asker was killed before it wrote down what it was told, and the lake marks its word as a guess |
| clock | clocks of the network were set, and the lake calls such a clock doubtful for minutes |

Two more checks look at what the lake has beside the outcome. `told` says what the asker was told, unless the life that
asked was killed, or skipped sightings. No hop is called lost, and no message foreign, if its receiver wrote down that
it handled the message. Clocks that were set excuse both. A cable that was cut excuses `foreign`: what the system holds
back meanwhile comes later than patience, and its sender may be killed before it writes.

A question that is sent again has a hop for each attempt, and its receiver handles one of them. So a node that handled a
message in one life needs one arrival of it, and the other hops may be lost:

    a1 insists, and b1 is sent the message at 10.0 s and at 10.4 s. Only the second is seen to arrive.
    b1 handled the message once: all is well. b1 handled it in two lives: an arrival is missing, and `lost` is wrong.

A hop may be called lost in one more case, which is counted: the message was under way for longer than patience, and the
life that handled it wrote nothing of it: it was killed first, or its capture skipped sightings. So it is with what a
cut cable or a receiver that stands still holds back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hopwire.demo.agreement import is_agreed, outcomes_by_flow
from hopwire.model.units import NS_PER_SECOND
from tests.chaos.judge import Check, counted, some
from tests.chaos.member import TIMEOUT_SECONDS, TOIL_TIMEOUT_SECONDS
from tests.chaos.network import ATTACKED, SMALL_DISK, Report
from tests.chaos.record import Handling, Promise, life_of, member_of

__all__ = ["DOUBTED", "HOP_COLUMNS", "REQUEST_COLUMNS", "Difference", "capture_checks", "differences_of", "lake_check"]

REQUEST_COLUMNS = (
    *("correlation_id", "outcome", "is_outcome_guessed", "reason", "told", "is_told_otherwise", "identity"),
)
HOP_COLUMNS = ("correlation_id", "fate", "is_reply", "is_control", "to_node", "left_at_ns")
DOUBTED = ("lost", "foreign")  # fates that are wrong where the receiver handled the message
ARRIVED = frozenset({"arrived", "unsent", "duplicate", "foreign"})  # fates of what was seen to arrive

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


def differences_of(report: Report, requests: Sequence[Mapping[str, Any]]) -> tuple[list[Difference], int]:
    """Give the promises on which asker and lake do not agree, and how many were compared."""
    outcomes = outcomes_by_flow(requests, "correlation_id")
    guessed = {each["correlation_id"].decode(errors="replace") for each in requests if each["is_outcome_guessed"]}
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
            if not excuse and promise.flow in guessed and _is_killed_soon(report, promise):
                excuse = "guessed"
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
    acted, excused = _acted(report, hops)
    told = f"{compared:,} requests compared, {len(otherwise):,} differ"
    words = f"{len(acted):,} hops are called lost or foreign, and were handled"
    words += f"; {excused:,} came later than patience to a life that wrote nothing of it" if excused else ""
    return (
        Check(
            "the lake has what askers were told", not otherwise, told + (f": {some(otherwise)}" if otherwise else "")
        ),
        Check("nothing is lost that was handled", not acted, words + (f": {some(acted)}" if acted else "")),
    )


def _acted(report: Report, hops: Iterable[Mapping[str, Any]]) -> tuple[list[tuple[str, str, str]], int]:
    """Give hops that are called lost or foreign though their receiver handled the message, and how many are excused."""
    doubted = ("lost",) if any(spell.kind == "cut" for spell in report.spells) else DOUBTED
    ends = {life.name: life.ended_at for life in report.lives if life.was_killed}
    found, excused = [], 0
    for (flow, to), own in _questions(hops).items():
        lives = {each.life: each for each in report.recorded.handled.get(flow, ()) if member_of(each.life) == to}
        wrong = [hop for hop in own if hop["fate"] in doubted]
        missing = len(lives) - sum(hop["fate"] in ARRIVED and hop["fate"] not in doubted for hop in own)
        if not wrong or missing <= 0:
            continue
        late = sum(_is_unwritten(report, own, each, ends) for each in lives.values())
        excused += min(late, missing)
        found += [(flow, to, hop["fate"]) for hop in wrong[: max(0, missing - late)]]
    return found, excused


def _questions(hops: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Give the hops of questions of the attacked network by flow and receiver: all attempts together."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for hop in hops:
        flow = hop["correlation_id"].decode(errors="replace")
        if ATTACKED.has(flow) and not hop["is_reply"] and not hop["is_control"]:
            found[flow, hop["to_node"].decode(errors="replace")].append(hop)
    return found


def _is_unwritten(
    report: Report, hops: Iterable[Mapping[str, Any]], handled: Handling, ends: Mapping[str, float]
) -> bool:
    """Tell whether a message came later than patience after each departure, to a life that wrote nothing of it.

    The lake calls a hop `unwitnessed` if its receiver was killed within patience, or skipped sightings. So what arrived
    sooner has no excuse.
    """
    left_at = [hop["left_at_ns"] / NS_PER_SECOND - report.epoch for hop in hops if hop["left_at_ns"] is not None]
    is_late = all(not at < handled.at <= at + TIMEOUT_SECONDS for at in left_at)
    is_killed = handled.at <= ends.get(handled.life, 0.0) <= handled.at + WRITTEN_SECONDS
    blind_at = report.recorded.blind_at if member_of(handled.life) == SMALL_DISK else ()
    return is_late and (is_killed or any(abs(at - handled.at) <= WRITTEN_SECONDS for at in blind_at))


def _also(report: Report, promise: Promise) -> set[str]:
    """Give what the lake may say beside what agrees with what the asker was told."""
    if promise.call == "toil" and promise.asked_at + TOIL_TIMEOUT_SECONDS + TIMEOUT_SECONDS > report.ended_at:
        return {"open"}
    if promise.told == "answered" and promise.ended_at - promise.asked_at > TIMEOUT_SECONDS:
        return {"late"} if _is_killed_soon(report, promise) else set()
    return INSISTING.get(promise.told, set()) if promise.call == "insist" else set()


def _is_killed_soon(report: Report, promise: Promise) -> bool:
    """Tell whether an asker was killed so soon after it was told that it may not have written this down."""
    own = [life for life in report.lives if life.name == life_of(promise.flow) and life.was_killed]
    return any(life.ended_at < promise.ended_at + WRITTEN_SECONDS for life in own)


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
