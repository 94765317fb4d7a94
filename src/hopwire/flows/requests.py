"""Hops to requests: who asked, whether an answer came home, and if not, where and why the request went no further.

All messages with the same home, callback key and correlation id belong to one request: the question, the messages that
carry it onward, and the replies. V3 and V4 carry neither a key nor a node; there the home is the node that asked. The
first outcome of this table that fits is the outcome of the request:

| outcome  | when |
|----------|------|
| answered | an answer arrived at home and was taken |
| failed   | an exception, `failed` or `undelivered` was taken, not for the reason `expired`; a handler at home failed |
| late     | an answer arrived at home when nobody waited for it any more |
| expired  | an outcome or a dead letter says so, or a message of the request arrived anywhere after the deadline |
| lost     | a hop is lost, or ended as a dead letter, or no answer came until patience after the deadline |
| open     | the capture ends too early to say, or an answer can have come home unseen and nobody gave up |

*What its asker was told* is a column of its own, beside the outcome. A node that captures writes down how a promise
ended if it did not end by an answer in the capture: with an error, or by an answer within the node. The outcome follows
from the messages, and an error does not change it. Where the two contradict each other, somebody should look:

| told | outcome | |
|---|---|---|
| Timeout | lost, expired, late, open | fits: an asker without an answer cannot know why |
| Timeout | answered, failed | contradicts: an answer came home and was taken, as far as messages tell |
| HandlerFailed, NoRoute, Unreachable | failed | fits: the word of another node came home |
| any error | answered | contradicts |

An error that no word of another node has caused (`UNANSWERED`) says one thing about messages: no answer was taken until
then, seen or unseen. So a request that was given up is lost and not open, once home was seen after its patience. A asks
B at 10.0 s, is told Timeout at 11.0 s, and skips sightings from 10.2 s to 10.4 s while B does not capture: lost. An
error of `BY_WORD` is the word of another: where nothing else is seen, the request failed.

*Unseen by both ends.* An answer leaves while whoever would have answered is blind, and comes home while home is blind.
A node is blind while it skips sightings, and in the last moments before it is killed. A node that does not capture is
always blind. What home says to itself is captured only if its user wants so: if not, and if home would have answered,
nobody can tell.

*Another copy.* Whoever insists may send the question to B, and then to C. That B lost it, or had it too late, says
nothing of C. So the request is open and not lost or expired, if C was sent the question and was seen to do nothing with
it, if its answer can have come home unseen by both ends, and if nobody gave up. A receipt of C says that C has the
question, and a dead letter `duplicate` says so too: who awaits an answer may still get it.

*When a reply was taken.* The node at home writes a dead letter for every reply that its hub does not take.

- A dead letter `nobody_waits` makes the answer late. A dead letter with another reason makes the reply count for
  nothing. `duplicate` says that another copy of the reply came before. A reply that arrived in several copies is given
  up only if each copy has its dead letter, and not only `duplicate`.
- A reply without a dead letter was taken, however late it came: the timer of whoever asked may end after the deadline.
- A reply counts for nothing if its signature is wrong, if it is a repeat, or if a stranger sent it.
- Home may have written no dead letter: it does not capture, it skipped sightings within `giving_up_ns` after the
  arrival or wrote its last one within this time and was killed, or somebody else recorded what it saw. Then the reply
  was taken if it came before the deadline, or if home wrote all down for `giving_up_soon_ns` after the arrival. The
  deadline alone decides for V3 and V4: their dead letters are written in V6 and have another key.
- Where home does not capture, the reply arrives when it leaves for home.
- Where nobody saw the reply arrive, and the asker gave up by its own word (`UNANSWERED`), the reply was not taken.
- Where the handler is at home, its word may be in no capture. The word counts for nothing if home wrote a dead letter
  of it, or if the asker gave up. A receipt within a node may be in no capture either. The receipt was given if the
  question ended later: its handler failed, or it expired and nobody waited for this word; and if nothing was told. So
  was the end of a stream whose producer went on until the time was over.
- A reply that home made itself counts no hops. Its dead letter says nothing of an equal reply of another node.
- Where home may have written no dead letter, two more things decide. A bad word that ends the promise came home before
  the answer: the answer is late. What the asker was told: with any error no answer was taken, with an error of
  `GIVEN_UP` no bad word either, and with an error of `BY_WORD` the bad word was taken, also after the deadline. So was
  a word `undelivered` whose reason is the reason of the error.

*A guess* (`is_outcome_guessed`): the reply that decides was not seen to arrive, or home may have given it up unseen. B
answers at 10.4 s, and home was killed at 10.5 s with the last sightings unwritten: answered, and a guess.

A asks at 10.0 s with a time to live of 1 s, so the deadline is 11.0 s:

| what is seen | outcome |
|---|---|
| the answer arrives at 10.4 s | answered |
| the answer arrives at 11.02 s, and A wrote no dead letter until 11.52 s | answered |
| the answer arrives at 11.02 s, and A skipped sightings at 11.1 s | answered, and a guess |
| the answer arrives at 11.02 s, and A skipped sightings at 11.03 s | late |
| the answer arrives at 10.4 s and becomes a dead letter `nobody_waits` | late |
| the word that the handler failed arrives at 10.4 s and becomes a dead letter `nobody_waits` | lost |
| the question arrives at B at 11.2 s, and no answer comes | expired |
| nothing comes, and A captures until 17.0 s | lost: patience ended at 16.0 s |
| nothing comes, and A captures until 15.0 s | open |

The other rules:

- A receipt answers a question that awaits a receipt. It is no answer to a question that awaits an answer. A handler
  that fails has received the question: who awaits a receipt loses nothing.
- The contract of a request is that of its question, also where only its end was seen, and other messages of it.
- A question that awaits a stream is answered by the end of the stream, the outcome `ended`, and not by a part. If
  whoever asked has enough of it, the word `hopwire.enough` that leaves home is the end. If the stream had failed by
  then, no word leaves, and its asker was told `answered`.
- A callback key that is used for several questions is judged by the first question.
- Whoever insists (`at_least_once`) goes on after most bad news: an outcome `undelivered` is a failure only for a reason
  in `FOR_GOOD`, and a handler that returned nothing, or what nobody takes, only if the question was sent once.

*Where a request was lost.* A lost hop or a dead letter is the place. Without any, the place is a node that had the
question, or the message that carries it onward, and ended before it could answer. Without such a node, the place is
where the request was last seen. B has the question at 10.0 s, tells C of it, and is killed at 10.5 s: lost at B, which
is gone.

The trap: what a node does within itself is mostly not captured. A question that an actor at home passes on to two
others looks like two questions if both messages have the same contract.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.columnar import Bools, Ints, bools, ints
from hopwire.flows.coverage import Coverage, NodeCoverage
from hopwire.flows.groups import NEVER, NO_TIME, Groups, codes, equal_text, has_bytes, nullable, number_codes, pack
from hopwire.flows.hop_columns import HopColumns
from hopwire.flows.rules import Rules, deadlines, patience_over
from hopwire.flows.schemas import OUTCOMES, REQUEST_SCHEMA, in_schema
from hopwire.model.names import ENOUGH
from hopwire.model.units import NS_PER_US

__all__ = ["judge_requests"]

OUTCOME = {name: number for number, name in enumerate(OUTCOMES)}
OUTCOME_NAMES = pa.array(list(OUTCOMES))
NO_HANDLER = pa.array(["no_route", "receiver_does_not_handle", "handler_missing"])
REFUSED = pa.array(["invalid", "not_in_domain"])
NOT_THE_FIRST = "duplicate"  # another copy came before: of a reply, it was taken; of a question, its node has it
NOBODY_WAITS = "nobody_waits"
FOR_GOOD = pa.array(["expired", "cannot_carry", "cannot_sign", "bad_value"])  # undelivered: no other attempt is better
NO_ANSWER, HANDLER_FAILED = "no_answer", "handler_failed"
NO_ROUTE = "no_route"
GIVEN_UP = pa.array(["Timeout", "Cancelled", "Closed", "Expired"])  # errors of promises that no failure has ended
BY_WORD = pa.array(["HandlerFailed", "UnexpectedAnswer"])  # errors that are the word of another node, which was taken
UNANSWERED = pa.array(["Timeout", "Cancelled", "Closed", "Unreachable", "NoRoute", "QueueFull"])  # nothing was taken
WITH_NUMBERED_VERSION = 5  # from this format on, a message and its dead letter have the same key


OF_CONTRACT = ("identity", "version", "version_raw", "partition", "awaits", "is_control")


class _RequestHops(NamedTuple):
    """The hops of requests, the requests that they belong to, and the node at home of each hop."""

    hops: HopColumns
    groups: Groups
    home: Ints

    @property
    def is_question(self) -> Bools:
        """Whether the message of a hop is the question of its request."""
        is_same: Bools = self.hops.key == self.hops.key[self.groups.first][self.groups.of]
        return is_same


class _RequestVerdict(NamedTuple):
    """What is decided of each request; the answer and the lost hop are numbers of hops, -1 where there is none."""

    outcome: Ints
    is_guessed: Bools
    asked: Ints
    deadline: Ints
    silence: Ints  # when the patience with the question is over
    answer: Ints
    answered_at: Ints
    lost: Ints
    gone: Ints  # the hop to a node that ended before it could answer
    is_unreached: Bools


def judge_requests(hops: pa.Table, coverage: Coverage, rules: Rules) -> pa.Table:
    """Give the requests that these hops belong to; all hops of one request must be among them."""
    hops = hops.filter(pa.array(has_bytes(hops["home_receiver"])))
    if not len(hops):
        return REQUEST_SCHEMA.empty_table()
    asked = _grouped(HopColumns(hops))
    first = asked.groups.first
    is_request = ~asked.hops.is_reply[first] & ~equal_text(asked.hops["awaits"], "")[first]
    return _table(asked, _verdict(asked, coverage, rules)).filter(pa.array(is_request))


def _grouped(hops: HopColumns) -> _RequestHops:
    """Bring the hops of each request together, the question first.

    The question is the first message that home sent; the first message that was seen, where home sent none.
    """
    is_no_question = hops.is_reply | equal_text(hops["awaits"], "")
    is_own = (hops.source == hops.home) & ~hops.is_of_others
    place = np.select([hops.is_told, is_no_question, is_own], [2, 3, 0], 1)
    groups = Groups(hops.request, place, hops.begun)
    asking = hops.source[groups.first][groups.of]
    return _RequestHops(hops, groups, np.where(has_bytes(hops.nodes)[hops.home], hops.home, asking))


# -- what became of a request


def _verdict(asked: _RequestHops, coverage: Coverage, rules: Rules) -> _RequestVerdict:
    hops, groups = asked.hops, asked.groups
    first, of = groups.first, groups.of
    asked_at = hops.begun[first]
    ttl = ints(hops["ttl_ticks"])[first]
    deadline = deadlines(asked_at, ttl)
    kind = hops["outcome_kind"]
    is_undelivered = equal_text(kind, "undelivered")
    says_expired = is_undelivered & equal_text(hops["outcome_reason"], "expired")
    attempts = groups.most(ints(hops["attempt"]), asked.is_question)
    is_insisted = bools(hops["is_insisted"])[first]
    goes_on = is_insisted[of] & ~bools(pc.is_in(hops["outcome_reason"], FOR_GOOD))
    asks_again = (is_insisted & (attempts > 0))[of] & equal_text(hops["outcome_reason"], NO_ANSWER)
    is_failure = (equal_text(kind, "failed") & ~asks_again) | (is_undelivered & ~says_expired & ~goes_on)
    wants_receipt = equal_text(hops["awaits"], "receipt")[first][of]
    wants_stream = equal_text(hops["awaits"], "stream")[first][of]
    is_answer = equal_text(kind, "received") & wants_receipt
    is_answer |= np.where(wants_stream, equal_text(kind, "ended"), equal_text(kind, ""))
    is_answer &= hops.is_reply
    is_kept = hops.is_told & equal_text(hops["told"], "answered")  # within the node, where nobody saw the answer
    is_enough = wants_stream & bools(pc.equal(hops["identity"], ENOUGH)) & ~hops.is_dead
    is_enough &= (hops.source == asked.home) & ~hops.is_of_others
    cover = coverage.of(hops.nodes)
    at = np.where(hops.has_come, hops.came, hops.left)
    at = np.where(is_enough, hops.begun, at)
    is_home, is_unwanted = _came_home(asked)
    is_told_of = hops.has_come & cover.tells_all(asked.home, hops.came, hops.came + rules.giving_up_ns)
    has_key = ints(hops["wire_format"]) >= WITH_NUMBERED_VERSION
    is_proven = is_told_of & has_key
    is_likely = hops.has_come & has_key & cover.tells_all(asked.home, hops.came, hops.came + rules.giving_up_soon_ns)
    is_given_up = groups.has(hops.is_told & bools(pc.is_in(hops["told"], UNANSWERED)))
    is_over = groups.has(hops.is_told & bools(pc.is_in(hops["told"], GIVEN_UP)))[of] & ~is_proven
    is_over |= hops.has_fate("unwitnessed") & is_given_up[of]
    is_taken = is_home & (is_likely | (at <= deadline[of])) & ~is_over
    is_by_word = groups.has(hops.is_told & bools(pc.is_in(hops["told"], BY_WORD)))[of]
    is_by_word |= is_undelivered & _is_told_of(asked)
    is_odd = _has_odd_answer(asked, attempts)[of] & is_undelivered & equal_text(hops["outcome_reason"], NO_ROUTE)
    is_failure |= is_odd | (is_undelivered & ~says_expired & is_by_word)
    ended_at = groups.least(at, is_home & (is_failure | says_expired))[of]
    is_late = (groups.has(hops.is_told & ~is_kept)[of] | (at > ended_at)) & ~is_proven
    answer = _earliest(groups, at, (is_answer & is_taken & ~is_late) | is_enough | is_kept)
    has_failed = hops.is_dead & equal_text(hops["dead_reason"], HANDLER_FAILED)  # it was taken, by a handler
    is_here = hops.is_dead & (hops.source == asked.home)
    is_unwanted_word = is_here & hops.is_reply & equal_text(hops["dead_reason"], NOBODY_WAITS)
    is_told_within = has_failed & ~wants_receipt  # its word stays within the node, and may be in no capture
    is_told_within &= is_here & ~hops.is_reply & (at <= deadline[of])
    is_told_within &= is_by_word | ~groups.has(is_unwanted_word & equal_text(kind, "failed"))[of]
    is_told_within &= ~groups.has(hops.is_told & bools(pc.is_in(hops["told"], GIVEN_UP)))[of]
    failure = _earliest(groups, at, (is_failure & (is_taken | (is_home & is_by_word))) | is_told_within)
    late = _earliest(groups, at, is_answer & (is_home | is_unwanted))
    is_put_off = equal_text(hops["dead_reason"], "expired") & groups.has(is_unwanted_word & says_expired)[of]
    is_received = wants_receipt & (has_failed | is_put_off)
    is_written = cover.tells_all(asked.home, hops.left, hops.left + rules.unwritten_ns)
    is_received |= wants_stream & equal_text(hops["dead_reason"], "expired") & is_written
    received = groups.has(is_here & asked.is_question & is_received) & ~groups.has(hops.is_told)
    by_word = groups.first_where(hops.is_told & bools(pc.is_in(hops["told"], BY_WORD)))
    is_expired = says_expired | hops.is_expired
    is_expired |= hops.has_come & (hops.came > deadline[of])
    is_said = groups.has(hops.is_reply & equal_text(kind, "failed") & hops.has_fate("in_flight"))[of]
    is_lost = hops.is_lost & ~(has_failed & (wants_receipt | is_said))
    silence = patience_over(asked_at, deadline, rules)
    home = asked.home[first]
    goes_on = cover.goes_on(home, silence, rules)
    goes_on = np.where(cover.is_looking(home, silence), goes_on, silence < coverage.end_ns)  # else the end of all
    latest = _latest(groups, np.maximum(hops.left, hops.came), ~hops.is_reply & ~hops.is_told)
    last = np.where(hops.is_dead, hops.source, hops.target)[latest]  # who would have answered
    last = np.where(latest < 0, home, last)
    is_seen = (last != home) & ~cover.can_pass_unseen(last, home, asked_at, silence, rules)
    is_within = hops.has_fate("local")[latest] & (latest >= 0)  # home writes down what it says to itself
    is_seen |= is_within & (last == home) & cover.tells_all(home, asked_at, silence)
    is_silent = goes_on & (is_seen | is_given_up)
    is_answered = (answer >= 0) | (received & (failure < 0) & (late < 0))
    is_unanswered = groups.has(is_expired) | groups.has(is_lost) | is_silent
    is_unanswered &= ~(is_answered | (failure >= 0) | (late >= 0) | groups.has(hops.is_told))
    is_hidden = _has_hidden_holder(asked, is_unanswered, deadline, silence, cover, rules)
    outcome = np.select(
        [
            is_answered,
            failure >= 0,
            late >= 0,
            groups.has(is_expired) & ~is_hidden,
            (groups.has(is_lost) | is_silent) & ~is_hidden,
            by_word >= 0,
        ],
        [OUTCOME[name] for name in ("answered", "failed", "late", "expired", "lost", "failed")],
        OUTCOME["open"],
    )
    is_by_told = (failure < 0) & (outcome == OUTCOME["failed"])
    came_home = np.select([answer >= 0, failure >= 0, is_by_told], [answer, failure, by_word], late)
    is_guessed = (came_home >= 0) & (hops.is_reply & ~hops.is_dead & ~hops.is_told & ~is_told_of)[came_home]
    is_guessed |= (came_home < 0) & (outcome == OUTCOME["answered"])
    is_gone = (outcome == OUTCOME["lost"]) | (outcome == OUTCOME["expired"])
    answered_at = np.where(came_home >= 0, at[came_home], NO_TIME)
    lost = _latest(groups, at, is_lost)
    gone = _gone(asked, cover, silence - rules.patience_ns)
    is_unreached = is_gone & groups.has(is_answer & ~hops.is_dead)  # an answer that died where it was made was not sent
    found = (came_home, answered_at, lost, gone, is_unreached)
    return _RequestVerdict(outcome, is_guessed, asked_at, deadline, silence, *found)


def _is_told_of(asked: _RequestHops) -> Bools:
    """Tell which words have the reason of the error that the asker was told."""
    hops, groups = asked.hops, asked.groups
    told = groups.first_where(hops.is_told)
    reasons = hops["told_reason"].take(_or_null(told)).take(pa.array(groups.of))
    is_told: Bools = bools(pc.fill_null(pc.equal(hops["outcome_reason"], reasons), False))
    return is_told & ~equal_text(hops["outcome_reason"], "")


def _has_hidden_holder(
    asked: _RequestHops, where: Bools, deadline: Ints, until: Ints, cover: NodeCoverage, rules: Rules
) -> Bools:
    """Tell which of the marked requests a node may have answered until then, unseen by it and by home.

    The node was sent the question, and was seen neither to have it too late nor to do anything with it. To say that it
    has the question is nothing, unless whoever asked waits for this word.
    """
    hops, of = asked.hops, asked.groups.of
    found: Bools = np.zeros(len(asked.groups), dtype=np.bool_)
    is_copy = where[of] & asked.is_question & ~(hops.is_again | hops.has_fate("lost", "dead", "told"))
    rows = np.flatnonzero(is_copy & (hops.target != asked.home) & (hops.came <= deadline[of]))
    if not len(rows):
        return found
    is_word = equal_text(hops["outcome_kind"], "received") | equal_text(hops["dead_reason"], NOT_THE_FIRST)
    is_word &= ~equal_text(hops["awaits"], "receipt")[asked.groups.first][of]
    acting = np.flatnonzero(where[of] & ~hops.is_told & ~is_word)
    place = pack(np.append(of[rows], of[acting]), np.append(hops.target[rows], hops.source[acting]))
    rows = rows[~np.isin(place[: len(rows)], place[len(rows) :])]
    can_pass = cover.can_pass_unseen(hops.target[rows], asked.home[rows], hops.begun[rows], until[of[rows]], rules)
    found[of[rows[can_pass]]] = True
    return found


def _gone(asked: _RequestHops, cover: NodeCoverage, until: Ints) -> Ints:
    """Give for each request the last arrival of a message, no reply, at a node that ended later and before `until`.

    Arrivals before the last arrival of the question do not count: the question was sent to somebody else then.
    """
    hops, groups = asked.hops, asked.groups
    reached = groups.most(hops.came, asked.is_question & hops.has_come)
    is_held = hops.has_come & ~hops.is_reply & ~hops.is_again & (hops.target != asked.home)
    is_held &= hops.came >= reached[groups.of]
    is_gone = is_held & cover.ended_within(hops.target, hops.came, until[groups.of])
    return _latest(groups, hops.came, is_gone)


def _came_home(asked: _RequestHops) -> tuple[Bools, Bools]:
    """Tell which hops brought a reply home that home did not give up, and which a reply that nobody waited for.

    A reply that came in several copies is given up only if there is a dead letter for each copy: the first was taken. A
    copy that never crossed, by its own count, is another reply: an actor at home made it.
    """
    hops = asked.hops
    size = len(hops)
    is_own = (ints(hops["hop_count"]) == 0).astype(np.int64)
    place = pack(np.append(hops.target, hops.source), np.append(is_own, is_own))
    here = number_codes(pack(np.append(hops.key, hops.key), number_codes(place)))
    at, ended_at = here[:size], here[size:]
    arrivals = np.bincount(at[hops.has_come], minlength=2 * size)

    is_again = hops.is_dead & equal_text(hops["dead_reason"], NOT_THE_FIRST)
    arrivals -= np.bincount(ended_at[is_again], minlength=2 * size)  # a copy of a copy that was given up was not taken

    def is_given_up(dead: Bools) -> Bools:
        ends = np.bincount(ended_at[dead], minlength=len(arrivals))
        return ((ends > 0) & (ends >= arrivals))[at]

    is_unwanted = equal_text(hops["dead_reason"], NOBODY_WAITS)
    is_refused = hops.is_dead & ~is_unwanted & ~is_again
    is_seen = hops.has_fate("arrived", "unsent", "unwitnessed", "local") & equal_text(hops["repeat"], "")
    is_believed = is_seen & ~bools(pc.is_in(hops["verdict"], REFUSED))
    is_reply = hops.is_reply & (hops.target == asked.home) & is_believed & ~is_given_up(is_refused)
    is_ended = is_given_up(is_refused | (hops.is_dead & is_unwanted))
    return is_reply & ~is_ended, is_reply & is_ended


def _has_odd_answer(asked: _RequestHops, attempts: Ints) -> Bools:
    """Tell which questions were sent once by who insists, and were answered with something that nobody takes."""
    hops, groups = asked.hops, asked.groups
    is_odd = hops.is_dead & equal_text(hops["dead_reason"], NO_ROUTE) & ~asked.is_question & ~hops.is_reply
    has_odd: Bools = bools(hops["is_insisted"])[groups.first] & (attempts == 0) & groups.has(is_odd)
    return has_odd


def _earliest(groups: Groups, at: Ints, where: Bools) -> Ints:
    return groups.first_where(where & (at == groups.least(at, where)[groups.of]))


def _latest(groups: Groups, at: Ints, where: Bools) -> Ints:
    return groups.last_where(where & (at == groups.most(at, where)[groups.of]))


def _is_reused(asked: _RequestHops) -> Bools:
    """Tell which requests have a second question: another message of the same contract that home sent by itself.

    By itself means that nothing of the request had come back home before: home may pass on what came back.
    """
    hops, groups = asked.hops, asked.groups
    first = groups.first[groups.of]
    is_other = ~hops.is_reply & ~hops.is_dead & ~hops.is_told & ~hops.is_of_others
    is_other &= (hops.source == asked.home) & ~asked.is_question
    for name in ("identity", "partition", "version_raw"):
        (code,), _ = codes(hops[name])
        is_other &= code == code[first]
    version = ints(hops["version"], -1)
    is_other &= version == version[first]
    is_back = ~hops.is_reply & hops.has_come & (hops.target == asked.home)
    back_at = groups.least(hops.came, is_back)
    return groups.has(is_other & (hops.begun < back_at[groups.of]))


def _is_unhandled(asked: _RequestHops) -> Bools:
    """Tell which questions arrived, and nothing followed but the word that there is no handler."""
    hops, groups, is_question = asked.hops, asked.groups, asked.is_question
    is_word = equal_text(hops["outcome_kind"], "undelivered")
    is_bad_end = hops.is_dead & ~bools(pc.is_in(hops["dead_reason"], NO_HANDLER))
    has_followed = groups.has(~is_question & ~is_word & ~hops.is_dead & ~hops.is_told)
    return groups.has(is_question & hops.has_come) & ~groups.has(is_bad_end) & ~has_followed


# -- the table


def _table(asked: _RequestHops, verdict: _RequestVerdict) -> pa.Table:
    hops, groups, is_question = asked.hops, asked.groups, asked.is_question
    first = pa.array(groups.first)
    at = np.maximum(hops.left, hops.came)
    last = _latest(groups, at, ~hops.is_told)
    last = np.where(last < 0, _latest(groups, at, hops.is_told), last)  # nothing was seen of the request but its end
    told = groups.first_where(hops.is_told)
    last_node = np.where(hops.has_come[last], hops.target[last], hops.source[last])
    reached = _latest(groups, hops.came, is_question & hops.has_come)
    took = np.where(verdict.answer >= 0, (verdict.answered_at - verdict.asked) // NS_PER_US, NO_TIME)
    columns = {
        "callback_receiver_node_identity": hops["home_node"].take(first),
        "callback_receiver_identity": hops["home_receiver"].take(first),
        "home_node": hops.nodes.take(pa.array(asked.home[groups.first])),
        "asked_at_ns": nullable(verdict.asked),
        "deadline_ns": nullable(np.where(verdict.deadline == NEVER, NO_TIME, verdict.deadline)),
        "outcome": OUTCOME_NAMES.take(pa.array(verdict.outcome)),
        "is_outcome_guessed": pa.array(verdict.is_guessed),
        "open_until_ns": nullable(np.where(verdict.outcome == OUTCOME["open"], verdict.silence, NO_TIME)),
        "reason": _reasons(hops, verdict),
        "told": hops["told"].take(_or_null(told)),
        "told_reason": hops["told_reason"].take(_or_null(told)),
        "told_at_ns": nullable(np.where(told < 0, NO_TIME, hops.left[told])),
        "is_told_otherwise": _is_told_otherwise(hops["told"].take(_or_null(told)), verdict),
        "answered_at_ns": nullable(verdict.answered_at),
        "latency_us": nullable(took),
        "answer_identity": hops["identity"].take(_or_null(np.where(hops.is_told[verdict.answer], -1, verdict.answer))),
        **_places(hops, verdict, last, last_node),
        "reached_node": hops.nodes.take(pa.array(hops.target[reached], mask=reached < 0)),
        "last_seen_node": hops.nodes.take(pa.array(last_node)),
        "last_seen_at_ns": nullable(at[last]),
        "attempts": pa.array(np.maximum(groups.most(ints(hops["attempt"]), is_question & ~hops.is_told), -1) + 1),
        "hop_count": pa.array(groups.total(~hops.is_told)),
        "is_reused": pa.array(_is_reused(asked)),
        "is_oversized": pa.array(np.zeros(len(groups), dtype=np.bool_)),
        "is_callback_unreached": pa.array(verdict.is_unreached),
        "is_unhandled": pa.array(_is_unhandled(asked)),
    }
    question = pa.array(np.where(told < 0, groups.first, told))  # an end has the contract of its question
    columns |= {name: hops[name].take(question) for name in OF_CONTRACT}
    columns |= {name: hops[name].take(first) for name in REQUEST_SCHEMA.names if name not in columns}
    return in_schema(REQUEST_SCHEMA, columns)


def _places(hops: HopColumns, verdict: _RequestVerdict, last: Ints, last_node: Ints) -> dict[str, pa.Array]:
    """Say where a lost request was lost: the hop, the node of the dead letter, or the node that had the request.

    A request may last be seen when it leaves for a node that nobody knows to have received it. Then this hop is the
    place.
    """
    is_lost = verdict.outcome == OUTCOME["lost"]
    has_hop = verdict.lost >= 0
    is_unseen = hops.has_fate("unwitnessed")[last] & ~has_hop
    is_gone = ~has_hop & (verdict.gone >= 0)
    source = np.select([has_hop, is_gone], [hops.source[verdict.lost], hops.target[verdict.gone]], last_node)
    target = np.where(has_hop, hops.target[verdict.lost], hops.target[last])
    has_target = is_lost & ((is_unseen & ~is_gone) | (has_hop & ~hops.is_dead[verdict.lost]))
    return {
        "lost_from_node": hops.nodes.take(pa.array(source, mask=~is_lost)),
        "lost_to_node": hops.nodes.take(pa.array(target, mask=~has_target)),
        "is_holder_gone": pa.array(is_lost & is_gone),
    }


def _is_told_otherwise(told: pa.Array, verdict: _RequestVerdict) -> pa.Array:
    """Tell where outcome and what was told contradict each other, by the table of this module."""
    is_error = bools(pc.is_valid(told)) & ~bools(pc.fill_null(pc.equal(told, "answered"), False))
    is_given_up = bools(pc.is_in(told, GIVEN_UP))
    is_answered, is_failed = (verdict.outcome == OUTCOME[name] for name in ("answered", "failed"))
    return pa.array((is_error & is_answered) | (is_given_up & is_failed))


def _reasons(hops: HopColumns, verdict: _RequestVerdict) -> pa.Array:
    """Give the reason of each outcome: the words of a failure; of a loss the dead letter, `hop_lost` or `no_answer`."""
    words = pc.if_else(pa.array(hops.is_dead), hops["dead_reason"], hops["outcome_reason"])
    words = pc.if_else(pa.array(hops.is_told), hops["told_reason"], words)
    told = words.take(_or_null(verdict.answer))
    dead = hops["dead_reason"].take(_or_null(verdict.lost))
    lost = pc.if_else(pa.array(verdict.lost < 0), "no_answer", pc.if_else(pc.equal(dead, ""), "hop_lost", dead))
    reason = pc.case_when(
        pc.make_struct(
            pa.array(verdict.outcome == OUTCOME["failed"]),
            pa.array(verdict.outcome == OUTCOME["lost"]),
        ),
        told,
        pc.fill_null(lost, "hop_lost"),
        pa.scalar("", pa.string()),
    )
    return pc.fill_null(reason, "")


def _or_null(rows: Ints) -> pa.Array:
    return pa.array(rows, mask=rows < 0)
