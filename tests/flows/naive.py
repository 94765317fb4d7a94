"""The judge once more, one row at a time: dicts and loops, as the documents tell it, and never fast.

Nothing is shared with the judge but what goes in: the sightings, the coverage and the rules. Whoever changes a
definition changes it here too, by hand; that is the point. Where the documents are silent, they are read so:

- A message that left once and came once is one, however long it took.
- Skipped sightings count from the patience before to the patience after.
- A message with an id that was seen to leave for a node is a duplicate there whenever it comes again. Equal messages
  without an id may be two: not so if they came soon, or if the sender was looking and sent fewer.
- A node that ended without closing its capture is blind as a receiver from the patience before its last sighting to
  `unwritten_ns` after it; not so where its capture ends for good, there a message is in flight.
- A dead letter that only says that somebody was too late or had it already loses nothing: `HARMLESS`.
- The first question is what home said first, and what was seen first if that is unknown. What somebody else says in
  the name of home is neither a question nor an answer.
- Of several hops that are lost the last one is named; where nothing is lost, the node that was last seen.
- The capture ends with that of the node at home, if it captures; a node that is silent for longer than `silence_ns` has
  ended. Before its first sighting a node does not capture.
- What an asker was told is no message: it is counted nowhere, and only its time ends the flow.
- What stays within a node left and came at once, and may well come from an actor that was asked.
- A request is lost at a node that had it, and ended: not before the last arrival of the question, for it was sent to
  another then, and not after the deadline, or the patience before that is over where there is none.
- A stream is answered by its end, or when home said that it has enough; its parts answer nothing by themselves.

- Equal messages of no flow and without an id are cut into minutes; an arrival is in the minute of its departure,
  and one too many in that of the last departure before it.

A flow without a correlation id is a tuple here, since how its bytes are made is nobody's business.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from hopwire.flows.coverage import Coverage
from hopwire.flows.rules import Rules

__all__ = ["Row", "first_seen", "naive_flows", "naive_hops", "naive_requests"]

Row = dict[str, Any]
NO_FLOW = (b"", b"00000000-0000-0000-0000-000000000000")  # the original writes the second
CONTRACT = ("identity", "version", "version_raw", "partition")
AS_SEEN = (
    *CONTRACT, "message_key", "attempt", "correlation_id", "distribution", "ttl_ticks", "size_bytes", "callback_key",
    "outcome_kind", "outcome_reason", "wire_format", "message_id", "signature",
)  # fmt: skip
OF_QUESTION = (*CONTRACT, "flow_id", "correlation_id", "callback_key", "message_key", "awaits")
FOR_GOOD = ("expired", "cannot_carry", "cannot_sign", "bad_value")
HARMLESS = ("expired", "nobody_waits", "duplicate", "unexpected_answer")
OF_POINT = {b"hopwire.receipt": "receipt", b"hopwire.stream": "stream"}
ANSWERS = {"receipt": ("", "received"), "answer": ("",), "stream": ("ended",)}  # kinds that answer who awaits it
OF_QUESTIONS = (b"hopwire.outcome", b"hopwire.demand", b"hopwire.enough", b"KINO.EXCEPTION", b"KINO.RCPTCONFIRM")
WRONG = ("invalid", "not_in_domain")
OF_OTHERS = ("duplicate", "foreign")
WORST_FIRST = ("lost", "expired", "late", "failed", "open", "answered")
NS_PER_TICK = 100
NS_PER_MINUTE = 60 * 10**9


def same(one: Row, other: Row, *names: str) -> bool:
    """Whether two rows agree in these columns."""
    return all(one[name] == other[name] for name in names)


# -- who was looking


def corrected(coverage: Coverage, node: bytes, at_ns: int) -> int:
    """A time of that node's clock, by the clock of the reference."""
    return at_ns - coverage.offsets_ns.get(node, 0)


def stretches(coverage: Coverage, spans: Iterable[Any], node: bytes) -> list[tuple[int, int]]:
    """The spans of one node, corrected."""
    own = [span for span in spans if span.node == node]
    return [(corrected(coverage, node, span.first_ns), corrected(coverage, node, span.last_ns)) for span in own]


def is_known(coverage: Coverage, one: bytes, other: bytes) -> bool:
    """Whether two clocks are known against each other."""
    return coverage.clocks.get(one, one) == coverage.clocks.get(other, other)


def skips_around(coverage: Coverage, rules: Rules, node: bytes, at: int) -> bool:
    """Whether a node skipped sightings about then."""
    skips = stretches(coverage, coverage.skips, node)
    return any(first <= at + rules.patience_ns and last >= at - rules.patience_ns for first, last in skips)


def broke_off(coverage: Coverage, node: bytes, begin: int, end: int) -> bool:
    """Whether a life of a node ended between two times, and nobody knows that it was closed."""
    unclosed = [span for span in coverage.spans if span.ending != "closed"]
    return any(begin <= last <= end for _, last in stretches(coverage, unclosed, node))


def goes_on(coverage: Coverage, rules: Rules, node: bytes, at: int) -> bool:
    """Whether a node was seen after that, before its silence was too long."""
    lives = stretches(coverage, coverage.spans, node)
    return any(last > at and first <= at + rules.silence_ns for first, last in lives)


