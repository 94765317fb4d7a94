"""A question to each table of the lake, in SQL: shown on the page of the tables, and asked by the tests."""

from __future__ import annotations

__all__ = ["QUESTIONS"]

# by table: what somebody wants to know, and how to ask
QUESTIONS: dict[str, tuple[str, str]] = {
    "bronze.sightings": (
        "how many sightings each node wrote down, by hour and direction",
        """\
select node_name, date_trunc('hour', seen_at) as hour, direction, count(*) as sightings
from sightings group by all order by hour, node_name, direction""",
    ),
    "bronze.sources": (
        "which files are damaged, or miss something",
        """\
select segment, size_bytes, row_count, skipped, faults
from sources where len(faults) > 0 or skipped > 0 order by segment""",
    ),
    "bronze.forgotten": (
        "how much was forgotten, by kind",
        """\
select kind, count(*) as forgotten from forgotten group by all order by kind""",
    ),
    "bronze.spans": (
        "where numbers are missing that nobody accounts for",
        """\
select node_name, incarnation, segment, missing, ending
from spans where missing > 0 order by missing desc""",
    ),
    "silver.carried": (
        "how much one step hands to the next",
        """\
select name, octet_length(content) as size_bytes, sum(octet_length(content)) over () as of_all_bytes,
  octet_length(content) / sum(octet_length(content)) over () as share
from carried order by size_bytes desc""",
    ),
    "silver.clocks": (
        "how far the clock of each node is off, and how sure that is",
        """\
select node_name, reference_name, offset_ns / 1e6 as offset_ms, error_ns / 1e6 as error_ms, is_corrected
from clocks order by abs(offset_ns) desc""",
    ),
    "silver.closed_flows": (
        "which closed flows look ahead furthest, and so are opened again soonest",
        """\
select flow, started_at, ended_at, make_timestamp_ns(horizon_ns) as horizon, node_names
from closed_flows order by horizon_ns desc limit 20""",
    ),
    "silver.crossings": (
        "how many messages the clocks of two nodes were compared by",
        """\
select from_name, to_name, sum(messages) as messages, min(quickest_ns) / 1e3 as quickest_us
from crossings group by all order by messages desc""",
    ),
    "silver.hops": (
        "what became of the hops between two nodes, without what nodes say among themselves",
        """\
select from_name, to_name, fate, count(*) as hops, quantile_cont(latency_us, 0.99) as p99_us
from hops where not is_control group by all order by from_name, to_name, hops desc""",
    ),
    "silver.lives": (
        "which nodes died, and when they came back",
        """\
select node_name, began_at, ended_at, ending, back_at, away_us / 1e6 as away_s
from lives where ending = 'died' order by ended_at""",
    ),
    "silver.messages": (
        "which verdicts on signatures each contract had",
        """\
select contract, verdict, direction, count(*) as sightings
from messages group by all order by contract, sightings desc""",
    ),
    "silver.open_sightings": (
        "which flows are still open, and since when",
        """\
select flow, count(*) as sightings, count(distinct node) as nodes, min(seen_at) as since
from open_sightings group by all order by since""",
    ),
    "silver.quarantine": (
        "what could not be read, from whom, and at which byte",
        """\
select seen_at, node_name, hex(peer) as peer, reason, reason_frame, reason_byte
from quarantine order by seen_at""",
    ),
    "gold.contracts": (
        "which contracts end as dead letters most often",
        """\
select contract, sighting_count, dead_count, senders, receivers
from contracts order by dead_count desc limit 20""",
    ),
    "gold.flows": (
        "the slowest flows, and what is odd about them",
        """\
select flow, contract, outcome, duration_us / 1000 as ms, hop_count, list_transform(findings, lambda f: f.kind) as odd
from flows where not is_control order by duration_us desc limit 20""",
    ),
    "gold.latencies": (
        "which contracts were slow, and when",
        """\
select minute, contract, request_count, p50_us, p99_us, max_us
from latencies where not is_control order by p99_us desc nulls last limit 20""",
    ),
    "gold.links": (
        "how much was lost between two nodes, by hour",
        """\
select from_name, to_name, date_trunc('hour', minute) as hour, sum(hop_count) as hops, sum(lost_count) as lost
from links group by all order by lost desc""",
    ),
    "gold.quality": (
        "whether all rows are accounted for",
        """\
select step, count(*) as sources, sum(rows_in) as rows_in, sum(rows_out) as rows_out, bool_and(is_balanced) as adds_up
from quality group by step order by step""",
    ),
    "gold.requests": (
        "how questions ended, and what their askers were told",
        """\
select contract, outcome, reason, told, count(*) as requests
from requests where not is_control group by all order by contract, requests desc""",
    ),
    "gold.security": (
        "who sends what cannot be believed",
        """\
select sender_name, finding, sum(message_count) as messages, min(minute) as since
from security group by all order by messages desc""",
    ),
}
