"""The pages of one flow: its steps over time, one message byte by byte, and two flows beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from hopwire.capture.times import time_text
from hopwire.errors import SettingsError
from hopwire.model.reasons import WIRE_REASONS
from hopwire.report.dissection import rows_from_dissection
from hopwire.report.flow_tree import Remark, finding_line, name_of, request_line
from hopwire.report.words import text_or_hex
from hopwire.web import lake_questions as ask
from hopwire.web.flow_search import number_from
from hopwire.web.flow_steps import FlowStep, steps_of_flow
from hopwire.web.lake_views import LakeViews
from hopwire.web.page_content import Missing, PageContent, bytes_from_address, id_in_address
from hopwire.web.sequence_diagram import MAX_ARROWS, sequence_diagram
from hopwire.web.waterfall import MAX_MARKS, StepTimes, minimap, waterfall
from hopwire.wire.dissect import dissect

__all__ = ["compare", "flow", "hop"]

Query = Mapping[str, str]
MAX_FIELDS, MAX_DUMP = 400, 4_096  # fields and bytes of one sighting that are shown


def flow(views: LakeViews, flow_id: str, query: Query) -> PageContent:
    """One flow: waterfall or sequence, requests, findings, and the evidence of what was lost."""
    names = ask.node_names(views)
    found, hops, requests = _found_flow(views, flow_id)
    address = f"/flow/{id_in_address(found['flow_id'])}"
    steps = steps_of_flow(found, hops, names)
    view, clock = query.get("view", "waterfall"), query.get("clock", "corrected")
    for name, value, choices in (
        ("view", view, ("waterfall", "sequence", "table")),
        ("clock", clock, ("corrected", "raw")),
    ):
        if value not in choices:
            raise SettingsError(f"{name}: found {value!r:.40}, expected {' or '.join(choices)}")
    first = number_from(query.get("first", "0"), "first")
    shown = steps[first : first + (MAX_ARROWS if view == "sequence" else MAX_MARKS)]
    drawings = {}
    if shown:
        last = shown[-1].number
        if len(steps) > len(shown):
            drawings["minimap"] = minimap(steps, address, first, last)
        if view == "waterfall":
            times = _times(views, shown, found, clock == "raw")
            drawings["steps"] = waterfall(_as_tree(shown), times, address)
        elif view == "sequence":
            drawings["steps"] = sequence_diagram(shown, address)
    values = {
        "id": text_or_hex(found["flow_id"]),
        "contract": text_or_hex(found["identity"]),
        "started_at": time_text(found["started_at_ns"]),
        **{key: found[key] for key in FLOW_VALUES},
        "node_names": [name_of(node, names) for node in found["nodes"]],
        "requests": [_request(each, names) for each in requests],
        "findings": [{**each, "words": finding_line(each, names)} for each in found["findings"]],
        "steps": [_step_values(step) for step in shown],
        "first": first,
        "step_count": len(steps),
    }
    lost = [step for step in steps if step.is_bad][:50]
    helpers = {
        "address": address,
        "view": view,
        "clock": clock,
        "lost": lost,
        "next": first + len(shown),
        "size": len(shown),
    }
    return PageContent("flow.html", text_or_hex(found["flow_id"]), values, drawings, helpers)


FLOW_VALUES = (
    "outcome",
    "duration_us",
    "depth",
    "hop_count",
    "message_count",
    "size_bytes",
    "lost_count",
    "dead_count",
    "request_count",
    "answered_count",
    "critical_path_us",
    "is_oversized",
)


def _found_flow(views: LakeViews, text: str) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    for flow_id in dict.fromkeys((bytes_from_address(text), text.encode())):
        found = ask.flow_and_hops(views, flow_id)
        if found[0]:
            return found
    raise Missing(f"the lake has no flow {text!r:.120}")


def _request(request: Mapping[str, Any], names: Mapping[bytes, str]) -> dict[str, Any]:
    remark: Remark = request_line(request, names)
    return {
        "words": remark.text,
        "is_bad": remark.is_bad,
        "outcome": request["outcome"],
        "latency_us": request["latency_us"],
    }


def _step_values(step: FlowStep) -> dict[str, Any]:
    return {
        "number": step.number,
        "parent": step.parent,
        "contract": step.contract,
        "way": step.way,
        "left_ns": step.left_ns,
        "arrived_ns": step.arrived_ns,
        "latency_us": step.latency_us,
        "fate": step.fate,
        "remark": step.remark,
        "evidence": step.evidence,
        "verdict": step.verdict,
        "is_critical": step.is_critical,
    }


def _as_tree(steps: Sequence[FlowStep]) -> list[FlowStep]:
    """The steps in the order of the tree: what follows from a step stands below the step."""
    here = {step.number for step in steps}
    below: dict[int, list[FlowStep]] = {}
    for step in steps:
        below.setdefault(step.parent if step.parent in here else -1, []).append(step)
    found: list[FlowStep] = []
    waiting = list(reversed(below.get(-1, [])))
    while waiting:
        step = waiting.pop()
        found.append(step)
        waiting += reversed(below.get(step.number, []))
    return found


def _times(views: LakeViews, steps: Sequence[FlowStep], found: Mapping[str, Any], is_raw: bool) -> dict[int, StepTimes]:
    """The times that steps are drawn with: corrected with the band of error, or raw where they are known."""
    errors = {row["node"]: row["error_ns"] or 0 for row in views.rows("select node, error_ns from silver.clocks")}
    raw = ask.raw_times(views, found["correlation_id"]) if is_raw else {}
    times = {}
    for step in steps:
        begin, end = step.begin_ns, step.end_ns
        if is_raw:
            left, arrived = raw.get(step.left or (b"", 0, 0)), raw.get(step.arrived or (b"", 0, 0))
            begin = next(each for each in (left, arrived, begin) if each is not None)
            end = next(each for each in (arrived, left, end) if each is not None)
        ends = [each[0] for each in (step.left, step.arrived) if each]
        band = 0 if is_raw or len(ends) < 2 else sum(errors.get(node, 0) for node in set(ends))
        times[step.number] = StepTimes(begin, end, band)
    return times


# -- one message


def hop(views: LakeViews, flow_id: str, number: str, query: Query) -> PageContent:
    """One step: both sightings of the message, every frame and byte by its name."""
    names = ask.node_names(views)
    found, hops, _ = _found_flow(views, flow_id)
    steps = steps_of_flow(found, hops, names)
    index = number_from(number, "the step")
    if index >= len(steps):
        raise Missing(f"the flow has {len(steps)} steps, and no step {index}")
    step = steps[index]
    seen = [
        _sighting(views, title, where, names)
        for title, where in (
            ("as it left" if not step.is_dead else "as it ended", step.left),
            ("as it arrived", step.arrived),
        )
        if where is not None
    ]
    address = f"/flow/{id_in_address(found['flow_id'])}"
    values = {
        "flow": text_or_hex(found["flow_id"]),
        "step": _step_values(step),
        "sightings": [each for each in seen if each],
        "step_count": len(steps),
    }
    return PageContent(
        "hop.html",
        f"step {index} of {text_or_hex(found['flow_id'])}",
        values,
        {},
        {"address": address, "number": index},
    )


def _sighting(
    views: LakeViews, title: str, where: tuple[bytes, int, int], names: Mapping[bytes, str]
) -> dict[str, Any]:
    row = ask.sighting(views, *where)
    if not row:
        return {}
    return {
        "title": title,
        "node": name_of(row["node"], names),
        "seen_at": time_text(row["seen_at_ns"]),
        "segment": row["segment"],
        "sequence": row["sequence"],
        "note": row["note"] or "",
        **_dissected(row["frames"] or []),
    }


def _dissected(frames: Sequence[bytes]) -> dict[str, Any]:
    dissection = dissect(tuple(frames))
    rows = rows_from_dissection(dissection, 200)
    fields = [
        {"frame": row.frame, "position": row.position, "start": row.start, "stop": row.stop, "name": row.name,
         "type": row.type, "meaning": row.meaning}
        for row in rows[:MAX_FIELDS]
    ]  # fmt: skip
    dumps = []
    room = MAX_DUMP
    for index, frame in enumerate(frames):
        marks = [(row.start, row.stop, number) for number, row in enumerate(rows[:MAX_FIELDS]) if row.frame == index]
        dumps.append(
            {"frame": index, "size": len(frame), "lines": _dump(frame[:room], marks), "is_cut": len(frame) > room}
        )
        room = max(0, room - len(frame))
    error = dissection.error
    return {
        "format": dissection.fmt.name if dissection.fmt else "no format",
        "fields": fields,
        "field_count": len(rows),
        "frames": dumps,
        "error": {
            "reason": error.reason,
            "meaning": WIRE_REASONS[error.reason],
            "frame": error.frame,
            "byte": error.byte,
        }
        if error
        else None,
    }


def _dump(data: bytes, marks: Sequence[tuple[int, int, int]], width: int = 16) -> list[dict[str, Any]]:
    """Lines of a hex dump; each byte knows the field that it belongs to."""
    owner: list[int | None] = [None] * len(data)
    for start, stop, number in marks:
        for place in range(start, min(stop, len(data))):
            owner[place] = number
    return [
        {
            "start": start,
            "bytes": [(f"{data[at]:02x}", chr(data[at]) if 32 <= data[at] < 127 else ".", owner[at])
                      for at in range(start, min(start + width, len(data)))],
        }
        for start in range(0, len(data), width)
    ]  # fmt: skip


# -- two flows


def compare(views: LakeViews, query: Query) -> PageContent:
    """Two flows side by side: what only one of them has, and where the time went."""
    names = ask.node_names(views)
    sides = []
    for name in ("a", "b"):
        if text := query.get(name, "").strip():
            found, hops, _ = _found_flow(views, text)
            steps = _as_tree(steps_of_flow(found, hops, names))[:MAX_MARKS]
            sides.append((found, steps))
    values: dict[str, Any] = {"a": query.get("a", ""), "b": query.get("b", ""), "rows": [], "sides": []}
    if len(sides) == 2:
        values["rows"] = _aligned(sides[0][1], sides[1][1])
        values["sides"] = [
            {"id": text_or_hex(found["flow_id"]), "address": f"/flow/{id_in_address(found['flow_id'])}",
             "outcome": found["outcome"], "duration_us": found["duration_us"], "hop_count": found["hop_count"]}
            for found, _ in sides
        ]  # fmt: skip
    return PageContent("compare.html", "Compare", values)


def _aligned(one: Sequence[FlowStep], other: Sequence[FlowStep]) -> list[dict[str, Any]]:
    """Steps of two flows beside each other: equal contracts on equal ways belong together, in their order."""
    keys = [[(step.contract, step.way, step.is_dead) for step in side] for side in (one, other)]
    rows = []
    for kind, a0, a1, b0, b1 in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if kind == "equal":
            rows += [_pair(one[a], other[b]) for a, b in zip(range(a0, a1), range(b0, b1), strict=True)]
        else:
            rows += [_pair(one[a], None) for a in range(a0, a1)] + [_pair(None, other[b]) for b in range(b0, b1)]
    return rows


def _pair(one: FlowStep | None, other: FlowStep | None) -> dict[str, Any]:
    step = one or other
    assert step is not None
    slower = None
    if one and other and one.latency_us is not None and other.latency_us is not None:
        slower = other.latency_us - one.latency_us
    return {
        "contract": step.contract,
        "way": step.way,
        "depth": step.depth,
        "a_us": one.latency_us if one else None,
        "b_us": other.latency_us if other else None,
        "a_fate": one.fate if one else "",
        "b_fate": other.fate if other else "",
        "slower_us": slower,
        "only": "" if one and other else "a" if one else "b",
    }
