"""Every fault does what its name says: its flows are decoded, and looked at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hopwire.errors import SettingsError
from hopwire.model import Message
from hopwire.model.names import OUTCOME
from hopwire.model.units import NS_PER_SECOND
from hopwire.security import Verdict, verify
from hopwire.simulate import FAULTS, rates_from_text
from hopwire.simulate.kinds import KINDS
from hopwire.wire.extension import extension_of
from tests.simulate.simulated import Network, Seen, network

MS = NS_PER_SECOND // 1000
RATES = {"nodes": 1, "minutes": 1, "flows": 0.2, "sightings": 0.2, "MiB": 0.5}


def of(fault: str) -> Network:
    return network(400, 7, (3, 4, 5, 6), f"{fault}={RATES[FAULTS[fault].of]}")


def came(flow: list[Seen]) -> list[Seen]:
    return [seen for seen in flow if seen.sighting.direction == "in"]


def left(flow: list[Seen]) -> list[Seen]:
    return [seen for seen in flow if seen.sighting.direction == "out"]


def dead(flow: list[Seen]) -> list[str]:
    return [seen.sighting.reason for seen in flow if seen.sighting.direction == "dead"]


def told(flow: list[Seen]) -> list[str]:
    return [seen.sighting.reason for seen in flow if seen.sighting.direction == "told"]


def same(message: Message | None) -> Message:
    assert message is not None
    return message.replace(hops=0, routing=(), ttl_ticks=0, socket_identity=b"")


def verdicts(fault: str, seen: list[Seen]) -> set[Verdict]:
    domains = of(fault).world.domains
    return {verify(each.message, domains, each.at_ns) for each in seen if each.message}


def requests(seen: list[Seen]) -> list[Seen]:
    """What is said first, without answers, outcomes and exceptions."""
    first = min(left(seen), key=lambda each: each.at_ns).message
    assert first is not None
    return [each for each in seen if each.message and each.message.identity == first.identity]


def is_lost(flow: list[Seen]) -> bool:
    return len(left(flow)) == len(came(flow)) + 1


def is_duplicate(flow: list[Seen]) -> bool:
    again = [
        each for each in came(flow) if [same(other.message) for other in came(flow)].count(same(each.message)) == 2
    ]
    return len(again) == 2 and 1 * MS <= abs(again[0].at_ns - again[1].at_ns) <= 200 * MS


def is_replayed(flow: list[Seen]) -> bool:
    again = [
        each for each in came(flow) if [same(other.message) for other in came(flow)].count(same(each.message)) == 2
    ]
    is_signed = all(each.message and each.message.signature for each in again)
    return is_signed and len(again) == 2 and abs(again[0].at_ns - again[1].at_ns) >= 5 * NS_PER_SECOND


def is_reordered(flow: list[Seen]) -> bool:
    sent = [same(each.message) for each in sorted(left(flow), key=lambda each: each.at_ns)]
    got = [same(each.message) for each in sorted(came(flow), key=lambda each: each.at_ns)]
    return got == sent[::-1] and len(sent) == 3


def is_changed(fault: str, name: str) -> Callable[[list[Seen]], bool]:
    def check(flow: list[Seen]) -> bool:
        (sent,), (got, *_) = left(requests(flow)), came(requests(flow))
        assert sent.message
        assert got.message
        differs = getattr(sent.message, name) != getattr(got.message, name)
        return differs and verdicts(fault, [sent]) == {Verdict.VALID} and verdicts(fault, [got]) == {Verdict.INVALID}

    return check


def is_judged(fault: str, verdict: Verdict) -> Callable[[list[Seen]], bool]:
    return lambda flow: verdicts(fault, requests(flow)) == {verdict} and len(requests(flow)) >= 2


def is_quarantined(fault: str) -> Callable[[list[Seen]], bool]:
    """Nothing that can be read arrives; what cannot be read is counted below."""
    return lambda flow: len(left(flow)) == 1 and not came(flow) and fault in FAULTS


def is_late(flow: list[Seen]) -> bool:
    ask, answer = (min(left(flow), key=lambda each: each.at_ns), max(came(flow), key=lambda each: each.at_ns))
    assert ask.message
    return 0 < ask.message.ttl_ticks * 100 < answer.at_ns - ask.at_ns and ask.sighting.node == answer.sighting.node


def is_expired(flow: list[Seen]) -> bool:
    """Either its sender is told, or it arrives too late and nothing follows."""
    return (dead(flow) == ["expired"] and is_failed(flow)) or len(flow) == 2


def is_looped(flow: list[Seen]) -> bool:
    hops = [each.message.hops for each in came(flow) if each.message]
    return sorted(hops) == list(range(1, 17)) and dead(flow) == ["hop_limit"]


def is_answer(seen: Seen) -> bool:
    message = seen.message
    return bool(message and message.receiver_identity and message.identity != OUTCOME)


def is_route_false(flow: list[Seen]) -> bool:
    messages = [(each.sighting.node, each.message) for each in left(requests(flow)) if each.message]
    assert all(message.trace_options == 1 for _, message in messages)
    return any(
        message.routing[-1].identity != node or len(message.routing) < message.hops for node, message in messages
    )


def is_failed(flow: list[Seen]) -> bool:
    last = max(came(flow), key=lambda each: each.at_ns).message
    return last is not None and last.identity in (OUTCOME, b"KINO.EXCEPTION")


def is_half_dark(flow: list[Seen]) -> bool:
    nodes = {each.sighting.node for each in flow}
    return bool({each.sighting.peer for each in flow} - nodes)


def is_reused(flow: list[Seen]) -> bool:
    asked = [each.message for each in left(requests(flow)) if each.message]
    return (
        len(asked) == 2 and len({each.callback_key for each in asked}) == 1 and len({each.body for each in asked}) == 2
    )


def is_reply_to_nobody(flow: list[Seen]) -> bool:
    (sent,) = left(flow)
    assert sent.message
    return (
        bool(sent.message.receiver_identity)
        and sent.message.receiver_identity == sent.message.callback_receiver_identity
    )


def has_unknown_version(flow: list[Seen]) -> bool:
    return {each.message.version for each in requests(flow) if each.message} <= {99, b"9.9"}


def is_sent_again(flow: list[Seen]) -> bool:
    asked = left(requests(flow))
    ids = [extension_of(each.message) for each in asked if each.message]
    attempts = [each.attempt for each in ids]
    return len({each.message_id for each in ids}) == 1 and sorted(attempts) == [0, 1]


CHECKS: dict[str, Callable[[list[Seen]], bool]] = {
    "loss": is_lost,
    "silence": lambda flow: bool(came(requests(flow))) and not any(is_answer(each) for each in flow),
    "no_route": lambda flow: dead(flow) == ["no_route"] and len(flow) == 1,
    "delay": is_late,
    "duplicate": is_duplicate,
    "reorder": is_reordered,
    "gave_up": lambda flow: dead(flow) == ["nobody_waits"] and not is_late(flow),
    "slow_timer": lambda flow: is_late(flow) and not dead(flow),
    "answer_expired": lambda flow: dead(flow) == ["expired"] and not any(is_answer(each) for each in left(flow)),
    "unwritten": is_half_dark,
    "crash": is_lost,
    "bad_mac": is_changed("bad_mac", "signature"),
    "tampered": is_changed("tampered", "body_frames"),
    "wrong_key": is_judged("wrong_key", Verdict.INVALID),
    "unknown_key": is_judged("unknown_key", Verdict.NO_KEY),
    "not_in_domain": is_judged("not_in_domain", Verdict.NOT_IN_DOMAIN),
    "replay": is_replayed,
    "truncated": is_quarantined("truncated"),
    "mutated": is_quarantined("mutated"),
    "expired": is_expired,
    "handled_late": is_late,
    "hop_loop": is_looped,
    "false_route": is_route_false,
    "handler_error": is_failed,
    "missing_capture": is_half_dark,
    "skipped": is_half_dark,
    "key_reused": is_reused,
    "reply_to_nobody": is_reply_to_nobody,
    "unknown_version": has_unknown_version,
    "resend": is_sent_again,
    "unfinished": lambda flow: is_lost(flow) and len(flow) == 1,
    "told": lambda flow: len(told(flow)) == 1 and not any(is_answer(each) and not dead(flow) for each in flow),
    "told_otherwise": lambda flow: told(flow) == ["Timeout"] and any(is_answer(each) for each in came(flow)),
    "local": lambda flow: any(each.sighting.direction == "local" for each in flow),
    "train": lambda flow: len({each.sighting.seen_at_ns for each in came(flow)}) == 1 and len(came(flow)) == 3,
    "giant_flow": lambda flow: len(flow) > 50,
    "giant_body": lambda flow: all(each.message is not None and len(each.message.body) >= 2**19 for each in flow),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", CHECKS)
def test_fault_does_what_its_name_says(fault: str) -> None:
    flows = of(fault).flows_with(fault)
    assert flows
    for flow in flows.values():
        assert CHECKS[fault](flow), [(each.sighting.direction, each.message) for each in flow]


@pytest.mark.parametrize("fault", ["truncated", "mutated"])
def test_every_damaged_message_is_in_quarantine(fault: str) -> None:
    damaged = [seen for seen in of(fault).seen if seen.message is None]
    assert len(damaged) == len(of(fault).flows_with(fault))


def test_clocks_differ_only_where_they_may() -> None:
    assert {node.offset_ns for node in of("loss").world.nodes} == {0}
    assert all(0 < abs(node.offset_ns) <= 2 * NS_PER_SECOND for node in of("clock_skew").world.nodes)


def test_only_the_faults_that_are_asked_for_happen() -> None:
    for fault in ("loss", "replay", "giant_flow"):
        assert {row["fault"] for row in of(fault).rows("truth_flows")} == {"", fault}


def test_every_fault_has_a_check_and_a_kind_of_flow() -> None:
    assert {*CHECKS, "clock_skew"} == set(FAULTS)
    assert {kind.fault for kind in KINDS} >= set(FAULTS) - {"clock_skew"}


def test_rates_are_read_from_text() -> None:
    assert rates_from_text("all")["loss"] == FAULTS["loss"].rate
    assert set(rates_from_text("none").values()) == {0.0}
    some = rates_from_text("loss=0.25, replay")
    assert (some["loss"], some["replay"], some["delay"]) == (0.25, FAULTS["replay"].rate, 0.0)


@pytest.mark.parametrize(
    ("text", "words"), [("lost", "no fault 'lost'; there are all, none"), ("loss=x", "found 'x', expected a number")]
)
def test_mistakes_in_rates_are_named(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        rates_from_text(text)
