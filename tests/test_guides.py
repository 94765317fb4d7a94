"""The code in the guides runs, and prints what it should."""

from __future__ import annotations

import importlib.util
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from hopwire.domains_file import domains_from_file
from tests.cli.running import SECONDS, command, environment
from tests.ports import free_port
from tests.transcripts import assert_shown, blocks, plain, printed, steps

DOCS = Path(__file__).parents[1] / "docs"

PRINTED = {
    "network.md": """\
Greeting(text='hello Ada')
Greeting(text='hello Ada')
hello Eve
no_route {'no_route': 1}
Handled(contract='bank.deposit v1', choose='key', key='account', actors=3, nodes=1)
[10, 20, 30, 40]
Greeting(text='hello Ada')
Patient.on_start no database yet 0.1
Patient.on_start no database yet 0.2
[0, 1, 2, 3, 4]
no_route greeter.greet
MessageGivenUp(reason='no_route', contract='greeter.greet v1', detail='')
True [True]
hello Ada
Greeting(text='hello Ann')
drained: True
hello Bob [0, 1, 2]
hello Eve
""",
    "index.md": "hello Ada\n",
    "messages.md": "unknown_version 2 0\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["network.md", "index.md", "messages.md", "tutorials/network.md", "howto/replaying.md"]
)
def test_the_code_of_a_guide_runs_from_top_to_bottom(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks(f"docs/{name}", "python")), name, "exec"), {"__name__": name})
    assert capsys.readouterr().out == PRINTED.get(name, "".join(blocks(f"docs/{name}", "text")))


@pytest.mark.slow
def test_the_commands_on_the_page_of_messages_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    assert assert_shown("docs/messages.md") > 3


def _masked(text: str) -> str:
    """Give a text in which times, ids and sizes are all the same."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    return re.sub(r"\d+ bytes", "N bytes", re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text))


@pytest.mark.slow
def test_the_first_five_minutes_go_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("docs/start.md", "python")
    (tmp_path / "shop.py").write_text(code, encoding="utf-8")
    port = f":{free_port()}"
    (start, listens), *others = steps("docs/start.md")
    arguments = shlex.split(start.replace(":7400", port))[1:]
    with subprocess.Popen(command(*arguments), env=environment(), stderr=subprocess.PIPE, text=True) as node:
        try:
            assert node.stderr is not None
            assert _masked(node.stderr.readline()) == _masked(listens).replace(":7400", port)
            for asked, shown in others[:3]:
                assert printed(asked.replace(":7400", port)) == shown.replace(":7400", port)
        finally:
            node.send_signal(signal.SIGTERM)
            node.communicate(timeout=SECONDS)
    assert node.returncode == 0
    ((read, shown),) = others[3:]
    assert _masked(plain(printed(read))) == _masked(plain(shown))


@pytest.mark.parametrize("name", ["deployment.md", "network.md"])
def test_domains_files_of_the_guides_can_be_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [block for block in blocks(f"docs/{name}", "toml") if "[domains." in block]
    assert files
    for text in files:
        for secret in re.findall(r'secret_name = "(\w+)"', text):
            monkeypatch.setenv(secret, "sixteen bytes or more")
        (tmp_path / "domains.toml").write_text(text, encoding="utf-8")
        assert domains_from_file(tmp_path / "domains.toml").find(b"hopwire.hello")


def test_every_link_leads_somewhere() -> None:
    links = [
        (path, link)
        for path in sorted(DOCS.rglob("*.md"))
        for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text(encoding="utf-8"))
    ]
    assert links
    assert [f"{path.name}: {link}" for path, link in links if not (path.parent / link).exists()] == []


def test_every_option_of_every_call_has_its_line() -> None:
    spec = importlib.util.spec_from_file_location("option_tables", DOCS / "option_tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert (DOCS / "calls.md").read_text(encoding="utf-8").endswith(tables.calls())
