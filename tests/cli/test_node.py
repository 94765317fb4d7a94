"""`hopwire node` as a user runs it: signals, codes, single lines."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from hopwire import sync
from hopwire.cli.exits import ExitCode
from hopwire.cli.main import run
from tests.cli.running import ROOT, command, hopwire
from tests.runner.processes import process_of
from tests.runner.shop import Block, Order, Sold

SHOP = "tests.runner.shop"


@pytest.mark.slow
def test_a_node_serves_and_a_signal_ends_it_with_0_though_a_thread_is_blocked() -> None:
    arguments = ("node", f"{SHOP}:BOTH", "--json", "--http", "0", "--drain-seconds", "0")
    with process_of(command(*arguments, "--set", "stop_seconds=0.01")) as process:
        url = process.next("http")["url"]
        uri = process.next("listening")["uri"]
        with sync.Node(peers=[uri]) as client:
            client.knows(Order)
            assert client.hub().ask(Order("tea"), Sold) == Sold("tea")
            assert urlopen(f"{url}/ready", timeout=10).status == 200
            client.hub().tell(Block(1000))
            assert process.said() == "blocking"
        process.running.send_signal(signal.SIGTERM)
        process.next("draining")
        process.next("left_behind")
        assert process.running.wait(30) == ExitCode.FINE


# fmt: off
WRONG = (
    (["nope:x"],                            2, "nope cannot be imported: ModuleNotFoundError: No module named 'nope'"),
    ([f"{SHOP}:mak"],                       2, f"{SHOP} has no 'mak'; did you mean 'make'?"),
    ([f"{SHOP}:broken"],                    2, f"{SHOP}:broken raised: ValueError: no money"),
    ([f"{SHOP}:Fragile"],                   1, "Fragile.on_start failed: RuntimeError"),
    (["--listen", "tcp://192.0.2.1:7400"],  2, "tcp://192.0.2.1:7400 is open to all who can reach it"),
    (["--listen", "x"],                     2, "the address of this node is like tcp://host:port, found 'x'"),
    (["--peer", "x"],                       2, "the address of a peer is like tcp://host:port, found 'x'"),
    (["--http", "x"],                       2, "http: found 'x', expected HOST:PORT, or a port on 127.0.0.1"),
    (["--domains", "/no/such"],             2, "cannot read the domains /no/such: No such file or directory"),
    (["--config", "/no/such"],              2, "/no/such: No such file or directory"),
    (["--drain-seconds", "x"],              2, "Invalid value for '--drain-seconds'"),
    (["--drain-seconds", "-1"],             2, "--drain-seconds: found -1.0, expected a number of seconds"),
    (["--set", "x"],                        2, "--set: found 'x', expected NAME=VALUE"),
    (["--set", "x=1"],                      2, "--set: unknown setting 'x'; `hopwire config show` lists them all"),
    (["--set", "hop_limit=0"],              2, "--set hop_limit: found 0, expected a number from 1"),
)
# fmt: on


@pytest.fixture(autouse=True)
def _logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hopwire.cli.node.set_up_logs", lambda *_: None)
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(("arguments", "code", "line"), WRONG)
def test_what_is_wrong_is_one_line_and_a_code(
    arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["node", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"hopwire: {line}")
    assert err.count("\n") == 1


def test_the_traceback_of_a_users_module_is_there_for_whoever_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOPWIRE_TRACEBACK", "1")
    assert run(["node", f"{SHOP}:broken"]) == ExitCode.USAGE
    shown = capsys.readouterr().err
    assert 'raise ValueError("no\\nmoney")' in shown
    assert shown.endswith(f"hopwire: {SHOP}:broken raised: ValueError: no money\n")


def test_config_says_where_each_value_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "node.toml"
    file.write_text('name = "x"\ndomains = "keys.toml"\n', "utf-8")
    (tmp_path / "keys.toml").write_text("secret_hex = 'abcdef'", "utf-8")
    monkeypatch.setenv("HOPWIRE_PEERS", "tcp://a:1")
    monkeypatch.setenv("HOPWIRE_SHOP_KEY", "top secret")
    arguments = ("config", "show", "-c", str(file), "--http", "9464", "--set", "hop_limit=3", f"{SHOP}:make")
    found = json.loads(hopwire(*arguments, "--json").out)
    assert found["name"] == {"value": "x", "from": str(file)}
    assert found["peers"] == {"value": ["tcp://a:1"], "from": "HOPWIRE_PEERS"}
    assert found["http"] == {"value": "9464", "from": "--http"}
    assert found["hop_limit"] == {"value": 3, "from": "--set"}
    assert found["actors"] == {"value": [f"{SHOP}:make"], "from": "argument"}
    assert found["drain_seconds"] == {"value": 20.0, "from": "default"}
    shown = hopwire(*arguments, columns=200).out
    assert "HOPWIRE_PEERS" in shown
    assert "abcdef" not in shown
    assert "top secret" not in shown
