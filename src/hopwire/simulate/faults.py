"""Everything that can go wrong in a simulated network: each fault with its name, its meaning and its usual rate.

Each fault has flows of its own (`kinds.py`), so that the outcome of a flow has one cause. A rate is a share of what
`of` names. Example: `loss` with the rate 0.01 of flows is in one flow of a hundred. The rate 0 switches a fault off. A
fault with a rate above 0 is at least once in every simulation, however small.

A new fault is a row here and a kind of flow in `kinds.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hopwire.errors import SettingsError

__all__ = ["FAULTS", "SimulatedFault", "rates_from_text"]

FLOWS = "flows"


class SimulatedFault(NamedTuple):
    """One fault: how often it happens, and what happens."""

    rate: float
    of: str
    meaning: str


# fmt: off
_FAULTS = (
    # name               rate    of            what happens
    ("loss",            0.01,   FLOWS,        "a message leaves its node and arrives nowhere"),
    ("silence",         0.003,  FLOWS,        "a node takes a message and never answers"),
    ("no_route",        0.002,  FLOWS,        "nobody takes a message, and its own node gives it up"),
    ("delay",           0.005,  FLOWS,        "an answer arrives after its deadline, and nobody waits any more"),
    ("gave_up",         0.003,  FLOWS,        "who asks gives up early, and the answer finds nobody"),
    ("slow_timer",      0.003,  FLOWS,        "an answer arrives after its deadline and is taken all the same"),
    ("answer_expired",  0.003,  FLOWS,        "an answer is too old before it leaves the node that made it"),
    ("duplicate",       0.005,  FLOWS,        "the network delivers a message twice, up to 200 ms apart"),
    ("reorder",         0.005,  FLOWS,        "messages overtake one another"),
    ("clock_skew",      1.0,    "nodes",      "a clock is wrong by up to 2 s"),
    ("crash",           0.5,    "minutes",    "a node is gone for 5 s; what is sent to it meanwhile is lost"),
    ("unwritten",       0.5,    "minutes",    "a node is killed before it has written what it saw and did last"),
    ("bad_mac",         0.004,  FLOWS,        "a signature is changed on the way"),
    ("tampered",        0.002,  FLOWS,        "a body is changed on the way, and its signature is not"),
    ("wrong_key",       0.002,  FLOWS,        "a message is signed with a secret that is not the domain's"),
    ("unknown_key",     0.002,  FLOWS,        "a message names a key or a domain that nobody has"),
    ("not_in_domain",   0.002,  FLOWS,        "a message is signed in a domain that does not own its identity"),
    ("replay",          0.003,  FLOWS,        "somebody sends a signed message again, 5 s later or more"),
    ("truncated",       0.003,  FLOWS,        "a message loses its end on the way"),
    ("mutated",         0.003,  FLOWS,        "a message is damaged on the way such that nobody can read it"),
    ("expired",         0.004,  FLOWS,        "a message is too old when its turn comes"),
    ("handled_late",    0.003,  FLOWS,        "a message is handled although its time was over"),
    ("hop_loop",        0.001,  FLOWS,        "two nodes send a message to and fro until the hop limit stops it"),
    ("false_route",     0.002,  FLOWS,        "a traced message names other routers than it passed"),
    ("handler_error",   0.006,  FLOWS,        "a handler fails, and who waits is told"),
    ("missing_capture", 0.004,  FLOWS,        "a node takes part that captures nothing"),
    ("skipped",         0.5,    "minutes",    "the disk of a node cannot follow for a while"),
    ("key_reused",      0.002,  FLOWS,        "two questions of one flow have the same callback key"),
    ("reply_to_nobody", 0.002,  FLOWS,        "an answer comes to a question that nobody asked"),
    ("unknown_version", 0.003,  FLOWS,        "a message has a version that nobody handles"),
    ("resend",          0.004,  FLOWS,        "a message is lost and sent again, to another node"),
    ("unfinished",      0.005,  FLOWS,        "the capture ends while an answer is awaited"),
    ("told",            0.005,  FLOWS,        "a promise ends without an answer, and the capture says how"),
    ("told_otherwise",  0.002,  FLOWS,        "an answer comes home in time, and who asked is told that none came"),
    ("local",           0.005,  FLOWS,        "no fault: a node also captures what stays within it"),
    ("train",           0.003,  FLOWS,        "no fault: messages to one node travel together, and are one record"),
    ("giant_flow",      0.01,   "sightings",  "one flow has far more messages than any other"),
    ("giant_body",      4.0,    "MiB",        "one message has a body of this size"),
)
# fmt: on
FAULTS: Mapping[str, SimulatedFault] = {name: SimulatedFault(rate, of, meaning) for name, rate, of, meaning in _FAULTS}


def rates_from_text(text: str) -> dict[str, float]:
    """Read `all`, `none`, or `name=rate,...`, where every fault that is not named is off."""
    if text == "all":
        return {name: fault.rate for name, fault in FAULTS.items()}
    rates = dict.fromkeys(FAULTS, 0.0)
    for part in [] if text == "none" else text.split(","):
        name, equals, number = part.strip().partition("=")
        if name not in FAULTS:
            raise SettingsError(f"no fault {name!r:.40}; there are all, none, {', '.join(FAULTS)}")
        try:
            rates[name] = float(number) if equals else FAULTS[name].rate
        except ValueError:
            raise SettingsError(f"fault {name}: found {number!r:.40}, expected a number such as 0.01") from None
    return rates
