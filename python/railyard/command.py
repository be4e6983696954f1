"""The command `railyard`: where it is, and its errors as exceptions."""

import difflib
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

BAD_INPUT, NO_PROGRESS = 2, 3  # exit statuses
_OF_SOURCES = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "railyard"


class RunFailed(RuntimeError):
    """The command failed; the message is what it said."""


class InputError(RunFailed, ValueError):
    """A line about the input: file, line, column, what is wrong, what is accepted."""


class NoProgress(RunFailed):
    """A run that cannot go on: which job waits for what."""


def command() -> str:
    """The command: the environment variable RAILYARD; `railyard` in PATH; or that of the sources which contain this package.

    @throws FileNotFoundError if there is none
    """
    if path := os.environ.get("RAILYARD"):
        return path
    if path := shutil.which("railyard"):
        return path
    if _OF_SOURCES.exists():
        return str(_OF_SOURCES)
    raise FileNotFoundError("no command 'railyard': install Railyard, add its bin/ to PATH, or set RAILYARD to the command")


def shipped(name: str) -> pathlib.Path:
    """A file below scenarios/ of the installation, such as models/llama-3.1-8b.json.

    @throws FileNotFoundError if there is none
    """
    folder = pathlib.Path(command()).resolve().parents[1] / "scenarios"
    path = folder / name
    if not path.is_file():
        close = difflib.get_close_matches(name, [other.relative_to(folder).as_posix() for other in folder.rglob("*.*")], 1)
        raise FileNotFoundError(f"{path}: no such file" + (f" (did you mean '{close[0]}'?)" if close else ""))
    return path


def call(words: Sequence[object]) -> str:
    """The output of the command. @throws RunFailed and its kinds"""
    done = subprocess.run([command(), *map(str, words)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return done.stdout
    kind = {BAD_INPUT: InputError, NO_PROGRESS: NoProgress}.get(done.returncode, RunFailed)
    raise kind(done.stderr.strip() or f"exit status {done.returncode}")
