"""The directory of a sweep: finished and missing points, and the database of the results.

  points/ID/        a run: out/summary.json if it is done, error.txt if it failed
  bin/HASH/         copies of the executables from which the ids of the points were made; a build during the sweep does not change them
  tasks/N/          inputs and logs of the tasks of a cluster
  results.sqlite    rebuilt completely from points/ at the end of each call; tables:
    meta (key, value)   schema_version, sweep (its text), axes and platforms (JSON), objective
    runs                one row for each point: position, id, platform, seed, status (done, failed, missing), error, directory, kind,
                        model, objective, one column for each axis, and one for each metric of summary.json (`exposed_s.tp`)
    cost                the cost of each run on its computer: wall_s, peak_rss_bytes, ...; all other tables are repeatable
"""

import collections
import contextlib
import csv
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lib import request_times, run_files, runner, summaries, written
from lib.yaml_source import InputError

from .database import DATABASE, FIRST_COLUMNS, SCHEMA_VERSION, opened
from .expressions import ExpressionError
from .identity import DIGITS, contents
from .plan import Sweep, SweepPoint

SUMMARY = {"metrics": {None: run_files.Any}, "simulator?": {None: run_files.Any}}
MOST_COLUMNS = 2000  # of a table in SQLite, as it is built by default


@dataclass
class Job:
    """A point and its id."""

    id: str
    point: SweepPoint
    limit_s: float | None = None  # of wall time

    def runnable(self) -> runner.Point:
        point = self.point
        return runner.Point(self.id, point.platform, point.scenario.text, point.settings, point.options, limit_s=self.limit_s)


@dataclass
class Outcome:
    """The outcome of a point: a summary, an error, or neither."""

    summary: dict | None = None
    error: str = ""
    files: pathlib.Path | None = None  # what the run wrote

    @property
    def status(self) -> str:
        return "done" if self.summary is not None else "failed" if self.error else "missing"


