#!/usr/bin/python3
"""Checks README.md and docs/*.md: runs the commands of a page and compares their output with the output in the page.

  scripts/pages.py                        # every page with commands; prints differences of stale pages, exit status 1
  scripts/pages.py --write                # writes current outputs and figures into the pages
  scripts/pages.py docs/tutorial.md       # this page only

What a page may contain:

  ```console blocks   `$ COMMAND` (a \\ at the end continues on the next line), then the exact stdout of the command, except numbers
                      that depend on the computer (HOST_FIGURES below). The commands of a page run in order in a copy of the
                      project with an empty out/, so your own runs are not touched
  other blocks        are not run
  numbers in prose    with a unit (UNITS below) must appear, rounded, in an output of the page: with this unit, or without a unit
                      if the unit is elsewhere, for example in the head of a table. Text in backticks is not checked, and
                      neither is a page without commands
  <!-- figures from COMMAND -->   the output of this command is not shown; numbers in prose may also come from it
  figures             ![...](PAGE/NAME) in PAGE.md; the commands write the same bytes to out/PAGE/figures/NAME
  <!-- commands take minutes -->  the tests of the project leave the page out
  <!-- drawn by COMMAND -->       before a figure: this command makes the figure. It needs a display and runs only with --write
"""

import argparse
import decimal
import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from lib.command_line import INTERRUPTED, ROOT, Parser, one_line

STALE = 1
NOT_COPIED = shutil.ignore_patterns("build*", "out", ".git", ".*_cache", "__pycache__")
SOURCES = {"models", "sc_main", "tests"}  # of C++, at the top: no command of a page reads them
HOST_FIGURES = [re.compile(r"^  simulated \S+ \S+ in (\S+) s: .* replayed\), (.*)$")]  # wall-clock time; transactions/s and memory
SECONDS = {"s": 0, "ms": -3, "us": -6, "ns": -9}  # powers of ten
UNITS = [*SECONDS, "%", "GB/s", "GB", "MB", "kB", "tokens/s", "TFLOP/s", "times"]
NUMBER = re.compile(rf"(?<![\w.])(\d+(?:\.\d+)?)(?![\w.]*\d)(?: ?({'|'.join(UNITS)})(?![\w/]))?")
FENCE = re.compile(r"^```(\w*)$")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
DRAWN = re.compile(r"^<!-- drawn by (.+) -->$")
FIGURES_FROM = re.compile(r"^<!-- figures from (.+) -->$")


