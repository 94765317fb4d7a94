"""A lake against the truth of a simulated network: every fact of both, one by one, without Spark.

| aspect | a fact is |
|---|---|
| verdicts | what silver.messages says of the signature of one sighting |
| reasons | why silver.quarantine has one sighting |
| hops | how many hops of one flow have one fate in silver.hops |
| requests | what gold.requests says of one request, what its asker was told, whether its key is used again |
| flows | what gold.flows says of one flow |
| findings | one kind of finding of one flow |
| clocks | how wrong silver.clocks takes one clock to be, within `CLOCK_TOLERANCE_NS` |

- A fact that truth and lake have is *found*.
- A fact that only the truth has is *missed*.
- A fact that only the lake has is *false*.
- A fact that both have and that differs is missed and false. Example: the truth says that a request was answered, the
  lake says that the request was lost.

Each fact belongs to the fault of its flow. An aspect whose table the lake does not have is left out.

What has left a lake on purpose, since it was too old or is forgotten, is not missed: it is *gone*, counted and not
compared. A sighting is gone if bronze.sightings does not have it, and a flow if neither silver.messages nor gold.flows
has it. If more sightings are not there than the lake says have left, all of them are compared, and missed.

Nothing here reads a file: `Read` gives the rows of a table, for the truth and for the lake (`lake/simulation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hopwire.model.units import NS_PER_MS
from hopwire.simulate.faults import FAULTS
from hopwire.simulate.truth import SCHEMAS

__all__ = ["CHECKED_TABLES", "Checked", "Read", "TruthDifference", "TruthTally", "check_tables"]

Read: TypeAlias = Callable[[str, Sequence[str]], pa.Table]  # from the name of a table and its columns to the rows

CLOCK_TOLERANCE_NS = NS_PER_MS  # the quickest of many crossings takes hardly longer one way than the other
SIGHTING = ("node", "incarnation", "sequence")
REQUEST = ("callback_receiver_node_identity", "callback_receiver_identity", "callback_key", "correlation_id")
FLOW = ("correlation_id",)
HOPS = ("correlation_id", "fate")
MAX_DIFFERENCES = 20  # so many differences of each aspect are kept
NO_FAULT = ""


@dataclass(frozen=True, slots=True)
class TruthTally:
    """How many facts of one aspect and one fault there are, and how many of them the lake has."""

    aspect: str
    fault: str
    expected: int
    found: int
    missed: int
    false: int


@dataclass(frozen=True, slots=True)
class TruthDifference:
    """One fact in which lake and truth differ; None stands for the side that does not have the fact."""

    aspect: str
    fault: str
    key: dict[str, Any]
    truth: Any
    lake: Any


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of the comparison."""

    tallies: tuple[TruthTally, ...]
    differences: tuple[TruthDifference, ...]
    flows: dict[str, int]  # how many flows have each fault; flows without a fault are counted under ""
    left_out: tuple[str, ...]  # aspects whose table the lake does not have
    gone: int = 0  # facts that are not compared, since they have left the lake on purpose

    @property
    def is_same(self) -> bool:
        """Whether lake and truth agree in everything."""
        return not any(tally.missed or tally.false for tally in self.tallies)

    def total(self, fault: str) -> TruthTally:
        """Give the sum of all aspects of one fault."""
        tallies = [tally for tally in self.tallies if tally.fault == fault]
        sums = (sum(getattr(tally, name) for tally in tallies) for name in ("expected", "found", "missed", "false"))
        return TruthTally("", fault, *sums)


@dataclass(frozen=True, slots=True)
class _Aspect:
    name: str
    table: str
    key: tuple[str, ...]
    facts: Callable[[_Both], tuple[pa.Table, pa.Table]]  # of truth and lake: the key, `value`, in truth also `fault`


class _Both(NamedTuple):
    """The two sides, read as needed."""

    read_truth: Read
    found: Read

    def truth(self, name: str) -> pa.Table:
        return self.read_truth(name, SCHEMAS[name].names)


class _Stayed:
    """Which facts of the truth a lake still can have, if sightings have left it on purpose."""

    def __init__(self, both: _Both, left_count: int) -> None:
        seen = both.truth("truth_sightings").select(list(SIGHTING))
        self._sightings = _like(both.found("bronze.sightings", SIGHTING), seen, SIGHTING)
        flows = [both.found(name, FLOW)["correlation_id"] for name in ("silver.messages", "gold.flows")]
        self._flows = pc.unique(pa.chunked_array([chunk for each in flows for chunk in each.chunks], pa.binary()))
        self._is_known = len(seen.join(self._sightings, list(SIGHTING), join_type="left anti")) <= left_count
        self.gone = 0

    def of(self, truth: pa.Table, key: Collection[str]) -> pa.Table:
        """Give the facts that have not left, and count the others."""
        kept = self._kept(truth, key) if self._is_known else truth
        self.gone += len(truth) - len(kept)
        return kept

    def flows(self, flows: pa.Table) -> pa.Table:
        """Give the flows that have not left."""
        return self._kept(flows, FLOW) if self._is_known else flows

    def _kept(self, truth: pa.Table, key: Collection[str]) -> pa.Table:
        if key == SIGHTING:
            return truth.join(self._sightings, list(SIGHTING), join_type="left semi")
        return truth.filter(pc.is_in(truth["correlation_id"], self._flows)) if "correlation_id" in key else truth


