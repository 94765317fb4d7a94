"""The kinds of flows: who says what to whom, what goes wrong, and what the lake has to find.

The outcomes and findings of a kind are the truth by the definitions of `gold.requests` and `gold.flows`.

The trap: matching counts departures and arrivals of equal messages. Two different causes must not make the same
picture: a new kind needs nodes, times or words of its own.
"""

from __future__ import annotations

from hopwire.simulate.shapes import AT_ONCE, HANDLING, Change, Kind, Millis, Mode, Says, SeenAt, Step, To, Waits, Window

__all__ = ["FAULTY", "KINDS", "ORDINARY"]

# -- steps that many kinds have


def _ask(dst: int = 1, **more: object) -> Step:
    return Step(0, dst, Says.REQUEST, waits=Waits.ANSWER)._replace(**more)  # type: ignore[arg-type]


def _answer(src: int = 1, cause: int = 0, **more: object) -> Step:
    step = Step(src, 0, Says.REPLY, cause, Waits.ANSWER, To.HOME)
    return step._replace(**more)  # type: ignore[arg-type]


def _told(says: Says, cause: int, src: int = 1) -> Step:
    """The outcome of a request, told to the hub that waits."""
    waits = {Says.EXCEPTION: Waits.ANSWER, Says.CONFIRMED: Waits.ITSELF}.get(says, Waits.KEY)
    return Step(src, 0, says, cause, waits, To.HOME)


def _dead(node: int, of: int, reason: str, note: str = "", cause: int | None = None, wait: Millis = HANDLING) -> Step:
    where = of if cause is None else cause
    return Step(node, node, cause=where, mode=Mode.COPY, of=of, seen=SeenAt.DEAD, wait=wait, reason=reason, note=note)


def _end(error: str, note: str = "", cause: int = 0, wait: Millis = HANDLING) -> Step:
    """The end of the promise at node 0, as its asker is told."""
    return Step(
        0, 0, cause=cause, mode=Mode.COPY, of=0, seen=SeenAt.TOLD, wait=wait, travel=AT_ONCE, reason=error, note=note
    )


def _unwanted(of: int) -> Step:
    """A reply that came home, where nobody waits any more."""
    return _dead(0, of, "nobody_waits", wait=AT_ONCE)


def _again(of: int, travel: Millis, src: int = 0, dst: int = 1) -> Step:
    return Step(src, dst, cause=of, mode=Mode.COPY, of=of, seen=SeenAt.CAME, wait=AT_ONCE, travel=travel)


def _changed(of: int, change: Change, src: int = 0, dst: int = 1) -> Step:
    """The changed message that arrives in place of the message of step `of`, at the same time."""
    return Step(
        src, dst, cause=of, mode=Mode.COPY, of=of, seen=SeenAt.CAME, wait=AT_ONCE, travel=AT_ONCE, change=change
    )


def _on(src: int, dst: int, of: int, cause: int) -> Step:
    return Step(src, dst, cause=cause, mode=Mode.ON, of=of)


def _event(dst: int = 1, **more: object) -> Step:
    return Step(0, dst, Says.EVENT)._replace(**more)  # type: ignore[arg-type]


HOP_LIMIT = 16  # of hopwire's routers


def _loop() -> tuple[Step, ...]:
    """To node 1, then between 1 and 2 until the hop limit."""
    hops = [_on(1 if number % 2 else 2, 2 if number % 2 else 1, 0, number - 1) for number in range(1, HOP_LIMIT)]
    end = hops[-1].dst
    return (_event(), *hops, _dead(end, 0, "hop_limit", cause=HOP_LIMIT - 1))


def _fan(mode: Mode) -> tuple[Step, ...]:
    others = [Step(0, dst, mode=mode, of=0, wait=Millis(0.01, 0.05)) for dst in (2, 3)]
    return (_event(is_broadcast=True, wait=AT_ONCE), *others)


SOON, LATER = Millis(1, 200), Millis(5_000, 8_000)
SHORT = Millis(500, 1_000)  # a time to live that runs out
TOO_LONG = Millis(1_500, 3_000)
KEYED, OLD, SIGNED = (5, 6), (3, 4), (4, 5, 6)  # formats with a callback key, without one, with a signature
V, N = "hopwire", "kino"
LEFT, CAME = SeenAt.LEFT, SeenAt.CAME
ANSWERED, FAILED, LOST, LATE, EXPIRED = ("answered",), ("failed",), ("lost",), ("late",), ("expired",)


