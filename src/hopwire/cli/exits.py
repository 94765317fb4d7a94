"""How a command ends: with a code, and with one line if something is wrong; never with a traceback.

Each command is wrapped by `guarded`. An unforeseen error is a fault of hopwire itself. Such an error is one line
too; HOPWIRE_TRACEBACK=1 shows its traceback, and that of a module of the user that failed.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import wraps
from typing import NoReturn, ParamSpec

import typer

from hopwire.disk import shown_name
from hopwire.errors import BalanceError, DeliveryError, Escalated, HopwireError, PlaceError, SecurityError, WireError
from hopwire.report.words import cut, printable, printable_lines

__all__ = ["EXIT_CODES", "ExitCode", "complain", "end_if_incomplete", "fail", "guarded"]

P = ParamSpec("P")
TRACEBACK = "HOPWIRE_TRACEBACK"
SHOWN = 80  # characters of a text that is wrong


class ExitCode(IntEnum):
    """The codes that a command ends with."""

    FINE = 0
    BAD = 1
    USAGE = 2
    UNBALANCED = 3
    INCOMPLETE = 4
    NO_STORE = 5
    FAULT = 70
    INTERRUPTED = 130
    CLOSED = 141


# fmt: off
EXIT_CODES = {
    ExitCode.FINE:        "fine",
    ExitCode.BAD:         "a message is bad, refused or unanswered, an actor stopped its node, a lake is not the truth",
    ExitCode.USAGE:       "wrong usage, or input that cannot be read",
    ExitCode.UNBALANCED:  "the rows of a lake do not add up",
    ExitCode.INCOMPLETE:  "the lake is built, but some sources are bad and could not be read, or not in full",
    ExitCode.NO_STORE:    "a store of captures or lakes cannot be reached, or refuses",
    ExitCode.FAULT:       "a fault of hopwire itself",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.CLOSED:      "nobody reads the output any more",
}
# fmt: on


def complain(text: str) -> None:
    """Write one line to stderr."""
    if sys.stderr is not None:
        print(f"hopwire: {printable(' '.join(text.splitlines()))}", file=sys.stderr)


def fail(text: str, code: ExitCode) -> NoReturn:
    """Write one line to stderr and end with a code."""
    complain(text)
    raise typer.Exit(code)


def end_if_incomplete(bad: Sequence[str]) -> None:
    """Name the sources that a lake does not have in full, and end with their code, if there are any."""
    if bad:
        fail(f"could not be read, or not in full: {', '.join(bad)}", ExitCode.INCOMPLETE)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command: every error becomes one line and an exit code."""

    @wraps(command)
    def guard(*args: P.args, **kwargs: P.kwargs) -> None:
        if sys.stdout is None:  # or the next file that is opened becomes the output
            fail("the output is closed; send it somewhere, such as to /dev/null", ExitCode.CLOSED)
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(ExitCode.CLOSED) from None
        except KeyboardInterrupt:
            fail("interrupted", ExitCode.INTERRUPTED)
        except (WireError, SecurityError, DeliveryError, Escalated) as error:
            fail(str(error), ExitCode.BAD)
        except BalanceError as error:
            fail(str(error), ExitCode.UNBALANCED)
        except PlaceError as error:
            fail(str(error), ExitCode.NO_STORE)
        except HopwireError as error:
            if error.__cause__ is not None:  # what a user's own module raised
                _show_traceback(error.__cause__)
            fail(str(error), ExitCode.USAGE)
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            fail(f"{place}{error.strerror or error}", ExitCode.USAGE)
        except UnicodeEncodeError as error:  # an argument or a name of bytes that are no text
            fail(f"found {cut(shown_name(error.object), SHOWN)}, which is not UTF-8; write it in UTF-8", ExitCode.USAGE)
        except MemoryError:
            fail("there is not enough memory; take less at once, or allow more", ExitCode.USAGE)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            _fail_ourselves(error)

    return guard


def _fail_ourselves(error: Exception) -> NoReturn:
    _show_traceback(error)
    first = (str(error).splitlines() or [""])[0]
    words = f"{type(error).__name__}: {first}" if first else type(error).__name__
    fail(f"internal fault: {words} ({TRACEBACK}=1 shows where)", ExitCode.FAULT)


def _show_traceback(error: BaseException) -> None:
    if os.environ.get(TRACEBACK) == "1":
        print(printable_lines("".join(traceback.format_exception(error))), file=sys.stderr)


def _discard_output() -> None:
    """Send the rest of the output nowhere: nobody reads it, and Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
