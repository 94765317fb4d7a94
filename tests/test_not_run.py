"""What was not run is said at the end of a test run, with how to run it."""

from __future__ import annotations

from tests.conftest import missing_tools


def test_tests_that_need_a_program_are_counted_by_program() -> None:
    skipped = [
        "('tests/web/test_browser.py', 20, 'Skipped: NOT INSTALLED: chromium, in which the page is tried')",
        "('tests/web/test_browser.py', 20, 'Skipped: NOT INSTALLED: chromium, in which the page is tried')",
        "('tests/cli/tshark.py', 20, 'Skipped: NOT INSTALLED: tshark, in which the dissector is tried')",
        "('tests/test_foreign_programs.py', 20, 'Skipped: NOT INSTALLED: libzmq3-dev, for a program in C')",
        "('tests/x.py', 1, 'Skipped: not on this system')",
    ]
    assert missing_tools(skipped) == [
        "NOT RUN: 2 tests that need chromium; run them: apt-get install chromium, then make test",
        "NOT RUN: 1 tests that need libzmq3-dev; run them: apt-get install libzmq3-dev, then make test",
        "NOT RUN: 1 tests that need tshark; run them: apt-get install tshark, then make test",
    ]
    assert missing_tools(skipped[4:]) == []
