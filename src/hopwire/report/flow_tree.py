"""A flow in the words of a person: its steps as the lines of a tree, its requests and findings, and where it was lost.

A flow is a row of gold.flows and a request is a row of gold.requests, both as dictionaries. A node is called by its
name where the name is known. A fate or a finding that this hopwire does not know is shown by its own word.

The trap: a flow may be a chain of a hundred thousand steps. So no function here calls itself, and a line is indented by
a limited number of levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from hopwire.flows.findings import KINDS
from hopwire.flows.rules import Rules
from hopwire.flows.schemas import NO_CROSSINGS
from hopwire.model.units import NS_PER_TICK, NS_PER_US
from hopwire.report.jsonable import jsonable
from hopwire.report.words import cut, duration, node_label, printable, text_or_hex, time_of_day

__all__ = [
    "FlowLine",
    "Glyphs",
    "Remark",
    "Witnesses",
    "contract_of_step",
    "finding_line",
    "flow_to_json",
    "is_bad_step",
    "lines_of_flow",
    "name_of",
    "remark_of_step",
    "request_line",
    "took",
    "witnesses_of",
]

MAX_INDENT = 8  # levels, unless the caller wants fewer; deeper steps are not indented further
NAME_LENGTH = 20
BLIND = "wrote nothing down then"  # of a node, where no finding says more
SILENCE_NS = Rules().silence_ns  # a capture that goes on after a message in flight does so after a longer silence
UNKNOWN_FATE, UNKNOWN_FINDING = (f"a {noun} that this hopwire does not know" for noun in ("fate", "finding"))


class Remark(NamedTuple):
    """What is said of a step or a request, and whether it is bad news."""

    text: str
    is_bad: bool = False


class Witnesses(NamedTuple):
    """Who could have seen more of a flow: what nodes did instead of looking, and when the capture of each ends."""

    blind: Mapping[bytes, str] = MappingProxyType({})
    ends_ns: Mapping[bytes, int] = MappingProxyType({})


NO_WITNESSES = Witnesses()


class FlowLine(NamedTuple):
    """One step of a flow."""

    number: int
    indent: str
    at_us: int | None
    contract: str
    way: str
    took: str
    remark: Remark
    is_critical: bool


class Glyphs(NamedTuple):
    """The pieces that a tree is drawn with."""

    branch: str = "├─ "
    last: str = "└─ "
    line: str = "│  "
    gap: str = "   "


UNSEEN = ("unwitnessed", "in_flight")  # fates of hops that may be losses
FINE_OUTCOMES = ("received", "ended")  # kinds of outcomes that are no bad news

# fmt: off
FATES = {
    # fate          what is said of the step, and whether it is bad news
    "arrived":      Remark(""),
    "lost":         Remark("LOST: left {from_node}, never came to {to_node}", True),
    "in_flight":    Remark("the capture of {to_node} ends{end}before it could arrive"),
    "unwitnessed":  Remark("{to_node} {to_blind}"),
    "unsent":       Remark("nobody saw {from_node} send it: it {from_blind}"),
    "duplicate":    Remark("came once more than it was sent", True),
    "foreign":      Remark("FOREIGN: {from_node} never sent it", True),
    "dead":         Remark("DEAD: {dead_reason}", True),
    "local":        Remark(""),
    "told":         Remark("{from_node} was told {told}", True),
}
# fmt: on


def took(latency_us: int | None) -> str:
    """Give a duration with its unit, and empty text where there is none."""
    return "" if latency_us is None else duration(latency_us * NS_PER_US // NS_PER_TICK)


def name_of(node: bytes, names: Mapping[bytes, str]) -> str:
    """Give what people call a node, in a few characters; `?` where no node is known."""
    return cut(node_label(node, names.get(node, "")), NAME_LENGTH) if node else "?"


def witnesses_of(flow: Mapping[str, Any], ends_ns: Mapping[bytes, int] = MappingProxyType({})) -> Witnesses:
    """Give who could have seen more of a flow, by its findings and by when captures end."""
    blind = {each["node"]: printable(each["detail"]) for each in flow["findings"] if each["kind"] == "missing_capture"}
    return Witnesses(blind, ends_ns)


def lines_of_flow(
    flow: Mapping[str, Any],
    names: Mapping[bytes, str],
    limit: int | None = None,
    glyphs: Glyphs | None = None,
    max_indent: int = MAX_INDENT,
    witnesses: Witnesses | None = None,
) -> Iterator[FlowLine]:
    """Give the steps of a flow as the lines of a tree, from top to bottom, at most `limit` lines."""
    steps: Sequence[Mapping[str, Any]] = flow["steps"]
    witnesses = witnesses or witnesses_of(flow)
    for number, indent in _tree([step["parent"] for step in steps], limit, glyphs or Glyphs(), max_indent):
        step = steps[number]
        seen_at = step["left_at_ns"] if step["left_at_ns"] is not None else step["arrived_at_ns"]
        at_us = None if None in (seen_at, flow["started_at_ns"]) else (seen_at - flow["started_at_ns"]) // NS_PER_US
        way = " -> ".join(name_of(step[end], names) for end in ("from_node", "to_node"))
        if step["fate"] in NO_CROSSINGS:
            way = f"at {name_of(step['from_node'], names)}"
        yield FlowLine(
            number,
            indent,
            at_us,
            contract_of_step(step),
            way,
            took(step["latency_us"]),
            remark_of_step(step, names, witnesses),
            step["is_critical"],
        )


def _tree(parents: Sequence[int], limit: int | None, glyphs: Glyphs, max_indent: int) -> Iterator[tuple[int, str]]:
    """Give the number of each step in the order of the tree, and the branches that are drawn in front of the step."""
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(parents):
        children.setdefault(parent, []).append(number)
    stack = [(number, "", "") for number in reversed(children.get(-1, []))]
    count = 0
    while stack and (limit is None or count < limit):
        number, before, own = stack.pop()
        yield number, before + own
        count += 1
        under = before + {"": "", glyphs.branch: glyphs.line, glyphs.last: glyphs.gap}[own]
        below = children.get(number, [])
        is_deep = len(under) >= max_indent * len(glyphs.gap)
        for child in reversed(below):
            own_of_child = glyphs.last if child == below[-1] else glyphs.branch
            stack.append((child, before if is_deep else under, own_of_child))


def contract_of_step(step: Mapping[str, Any]) -> str:
    """Give the contract of a step with its version, and the attempt if it is not the first."""
    name = text_or_hex(step["identity"])
    raw = step["version_raw"]
    version = step["version"] if raw is None else text_or_hex(raw)
    attempt = f" (attempt {step['attempt']})" if step["attempt"] else ""
    return f"{name} v{version}{attempt}"


def is_bad_step(fate: str, repeat: str | None, outcome_kind: str | None) -> bool:
    """Tell whether what became of a step is bad news, as `remark_of_step` says it in words."""
    if fate not in FATES or FATES[fate].is_bad or repeat == "replayed":
        return True
    return not FATES[fate].text and bool(outcome_kind) and outcome_kind not in FINE_OUTCOMES


def remark_of_step(step: Mapping[str, Any], names: Mapping[bytes, str], witnesses: Witnesses = NO_WITNESSES) -> Remark:
    """Say what became of a step, where there is something to say."""
    if step["fate"] not in FATES:
        return Remark(f"{printable(step['fate'])}: {UNKNOWN_FATE}", True)
    remark = FATES[step["fate"]]
    if step["repeat"] == "replayed":
        remark = Remark("REPLAYED: came again, later or from another node", True)
    if remark.text:
        words = {end: name_of(step[end], names) for end in ("from_node", "to_node")}
        words |= {name: printable(step[name] or "") for name in ("dead_reason", "told")}
        words |= {f"{end}_blind": witnesses.blind.get(step[f"{end}_node"]) or BLIND for end in ("from", "to")}
        words["end"] = _end_of_capture(step, witnesses)
        return remark._replace(text=remark.text.format(**words))
    if step["outcome_kind"]:
        reason = f": {printable(step['outcome_reason'])}" if step["outcome_reason"] else ""
        return Remark(f"{printable(step['outcome_kind'])}{reason}", step["outcome_kind"] not in FINE_OUTCOMES)
    return Remark("answer" if step["is_reply"] else "")


def _end_of_capture(step: Mapping[str, Any], witnesses: Witnesses) -> str:
    """Give when the capture ends that a step should have arrived in, if the capture does not go on later."""
    end_ns = witnesses.ends_ns.get(step["to_node"])
    if end_ns is None or step["left_at_ns"] is None or end_ns > step["left_at_ns"] + SILENCE_NS:
        return " "
    return f" at {time_of_day(end_ns)}, "


def outcome_words(flow: Mapping[str, Any]) -> str:
    """Say what became of a flow, and whether that is only as far as anybody saw."""
    is_unseen = flow["outcome"] == "delivered" and any(step["fate"] in UNSEEN for step in flow["steps"])
    return f"{flow['outcome']}, as far as anybody saw" if is_unseen else str(flow["outcome"])


def request_line(request: Mapping[str, Any], names: Mapping[bytes, str], witnesses: Witnesses = NO_WITNESSES) -> Remark:
    """Say what became of a request, and where a lost request was lost."""
    outcome, reason = request["outcome"], printable(request["reason"] or "")
    words = f"{text_or_hex(request['identity'])} from {name_of(request['home_node'], names)}: {outcome}"
    if outcome == "lost":
        words = f"{words.removesuffix(outcome)}{_place(request, names, witnesses)}"
    elif outcome == "open":
        words += _why_open(request, names, witnesses)
    elif reason:
        words += f": {reason}"
    if request["latency_us"] is not None:
        words += f" after {took(request['latency_us'])}"
    if request.get("is_outcome_guessed"):  # a lake of before does not have it
        words += ", most likely: nobody saw that it was taken"
    if request["is_reused"]:
        words += "; its callback key was used again"
    if request["told"]:
        words += f"; {_told(request)}"
    return Remark(words, outcome not in ("answered", "open") or request["is_told_otherwise"])


def _told(request: Mapping[str, Any]) -> str:
    """Say what the asker was told, and whether messages tell otherwise."""
    reason = f" ({printable(request['told_reason'])})" if request["told_reason"] else ""
    contradicted = ", which its messages contradict" if request["is_told_otherwise"] else ""
    return f"its asker was told {printable(request['told'])}{reason}{contradicted}"


def _why_open(request: Mapping[str, Any], names: Mapping[bytes, str], witnesses: Witnesses) -> str:
    """Say until when an answer may come, and which capture ends before."""
    if not witnesses.ends_ns:
        return ""
    until_ns = request.get("open_until_ns")  # a lake of before does not have it
    home = name_of(request["home_node"], names)
    end_ns = witnesses.ends_ns.get(request["home_node"])
    if end_ns is None:
        return f": {home} captured nothing, and nobody else saw an answer"
    if until_ns is None:
        return ""
    if end_ns > until_ns:
        return ": an answer may have come that nobody wrote down"
    ends = f"the capture of {home} ends at {time_of_day(end_ns)}"
    return f" until {time_of_day(until_ns)}: an answer may still come, and {ends}"


def _place(request: Mapping[str, Any], names: Mapping[bytes, str], witnesses: Witnesses) -> str:
    source = name_of(request["lost_from_node"] or b"", names)
    if request["lost_to_node"] is not None:
        target = name_of(request["lost_to_node"], names)
        blind = witnesses.blind.get(request["lost_to_node"])
        if request["reason"] == "no_answer" and blind:
            return f"LOST at {target} or on the way there from {source}: {target} {blind}"
        return f"LOST between {source} and {target}"
    if request["is_holder_gone"]:
        return f"LOST at {source}: it arrived there, and {source} ended before it could answer"
    if request["reason"] == "no_answer":
        return f"LOST at {source}: it was last seen there, and no answer came"
    return f"LOST at {source}: {printable(request['reason'] or '')}"


def finding_line(finding: Mapping[str, Any], names: Mapping[bytes, str]) -> str:
    """Say what is odd, and at which node."""
    detail = f" ({printable(finding['detail'])})" if finding["detail"] else ""
    meaning = KINDS.get(finding["kind"], UNKNOWN_FINDING)
    return f"{printable(finding['kind'])} at {name_of(finding['node'], names)}: {meaning}{detail}"


def flow_to_json(row: Mapping[str, Any], names: Mapping[bytes, str]) -> dict[str, Any]:
    """Give a flow or a request as JSON: bytes as text or hex, and the names of its nodes."""
    named = {"node_names": [names.get(node, "") for node in row["nodes"]]} if "nodes" in row else {}
    return {**jsonable(row, text_or_hex), **named}
