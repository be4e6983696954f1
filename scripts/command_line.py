"""What the command lines of the scripts share."""

import argparse
import contextlib
import pathlib
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
BAD_INPUT = 2  # exit statuses
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and shows a script's own text as its help."""

    def __init__(self, **options) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False} | options)

    def error(self, message: str) -> None:
        self.exit(BAD_INPUT, f"{self.prog}: error: {message}\n")

    def add_executables(self) -> None:
        """--bin, the folder of the platform executables."""
        self.add_argument("--bin", type=pathlib.Path, default=BIN, metavar="DIR", help="platform executables (default build/bin)")


@contextlib.contextmanager
def one_line(program: str, *errors: type[Exception], complete: bool = False) -> Iterator[None]:
    """Ends the script with one line and BAD_INPUT when one of these errors, or one of a file, comes out of what is inside.

    @param complete  their text says where, too
    """
    try:
        yield
    except errors as error:
        sys.exit(print(error if complete else f"{program}: error: {error}", file=sys.stderr) or BAD_INPUT)
    except OSError as error:
        sys.exit(print(f"{program}: error: {error.filename}: {error.strerror}", file=sys.stderr) or BAD_INPUT)


def positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 on")
    return int(text)
