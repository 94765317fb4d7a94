"""Decisions: the time of one at a thousand routes beside that at a million."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random

from benchmarks.timing import best_times, print_table
from hopwire.model import Contract, Message
from hopwire.model.choice import number_of
from hopwire.routing import RemoteNode, Tables, decide
from hopwire.routing.ring import Ring

ROUTES = (1, 1_000, 100_000, 1_000_000)
KEYED = (10, 1_000, 100_000)
ACTORS_PER_NODE = 10
SAMPLE = 2_000
HERE = b"node-here"

Way = tuple[RemoteNode | None, bytes, Contract]


def many_contracts(count: int) -> Iterator[Way]:
    """Every actor handles a contract of its own."""
    return (
        (node, actor, Contract(b"orders.%d" % number, 1, b"")) for number, (node, actor) in enumerate(_homes(count))
    )


def one_contract(count: int) -> Iterator[Way]:
    """All actors handle the same contract."""
    for node, actor in _homes(count):
        yield node, actor, Contract(b"orders.0", 1, b"")


def run() -> None:
    """Measure and print."""
    header = ["actors", "find ns", "come and go ns", "made at once s", "bytes for each actor"]
    print_table("choose by key, one contract", header, [_measure_keys(count) for count in KEYED])
    header = ["routes", "unicast ns", "from another node ns", "retry, 3 excluded ns", "direct ns", "register ns"]
    for shape in (many_contracts, one_contract):
        title = f"decide, {(shape.__doc__ or '').rstrip('.').lower()}; half of them here"
        print_table(title, header, [_measure(shape, count) for count in ROUTES])


def _measure_keys(count: int) -> list[str]:
    """Measure one ring: a search, an actor that comes and goes again, and the making of the ring with all actors."""
    actors = [b"\x01%036d" % number for number in range(count)]
    keys = [number_of(b"%d" % number) for number in range(SAMPLE)]
    passing = [b"\x01passing-%d" % number for number in range(SAMPLE)]
    tracemalloc.start()
    ring = Ring(actors)
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del ring
    begin = time.perf_counter()
    ring = Ring(actors)
    made = time.perf_counter() - begin
    times = best_times(
        {
            "find": lambda: [ring.find(key) for key in keys],
            "change": lambda: [(ring.add(each), ring.remove(each)) for each in passing],
        },
        SAMPLE,
    )
    return [f"{count:,}", *(f"{figure:.0f}" for figure in times.values()), f"{made:.2f}", f"{size_bytes / count:.0f}"]


def _homes(count: int) -> Iterator[tuple[RemoteNode | None, bytes]]:
    for number in range(count):
        node = None
        if number % 2:
            place = number // (2 * ACTORS_PER_NODE)
            node = RemoteNode(b"node-%032d" % place, (f"tcp://10.0.0.1:{place}",))
        yield node, b"\x01%036d" % number


def _measure(shape: Callable[[int], Iterator[Way]], count: int) -> list[str]:
    ways = list(shape(count))
    tables = Tables()
    begin = time.perf_counter_ns()
    for node, actor, contract in ways:
        if node is None:
            tables.local.register(actor, [contract])
        else:
            tables.remote.register(node, actor, [contract])
    register_ns = (time.perf_counter_ns() - begin) / count
    drawn = Random(7).choices(ways, k=SAMPLE)
    unicast = [Message(*contract) for _, _, contract in drawn]
    foreign = [message.replace(hops=1) for message in unicast]
    direct = [
        message.replace(receiver_identity=actor, receiver_node_identity=node.identity if node else HERE)
        for message, (node, actor, _) in zip(unicast, drawn, strict=True)
    ]
    tried = {b"\x01%036d" % 0, b"\x01%036d" % 2, b"node-%032d" % 0} if count > 1 else set()
    times = best_times(
        {
            "unicast": lambda: [decide(message, tables, HERE) for message in unicast],
            "foreign": lambda: [decide(message, tables, HERE) for message in foreign],
            "retry": lambda: [decide(message, tables, HERE, exclude=tried) for message in unicast],
            "direct": lambda: [decide(message, tables, HERE) for message in direct],
        },
        SAMPLE,
    )
    return [f"{count:,}", *(f"{figure:.0f}" for figure in times.values()), f"{register_ns:.0f}"]


if __name__ == "__main__":
    run()
