"""The pages of one flow: its steps over time, one message byte by byte, and two flows beside each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from hopwire.capture.times import time_text
from hopwire.errors import SettingsError
from hopwire.model.reasons import WIRE_REASONS
from hopwire.report.dissection import rows_from_dissection
from hopwire.report.flow_tree import Remark, Witnesses, finding_line, name_of, request_line, witnesses_of
from hopwire.report.words import cut, text_or_hex
from hopwire.web import lake_questions as ask
from hopwire.web.flow_search import FlowSearch, number_from
from hopwire.web.flow_steps import FlowStep, steps_of_flow
from hopwire.web.lake_views import LakeViews
from hopwire.web.page_content import Missing, PageContent, bytes_from_address, id_in_address
from hopwire.web.sequence_diagram import sequence_diagram
from hopwire.web.waterfall import MAX_STEPS, StepTimes, minimap, waterfall
from hopwire.wire.dissect import dissect

__all__ = ["compare", "flow", "hop"]

Query = Mapping[str, str]
MAX_FIELDS, MAX_DUMP = 400, 4_096  # fields and bytes of one sighting that are shown
MAX_LOST = 20  # steps whose end is told above the drawing
MAX_REQUESTS, MAX_FINDINGS = 50, 100  # of a flow that are told below it; all of them are counted
MAX_NAMED = 3  # flows that are named where an id is not enough
HIDDEN = "hidden"
SHORT_ID = 16  # characters of an id above a column
NOWHERE = (b"", 0, 0)  # no node has this sighting


def flow(views: LakeViews, flow_id: str, query: Query) -> PageContent:
    """One flow: waterfall or sequence, requests, findings, and the evidence of what was lost."""
    names = ask.node_names(views)
    view, clock = query.get("view", "waterfall"), query.get("clock", "corrected")
    for name, value, choices in (
        ("view", view, ("waterfall", "sequence", "table")),
        ("clock", clock, ("corrected", "raw", "both")),
    ):
        if value not in choices:
            raise SettingsError(f"{name}: found {value!r:.40}, expected {' or '.join(choices)}")
    first = number_from(query.get("first", "0"), "first")
    found = _found_flow(views, flow_id, first, MAX_STEPS)
    shown = _steps(views, found, names, first)
    address = f"/flow/{id_in_address(found['flow_id'])}"
    bad = found["bad"][:MAX_LOST]
    lost = _those(views, found, names, shown, bad)
    witnesses = _witnesses(views, found)
    requests = ask.requests_of(views, found, MAX_REQUESTS)
    drawings = {}
    if shown:
        if found["step_count"] > len(shown):
            part = range(first, first + len(shown))
            drawings["minimap"] = minimap(
                found["begins_ns"], found["bad"], f"{address}?view={view}&clock={clock}", part
            )
        if view == "waterfall":
            drawings["steps"] = waterfall(_as_tree(shown), _times(views, shown, found, clock), address)
        elif view == "sequence":
            drawings["steps"] = sequence_diagram(shown, address)
    values = {
        "id": text_or_hex(found["flow_id"]),
        "contract": text_or_hex(found["identity"]),
        "started_at": time_text(found["started_at_ns"]),
        **{key: found[key] for key in FLOW_VALUES},
        "node_names": [name_of(node, names) for node in found["nodes"]],
        "requests": [_request(each, names, witnesses) for each in requests],
        "findings": [{**each, "words": finding_line(each, names)} for each in found["findings"][:MAX_FINDINGS]],
        "finding_count": len(found["findings"]),
        "steps": [_step_values(step) for step in shown],
        "first": first,
        "step_count": found["step_count"],
        "went_wrong": [_step_values(step) for step in lost],
        "wrong_count": len(found["bad"]),
    }
    helpers = {
        "address": address,
        "view": view,
        "clock": clock,
        "next": first + len(shown),
        "size": MAX_STEPS,
        "next_wrong": next((number for number in found["bad"] if number > first), None),
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


def _found_flow(views: LakeViews, text: str, first: int, count: int) -> dict[str, Any]:
    """Give a flow with some of its steps."""
    for flow_id in dict.fromkeys((bytes_from_address(text), text.encode())):
        if found := ask.flow_called(views, flow_id, first, count):
            return found
    return ask.flow_called(views, _begun(views, text), first, count)


def _begun(views: LakeViews, text: str) -> bytes:
    """Give the only flow whose id begins like this; flows of users go before those in which nodes alone speak."""
    for everything in ("", "1"):
        ids = ask.flow_ids(views, FlowSearch(q=text, all=everything), {}, MAX_NAMED + 1)
        if len(ids) == 1:
            return ids[0]
        if ids:
            named = ", ".join(text_or_hex(each) for each in ids[:MAX_NAMED])
            more = " and others" if len(ids) > MAX_NAMED else ""
            raise Missing(f"more than one flow begins with {text!r:.120}: {named}{more}")
    raise Missing(f"the lake has no flow {text!r:.120}, and none that begins so")


def _steps(views: LakeViews, found: Mapping[str, Any], names: Mapping[bytes, str], first: int) -> list[FlowStep]:
    """The steps of a flow that were asked for, beside their hops."""
    count = len(found["steps"])
    hops = ask.hops_of(views, found["flow_id"], found["begins_ns"], first, count) if count else []
    return steps_of_flow(found["steps"], hops, names, _witnesses(views, found), first)


def _witnesses(views: LakeViews, found: Mapping[str, Any]) -> Witnesses:
    return witnesses_of(found, ask.capture_ends(views))


def _those(
    views: LakeViews,
    found: Mapping[str, Any],
    names: Mapping[bytes, str],
    shown: Sequence[FlowStep],
    numbers: Sequence[int],
) -> list[FlowStep]:
    """The steps with these numbers, whether they are shown or not."""
    known = {step.number: step for step in shown}
    others = [number for number in numbers if number not in known]
    if others:
        rows = ask.steps_called(views, found["flow_id"], others)
        witnesses = _witnesses(views, found)
        pairs = zip(others, rows, strict=True)
        known |= {number: steps_of_flow([row], [], names, witnesses, number)[0] for number, row in pairs}
    return [known[number] for number in numbers]


def _request(request: Mapping[str, Any], names: Mapping[bytes, str], witnesses: Witnesses) -> dict[str, Any]:
    remark: Remark = request_line(request, names, witnesses)
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


def _times(views: LakeViews, steps: Sequence[FlowStep], found: Mapping[str, Any], clock: str) -> dict[int, StepTimes]:
    """The times that steps are drawn with: corrected with the band of error, raw where they are known, or both."""
    errors = {row["node"]: row["error_ns"] or 0 for row in views.rows("select node, error_ns from silver.clocks")}
    seen = [each for step in steps for each in (step.left, step.arrived) if each]
    raw = {} if clock == "corrected" else ask.raw_times(views, found["correlation_id"], seen)
    times = {}
    for step in steps:
        left, arrived = raw.get(step.left or NOWHERE), raw.get(step.arrived or NOWHERE)
        begin = next(each for each in (left, arrived, step.begin_ns) if each is not None)
        end = next(each for each in (arrived, left, step.end_ns) if each is not None)
        ends = [each[0] for each in (step.left, step.arrived) if each]
        band = sum(errors.get(node, 0) for node in set(ends)) if len(ends) == 2 else 0
        if clock == "raw":
            times[step.number] = StepTimes(begin, end)
        else:
            times[step.number] = StepTimes(step.begin_ns, step.end_ns, band, (begin, end) if clock == "both" else None)
    return times


# -- one message


def hop(views: LakeViews, flow_id: str, number: str, shows_bodies: bool = True) -> PageContent:
    """One step: both sightings of the message, every frame and byte by its name, and what changed on the way."""
    names = ask.node_names(views)
    index = number_from(number, "the step")
    found = _found_flow(views, flow_id, index, 1)
    if index >= found["step_count"]:
        raise Missing(f"the flow has {found['step_count']} steps, and no step {index}")
    step = _steps(views, found, names, index)[0]
    seen = [
        _sighting(views, title, where, names, shows_bodies)
        for title, where in (
            (
                "as it ended" if step.is_dead else "as its asker was told" if step.fate == "told" else "as it left",
                step.left,
            ),
            ("as it arrived", step.arrived),
        )
        if where is not None
    ]
    address = f"/flow/{id_in_address(found['flow_id'])}"
    _mark_changes(seen)
    values = {
        "flow": text_or_hex(found["flow_id"]),
        "step": _step_values(step),
        "sightings": [each for each in seen if each],
        "step_count": found["step_count"],
    }
    return PageContent(
        "hop.html",
        f"step {index} of {text_or_hex(found['flow_id'])}",
        values,
        {},
        {"address": address, "number": index},
    )


def _mark_changes(seen: Sequence[dict[str, Any]]) -> None:
    """Mark the fields of an arrival that are not as they left."""
    if len(seen) != 2 or not all(seen):
        return
    before = {field["name"]: field["meaning"] for field in seen[0]["fields"]}
    for field in seen[1]["fields"]:
        field["was"] = before.get(field["name"], "not there")
        field["is_changed"] = field["was"] != field["meaning"]


def _sighting(
    views: LakeViews, title: str, where: tuple[bytes, int, int], names: Mapping[bytes, str], shows_bodies: bool
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
        **_dissected(row["frames"] or [], shows_bodies),
    }


def _dissected(frames: Sequence[bytes], shows_bodies: bool) -> dict[str, Any]:
    dissection = dissect(tuple(frames))
    rows = rows_from_dissection(dissection, 200)
    fields = [
        {"frame": row.frame, "position": row.position, "start": row.start, "stop": row.stop, "name": row.name,
         "type": row.type, "meaning": row.meaning if shows_bodies or not _is_body(row.name) else HIDDEN,
         "is_changed": False}
        for row in rows[:MAX_FIELDS]
    ]  # fmt: skip
    dumps = []
    room = MAX_DUMP
    for index, frame in enumerate(frames):
        marks = [(row.start, row.stop, number) for number, row in enumerate(rows[:MAX_FIELDS]) if row.frame == index]
        known = {number for _, _, number in marks if not _is_body(rows[number].name)}
        lines = _dump(frame[:room], marks, None if shows_bodies else known)
        dumps.append({"frame": index, "size": len(frame), "lines": lines, "is_cut": len(frame) > room})
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


def _is_body(name: str) -> bool:
    return name.startswith("body_frames[") or name in ("", "signature")


def _dump(
    data: bytes, marks: Sequence[tuple[int, int, int]], shown: Collection[int] | None, width: int = 16
) -> list[dict[str, Any]]:
    """Lines of a hex dump; each byte knows the field that it belongs to; only bytes of the fields to show, if named."""
    owner: list[int | None] = [None] * len(data)
    for start, stop, number in marks:
        for place in range(start, min(stop, len(data))):
            owner[place] = number
    return [
        {
            "start": start,
            "bytes": [(f"{data[at]:02x}", chr(data[at]) if 32 <= data[at] < 127 else ".", owner[at])
                      if shown is None or owner[at] in shown else ("··", "·", owner[at])
                      for at in range(start, min(start + width, len(data)))],
        }
        for start in range(0, len(data), width)
    ]  # fmt: skip


# -- two flows


def compare(views: LakeViews, query: Query, views_of: Callable[[int], LakeViews]) -> PageContent:
    """Two flows side by side, or one flow in two versions of the lake: what only one has, and where the time went."""
    sides = []
    for name in ("a", "b"):
        if text := query.get(name, "").strip():
            version = query.get(f"v{name}", "")
            own = views_of(number_from(version, f"v{name}", 1)) if version else views
            names = ask.node_names(own)
            found = _found_flow(own, text, 0, MAX_STEPS)
            steps = _as_tree(_steps(own, found, names, 0))
            sides.append((found, steps))
    values: dict[str, Any] = {name: query.get(name, "") for name in ("a", "b", "va", "vb")}
    values |= {"rows": [], "sides": []}
    if len(sides) == 2:
        values["rows"] = _aligned(sides[0][1], sides[1][1])
        values["sides"] = [
            {"id": text_or_hex(found["flow_id"]) + (f" in version {version}" if version else ""),
             "short": cut(text_or_hex(found["flow_id"]), SHORT_ID) + (f" v{version}" if version else ""),
             "address": f"/flow/{id_in_address(found['flow_id'])}" + (f"?v={version}" if version else ""),
             "step_count": found["step_count"], "shown": min(found["step_count"], MAX_STEPS),
             "outcome": found["outcome"], "duration_us": found["duration_us"], "hop_count": found["hop_count"]}
            for (found, _), version in zip(sides, (values["va"], values["vb"]), strict=True)
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
