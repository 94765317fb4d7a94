"""Ten members and two rendezvous, each a process with a cable of its own: what is done to them, and what must hold.

    python -m tests.chaos.cluster --seconds 300 --rate 100 --seed 1 --report FILE        also: make chaos-cluster

Members of one side ask those of the other. All know one name and nothing else. The name leads to one rendezvous, and
later to the other. Hands play at the same time:

| hand | what it does |
|---|---|
| processes | kills members and starts them again; stops them for up to ten seconds |
| cables | pulls the cable of a member, for up to twelve seconds |
| doors | kills both rendezvous, kills a member meanwhile, and lets the name lead to the other rendezvous afterwards |

The rules are those of `judge.py`, and these: routes of a member are everywhere 3 s after it is back, and in the end all
members know all others. Cables and names need root; without it only processes are killed and stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.chaos import judge
from tests.chaos.cluster_member import ClusterRole
from tests.chaos.judge import Check, some
from tests.chaos.life import Life, Member
from tests.chaos.member import TIMEOUT_SECONDS
from tests.chaos.network import Order, Report, _all
from tests.chaos.page import _spread, _table, _word
from tests.chaos.record import Lag, life_of, member_of, read_records
from tests.chaos.troubles import TROUBLES, Force, Hand, Spell
from tests.chaos.wires import NotPossibleError, Wire, laid

__all__ = ["DOORS", "MEMBERS", "cluster_checks", "cluster_page", "run_cluster"]

MEMBERS = tuple(f"{side}{number}" for number in range(5) for side in "gh")
DOORS = ("r1", "r2")
NAME, PORT = "rendezvous.chaos", 7400
HEAL_SECONDS = 3.0
LOOK_SECONDS = 0.5
QUIET_SECONDS = 8.0  # at the end
LONG_SECONDS = 60.0  # from which on a run has to measure how routes heal
DOWN_SECONDS = 6.0  # without any rendezvous
MOST_DESCRIPTORS = 60  # two for each of eleven others would be 22
FLAT_MB, FLAT_DESCRIPTORS = 12, 15  # that a process may have more in its last quarter than in its second
FOUND = "## What these runs found\n"  # a part of the page that people write
FORCE = Force(stopped_seconds=(0.5, 10.0), wrong_seconds=(2.0, 12.0))


class ClusterMember(Member):
    """A member that is told of doors when it begins, whatever others there are."""

    module = "tests.chaos.cluster_member"

    def know(self, doors: Iterable[str]) -> None:
        """Know doors by their addresses, from the next life on."""
        assert isinstance(self._role, ClusterRole)
        self._role = msgspec.structs.replace(self._role, doors=tuple(doors))


class Noted(NamedTuple):
    """What a life noted of another member."""

    kind: str
    life: str
    member: str
    at: float


class Names:
    """Where the name of the rendezvous leads, for each namespace: a file of hosts that is written anew in place."""

    def __init__(self, wires: dict[str, Wire]) -> None:
        self._files = [Path("/etc/netns") / wire.namespace / "hosts" for wire in wires.values()]

    @contextmanager
    def kept(self, host: str) -> Iterator[None]:
        """Let the files be there."""
        try:
            for file in self._files:
                file.parent.mkdir(parents=True)
            self.lead_to(host)
            yield
        finally:
            for file in self._files:
                shutil.rmtree(file.parent, ignore_errors=True)

    def lead_to(self, host: str) -> None:
        """Let the name lead to another address."""
        for file in self._files:
            with open(file, "w") as written:
                written.write(f"127.0.0.1 localhost\n{host} {NAME}\n")


async def run_cluster(directory: Path, order: Order) -> Report:
    """Let the cluster live, and give the report."""
    for name in ("told", "logs"):
        (directory / name).mkdir(parents=True)
    report, secret = Report(order, directory, time.monotonic()), os.urandom(32)
    with ExitStack() as stack:
        wires: dict[str, Wire] = {}
        names: Names | None = None
        try:
            wires = stack.enter_context(laid((*MEMBERS, *DOORS)))
            names = Names(wires)
            stack.enter_context(names.kept(wires[DOORS[0]].host))
        except (NotPossibleError, OSError) as error:
            report.left_out.append(f"no cable was pulled, and no name changed: {error}")
        everybody = {
            name: _member(directory, order, name, wires.get(name), secret, names is not None)
            for name in (*DOORS, *MEMBERS)
        }
        try:
            await _live(everybody, names, report)
        finally:
            for member in everybody.values():
                if member.is_running:
                    await member.kill()
                report.lives += member.lives
    report.ended_at = time.monotonic()
    report.spells.sort(key=lambda spell: spell.began_at)
    report.recorded = read_records(directory / "told")
    return report


def _member(
    directory: Path, order: Order, name: str, wire: Wire | None, secret: bytes, has_name: bool
) -> ClusterMember:
    role = ClusterRole(
        name,
        life=0,
        listen=f"tcp://{wire.host}:{PORT}" if wire else "tcp://127.0.0.1:0",
        peers=(),
        others=tuple(other for other in MEMBERS if other != name),
        captures="",
        told=str(directory / "told" / f"{name}.jsonl"),
        secret=secret,
        seed=order.seed,
        rate=order.rate,
        doors=(f"dns://{NAME}:{PORT}",) if has_name else (),
        is_door=name in DOORS,
    )
    return ClusterMember(role, directory / "logs" / f"{name}.txt", wire)


async def _live(everybody: dict[str, ClusterMember], names: Names | None, report: Report) -> None:
    doors, members = [everybody[name] for name in DOORS], [everybody[name] for name in MEMBERS]
    for member in (*doors, *members):
        await member.begin(())
        if names is None and member in doors:
            for other in everybody.values():
                other.know(door.uri for door in doors if door.uri)
    watching = asyncio.ensure_future(_watch([*doors, *members], report))
    until = time.monotonic() + report.order.seconds - QUIET_SECONDS
    order, chance = report.order, random.Random(report.order.seed)
    cables = ["cut"] if names is not None else []
    try:
        async with asyncio.TaskGroup() as group:
            for cards in (["kill", "kill", "stop"], cables):
                hand = Hand(members, order.force, random.Random(f"{order.seed} {cards}"), report.spells)
                group.create_task(hand.play(cards, until))
            group.create_task(_close_doors(doors, members, names, until, chance, report.spells))
        if order.seconds >= LONG_SECONDS:  # one trouble that stands alone shows how routes heal
            await asyncio.sleep(HEAL_SECONDS + 1)
            await TROUBLES["kill"](Hand(members, order.force, chance, report.spells))
        await asyncio.sleep(QUIET_SECONDS)
        await _all(Member.rest, [*members, *doors], report)
    finally:
        watching.cancel()
    await _all(Member.end, [*members, *doors], report)


async def _close_doors(
    doors: Sequence[Member],
    members: Sequence[Member],
    names: Names | None,
    until: float,
    chance: random.Random,
    spells: list[Spell],
) -> None:
    """Kill all rendezvous now and then; afterwards the name leads to the other one."""
    hand, turn = Hand(members, FORCE, chance, spells), 0
    while time.monotonic() + DOWN_SECONDS + 15 < until:
        await asyncio.sleep(chance.uniform(5, 10))
        with hand.spell("doors", doors[0], "no rendezvous"):
            for door in doors:
                await door.kill()
            await asyncio.sleep(DOWN_SECONDS)
            turn += 1
            if names is not None:
                wire = doors[turn % 2].wire
                assert wire is not None
                names.lead_to(wire.host)
            for door in (doors[turn % 2], doors[1 - turn % 2]):
                await door.begin(())


async def _watch(members: Sequence[Member], report: Report) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for member in members:
            if member.is_running:
                member.look()
            elif not member.life.was_killed and not member.life.ended_at:
                report.ended.append(f"{member.life.name} ended with {member.process.returncode}")
                member.life.ended_at = time.monotonic()


# -- what must hold


def cluster_checks(report: Report, directory: Path) -> list[Check]:
    """Hold a report against every rule."""
    noted = _noted(directory)
    return [
        judge._hanging(report),
        _in_time(report),
        _loops_turn(noted),
        judge._acknowledged(report),
        judge._handled_once(report),
        judge._ended(report),
        _routes_heal(report, noted),
        _all_know_all(report),
        _doors_are_not_needed(report),
        judge._memory(report),
        _flat(report, "memory is flat", FLAT_MB, lambda life: [each.rss_mb for each in life.samples], "MB"),
        _descriptors(report),
        _flat(
            report,
            "descriptors are flat",
            FLAT_DESCRIPTORS,
            lambda life: [each.descriptors for each in life.samples],
            "",
        ),
    ]


def _in_time(report: Report) -> Check:
    """As the rule of `judge.py`; the time does not count in which the loop of the asker had no processor."""
    lags: dict[str, list[Lag]] = defaultdict(list)
    for lag in report.recorded.lags:
        lags[lag.life].append(lag)
    late: list[tuple[float, str]] = []
    for promise in report.recorded.promises.values():
        over = promise.ended_at - promise.asked_at - TIMEOUT_SECONDS - judge.MOMENT_SECONDS
        if over > 0:
            stood = [lag for lag in lags[life_of(promise.flow)] if promise.asked_at < lag.at <= promise.ended_at + 1]
            over -= sum(lag.seconds for lag in stood)
            late += [(over, promise.flow)] if over > 0 else []
    return Check("promises end in time", not late, f"{len(late)} later than 2 s after their timeout: {some(late)}")


def _loops_turn(noted: list[Noted]) -> Check:
    """A loop stands still where its process is stopped or has no processor; what the process itself did is short."""
    worked = [float(each.member) for each in noted if each.kind == "worked"]
    most = max(worked, default=0.0)
    words = f"{len(worked):,} lags of 0.1 s or more; the processes themselves worked {most:.2f} s of one at most"
    return Check("no loop is held for a second", most < 1.0, words)


def _noted(directory: Path) -> list[Noted]:
    lines: list[Noted] = []
    for path in sorted((directory / "told").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            if line.startswith(b'["cluster"'):
                lines.append(Noted(*msgspec.json.decode(line)[1:]))
    return lines


class Healing(NamedTuple):
    """That a life had routes of a member again, so long after the trouble was over."""

    kind: str
    life: str
    member: str
    seconds: float


def healings(report: Report, noted: Iterable[Noted]) -> list[Healing]:
    """Give how long each member that was not in trouble itself took to have the routes of one that was back."""
    seen: dict[tuple[str, str], list[Noted]] = defaultdict(list)
    for each in noted:
        seen[each.life, each.member].append(each)
    found: list[Healing] = []
    for spell in report.spells:
        if spell.kind not in ("kill", "cut"):
            continue
        back_at = spell.ended_at
        until = back_at + HEAL_SECONDS
        if _troubled(report, spell.member, back_at, until, but=spell) or _is_doorless(report, back_at, until):
            continue
        for life in report.lives:
            name = member_of(life.name)
            is_there = life.ready_at and life.ready_at < spell.began_at and (not life.ended_at or life.ended_at > until)
            if name in DOORS or name == spell.member or not is_there or _troubled(report, name, spell.began_at, until):
                continue
            events = [each for each in seen[life.name, spell.member] if each.at > spell.began_at]
            if spell.kind == "cut" and not any(each.kind == "lost" and each.at <= until for each in events):
                continue  # it was missed by nobody
            routes = [each.at for each in events if each.kind == "routes"]
            found.append(Healing(spell.kind, life.name, spell.member, max(0.0, min(routes, default=1e9) - back_at)))
    return found


def _troubled(report: Report, member: str, begin: float, end: float, but: Spell | None = None) -> bool:
    spells = [spell for spell in report.spells if spell.member == member and spell is not but]
    return any(spell.overlaps(begin, end, slack_seconds=HEAL_SECONDS) for spell in spells)


def _is_doorless(report: Report, begin: float, end: float) -> bool:
    return any(spell.kind == "doors" and spell.overlaps(begin, end, HEAL_SECONDS) for spell in report.spells)


def _routes_heal(report: Report, noted: list[Noted]) -> Check:
    found = healings(report, noted)
    late = [each for each in found if each.seconds > HEAL_SECONDS]
    words = []
    for kind in ("kill", "cut"):
        seconds = sorted(each.seconds for each in found if each.kind == kind)
        if seconds:
            words.append(
                f"{kind}: {len(seconds)} times, median {statistics.median(seconds):.2f} s, most {seconds[-1]:.2f} s"
            )
    is_measured = bool(found) or report.order.seconds < LONG_SECONDS
    said = "; ".join(words) or "not measured: no trouble stood alone"
    return Check("routes heal in under 3 s", is_measured and not late, said + (f"; late: {some(late)}" if late else ""))


def _last(report: Report) -> list[Life]:
    return list({member_of(life.name): life for life in report.lives}.values())


def _all_know_all(report: Report) -> Check:
    counts = {life.name: life.counts.get("members") for life in _last(report) if member_of(life.name) not in DOORS}
    missing = {name: life.counts.get("reached") for name, life in ((each.name, each) for each in _last(report))}
    cut_off = [name for name, reached in missing.items() if None in (reached or ())]
    words = f"members known in the end: {dict(Counter(counts.values()))}; not all are reached by: {some(cut_off)}"
    is_held = not cut_off and {*counts.values()} == {len(MEMBERS) + len(DOORS)}
    return Check("in the end everybody knows and reaches everybody", is_held, words)


def _doors_are_not_needed(report: Report) -> Check:
    """Questions of members that were in no trouble, while no rendezvous was there."""
    told: Counter[str] = Counter()
    spells = [spell for spell in report.spells if spell.kind == "doors"]
    for promise in report.recorded.promises.values():
        is_prompt = promise.call != "send" and promise.temper == "prompt" and promise.told
        if is_prompt and any(
            spell.began_at + 1 <= promise.asked_at <= spell.began_at + DOWN_SECONDS for spell in spells
        ):
            told[promise.told] += 1
    share = told["answered"] / told.total() if told.total() else 1.0
    words = f"{len(spells)} times none was there; {told.total():,} prompt questions meanwhile, {share:.1%} answered"
    return Check("everything goes on without a rendezvous", share > 0.5, words)


def _descriptors(report: Report) -> Check:
    most = max((sample.descriptors for life in report.lives for sample in life.samples), default=0)
    return Check("descriptors are few", most <= MOST_DESCRIPTORS, f"{most} at most")


def _flat(report: Report, rule: str, most: int, values_of: object, unit: str) -> Check:
    assert callable(values_of)
    grown: list[tuple[float, str]] = []
    for life in report.lives:
        values = values_of(life)
        quarter = len(values) // 4
        if quarter >= 20:
            rise = statistics.median(values[-quarter:]) - statistics.median(values[quarter : 2 * quarter])
            grown.append((rise, life.name))
    worst = max(grown, default=(0.0, "nobody"))
    words = f"{len(grown)} lives of 40 s or more; the last quarter has {worst[0]:+.0f} {unit} at most, in {worst[1]}"
    return Check(rule, worst[0] <= most, words)


def cluster_page(report: Report, checks: Sequence[Check]) -> str:
    """Give all that was done and found, as a page."""
    kinds = Counter(spell.kind for spell in report.spells)
    lasted = {kind: [each.ended_at - each.began_at for each in report.spells if each.kind == kind] for kind in kinds}
    done = [
        f"- {kinds[kind]} x {kind}, {min(each):.1f} s to {max(each):.1f} s" for kind, each in sorted(lasted.items())
    ]
    promises = report.recorded.promises.values()
    told = judge.counted(Counter(each.told or "killed with its asker" for each in promises))
    rows = [
        (
            name,
            f"{len(lives)}, {sum(life.was_killed for life in lives)} killed",
            _spread([sample.rss_mb for life in lives for sample in life.samples]),
            _spread([sample.descriptors for life in lives for sample in life.samples]),
        )
        for name in (*DOORS, *MEMBERS)
        if (lives := [life for life in report.lives if member_of(life.name) == name])
    ]
    return "\n".join(
        [
            "# Chaos in a cluster",
            "",
            f"Ten members and two rendezvous as processes, for {report.ended_at - report.began_at:.0f} s: "
            f"`python -m tests.chaos.cluster --seconds {report.order.seconds:.0f} --rate {report.order.rate:.0f} "
            f"--seed {report.order.seed}`. What they are given is in `tests/chaos/cluster.py`.{_code()}",
            "",
            "## What was done",
            "",
            *done,
            f"- {len(promises):,} calls: {told}",
            *(f"- {each}" for each in report.left_out),
            "",
            "## What held",
            "",
            *_table(("rule", "held", "found"), [(each.rule, _word(each.is_held), each.found) for each in checks]),
            "",
            "## Members",
            "",
            "Memory in MB and descriptors: first / median / most of all samples.",
            "",
            *_table(("member", "lives", "memory", "descriptors"), rows),
            "",
            "Everything held." if all(each.is_held for each in checks) else "Something broke.",
        ]
    )


def kept_part(report: Path) -> str:
    """Give what people wrote below a report that is written anew: what runs found, and what was done about it."""
    text = report.read_text() if report.exists() else ""
    return text[text.index(FOUND) - 1 :] if FOUND in text else ""


def _code() -> str:
    """Name the code that runs, as git knows it; nothing where there is no git."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parent,
        )
    except OSError:
        return ""
    return f" The code was that of commit {done.stdout.strip()}." if done.returncode == 0 else ""


def main() -> int:
    """Run, print, and give the exit code: 0 where everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.cluster")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument("--rate", type=float, default=80.0, help="calls of each member in a second")
    parser.add_argument("--keep", type=Path, help="a new directory for logs and records")
    parser.add_argument("--report", type=Path, help="a file for the page that is printed")
    options = parser.parse_args()
    order = Order(options.seconds, options.seed, options.rate, FORCE)
    with tempfile.TemporaryDirectory(prefix="hopwire-chaos-") as scratch:
        directory = options.keep or Path(scratch) / "cluster"
        report = asyncio.run(run_cluster(directory, order))
        checks = cluster_checks(report, directory)
    page = cluster_page(report, checks)
    print(page)
    if options.report:
        options.report.write_text(page + "\n" + kept_part(options.report))
    return 0 if all(check.is_held for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
