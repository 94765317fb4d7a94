"""Talking to a network from the shell: questions, messages, what arrives; each mistake is one line and a code."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from hopwire import sync
from hopwire.cli import network_client
from hopwire.cli.doctor import _version_there
from hopwire.cli.exits import ExitCode
from hopwire.cli.main import run
from hopwire.cli.terminal import redraw
from hopwire.cli.top import Picture, _lines
from hopwire.errors import UnexpectedAnswer
from hopwire.model import Contract, contract_of
from hopwire.node import Actor, Address, Partner, handles
from hopwire.node.departures import KnownDeparture
from hopwire.node.overview import KnownContract, KnownMember
from hopwire.node.status import (
    ContractPage,
    ContractPageWanted,
    MemberPage,
    MemberPageWanted,
    Status,
    StatusActor,
    StatusWanted,
)
from hopwire.security import Domain, Domains, Key
from tests.cli.running import hopwire
from tests.runner.shop import Order, Shop, Sold

NETWORK = """\
[domains.network]
identities = ["hopwire.*", "till.*"]

[[domains.network.keys]]
id = "1"
secret_name = "NETWORK_KEY"
"""


@pytest.fixture(scope="module")
def node() -> Iterator[sync.Node]:
    with sync.Node(name="till") as node:
        node.host(Shop())
        node._portal.call_plain(lambda: node._node.host(StatusActor(node._node), local_only=True))
        yield node


@pytest.mark.slow
def test_a_question_is_answered_as_json(node: sync.Node) -> None:
    found = hopwire("ask", node.uri, "till.order@1", '{"what": "tea"}', "--reply", "till.sold@2")
    assert (found.code, found.err, found.out) == (0, "", '{"what":"tea","count":1}\n')
    found = hopwire("ask", node.uri, "till.order", "-", "--reply", "till.sold v2", "--json", given='{"what": "Größe"}')
    said = json.loads(found.out)
    assert said["body"] == {"what": "Größe", "count": 1}
    assert said["took_ms"] > 0


def test_a_message_gets_its_receipt_and_belongs_to_its_flow(node: sync.Node) -> None:
    identity = node.identity.decode()
    assert hopwire("send", node.uri, "till.order", '{"what": "x"}').out == f"taken by {identity}\n"
    found = hopwire("send", node.uri, "till.order", '{"what": "x"}', "--json", "--at-least-once")
    assert json.loads(found.out) == {"taken_by": identity}


@pytest.mark.slow
def test_what_is_told_arrives_and_is_listened_to() -> None:
    with sync.Node() as node:
        lines: list[str] = []
        listening = threading.Thread(
            target=lambda: lines.append(hopwire("listen", node.uri, "till.order", "--count", "3", "--json").out)
        )
        listening.start()
        node.knows(Order)
        node.hub().tell(Order("b"), correlation_id=b"flow-2")
        node.hub().broadcast(Order("c"))
        with pytest.raises(UnexpectedAnswer):
            node.hub().ask(Order("d"), Sold)
        listening.join()
        said = [json.loads(line) for line in lines[0].splitlines()]
        assert [each["body"]["what"] for each in said] == ["b", "c", "d"]
        assert [each["is_question"] for each in said] == [False, False, True]
        assert said[0]["contract"] == "till.order v1"
        assert said[0]["correlation_id"] == "flow-2"
        assert said[0]["from"] == node.identity.decode()


@pytest.mark.slow
def test_what_is_told_is_handled(node: sync.Node) -> None:
    with sync.Node() as other:
        shop = Shop()
        other.host(shop)
        assert hopwire("tell", other.uri, "till.order", '{"what": "a"}', "--correlation-id", "f").code == 0
        assert (
            hopwire("tell", other.uri, "till.order", '{"what": "b"}', "--all", "--json").out
            == '{"told": "till.order"}\n'
        )
        other.drain()
        assert shop.orders == ["a", "b"]


@pytest.mark.slow
def test_a_contract_that_another_node_handles_is_found_through_the_one_that_is_named() -> None:
    with sync.Node() as door, sync.Node(peers=[door.uri]) as shop:
        door._portal.call_plain(lambda: door._node.host(StatusActor(door._node), local_only=True))
        shop.host(Shop())
        door.knows(Order)
        found = hopwire("ask", door.uri, "till.order", '{"what": "tea"}', "--reply", "till.sold@2")
        assert (found.code, found.err, found.out) == (0, "", '{"what":"tea","count":1}\n')
        assert json.loads(hopwire("trace", door.uri, "till.order", "--json").out)["end"]["uri"] == shop.uri


@pytest.mark.slow
def test_who_comes_after_the_first_look_is_found_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[str, ...]] = []
    look = network_client._elsewhere

    async def looked(there: network_client.Joined, contract: Contract, timeout: float) -> tuple[str, ...]:
        looks.append(await look(there, contract, timeout))
        if len(looks) == 1:
            shop.host(Shop())
        return looks[-1]

    monkeypatch.setattr(network_client, "_elsewhere", looked)
    with sync.Node() as door, sync.Node(peers=[door.uri]) as shop:
        door._portal.call_plain(lambda: door._node.host(StatusActor(door._node), local_only=True))
        found = hopwire("ask", door.uri, "till.order", '{"what": "tea"}', "--reply", "till.sold@2")
        assert (found.code, found.err, looks[0], looks[-1]) == (0, "", (), (shop.uri,))


@pytest.mark.slow
def test_a_signed_network_needs_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = b"a secret of the network"
    domains = Domains([Domain("network", [Key("1", secret)], ["hopwire.*", "till.*"])])
    file = tmp_path / "domains.toml"
    file.write_text(NETWORK, "utf-8")
    question = ("ask", "", "till.order", '{"what": "tea"}', "--reply", "till.sold@2", "--domains", str(file))
    with sync.Node(domains=domains) as node:
        node.host(Shop())
        monkeypatch.setenv("NETWORK_KEY", secret.decode())
        assert hopwire("ask", node.uri, *question[2:]).code == 0
        monkeypatch.setenv("NETWORK_KEY", "another secret, of others")
        found = hopwire("ask", node.uri, *question[2:], "--timeout", "0.2")
        line = f"hopwire: unreachable: no answer from {node.uri} in 0.2 s: is it running, are address and keys right?\n"
        assert (found.code, found.err) == (ExitCode.BAD, line)


@pytest.mark.slow
def test_contract_is_found_through_a_door_that_has_no_key_of_its_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = b"0123456789abcdef0123456789abcdef"
    monkeypatch.setenv("NETWORK_KEY", secret.decode())
    network = Domain("network", [Key("1", secret)], ["hopwire.*"])
    everything = Domains([network, Domain("till", [Key("1", secret)], ["till.*"])])
    file = tmp_path / "domains.toml"
    table = NETWORK.replace(', "till.*"', "")
    file.write_text(table + table.replace("network", "till").replace("hopwire.*", "till.*"), "utf-8")
    with (
        sync.Node(join=[], domains=Domains([network])) as door,
        sync.Node(join=[door.uri], domains=everything) as shop,
    ):
        door._portal.call_plain(lambda: door._node.host(StatusActor(door._node), local_only=True))
        shop.host(Shop())
        question = ("ask", door.uri, "till.order", '{"what": "tea"}', "--reply", "till.sold@2", "--domains", str(file))
        found = hopwire(*question)
        assert (found.err, found.out) == ("", '{"what":"tea","count":1}\n')


@pytest.mark.slow
def test_who_listens_through_a_door_without_the_key_hears_what_other_members_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = b"0123456789abcdef0123456789abcdef"
    monkeypatch.setenv("NETWORK_KEY", secret.decode())
    network = Domain("network", [Key("1", secret)], ["hopwire.*"])
    everything = Domains([network, Domain("till", [Key("1", secret)], ["till.*"])])
    file = tmp_path / "domains.toml"
    table = NETWORK.replace(', "till.*"', "")
    file.write_text(table + table.replace("network", "till").replace("hopwire.*", "till.*"), "utf-8")
    heard: list[str] = []
    with (
        sync.Node(join=[], domains=Domains([network])) as door,
        sync.Node(join=[door.uri], domains=everything) as shop,
    ):
        command = ("listen", door.uri, "till.order", "--count", "2", "--domains", str(file))
        listening = threading.Thread(target=lambda: heard.append(hopwire(*command).out))
        listening.start()
        shop.knows(Order)
        shop.hub().tell(Order("a"))
        shop.hub().tell(Order("b"))
        listening.join()
    assert [json.loads(line)["what"] for line in heard[0].splitlines()] == ["a", "b"]


@pytest.mark.slow
def test_members_and_routes_of_a_node_are_listed(node: sync.Node) -> None:
    with sync.Node(peers=[node.uri], name="cellar\x1b[31m" + 100 * "x") as other:
        other.host(Shop())
        other.knows(Order)
        node.knows(Order)
        wait_for_routes(node, 2)
        found = json.loads(hopwire("members", node.uri, "--json").out)
        assert (found["name"], found["uri"]) == ("till", node.uri)
        assert [(each["node"], each["uri"], each["routes"]) for each in found["members"]] == [
            (other.identity.decode(), other.uri, 1)
        ]
        shown = hopwire("members", node.uri).out
        assert f"{node.identity.decode()} (till)" in shown
        assert other.uri in shown
        assert f"{other.identity.decode()} (cellar\\x1b[31mxxx" in shown  # cut, and harmless
        lines = hopwire("routes", node.uri, "--json", "--contract", "till.order").out.splitlines()
        assert [json.loads(line) for line in lines] == [
            {
                "contract": "till.order v1",
                "actors_here": 1,
                "nodes": [other.identity.decode()],
                "node_count": 1,
                "partners": [],
            }
        ]
        [line] = [line for line in hopwire("routes", node.uri, columns=160).out.splitlines() if "till.order v1" in line]
        assert "cellar\\x1b[31mxxx" in line
        assert other.identity.decode() not in line  # its name is its own
        assert "hopwire.status.wanted v1" in hopwire("routes", node.uri).out


@pytest.mark.slow
def test_who_is_gone_is_listed_with_the_time_and_the_reason(node: sync.Node) -> None:
    with sync.Node(peers=[node.uri], name="cellar\x1b[31m") as other:
        other.knows(Order)
        identity, uri = other.identity.decode(), other.uri
    found = json.loads(hopwire("members", node.uri, "--json").out)["gone"]
    [gone] = [each for each in found if each["node"] == identity]
    assert (gone["uri"], gone["name"], gone["reason"], gone["why"]) == (
        uri,
        "cellar\x1b[31m",
        "left",
        "it said goodbye",
    )
    assert gone["gone_seconds"] >= 0
    assert datetime.fromisoformat(gone["at"]).tzinfo is not None
    [line] = [line for line in hopwire("members", node.uri).out.splitlines() if line.startswith(identity)]
    assert re.fullmatch(rf"{identity} \(cellar\\x1b\[31m\)  {uri}  left .* s ago \(.* UTC\): it said goodbye", line)
    picture = json.loads(hopwire("top", node.uri, "--once", "--json", "--every", "0.1").out)
    assert identity in {each["node"] for each in picture["gone"]}
    assert [each for each in picture["gone"] if each["name"] == "hopwire-cli"] == []  # commands come and go


def wait_for_routes(node: sync.Node, count: int) -> None:
    """Wait until the node knows of so many handlers of an order."""
    events = node.events()
    while len(node._portal.call_plain(node._node._tables.handlers_of, contract_of(Order))) < count:
        next(events)


def test_the_way_of_a_message_is_shown_and_nothing_is_delivered() -> None:
    with sync.Node() as node:
        shop = Shop()
        node.host(shop)
        found = json.loads(hopwire("trace", node.uri, "till.order", "--json").out)
        assert (found["end"]["node"], found["end"]["uri"]) == (node.identity.decode(), node.uri)
        assert (len(found["passed"]), len(found["end"]["receivers"])) == (1, 1)
        first, last = hopwire("trace", node.uri, "till.order").out.splitlines()
        assert first.startswith("0  ")
        assert first.split("  ")[1].endswith(" (this command)")
        assert last.startswith(f"1  {node.identity.decode()}  {node.uri}  -> ")
        assert shop.orders == []


@pytest.mark.slow
def test_top_shows_a_node_once(node: sync.Node) -> None:
    with sync.Node(peers=[node.uri]) as other:
        other.knows(Order)
        other.hub().tell(Sold("to nobody"), to=Address(node.identity))
        found = json.loads(hopwire("top", node.uri, "--once", "--json", "--every", "0.1").out)
        assert (found["name"], found["counts"]["actors"]) == ("till", 2)
        assert set(found["rates"]) == {"messages_in", "messages_out", "bytes_in", "bytes_out"}
        assert found["contracts"]["till.order v1"] == [1, 0]
        assert other.identity.decode() in {each["node"] for each in found["members"]}
        assert sum(found["dead_letters"].values()) > 0
        lines = hopwire("top", node.uri, "--once", "--every", "0.1").out.splitlines()
        assert lines[0] == f"{node.identity.decode()} (till)  {node.uri}"
        assert any(line.startswith(f"  alive  {other.identity.decode()}") for line in lines)
        assert any(line == "  till.order v1  1 here, 0 nodes elsewhere" for line in lines)


def test_what_does_not_fit_the_screen_is_counted() -> None:
    status = Status(b"n", "", "tcp://a:1", 2, {}, {}, 51, 40)
    members = [KnownMember(b"m%02d" % number, "tcp://b:1", 1, 0.0, 1, 0, 0, 0) for number in range(50)]
    contracts = [KnownContract(b"c%02d" % number, 1, b"", 1, (), 0) for number in range(40)]
    picture = Picture(status, members, contracts)
    lines = _lines(picture, picture, 24, 80)
    assert len(lines) <= 24
    assert [line for line in lines if "more" in line] == ["  and 44 more", "  and 34 more"]
    gone = [KnownDeparture(b"g%02d" % n, "", "tcp://c:1", 61.0, "dead", "it died", (b"m01", b"m02")) for n in range(9)]
    lines = _lines(replace(picture, gone=gone), picture, 24, 80)
    assert len(lines) <= 24
    at = lines.index("gone  9")
    assert lines[at : at + 3] == [
        "gone  9",
        "  g00  tcp://c:1  lost 61 s ago (23:58:59 UTC): it died, say 2 members",
        "  g01  tcp://c:1  lost 61 s ago (23:58:59 UTC): it died, say 2 members",
    ]
    assert len(_lines(picture, picture, None, 80)) > 90


def test_a_screen_is_redrawn_and_what_comes_from_others_does_not_command_it(capsys: pytest.CaptureFixture[str]) -> None:
    redraw(["a\x1b[2J", "b"])
    assert capsys.readouterr().out == "\x1b[Ha\\x1b[2J\x1b[K\nb\x1b[K\n\x1b[J"


def test_the_doctor_finds_nothing_wrong_with_a_node_that_runs(node: sync.Node, monkeypatch: pytest.MonkeyPatch) -> None:
    found = hopwire("doctor", node.uri, "--json")
    said = {each["check"]: each for each in map(json.loads, found.out.splitlines())}
    assert found.code == 0
    assert {"python", "packages", "keys", "listen", "name", "node", "clock", "version"} <= said.keys()
    assert said["node"]["found"] == f"{node.uri} is {node.identity.decode()}"
    assert said["clock"]["verdict"] == said["version"]["verdict"] == "fine"
    monkeypatch.setenv("HOPWIRE_LISTEN", node.uri)
    said = {each["check"]: each for each in map(json.loads, hopwire("doctor", "--json").out.splitlines())}
    assert said["listen"]["verdict"] == "doubtful"
    assert said["listen"]["remedy"].startswith("is the node running already?")
    assert "is the node running already?" in hopwire("doctor", columns=200).out


def test_the_doctor_compares_versions() -> None:
    other = _version_there("tcp://a:1", {"hopwire": "99", "python": "3.99"})
    assert (other.verdict, other.found) == ("doubtful", "tcp://a:1 has hopwire 99 on Python 3.99")
    assert _version_there("tcp://a:1", {}).found == "tcp://a:1 has hopwire (not said) on Python (not said)"


@pytest.mark.slow
def test_the_doctor_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "domains.toml"
    file.write_text(NETWORK + "not_after = 2020-01-01T00:00:00Z\n", "utf-8")
    monkeypatch.setenv("NETWORK_KEY", "a secret of the network")
    monkeypatch.setenv("HOPWIRE_HTTP", "0")
    arguments = ("doctor", "--peer", "tcp://127.0.0.1:1", "--peer", f"tcp://{64 * 'a'}.b:1", "nonsense")
    found = hopwire(*arguments, "--domains", str(file), "--json", "--timeout", "0.5")
    assert found.code == ExitCode.BAD
    bad = [each for each in map(json.loads, found.out.splitlines()) if each["verdict"] == "bad"]
    assert all(each["remedy"] for each in bad)
    assert {each["check"] for each in bad} == {"keys of network", "name", "node"}
    assert "a secret of the network" not in found.out
    monkeypatch.delenv("NETWORK_KEY")
    found = hopwire(*arguments[:1], "--domains", str(file), "--json")
    assert found.code == ExitCode.BAD
    assert "the environment variable NETWORK_KEY is not set" in found.out
    monkeypatch.setenv("HOPWIRE_LISTEN", "tcp://0.0.0.0:7400")
    assert "tcp://0.0.0.0:7400 is no address that others can reach" in hopwire("doctor", "--json").out


@pytest.mark.slow
def test_a_node_that_answers_no_questions_is_one_line() -> None:
    with sync.Node() as node:
        for command in ("members", "routes", "top"):
            found = hopwire(command, node.uri)
            assert (found.code, found.err.count("\n")) == (ExitCode.BAD, 1)
            assert (
                f"no_route: {node.uri} answers no questions about itself: it is not run by `hopwire node`" in found.err
            )


class Endless(Actor):
    """Says of itself that there is always one more."""

    @handles(local_only=True)
    async def status(self, request: StatusWanted) -> Status:
        return Status(b"endless", "", "", 0, {}, {}, 1, 1)

    @handles(local_only=True)
    async def members(self, request: MemberPageWanted) -> MemberPage:
        return MemberPage(MANY, (KnownMember(b"%d" % request.offset, "", 0, 0.0, 0, 0, 0, 0),))

    @handles(local_only=True)
    async def contracts(self, request: ContractPageWanted) -> ContractPage:
        return ContractPage(MANY, (KnownContract(b"%d" % request.offset, 1, b"", 0, (), 0),))


MANY = 10**15


@pytest.mark.slow
def test_a_node_that_says_no_end_of_things_of_itself_is_one_line() -> None:
    with sync.Node() as node:
        node.host(Endless(), local_only=True)
        for command in ("members", "routes", "top"):
            found = hopwire(command, node.uri, "--timeout", "0.5")
            assert (found.code, found.err.count("\n")) == (ExitCode.BAD, 1)
            assert f"{node.uri} had more to say about itself than 0.5 s take" in found.err


SOLD = ("--reply", "till.sold@2")
SOON = ("--timeout", "0.1")
NOBODY = "unreachable: no answer from"
NONE = "expected a contract such as shop.order@2"
# fmt: off
WRONG = (
    (["ask", "x", "till.order", "{}", *SOLD],            2, "the address of a node is like tcp://host:port, found 'x'"),
    (["ask", "URI", "till.order", "{", *SOLD],           2, "the body is not JSON: Expecting property name"),
    (["ask", "URI", "till.order", "[]", *SOLD],          2, "the body is a JSON object, found list"),
    (["ask", "URI", "till.order", "{}"],                 2, "Missing option '--reply'"),
    (["ask", "URI", "till.order@99999999", "{}", *SOLD], 2, f"found 'till.order@99999999', {NONE}"),
    (["ask", "URI", "till.order@two", "{}", *SOLD],      2, f"found 'till.order@two', {NONE}"),
    (["send", "URI", "", "{}"],                          2, f"found '', {NONE}"),
    (["tell", "URI", "a", "{}", "--domains", "/none"],   2, "cannot read the domains /none: No such file or directory"),
    (["send", "URI", "till.x", "{}", "--timeout", "0.2"], 1, "no_route: nobody handles till.x v1, as far as tcp://"),
    (["ask", "URI", "till.order", "{}", *SOLD],          1, "PayloadError: "),
    (["ask", "URI", "till.order", '{"what": "x"}', "--reply", "till.y"], 1, "unexpected_answer: "),
    (["send", "tcp://127.0.0.1:1", "a", "{}", *SOON],    1, f"{NOBODY} tcp://127.0.0.1:1: connection refused; is it "),
    (["top", "tcp://no..host:74", *SOON],                1, f"{NOBODY} tcp://no..host:74: unknown host; is the name "),
    (["members", "ipc:///nowhere/at-all", *SOON],        1, f"{NOBODY} ipc:///nowhere/at-all: no such file; is it "),
)
# fmt: on


@pytest.mark.parametrize(("arguments", "code", "line"), WRONG)
def test_what_is_wrong_is_one_line_and_a_code(
    arguments: list[str], code: int, line: str, node: sync.Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([node.uri if each == "URI" else each for each in arguments]) == code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"hopwire: {line}"), err


@pytest.mark.slow
def test_that_nobody_listens_is_said_long_before_the_timeout() -> None:
    found = hopwire("routes", "tcp://127.0.0.1:1", "--timeout", "100000")
    line = f"hopwire: {NOBODY} tcp://127.0.0.1:1: connection refused; is it running, is the port right?\n"
    assert (found.code, found.err) == (ExitCode.BAD, line)


@pytest.mark.parametrize("typed", ["till.ordr@1", "till.order@2"])
def test_contract_that_may_have_been_meant_is_named(typed: str, node: sync.Node) -> None:
    found = hopwire("trace", node.uri, typed, "--timeout", "0.2")
    assert (found.code, found.err.count("\n")) == (ExitCode.BAD, 1)
    assert found.err.endswith(f" as far as {node.uri} says; did you mean 'till.order@1'?\n")
    found = hopwire("trace", node.uri, "weather.ask", "--timeout", "0.2")
    assert found.err.endswith(f" says; `hopwire routes {node.uri}` lists what is handled\n")


# -- partner networks


@pytest.mark.slow
def test_gateway_shows_its_partners_and_what_is_imported() -> None:
    with sync.Node(partners=[Partner("acme", export=["till.*"])]) as shop:
        shop.host(Shop())
        border = shop._node.border("acme").uri
        with sync.Node(name="gate", partners=[Partner("shop", [border], import_=["till.*"])]) as gate:
            gate._portal.call_plain(lambda: gate._node.host(StatusActor(gate._node), local_only=True))
            gate.knows(Order)
            [partner] = json.loads(hopwire("members", gate.uri, "--json").out)["partners"]
            assert (partner["name"], partner["imports"], partner["exports"]) == ("shop", ["till.order v1"], [])
            assert partner["counts"]["peers"] == 1
            assert "partner shop" in hopwire("members", gate.uri).out
            [line] = hopwire("routes", gate.uri, "--json", "--contract", "till.order").out.splitlines()
            assert json.loads(line)["partners"] == ["shop"]
            assert "imported from" in hopwire("routes", gate.uri).out
            assert hopwire("trace", gate.uri, "till.order").out.endswith("-> partner network shop\n")
            found = hopwire("ask", gate.uri, "till.order@1", '{"what": "tea"}', "--reply", "till.sold@2")
            assert found.out == '{"what":"tea","count":1}\n'
            lines = hopwire("top", gate.uri, "--once", "--every", "0.1").out.splitlines()
            assert any(line.startswith("partner shop  1 gateways met, 1 contracts in and 0 out") for line in lines)
            assert any(line.endswith("imported from shop") for line in lines)
            shop.allow("acme", export=[])
            assert shop.partners()[0].exports == ()


def test_the_doctor_looks_at_partners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "partners.toml"
    path.write_text('[acme]\ngateways = ["tcp://127.0.0.1:1"]\n')
    monkeypatch.setenv("HOPWIRE_PARTNERS", str(path))
    found = [json.loads(line) for line in hopwire("doctor", "--json").out.splitlines()]
    about = [each for each in found if each["check"] == "partner acme"]
    assert [each["verdict"] for each in about] == ["doubtful", "fine", "doubtful"]
    assert about[0]["found"] == "nothing is on its lists"
    path.write_text("[acme]\nexprot = []\n")
    found = [json.loads(line) for line in hopwire("doctor", "--json").out.splitlines()]
    [bad] = [each for each in found if each["check"] == "partners"]
    assert (bad["verdict"], "unknown setting 'exprot'" in bad["found"]) == ("bad", True)
