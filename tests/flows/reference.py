"""Trees as one would write them by hand: hop by hop, with loops. The columns of `flows.py` must come to the same."""

from __future__ import annotations

from typing import Any, NamedTuple

Hop = dict[str, Any]


class Grown(NamedTuple):
    """A hop in its tree."""

    parent: int
    is_guessed: bool
    depth: int
    is_critical: bool


def left(hop: Hop) -> tuple[int, int]:
    """When a hop left, or arrived where leaving was not seen."""
    seen = "arrived" if hop["left_at_ns"] is None else "left"
    return hop[f"{seen}_at_ns"], hop[f"{seen}_sequence"]


def came(hop: Hop) -> tuple[int, int] | None:
    """When a hop arrived, or left where arriving could not be seen."""
    if hop["fate"] in ("unwitnessed", "local"):
        return left(hop)
    return None if hop["arrived_at_ns"] is None else (hop["arrived_at_ns"], hop["arrived_sequence"])


class Cause(NamedTuple):
    """The parent of a hop, and whether it is a guess."""

    parent: int
    is_guessed: bool = False


def is_of_request(one: Hop, other: Hop) -> bool:
    """Whether two hops of a flow belong to one request."""
    return bool(one["home_receiver"]) and all(
        one[name] == other[name] for name in ("home_node", "home_receiver", "callback_key")
    )


def cause_of(number: int, hops: list[Hop]) -> Cause:
    """The last arrival at the node before the hop left: of the same message, or of its request, or else of any."""
    hop = hops[number]
    if hop["fate"] == "told":
        asked = [
            (left(each), other)
            for other, each in enumerate(hops)
            if each["flow_id"] == hop["flow_id"] and is_of_request(each, hop) and each["fate"] != "told"
        ]
        return Cause(min(asked)[1] if asked and min(asked)[0][0] <= left(hop)[0] else -1)
    before = []
    for other, each in enumerate(hops):
        at = came(each)
        if each["flow_id"] == hop["flow_id"] and each["to_node"] == hop["from_node"] and at and at < left(hop):
            is_same = hop["message_key"] in (each["message_key"], each["becomes"])  # then the request is the same too
            before.append((is_same, is_same or is_of_request(each, hop), at, other))
    if not before:
        return Cause(-1)
    is_same, is_of_same_request, _, parent = max(before)
    return Cause(parent, not is_same and not is_of_same_request and len(before) > 1)


def chain(number: int, parents: list[int]) -> list[int]:
    """A hop and all above it."""
    found = [number]
    while parents[found[-1]] >= 0:
        found.append(parents[found[-1]])
    return found


def has_circle(parents: list[int]) -> bool:
    """Whether some hop is above itself, as only sightings that cannot be true are."""
    for number in range(len(parents)):
        seen = set()
        at = number
        while at >= 0 and at not in seen:
            seen.add(at)
            at = parents[at]
        if at >= 0:
            return True
    return False


def grown(hops: list[Hop], causes: list[Cause]) -> list[Grown]:
    """All hops in their trees."""
    parents = [cause.parent for cause in causes]
    critical = set()
    for flow in {hop["flow_id"] for hop in hops}:
        ends = [
            (-came(hop)[0], number)  # type: ignore[index]
            for number, hop in enumerate(hops)
            if hop["flow_id"] == flow
            and came(hop)
            and hop["fate"] not in ("foreign", "duplicate", "dead")
            and not hop["repeat"]
        ]
        if ends:
            critical.update(chain(min(ends)[1], parents))
    return [Grown(*causes[number], len(chain(number, parents)) - 1, number in critical) for number in range(len(hops))]
