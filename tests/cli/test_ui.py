"""`hopwire ui`: what it refuses, and a page that joins a network and ends by Ctrl+C."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hopwire import sync
from hopwire.node.status import StatusActor
from tests.cli.running import SECONDS, command, environment, heed_ctrl_c, hopwire
from tests.runner.shop import Shop


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "found nothing to show, expected a LAKE, --join ADDRESS or --captures DIR"),
        (["--join", "nowhere"], "nowhere"),
        (["--captures", "/nowhere/at/all"], "--captures: found '/nowhere/at/all', expected a directory"),
        (["/nowhere/at/all"], "is not a lake"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(arguments: list[str], said: str) -> None:
    found = hopwire("ui", *arguments)
    assert found.code == 2
    assert said in found.err
    assert found.err.count("\n") == 1


@pytest.fixture(scope="module")
def node() -> Iterator[sync.Node]:
    with sync.Node(name="till") as node:
        node.host(Shop())
        node._portal.call_plain(lambda: node._node.host(StatusActor(node._node), local_only=True))
        yield node


@pytest.mark.slow
def test_a_page_without_a_lake_shows_a_node_as_it_lives(node: sync.Node, tmp_path: Path) -> None:
    started = command("ui", "--join", node.uri, "--captures", str(tmp_path), "--port", "0", "--json")
    with subprocess.Popen(
        started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True, preexec_fn=heed_ctrl_c
    ) as page:
        assert page.stdout is not None
        assert page.stderr is not None
        said = json.loads(page.stdout.readline() or page.stderr.read())
        assert said["shows"] == node.uri
        shown: dict[str, Any] = {}
        with urllib.request.urlopen(f"{said['address']}live/events", timeout=60) as events:
            while "till.order" not in json.dumps(shown):  # the first picture may say that it still waits
                line = events.readline()
                assert line, "the page has closed its events"
                shown = json.loads(line[6:]) if line.startswith(b"data: ") else shown
        assert "till" in shown["html"]
        page.send_signal(signal.SIGINT)
        _, complaints = page.communicate(timeout=SECONDS)
    assert complaints.strip() in ("", "hopwire: interrupted")
