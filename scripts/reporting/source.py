"""The input of a report: the --out directory of a run, or the database of a sweep."""

import pathlib
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from lib import old_names, summaries
from sweeping import database
from sweeping.database import DATABASE, FIRST_COLUMNS, is_sweep


class Error(Exception):
    """A one-line error: no report can be made from this input."""


@dataclass
class Point:
    """One run: its settings, its results, and the folder of its files."""

    number: int
    label: str  # what tells it from the others
    status: str  # done, failed, missing
    platform: str
    files: pathlib.Path | None  # what the executable wrote
    error: str = ""
    kind: str = ""
    model: str = ""
    values: dict[str, object] = field(default_factory=dict)  # of the axes
    objective: float | None = None
    metrics: dict[str, object] = field(default_factory=dict)  # under dotted names

    def ranks(self, group: str | None = None) -> int:
        """The number of GPUs of one group of ranks, or of all ranks; 0 if the files of the run do not contain it."""
        if self.files is None:
            return 0
        path = self.files / "summary.json"
        memory = summaries.read(path).get("memory", {}) if path.exists() else {}
        return sum(len({rank["gpu"] for rank in ranks}) for name, ranks in memory.items() if group in (None, name))


@dataclass
class Subject:
    """A run (one point, no axes) or a sweep."""

    directory: pathlib.Path
    title: str
    points: list[Point]
    axes: dict[str, list[str]] = field(default_factory=dict)  # names of those that vary, and the scenario's keys they set
    objective: str = ""  # an expression, smallest or largest best
    largest_is_best: bool = False

    @property
    def is_sweep(self) -> bool:
        return is_sweep(self.directory)

    def row(self, point: Point) -> int | None:
        """The number of the run, if the page has a table of runs."""
        return point.number if self.is_sweep else None

    @property
    def done(self) -> list[Point]:
        return [point for point in self.points if point.status == "done"]

    def ranked(self) -> list[Point]:
        """Finished points, the best first; without an objective, in their original order."""
        sign = -1 if self.largest_is_best else 1
        return sorted(self.done, key=lambda point: (point.objective is None, sign * (point.objective or 0)))


def mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.fmean(known) if known else None


def read(directory: pathlib.Path) -> Subject:
    if is_sweep(directory):
        return _sweep(directory)
    if not (directory / "summary.json").exists():
        raise Error(f"{directory}: neither the --out directory of a run nor a sweep's: no summary.json, no {DATABASE}")
    summary = summaries.read(directory / "summary.json")
    label, model, kind = summaries.title(summary), summary.get("model", ""), summary["kind"]
    title = label + (f", {kind}" if model else "") + ("" if summary["complete"] else " (incomplete)")
    point = Point(
        0, label, "done", summary["platform"], directory, kind=kind, model=model, metrics=summaries.metrics(summary)
    )
    return Subject(directory, title, [point])


def _sweep(directory: pathlib.Path) -> Subject:
    found = database.read(directory)
    rows = found.rows
    axes = {name: keys for name, keys in found.axes.items() if len({row[name] for row in rows}) > 1}
    told_apart = list(axes)
    if len({tuple(row[name] for name in told_apart) for row in rows}) < len(rows):
        told_apart.append("seed")
    goal, _, objective = found.objective.partition(" ")
    points = [_point(directory, row, number, found.axes, told_apart) for number, row in enumerate(rows)]
    return Subject(directory, f"Sweep {directory.resolve().name}", points, axes, objective, goal == "maximise")


def _point(directory: pathlib.Path, row: dict, number: int, axes: Iterable[str], told_apart: list[str]) -> Point:
    done = row["status"] == "done"
    point = Point(
        number,
        ", ".join(f"{name}={row[name]}" for name in told_apart) or row["id"],
        row["status"],
        row["platform"],
        directory / row["directory"] / "out" if done else None,
        row["error"] or "",
        row["kind"] or "",
        row["model"] or "",
        {name: row[name] for name in axes},
        row["objective"],
    )
    for column, value in row.items():
        if column not in FIRST_COLUMNS and column not in axes and value is not None:
            point.metrics[old_names.today(column.removeprefix("metric."))] = value
    return point