def _refused(change: Change, fault: str, verdict: str) -> tuple[Kind, ...]:
    """A signature is wrong from the beginning: hopwire drops the message, the original answers with an exception."""
    ask = _ask(change=change)
    dead = _dead(1, 0, "bad_signature", verdict)
    return (
        Kind(f"{fault} dropped", (ask, dead), 1, fault, V, KEYED, LOST, signed=True),
        Kind(f"{fault} told", (ask, _told(Says.EXCEPTION, 0)), 1, fault, N, SIGNED, FAILED, signed=True),
    )


def _damaged(change: Change, fault: str) -> tuple[Kind, ...]:
    ask, arrived = _ask(seen=LEFT), _changed(0, change)
    return (
        Kind(fault, (ask, arrived), 2, fault, "", (3, 4, 5, 6), LOST),
        Kind(f"{fault} event", (_event(seen=LEFT), arrived), 1, fault, flow_outcome="lost"),
    )


# fmt: off
ORDINARY = (
    Kind("ask",            (_ask(), _answer()), 30, outcomes=ANSWERED),
    Kind("ask over two",   (_ask(), Step(1, 2, Says.ONWARD, 0, Waits.ANSWER), _answer(2, 1)), 14, outcomes=ANSWERED),
    Kind("ask over three", (_ask(), Step(1, 2, Says.ONWARD, 0, Waits.ANSWER), Step(2, 3, Says.FURTHER, 1, Waits.ANSWER),
                            _answer(3, 2)), 8, outcomes=ANSWERED),
    Kind("ask sent on",    (_ask(), _on(1, 2, 0, 0), _answer(2, 1)), 6, outcomes=ANSWERED),
    Kind("ask a node",     (_ask(to=To.NODE), _answer()), 3, formats=KEYED, outcomes=ANSWERED),
    Kind("ask an actor",   (_ask(to=To.ACTOR), _answer()), 3, formats=KEYED, outcomes=ANSWERED),
    Kind("ask at least once", (_ask(waits=Waits.ANSWER_AND_RECEIPT, attempt=0), _told(Says.RECEIVED, 0), _answer()), 6,
         "", V, (6,), ANSWERED, has_id=True),
    Kind("send",           (_ask(waits=Waits.RECEIPT), _told(Says.RECEIVED, 0)), 5, "", V, KEYED, ANSWERED),
    Kind("send, as the original does", (_ask(waits=Waits.RECEIPT), _told(Says.CONFIRMED, 0)), 3, "", N, KEYED,
         ANSWERED),
    Kind("tell",           (_event(),), 10, flow_outcome="delivered"),
    Kind("tell a node",    (_event(to=To.NODE),), 3, formats=KEYED, flow_outcome="delivered"),
    Kind("chain",          (_event(), Step(1, 2, Says.ONWARD, 0), Step(2, 3, Says.FURTHER, 1)), 6,
         flow_outcome="delivered"),
    Kind("broadcast",      _fan(Mode.FAN), 4, "", V, KEYED, flow_outcome="delivered"),
    Kind("broadcast, as the original does", _fan(Mode.PILE), 4, "", N, flow_outcome="delivered"),
)