class Store:
    """The directory of one sweep. Only one process at a time writes to it, except the tasks of a cluster, which add points."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.points = directory / "points"
        self.bin = directory / "bin"
        self.tasks = directory / "tasks"
        self.database = directory / DATABASE
        self.lock = directory / "lock"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """A sweep that ends by an error before its first point leaves nothing. @throws InputError when another process holds it"""
        with written.folder(self.directory):
            try:
                self.points.mkdir(exist_ok=True)
                lock = open(self.lock, "w", encoding="utf-8")
            except OSError as error:
                raise InputError(f"{self.directory}: error: {error.strerror}") from error
            with lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise InputError(f"{self.directory}: error: another sweep is running in this directory") from error
                try:
                    yield
                except BaseException:
                    if not self.over() and not self.database.exists():
                        for place in (self.points, self.bin, self.tasks):
                            shutil.rmtree(place, ignore_errors=True)
                        self.lock.unlink()
                    raise

    def over(self) -> set[str]:
        """Ids of the points with a result or an error."""
        return {entry.name for entry in os.scandir(self.points) if not entry.name.startswith(".")}

    def forget_failed(self, identifiers: Iterable[str]) -> None:
        """Forgets which of these points failed, so that they run again."""
        for identifier in identifiers:
            if (self.points / identifier / runner.ERROR_FILE).exists():
                shutil.rmtree(self.points / identifier)

    def keep_executables(self, executables: pathlib.Path, platforms: list[str]) -> pathlib.Path:
        """Copies the executables. @return the directory of the copies"""
        hashes = {name: contents(str(executables / name)) for name in sorted(set(platforms))}
        kept = self.bin / hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:DIGITS]
        if not kept.exists():
            scratch = self.bin / f".{kept.name}"
            shutil.rmtree(scratch, ignore_errors=True)
            try:
                scratch.mkdir(parents=True)
                for name, digest in hashes.items():
                    with written.naming(scratch / name):
                        shutil.copy2(executables / name, scratch)
                    if contents(str(scratch / name)) != digest:
                        raise InputError(f"{executables / name}: error: changed while the sweep began; run it again")
                scratch.rename(kept)
            except BaseException:
                shutil.rmtree(scratch, ignore_errors=True)
                raise
        return kept

    def outcome(self, identifier: str) -> Outcome:
        folder = self.points / identifier
        if (folder / runner.ERROR_FILE).exists():
            return Outcome(error=(folder / runner.ERROR_FILE).read_text(encoding="utf-8", errors="backslashreplace").strip())
        if not folder.exists():
            return Outcome()
        return Outcome(run_files.json_file(folder / "out" / "summary.json", SUMMARY, "summary of a run"), files=folder / "out")

    def build(self, sweep: Sweep, jobs: list[Job], executables: pathlib.Path) -> tuple[dict[str, int], collections.Counter[str]]:
        """Writes the database. @return how many points have each status, and how many failed with each message"""
        rows, costs = [], []
        counts = {"done": 0, "failed": 0, "missing": 0}
        failures: collections.Counter[str] = collections.Counter()
        columns = dict.fromkeys((*FIRST_COLUMNS, *(axis.name for axis in sweep.axes)))
        for job in jobs:
            outcome = self.outcome(job.id)
            counts[outcome.status] += 1
            if outcome.error:
                failures[outcome.error] += 1
            row = self._row(sweep, job, outcome)
            columns |= dict.fromkeys(row)
            rows.append(row)
            if outcome.summary is not None:
                costs.append({"id": job.id} | {key: value for key, value in outcome.summary.get("simulator", {}).items()
                                               if isinstance(value, (int, float)) and not isinstance(value, bool)})
        if len(columns) > MOST_COLUMNS:
            raise InputError(f"{self.database}: error: {len(columns)} columns of axes and metrics; at most {MOST_COLUMNS} fit")
        scratch = self.database.with_name(f".{self.database.name}")
        scratch.unlink(missing_ok=True)
        with contextlib.closing(sqlite3.connect(scratch)) as database:
            with database:
                database.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
                database.executemany("INSERT INTO meta VALUES (?, ?)", self._meta(sweep, jobs, executables).items())
                _insert(database, "runs", list(columns), rows)
                _insert(database, "cost", list(dict.fromkeys(["id", *(key for cost in costs for key in cost)])), costs)
        scratch.replace(self.database)
        return counts, failures

    def _meta(self, sweep: Sweep, jobs: list[Job], executables: pathlib.Path) -> dict[str, str]:
        axes = [{"name": axis.name, "keys": axis.keys, "values": [choice.label for choice in axis.choices]}
                for axis in sweep.axes]
        platforms = {name: contents(str(executables / name)) for name in sorted({job.point.platform for job in jobs})}
        goal = "maximise" if sweep.largest_is_best else "minimise"
        return {"schema_version": str(SCHEMA_VERSION), "sweep": sweep.path.read_text(encoding="utf-8"),
                "axes": json.dumps(axes), "platforms": json.dumps(platforms),
                "objective": f"{goal} {sweep.objective.text}" if sweep.objective else "",
                "subject_to": ", ".join(limit.text for limit in sweep.limits)}

    def _row(self, sweep: Sweep, job: Job, outcome: Outcome) -> dict[str, object]:
        point = job.point
        row: dict[str, object] = {"position": point.position, "id": job.id, "status": outcome.status}
        row |= {"error": outcome.error or None, "directory": None if outcome.status == "missing" else f"points/{job.id}"}
        row |= {name: _cell(value) for name, value in point.values.items()} | {"platform": point.platform, "seed": point.seed}
        if outcome.summary is not None:
            row |= {key: outcome.summary.get(key) for key in ("kind", "model")}
            row["objective"] = objective(sweep, point, outcome)
            for name, value in summaries.metrics(outcome.summary).items():
                row[name if name not in FIRST_COLUMNS and name not in point.values else f"metric.{name}"] = _cell(value)
        return row

    def _runs(self) -> tuple[list[str], list[tuple]]:
        """The names of the columns, and the rows."""
        with opened(self.directory) as database:
            cursor = database.execute("SELECT * FROM runs ORDER BY position")
            return [column[0] for column in cursor.description], cursor.fetchall()

    def export_csv(self, path: str | os.PathLike) -> None:
        """Exports the table `runs`."""
        names, rows = self._runs()
        with written.table(path) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            writer.writerows(rows)

    def export_parquet(self, path: str | os.PathLike) -> None:
        """Exports the table `runs`. @throws ImportError without pyarrow"""
        import pyarrow  # pylint: disable=import-outside-toplevel
        import pyarrow.parquet  # pylint: disable=import-outside-toplevel

        names, rows = self._runs()
        columns = {name: _of_one_type([row[i] for row in rows]) for i, name in enumerate(names)}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)


def objective(sweep: Sweep, point: SweepPoint, outcome: Outcome) -> float | None:
    """The value of the objective; None if the run does not have the metric or it is not a number, or if the run is not within the limits."""
    if sweep.objective is None or outcome.summary is None:
        return None
    names = summaries.metrics(outcome.summary) | point.names
    for name in {name for expression, _, _ in sweep.of_metrics for name in expression.names if name not in names}:
        value = request_times.value_of(name, outcome.files) if outcome.files else None
        names |= {name: value} if value is not None else {}
    try:
        if not all(limit.value(names) is True for limit in sweep.limits):
            return None
        value = sweep.objective.value(names)
    except ExpressionError:
        return None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _of_one_type(column: list) -> list:
    """The values of a column, all as text if one of them is text: an axis can have the values 512 and `auto`."""
    if any(isinstance(value, str) for value in column):
        return [value if value is None else str(value) for value in column]
    return column


def _cell(value: object) -> object:
    """A value for SQLite, which has no booleans and no lists: these are written in the notation of the sweep file."""
    return value if value is None or type(value) in (int, float, str) else json.dumps(value)


def _insert(database: sqlite3.Connection, table: str, columns: list[str], rows: list[dict]) -> None:
    names = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
    database.execute(f"CREATE TABLE {table} ({names})")
    marks = ", ".join("?" * len(columns))
    database.executemany(f"INSERT INTO {table} VALUES ({marks})", ([row.get(column) for column in columns] for row in rows))
