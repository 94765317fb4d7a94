"""What membership costs and how soon it knows, on simulated clusters of 10 to 10,000 nodes.

`python -m benchmarks.cluster [LARGEST]` prints the tables, and draws `cluster.svg` beside what others publish; the
largest cluster is 10,000 if nothing else is said.

Each scenario is a function of a size and a seed that gives what was found. The tests run the same scenarios on small
clusters (`tests/cluster/test_simulation.py`).
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from benchmarks.cluster_simulation import START_NS, KeptSeals, Simulation, name_of, uri_of
from benchmarks.plot import Bar, Panel, svg_from_panels
from benchmarks.timing import print_table
from hopwire.cluster.gossip import Accusation, MemberRecord, Rumours
from hopwire.cluster.member_events import Departing, MemberSaid, Tempo
from hopwire.model.units import NS_PER_SECOND

__all__ = [
    "at_rest",
    "claimed",
    "cloned",
    "flapping",
    "future",
    "halves",
    "joins",
    "killed",
    "lossy",
    "lying",
    "many_killed",
    "one_way",
    "restarted",
    "returned",
    "rolling",
    "routes",
    "run",
    "slow_nodes",
    "woken",
]

PUBLISHED = (
    ("memberlist, LAN", "probe 1 s, suspicion 4 log10(N) s at least", "17", "4 to 16 s and more", "5,000 advised"),
    ("Pekko", "beat 1 s, 9 monitors, then a resolver of 20 s", "36", "about 5.5 s, 25 s with the resolver", "2,400"),
    ("Orleans", "probe 10 s, 3 misses, 2 votes", "4", "about 30 s", "200"),
)
FIGURES = (("memberlist", 17, 16.0), ("Pekko", 36, 25.5), ("Orleans", 4, 30.0))  # at 1,000; of PUBLISHED
PLOT = Path(__file__).with_name("cluster.svg")


@dataclass(frozen=True, slots=True)
class Found:
    """What a scenario gave."""

    seconds: float  # until it was as it should be
    is_right: bool
    false_deaths: int = 0
    detail: str = ""


def _settled(size: int, seed: int, tempo: Tempo | None = None, warm: float = 10, is_sealed: bool = False) -> Simulation:
    simulation = Simulation(seed, tempo, is_sealed)
    simulation.settle(size)
    simulation.run(warm * simulation.tempo.period_ns / NS_PER_SECOND)
    simulation.reset()
    return simulation


def _false_deaths(simulation: Simulation, dead: tuple[bytes, ...] = ()) -> int:
    return sum(
        reason == "dead"
        for node, found in simulation.dismissed.items()
        if node not in dead
        for _, reason in found.values()
    )


def at_rest(size: int, seed: int = 0, seconds: float = 20) -> tuple[float, float, float, float]:
    """Give messages a second of a node, on average and at most, bytes a second and links."""
    simulation = _settled(size, seed)
    simulation.run(seconds)
    sent = [simulation.sent[node] / seconds for node in simulation.members]
    sent_bytes = sum(simulation.sent_bytes.values()) / seconds / size
    links = sum(len(member.neighbours()) for member in simulation.members.values()) / size
    return sum(sent) / size, max(sent), sent_bytes, links


def killed(size: int, seed: int = 0, is_told: bool = True) -> Found:
    """Kill a process, or a whole machine, and wait until 99 % know."""
    simulation = _settled(size, seed)
    victim = name_of(size // 2)
    simulation.kill(victim, is_told)
    enough = 0.99 * len(simulation.members)
    seconds = simulation.run(40, lambda: simulation.knowing_dead(victim) >= enough, 0.05)
    is_known = simulation.knowing_dead(victim) >= enough
    return Found(seconds, is_known, _false_deaths(simulation, (victim,)))


def many_killed(size: int, seed: int = 0) -> Found:
    """Kill three of ten machines at once."""
    simulation = _settled(size, seed)
    victims = tuple(name_of(number) for number in range(0, size, 10) for number in range(number, number + 3))
    victims = tuple(name for name in victims if name in simulation.members)
    for name in victims:
        simulation.kill(name, is_told=False)
    seconds = simulation.run(120, simulation.is_agreed, 0.5)
    return Found(seconds, simulation.is_agreed(), _false_deaths(simulation, victims))


def left_alone(size: int, seed: int = 0, is_told: bool = True) -> Found:
    """Kill all processes but one, or all machines, and wait until the one that is left knows."""
    simulation = _settled(size, seed)
    victims = list(simulation.members)[1:]
    for name in victims:
        simulation.kill(name, is_told)
    seconds = simulation.run(120, simulation.is_agreed, 0.05)
    return Found(seconds, simulation.is_agreed(), _false_deaths(simulation, tuple(victims)))


def slow_nodes(size: int, seed: int = 0, seconds: float = 60) -> Found:
    """Let one node of ten stand still for 0.5 to 3 s again and again."""
    simulation = _settled(size, seed)
    for number in range(0, size, 10):
        simulation.stalls[name_of(number)] = (0, 0)
    simulation.run(seconds)
    return Found(seconds, not _false_deaths(simulation), _false_deaths(simulation))


def joins(size: int, newcomers: int, over_seconds: float, seed: int = 0) -> Found:
    """Let nodes join through three doors."""
    simulation = Simulation(seed)
    simulation.doors = tuple(uri_of(number) for number in range(3))
    simulation.settle(size)
    simulation.run(5)
    simulation.reset()
    for number in range(size, size + newcomers):
        simulation.add(number)
        simulation.run(over_seconds / newcomers, every=over_seconds / newcomers)
    seconds = simulation.run(120, simulation.is_agreed, 0.25)
    return Found(seconds, simulation.is_agreed(), _false_deaths(simulation))


def routes(size: int, each: int, seed: int = 0) -> tuple[Found, Found]:
    """Let every node announce routes at once, and then change one of a hundred."""
    simulation = _settled(size, seed)
    for number in range(size):
        simulation.own_routes(name_of(number), _routes(number, each))
    seconds = simulation.run(120, lambda: _holds_all(simulation), 0.25)
    first = Found(seconds, _holds_all(simulation))
    simulation.reset()
    for number in range(size):
        few = max(1, each // 100)
        simulation.own_routes(name_of(number), _routes(number, few, "new"), islice(_routes(number, each), few))
    seconds = simulation.run(120, lambda: _holds_all(simulation), 0.25)
    return first, Found(seconds, _holds_all(simulation))


def churning(each: int, seed: int = 0) -> Found:
    """Let a node join while another changes one of its many routes every 20 ms, and wait until it has them all."""
    simulation = _settled(5, seed)
    owner = simulation.members[name_of(1)]
    simulation.own_routes(owner.me.node, _routes(1, each))
    simulation.run(5)
    simulation.doors = (uri_of(0),)
    routes, former = simulation.add(5).routes, list[tuple[bytes, bytes, int, bytes]]()
    for number in range(500):
        changed = _routes(number, 1, "new")
        simulation.own_routes(owner.me.node, changed, former)
        former = changed
        simulation.run(0.02, every=0.02)
        if owner.me.node in routes.holdings:
            break
    seconds = number * 0.02
    simulation.run(10, lambda: _holds_all(simulation), 0.05)
    return Found(seconds, number < 499 and _holds_all(simulation))


def _routes(number: int, each: int, word: str = "shop") -> list[tuple[bytes, bytes, int, bytes]]:
    return [(b"\1actor-%d-%d" % (number, index), f"{word}.{number}.{index}".encode(), 1, b"") for index in range(each)]


def _holds_all(simulation: Simulation) -> bool:
    holdings = {name: member.routes.holdings[name] for name, member in simulation.members.items()}
    own = {name: holding for name, holding in holdings.items() if holding.version}
    for member in simulation.members.values():
        for owner, holding in own.items():
            held = member.routes.holdings.get(owner)
            if held is None or held.version != holding.version or held.hash != holding.hash:
                return False
    return True


def one_way(size: int, seed: int = 0, seconds: float = 90) -> Found:
    """Let nothing pass from one node to one of its monitors, and nothing between two other nodes."""
    simulation = _settled(size, seed)
    deaf = name_of(1)
    monitor = simulation.members[deaf].ring.before(deaf, 1)[0]
    other = name_of(2)
    far = simulation.members[other].ring.after(other, 1)[0]
    pairs = {(deaf, monitor), (other, far), (far, other)}
    simulation.is_cut = lambda one, another: (one, another) in pairs
    simulation.run(seconds)
    told = {node: len(found) for node, found in simulation.dismissed.items()}
    return Found(seconds, not told, _false_deaths(simulation), f"{told}" if told else "")


def lossy(size: int, seed: int = 0, loss: float = 0.2) -> Found:
    """Lose a fifth of all words for a minute, with a death, a birth and routes that change within."""
    simulation = _settled(size, seed)
    simulation.loss = loss
    simulation.doors = (uri_of(0),)
    victim = name_of(size // 2)
    simulation.kill(victim)
    simulation.add(size)
    for number in (1, 2):
        for version in range(5):
            simulation.own_routes(name_of(number), _routes(number, 5, f"v{version}"))
            simulation.run(0.1, every=0.1)

    def is_right() -> bool:
        return simulation.is_agreed() and _holds_all(simulation)

    seconds = simulation.run(120, is_right, 0.5)
    return Found(seconds, is_right(), _false_deaths(simulation, (victim,)))


def halves(size: int, cut_seconds: float, seed: int = 0, tempo: Tempo | None = None) -> Found:
    """Cut a cluster in halves, wait, and heal it."""
    simulation = Simulation(seed, tempo)
    simulation.doors = (uri_of(0), uri_of(1))
    simulation.settle(size)
    period = simulation.tempo.period_ns / NS_PER_SECOND
    simulation.run(5 * period)
    side = {name_of(number): number % 2 for number in range(size)}
    simulation.is_cut = lambda one, another: side[one] != side[another]
    simulation.run(cut_seconds, every=cut_seconds)
    alone = max(member.count for member in simulation.members.values())
    simulation.is_cut = None
    seconds = simulation.run(300 * period, simulation.is_agreed, period / 2)
    return Found(seconds, simulation.is_agreed() and alone == (size + 1) // 2, detail=f"{alone} in a half before")


def flapping(size: int, seed: int = 0) -> Found:
    """Cut one node off for 6 s and let it back for 6 s, ten times; then all agree again."""
    simulation = _settled(size, seed)
    flapper = name_of(3)
    for _ in range(10):
        simulation.is_cut = lambda one, another: flapper in (one, another)
        simulation.run(6)
        simulation.is_cut = None
        simulation.run(6)
    seconds = simulation.run(60, simulation.is_agreed, 0.25)
    others = _false_deaths(simulation, (flapper,))
    return Found(seconds, simulation.is_agreed() and not others, others)


def restarted(size: int, seed: int = 0, is_moved: bool = False, is_sealed: bool = False) -> Found:
    """Kill a process and start it again at once, at the same address or another; where it signs, with a new key."""
    simulation = _settled(size, seed, is_sealed=is_sealed)
    simulation.doors = (uri_of(0),)
    name = name_of(4)
    simulation.kill(name)
    simulation.run(0.1)
    simulation.add(4, uri="tcp://10.9.9.9:7400" if is_moved else "")
    incarnation = simulation.members[name].me.incarnation

    def is_known() -> bool:
        found = [member.find(name) for member in simulation.members.values()]
        is_new = all(record is not None and record.incarnation == incarnation for record in found)
        return is_new and simulation.is_agreed()

    seconds = simulation.run(60, is_known, 0.05)
    return Found(seconds, is_known(), _false_deaths(simulation, (name,)))


def rolling(size: int, seed: int = 0, is_sealed: bool = False) -> Found:
    """Restart every process, one in a second; doors among them."""
    simulation = _settled(size, seed, is_sealed=is_sealed)
    simulation.doors = (uri_of(0), uri_of(1))
    for number in range(size):
        simulation.kill(name_of(number))
        simulation.run(0.2)
        simulation.add(number)
        simulation.run(0.8)
    seconds = simulation.run(60, simulation.is_agreed, 0.25)
    alive = {name for name, member in simulation.members.items() if not member.is_doubled}
    return Found(seconds, simulation.is_agreed() and len(alive) == size)


def cloned(size: int, seed: int = 0) -> Found:
    """Start a second process with the identity of one that lives: the later one holds, the earlier one is warned."""
    simulation = _settled(size, seed)
    simulation.doors = (uri_of(0),)
    name, later = name_of(5), START_NS + simulation.now
    clone = MemberRecord(name, later, 1, "tcp://10.9.9.9:7400", (6,), ("members",))
    for node in (name_of(0), name_of(1)):
        simulation.step(node, MemberSaid(Rumours(name_of(2), 0, (clone,))))

    def is_warned() -> bool:
        return simulation.warned[name, "duplicate"] > 0

    seconds = simulation.run(20, is_warned, 0.05)
    simulation.run(1)
    found = [member.find(name) for node, member in simulation.members.items() if node != name]
    is_held = all(each is not None and each.incarnation == later for each in found)
    return Found(seconds, is_warned() and is_held, _false_deaths(simulation, (name,)))


def claimed(size: int, seed: int = 0) -> Found:
    """Start a second process with the identity of one that lives, where members sign: the first one keeps its name."""
    simulation = _settled(size, seed, is_sealed=True)
    name, later = name_of(5), START_NS + simulation.now
    first = simulation.members[name].me
    clone = KeptSeals(b"clone").sign(MemberRecord(name, later, 1, "tcp://10.9.9.9:7400", (6,), ("members",)))
    for node in (name_of(0), name_of(1), name):
        simulation.step(node, MemberSaid(Rumours(name_of(2), 0, (clone,))))
    simulation.run(5)
    found = [member.find(name) for member in simulation.members.values()]
    is_kept = all(each is not None and each.incarnation == first.incarnation for each in found)
    is_kept &= not simulation.members[name].is_doubled
    is_warned = simulation.warned[name, "duplicate"] > 0
    return Found(5, is_kept and is_warned, _false_deaths(simulation, (name,)))


def returned(size: int, seed: int = 0) -> Found:
    """Let a member come back whose loss everybody has forgotten: it left, and an hour is over."""
    simulation = _settled(size, seed, Tempo(30 * NS_PER_SECOND))
    simulation.doors = (uri_of(0),)
    name = name_of(7)
    simulation.step(name, Departing())
    simulation.run(60)
    simulation.kill(name)
    simulation.run(2 * 3600, every=600)
    is_forgotten = all(member.find(name) is None for member in simulation.members.values())
    simulation.add(7)
    seconds = simulation.run(600, simulation.is_agreed, 5)
    return Found(seconds, is_forgotten and simulation.is_agreed(), _false_deaths(simulation, (name,)))


def woken(size: int, seed: int = 0) -> Found:
    """Let half of the machines sleep for ten minutes, and wake: their clocks have jumped, and they accuse nobody."""
    simulation = _settled(size, seed)
    simulation.doors = (uri_of(0),)
    asleep = {name_of(number) for number in range(1, size, 2)}
    for name in asleep:
        simulation.stalls[name] = (simulation.now, simulation.now + 600 * NS_PER_SECOND)
    simulation.run(600, every=60)
    simulation.stalls.clear()
    seconds = simulation.run(120, simulation.is_agreed, 0.5)
    others = [found for node, found in simulation.dismissed.items() if node not in asleep]
    wrongly = sum(reason == "dead" and by in asleep for found in others for by, (_, reason) in found.items())
    return Found(seconds, simulation.is_agreed(), wrongly)


def lying(size: int, seed: int = 0, seconds: float = 60) -> Found:
    """Let one member accuse every other, again and again."""
    simulation = _settled(size, seed)
    liar = name_of(6)
    for _ in range(int(seconds)):
        own = simulation.members[liar]
        accused = [Accusation(record.node, *record.age, liar, True) for record in own.living() if record.node != liar]
        for start in range(0, len(accused), 50):
            for neighbour in own.neighbours():
                simulation._tell(
                    liar, neighbour, Rumours(liar, own.me.incarnation, (), tuple(accused[start : start + 50]))
                )
        simulation.run(1)
    return Found(seconds, not _false_deaths(simulation), _false_deaths(simulation))


def future(size: int, seed: int = 0) -> Found:
    """Let a member pass on a record whose start lies years ahead."""
    simulation = _settled(size, seed)
    record = simulation.members[name_of(5)].me
    forged = MemberRecord(record.node, record.incarnation + 10**18, 1, "tcp://10.6.6.6:1")
    simulation.step(name_of(0), MemberSaid(Rumours(name_of(1), 0, (forged,))))
    simulation.run(5)
    taken = sum(member.find(record.node) == forged for member in simulation.members.values())
    return Found(5, not taken)


def _panels(rows: Sequence[tuple[object, ...]]) -> list[Panel]:
    """Give bars of what a node sends, and of the time to know of a death, beside what others publish."""
    ours = [(f"hopwire, {row[0]}", float(str(row[1])), float(str(row[6]).split()[0])) for row in rows]
    sent = [Bar(name, messages, f"{messages:.1f}/s", True) for name, messages, _ in ours]
    known = [Bar(name, seconds, f"{seconds:.1f} s", True) for name, _, seconds in ours]
    sent += [Bar(name, messages, f"{messages}/s, calc.") for name, messages, _ in FIGURES]
    known += [Bar(name, seconds, f"{seconds:g} s, calc.") for name, _, seconds in FIGURES]
    return [
        Panel("messages of a node in a second, at rest", tuple(sent)),
        Panel("99 % know of a machine that died, in seconds", tuple(known)),
    ]


def run(largest: int = 1000) -> None:
    """Print the tables."""
    gc.disable()
    print_table(
        "Membership of others, from their documents and defaults: messages of a node a second, time to know of a death",
        ("system", "detection", "messages/s", "known after", "size"),
        PUBLISHED,
    )
    rows = []
    for size in (10, 100, 1000, 10_000):
        if size > largest:
            break
        began = time.perf_counter()
        mean, most, sent_bytes, links = at_rest(size, seconds=20 if size < 10_000 else 6)
        process, machine = killed(size), killed(size, is_told=False)
        rows.append(
            (
                f"{size:,}",
                f"{mean:.1f}",
                f"{most:.1f}",
                f"{sent_bytes:,.0f}",
                f"{links:.1f}",
                f"{process.seconds:.2f} s",
                f"{machine.seconds:.2f} s",
                process.false_deaths + machine.false_deaths,
                f"{time.perf_counter() - began:.0f} s",
            )
        )
        gc.collect()
    head = (
        "nodes",
        "messages/s",
        "the busiest",
        "bytes/s",
        "neighbours",
        "99 % know: process",
        "machine",
        "false deaths",
        "took",
    )
    print_table("Membership, simulated: at rest, and one death", head, rows)
    PLOT.write_text(svg_from_panels("Membership of one node, at any size", _panels(rows)), "utf-8")
    long = Tempo(30 * NS_PER_SECOND)
    routes_first, routes_churn = routes(100, 500)
    found = (
        ("3 of 10 machines die at once", 100, many_killed(100)),
        ("3 of 10 machines die at once", 300, many_killed(300)),
        ("all processes but one are killed", 10, left_alone(10)),
        ("all processes but one are killed", 1000, left_alone(1000)),
        ("all machines but one die", 1000, left_alone(1000, is_told=False)),
        ("1 of 10 stands still for 0.5 to 3 s, for a minute", 100, slow_nodes(100)),
        ("1 of 10 stands still for 0.5 to 3 s, for a minute", 1000, slow_nodes(1000, seconds=30)),
        *(
            [("1 of 10 stands still for 0.5 to 3 s, for 10 s", 10_000, slow_nodes(10_000, seconds=10))]
            if largest >= 10_000
            else []
        ),
        ("1,000 join a cluster of 10 within 10 s", 1010, joins(10, 1000, 10)),
        ("50,000 routes announced at once", 100, routes_first),
        ("1 of 100 routes changes", 100, routes_churn),
        ("one joins where a node of 50,000 routes changes one every 20 ms", 6, churning(50_000)),
        ("one-way loss, and two that do not reach each other, 90 s", 100, one_way(100)),
        ("a fifth of all words is lost: a death, a birth", 100, lossy(100)),
        ("halves for a minute", 100, halves(100, 60)),
        ("halves for a minute", 300, halves(300, 60)),
        ("halves for 25 h (period 30 s)", 20, halves(20, 25 * 3600, tempo=long)),
        ("one flaps ten times", 100, flapping(100)),
        ("restart, same address", 100, restarted(100)),
        ("restart, new address", 100, restarted(100, is_moved=True)),
        ("restart with a new key, same address", 100, restarted(100, is_sealed=True)),
        ("restart with a new key, new address", 100, restarted(100, is_moved=True, is_sealed=True)),
        ("every process restarts, one in a second", 100, rolling(100)),
        ("every process restarts with a new key, one in a second", 100, rolling(100, is_sealed=True)),
        ("half of all machines sleep for ten minutes and wake", 100, woken(100)),
        ("one returns whose loss is forgotten (period 30 s)", 20, returned(20)),
        ("a cloned identity", 100, cloned(100)),
        ("a cloned identity with another key", 100, claimed(100)),
        ("one accuses all others for a minute", 100, lying(100)),
        ("a start in the future", 10, future(10)),
    )
    print_table(
        "Membership, simulated: in trouble",
        ("trouble", "nodes", "as it should be", "after", "false deaths", ""),
        [
            (
                what,
                f"{size:,}",
                "yes" if each.is_right else "NO",
                f"{each.seconds:.2f} s",
                each.false_deaths,
                each.detail,
            )
            for what, size, each in found
        ],
    )


if __name__ == "__main__":
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
