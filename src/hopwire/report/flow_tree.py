"""A flow in the words of a person: its steps as the lines of a tree, its requests and findings, and where it was lost.

A flow is a row of gold.flows, a request one of gold.requests, both as dictionaries; nodes are called by their names
where these are known.

The trap: a flow may be a chain of a hundred thousand steps. Nothing here calls itself, and lines are indented only so
far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hopwire.flows.findings import KINDS
from hopwire.report.words import cut, duration, printable, text_or_hex

__all__ = [
    "FlowLine",
    "Glyphs",
    "Remark",
    "finding_line",
    "flow_to_json",
    "lines_of_flow",
    "name_of",
    "request_line",
    "took",
]

TICKS_PER_US = 10
MAX_INDENT = 8  # levels, unless the caller wants fewer; what lies deeper is not indented further
NAME_LENGTH = 20


class Remark(NamedTuple):
    """What a line says beyond the crossing, and whether it is bad news."""

    text: str
    is_bad: bool = False


class FlowLine(NamedTuple):
    """One step of a flow."""

    number: int
    indent: str
    at_us: int | None
    contract: str
    way: str
    took: str
    mark: Remark
    is_critical: bool


class Glyphs(NamedTuple):
    """What trees are drawn with."""

    branch: str = "├─ "
    last: str = "└─ "
    line: str = "│  "
    gap: str = "   "


# fmt: off
FATES = {
    # fate          what is said of it, and whether it is bad news
    "arrived":      Remark(""),
    "lost":         Remark("LOST: left {from_node}, never came to {to_node}", True),
    "in_flight":    Remark("the capture ends before it could arrive"),
    "unwitnessed":  Remark("{to_node} wrote nothing down then"),
    "unsent":       Remark("{from_node} wrote nothing down then"),
    "duplicate":    Remark("came once more than it was sent", True),
    "foreign":      Remark("FOREIGN: {from_node} never sent it", True),
    "dead":         Remark("DEAD: {dead_reason}", True),
}
# fmt: on


def took(latency_us: int | None) -> str:
    """Give a duration, nothing where there is none."""
    return "" if latency_us is None else duration(latency_us * TICKS_PER_US)


def name_of(node: bytes, names: Mapping[bytes, str]) -> str:
    """Give what people call a node."""
    return cut(printable(names.get(node, "")) or text_or_hex(node), NAME_LENGTH) if node else "?"


def lines_of_flow(
    flow: Mapping[str, Any],
    names: Mapping[bytes, str],
    limit: int | None = None,
    glyphs: Glyphs | None = None,
    max_indent: int = MAX_INDENT,
) -> Iterator[FlowLine]:
    """Give the steps as a tree, top to bottom; at most so many."""
    steps: Sequence[Mapping[str, Any]] = flow["steps"]
    for number, indent in _tree([step["parent"] for step in steps], limit, glyphs or Glyphs(), max_indent):
        step = steps[number]
        seen_at = step["left_at_ns"] if step["left_at_ns"] is not None else step["arrived_at_ns"]
        at_us = None if None in (seen_at, flow["started_at_ns"]) else (seen_at - flow["started_at_ns"]) // 1000
        way = " -> ".join(name_of(step[end], names) for end in ("from_node", "to_node"))
        if step["fate"] == "dead":
            way = f"at {name_of(step['from_node'], names)}"
        yield FlowLine(
            number,
            indent,
            at_us,
            _contract(step),
            way,
            took(step["latency_us"]),
            _mark(step, names),
            step["is_critical"],
        )


def _tree(parents: Sequence[int], limit: int | None, glyphs: Glyphs, max_indent: int) -> Iterator[tuple[int, str]]:
    """Give the numbers of steps in the order of the tree, each with what stands in front of it."""
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


def _contract(step: Mapping[str, Any]) -> str:
    name = text_or_hex(step["identity"])
    raw = step["version_raw"]
    version = step["version"] if raw is None else text_or_hex(raw)
    attempt = f" (attempt {step['attempt']})" if step["attempt"] else ""
    return f"{name} v{version}{attempt}"


def _mark(step: Mapping[str, Any], names: Mapping[bytes, str]) -> Remark:
    mark = FATES[step["fate"]]
    if step["repeat"] == "replayed":
        mark = Remark("REPLAYED: came again, later or from another node", True)
    if mark.text:
        words = {end: name_of(step[end], names) for end in ("from_node", "to_node")}
        return mark._replace(text=mark.text.format(**words, dead_reason=printable(step["dead_reason"] or "")))
    if step["outcome_kind"]:
        reason = f": {printable(step['outcome_reason'])}" if step["outcome_reason"] else ""
        return Remark(f"{printable(step['outcome_kind'])}{reason}", step["outcome_kind"] != "received")
    return Remark("answer" if step["is_reply"] else "")


def request_line(request: Mapping[str, Any], names: Mapping[bytes, str]) -> Remark:
    """Say what became of a request, and if it was lost, where."""
    outcome, reason = request["outcome"], printable(request["reason"] or "")
    words = f"{text_or_hex(request['identity'])} from {name_of(request['home_node'], names)}: {outcome}"
    if outcome == "lost":
        words = f"{words.removesuffix(outcome)}{_place(request, names)}"
    elif reason:
        words += f": {reason}"
    if request["latency_us"] is not None:
        words += f" after {took(request['latency_us'])}"
    if request["is_reused"]:
        words += "; its callback key was used again"
    return Remark(words, outcome not in ("answered", "open"))


def _place(request: Mapping[str, Any], names: Mapping[bytes, str]) -> str:
    source = name_of(request["lost_from_node"] or b"", names)
    if request["lost_to_node"] is not None:
        return f"LOST between {source} and {name_of(request['lost_to_node'], names)}"
    if request["reason"] == "no_answer":
        return f"LOST at {source}: it was last seen there, and no answer came"
    return f"LOST at {source}: {printable(request['reason'] or '')}"


def finding_line(finding: Mapping[str, Any], names: Mapping[bytes, str]) -> str:
    """Say what is odd."""
    detail = f" ({printable(finding['detail'])})" if finding["detail"] else ""
    return f"{finding['kind']} at {name_of(finding['node'], names)}: {KINDS[finding['kind']]}{detail}"


def flow_to_json(row: Mapping[str, Any], names: Mapping[bytes, str]) -> dict[str, Any]:
    """Give a flow or a request as JSON; bytes as text or hex, nodes by their names too."""
    plain = {name: _plain(value) for name, value in row.items()}
    if "nodes" in row:
        plain["node_names"] = [names.get(node, "") for node in row["nodes"]]
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return text_or_hex(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value
