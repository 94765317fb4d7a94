"""What is too old leaves a lake: `expire(lake, before)`.

    hopwire lake expire LAKE --before 2026-01-01

| what | leaves if |
|---|---|
| a flow, with its sightings, hops and requests | its horizon is before the limit: its verdict looks at no later time |
| a sighting that is no message | it was seen before the limit, by the clock of its node |
| minutes of gold.links, gold.security, gold.latencies | no row is left that they are made from |
| bronze.spans, silver.clocks, silver.lives, bronze.sources | never: who was looking when is what verdicts look at |

Example: the limit is 0:00. A question of 23:59:50 is answered at 23:59:51, its horizon is 23:59:58: it leaves. A
question of 23:59:58 is answered at 0:00:01: all of it stays, and leaves with the next day.

What is known when the expiry runs decides. A flow that may still change then (its request is open for 10 min, until it
is clear that nobody answers) has a late horizon: the flow stays, and leaves with the next expiry. What is captured
before the limit and comes later is not taken in. So a limit of the last 10 min is refused: each node is seen after it
by then, or counts as silent.

So a flow leaves as a whole or stays as a whole, and none that stays is judged otherwise than before: what flows that
leave have proved is inherited (`inheritance.py`). What comes late, from before the limit, is not taken in and counted
(`worker.py`).

The files of what has left go when nobody can read them any more (`retention.py`): `keep_seconds` after the expiry, with
the next run, or at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from hopwire.errors import LakeError, SettingsError
from hopwire.flows.closing import horizons
from hopwire.flows.crossings import WINDOW_NS, crossings_of, quickest
from hopwire.flows.hops import FLOW_ID
from hopwire.lake.bronze.spans import SPANS_TABLE, spans_from_rows
from hopwire.lake.inheritance import Inherited, inherited_of
from hopwire.lake.manifest import Manifest, StoredFile
from hopwire.lake.removal import Gone, Leaving, crossings_of_flows, remove, rows_in, whole_lake
from hopwire.lake.retention import forget_old
from hopwire.lake.settings import LakeSettings
from hopwire.lake.silver.carried import Carried
from hopwire.lake.silver.closed_flows import ANY_TIME, CLOSED_TABLE
from hopwire.lake.silver.crossings import CROSSINGS_TABLE, crossings_from_rows
from hopwire.lake.silver.open_sightings import OPEN_TABLE
from hopwire.lake.store import LakeRun, read_manifest, writing
from hopwire.lake.tables import all_tables
from hopwire.model.units import NS_PER_SECOND
from hopwire.places import Place, remove_files

__all__ = ["Expiration", "expire", "expire_old", "limit_of", "limit_of_days"]

TIMES_OF_INDEX = ("started_at_ns", "ended_at_ns", "first_seen_at_ns", "last_seen_at_ns")


@dataclass(frozen=True, slots=True)
class Expiration:
    """The result of an expiry."""

    manifest: Manifest
    before_ns: int
    rows: Mapping[str, int]  # how many left each table
    of_sources: Mapping[str, int]  # how many sightings each source has lost


def limit_of(day: date) -> int:
    """Give when a day begins, in UTC."""
    try:
        return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * NS_PER_SECOND
    except (OverflowError, ValueError):
        raise SettingsError(f"{day}: found no day that a lake can know, expected one such as 2026-01-01") from None


def limit_of_days(keep_days: int, now_s: float) -> int:
    """Give from when on a lake is kept: so many days before the day of a time, in UTC."""
    today = datetime.fromtimestamp(now_s, UTC).date()
    return limit_of(today - timedelta(days=min(keep_days, (today - date(1970, 1, 1)).days)))


def expire(
    lake: Place | str,
    before: date,
    settings: LakeSettings | None = None,
    *,
    is_dry: bool = False,
    is_now: bool = False,
    wait_seconds: float = 0.0,
) -> Expiration:
    """Take everything before a day out of a lake; with `is_dry` only say what would leave.

    Files go when no reader can need them any more; with `is_now` they go at once, and with them all old states. Another
    run is waited for so long. A day that has just begun is refused: flows of before may still change.
    """
    settings = settings or LakeSettings()
    read_manifest(lake)  # a directory that is no lake is refused, and not made one
    limit_ns, now_s = limit_of(before), time.time()
    silence_s = settings.rules.silence_ns // NS_PER_SECOND
    if (limit_ns / NS_PER_SECOND) > now_s - silence_s:
        said = f"{before} began less than {silence_s // 60} min ago, and flows of before may still change"
        raise LakeError(f"{lake}: {said}; wait, or name the day before; nothing was done")
    return _expired(lake, limit_ns, settings, wait_seconds, is_dry=is_dry, is_now=is_now)


def expire_old(lake: Place | str, settings: LakeSettings) -> Manifest | None:
    """Take out of a lake what is older than `keep_days`, if this was not done today; give the new manifest."""
    if not settings.keep_days:
        return None
    limit = limit_of_days(settings.keep_days, time.time())
    if read_manifest(lake).removal.before_ns >= limit:
        return None
    return _expired(lake, limit, settings).manifest


def _expired(
    lake: Place | str,
    limit_ns: int,
    settings: LakeSettings,
    wait_seconds: float = 0.0,
    *,
    is_dry: bool = False,
    is_now: bool = False,
) -> Expiration:
    with writing(lake, settings.file_mode, wait_seconds) as run:
        expiry = _Expiry(run, settings, limit_ns)
        inherited = expiry.inherited
        leaving = replace(expiry.leaving(), base=inherited.base)
        gone = remove(run, settings, leaving, "expired", expiry.names)
        if is_dry:
            _take_back(run)
            return _result(run.before, limit_ns, gone)
        manifest = run.before
        if any(gone.rows.values()) or limit_ns > run.before.removal.before_ns:
            removal = msgspec.structs.replace(
                run.before.removal,
                before_ns=max(limit_ns, run.before.removal.before_ns),
                number=run.before.number + 1,
                inherited=inherited.to_bytes(),
            )
            manifest = run.publish(gone.sources, run.before.decoder, run.before.domains, removal)
        else:
            _take_back(run)
        forget_old(run.lake, settings, is_now=is_now)
    return _result(manifest, limit_ns, gone)


def _result(manifest: Manifest, limit_ns: int, gone: Gone) -> Expiration:
    return Expiration(manifest, limit_ns, {name: count for name, count in gone.rows.items() if count}, gone.sightings)


def _take_back(run: LakeRun) -> None:
    """Remove the files that the run has written."""
    for name in run.tables:
        known = {file.path for file in run.files_before(name)}
        for file in run.files(name):
            if file.path not in known:
                remove_files(run.log(name).place / file.path)


class _Expiry:
    """What a limit means for a lake."""

    def __init__(self, run: LakeRun, settings: LakeSettings, limit_ns: int) -> None:
        self._run, self._settings, self._limit = run, settings, limit_ns
        self.carried: Carried = whole_lake(run)
        self.names = dict(self.carried.names)

    def leaving(self) -> Leaving:
        """Give which flows leave, and before which times none stays."""
        leave, stay = self._closed
        opened, open_stay = self._opened
        floor = min([self._limit, *stay["started_at_ns"], *open_stay["started_at_ns"]])
        seen = min([self._limit, *stay["first_seen_at_ns"], *open_stay["first_seen_at_ns"]])
        is_late = pc.or_(
            pc.greater_equal(leave["ended_at_ns"], floor), pc.greater_equal(leave["last_seen_at_ns"], seen)
        )
        late = pa.concat_tables([leave.filter(is_late), opened])
        found = Leaving(
            late[FLOW_ID].combine_chunks() if len(late) else pa.array([], pa.binary()),
            floor_ns=floor,
            floor_seen_ns=seen,
            others_before_ns=self._limit,
            window=self._window,
        )
        if not len(late):
            return found
        return replace(
            found,
            first_ns=pc.min(late["started_at_ns"]).as_py(),
            last_ns=pc.max(late["ended_at_ns"]).as_py(),
            first_seen_ns=pc.min(late["first_seen_at_ns"]).as_py(),
            last_seen_ns=pc.max(late["last_seen_at_ns"]).as_py(),
        )

    # -- closed flows

    @cached_property
    def _closed(self) -> tuple[pa.Table, dict[str, list[int]]]:
        """Give the closed flows that leave, and the first times of those that stay, as statistics tell them."""
        name = CLOSED_TABLE.name
        columns = [FLOW_ID, "horizon_ns", *TIMES_OF_INDEX]
        horizon = self._run.ranges_before(name, "horizon_ns")
        firsts = {each: self._run.ranges_before(name, each) for each in ("started_at_ns", "first_seen_at_ns")}
        stay: dict[str, list[int]] = {each: [] for each in firsts}
        mixed: list[StoredFile] = []
        for file in self._run.files_before(name):
            is_known = file.path in horizon and all(file.path in each for each in firsts.values())
            if is_known and horizon[file.path][0] >= self._limit and horizon[file.path][1] < ANY_TIME:
                for each, known in firsts.items():
                    stay[each].append(known[file.path][0])
            else:
                mixed.append(file)
        rows = self._with_ends(rows_in(self._run, name, columns, mixed))
        is_leaving = pc.less(rows["horizon_ns"], self._limit)
        kept = rows.filter(pc.invert(is_leaving))
        for each in firsts:
            stay[each] += [pc.min(kept[each]).as_py()] if len(kept) else []
        return rows.filter(is_leaving), stay

    def _with_ends(self, rows: pa.Table) -> pa.Table:
        """Give flows that are too large for their trees the end that their row has, and leave them time after it."""
        is_cut = pc.equal(rows["horizon_ns"], ANY_TIME)
        if not pc.any(is_cut).as_py():
            return rows
        flows = rows_in(self._run, "gold.flows", [FLOW_ID, "ended_at_ns"])
        cut = rows.filter(is_cut)
        ends = dict(zip(flows[FLOW_ID].to_pylist(), flows["ended_at_ns"].to_pylist(), strict=True))
        margin = self._settings.rules.silence_ns + self._settings.rules.patience_ns
        made = [ends.get(flow, ANY_TIME) for flow in cut[FLOW_ID].to_pylist()]
        far = [min(end + margin, ANY_TIME) for end in made]
        columns = {"horizon_ns": far, "ended_at_ns": far, "last_seen_at_ns": [ANY_TIME] * len(far)}
        for name, values in columns.items():
            cut = cut.set_column(cut.schema.get_field_index(name), name, pa.array(values, pa.int64()))
        return pa.concat_tables([rows.filter(pc.invert(is_cut)), cut.cast(rows.schema)])

    # -- open flows

    @cached_property
    def _opened(self) -> tuple[pa.Table, dict[str, list[int]]]:
        """Give the open flows that leave, with their times, and the first times of those that stay."""
        hops, requests = (self._open_rows(name) for name in ("silver.hops", "gold.requests"))
        seen = self._open_sightings.group_by(FLOW_ID).aggregate([("seen_at_ns", "min"), ("seen_at_ns", "max")])
        times = {row[FLOW_ID]: (row["seen_at_ns_min"], row["seen_at_ns_max"]) for row in seen.to_pylist()}
        known = horizons(hops, requests, self._settings.rules)
        at = pa.table({FLOW_ID: hops[FLOW_ID], "at": pc.min_element_wise(hops["left_at_ns"], hops["arrived_at_ns"])})
        first = at.group_by(FLOW_ID).aggregate([("at", "min")])
        started = dict(zip(first[FLOW_ID].to_pylist(), first["at_min"].to_pylist(), strict=True))
        rows: list[tuple[object, ...]] = []
        stay: dict[str, list[int]] = {"started_at_ns": [], "first_seen_at_ns": []}
        for flow, horizon in known.items():
            if horizon.until_ns < self._limit:
                rows.append((flow, horizon.until_ns, started[flow], horizon.until_ns, *times[flow]))
            else:
                stay["started_at_ns"].append(started[flow])
                stay["first_seen_at_ns"].append(times[flow][0])
        names = [FLOW_ID, "horizon_ns", *TIMES_OF_INDEX]
        schema = pa.schema([CLOSED_TABLE.schema.field(name) for name in names])
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema), stay

    def _open_rows(self, name: str) -> pa.Table:
        step = self._run.before.tables[name].step
        files = [file for file in self._run.files_before(name) if step and file.part == step.open_part]
        return rows_in(self._run, name, all_tables()[name].schema.names, files)

    # -- what is inherited

    @property
    def _window(self) -> int:
        """The last window before the limit: nothing of it is taken in any more, so nothing changes its crossings."""
        return self._limit // WINDOW_NS - 1

    @cached_property
    def inherited(self) -> Inherited:
        """What is known from flows that have left by now, and from those that leave."""
        before, carried = inherited_of(self._run.before), self.carried
        fold = before.fold
        spans = rows_in(self._run, SPANS_TABLE.name, SPANS_TABLE.schema.names)
        fold.nodes |= {span.node for span in spans_from_rows(spans)}
        stored = crossings_from_rows(rows_in(self._run, CROSSINGS_TABLE.name))
        opened = Counter(crossings_of(self._open_sightings.drop_columns([FLOW_ID]))) - Counter(dict(carried.counted))
        crossings = quickest([*stored, *opened.elements()])
        fold.add(each for each in crossings if fold.window < each.window <= self._window)
        fold.window = max(fold.window, self._window)
        answered = {*before.answered, *carried.answered}
        signed = {*before.signed, *(identity for identity, count in carried.signed if count)}
        late = crossings_of_flows(self._run, carried, self._late_flows)
        later = quickest(each for each in (*before.later, *late) if each.window > fold.window)
        return Inherited(fold.parts(), sorted(answered, key=repr), sorted(signed), later)

    @property
    def _late_flows(self) -> set[bytes]:
        """The flows that leave, with a sighting after the last window before the limit."""
        since = (self._window + 1) * WINDOW_NS
        leaving = (rows for rows, _ in (self._closed, self._opened))
        late = (rows.filter(pc.greater_equal(rows["last_seen_at_ns"], since)) for rows in leaving)
        return {flow for rows in late for flow in rows[FLOW_ID].to_pylist()}

    @cached_property
    def _open_sightings(self) -> pa.Table:
        return rows_in(self._run, OPEN_TABLE.name, OPEN_TABLE.schema.names)
