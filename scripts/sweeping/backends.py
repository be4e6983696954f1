"""Where points run: processes of this computer, a Slurm job array, or a command for each task of another scheduler.

On a cluster, a task runs many points one after the other, so that the scheduler has few, long jobs. The result of a point is
in its place as soon as the point has finished, so the finished points of a cancelled task are kept.
"""

import contextlib
import itertools
import math
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from lib import runner, written
from lib.yaml_source import InputError

from . import task
from .store import Job, Outcome, Store

LOOK_S = 0.2  # how often points are looked for,
ASK_S = 1.0   # and Slurm is asked
SLURM_ARRAY_SIZE = 1001  # MaxArraySize where Slurm does not tell: its default
TIMED_POINTS = 50  # at most so many finished points tell how long one takes
JOB_FILE = "job"  # in a folder of tasks: the id of its Slurm job

Over = Callable[[Job, Outcome], None]


@dataclass
class Places:
    store: Store
    executables: pathlib.Path


def run_local(places: Places, jobs: list[Job], workers: int, over: Over) -> None:
    points = [job.runnable() for job in jobs]
    with contextlib.closing(runner.completed(points, places.store.points, places.executables, workers)) as ends:
        for index, result in ends:
            if not result.interrupted:
                over(jobs[index], Outcome(result.summary, result.error, result.directory / "out"))


class _Watch:
    """Reports points when their results appear in the directory."""

    def __init__(self, store: Store, jobs: list[Job], over: Over) -> None:
        self.store = store
        self.pending = {job.id: job for job in jobs}
        self.tell = over

    def look(self) -> None:
        for identifier in sorted(self.store.over() & set(self.pending)):
            self.tell(self.pending.pop(identifier), self.store.outcome(identifier))