def fate_of_departure(coverage: Coverage, rules: Rules, hop: Row) -> str:
    """What became of a message that left and was not seen to arrive."""
    lives = stretches(coverage, coverage.spans, hop["to_node"])
    if not lives or skips_around(coverage, rules, hop["to_node"], hop["left_at_ns"]):
        return "unwitnessed"
    left = hop["left_at_ns"]
    if left < min(first for first, _ in lives) or is_unsure(coverage, rules, hop["from_node"], hop["to_node"], left):
        return "unwitnessed"
    if not goes_on(coverage, rules, hop["to_node"], left + rules.patience_ns):
        return "in_flight"
    is_unwritten = broke_off(coverage, hop["to_node"], left - rules.unwritten_ns, left + rules.patience_ns)
    return "unwitnessed" if is_unwritten else "lost"


def fate_of_arrival(coverage: Coverage, rules: Rules, hop: Row, is_again: bool) -> str:
    """Where a message came from that was not seen to leave; again if others like it were."""
    came, lives = hop["arrived_at_ns"], stretches(coverage, coverage.spans, hop["from_node"])
    if not lives or skips_around(coverage, rules, hop["from_node"], came):
        return "unsent"
    left = came - rules.patience_ns  # or later
    begin, is_there = min(first for first, _ in lives), any(first <= came <= last for first, last in lives)
    is_outside = (came if is_again else left) < begin or not is_there or any(left <= last <= came for _, last in lives)
    if is_outside and not (is_again and hop["message_id"]):
        return "unsent"
    if is_again:
        return "duplicate"
    return "unsent" if is_unsure(coverage, rules, hop["to_node"], hop["from_node"], came) else "foreign"


def is_unsure(coverage: Coverage, rules: Rules, node: bytes, other: bytes, at: int) -> bool:
    """Whether nobody knows the clock of a node at a time, or the clock of the other node about then."""
    since, until = at - rules.patience_ns, at + rules.patience_ns
    about = (first <= until and since <= last for first, last in stretches(coverage, coverage.doubts, other))
    return is_doubtful(coverage, node, at) or any(about)


def is_doubtful(coverage: Coverage, node: bytes, at: int | None) -> bool:
    """Whether nobody knows the clock of a node at a time."""
    own = stretches(coverage, coverage.doubts, node)
    return at is not None and any(first <= at <= last for first, last in own)


# -- hops


def naive_hops(sightings: Iterable[Row], coverage: Coverage, rules: Rules) -> list[Row]:
    """One row for each crossing, and for each dead letter."""
    groups: dict[tuple[Any, ...], dict[str, list[Row]]] = defaultdict(
        lambda: {"out": [], "in": [], "dead": [], "local": [], "told": []}
    )
    for each in with_flows(sightings, coverage, rules):
        groups[each["flow_id"], each["message_key"], each["attempt"], *ends_of(each)][each["direction"]].append(each)
    hops = []
    for (_, _, _, from_node, to_node), seen in groups.items():
        departures, arrivals = seen["out"], seen["in"]
        partners = matched(coverage, rules, departures, arrivals)
        for crossing, departure in enumerate(departures):
            arrival = arrivals[partners[crossing]] if crossing in partners else None
            row = hop(coverage, from_node, to_node, departure, arrival, crossing)
            hops.append(row | {"fate": "arrived" if arrival else fate_of_departure(coverage, rules, row)})
        for crossing, arrival in enumerate(arrivals):
            if crossing not in partners.values():
                row = hop(coverage, from_node, to_node, None, arrival, crossing)
                hops.append(row | {"fate": fate_of_arrival(coverage, rules, row, bool(departures))})
        for fate in ("dead", "told"):
            hops += [hop(coverage, from_node, b"", each, None) | {"fate": fate} for each in seen[fate]]
        for each in seen["local"]:
            row = hop(coverage, from_node, from_node, each, each) | {"fate": "local"}
            hops.append(row | {"arrived_incarnation": None, "arrived_sequence": None})
    mark_repeats(hops, rules)
    mark_first(hops)
    return hops


def ends_of(seen: Row) -> tuple[bytes, bytes]:
    """The node that the message left, and the node that it went to."""
    return (seen["peer"], seen["node"]) if seen["direction"] == "in" else (seen["node"], seen["peer"])


