"""Requests: who asked, whether an answer came home, and if not, where and why it went no further.

All messages with the same home, callback key and correlation id belong to one request: the question, what is said
onward on the way, and the replies. V3 and V4 carry neither key nor node; there the home is the node that asked. The
first that fits is the outcome:

| outcome  | when |
|----------|------|
| answered | an answer arrived at home and was taken |
| failed   | an exception, or an outcome with another reason than `expired`, arrived at home and was taken |
| late     | an answer arrived at home when nobody waited for it any more |
| expired  | an outcome or a dead letter says so, or a message of the request arrived somewhere after the deadline |
| lost     | a hop is lost, or ended as a dead letter, or nothing came within patience of the deadline |
| open     | the capture ends too early to say, or both ends skipped sightings meanwhile |

- A receipt answers only who awaits nothing else.
- An answer that the node at home gave up, for whatever reason, was not taken: if `nobody_waits` is the reason it is
  late, else it is none. Neither is one whose signature is wrong, one that came before, or one that somebody else sent.
- Who asks has a timer of its own, which may end before the deadline or after it. So an answer that home did not give up
  was taken, however late it came. Only where home may have given it up unseen the deadline decides: it did not
  capture, skipped, was killed, or somebody else wrote down what it saw. So it does for V3 and V4, since dead letters
  are written in V6, with another key.
- Where the node at home does not capture, its leaving counts for its arrival.
- A key that is used for several questions is judged by the first.

The trap: what a node does within itself is not captured, so a question that an actor at home passed on to two others
looks like two questions if both are of the same contract.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints, one_array
from hopwire.flows.coverage import Coverage
from hopwire.flows.groups import NO_TIME, Groups, codes, equal_text, nullable, number_codes, pack
from hopwire.flows.rules import NEVER, Rules, deadlines
from hopwire.flows.schemas import OUTCOMES, REQUEST_SCHEMA

__all__ = ["judge_requests"]

OUTCOME = {name: number for number, name in enumerate(OUTCOMES)}
OUTCOME_NAMES = pa.array(list(OUTCOMES))
HARMLESS = pa.array(["expired", "nobody_waits", "duplicate", "unexpected_answer"])  # dead letters that lose nothing
NO_HANDLER = pa.array(["no_route", "receiver_does_not_handle", "handler_missing"])
REFUSED = pa.array(["invalid", "not_in_domain"])
NOT_THE_FIRST = "duplicate"  # of a reply: another copy of it was taken
NOBODY_WAITS = "nobody_waits"
WITH_NUMBERED_VERSION = 5  # the formats from which on a message and its dead letter have the same key
OF_OTHERS = pa.array(["foreign", "duplicate"])
WITNESSED = pa.array(["arrived", "unsent", "unwitnessed"])


class _RequestHops(NamedTuple):
    """The hops of requests as numbers, and the requests they belong to."""

    hops: pa.Table
    groups: Groups
    source: Ints
    target: Ints
    home: Ints
    left: Ints
    came: Ints
    key: Ints
    is_reply: Bools
    is_dead: Bools
    is_of_others: Bools
    nodes: pa.Array


def judge_requests(hops: pa.Table, coverage: Coverage, rules: Rules) -> pa.Table:
    """Give the requests that these hops belong to; all hops of one request must be among them."""
    hops = hops.filter(pc.greater(pc.binary_length(hops["home_receiver"]), 0))
    if not len(hops):
        return REQUEST_SCHEMA.empty_table()
    return _judged(_read(hops), coverage, rules)


def _read(hops: pa.Table) -> _RequestHops:
    (flow,), _ = codes(hops["flow_id"])
    (receiver,), _ = codes(hops["home_receiver"])
    (key,), _ = codes(hops["message_key"])
    (source, target, home), nodes = codes(hops["from_node"], hops["to_node"], hops["home_node"])
    left, came = ints(hops["left_at_ns"], NO_TIME), ints(hops["arrived_at_ns"], NO_TIME)
    is_reply, is_dead = bools(hops["is_reply"]), equal_text(hops["fate"], "dead")
    number = pack(flow, receiver, home, number_codes(ints(hops["callback_key"])))
    is_of_others = bools(pc.is_in(one_array(hops["fate"]), OF_OTHERS))
    place = np.select([is_reply, (source == home) & ~is_of_others], [2, 0], 1)
    groups = Groups(number, place, np.where(left != NO_TIME, left, came))
    is_home_named = bools(pc.greater(pc.binary_length(nodes), 0))[home]
    asking = source[groups.first][groups.of]
    return _RequestHops(
        hops, groups, source, target, np.where(is_home_named, home, asking), left, came, key, is_reply, is_dead,
        is_of_others, nodes,
    )  # fmt: skip


class _RequestVerdict(NamedTuple):
    """What is decided of each request; rows are numbers of hops, -1 where there is none."""

    outcome: Ints
    asked: Ints
    deadline: Ints
    answer: Ints
    answered_at: Ints
    lost: Ints
    is_unreached: Bools


def _judged(rows: _RequestHops, coverage: Coverage, rules: Rules) -> pa.Table:
    first = rows.groups.first
    is_request = ~rows.is_reply[first] & ~equal_text(rows.hops["awaits"], "")[first]
    table = _table(rows, _verdict(rows, coverage, rules))
    return table.filter(pa.array(is_request))


def _verdict(rows: _RequestHops, coverage: Coverage, rules: Rules) -> _RequestVerdict:
    groups, hops = rows.groups, rows.hops
    first, of = groups.first, groups.of
    asked = np.where(rows.left != NO_TIME, rows.left, rows.came)[first]
    ttl = ints(hops["ttl_ticks"])[first]
    deadline = deadlines(asked, ttl)
    kind, reason = hops["outcome_kind"], hops["outcome_reason"]
    says_expired = equal_text(kind, "undelivered") & equal_text(reason, "expired")
    is_failure = equal_text(kind, "failed") | (equal_text(kind, "undelivered") & ~says_expired)
    wants_receipt = equal_text(hops["awaits"], "receipt")[first][of]
    is_answer = rows.is_reply & (equal_text(kind, "") | (equal_text(kind, "received") & wants_receipt))
    cover = coverage.of(rows.nodes)
    at = np.where(rows.came != NO_TIME, rows.came, rows.left)
    is_home, is_unwanted = _came_home(rows)
    is_proven = (rows.came != NO_TIME) & (ints(hops["wire_format"]) >= WITH_NUMBERED_VERSION)
    is_proven &= cover.tells_all(rows.home, rows.came, rows.came + rules.unwritten_ns)
    is_taken = is_home & (is_proven | (at <= deadline[of]))
    answer = _earliest(groups, at, is_answer & is_taken)
    failure = _earliest(groups, at, is_failure & is_taken)
    late = _earliest(groups, at, is_answer & (is_home | is_unwanted))
    dead_reason = one_array(hops["dead_reason"])
    is_expired = says_expired | (rows.is_dead & bools(pc.equal(dead_reason, "expired")))
    is_expired |= (rows.came != NO_TIME) & (rows.came > deadline[of])
    is_lost = equal_text(hops["fate"], "lost") | (rows.is_dead & ~bools(pc.is_in(dead_reason, HARMLESS)))
    silence = np.where(ttl > 0, deadline + rules.patience_ns, asked + rules.patience_without_ttl_ns)
    home = rows.home[first]
    end = np.where(cover.captures[home], cover.end[home], coverage.end_ns)  # of the whole, where home does not capture
    last = rows.target[_latest(groups, np.maximum(rows.left, rows.came), ~rows.is_reply)]  # who would have answered
    until = np.minimum(silence, end)
    is_unseen = ~cover.captures[last] | cover.skips_within(last, asked, until)
    is_silent = (silence < end) & ~(is_unseen & cover.skips_within(home, asked, until))
    outcome = np.select(
        [answer >= 0, failure >= 0, late >= 0, groups.has(is_expired), groups.has(is_lost) | is_silent],
        [OUTCOME[name] for name in ("answered", "failed", "late", "expired", "lost")],
        OUTCOME["open"],
    )
    came_home = np.select([answer >= 0, failure >= 0], [answer, failure], late)
    is_gone = (outcome == OUTCOME["lost"]) | (outcome == OUTCOME["expired"])
    answered_at = np.where(came_home >= 0, at[came_home], NO_TIME)
    lost = _latest(groups, at, is_lost)
    is_unreached = is_gone & groups.has(is_answer & ~rows.is_dead)  # one that died where it was made was not sent
    return _RequestVerdict(outcome, asked, deadline, came_home, answered_at, lost, is_unreached)


def _came_home(rows: _RequestHops) -> tuple[Bools, Bools]:
    """Tell which hops brought a reply home that the node there did not give up, and which one that nobody waited for.

    Of several copies, the first was taken.
    """
    hops = rows.hops
    size = len(rows.key)
    here = number_codes(pack(np.append(rows.key, rows.key), np.append(rows.target, rows.source)))
    at, ended_at = here[:size], here[size:]
    arrivals = np.bincount(at[rows.came != NO_TIME], minlength=2 * size)

    def is_given_up(dead: Bools) -> Bools:
        ends = np.bincount(ended_at[dead], minlength=len(arrivals))
        return ((ends > 0) & (ends >= arrivals))[at]

    is_unwanted = equal_text(hops["dead_reason"], NOBODY_WAITS)
    is_refused = rows.is_dead & ~is_unwanted & ~equal_text(hops["dead_reason"], NOT_THE_FIRST)
    is_seen = bools(pc.is_in(one_array(hops["fate"]), WITNESSED)) & equal_text(hops["repeat"], "")
    is_believed = is_seen & ~bools(pc.is_in(one_array(hops["verdict"]), REFUSED))
    is_reply = rows.is_reply & (rows.target == rows.home) & is_believed & ~is_given_up(is_refused)
    is_ended = is_given_up(is_refused | (rows.is_dead & is_unwanted))
    return is_reply & ~is_ended, is_reply & is_ended


def _earliest(groups: Groups, at: Ints, where: Bools) -> Ints:
    least = groups.least(at, where)
    return groups.first_where(where & (at == least[groups.of]))


def _latest(groups: Groups, at: Ints, where: Bools) -> Ints:
    most = groups.most(at, where)
    return groups.last_where(where & (at == most[groups.of]))


def _is_reused(rows: _RequestHops) -> Bools:
    """Tell which requests have a second question: another message of the same contract that left home by itself."""
    groups, hops = rows.groups, rows.hops
    first = groups.first[groups.of]
    is_question = ~rows.is_reply & ~rows.is_dead & ~rows.is_of_others & (rows.source == rows.home)
    is_other = is_question & (rows.key != rows.key[first])
    for name in ("identity", "partition", "version_raw"):
        (code,), _ = codes(hops[name])
        is_other &= code == code[first]
    is_other &= ints(hops["version"], -1) == ints(hops["version"], -1)[first]
    is_back = ~rows.is_reply & (rows.came != NO_TIME) & (rows.target == rows.home)
    back_at = groups.least(rows.came, is_back)
    begin = np.where(rows.left != NO_TIME, rows.left, rows.came)
    return groups.has(is_other & (begin < back_at[groups.of]))


def _is_unhandled(rows: _RequestHops) -> Bools:
    """Tell which questions arrived, and nothing followed but the word that there is no handler."""
    groups, hops = rows.groups, rows.hops
    is_question = rows.key == rows.key[groups.first][groups.of]
    has_come = groups.has(is_question & (rows.came != NO_TIME))
    is_word = equal_text(hops["outcome_kind"], "undelivered")
    is_bad_end = rows.is_dead & ~bools(pc.is_in(one_array(hops["dead_reason"]), NO_HANDLER))
    return has_come & ~groups.has(is_bad_end) & ~groups.has(~is_question & ~is_word & ~rows.is_dead)


def _table(rows: _RequestHops, verdict: _RequestVerdict) -> pa.Table:
    groups, hops = rows.groups, rows.hops
    first = pa.array(groups.first)
    at = np.maximum(rows.left, rows.came)
    last = _latest(groups, at, np.ones(len(at), dtype=np.bool_))
    last_node = np.where(rows.came[last] != NO_TIME, rows.target[last], rows.source[last])
    is_question = (rows.key == rows.key[groups.first][groups.of]) & (rows.came != NO_TIME)
    reached = _latest(groups, rows.came, is_question)
    has_answer = verdict.answer >= 0
    deadline = np.where(verdict.deadline == NEVER, NO_TIME, verdict.deadline)
    columns = {
        "callback_receiver_node_identity": one_array(hops["home_node"]).take(first),
        "callback_receiver_identity": one_array(hops["home_receiver"]).take(first),
        "home_node": rows.nodes.take(pa.array(rows.home[groups.first])),
        "asked_at_ns": nullable(verdict.asked),
        "deadline_ns": nullable(deadline),
        "outcome": OUTCOME_NAMES.take(pa.array(verdict.outcome)),
        "reason": _reasons(rows, verdict),
        "answered_at_ns": nullable(verdict.answered_at),
        "latency_us": nullable(np.where(has_answer, (verdict.answered_at - verdict.asked) // 1000, NO_TIME)),
        "answer_identity": one_array(hops["identity"]).take(_or_null(verdict.answer)),
        **_places(rows, verdict, last, last_node),
        "reached_node": rows.nodes.take(pa.array(rows.target[reached], mask=reached < 0)),
        "last_seen_node": rows.nodes.take(pa.array(last_node)),
        "last_seen_at_ns": nullable(at[last]),
        "attempts": pa.array(groups.most(ints(hops["attempt"]), rows.key == rows.key[groups.first][groups.of]) + 1),
        "hop_count": pa.array(groups.sizes),
        "is_reused": pa.array(_is_reused(rows)),
        "is_oversized": pa.array(np.zeros(len(groups), dtype=np.bool_)),
        "is_callback_unreached": pa.array(verdict.is_unreached),
        "is_unhandled": pa.array(_is_unhandled(rows)),
    }
    same = [name for name in REQUEST_SCHEMA.names if name not in columns]
    columns |= {name: one_array(hops[name]).take(first) for name in same}
    return pa.table(
        [columns[name].cast(REQUEST_SCHEMA.field(name).type) for name in REQUEST_SCHEMA.names], schema=REQUEST_SCHEMA
    )


def _places(rows: _RequestHops, verdict: _RequestVerdict, last: Ints, last_node: Ints) -> dict[str, pa.Array]:
    """Where a lost request was lost: the hop, the node of the dead letter, or where it was last seen.

    If it was last seen to leave for a node that nobody knows to have got it, that hop is where.
    """
    is_lost = verdict.outcome == OUTCOME["lost"]
    has_hop = verdict.lost >= 0
    is_unseen = equal_text(rows.hops["fate"], "unwitnessed")[last] & ~has_hop
    source = np.where(has_hop, rows.source[verdict.lost], last_node)
    target = np.where(has_hop, rows.target[verdict.lost], rows.target[last])
    has_target = is_lost & (is_unseen | (has_hop & ~rows.is_dead[verdict.lost]))
    return {
        "lost_from_node": rows.nodes.take(pa.array(source, mask=~is_lost)),
        "lost_to_node": rows.nodes.take(pa.array(target, mask=~has_target)),
    }


def _reasons(rows: _RequestHops, verdict: _RequestVerdict) -> pa.Array:
    told = one_array(rows.hops["outcome_reason"]).take(_or_null(verdict.answer))
    dead = one_array(rows.hops["dead_reason"]).take(_or_null(verdict.lost))
    outcome = OUTCOME_NAMES.take(pa.array(verdict.outcome))
    lost = pc.if_else(pa.array(verdict.lost < 0), "no_answer", pc.if_else(pc.equal(dead, ""), "hop_lost", dead))
    none = pa.scalar("", pa.string())
    reason = pc.case_when(
        pc.make_struct(pc.equal(outcome, "failed"), pc.equal(outcome, "lost")),
        told,
        pc.if_else(pc.is_null(lost), "hop_lost", lost),
        none,
    )
    return pc.fill_null(reason, "")


def _or_null(rows: Ints) -> pa.Array:
    return pa.array(rows, mask=rows < 0)