def check_tables(tables: Collection[str], found: Read, truth: Read, left_count: int = 0) -> Checked:
    """Compare the tables that a lake has with the truth; `found` reads the lake.

    `left_count` sightings have left the lake on purpose: facts of these are counted, and not compared.
    """
    both = _Both(truth, found)
    flows = _flow_faults(both)
    stayed = _Stayed(both, left_count) if left_count else None
    if stayed:
        flows = stayed.flows(flows)
    chosen = [aspect for aspect in ASPECTS if aspect.table in tables]
    tallies: list[TruthTally] = []
    differences: list[TruthDifference] = []
    for aspect in chosen:
        true, own = aspect.facts(both)
        joined = _joined(stayed.of(true, aspect.key) if stayed else true, own, aspect.key, flows)
        tallies += _tallies(aspect, joined)
        differences += _differences(aspect, joined)
    counts = {row["values"]: row["counts"] for row in pc.value_counts(flows["fault"]).to_pylist()}
    left_out = tuple(aspect.name for aspect in ASPECTS if aspect not in chosen)
    return Checked(tuple(tallies), tuple(differences), counts, left_out, stayed.gone if stayed else 0)


def _flow_faults(both: _Both) -> pa.Table:
    """The fault of each flow; a flow that spans several chunks has several rows in the truth."""
    return (
        both.truth("truth_flows")
        .select(["correlation_id", "fault"])
        .group_by(["correlation_id", "fault"])
        .aggregate([])
    )


# -- facts


def _verdicts(both: _Both) -> tuple[pa.Table, pa.Table]:
    return _sightings(both, "verdict", "silver.messages")


def _reasons(both: _Both) -> tuple[pa.Table, pa.Table]:
    return _sightings(both, "reason", "silver.quarantine")


def _sightings(both: _Both, value: str, table: str) -> tuple[pa.Table, pa.Table]:
    truth = both.truth("truth_sightings").select([*SIGHTING, value, "fault"])
    truth = truth.filter(pc.is_valid(truth[value])).rename_columns([*SIGHTING, "value", "fault"])
    return truth, both.found(table, [*SIGHTING, value]).rename_columns([*SIGHTING, "value"])


def _hops(both: _Both) -> tuple[pa.Table, pa.Table]:
    """Counts are compared, since equal messages of one flow cannot be told apart; a count is one fact."""
    truth = both.truth("truth_hops").group_by([*HOPS, "fault"]).aggregate([("hop_count", "sum")])
    found = both.found("silver.hops", HOPS).group_by(list(HOPS)).aggregate([([], "count_all")])
    return _counted(truth, "hop_count_sum"), _counted(found, "count_all")


def _counted(table: pa.Table, name: str) -> pa.Table:
    return table.drop_columns([name]).append_column("value", table[name].cast(pa.string()))


def _requests(both: _Both) -> tuple[pa.Table, pa.Table]:
    names = [*REQUEST, "outcome", "is_reused", "told"]
    truth, found = both.truth("truth_requests").select([*names, "fault"]), both.found("gold.requests", names)
    return tuple(_with_outcome(table) for table in (truth, found))


def _with_outcome(table: pa.Table) -> pa.Table:
    value = pc.if_else(
        table["is_reused"], pc.binary_join_element_wise(table["outcome"], "reused", ", "), table["outcome"]
    )
    told = pc.fill_null(table["told"], "")
    value = pc.if_else(pc.equal(told, ""), value, pc.binary_join_element_wise(value, told, ", told "))
    return table.drop_columns(["outcome", "is_reused", "told"]).append_column("value", value)


def _flows(both: _Both) -> tuple[pa.Table, pa.Table]:
    names = ["correlation_id", "outcome"]
    truth = both.truth("truth_flows").select([*names, "fault"]).group_by([*names, "fault"]).aggregate([])
    found = both.found("gold.flows", names)
    return truth.rename_columns({"outcome": "value"}), found.rename_columns({"outcome": "value"})


def _findings(both: _Both) -> tuple[pa.Table, pa.Table]:
    truth = both.truth("truth_findings").group_by(["correlation_id", "kind", "fault"]).aggregate([])
    flows = both.found("gold.flows", ["correlation_id", "findings"]).combine_chunks()
    findings = flows["findings"].combine_chunks()
    rows = pc.list_parent_indices(findings)
    kinds = pc.struct_field(findings.flatten(), "kind")
    found = pa.table({"correlation_id": flows["correlation_id"].take(rows), "kind": kinds})
    found = found.group_by(["correlation_id", "kind"]).aggregate([])
    return truth.append_column("value", truth["kind"]), found.append_column("value", found["kind"])


