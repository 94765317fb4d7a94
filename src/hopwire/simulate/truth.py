"""The truth of a chunk: what the tables of the lake must say, sighting by sighting, request by request.

| table | one row is |
|---|---|
| `truth_sightings` | one captured message: its verdict, or why the message cannot be read |
| `truth_requests` | one request: its key and its outcome |
| `truth_hops` | one fate in one flow: how many hops of the flow have this fate |
| `truth_flows` | one flow: its outcome |
| `truth_findings` | one finding of one flow |
| `truth_clocks` | one node: how wrong its clock is |
| `truth_faults` | one fault: its rate, and how many flows have the fault |

Most tables are made chunk by chunk: a flow that spans several chunks has a row in each of them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from hopwire.model.columns import Column, schema_from_columns
from hopwire.security import Verdict
from hopwire.simulate.draw import V5
from hopwire.simulate.faults import FAULTS
from hopwire.simulate.kinds import KINDS
from hopwire.simulate.messages import texts_from_ids
from hopwire.simulate.plan import Plan
from hopwire.simulate.shapes import Change, fate_of, findings_of
from hopwire.simulate.signatures import is_signed
from hopwire.simulate.world import SimulatedWorld

__all__ = ["COLUMNS", "FLOW_ORDER", "SCHEMAS", "clocks_of", "faults_of", "truth_of"]

FLOW_ORDER = ("lost", "expired", "late", "failed", "open", "answered")  # the worst first
WRONG = {
    Change.SIGNATURE: Verdict.INVALID,
    Change.BODY: Verdict.INVALID,
    Change.WRONG_KEY: Verdict.INVALID,
    Change.UNKNOWN_KEY: Verdict.NO_KEY,
    Change.NOT_IN_DOMAIN: Verdict.NOT_IN_DOMAIN,
}
TEXT, BLOB, NUMBER, FLAG = pa.string(), pa.binary(), pa.int64(), pa.bool_()
# fmt: off
FAULT = Column("fault",                              TEXT,         "of its flow; empty if it has none")
FLOW = Column("correlation_id",                      BLOB,         "of the flow")
COLUMNS = {
    "truth_sightings": (
        Column("node",                               BLOB,         "who saw it"),
        Column("incarnation",                        NUMBER,       "in which of its lives"),
        Column("sequence",                           NUMBER,       "and as which sighting"),
        Column("verdict",                            TEXT,         "on its signature; null if it cannot be read"),
        Column("reason",                             TEXT,         "why it cannot be read; null if it can"),
        FAULT,
    ),
    "truth_requests": (
        Column("callback_receiver_node_identity",    BLOB,         "where answers go; empty in V3 and V4"),
        Column("callback_receiver_identity",         BLOB,         "the receiver that answers go to"),
        Column("callback_key",                       NUMBER,       "which request of that receiver; 0 in V3 and V4"),
        FLOW,
        Column("wire_format",                        NUMBER,       "3 to 6"),
        Column("outcome",                            TEXT,         "what became of it"),
        Column("is_reused",                          FLAG,         "whether another request has its key"),
        Column("told",                               TEXT,         "what its asker was told; empty if not captured"),
        FAULT,
    ),
    "truth_hops": (
        FLOW,
        Column("fate",                               TEXT,         "what became of a hop"),
        Column("hop_count",                          NUMBER,       "how many hops of the flow have this fate"),
        FAULT,
    ),
    "truth_flows": (
        FLOW,
        Column("kind",                               TEXT,         "what happens in it, in words"),
        Column("outcome",                            TEXT,         "what became of it"),
        FAULT,
    ),
    "truth_findings": (
        FLOW,
        Column("kind",                               TEXT,         "what is odd about the flow"),
        FAULT,
    ),
    "truth_clocks": (
        Column("node",                               BLOB,         "whose clock"),
        Column("node_name",                          TEXT,         "what people call the node"),
        Column("offset_ns",                          NUMBER,       "how far it is ahead of the true time"),
        Column("is_capturing",                       FLAG,         "whether the node writes captures"),
    ),
    "truth_faults": (
        Column("fault",                              TEXT,         "its name"),
        Column("meaning",                            TEXT,         "what happens"),
        Column("rate",                               pa.float64(), "how often, as it was asked for"),
        Column("injected",                           NUMBER,       "how many flows have it"),
    ),
}
# fmt: on
SCHEMAS = {name: schema_from_columns(columns) for name, columns in COLUMNS.items()}


def truth_of(
    world: SimulatedWorld, plan: Plan, kept: Any, numbers: tuple[Any, Any], reasons: dict[int, str]
) -> dict[str, pa.Table]:
    """Give the truth of one chunk."""
    ids = texts_from_ids(plan.flows["id"])
    return {
        "truth_sightings": _sightings(world, plan, kept, numbers, reasons),
        "truth_requests": _requests(world, plan, ids),
        "truth_hops": _hops(plan, ids),
        "truth_flows": _flows(plan, ids),
        "truth_findings": _findings(plan, ids),
    }


def _table(name: str, **columns: Any) -> pa.Table:
    return pa.table({each: columns[each] for each in SCHEMAS[name].names}, schema=SCHEMAS[name])


def _faults(kinds: Any) -> pa.Array:
    """The fault of each flow, empty where the flow has none."""
    names = [kind.fault if kind.fault in FAULTS else "" for kind in KINDS]
    return pa.array(names).take(pa.array(kinds))


def _sightings(
    world: SimulatedWorld, plan: Plan, kept: Any, numbers: tuple[Any, Any], reasons: dict[int, str]
) -> pa.Table:
    seen = np.flatnonzero(~plan.sightings["is_skipped"][kept])
    rows = kept[seen]
    crossing = plan.sightings["crossing"][rows]
    message = plan.crossings["message"][crossing]
    signed = is_signed(plan)[message]
    change = plan.messages["change"][message]
    verdicts = np.where(signed, Verdict.VALID.value, Verdict.UNSIGNED.value).astype(object)
    for wrong, verdict in WRONG.items():
        verdicts[change == wrong] = verdict.value
    place = {int(row): reason for row, reason in reasons.items()}
    why = [place.get(row) for row in seen.tolist()]
    verdicts[[reason is not None for reason in why]] = None
    node = plan.sightings["node"][rows]
    return _table(
        "truth_sightings",
        node=pa.array([each.identity for each in world.nodes], BLOB).take(pa.array(node)),
        incarnation=numbers[0][rows],
        sequence=numbers[1][rows],
        verdict=pa.array(verdicts, TEXT),
        reason=pa.array(why, TEXT),
        fault=_faults(plan.flows["kind"][plan.crossings["flow"][crossing]]),
    )


def _requests(world: SimulatedWorld, plan: Plan, ids: pa.Array) -> pa.Table:
    flows = plan.flows
    outcomes = [kind.outcomes[0] if kind.outcomes else None for kind in KINDS]
    rows = np.flatnonzero(np.array([bool(kind.outcomes) for kind in KINDS])[flows["kind"]])
    kinds, home = flows["kind"][rows], flows["nodes"][rows, 0]
    has_key = flows["format"][rows] >= V5
    nodes = pa.array([b"", *(node.identity for node in world.nodes)], BLOB)
    return _table(
        "truth_requests",
        callback_receiver_node_identity=nodes.take(pa.array(np.where(has_key, home + 1, 0))),
        callback_receiver_identity=pa.array([node.hub for node in world.nodes], BLOB).take(pa.array(home)),
        callback_key=np.where(has_key, flows["key"][rows], 0),
        correlation_id=ids.take(pa.array(rows)),
        wire_format=flows["format"][rows],
        outcome=pa.array(outcomes, TEXT).take(pa.array(kinds)),
        is_reused=pa.array([kind.is_reused for kind in KINDS]).take(pa.array(kinds)),
        told=pa.array([kind.told for kind in KINDS], TEXT).take(pa.array(kinds)),
        fault=_faults(kinds),
    )


def _hops(plan: Plan, ids: pa.Array) -> pa.Table:
    counts = [Counter(filter(None, (fate_of(kind, step) for step in range(len(kind.steps))))) for kind in KINDS]
    kinds = plan.flows["kind"]
    parts = []
    for fate in sorted({fate for each in counts for fate in each}):
        of_kind = np.array([each[fate] for each in counts])
        rows = np.flatnonzero(of_kind[kinds])
        columns = {"correlation_id": ids.take(pa.array(rows)), "fate": pa.repeat(fate, len(rows))}
        parts.append(_table("truth_hops", **columns, hop_count=of_kind[kinds[rows]], fault=_faults(kinds[rows])))
    return pa.concat_tables(parts)


def _flows(plan: Plan, ids: pa.Array) -> pa.Table:
    kinds = plan.flows["kind"]
    outcomes = [kind.flow_outcome or min(kind.outcomes, key=FLOW_ORDER.index) for kind in KINDS]
    giant = np.array([kind.fault == "giant_flow" for kind in KINDS])[kinds]
    rows = np.concatenate([np.flatnonzero(~giant), np.flatnonzero(giant)[:1]])
    return _table(
        "truth_flows",
        correlation_id=ids.take(pa.array(rows)),
        kind=pa.array([kind.name for kind in KINDS]).take(pa.array(kinds[rows])),
        outcome=pa.array(outcomes, TEXT).take(pa.array(kinds[rows])),
        fault=_faults(kinds[rows]),
    )


def _findings(plan: Plan, ids: pa.Array) -> pa.Table:
    kinds = plan.flows["kind"]
    findings = [findings_of(kind) for kind in KINDS]
    parts = []
    for place in range(max(map(len, findings))):
        found = [each[place] if len(each) > place else None for each in findings]
        rows = np.flatnonzero(np.array([name is not None for name in found])[kinds])
        parts.append(
            _table(
                "truth_findings",
                correlation_id=ids.take(pa.array(rows)),
                kind=pa.array(found, TEXT).take(pa.array(kinds[rows])),
                fault=_faults(kinds[rows]),
            )
        )
    return pa.concat_tables(parts)


def clocks_of(world: SimulatedWorld) -> pa.Table:
    """Give the offset of each clock."""
    nodes = world.nodes
    return _table(
        "truth_clocks",
        node=pa.array([node.identity for node in nodes], BLOB),
        node_name=[node.name for node in nodes],
        offset_ns=[node.offset_ns for node in nodes],
        is_capturing=[not node.is_dark for node in nodes],
    )


def faults_of(world: SimulatedWorld, injected: dict[str, int]) -> pa.Table:
    """Give the faults with how many flows have each."""
    return _table(
        "truth_faults",
        fault=list(FAULTS),
        meaning=[fault.meaning for fault in FAULTS.values()],
        rate=[float(world.settings.rate(name)) for name in FAULTS],
        injected=[injected.get(name, 0) for name in FAULTS],
    )
