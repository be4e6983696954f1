"""The runs to compare: directories that --out wrote, or points of a sweep."""

import os
import pathlib

from lib import critical_path, run_files, summaries
from lib.run_files import Maybe
from sweeping.database import DATABASE, is_sweep, opened

from . import labels


class Error(Exception):
    """Input that cannot be compared, in one line."""


class Run:
    """The content of a run's directory: metrics, links, waiting times of messages, and critical paths (with --why)."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.summary = summaries.read(os.path.join(directory, "summary.json"))
        self.label = ""
        self.metrics = summaries.metrics(self.summary)
        self.links = {link_name(link): link for link in self.summary["links"]}
        self.waits = _read_waits(os.path.join(directory, "links.csv"))
        self.paths = {path.metric: path for path in critical_path.read(pathlib.Path(directory))}


def link_name(link: dict) -> str:
    return f"{link['name']} {link['direction']}"


def _read_waits(path: str) -> dict[tuple[str, str], float]:
    """Time that messages waited for each link, (class, link) to seconds."""
    columns = {"name": str, "direction": str, "waited_*": run_files.number}
    return {
        (column[len("waited_") : -len("_s")], link_name(row)): value
        for row in run_files.table(path, columns, "the links of a run")
        for column, value in row.items()
        if column.startswith("waited_")
    }


def _point(text: str, sweep: pathlib.Path, wanted: str) -> str:
    """A point of a sweep by `AXIS=VALUE,...`. @return its directory"""
    conditions = []
    for word in wanted.split(","):
        name, equals, value = word.partition("=")
        if not equals:
            raise Error(f"{text}: '{word}' is not AXIS=VALUE")
        conditions.append((name, value))
    with opened(sweep) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(runs)")]
        for name, _ in conditions:
            if name not in columns:
                raise Error(f"{text}: no axis '{name}'; there are: {', '.join(columns)}")
        where = " AND ".join(f'CAST("{name}" AS TEXT) = ?' for name, _ in conditions)
        query = f"SELECT status, directory, error FROM runs WHERE {where}"
        found = database.execute(query, [value for _, value in conditions]).fetchall()
    if len(found) != 1:
        raise Error(f"{text}: {len(found)} points of the sweep match; expected exactly one")
    run_files.check(sweep / DATABASE, list(found[0]), [Maybe(str)], "runs")
    (status, directory, error), = found
    if status == "done" and directory is None:
        raise run_files.Error(sweep / DATABASE, "no directory of a point that is done")
    if status != "done":
        raise Error(f"{text}: {status}" + (f": {error}" if error else ""))
    return str(sweep / directory / "out")


def _point_labels(texts: list[str]) -> list[str] | None:
    """Labels of points of one sweep: their conditions, without those that all points share."""
    sweeps, wanted = zip(*(text.rpartition(":")[::2] for text in texts))
    if len(set(sweeps)) > 1:
        return None
    words = [text.split(",") for text in wanted]
    labels = [",".join(word for word in own if not all(word in other for other in words)) for own in words]
    return labels if all(labels) and len(set(labels)) == len(labels) else list(wanted)


def _labels(arguments: list[str], points: dict[str, str], runs: list[Run]) -> list[str]:
    """Labels: axes for points of one sweep; otherwise differing keys, or else paths."""
    found = _point_labels(arguments) if len(points) == len(arguments) else None
    found = found or labels.by_differences([run.directory for run in runs], [run.summary for run in runs])
    if not found:
        directories = [text for text in arguments if text not in points]
        names = dict(zip(directories, labels.tails(directories)))
        found = [names.get(text, text) for text in arguments]
    return found


def read(arguments: list[str]) -> list[Run]:
    """@param arguments  directories of runs, or DIRECTORY:AXIS=VALUE,... of sweeps"""
    points: dict[str, str] = {}
    for text in arguments:
        sweep, colon, wanted = text.rpartition(":")
        if colon and not os.path.isdir(text) and is_sweep(pathlib.Path(sweep)):
            points[text] = _point(text, pathlib.Path(sweep), wanted)
        elif is_sweep(pathlib.Path(text)):
            raise Error(f"{text}: is a sweep; select one of its points: {text}:AXIS=VALUE,...")
    directories = [os.path.abspath(points.get(text, text)) for text in arguments]
    if twice := next((text for text, directory in zip(arguments, directories) if directories.count(directory) > 1), None):
        raise Error(f"{twice}: given twice")
    runs = [Run(points.get(text, text)) for text in arguments]
    if len(runs) < 2:
        raise Error("nothing to compare; give at least two runs")
    kinds = sorted({run.summary["kind"] for run in runs})
    if len(kinds) > 1:
        raise Error("runs of different kinds: " + ", ".join(kinds))
    for run, label in zip(runs, _labels(arguments, points, runs)):
        run.label = label if run.summary["complete"] else label + " (incomplete)"
    return runs
