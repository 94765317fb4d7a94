"""`hopwire demo`: one run as a whole, its numbers, and how it ends when Spark is missing or somebody is tired."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hopwire.demo.shop import ROLES
from hopwire.demo.trouble import STRANGER, TROUBLES
from tests.cli.running import SECONDS, command, environment, heed_ctrl_c, hopwire

Run = tuple[dict[str, Any], Path]
ORDERS = 200
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from hopwire.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_hubs_and_lake_agree_on_every_request(demo_run: Run) -> None:
    said, _ = demo_run
    asked = ORDERS + 1 + sum(each.times for each in TROUBLES.values() if each.seen)
    assert sum(said["endings"].values()) == sum(said["outcomes"].values()) == asked
    assert said["endings"]["answered"] == said["outcomes"]["answered"]
    assert said["differences"] == []
    assert said["is_fine"]


def test_all_that_is_kept_is_for_its_owner(demo_run: Run) -> None:
    _, directory = demo_run
    found = {(path.is_dir(), stat.S_IMODE(path.lstat().st_mode)) for path in (directory, *directory.rglob("*"))}
    assert found == {(True, 0o700), (False, 0o600)}


def test_every_trouble_is_found_as_often_as_it_was_caused(demo_run: Run) -> None:
    said, _ = demo_run
    for met in said["troubles"]:
        trouble = TROUBLES[met["name"]]
        assert met["shown"] == dict.fromkeys(trouble.shown, trouble.times), met
        assert sum(met["seen"].values()) == (trouble.times if trouble.seen else 0), met
    assert sum(said["losses"].values()) == said["outcomes"]["lost"]


def test_all_four_formats_are_on_the_wire_and_every_link_has_its_latency(demo_run: Run) -> None:
    said, _ = demo_run
    assert {link["wire_format"] for link in said["links"]} == {3, 4, 5, 6}
    newest = {name: max(role.formats) for name, role in ROLES.items()}
    for link in said["links"]:
        if link["from_node"] != STRANGER:
            assert link["wire_format"] == newest[link["to_node"]], link
            assert link["p50_us"] <= link["p95_us"] <= link["p99_us"]
            assert 0 <= link["lost"] < link["sent"]


def test_the_rows_add_up(demo_run: Run) -> None:
    said, _ = demo_run
    balance = said["balance"]
    assert balance["rows_in"] == balance["message_count"] + balance["quarantine_count"] + balance["skipped_rows"]
    assert sum(said["quarantine"].values()) == TROUBLES["broken"].times
    assert balance["quarantine_count"] == 2 * TROUBLES["broken"].times  # as they came, and as dead letters
    assert said["verdicts"]["invalid"] == TROUBLES["forged"].times + TROUBLES["altered"].times


def test_what_it_kept_can_be_looked_at(demo_run: Run) -> None:
    _, directory = demo_run
    shown = hopwire("flows", "show", str(directory / "lake"), "missed-001", columns=100)
    assert shown.code == 0
    assert "DEAD: unreachable" in shown.out
    assert hopwire("flows", "ls", str(directory / "lake"), "--outcome", "expired").code == 0
    assert hopwire("lake", "tables", str(directory / "lake")).code == 0
    assert hopwire("capture", "ls", str(directory / "captures")).code == 0


def test_a_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", "utf-8")
    found = hopwire("demo", "--keep", str(tmp_path))
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "expected a new directory" in found.err


@pytest.mark.slow
def test_without_spark_the_network_runs_and_one_line_says_what_is_missing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, "demo", "--orders", "10"],
        capture_output=True,
        text=True,
        env=environment(TMPDIR=str(tmp_path)),
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("pip install") == 1
    assert "Unreachable" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_kill_leave_no_process_and_no_file(tmp_path: Path, how: signal.Signals) -> None:
    with subprocess.Popen(
        command("demo"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(TMPDIR=str(tmp_path)),
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    ) as running:
        _wait_until(lambda: len(list(tmp_path.glob("*/captures/*"))) >= len(ROLES))
        children = _children_of(running.pid)
        running.send_signal(how)
        out, err = running.communicate(timeout=SECONDS)
    assert (running.returncode, out, err) == (130, b"", b"hopwire: interrupted\n")
    assert len(children) >= len(ROLES)
    assert not any(Path("/proc", str(child)).exists() for child in children)
    assert list(tmp_path.iterdir()) == []


def _children_of(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = (map(int, line.split()) for line in listed.splitlines())
    return [child for child, parent in pairs if parent == pid]


def _wait_until(is_so: Callable[[], bool], seconds: float = 60) -> None:
    give_up_at = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
