"""The examples of a deployment say what the runner understands, and leave it the time that it needs."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import socket
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Any, cast

import pytest

from hopwire.node import Node
from hopwire.runner import serve
from hopwire.runner.health import Health
from hopwire.runner.service import EndWish
from hopwire.runner.settings import OPTIONS, PREFIX, RunSettings, read_settings
from tests.cli.running import ROOT, hopwire
from tests.ports import free_port

DEPLOY = ROOT / "examples" / "deploy"
KEYS = {"GREETER_KEY": "a secret of the greeter", "NETWORK_KEY": "a secret of the network"}
PAGES = Health(Node(), 0, lambda: 0.0).pages()


@pytest.fixture(autouse=True)
def _as_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DEPLOY)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, secret in KEYS.items():
        monkeypatch.setenv(name, secret)


def pod() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    service, workload = json.loads((DEPLOY / "kubernetes.json").read_text("utf-8"))["items"]
    spec = workload["spec"]["template"]["spec"]
    return service, spec, spec["containers"][0]


def settings_of(environ: dict[str, str]) -> RunSettings:
    return read_settings({}, environ, DEPLOY / "node.toml")


def seconds_to_stop(settings: RunSettings) -> float:
    return float(settings["drain_seconds"] + settings["stop_seconds"])


def environ_of(container: dict[str, Any], pod_name: str) -> dict[str, str]:
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    return {name: value.replace("$(POD_NAME)", pod_name) for name, value in given.items()}


def test_the_nodes_of_kubernetes_find_each_other_before_they_are_ready() -> None:
    service, spec, container = pod()
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    environ = environ_of(container, "greeter-1")
    assert {name for name in environ if name.startswith(PREFIX)} <= {f"{PREFIX}{name.upper()}" for name in OPTIONS}
    settings = settings_of(environ)
    [port] = [each["port"] for each in service["spec"]["ports"]]
    assert settings["join"] == (f"dns://{service['metadata']['name']}:{port}",)  # however many replicas there are
    assert settings["advertise"].endswith(f".{service['metadata']['name']}:{port}")
    assert settings.node().name == "greeter-1"
    assert spec["terminationGracePeriodSeconds"] > seconds_to_stop(settings)
    secrets = {each["name"] for each in container["env"] if "secretKeyRef" in each.get("valueFrom", {})}
    assert secrets == KEYS.keys()


def test_pods_that_start_together_and_know_only_the_name_of_their_service_form_one_cluster() -> None:
    """The name leads to all pods, also to the one that asks; none of them is ready before it has met another."""
    _, _, container = pod()
    hosts = {f"greeter-{number}.greeter": f"127.0.0.{number + 2}" for number in range(3)}
    port = free_port()

    async def look_up(host: str, _: int, **kinds: Any) -> list[Any]:
        found = hosts.values() if host == "greeter" else [hosts.get(host, host)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (each, port)) for each in found]

    def node_of(number: int) -> Node:
        environ = environ_of(container, f"greeter-{number}")
        given = {name: value.replace("7400", str(port)) for name, value in environ.items()}
        return read_settings({"listen": f"tcp://127.0.0.{number + 2}:{port}"}, given, DEPLOY / "node.toml").node()

    async def main() -> None:
        cast("Any", asyncio.get_running_loop()).getaddrinfo = look_up
        nodes = [node_of(number) for number in range(3)]
        healths = [Health(node, 60, lambda: 0.0, ("dns://greeter",)) for node in nodes]
        for health in healths:
            health.run()
        await asyncio.gather(*(node.start() for node in nodes))
        assert not any(health.is_ready() for health in healths)
        async with asyncio.timeout(30):
            while not all(health.is_ready() for health in healths) or {len(node.peers) for node in nodes} != {2}:
                await asyncio.sleep(0.02)
        await asyncio.gather(*(node.stop() for node in nodes))

    asyncio.run(main())


def test_the_probes_ask_for_pages_that_are_there_on_a_port_that_is_served() -> None:
    _, _, container = pod()
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    [http] = [each["value"] for each in container["env"] if each["name"] == "HOPWIRE_HTTP"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] in PAGES
        assert http == f"0.0.0.0:{ports[container[probe]['httpGet']['port']]}"


def test_the_unit_of_systemd_waits_longer_than_a_drain() -> None:
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "greeter.service", "utf-8")
    service = unit["Service"]
    _, command, *arguments = shlex.split(service["ExecStart"].replace("%H", "one.internal"))
    name, _, value = service["Environment"].partition("=")
    assert command == "node"
    found = json.loads(hopwire("config", "show", "--json", *arguments).out)
    settings = settings_of({name: value})
    assert found["advertise"]["value"] in settings["join"]  # the same list for all: each leaves itself alone
    assert int(service["TimeoutStopSec"]) > seconds_to_stop(settings)
    assert service["RestartPreventExitStatus"] == "2"


def test_the_image_runs_the_node_itself_and_not_as_root() -> None:
    lines = dict(line.split(" ", 1) for line in (DEPLOY / "Dockerfile").read_text("utf-8").splitlines() if line)
    program, command, *arguments = json.loads(lines["ENTRYPOINT"])
    assert (program, command) == ("hopwire", "node")
    assert lines["USER"] != "root"
    assert hopwire("config", "show", "--json", *arguments).code == 0
    assert all((DEPLOY / name).is_file() for name in lines["COPY"].split()[:-1])
    [path] = re.findall(r"127\.0\.0\.1:9464(/\w+)", lines["HEALTHCHECK"])
    assert path in PAGES


def test_the_service_runs_with_its_keys_as_it_would_be_deployed() -> None:
    async def main() -> None:
        end, started = EndWish(), asyncio.get_running_loop().create_future()
        arguments = {"listen": "tcp://127.0.0.1:0", "http": "0", "log_format": "text"}
        settings = read_settings(arguments, {}, DEPLOY / "node.toml")
        serving = asyncio.ensure_future(serve(settings, (), end, lambda node, url: started.set_result(node)))
        await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
        from greeter import Greet, Greeting  # type: ignore[import-not-found]

        client = read_settings({"peers": [started.result().uri], "domains": str(Path("domains.toml"))})
        async with client.node() as asking:
            await asking.knows(Greet)
            assert (await asking.hub().ask(Greet("Ada"), Greeting)).text == "hello Ada"
        end.wish()
        await serving

    asyncio.run(main())
