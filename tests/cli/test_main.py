"""The command as a user runs it: codes, single lines, no traceback, whatever happens to it."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from hopwire.cli.exits import EXIT_CODES, ExitCode
from hopwire.cli.main import COMMANDS, GROUPS, app, run
from hopwire.cli.usage_examples import EXAMPLES, FIRST_STEPS
from hopwire.model import Message
from hopwire.wire import V6, encode
from tests.cli.running import ROOT, SECONDS, VECTORS, command, environment, heed_ctrl_c, hopwire, process

GOOD = [frame.hex() for frame in encode(Message("Größe".encode()), V6)]


# fmt: off
WRONG_USAGE = [
    (["zzz"],                           "No such command 'zzz'; hopwire --help shows how"),
    (["simulat"],                       "No such command 'simulat'. Did you mean 'simulate'?"),
    (["keys", "new"],
                 "Missing argument 'kind'. Choose from: authority, node, domain; hopwire keys new --help shows how"),
    (["tell", "tcp://127.0.0.1:1", "\udcff", "{}"],
                 r"found \xff, which is not UTF-8; write it in UTF-8"),
    (["decode", "--nope"],              "No such option: --nope; hopwire decode --help shows how"),
    (["decode", "--file", "/dev/zero"], "/dev/zero: is a device, expected a file; - is stdin"),
    (["config", "show", "-c", "/dev/zero"], "/dev/zero: is a device, expected a regular file"),
    (["decode", "--domains", "/dev/zero", "00"],
                             "cannot read the domains /dev/zero: is a device, expected a regular file"),
    (["decode", "zz"],                 "argument 1: found 'zz', expected one frame in hex; a file is read with --file"),
    (["decode", "--file", "/no/such"],  "/no/such: No such file or directory"),
    (["encode", "--to", "V7"],          "--to: found 'V7', expected one of V3, V4, V5, V6"),
]
# fmt: on


@pytest.mark.parametrize(("arguments", "line"), WRONG_USAGE)
def test_wrong_usage_is_one_line_and_code_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == ExitCode.USAGE
    assert tuple(capsys.readouterr()) == ("", f"hopwire: {line}\n")


@pytest.mark.parametrize("arguments", [["demo", "--orders", "x"], ["demo", "--orders", "0"]])
def test_a_bad_number_is_one_line_and_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert error.startswith("hopwire: Invalid value for '--orders'")
    assert error.count("\n") == 1


def test_a_bad_message_is_code_1_and_a_good_one_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["decode", *GOOD]) == ExitCode.FINE
    assert run(["decode", *GOOD[:-1]]) == ExitCode.BAD
    assert capsys.readouterr().err == ""


def test_version_and_help_are_fine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("hopwire ")
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(command.__name__ in shown for command in COMMANDS)


def test_without_a_command_it_shows_what_to_try_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == ExitCode.FINE
    shown = capsys.readouterr().out
    assert all(command in shown and what in shown for command, what in FIRST_STEPS)
    assert len(shown.splitlines()) < 24
    assert max(map(len, shown.splitlines())) <= 80


# -- the voice of all helps

WHOLE: Any = get_command(app)
PATHS = [[command.__name__] for command in COMMANDS]
PATHS += [[name, command.__name__] for name, (_, group) in GROUPS.items() for command in group]


def found_command(words: list[str]) -> tuple[Any, list[str]]:
    """Give the command that words name, and the words behind its name."""
    found = WHOLE
    while hasattr(found, "commands"):
        found, words = found.commands[words[0]], words[1:]
    return found, words


def test_every_help_has_an_example_of_its_own() -> None:
    for path in PATHS:
        example = EXAMPLES[" ".join(path)]
        assert shlex.split(example)[: len(path) + 1] == ["hopwire", *path]
        shown = hopwire(*path, "--help")
        assert shown.code == 0, path
        assert f"Example:\n\n    {example}\n" in shown.out


def test_every_example_can_be_read_by_its_command() -> None:
    for line in [*EXAMPLES.values(), *(line for line, _ in FIRST_STEPS)]:
        found, words = found_command(shlex.split(line)[1:])
        assert found.make_context(found.name, words).params, line


GUIDES = ["start.md", "security.md", "deployment.md", "howto/*.md", "tutorials/*.md"]


def test_every_command_of_the_guides_can_be_read() -> None:
    pages = [page for pattern in GUIDES for page in (ROOT / "docs").glob(pattern)]
    blocks = [block for page in pages for block in re.findall(r"```\n(.*?)```", page.read_text("utf-8"), re.DOTALL)]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    commands = [line.partition(" | ")[0] for line in lines if line.startswith("hopwire ")]
    assert len(commands) > 15
    for line in commands:
        found, words = found_command(shlex.split(line, comments=True)[1:])
        assert found.make_context(found.name, words).params, line


def test_every_help_speaks_in_whole_sentences() -> None:
    for path in PATHS:
        found, _ = found_command(path)
        assert re.match(r"[A-Z][a-z]+ .*[.]", " ".join(found.help.split())), path
        for option in found.params:
            assert re.fullmatch(r"\S.*[.]", option.help or ""), (path, option.name)


def test_every_command_can_answer_in_json() -> None:
    for path in PATHS:
        found, _ = found_command(path)
        assert "--json" in [name for option in found.params for name in option.opts], path


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_every_list_of_commands_fits_80_columns_without_cutting_a_sentence(group: str) -> None:
    shown = hopwire(*group.split(), "--help", columns=80).out
    listed = shown.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert listed
    assert [line for line in listed if not line.endswith(".") or line.endswith("...") or len(line) > 80] == []


def test_the_table_of_examples_has_no_command_that_is_none() -> None:
    assert sorted(EXAMPLES) == sorted(map(" ".join, PATHS))


def asked_by_a_shell(words: str) -> dict[str, str]:
    """Give the environment in which a shell asks how the last word goes on."""
    return {"_HOPWIRE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}


@pytest.mark.parametrize(("words", "expected"), [
    ("hopwire fl", "flows"),
    ("hopwire flows ex", "export"),
    ("hopwire doctor --pe", "--peer"),
])  # fmt: skip
def test_commands_and_options_are_completed(
    words: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in asked_by_a_shell(words).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        run([])
    assert (ended.value.code, capsys.readouterr().out.split()) == (0, [expected])


@pytest.mark.slow
def test_a_shell_can_complete_commands_and_options() -> None:
    found = process(given=b"", **asked_by_a_shell("hopwire flows export --en"))
    assert (found.code, found.out.split()) == (0, ["--endpoint"])


@pytest.mark.slow
def test_a_shell_gets_the_script_for_it() -> None:
    assert "complete" in process(_HOPWIRE_COMPLETE="source_bash").out


@pytest.mark.parametrize("name", [command.__name__ for command in COMMANDS])
def test_every_command_has_its_help(name: str) -> None:
    assert hopwire(name, "--help").code == 0


def test_every_exit_code_has_a_meaning_and_stands_in_the_help() -> None:
    assert list(EXIT_CODES) == list(ExitCode)
    text = " ".join(hopwire("--help").out.split())
    assert all(f"{code:d} {meaning}" in text for code, meaning in EXIT_CODES.items())


def test_ctrl_c_in_a_command_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hopwire.cli.decode.given_from_arguments", interrupted)
    assert run(["decode", *GOOD]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().err == "hopwire: interrupted\n"


def test_what_nobody_foresaw_is_one_line_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by nothing\nand more")

    monkeypatch.delenv("HOPWIRE_TRACEBACK", raising=False)
    monkeypatch.setattr("hopwire.cli.decode.given_from_arguments", fail)
    line = "hopwire: internal fault: ZeroDivisionError: by nothing (HOPWIRE_TRACEBACK=1 shows where)\n"
    assert run(["decode", *GOOD]) == ExitCode.FAULT
    assert capsys.readouterr().err == line
    monkeypatch.setenv("HOPWIRE_TRACEBACK", "1")
    assert run(["decode", *GOOD]) == ExitCode.FAULT
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith(line)


def test_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("hopwire.cli.decode.given_from_arguments", fail)
    assert run(["decode", *GOOD]) == ExitCode.USAGE
    assert capsys.readouterr().err == "hopwire: there is not enough memory; take less at once, or allow more\n"


# -- as a process


@pytest.mark.slow
def test_output_that_is_closed_is_one_line() -> None:
    arguments = ["sh", "-c", 'exec "$@" >&-', "sh", *command("decode", *GOOD)]
    done = subprocess.run(arguments, stderr=subprocess.PIPE, env=environment(), timeout=SECONDS)
    assert done.returncode == ExitCode.CLOSED
    assert done.stderr == b"hopwire: the output is closed; send it somewhere, such as to /dev/null\n"


@pytest.mark.slow
def test_decode_and_encode_work_as_processes() -> None:
    file = VECTORS / "v5.jsonl"
    decoded = process("decode", "--json", "--file", str(file))
    assert (decoded.code, decoded.err) == (0, "")
    encoded = process("encode", "--json", given=decoded.out.encode())
    assert (encoded.code, encoded.err) == (0, "")
    frames = [json.loads(line)["frames"] for line in encoded.out.splitlines()]
    assert frames == [json.loads(line)["frames"] for line in file.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_a_user_never_sees_a_traceback() -> None:
    for arguments, code in ((("decode", "zz"), 2), (("decode", *GOOD[:-1]), 1)):
        found = process(*arguments)
        assert found.code == code
        assert "Traceback" not in found.err
        assert found.err.count("\n") == (code == 2)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--full", "--json"])
def test_a_reader_that_goes_away_ends_it_quietly(option: str) -> None:
    arguments = command("decode", option, "--file", str(VECTORS / "v6.jsonl"))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == ExitCode.CLOSED


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_kill_end_it_with_one_line(how: signal.Signals) -> None:
    arguments = command("decode", "--json", "--file", "-")
    with subprocess.Popen(
        arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=heed_ctrl_c,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(json.dumps(GOOD).encode() + b"\n")
        running.stdin.flush()
        running.send_signal(how) if running.stdout.readline() else None
        assert running.stderr.read() == b"hopwire: interrupted\n"
    assert running.returncode == ExitCode.INTERRUPTED


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_its_table_too() -> None:
    found = process("decode", *GOOD, PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert (found.code, found.err) == (0, "")
    assert "Gr\\xf6\\xdfe" in found.out


@pytest.mark.slow
def test_without_typer_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')", "utf-8")
    path = f"{tmp_path}:{environment()['PYTHONPATH']}"
    found = process("decode", *GOOD, PYTHONPATH=path)
    assert (found.code, found.out) == (2, "")
    assert found.err == 'hopwire: typer is not installed: pip install "hopwire[cli]"\n'
