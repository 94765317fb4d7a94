"""The quickest crossings of sightings, found without Spark as `lake/gold/clocks.py` finds them on Spark."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hopwire.columnar import ints
from hopwire.flows.crossings import Crossing
from hopwire.flows.groups import Groups, codes, equal_text, number_codes, pack


def quickest_crossings(sightings: pa.Table, width_ns: int) -> list[Crossing]:
    """Give the quickest crossing for each pair of nodes in each window, of sightings such as `link` takes."""
    rows = sightings.filter(pa.array(~equal_text(sightings["direction"], "dead")))
    (key,), _ = codes(rows["message_key"])
    (node, peer), nodes = codes(rows["node"], rows["peer"])
    is_in, at, incarnation = equal_text(rows["direction"], "in"), ints(rows["seen_at_ns"]), ints(rows["incarnation"])
    source, target = np.where(is_in, peer, node), np.where(is_in, node, peer)
    groups = Groups(pack(key, ints(rows["attempt"]), source, target), is_in.astype(np.int64))
    is_single = (groups.sizes == 2) & (groups.total(is_in) == 1)
    out = groups.first[is_single]
    came = groups.order[groups.starts[is_single] + 1]
    # both directions by the windows of one clock
    took, window = at[came] - at[out], np.where(source[out] < target[out], at[out], at[came]) // width_ns
    lives = number_codes(incarnation[out]), number_codes(incarnation[came])
    pairs = Groups(pack(source[out], target[out], *lives, number_codes(window)), took)
    names, first = nodes.to_pylist(), pairs.first
    out, came = out[first], came[first]
    ends = ([names[code] for code in end[out].tolist()] for end in (source, target))
    numbers = (took[first], pairs.sizes, at[out], incarnation[out], incarnation[came], window[first])
    return [Crossing(*each) for each in zip(*ends, *(column.tolist() for column in numbers), strict=True)]