FAULTY = (
    Kind("request lost", (_ask(seen=LEFT),), 3, "loss", outcomes=LOST),
    Kind("onward lost", (_ask(), Step(1, 2, Says.ONWARD, 0, Waits.ANSWER, seen=LEFT)), 2, "loss", outcomes=LOST),
    Kind("reply lost", (_ask(), _answer(seen=LEFT)), 3, "loss", outcomes=LOST, findings=("callback_unreached",)),
    Kind("event lost", (_event(seen=LEFT),), 2, "loss", flow_outcome="lost"),
    Kind("receipt lost", (_ask(waits=Waits.RECEIPT), _told(Says.RECEIVED, 0)._replace(seen=LEFT)), 1, "loss", V, KEYED,
         LOST, findings=("callback_unreached",)),
    Kind("never answered", (_ask(),), 1, "silence", outcomes=LOST),
    Kind("received and never answered", (_ask(waits=Waits.ANSWER_AND_RECEIPT, attempt=0), _told(Says.RECEIVED, 0)), 1,
         "silence", V, (6,), LOST, has_id=True),
    Kind("nobody takes it", (_ask(0, seen=SeenAt.DEAD, reason="no_route"),), 1, "no_route", V, KEYED, LOST,
         signed=False),

    Kind("reply late", (_ask(), _answer(travel=TOO_LONG), _unwanted(1)), 2, "delay", "", KEYED, LATE, ttl=SHORT),
    Kind("reply late, in an old format", (_ask(), _answer(travel=TOO_LONG)), 1, "delay", N, OLD, LATE, ttl=SHORT),
    Kind("failure late", (_ask(), _told(Says.EXCEPTION, 0)._replace(travel=TOO_LONG), _unwanted(1)), 1, "delay", N,
         KEYED, EXPIRED, ttl=SHORT),
    Kind("reply unwanted", (_ask(), _answer(), _unwanted(1)), 2, "gave_up", "", KEYED, LATE),
    Kind("failure unwanted", (_ask(), _told(Says.FAILED, 0), _unwanted(1)), 1, "gave_up", V, KEYED, LOST),
    Kind("reply late and taken", (_ask(), _answer(travel=TOO_LONG)), 2, "slow_timer", "", KEYED, ANSWERED, ttl=SHORT),
    Kind("failure late and taken", (_ask(), _told(Says.EXCEPTION, 0)._replace(travel=TOO_LONG)), 1, "slow_timer", N,
         KEYED, FAILED, ttl=SHORT),
    Kind("reply expired at home of who answers", (_ask(), _answer(dst=1, seen=SeenAt.DEAD, reason="expired",
                                                                  wait=TOO_LONG)), 1, "answer_expired", V, KEYED,
         EXPIRED, ttl=SHORT, signed=False),
    Kind("request arrives twice", (_ask(), _again(0, SOON), _answer()), 1, "duplicate", outcomes=ANSWERED,
         findings=("duplicate",)),
    Kind("reply arrives twice", (_ask(), _answer(), _again(1, SOON, 1, 0)), 1, "duplicate", outcomes=ANSWERED,
         findings=("duplicate",)),
    Kind("event arrives twice", (_event(), _again(0, SOON)), 1, "duplicate", flow_outcome="delivered",
         findings=("duplicate",)),
    Kind("events overtake", (_event(wait=AT_ONCE, travel=Millis(20, 21)),
                             _event(wait=Millis(1, 2), travel=Millis(10, 11)),
                             _event(wait=Millis(3, 4), travel=Millis(2, 3))), 1, "reorder", flow_outcome="delivered"),
    Kind("sent to a crashed node", (_ask(seen=LEFT),), 1, "crash", outcomes=LOST, window=Window.CRASH),

    Kind("killed after answering", (_ask(), _answer()), 1, "unwritten", outcomes=ANSWERED,
         findings=("missing_capture",), window=Window.UNWRITTEN),
    Kind("killed after asking another", (_ask(), Step(1, 2, Says.ONWARD, 0, Waits.ANSWER), _answer(2, 1)), 1,
         "unwritten", outcomes=ANSWERED, findings=("missing_capture",), window=Window.UNWRITTEN),
    Kind("killed after sending on", (_event(), _on(1, 2, 0, 0)), 1, "unwritten", flow_outcome="delivered",
         findings=("missing_capture",), window=Window.UNWRITTEN),
    Kind("killed after being answered", (_ask(), _answer()), 1, "unwritten", outcomes=ANSWERED,
         findings=("missing_capture",), window=Window.DYING),

    Kind("signature changed, dropped", (_ask(seen=LEFT), _changed(0, Change.SIGNATURE),
                                        _dead(1, 1, "bad_signature", "invalid")), 1, "bad_mac", V, KEYED, LOST,
         signed=True),
    Kind("signature changed, told", (_ask(seen=LEFT), _changed(0, Change.SIGNATURE), _told(Says.EXCEPTION, 1)), 1,
         "bad_mac", N, SIGNED, FAILED, signed=True),
    Kind("body changed", (_ask(seen=LEFT), _changed(0, Change.BODY)), 1, "tampered", "", SIGNED, LOST,
         findings=("foreign_sender",), signed=True),
    *_refused(Change.WRONG_KEY, "wrong_key", "invalid"),
    *_refused(Change.UNKNOWN_KEY, "unknown_key", "no_key"),
    *_refused(Change.NOT_IN_DOMAIN, "not_in_domain", "not_in_domain"),
    Kind("request replayed", (_ask(), _answer(), _again(0, LATER)), 1, "replay", "", SIGNED, ANSWERED,
         findings=("replayed",), signed=True),
    Kind("request replayed by another", (_ask(), _answer(), _again(0, LATER, 3)), 1, "replay", "", SIGNED, ANSWERED,
         findings=("replayed",), signed=True, is_traced=False),
    *_damaged(Change.TRUNCATED, "truncated"),
    *_damaged(Change.MUTATED, "mutated"),

    Kind("expired on the way", (_ask(travel=TOO_LONG), _dead(1, 0, "expired"), _told(Says.EXPIRED, 0)), 1, "expired",
         V, KEYED, EXPIRED, ttl=SHORT),
    Kind("expired in a queue", (_ask(), _dead(1, 0, "expired", wait=TOO_LONG),
                                _told(Says.EXPIRED, 0)._replace(wait=Millis(3_001, 3_100))), 1, "expired", V, KEYED,
         EXPIRED, ttl=SHORT),
    Kind("expired, untold", (_ask(travel=TOO_LONG),), 1, "expired", N, outcomes=EXPIRED, ttl=SHORT),
    Kind("handled late", (_ask(travel=TOO_LONG), _answer(), _unwanted(1)), 1, "handled_late", N, KEYED, LATE,
         findings=("handled_after_ttl",), ttl=SHORT),
    Kind("handled late, in an old format", (_ask(travel=TOO_LONG), _answer()), 1, "handled_late", N, OLD, LATE,
         findings=("handled_after_ttl",), ttl=SHORT),
    Kind("loop", _loop(), 1, "hop_loop", V, KEYED, flow_outcome="lost", findings=("hop_loop",), signed=False),
    Kind("way names another", (_ask(names=(3,)), _answer()), 1, "false_route", outcomes=ANSWERED,
         findings=("route_disagrees",), is_traced=True),
    Kind("way too short", (_ask(), _on(1, 2, 0, 0)._replace(names=(1,)), _answer(2, 1)), 1, "false_route",
         outcomes=ANSWERED, findings=("route_disagrees",), is_traced=True),
    Kind("handler fails", (_ask(), _told(Says.FAILED, 0)), 1, "handler_error", V, KEYED, FAILED),
    Kind("handler fails behind another", (_ask(), Step(1, 2, Says.ONWARD, 0, Waits.ANSWER), _told(Says.FAILED, 1, 2)),
         1, "handler_error", V, KEYED, FAILED),
    Kind("handler fails, as the original tells", (_ask(), _told(Says.EXCEPTION, 0)), 1, "handler_error", N,
         outcomes=FAILED),

    Kind("dark node answers", (_ask(seen=LEFT), _answer(seen=CAME)), 1, "missing_capture", outcomes=ANSWERED,
         findings=("missing_capture",)),
    Kind("dark node asks another", (_ask(seen=LEFT), Step(1, 2, Says.ONWARD, 0, Waits.ANSWER, seen=CAME),
                                    _answer(2, 1)), 1, "missing_capture", outcomes=ANSWERED,
         findings=("missing_capture",)),
    Kind("sightings skipped", (_ask(), _answer()), 1, "skipped", outcomes=ANSWERED, findings=("missing_capture",),
         window=Window.SKIP),
    Kind("key reused", (_ask(), _answer(), _ask(2, cause=1), _answer(2, 2)), 1, "key_reused", "", KEYED,
         ANSWERED, True, ("key_reused",)),
    Kind("answer without a question", (_answer(cause=-1), _dead(0, 0, "nobody_waits")), 1, "reply_to_nobody", V, KEYED,
         flow_outcome="delivered", findings=("reply_to_nobody",)),
    Kind("answer without a question, unnoticed", (_answer(cause=-1),), 1, "reply_to_nobody", N,
         flow_outcome="delivered", findings=("reply_to_nobody",)),
    Kind("version unknown, told", (_ask(change=Change.VERSION), _dead(1, 0, "no_route"), _told(Says.NO_ROUTE, 0)), 1,
         "unknown_version", V, KEYED, FAILED, findings=("unknown_version",)),
    Kind("version unknown, unnoticed", (_ask(change=Change.VERSION),), 1, "unknown_version", N, outcomes=LOST,
         findings=("unknown_version",)),
    Kind("lost and sent again", (_ask(waits=Waits.ANSWER_AND_RECEIPT, attempt=0, seen=LEFT, wait=AT_ONCE),
                                 _ask(2, of=0, waits=Waits.ANSWER_AND_RECEIPT, attempt=1, wait=Millis(100, 110)),
                                 _told(Says.RECEIVED, 1, 2), _answer(2, 1)), 1, "resend", V, (6,), ANSWERED,
         findings=("retransmitted",), has_id=True),
    Kind("receipt lost and sent again", (_ask(waits=Waits.ANSWER_AND_RECEIPT, attempt=0, wait=AT_ONCE),
                                         _told(Says.RECEIVED, 0)._replace(seen=LEFT),
                                         _ask(2, of=0, waits=Waits.ANSWER_AND_RECEIPT, attempt=1,
                                              wait=Millis(200, 210)),
                                         _told(Says.RECEIVED, 2, 2), _answer(1, 0), _answer(2, 2),
                                         _dead(0, 5, "nobody_waits")), 1, "resend", V, (6,), ANSWERED,
         findings=("retransmitted",), has_id=True),
    Kind("told that time is over", (_ask(), _end("Timeout", "timed_out: no answer", wait=TOO_LONG)), 2, "told", V,
         KEYED, LOST, ttl=SHORT),
    Kind("told that nobody takes it", (_ask(0, seen=SeenAt.DEAD, reason="no_route"), _end("NoRoute", "no_route: no")),
         1, "told", V, KEYED, LOST, signed=False),
    Kind("told that a handler failed", (_ask(), _told(Says.FAILED, 0), _end("HandlerFailed", "ValueError: no", 1)), 1,
         "told", V, KEYED, FAILED),
    Kind("told early", (_ask(), _end("Cancelled", wait=Millis(1, 2)),
                        _answer(wait=Millis(5, 6)), _unwanted(2)), 1, "told", V, KEYED, LATE),
    Kind("insisted in vain", (_ask(waits=Waits.ANSWER_AND_RECEIPT, attempt=0), _dead(1, 0, "no_route"),
                              _told(Says.NO_ROUTE, 0), _end("Timeout", "timed_out: no", wait=TOO_LONG)), 1, "told", V,
         (6,), LOST, ttl=SHORT, has_id=True),
    Kind("told otherwise", (_ask(), _answer(), _end("Timeout", "timed_out: no answer", 1)), 1, "told_otherwise", V,
         KEYED, ANSWERED, findings=("told_otherwise",)),
    Kind("ask within a node", (_ask(0, seen=SeenAt.LOCAL, travel=AT_ONCE),
                               _answer(0, seen=SeenAt.LOCAL, travel=AT_ONCE)), 1, "local", V, KEYED, ANSWERED,
         signed=False),
    Kind("step within a node", (_event(), Step(1, 1, Says.ONWARD, 0, seen=SeenAt.LOCAL, travel=AT_ONCE),
                                Step(1, 2, Says.FURTHER, 1)), 1, "local", V, KEYED, flow_outcome="delivered",
         signed=False),
    Kind("events in a train", tuple(_event(wait=AT_ONCE, travel=Millis(5, 5)) for _ in range(3)), 1, "train", V, KEYED,
         flow_outcome="delivered"),
    Kind("unfinished", (_ask(seen=LEFT),), 1, "unfinished", outcomes=("open",), window=Window.END),
    Kind("giant flow", (_event(),), 1, "giant_flow", flow_outcome="delivered"),
    Kind("giant body", (_event(change=Change.GIANT),), 1, "giant_body", flow_outcome="delivered"),
    Kind("hello", (_event(),), 1, "word", flow_outcome="delivered", window=Window.OPEN),
    Kind("last word", (_event(),), 1, "word", flow_outcome="delivered", window=Window.BEFORE),
    Kind("first word", (_event(),), 1, "word", flow_outcome="delivered", window=Window.AFTER),
    Kind("word after skipping", (_event(),), 1, "word", flow_outcome="delivered", window=Window.AGAIN),
    Kind("goodbye", (_event(),), 1, "word", flow_outcome="delivered", window=Window.CLOSE),
)
# fmt: on
KINDS: tuple[Kind, ...] = (*ORDINARY, *FAULTY)