def _seconds_per_point(places: Places, known: list[Job], jobs: list[Job], over: Over) -> tuple[float, list[Job]]:
    """The mean time of finished points; if there are none, the time of the middle point, which is run here.

    @return also the remaining jobs"""
    times = []
    for job in known[:: max(1, len(known) // TIMED_POINTS)]:
        outcome = places.store.outcome(job.id)
        if outcome.summary is not None:
            times.append(outcome.summary["simulator"]["wall_s"])
    if not times:
        middle = jobs[len(jobs) // 2]
        begun = time.monotonic()
        run_local(places, [middle], 1, over)
        times = [time.monotonic() - begun]
        jobs = [job for job in jobs if job is not middle]
    return sum(times) / len(times), jobs


def _write_tasks(places: Places, jobs: list[Job], per_task: int) -> tuple[pathlib.Path, int]:
    """Writes the files of tasks 1 to n in a new folder. @return the folder, n"""
    places.store.tasks.mkdir(exist_ok=True)
    used = [int(path.name) for path in places.store.tasks.iterdir() if path.name.isdigit()]
    folder = places.store.tasks / str(max(used, default=0) + 1)
    folder.mkdir()
    points = iter([job.runnable() for job in jobs])
    count = 0
    while share := list(itertools.islice(points, per_task)):
        count += 1
        task.write(folder / f"{count}.json", share, places.store.points, places.executables)
    return folder, count


def _command(folder: pathlib.Path, *index: str) -> list[str]:
    return ["/usr/bin/python3", str(pathlib.Path(task.__file__).resolve()), str(folder), *index]


def _said(jobs: list[Job], count: int, limit: int, folder: pathlib.Path) -> str:
    return f"{len(jobs)} points in {count} tasks, at most {limit} at a time; logs in {folder}"


class Slurm:
    """A job array, at most `limit` tasks at a time."""

    def __init__(self, options: list[str], limit: int, task_s: float) -> None:
        self.options = options
        self.limit = limit
        self.task_s = task_s
        if shutil.which("sbatch") is None:
            raise InputError("sweep.py: error: --backend slurm: sbatch is not installed; run this on a machine of the cluster")

    def run(self, places: Places, known: list[Job], jobs: list[Job], over: Over) -> None:
        watch = _Watch(places.store, jobs, over)
        for folder in sorted(places.store.tasks.glob("*/")):  # of a call that was killed
            job = folder / JOB_FILE
            if job.exists() and self._queued(job.read_text()):
                print(f"waiting for Slurm job {job.read_text()} of an earlier call", file=sys.stderr)
                self._wait(job.read_text(), watch)
            shutil.rmtree(folder)
        jobs = list(watch.pending.values())
        if not jobs:
            return
        seconds, jobs = _seconds_per_point(places, known, jobs, over)
        if not jobs:
            return
        per_task = max(math.ceil(self.task_s / max(seconds, 1e-3)), math.ceil(len(jobs) / (self._array_size() - 1)))
        folder, count = _write_tasks(places, jobs, per_task)
        command = ["sbatch", "--parsable", f"--array=1-{count}%{self.limit}", "--job-name=railyard",
                   f"--output={folder}/%a.log", *self.options, f"--wrap=exec {shlex.join(_command(folder))}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise InputError(f"sbatch: {done.stderr.strip() or f'exit status {done.returncode}'}")
        job = done.stdout.strip().split(";")[0]  # JOB;CLUSTER where there are several
        written.text(folder / JOB_FILE, job)
        print(f"Slurm job {job}: {_said(jobs, count, self.limit, folder)}", file=sys.stderr)
        try:
            self._wait(job, _Watch(places.store, jobs, over))
        except BaseException:
            subprocess.run(["scancel", job], check=False)
            raise

    def _wait(self, job: str, watch: _Watch) -> None:
        while watch.pending and self._queued(job):
            for _ in range(round(ASK_S / LOOK_S)):
                time.sleep(LOOK_S)
                watch.look()
        watch.look()

    @staticmethod
    def _queued(job: str) -> bool:
        """Whether a task waits or runs. True also if the controller does not answer, because this is temporary."""
        command = ["squeue", "--noheader", "--format=%i", f"--jobs={job}"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        return bool(asked.stdout.strip()) if asked.returncode == 0 else "Invalid job id" not in asked.stderr

    @staticmethod
    def _array_size() -> int:
        shown = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True, check=False).stdout
        for line in shown.splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "MaxArraySize" and value.strip().isdigit() and int(value) > 1:
                return int(value)
        return SLURM_ARRAY_SIZE


class Command:
    """A command for each task, such as `bsub -K {command}`, that returns when the task has finished; at most `limit` at a time."""

    def __init__(self, template: str, limit: int, task_s: float) -> None:
        self.template = template
        self.limit = limit
        self.task_s = task_s

    def run(self, places: Places, known: list[Job], jobs: list[Job], over: Over) -> None:
        seconds, jobs = _seconds_per_point(places, known, jobs, over)
        if not jobs:
            return
        shutil.rmtree(places.store.tasks, ignore_errors=True)
        folder, count = _write_tasks(places, jobs, math.ceil(self.task_s / max(seconds, 1e-3)))
        waiting = iter(range(1, count + 1))
        running: list[subprocess.Popen] = []
        watch = _Watch(places.store, jobs, over)
        print(_said(jobs, count, self.limit, folder), file=sys.stderr)
        try:
            while True:
                running = [process for process in running if process.poll() is None]
                running += [self._start(folder, index) for index in itertools.islice(waiting, self.limit - len(running))]
                watch.look()
                if not running:
                    return
                time.sleep(LOOK_S)
        except BaseException:
            (folder / task.STOP).touch()  # for tasks that the end of their command does not end
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            for process in running:
                process.wait()
            raise

    def _start(self, folder: pathlib.Path, index: int) -> subprocess.Popen:
        command = self.template.replace("{command}", shlex.join(_command(folder, str(index))))
        with open(folder / f"{index}.log", "wb") as log:
            return subprocess.Popen(command, shell=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True)
