"""The steps of one flow as the page shows them: the tree of gold.flows beside the hops of silver.hops.

Steps of a flow and hops of the lake have the same order (`silver/hops.py: by_time`). So the n-th step is the n-th hop,
and the hop knows which sightings the step is made of. A flow whose hops do not fit its steps, because one of the tables
is older, is shown without these sightings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hopwire.flows.schemas import NO_CROSSINGS
from hopwire.report.flow_tree import Remark, Witnesses, contract_of_step, name_of, remark_of_step, took

__all__ = ["INFERRED", "FlowStep", "steps_of_flow"]

INFERRED = ("unwitnessed", "unsent", "in_flight")  # one end of the step was seen, the other follows from it


@dataclass(frozen=True, slots=True)
class FlowStep:
    """One hop of a message, or its end at a node, with words for a reader."""

    number: int
    parent: int
    depth: int
    contract: str
    from_name: str
    to_name: str
    left_ns: int | None
    arrived_ns: int | None
    latency_us: int | None
    fate: str
    remark: str
    is_bad: bool
    is_critical: bool
    is_reply: bool
    is_dead: bool
    is_corrected: bool
    verdict: str
    left: tuple[bytes, int, int] | None  # node, incarnation and number of the sighting that saw the message leave
    arrived: tuple[bytes, int, int] | None

    @property
    def begin_ns(self) -> int:
        """When the step begins: leaving, or arriving where nobody saw it leave."""
        return self.left_ns if self.left_ns is not None else self.arrived_ns or 0

    @property
    def end_ns(self) -> int:
        """When the step ends; a step whose arrival nobody saw ends where it begins."""
        return self.arrived_ns if self.arrived_ns is not None else self.begin_ns

    @property
    def is_moment(self) -> bool:
        """Tell whether the step happened at one node, and went nowhere."""
        return self.fate in NO_CROSSINGS

    @property
    def classes(self) -> str:
        """The classes that a drawing of the step has."""
        marks = {
            "critical": self.is_critical,
            "bad": self.is_bad,
            "inferred": self.fate in INFERRED,
            "reply": self.is_reply,
            "suspicious": self.is_suspicious,
        }
        return " ".join([f"fate-{self.fate}", *(name for name, is_so in marks.items() if is_so)])

    @property
    def is_suspicious(self) -> bool:
        """Tell whether the signature of the message is there and was not believed."""
        return self.verdict not in ("", "valid", "unsigned")

    @property
    def evidence(self) -> str:
        """What of the step was observed, and what is inferred."""
        if self.fate in INFERRED:
            seen, other = ("leaving", "arriving") if self.left_ns is not None else ("arriving", "leaving")
            return f"{seen} was observed, {other} is inferred"
        if self.is_dead:
            return "the end was observed"
        if self.fate == "told":
            return "what its asker was told was observed"
        if self.fate == "local":
            return "observed; it did not leave the node"
        if self.fate == "lost":
            return "leaving was observed; the other node was looking, and did not see it arrive"
        return "observed" if self.left_ns is not None and self.arrived_ns is not None else "one end was observed"

    @property
    def way(self) -> str:
        """From where to where."""
        return f"at {self.from_name}" if self.is_moment else f"{self.from_name} -> {self.to_name}"

    @property
    def took(self) -> str:
        """The latency in words."""
        return took(self.latency_us)


def steps_of_flow(
    steps: Sequence[Mapping[str, Any]],
    hops: Sequence[Mapping[str, Any]],
    names: Mapping[bytes, str],
    witnesses: Witnesses,
    first: int = 0,
) -> list[FlowStep]:
    """Give steps of a flow that follow each other by time, the first of which has a number."""
    known = hops if _fit(steps, hops) else [{}] * len(steps)
    pairs = zip(steps, known, strict=False)
    return [
        _step(number, step, hop, remark_of_step(step, names, witnesses), names)
        for number, (step, hop) in enumerate(pairs, first)
    ]


def _fit(steps: Sequence[Mapping[str, Any]], hops: Sequence[Mapping[str, Any]]) -> bool:
    pairs = zip(steps, hops, strict=False)
    return len(hops) >= len(steps) and all(step["message_key"] == hop["message_key"] for step, hop in pairs)


def _step(
    number: int, step: Mapping[str, Any], hop: Mapping[str, Any], remark: Remark, names: Mapping[bytes, str]
) -> FlowStep:
    return FlowStep(
        number,
        step["parent"],
        step["depth"],
        contract_of_step(step),
        name_of(step["from_node"], names),
        name_of(step["to_node"], names),
        step["left_at_ns"],
        step["arrived_at_ns"],
        step["latency_us"],
        step["fate"],
        remark.text,
        remark.is_bad,
        step["is_critical"],
        step["is_reply"],
        step["fate"] == "dead",
        step["is_corrected"],
        hop.get("verdict") or "",
        _sighting(hop, "from_node", "left"),
        _sighting(hop, "to_node", "arrived"),
    )


def _sighting(hop: Mapping[str, Any], node: str, seen: str) -> tuple[bytes, int, int] | None:
    if hop.get(f"{seen}_sequence") is None:
        return None
    return hop[node], hop[f"{seen}_incarnation"], hop[f"{seen}_sequence"]
