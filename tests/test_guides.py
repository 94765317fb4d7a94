"""The code in the guides runs, and prints what it should."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

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
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_code_of_a_guide_runs_from_top_to_bottom(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(compile("\n".join(blocks), name, "exec"), {"__name__": name})
    assert capsys.readouterr().out == PRINTED[name]


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


def test_every_option_of_every_call_has_its_line() -> None:
    spec = importlib.util.spec_from_file_location("option_tables", DOCS / "option_tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert (DOCS / "calls.md").read_text(encoding="utf-8").endswith(tables.calls())