class Failure(Exception):
    """Why there is nothing to compare or to write, in words for the user."""


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE.md", help="default: README.md and docs/*.md")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="compare outputs with the pages (default)")
    what.add_argument("--write", action="store_true", help="write the outputs and figures into the page")
    return parser.parse_args(arguments)


class Runner:
    """Runs the commands of a page in a copy of the project, which holds the build as a link."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.project = folder / "railyard"
        shutil.copytree(ROOT, self.project, symlinks=True, ignore=self.left_out)
        (self.project / "build").symlink_to(ROOT / "build")
        (self.project / "out").mkdir()

    @staticmethod
    def left_out(folder: str, names: list[str]) -> set[str]:
        return NOT_COPIED(folder, names) | (SOURCES & set(names) if pathlib.Path(folder) == ROOT else set())

    def __call__(self, command: str) -> list[str]:
        """What the command prints on stdout. Its stderr shows when it fails."""
        done = subprocess.run(["/bin/bash", "-c", command], cwd=self.project, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"exit status {done.returncode} of: {command}\n{done.stdout}{done.stderr}".rstrip())
        return done.stdout.splitlines()


def of_no_host(line: str) -> str:
    for pattern in HOST_FIGURES:
        if match := pattern.match(line):
            for group in range(match.re.groups, 0, -1):
                line = line[: match.start(group)] + "..." + line[match.end(group) :]
    return line


def session(lines: Sequence[str], run: Runner, outputs: list[str]) -> Iterator[str]:
    """A console block as it is today; adds to outputs. What differs in figures of the host alone stays as it was."""
    rest = list(lines)
    while rest:
        command = [rest.pop(0)]
        while command[-1].endswith("\\") and rest:
            command.append(rest.pop(0))
        if not command[0].startswith("$ "):
            raise Failure(f"a console block begins with a command, not with: {command[0]}")
        shown = []
        while rest and not rest[0].startswith("$ "):
            shown.append(rest.pop(0))
        printed = run("\n".join(command)[2:])
        outputs += printed
        same = [of_no_host(line) for line in shown] == [of_no_host(line) for line in printed]
        yield from command
        yield from shown if same else printed


def today(page: Sequence[str], run: Runner) -> tuple[list[str], list[str], list[str]]:
    """The page with today's outputs; its prose; the outputs."""
    lines, prose, outputs = [], [], []
    rest = list(page)
    while rest:
        line = rest.pop(0)
        lines.append(line)
        if not (fence := FENCE.match(line)):
            prose.append(line)
            if source := FIGURES_FROM.match(line):
                outputs += run(source[1])
            continue
        if "```" not in rest:
            raise Failure(f"a block has no end: {line}")
        end = rest.index("```")
        block = rest[:end]
        if fence[1] == "console":
            block = list(session(block, run, outputs))
        lines += [*block, "```"]
        del rest[: end + 1]
    return lines, prose, outputs


def numbers(text: str) -> Iterator[tuple[str, decimal.Decimal, str]]:
    """Those of a text: as written, value, unit or nothing."""
    for match in NUMBER.finditer(text):
        yield match[0], decimal.Decimal(match[1]), match[2] or ""


def agree(said: decimal.Decimal, unit: str, printed: decimal.Decimal, printed_unit: str) -> bool:
    """Whether a number in the prose is a printed one, rounded to the digits that it has."""
    if unit in SECONDS and printed_unit in SECONDS:
        printed = printed.scaleb(SECONDS[printed_unit] - SECONDS[unit])
    elif printed_unit not in ("", unit):
        return False
    return abs(said - printed) <= decimal.Decimal(5).scaleb(said.as_tuple().exponent - 1)


def unfounded(prose: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Numbers with a unit in the prose that no output has."""
    printed = {(value, unit) for _, value, unit in numbers("\n".join(outputs))}
    text = re.sub(r"<!--.*?-->|`[^`]*`|\]\([^)]*\)", " ", " ".join(prose))
    said = [number for number in numbers(text) if number[2]]
    return [words for words, value, unit in said if not any(agree(value, unit, *other) for other in printed)]


def figures(page: pathlib.Path, prose: Sequence[str]) -> Iterator[tuple[pathlib.Path, str, str | None]]:
    """Each figure of the page, its name in out/PAGE/figures, and the command that draws it where no console block does."""
    drawn = None
    for line in prose:
        if match := DRAWN.match(line):
            drawn = match[1]
        for link in IMAGE.findall(line):
            folder, _, name = link.partition("/")
            if folder == page.stem:
                yield page.parent / link, name, drawn
            drawn = None


def renew_figures(page: pathlib.Path, prose: Sequence[str], write: bool, run: Runner) -> list[str]:
    """With `write`, puts figures in their place. @return what is wrong"""
    wrong = []
    for shown, name, command in figures(page, prose):
        written = pathlib.Path("out", page.stem, "figures", name)
        made = run.project / written
        if command and not write:
            if not shown.is_file():
                wrong.append(f"no figure {shown.name}; --write draws it")
            continue
        if command:
            run(command)
        if not made.is_file():
            raise Failure(f"no command wrote the figure {written}")
        if write:
            shown.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made, shown)
        elif not shown.is_file() or shown.read_bytes() != made.read_bytes():
            wrong.append(f"{shown.name} differs from {written} as drawn now")
    return wrong


def renew(path: pathlib.Path, write: bool, run: Runner) -> bool:
    """Compares a page with what its commands print, or writes it. @return whether the page is right"""
    page = path.read_text(encoding="utf-8").splitlines()
    lines, prose, outputs = today(page, run)
    wrong = renew_figures(path, prose, write, run)
    wrong += [f"'{words}' in the text is in no output" for words in unfounded(prose, outputs)]
    if write:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif lines != page:
        difference = difflib.unified_diff(page, lines, "as shown", "as run", lineterm="")
        wrong.insert(0, "\n".join(["outputs have changed", *difference]))
    for message in wrong:
        print(f"{path}: {message}", file=sys.stderr)
    return not wrong


def with_commands(pages: Sequence[pathlib.Path]) -> Iterator[pathlib.Path]:
    for path in pages:
        if re.search(r"^(```console|<!-- (drawn by|figures from) .*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield path


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    with one_line("pages.py"):
        right = True
        pages = options.pages or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
        for path in with_commands(pages):
            folder = pathlib.Path(tempfile.mkdtemp())
            try:
                right = renew(path, options.write, Runner(folder)) and right
            except Failure as failure:
                sys.exit(print(f"{path}: error: {failure}", file=sys.stderr) or STALE)
            except KeyboardInterrupt:
                sys.exit(INTERRUPTED)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        if not right:
            print("scripts/pages.py --write writes outputs and figures; the text is for you", file=sys.stderr)
        sys.exit(0 if right else STALE)


if __name__ == "__main__":
    main()
