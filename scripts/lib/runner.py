"""Runs platform executables on many points in parallel. Validation and sweeps use this module.

A point is a platform, a scenario and overrides. Each point runs in a process of its own and leaves a directory with its name below the
given directory: scenario.yaml, command.txt (the command to repeat the run) and out/, the executable's --out. The directory appears
when the run is over, complete or not at all. A point that fails leaves the executable's message in error.txt and does not stop other
points. Ctrl-C ends the running processes, removes their partial output and raises KeyboardInterrupt; finished results stay. A point
that is interrupted from outside (SIGINT, SIGTERM) leaves nothing. Executables end when the process that started them ends.
"""

import concurrent.futures
import contextlib
import errno
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from . import run_files, written

WORKERS = os.cpu_count() or 1
LONGEST_NAME = 120  # of a directory
ERROR_FILE = "error.txt"
TOO_LONG = "longer than the limit of wall time"  # begins the error of a run that its limit ended
_HOST = socket.gethostname().split(".")[0]
_SCRATCH = re.compile(r"\..*\.(?P<host>[^.]*)\.(?P<pid>\d+)")  # what _scratch_name makes
_INTERRUPTED = {status for number in (signal.SIGINT, signal.SIGTERM) for status in (-number, 128 + number)}
# Where util-linux is, no executable outlives the thread that started it.
_DIE_WITH_PARENT = [setpriv, "--pdeathsig", "KILL"] if (setpriv := shutil.which("setpriv")) else []


@dataclass(frozen=True)
class Point:
    """One run. Paths inside `scenario` are absolute, overridden, or name one of `files`, whose texts are written beside the scenario.
    `overrides` are `--set` keys and their values, `options` further words of the command line. A run that takes longer than `limit_s` of
    wall time is ended, and has failed."""

    name: str
    platform: str
    scenario: dict | str  # or the text of a scenario file, taken over as it is
    overrides: dict = field(default_factory=dict)
    options: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    limit_s: float | None = None


@dataclass(frozen=True)
class Result:
    """What became of a point: a summary, or the message of a failure."""

    point: Point
    directory: pathlib.Path | None  # None: nothing ran
    summary: dict | None
    error: str
    interrupted: bool = False  # and so neither done nor failed

    @property
    def failed(self) -> bool:
        return self.summary is None


def directory_name(name: str) -> str:
    """A point's directory: its name with what file systems dislike replaced."""
    return re.sub(r"[^A-Za-z0-9._=,+-]+", "_", name).strip("_.")[:LONGEST_NAME] or "point"


def set_options(overrides: dict) -> list[str]:
    """Overrides as an executable takes them."""
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in overrides.items()}
    return [word for key, text in texts.items() for word in ("--set", f"{key}={text}")]


class _TooLong(Exception):
    """A run that took longer than its limit."""


