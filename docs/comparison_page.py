"""hopwire beside others: the page `comparisons.md`, whose figures are those of `benchmarks/RESULTS.md`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["comparisons"]

RESULTS = Path(__file__).parents[1] / "benchmarks" / "RESULTS.md"
SMALL = "ask, two processes, 256 B"
LARGE = "ask, two processes, 64 KB"
MEMBERS = "Membership of others"
SIMULATED = "Membership, simulated: at rest"
# of a table of RESULTS.md: the heading of a column there, and here
ASK = {
    "": "",
    "round trips/s": "round trips a second, 1,000 in flight",
    "CPU us": "CPU, us each",
    "p50 us": "p50 one by one, us",
}


def comparisons() -> str:
    """Give the page, with the figures of the latest benchmarks."""
    sections = _sections(RESULTS.read_text(encoding="utf-8"))
    small, large = (_chosen(_table(sections, title), ASK) for title in (SMALL, LARGE))
    return PAGE.format(
        small=small, large=large, members=_plain(_table(sections, MEMBERS)), simulated=_simulated(sections)
    )


def _sections(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in text.split("\n## ")[1:]:
        title, *lines = part.splitlines()
        found[title] = lines
    return found


def _table(sections: dict[str, list[str]], begins: str) -> list[list[str]]:
    """Give the rows of the first table of a section, its head first."""
    lines = next(lines for title, lines in sections.items() if title.startswith(begins))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    return [rows[0], *rows[2:]]


def _chosen(rows: list[list[str]], columns: dict[str, str]) -> str:
    places = [rows[0].index(name) for name in columns]
    return _plain([list(columns.values()), *([row[place] for place in places] for row in rows[1:])])


def _plain(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def _simulated(sections: dict[str, list[str]]) -> str:
    head, *rows = _table(sections, SIMULATED)
    size, sent, process, machine = (
        head.index(name) for name in ("nodes", "messages/s", "99 % know: process", "machine")
    )
    return _plain(
        [
            ["hopwire, simulated nodes", "messages/s", "99 of 100 know: a process", "a machine"],
            *([row[size], row[sent], row[process], row[machine]] for row in rows),
        ]
    )


PAGE = """\
# Comparisons

What others do better, what they do differently, and what hopwire is for. Facts about others are from their documentation
and were looked up in November 2026; figures are from [the benchmarks](../benchmarks/RESULTS.md), which you can run
yourself with `make peers bench`.

| you need | take |
|---|---|
| messages that wait on disk for a consumer who comes tomorrow | NATS with JetStream, Kafka, RabbitMQ: hopwire stores nothing on the way |
| clients in many languages | NATS; hopwire talks to [programs that are no nodes](network.md#programs-that-are-no-nodes) over plain ZeroMQ, and has one library |
| arrays and models in shared memory, GPUs, scheduling over a cluster | Ray |
| one way of writing consumers, whatever the broker is | FastStream |
| traces of programs that talk by HTTP or gRPC | OpenTelemetry with Jaeger |
| questions and answers between Python services without anything in between, each with a proof of what became of it | hopwire |
| to read, or to leave, a network that speaks V3 to V6 | hopwire |

## Figures

Two processes on two cores, a body of 256 bytes, all clients in Python:

{small}

The same with 64 KB, where copying counts:

{large}

nats-py goes through a server, which is a third process and does more than pass on. Ray's figure is that of an actor call, which is made for longer tasks. A
benchmark on one machine says nothing about your network. FastStream is no transport of its own, and Jaeger none at all: there is nothing to measure them beside.

## kino

The original, in C#, whose wire formats V3 to V6 hopwire reads and writes to the byte. [Test by test](origin.md) it is said what is the same.

| | kino | hopwire |
|---|---|---|
| nodes find each other | through a rendezvous cluster with a leader by lease, which passes on every control message | through any member; a rendezvous is only a door |
| a node comes back | as another one: identities are drawn at each start | as the same one, with a new incarnation |
| signature | HMAC over identity, version, partition, body and callback receiver; MD5 by default | `hopwire-2` over all of a message, its recipient, time and nonce; `legacy` for old networks |
| identities, versions, partitions, callback points, hops | yes | the same |
| afterwards | logs | captures, and a lake that tells what became of everything |

## NATS

A server, or a cluster of servers, that passes messages on by subject. Clients know one address and nothing of each other.

| | NATS | hopwire |
|---|---|---|
| in between | servers that you run | nothing; nodes are connected directly |
| delivery | core: at most once; JetStream: at least once, stored | at most once; `at_least_once=True` until answered; never stored |
| a question that nobody handles | `no responders`, at once | `NoRoute`, with what the node knows |
| a question whose handler fails or dies | times out, unless the handler replies an error | `HandlerFailed`; `Unreachable` when the node is lost |
| same actor for the same key | by subjects of your own making | `choose="key"` |
| languages | very many | Python; others as plain ZeroMQ |
| maturity | in production everywhere | 0.1 |

## Ray

Tasks and actors over a cluster, with a scheduler and a store of objects. Made for computing.

| | Ray | hopwire |
|---|---|---|
| who starts an actor | Ray, where there is room | you, on the node where you host it |
| the centre | a head node with the global control service; its loss ends the cluster, unless its state is in Redis | none |
| an actor that dies | stays dead, unless `max_restarts` says otherwise; calls fail with an error, or are tried again with `max_task_retries` | started again with growing pauses (`supervision`); calls as above |
| contracts | Python objects, pickled | typed payloads with a version; nothing is pickled |
| large arrays | shared memory | copied |

## FastStream

A framework for consumers and producers over Kafka, RabbitMQ, NATS, Redis or MQTT, with validation, dependency injection, and AsyncAPI documents made from the code.

| | FastStream | hopwire |
|---|---|---|
| transport | that of the broker you choose, with its promises | its own |
| tests | in memory, in place of the broker | in memory, with loss, delay, cuts, and a clock of its own |
| contracts | topics and models | identity, version, partition, and the type of the payload |
| documents from code | AsyncAPI | none |

They go together: a FastStream service at the edge, where messages wait in a broker, and hopwire between the services behind it.

## Jaeger

Collects spans that programs report, and shows them as traces.

| | Jaeger | hopwire's lake and page |
|---|---|---|
| what is recorded | spans, as far as libraries report them; usually a sample | every message with all its bytes, of every node that captures |
| a message that never arrived | a span without a child | `lost`, with the two nodes and the evidence; `unwitnessed` where nobody could have seen it |
| clocks | adjusted within a trace, by the order of its spans | compared over all traffic of two nodes; raw and corrected, with the band of error |
| when | seconds later | after a build, or seconds later with `hopwire lake follow`; a running node is seen by `hopwire top`, on the page (`ui --join`) and by `capture cat --follow` |
| any language, any protocol | yes | only what went over hopwire |

`hopwire flows export --to otlp` brings flows into Jaeger. `NodeSettings(telemetry=True)` makes spans as messages go.

## Membership

Figures of others are computed from their documents and defaults.

{members}

{simulated}
"""
