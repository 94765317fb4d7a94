"""`hopwire rendezvous` as a user runs it; how members find each other through it is in `tests/node`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hopwire import sync
from hopwire.node.news import PeerLost
from hopwire.runner.settings import DEFAULT, RunSettings
from tests.cli.running import SECONDS, command, environment, hopwire
from tests.runner.shop import Shop


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--join", "door"), "a door"),
        (("--listen", "tcp://0.0.0.0:0"), "advertise"),
        (("--listen", "tcp://10.0.0.1:1"), "open to all"),
        (("--certificate", "node.pem"), "belong together"),
        (("--domains", "/nowhere.toml"), "nowhere.toml"),
    ],
)
def test_mistake_is_one_line(arguments: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logs: list[tuple[str, str]] = []
    monkeypatch.setattr("hopwire.cli.rendezvous.set_up_logs", lambda *given: logs.append(given))
    outcome = hopwire("rendezvous", *arguments)
    assert logs in ([], [("info", "text")])  # as a node logs
    assert outcome.code == 2
    assert words in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_door_has_the_settings_of_a_node_without_its_actors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[RunSettings] = []

    async def serve(settings: RunSettings, **_: object) -> None:
        served.append(settings)

    monkeypatch.setattr("hopwire.cli.rendezvous.serve", serve)
    monkeypatch.setattr("hopwire.cli.rendezvous.set_up_logs", lambda *given: None)
    assert hopwire("rendezvous").code == 0
    [plain] = served
    assert (plain["listen"], plain["name"], plain["join"]) == ("tcp://127.0.0.1:7400", "rendezvous", ())
    assert plain.values["join"].origin != DEFAULT  # it waits for members, and founds a cluster
    file = tmp_path / "node.toml"
    file.write_text('actors = ["shop:make"]\nlisten = "tcp://127.0.0.1:7500"\nname = "a"\ndomains = "domains.toml"\n')
    monkeypatch.setenv("HOPWIRE_JOIN", "tcp://127.0.0.1:7401")
    outcome = hopwire("rendezvous", "-c", str(file), "--identity", "door-1", "--http", "0", "--name", "door")
    assert (outcome.code, outcome.err) == (0, "")
    door = served[1]
    found = {name: door[name] for name in ("actors", "listen", "name", "identity", "join", "http", "domains")}
    assert found == {
        "actors": (),
        "listen": "tcp://127.0.0.1:7500",
        "name": "door",
        "identity": "door-1",
        "join": ("tcp://127.0.0.1:7401",),
        "http": "0",
        "domains": str(tmp_path / "domains.toml"),
    }


@pytest.mark.slow
def test_whoever_knows_a_rendezvous_alone_can_ask_all_and_see_the_members_until_it_leaves() -> None:
    door = subprocess.Popen(
        command("rendezvous", "--listen", "tcp://127.0.0.1:0", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert door.stdout is not None
        uri = json.loads(door.stdout.readline())["uri"]
        with sync.Node(join=[uri]) as shop:
            shop.host(Shop())
            while "till.order" not in hopwire("routes", uri, columns=160).out:
                pass  # each asks the door anew, until the routes of the shop have come there
            answer = hopwire("ask", uri, "till.order@1", '{"what": "tea"}', "--reply", "till.sold@2")
            assert (answer.code, answer.out) == (0, '{"what":"tea","count":1}\n')
            members = hopwire("members", uri, columns=160)
            assert members.code == 0
            assert shop.uri in members.out
            assert "(rendezvous)" in members.out
            [peer], events = shop.peers, shop.events()
            door.terminate()
            while (event := next(events)) != PeerLost(peer, "left"):  # it said goodbye, and is not taken for dead
                assert not isinstance(event, PeerLost)
            _, said = door.communicate(timeout=SECONDS)
            assert door.returncode == 0
            assert "interrupted" not in said
            assert all(json.loads(line)["message"] for line in said.splitlines())
    finally:
        door.kill()
        door.communicate(timeout=SECONDS)