class _Processes:
    """The processes under way; after `stop` none starts."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen] = set()
        self.stopped = False

    def run(self, command: list[str], cwd: pathlib.Path, limit_s: float | None) -> tuple[int, str]:
        """@return exit status and stderr; @throws _TooLong"""
        with self.lock:
            if self.stopped:
                return -signal.SIGTERM, "interrupted"
            # A session of its own: Ctrl-C at the terminal reaches this process only, which ends the others in order.
            process = subprocess.Popen(_DIE_WITH_PARENT + command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.running.add(process)
        try:
            _, stderr = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as over:
            process.kill()
            process.communicate()
            raise _TooLong(f"{TOO_LONG}, {limit_s:g} s") from over
        finally:
            with self.lock:
                self.running.discard(process)
        return process.returncode, stderr

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            for process in self.running:
                process.terminate()


def _message(point: Point, status: int, stderr: str) -> str:
    lines = [line for line in stderr.strip().splitlines() if line]
    what = next((line for line in lines if "error:" in line), lines[0] if lines else "")
    what = re.sub(r"^\S*scenario\.yaml:", "scenario.yaml:", what)
    if status < 0:
        return f"{point.platform} ended by signal {-status}" + (f": {what}" if what else "")
    return what or f"{point.platform}: exit status {status}"


def _scratch_name(name: str) -> str:
    return f".{name}.{_HOST}.{os.getpid()}"


def remove_abandoned(directory: pathlib.Path) -> None:
    """Removes what points were writing when a process of this host was killed."""
    for path in directory.glob(".*"):
        found = _SCRATCH.fullmatch(path.name)
        if found and found["host"] == _HOST and not os.path.exists(f"/proc/{found['pid']}"):
            shutil.rmtree(path, ignore_errors=True)


def _publish(scratch: pathlib.Path, final: pathlib.Path) -> None:
    """Puts a finished directory in its place, also where another process does the same at the same time."""
    while True:
        shutil.rmtree(final, ignore_errors=True)
        try:
            scratch.rename(final)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def _run_point(point: Point, final: pathlib.Path, executable: pathlib.Path, processes: _Processes) -> Result:
    scratch = final.with_name(_scratch_name(final.name))
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        # JSON is YAML, and needs no other package.
        text = point.scenario if isinstance(point.scenario, str) else json.dumps(point.scenario, indent=2) + "\n"
        for name, content in ({"scenario.yaml": text} | point.files).items():
            written.text(scratch / name, content)
        command = [str(executable), "scenario.yaml", "--quiet", "--out", "out", *set_options(point.overrides), *point.options]
        written.text(scratch / "command.txt", shlex.join(command) + "\n")
        if not os.access(executable, os.X_OK):
            why = os.strerror(errno.EACCES if executable.exists() else errno.ENOENT)
            return Result(point, final, None, f"{executable}: {why}")
        summary = None
        try:
            status, stderr = processes.run(command, scratch, point.limit_s)
            message = _message(point, status, stderr)
        except _TooLong as error:
            status, message = None, str(error)
        if processes.stopped or status in _INTERRUPTED:
            return Result(point, final, None, "interrupted", interrupted=True)
        if status == 0:
            try:
                summary, message = run_files.json_file(scratch / "out" / "summary.json", {}, "summary of a run"), ""
            except run_files.Error as error:
                message = f"{point.platform} left no readable summary.json: {error}"
        if message:
            written.text(scratch / ERROR_FILE, message + "\n")
        _publish(scratch, final)
        return Result(point, final, summary, message)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def completed(points: Iterable[Point], directory: str | os.PathLike, executables: str | os.PathLike,
              workers: int = WORKERS) -> Iterator[tuple[int, Result]]:
    """Runs all points, in the order given (put the long ones first), at most `workers` at a time.

    @param directory    where each point's directory goes; existing ones of the same names are replaced
    @param executables  the directory with the platform executables
    @return as points end, each one's index and result, one at a time; closing the iterator ends what runs
    @throws ValueError when two points would share a directory
    """
    points = list(points)
    names: dict[str, str] = {}
    for point in points:
        folder = directory_name(point.name)
        if folder in names:
            raise ValueError(f"points '{names[folder]}' and '{point.name}' would share the directory {folder}")
        names[folder] = point.name
    directory = pathlib.Path(directory).resolve()
    executables = pathlib.Path(executables).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    processes = _Processes()
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        waiting = enumerate(points)
        under_way: dict[concurrent.futures.Future, int] = {}
        try:
            while True:
                ready = 2 * max(1, workers) - len(under_way)  # one waits behind each that runs
                for index, point in itertools.islice(waiting, ready):
                    final = directory / directory_name(point.name)
                    under_way[pool.submit(_run_point, point, final, executables / point.platform, processes)] = index
                if not under_way:
                    return
                over, _ = concurrent.futures.wait(under_way, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in over:
                    yield under_way.pop(future), future.result()
        except BaseException:
            processes.stop()
            raise


def run(points: Iterable[Point], directory: str | os.PathLike, executables: str | os.PathLike, workers: int = WORKERS,
        report: Callable[[Result, int, int], None] | None = None) -> list[Result]:
    """As `completed`, to the end.

    @param report  called after each point: its result, how many are over, how many there are
    @return the results, in the points' order
    """
    points = list(points)
    results: dict[int, Result] = {}
    with contextlib.closing(completed(points, directory, executables, workers)) as ends:
        for index, result in ends:
            results[index] = result
            if report:
                report(result, len(results), len(points))
    return [results[index] for index in range(len(points))]
