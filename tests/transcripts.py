"""Commands as pages show them: each with what it printed, run in this process.

A page has blocks of `console`; a line that begins with `$` is a command, and what follows is its output. `hopwire` is
run here, everything else (`cat`, `head`, `sed`) as a program. Pipes and `>` mean what they mean in a shell.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.cli.running import SECONDS, hopwire

ROOT = Path(__file__).parents[1]
COLUMNS = 100


class Step(NamedTuple):
    """A command and what it printed."""

    command: str
    output: str


def blocks(page: str, language: str) -> list[str]:
    """Give the blocks of a language on a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def steps(page: str) -> list[Step]:
    """Give the commands of a page, in their order."""
    found = [step for block in blocks(page, "console") for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [Step(command, output) for command, _, output in (step.partition("\n") for step in found)]


def plain(text: str) -> str:
    """Give a text without spaces at the ends of its lines."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def printed(command: str) -> str:
    """Run a command in the current directory, and give what it printed, errors last."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    words = list(lexer)
    given, told = "", ""
    while words:
        end = next((place for place, word in enumerate(words) if word in "|>"), len(words))
        part, sign, words = words[:end], words[end : end + 1], words[end + 1 :]
        if sign == [">"]:
            file, words = words[0], words[1:]
            Path(file).write_text(_run(part, given)[0], encoding="utf-8")
            given = ""
            continue
        given, error = _run(part, given)
        told += error
    return given + told


def _run(words: list[str], given: str) -> tuple[str, str]:
    if words[0] == "hopwire":
        found = hopwire(*words[1:], given=given, columns=COLUMNS)
        return found.out, found.err
    done = subprocess.run(words, input=given, capture_output=True, text=True, encoding="utf-8", timeout=SECONDS)
    return done.stdout, done.stderr


def assert_shown(page: str, wanted: Callable[[str], bool] = bool, out_only: bool = False) -> int:
    """Hold that the commands of a page print what it shows, and give how many there are."""
    chosen = [step for step in steps(page) if wanted(step.command)]
    for command, output in chosen:
        found = printed(command)
        if out_only:
            found = "\n".join(line for line in found.splitlines() if not line.startswith("hopwire: "))
        assert plain(found) == plain(output), command
    return len(chosen)
