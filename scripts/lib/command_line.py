"""Shared by the command lines of all scripts."""

import argparse
import contextlib
import pathlib
import sqlite3
import sys
from collections.abc import Iterator
from typing import NoReturn

from . import run_files, runner
from .words import nearest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "bin" if (ROOT / "bin").is_dir() else ROOT / "build" / "bin"  # installed, or in the project
BAD_INPUT = 2  # exit statuses
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, and shows the docstring of a script as its help."""

    def __init__(self, **options) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False} | options)

    def error(self, message: str) -> None:
        if message.startswith("unrecognized arguments: "):
            unknown = next((word for word in message.split() if word.startswith("-")), "")
            message += nearest(unknown.partition("=")[0], self.option_names())
        self.exit(BAD_INPUT, run_files.printable(f"{self.prog}: error: {message}") + "\n")

    def option_names(self) -> list[str]:
        """With those of its commands."""
        actions = list(self._actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # pylint: disable=protected-access
                actions += [of_command for parser in action.choices.values() for of_command in parser._actions]  # pylint: disable=protected-access
        return [name for action in actions for name in action.option_strings if name.startswith("--")]

    def add_runs(self) -> None:
        """--out, --workers and --bin of a script that always runs the same scenarios."""
        self.add_argument("--out", type=pathlib.Path, metavar="DIR", help="keep the runs here; finished runs there run again")
        self.add_argument("--workers", type=positive, default=runner.WORKERS, metavar="N", help="parallel runs (default: number of processors)")
        self.add_executables()

    def add_executables(self) -> None:
        """--bin, the folder of the platform executables."""
        self.add_argument("--bin", type=pathlib.Path, default=BIN, metavar="DIR", help="folder of the platform executables (default build/bin)")


@contextlib.contextmanager
def one_line(program: str, *errors: type[Exception], complete: bool = False) -> Iterator[None]:
    """Ends the script with one line and BAD_INPUT if the block raises one of these errors, or the error of a file that cannot be
    opened or does not have the expected content.

    @param complete  errors whose text already contains the place
    """
    try:
        yield
    except errors as error:
        _end(str(error) if complete else f"{program}: error: {error}")
    except run_files.Error as error:
        _end(f"{program}: error: {error}")
    except OSError as error:
        _end(f"{program}: error: {reason_of(error)}")
    except sqlite3.Error as error:
        _end(f"{program}: error: a database: {error}")


def reason_of(error: OSError) -> str:
    """`FILE: No space left on device`. A write to an open file does not tell the name."""
    what = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {what}" if error.filename is not None else what


def _end(message: str) -> NoReturn:
    print(run_files.printable(message), file=sys.stderr)
    sys.exit(BAD_INPUT)


def positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer of at least 1")
    return int(text)