def with_flows(sightings: Iterable[Row], coverage: Coverage, rules: Rules) -> list[Row]:
    """The sightings in order, with their flows; equal messages of no flow are told apart by the minute."""
    rows = [
        {**each, "flow_id": roles(each)["flow_id"]}
        for each in sorted(sightings, key=lambda each: (each["seen_at_ns"], each["incarnation"], each["sequence"]))
    ]
    near: dict[tuple[Any, ...], dict[str, list[Row]]] = defaultdict(lambda: {"out": [], "in": []})
    for each in rows:
        if each["flow_id"] != (each["message_key"],) or each["message_id"]:
            continue
        at = corrected(coverage, each["node"], each["seen_at_ns"])
        each["flow_id"] = each["message_key"], at // NS_PER_MINUTE
        end = (at + NS_PER_MINUTE // 2) // NS_PER_MINUTE
        if abs(at - end * NS_PER_MINUTE) <= rules.patience_ns and each["direction"] in ("in", "out"):
            near[each["message_key"], each["attempt"], *ends_of(each), end][each["direction"]].append(each)
    for seen in near.values():
        pairs = matched(coverage, rules, seen["out"], seen["in"])
        for departure, arrival in pairs.items():
            left, came = seen["out"][departure], seen["in"][arrival]
            if can_be_one(coverage, rules, left, came):
                came["flow_id"] = left["flow_id"]
        for number, came in enumerate(seen["in"]):
            before = [left for left in seen["out"] if can_be_one(coverage, rules, left, came)]
            if number not in pairs.values() and before:
                latest = max(before, key=lambda left: corrected(coverage, left["node"], left["seen_at_ns"]))
                came["flow_id"] = latest["flow_id"]
    return rows


def can_be_one(coverage: Coverage, rules: Rules, left: Row, came: Row) -> bool:
    """Whether a message can have taken as long as from this departure to this arrival."""
    begin, end = (corrected(coverage, each["node"], each["seen_at_ns"]) for each in (left, came))
    return -rules.clock_slack_ns <= end - begin <= rules.patience_ns


def matched(coverage: Coverage, rules: Rules, departures: list[Row], arrivals: list[Row]) -> dict[int, int]:
    """The number of the arrival for that of each departure: by order, and by time where that cannot be."""
    left, came = (
        [corrected(coverage, each["node"], each["seen_at_ns"]) for each in side] for side in (departures, arrivals)
    )
    can_be = [[-rules.clock_slack_ns <= at - begin <= rules.patience_ns for at in came] for begin in left]
    by_order = {number: number for number in range(min(len(left), len(came)))}
    is_odd = len(left) != len(came) or not all(can_be[number][number] for number in by_order)
    is_several = len(left) > 1 or (len(came) > 1 and not arrivals[0]["message_id"])
    if (
        not is_odd
        or not by_order
        or not is_several
        or not is_known(coverage, departures[0]["node"], arrivals[0]["node"])
    ):
        return by_order
    return {departure: arrival for arrival, departure in most_pairs(can_be, len(left), len(came)).items()}


def most_pairs(can_be: Sequence[Sequence[bool]], departures: int, arrivals: int) -> dict[int, int]:
    """As many pairs as can be of so many departures and arrivals; the first arrivals, with the latest departures."""
    if not departures or not arrivals:
        return {}
    last, choices = arrivals - 1, [most_pairs(can_be, departures, arrivals - 1)]
    for number in range(departures):
        if can_be[number][last]:
            choices.append({**most_pairs(can_be, number, last), last: number})
    return max(choices, key=lambda pairs: (len(pairs), [-arrival for arrival in pairs], list(pairs.values())))


def hop(
    coverage: Coverage, from_node: bytes, to_node: bytes, departure: Row | None, arrival: Row | None, crossing: int = 0
) -> Row:
    """A departure and its arrival, or the one of them that there is."""
    seen = departure or arrival or {}
    left_at = corrected(coverage, from_node, departure["seen_at_ns"]) if departure else None
    arrived_at = corrected(coverage, to_node, arrival["seen_at_ns"]) if arrival else None
    return {
        **{name: seen[name] for name in AS_SEEN},
        **roles(seen),
        **words(seen),
        "flow_id": seen["flow_id"],
        "crossing": crossing,
        "from_node": from_node,
        "to_node": to_node,
        "left_at_ns": left_at,
        "arrived_at_ns": arrived_at,
        **{f"left_{name}": departure and departure[name] for name in ("incarnation", "sequence")},
        **{f"arrived_{name}": arrival and arrival[name] for name in ("incarnation", "sequence")},
        "latency_us": took_us(left_at, arrived_at),
        "is_corrected": bool(departure and arrival)
        and is_known(coverage, from_node, to_node)
        and not any(is_doubtful(coverage, *end) for end in ((from_node, left_at), (to_node, arrived_at))),
        "verdict": (arrival or seen)["verdict"],
        "hop_count": seen["hops"],
        "repeat": "",
        "becomes": bytes.fromhex(seen["dead_note"]) if is_of_gateway(seen) else b"",
    }


def is_of_gateway(seen: Row) -> bool:
    """Whether a message goes from one node of a gateway to the other: its note is the key that it goes on with."""
    return seen["direction"] in ("in", "out") and bool(re.fullmatch("[0-9a-f]{32}", seen["dead_note"]))


def roles(message: Row) -> Row:
    """What the message is to a request, and to which; and its flow."""
    points = message["callback_points"]
    receiver, waiting = message["receiver_identity"], message["callback_receiver_identity"]
    is_answer = receiver == waiting and any(same(point, message, *CONTRACT) for point in points)
    is_reply = bool(receiver) and (is_answer or bool(message["outcome_kind"]))
    whose = "receiver" if is_reply else "callback_receiver"
    node = message[f"{whose}_node_identity"] if message["wire_format"] >= 5 else b""
    home = node, message[f"{whose}_identity"]
    flow: Any = message["correlation_id"]
    if flow in NO_FLOW:
        has_key = home[1] and message["callback_key"]
        flow = (*home, message["callback_key"]) if has_key else (message["message_key"],)
    wanted = {OF_POINT.get(point["identity"], "answer") for point in points}
    awaits = "stream" if "stream" in wanted else min(wanted, default="")  # an answer comes before a receipt
    is_insisted = "receipt" in wanted and bool(message["message_id"])
    found = {"flow_id": flow, "home_node": home[0], "home_receiver": home[1], "is_reply": is_reply, "awaits": awaits}
    is_own = message["identity"].startswith((b"hopwire.", b"KINO."))
    return {**found, "is_insisted": is_insisted, "is_control": is_own and message["identity"] not in OF_QUESTIONS}


def words(seen: Row) -> Row:
    """Why it went no further, or what an asker was told: the first word of an error's text is its reason."""
    if seen["direction"] != "told":
        return {"dead_reason": seen["dead_reason"], "told": "", "told_reason": ""}
    return {"dead_reason": "", "told": seen["dead_reason"], "told_reason": seen["dead_note"].partition(":")[0]}


def took_us(begin_ns: int | None, end_ns: int | None) -> int | None:
    """The microseconds between two times, if both are known."""
    return None if begin_ns is None or end_ns is None else (end_ns - begin_ns) // 1000


def first_seen(hop: Row) -> int:
    """When it left, or arrived where nobody saw it leave."""
    at: int = hop["arrived_at_ns"] if hop["left_at_ns"] is None else hop["left_at_ns"]
    return at


def last_seen(hop: Row) -> tuple[int, bytes]:
    """When it was seen last, and where."""
    if hop["arrived_at_ns"] is None:
        return hop["left_at_ns"], hop["from_node"]
    return max(first_seen(hop), hop["arrived_at_ns"]), hop["to_node"]


def mark_repeats(hops: list[Row], rules: Rules) -> None:
    """Mark what came before, and was not seen to leave again."""
    arrivals = [each for each in hops if each["arrived_at_ns"] is not None and each["fate"] != "local"]
    arrivals.sort(key=lambda each: each["arrived_at_ns"])
    for number, each in enumerate(arrivals):
        before = [other for other in arrivals[:number] if same(other, each, "flow_id", "message_key", "attempt")]
        here = [other for other in before if same(other, each, "to_node")]
        copies = [other for other in before if each["signature"] and same(other, each, "signature")]
        if each["left_at_ns"] is None and here:
            each["repeat"] = repeat(each, here[-1], rules)
        elif each["left_at_ns"] is None and copies and each["distribution"] == 0:
            is_onward = each["hop_count"] > copies[-1]["hop_count"]
            each["repeat"] = "" if is_onward else "replayed"


def repeat(hop: Row, earlier: Row, rules: Rules) -> str:
    """What an arrival is that follows an earlier one of an equal message at the same node."""
    is_soon = hop["arrived_at_ns"] - earlier["arrived_at_ns"] <= rules.duplicate_window_ns
    is_soon = is_soon and same(hop, earlier, "from_node")
    if hop["signature"] and same(hop, earlier, "signature"):
        return "duplicate" if is_soon else "replayed"
    return "duplicate" if is_soon or hop["message_id"] or hop["fate"] == "duplicate" else ""


def mark_first(hops: list[Row]) -> None:
    """Mark the first hop of each message; of equal messages without an id all that begin as the first does."""
    first: dict[tuple[Any, bytes], Row] = {}
    for each in sorted(hops, key=first_seen):
        begin = first.setdefault((each["flow_id"], each["message_key"]), each)
        is_alike = same(each, begin, "from_node", "to_node", "hop_count") and (each["fate"] == "dead") == (
            begin["fate"] == "dead"
        )
        is_another = not each["message_id"] and not each["repeat"] and each["fate"] not in OF_OTHERS
        each["is_first"] = each["fate"] != "told" and (each is begin or (is_another and is_alike))


# -- requests


def naive_requests(hops: Iterable[Row], coverage: Coverage, rules: Rules) -> list[Row]:
    """One row for each request of which a question was seen."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for each in sorted(hops, key=first_seen):
        if each["home_receiver"]:
            home = each["home_node"], each["home_receiver"], each["callback_key"]
            groups[*home, each["correlation_id"], each["flow_id"]].append(each)
    return [request(group, coverage, rules) for group in groups.values() if any(map(is_question, group))]


GAVE_UP = {"Timeout", "Cancelled", "Closed", "Expired"}  # promises that no word of another node has ended
GIVEN_UP = ("Timeout", "Cancelled", "Closed", "Unreachable", "NoRoute", "QueueFull")  # by askers without an answer


def is_question(hop: Row) -> bool:
    """Whether something is awaited, and this is not it."""
    return bool(hop["awaits"]) and not hop["is_reply"]


def request(hops: list[Row], coverage: Coverage, rules: Rules) -> Row:
    """What became of one request; the hops are those of all its messages, by time."""
    ends = [each for each in hops if each["fate"] == "told"]
    hops = [each for each in hops if each["fate"] != "told"]
    questions = list(filter(is_question, hops)) or ends
    of_home = [each for each in questions if each["from_node"] == each["home_node"] and each["fate"] not in OF_OTHERS]
    question = (of_home or questions)[0]
    home = question["home_node"] or question["from_node"]
    asked = first_seen(question)
    own = [each for each in hops if same(each, question, "message_key")]
    reached = [(each["arrived_at_ns"], each["to_node"]) for each in own if each["arrived_at_ns"] is not None]
    last_seen_at, last_seen_node = max(map(last_seen, hops or ends))
    row = {
        **{name: question[name] for name in OF_QUESTION},
        "callback_receiver_node_identity": question["home_node"],
        "callback_receiver_identity": question["home_receiver"],
        "home_node": home,
        "asked_at_ns": asked,
        "deadline_ns": asked + question["ttl_ticks"] * NS_PER_TICK if question["ttl_ticks"] else None,
        "reason": "",
        **dict.fromkeys(("answered_at_ns", "answer_identity", "lost_from_node", "lost_to_node", "open_until_ns")),
        "reached_node": max(reached)[1] if reached else None,
        "last_seen_node": last_seen_node,
        "last_seen_at_ns": last_seen_at,
        "attempts": max((each["attempt"] for each in own), default=-1) + 1,
        **{name: question[name] for name in ("is_insisted", "is_control")},
        **(
            {"told": ends[0]["told"], "told_reason": ends[0]["told_reason"], "told_at_ns": ends[0]["left_at_ns"]}
            if ends
            else dict.fromkeys(("told", "told_reason", "told_at_ns"))
        ),
        "is_holder_gone": False,
        "is_outcome_guessed": False,
        "hop_count": len(hops),
        "is_reused": any(is_another(each, question, home, hops) for each in questions),
    }
    row |= {name: (ends or [question])[0][name] for name in (*CONTRACT, "awaits", "is_control")}
    row |= outcome(hops, row | {"awaits": question["awaits"]}, coverage, rules, ends)
    row["is_told_otherwise"] = is_contradicted(row["told"], row["outcome"])
    wanted = ANSWERS[row["awaits"]]
    answers = [each for each in hops if each["is_reply"] and each["outcome_kind"] in wanted and each["fate"] != "dead"]
    is_unreached = row["outcome"] in ("lost", "expired") and bool(answers)
    return row | {"latency_us": took_us(asked, row["answered_at_ns"]), "is_callback_unreached": is_unreached}


def is_contradicted(told: str | None, outcome: str) -> bool:
    """Whether what an asker was told cannot be, if the outcome is right."""
    if told in (None, "answered"):
        return False
    return outcome == "answered" or (outcome == "failed" and told in ("Timeout", "Cancelled", "Closed", "Expired"))


def is_another(hop: Row, question: Row, home: bytes, hops: list[Row]) -> bool:
    """Whether another question of that contract left home, before anything came back that could be passed on there."""
    back = [each["arrived_at_ns"] for each in hops if each["to_node"] == home and not each["is_reply"]]
    is_first = all(at is None or at > first_seen(hop) for at in back)
    is_of_home = hop["from_node"] == home and hop["fate"] not in (*OF_OTHERS, "dead")
    return is_first and is_of_home and same(hop, question, *CONTRACT) and not same(hop, question, "message_key")


def is_seen_later(coverage: Coverage, rules: Rules, home: bytes, at: int) -> bool:
    """Whether the node at home was looking on; if it was not looking yet, whether anybody was."""
    lives = stretches(coverage, coverage.spans, home)
    if lives and min(first for first, _ in lives) <= at:
        return goes_on(coverage, rules, home, at)
    return any(last > at for span in coverage.spans for _, last in stretches(coverage, [span], span.node))


def came_home(hop: Row, hops: list[Row], home: bytes) -> str:
    """Whether a reply came home: "taken", "unwanted", or not; where nobody was looking, leaving counts."""
    is_told = hop["fate"] in ("arrived", "unsent", "unwitnessed", "local") and not hop["repeat"]
    if not (hop["is_reply"] and hop["to_node"] == home and is_told and hop["verdict"] not in WRONG):
        return ""
    copies = [each for each in hops if same(each, hop, "message_key")]
    copies = [
        each for each in copies if (each["hop_count"] == 0) == (hop["hop_count"] == 0)
    ]  # else home made it itself
    came = sum(each["to_node"] == home and each["arrived_at_ns"] is not None for each in copies)
    ends = Counter(each["dead_reason"] for each in copies if each["fate"] == "dead" and each["from_node"] == home)
    came -= ends["duplicate"]  # what became of the copy before is what became of the reply
    unwanted = ends["nobody_waits"]
    refused = ends.total() - unwanted - ends["duplicate"]
    if refused and refused >= came:  # else only a copy was
        return ""
    return "unwanted" if unwanted + refused and unwanted + refused >= came else "taken"


def is_taken_in_time(hop: Row, request: Row, coverage: Coverage, rules: Rules) -> bool:
    """Whether home had a reply that it did not give up: surely if it wrote down all that it gave up, else by time."""
    home, deadline, came = request["home_node"], request["deadline_ns"], hop["arrived_at_ns"]
    if deadline is None or (came or hop["left_at_ns"]) <= deadline:
        return True
    if came is None or hop["wire_format"] < 5:  # dead letters of older ones have other keys
        return False
    return tells_all(coverage, home, came, came + rules.giving_up_soon_ns)


def is_proven(hop: Row, request: Row, coverage: Coverage, rules: Rules) -> bool:
    """Whether home wrote down all that it gave up when the reply came."""
    came = hop["arrived_at_ns"]
    return bool(
        came is not None
        and hop["wire_format"] >= 5
        and tells_all(coverage, request["home_node"], came, came + rules.giving_up_ns)
    )


def outcome(hops: list[Row], request: Row, coverage: Coverage, rules: Rules, told_rows: list[Row]) -> Row:
    """The first outcome that fits, and what it is drawn from."""
    deadline, asked, home = request["deadline_ns"], request["asked_at_ns"], request["home_node"]
    replies = [each for each in hops if came_home(each, hops, home)]
    home_at = {id(each): each["arrived_at_ns"] or each["left_at_ns"] for each in replies}
    replies.sort(key=lambda each: home_at[id(each)])
    taken = {
        id(each)
        for each in replies
        if came_home(each, hops, home) == "taken" and is_taken_in_time(each, request, coverage, rules)
    }
    if any(each["told"] in GIVEN_UP for each in told_rows):  # what nobody saw come was not taken
        taken -= {id(each) for each in replies if each["fate"] == "unwitnessed"}
    errors = {each["told"] for each in told_rows} - {"answered"}
    unsure = {id(each) for each in replies if not is_proven(each, request, coverage, rules)}
    if errors & GAVE_UP:
        taken -= unsure
    wanted = ANSWERS[request["awaits"]]
    answers = [each for each in replies if each["outcome_kind"] in wanted]
    is_believed = bool(errors & {"HandlerFailed", "UnexpectedAnswer"})
    is_odd = request["attempts"] < 2 and any(is_odd_end(each, request) for each in hops)
    told_of = {id(each) for each in replies if is_told_of(each, told_rows)}
    failures = [each for each in replies if is_failure(each, request, is_believed or id(each) in told_of, is_odd)]
    bad = set(map(id, failures))
    words = [each for each in replies if id(each) in bad or says_expired(each)]
    ended_at = min((home_at[id(each)] for each in words if came_home(each, hops, home) == "taken"), default=None)
    if errors:
        taken -= unsure & set(map(id, answers))
    if ended_at is not None:
        taken -= {id(each) for each in answers if id(each) in unsure and home_at[id(each)] > ended_at}
    believed = [each for each in failures if is_believed or id(each) in told_of]
    taken |= {id(each) for each in believed if came_home(each, hops, home) == "taken"}
    enough = [each for each in hops if is_enough(each, request)]
    taken |= {id(each) for each in enough}
    home_at |= {id(each): first_seen(each) for each in enough}
    kept = [each for each in told_rows if each["told"] == "answered"]
    taken |= {id(each) for each in kept}
    home_at |= {id(each): each["left_at_ns"] for each in kept}
    answers = sorted(answers + enough + kept, key=lambda each: home_at[id(each)])
    within = [each for each in hops if is_failure_within(each, request)]
    unwanted = [each for each in hops if is_unwanted_word(each, request)]
    if errors & GAVE_UP or (any(each["outcome_kind"] == "failed" for each in unwanted) and not is_believed):
        within = []
    taken |= {id(each) for each in within}
    home_at |= {id(each): each["left_at_ns"] for each in within}
    failures = sorted(failures + within, key=lambda each: home_at[id(each)])
    for word, came in (("answered", answers), ("failed", failures), ("late", answers)):
        for each in came:
            if word == "late" or id(each) in taken:
                identity = None if each["fate"] == "told" else each["identity"]
                told = {"answered_at_ns": home_at[id(each)], "answer_identity": identity}
                told["is_outcome_guessed"] = is_guessed(each, request, coverage, rules)
                return {"outcome": word, "reason": failed_for(each) if word == "failed" else "", **told}
    if not told_rows and any(is_received_within(each, request, unwanted, coverage, rules) for each in hops):
        return {"outcome": "answered", "is_outcome_guessed": True}
    silent_at = asked + rules.patience_without_ttl_ns if deadline is None else deadline + rules.patience_ns
    if not told_rows and has_hidden_holder(hops, request, coverage, rules, silent_at):
        return {"outcome": "open", "open_until_ns": silent_at}
    if any(is_expiry(each, deadline) for each in hops):
        return {"outcome": "expired"}
    is_said = any(
        each["is_reply"] and each["outcome_kind"] == "failed" and each["fate"] == "in_flight" for each in hops
    )
    harmless = (*HARMLESS, "handler_failed") if request["awaits"] == "receipt" or is_said else HARMLESS
    ended = [each for each in hops if each["fate"] == "dead" and each["dead_reason"] not in harmless]
    ended += [each for each in hops if each["fate"] == "lost"]
    if ended:
        last = max(ended, key=first_seen)
        ends = {"lost_from_node": last["from_node"], "lost_to_node": last["to_node"] or None}
        return {"outcome": "lost", "reason": last["dead_reason"] or "hop_lost", **ends}
    is_over = is_seen_later(coverage, rules, home, silent_at)
    is_given_up = any(each["told"] in GIVEN_UP for each in told_rows)
    if is_over and (is_given_up or is_silence_seen(hops, request, coverage, rules, silent_at)):
        gone = ended_with_it(hops, request, coverage, silent_at - rules.patience_ns)
        if gone:
            ends = {"lost_from_node": gone, "lost_to_node": None, "is_holder_gone": True}
            return {"outcome": "lost", "reason": "no_answer", **ends}
        end_of_trace = max(hops or told_rows, key=last_seen)
        unseen = end_of_trace["to_node"] if end_of_trace["fate"] == "unwitnessed" else None
        ends = {"lost_from_node": request["last_seen_node"], "lost_to_node": unseen}
        return {"outcome": "lost", "reason": "no_answer", **ends}
    for each in told_rows:
        if each["told"] in ("HandlerFailed", "UnexpectedAnswer"):
            return {"outcome": "failed", "reason": each["told_reason"], "answered_at_ns": each["left_at_ns"]}
    return {"outcome": "open", "open_until_ns": silent_at}


def is_told_of(hop: Row, told_rows: list[Row]) -> bool:
    """Whether a word has the reason that the asker was told."""
    is_word = hop["outcome_kind"] == "undelivered" and hop["outcome_reason"]
    return bool(is_word and told_rows and told_rows[0]["told_reason"] == hop["outcome_reason"])


def is_guessed(hop: Row, request: Row, coverage: Coverage, rules: Rules) -> bool:
    """Whether a reply decides that nobody saw come, or that home may have given up unseen."""
    if not hop["is_reply"] or hop["fate"] in ("dead", "told"):
        return False
    came = hop["arrived_at_ns"]
    return came is None or not tells_all(coverage, request["home_node"], came, came + rules.giving_up_ns)


def is_silence_seen(hops: list[Row], request: Row, coverage: Coverage, rules: Rules, silent_at: int) -> bool:
    """Whether an answer would have been seen, by whoever would have answered or by home."""
    said = [each for each in hops if not each["is_reply"]]
    if not said:
        return False
    asked, home = request["asked_at_ns"], request["home_node"]
    latest = max(said, key=lambda each: max(each["left_at_ns"] or 0, each["arrived_at_ns"] or 0))
    last = latest["from_node"] if latest["fate"] == "dead" else latest["to_node"]
    if last == home:
        return latest["fate"] == "local" and tells_all(coverage, home, asked, silent_at)
    return not can_miss_answer(coverage, rules, last, home, asked, silent_at)


def has_hidden_holder(hops: list[Row], request: Row, coverage: Coverage, rules: Rules, silent_at: int) -> bool:
    """Whether somebody was sent the question, and may have answered it while neither it nor home wrote anything."""
    home, deadline = request["home_node"], request["deadline_ns"]
    busy = {home, *(each["from_node"] for each in hops if request["awaits"] == "receipt" or not has_it_only(each))}
    for each in hops:
        is_copy = each["message_key"] == request["message_key"] and not each["repeat"]
        if not is_copy or each["fate"] in ("lost", "dead", *OF_OTHERS) or each["to_node"] in busy:
            continue
        if deadline is not None and (each["arrived_at_ns"] or 0) > deadline:
            continue
        if can_miss_answer(coverage, rules, each["to_node"], home, first_seen(each), silent_at):
            return True
    return False


def has_it_only(hop: Row) -> bool:
    """Whether a node says no more than that it has the question."""
    return bool(hop["outcome_kind"] == "received" or hop["dead_reason"] == "duplicate")


def is_odd_end(hop: Row, request: Row) -> bool:
    """Whether something else than the question found nobody, though who asks insists."""
    is_other = hop["message_key"] != request["message_key"] and not hop["is_reply"]
    return bool(is_other and hop["dead_reason"] == "no_route" and request["is_insisted"])


def is_failure(hop: Row, request: Row, is_believed: bool, is_odd: bool) -> bool:
    """Whether a reply is bad news that whoever asked has to believe; who insists goes on after most of it."""
    if says_expired(hop):
        return False
    if hop["outcome_kind"] == "undelivered":
        is_strange = is_odd and hop["outcome_reason"] == "no_route"
        return not request["is_insisted"] or hop["outcome_reason"] in FOR_GOOD or is_believed or is_strange
    asks_again = request["is_insisted"] and request["attempts"] > 1 and hop["outcome_reason"] == "no_answer"
    return bool(hop["outcome_kind"] == "failed" and not asks_again)


def is_failure_within(hop: Row, request: Row) -> bool:
    """Whether a handler failed at home in time, whose word stays within the node; a receipt came before that."""
    is_failed = hop["dead_reason"] == "handler_failed" and not hop["is_reply"] and request["awaits"] != "receipt"
    deadline = request["deadline_ns"]
    return bool(
        is_failed and hop["from_node"] == request["home_node"] and (deadline is None or hop["left_at_ns"] <= deadline)
    )


def is_unwanted_word(hop: Row, request: Row) -> bool:
    """Whether home gave up a reply because nobody waited."""
    return bool(hop["is_reply"] and hop["from_node"] == request["home_node"] and hop["dead_reason"] == "nobody_waits")


def is_received_within(hop: Row, request: Row, unwanted: list[Row], coverage: Coverage, rules: Rules) -> bool:
    """Whether a question ended at home after its receipt was given, or after its stream was read."""
    home, ended = request["home_node"], hop["left_at_ns"]
    if hop["from_node"] != home or hop["message_key"] != request["message_key"]:
        return False
    if request["awaits"] == "stream":
        return hop["dead_reason"] == "expired" and tells_all(coverage, home, ended, ended + rules.unwritten_ns)
    if request["awaits"] != "receipt":
        return False
    if hop["dead_reason"] == "handler_failed":
        return True
    return hop["dead_reason"] == "expired" and any(says_expired(each) for each in unwanted)


def failed_for(hop: Row) -> str:
    """Why a question failed: so the outcome says, or the dead letter."""
    reason: str = hop["dead_reason"] if hop["fate"] == "dead" else hop["outcome_reason"]
    return reason


def ended_with_it(hops: list[Row], request: Row, coverage: Coverage, until: int) -> bytes:
    """The node that had the request last of those that ended before they could answer."""
    arrivals = [each for each in hops if each["arrived_at_ns"] is not None and not each["is_reply"]]
    of_question = [each["arrived_at_ns"] for each in arrivals if same(each, request, "message_key")]
    found = []
    for each in arrivals:
        came, node = each["arrived_at_ns"], each["to_node"]
        is_again = each["repeat"] or each["fate"] in OF_OTHERS
        lasts = [last for _, last in stretches(coverage, coverage.spans, node)]
        has_ended = any(came <= last <= until for last in lasts)
        if node != request["home_node"] and not is_again and came >= max(of_question, default=0) and has_ended:
            found.append((came, node))
    return max(found)[1] if found else b""


def tells_all(coverage: Coverage, node: bytes, begin: int, end: int) -> bool:
    """Whether a node wrote down all that it gave up between two times."""
    lives = [span for span in coverage.spans if span.node == node]
    others = stretches(coverage, [span for span in lives if span.ending == "overheard"], node)
    is_overheard = any(first <= end and last >= begin for first, last in others)
    is_blind = skips_between(coverage, node, begin, end) or broke_off(coverage, node, begin, end)
    is_looking = any(first <= begin for first, _ in stretches(coverage, lives, node))
    return is_looking and not is_overheard and not is_blind


def is_enough(hop: Row, request: Row) -> bool:
    """Whether home said that it has enough of a stream."""
    is_word = request["awaits"] == "stream" and hop["identity"] == b"hopwire.enough"
    return is_word and hop["from_node"] == request["home_node"] and hop["fate"] not in (*OF_OTHERS, "dead")


def can_miss_answer(coverage: Coverage, rules: Rules, sender: bytes, home: bytes, asked: int, until: int) -> bool:
    """Whether an answer can have left and come home while neither end wrote anything down."""
    for left, left_last in blind_times(coverage, rules, sender):
        for came, came_last in blind_times(coverage, rules, home):
            leaves = max(left, asked)
            arrives = max(came, leaves)
            if leaves <= left_last and arrives <= min(came_last, left_last + rules.patience_ns, until):
                return True
    return False


def blind_times(coverage: Coverage, rules: Rules, node: bytes) -> list[tuple[int, int]]:
    """When a node skipped, and from the last that it wrote to when it was killed; always, if it does not capture."""
    if not node or node not in {span.node for span in coverage.spans}:
        return [(-(2**62), 2**62)]
    unclosed = [span for span in coverage.spans if span.ending != "closed"]
    kills = [(last, last + rules.unwritten_ns) for _, last in stretches(coverage, unclosed, node)]
    begin = min(first for first, _ in stretches(coverage, coverage.spans, node))
    return [(-(2**62), begin - 1), *stretches(coverage, coverage.skips, node), *kills]


def skips_between(coverage: Coverage, node: bytes, begin: int, end: int) -> bool:
    """Whether a node skipped sightings between two times."""
    return any(first <= end and last >= begin for first, last in stretches(coverage, coverage.skips, node))


def says_expired(hop: Row) -> bool:
    """Whether it is the word that the time was over."""
    return bool(hop["outcome_kind"] == "undelivered" and hop["outcome_reason"] == "expired")


def is_expiry(hop: Row, deadline: int | None) -> bool:
    """Whether the time was over for a message: so it says, or so it ended, or so it came."""
    is_late = deadline is not None and hop["arrived_at_ns"] is not None and hop["arrived_at_ns"] > deadline
    return says_expired(hop) or hop["dead_reason"] == "expired" or is_late


# -- flows


def naive_flows(hops: Iterable[Row], requests: Iterable[Row]) -> list[Row]:
    """One row for each flow: its outcome, and what adds up."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    outcomes: dict[Any, list[str]] = defaultdict(list)
    for each in sorted(hops, key=first_seen):
        groups[each["flow_id"]].append(each)
    for each in requests:
        outcomes[each["flow_id"]].append(each["outcome"])
    return [flow(group, outcomes[flow_id]) for flow_id, group in groups.items()]


def flow(hops: list[Row], outcomes: list[str]) -> Row:
    """What became of one flow; the hops are by time."""
    fates = Counter(each["fate"] for each in hops)
    counted = [each for each in hops if each["fate"] not in OF_OTHERS and not each["repeat"]]
    started, ended = first_seen(hops[0]), max(map(last_seen, counted or hops))[0]
    dead = {each["dead_reason"] for each in hops if each["fate"] == "dead"}
    is_lost, is_expired = fates["lost"] or dead - {*HARMLESS}, "expired" in dead
    of_hops = "lost" if is_lost else "expired" if is_expired else "open" if fates["in_flight"] else "delivered"
    return {
        **{name: hops[0][name] for name in ("flow_id", "correlation_id", "identity")},
        "outcome": min(outcomes, key=WORST_FIRST.index) if outcomes else of_hops,
        "started_at_ns": started,
        "ended_at_ns": ended,
        "duration_us": took_us(started, ended),
        "hop_count": len(hops) - fates["told"],
        "message_count": sum(each["is_first"] for each in hops),
        "size_bytes": sum(each["size_bytes"] for each in hops if each["fate"] != "told"),
        "is_control": all(each["identity"].startswith((b"hopwire.", b"KINO.")) for each in hops),
        **{f"{fate}_count": fates[fate] for fate in ("lost", "dead", "in_flight")},
        "request_count": len(outcomes),
        "answered_count": outcomes.count("answered"),
        "nodes": sorted({each[end] for each in hops for end in ("from_node", "to_node")} - {b""}),
        "contracts": sorted({each["identity"] for each in hops}),
    }