def _clocks(both: _Both) -> tuple[pa.Table, pa.Table]:
    """Offsets against the reference that the lake has chosen; an offset within the tolerance counts as the true one."""
    truth = both.truth("truth_clocks")
    offsets = dict(zip(truth["node"].to_pylist(), truth["offset_ns"].to_pylist(), strict=True))
    found = both.found("silver.clocks", ["node", "reference_node", "offset_ns"])
    rows = {row["node"]: row for row in found.to_pylist()}
    values = {}
    for node, row in rows.items():
        true = offsets.get(node, 0) - offsets.get(row["reference_node"], 0)
        values[node] = (true, true if abs(row["offset_ns"] - true) <= CLOCK_TOLERANCE_NS else row["offset_ns"])
    capturing = truth.filter(truth["is_capturing"])["node"].to_pylist()
    expected = [str(values[node][0]) if node in values else "" for node in capturing]
    return (
        pa.table(
            {"node": pa.array(capturing, pa.binary()), "value": expected, "fault": ["clock_skew"] * len(capturing)}
        ),
        pa.table(
            {
                "node": pa.array(values, pa.binary()),
                "value": pa.array([str(v[1]) for v in values.values()], pa.string()),
            }
        ),
    )


ASPECTS = (
    _Aspect("verdicts", "silver.messages", SIGHTING, _verdicts),
    _Aspect("reasons", "silver.quarantine", SIGHTING, _reasons),
    _Aspect("hops", "silver.hops", HOPS, _hops),
    _Aspect("requests", "gold.requests", REQUEST, _requests),
    _Aspect("flows", "gold.flows", FLOW, _flows),
    _Aspect("findings", "gold.flows", ("correlation_id", "kind"), _findings),
    _Aspect("clocks", "silver.clocks", ("node",), _clocks),
)
CHECKED_TABLES = tuple(sorted({aspect.table for aspect in ASPECTS}))


# -- comparison


def _joined(truth: pa.Table, found: pa.Table, key: tuple[str, ...], flows: pa.Table) -> pa.Table:
    """All facts of both sides, with `truth`, `lake` and `fault`."""
    truth = truth.rename_columns({"value": "truth"})
    found = _like(found.rename_columns({"value": "lake"}), truth, key)
    joined = truth.join(found, list(key), join_type="full outer")
    if "correlation_id" in key:
        of_flow = flows.rename_columns({"fault": "of_flow"})
        joined = joined.join(of_flow, "correlation_id", join_type="left outer")
        fault = pc.coalesce(joined["fault"], joined["of_flow"], pa.scalar(NO_FAULT))
    else:
        fault = pc.fill_null(joined["fault"], NO_FAULT)
    has_both = pc.and_(pc.is_valid(joined["truth"]), pc.is_valid(joined["lake"]))
    is_found = pc.and_(has_both, pc.fill_null(pc.equal(joined["truth"], joined["lake"]), False))
    return joined.drop_columns(["fault"]).append_column("fault", fault).append_column("is_found", is_found)


def _like(found: pa.Table, truth: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Keys in the types of the truth: Arrow joins equal types only."""
    types = {name: truth.schema.field(name).type for name in key}
    types |= {"lake": pa.string()} if "lake" in found.column_names else {}
    return found.select(list(types)).cast(pa.schema(list(types.items())))


def _tallies(aspect: _Aspect, joined: pa.Table) -> list[TruthTally]:
    has_truth, has_lake = pc.is_valid(joined["truth"]), pc.is_valid(joined["lake"])
    is_wrong = pc.invert(joined["is_found"])
    counted = pa.table(
        {
            "fault": joined["fault"],
            "expected": has_truth.cast(pa.int64()),
            "found": joined["is_found"].cast(pa.int64()),
            "missed": pc.and_(has_truth, is_wrong).cast(pa.int64()),
            "false": pc.and_(has_lake, is_wrong).cast(pa.int64()),
        }
    )
    names = ("expected", "found", "missed", "false")
    sums = counted.group_by("fault").aggregate([(name, "sum") for name in names]).to_pylist()
    order = [NO_FAULT, *FAULTS]
    rows = sorted(sums, key=lambda row: order.index(row["fault"]))
    return [TruthTally(aspect.name, row["fault"], *(row[f"{name}_sum"] for name in names)) for row in rows]


def _differences(aspect: _Aspect, joined: pa.Table) -> list[TruthDifference]:
    wrong = joined.filter(pc.invert(joined["is_found"])).slice(0, MAX_DIFFERENCES)
    return [
        TruthDifference(aspect.name, row["fault"], {name: row[name] for name in aspect.key}, row["truth"], row["lake"])
        for row in wrong.to_pylist()
    ]
