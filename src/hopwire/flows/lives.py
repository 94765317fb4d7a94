"""The lives of nodes: when each began and ended, how it ended, and when the node came back.

A life is an incarnation of a node, as far as its captures go. A node that has a name may come back under another
identity: the next life is the next one of the same name, or of the same identity where there is no name.

| what is seen | `ending` |
|---|---|
| the node closed its capture | `stopped` |
| its capture breaks off, and the node came back, or others were seen for longer than `GONE_NS` after that | `died` |
| its capture breaks off near the end of all captures | `running` |

    payment1  06:51:02 to 06:57:55, died; came back at 06:58:01 after 6 s, as another identity
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from hopwire.flows.coverage import LifeSpan, coverage_from_rows
from hopwire.flows.schemas import CLOSED, LIFE_SCHEMA
from hopwire.model.units import NS_PER_SECOND, NS_PER_US

__all__ = ["lives_from_clocks"]

GONE_NS = 5 * NS_PER_SECOND  # a node beats each second: who is silent for longer than this is gone


def lives_from_clocks(clocks: pa.Table) -> pa.Table:
    """Give a row for each life of each node, from rows of clocks; times are corrected."""
    coverage = coverage_from_rows(clocks)
    names = dict(zip(clocks["node"].to_pylist(), clocks["node_name"].to_pylist(), strict=True))
    by_name: dict[Any, list[LifeSpan]] = defaultdict(list)
    for span in coverage.corrected(coverage.spans):
        by_name[names[span.node] or span.node].append(span)
    rows = [row for spans in by_name.values() for row in _rows(spans, names, coverage.end_ns)]
    rows.sort(key=lambda row: (row["began_at_ns"], row["node"], row["incarnation"]))
    return pa.Table.from_pylist(rows, LIFE_SCHEMA)


def _rows(spans: list[LifeSpan], names: dict[bytes, str], end_ns: int) -> Iterable[dict[str, Any]]:
    spans.sort(key=lambda span: (span.first_ns, span.incarnation))
    for number, span in enumerate(spans):
        following = next((later for later in spans[number + 1 :] if later.first_ns >= span.last_ns), None)
        is_gone = following is not None or end_ns - span.last_ns > GONE_NS
        ending = "stopped" if span.ending == CLOSED else "died" if is_gone else "running"
        yield {
            "node": span.node,
            "node_name": names[span.node],
            "incarnation": span.incarnation,
            "began_at_ns": span.first_ns,
            "ended_at_ns": span.last_ns,
            "ending": ending,
            "back_at_ns": None if following is None else following.first_ns,
            "away_us": None if following is None else (following.first_ns - span.last_ns) // NS_PER_US,
            "back_as_node": None if following is None else following.node,
        }
