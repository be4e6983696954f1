"""Reads the database of a sweep. store.py describes its content."""

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

from lib import run_files
from lib.run_files import Maybe

DATABASE = "results.sqlite"
SCHEMA_VERSION = 1
FIRST_COLUMNS = ("position", "id", "platform", "seed", "status", "error", "directory", "kind", "model", "objective")
STATUSES = ("done", "failed", "missing")


def is_sweep(directory: pathlib.Path) -> bool:
    return (directory / DATABASE).exists()


@dataclass
class Runs:
    """The table `runs`, and the description of its columns from the table `meta`."""

    axes: dict[str, list[str]]  # by name, the keys that they set
    objective: str  # "minimise EXPRESSION", "maximise EXPRESSION" or nothing
    rows: list[dict]


@contextlib.contextmanager
def opened(directory: pathlib.Path) -> Iterator[sqlite3.Connection]:
    """The database of the sweep in this directory. @throws run_files.Error, also for errors while the caller uses the database"""
    path = directory / DATABASE
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            version = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
            if version != (str(SCHEMA_VERSION),):
                raise run_files.Error(path, f"schema_version is not {SCHEMA_VERSION}; written by another version of Railyard?")
            yield connection
    except (sqlite3.Error, UnicodeError) as error:
        raise run_files.Error(path, f"no database of a sweep: {error}") from error


def _status(value: object) -> None:
    if not isinstance(value, str) or value not in STATUSES:
        raise ValueError(f"one of {', '.join(STATUSES)}")


def _cell(value: object) -> None:
    if isinstance(value, bytes) or isinstance(value, float) and not abs(value) < run_files.LARGEST:
        raise ValueError("a number or text")


ROW = {
    "position": int,
    "id": str,
    "platform": str,
    "seed": int,
    "status": _status,
    "error": Maybe(str),
    "directory": Maybe(str),
    "kind": Maybe(str),
    "model": Maybe(str),
    "objective": Maybe(float),
    None: _cell,
}


def read(directory: pathlib.Path) -> Runs:
    path = directory / DATABASE
    with opened(directory) as connection:
        meta = dict(connection.execute("SELECT key, value FROM meta"))
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM runs ORDER BY position")]
    run_files.check(path, meta, {"axes": str, "objective": str}, "meta")
    axes = run_files.json_text_of(path, meta["axes"], [{"name": str, "keys": [str]}], "meta.axes")
    names = {axis["name"]: axis["keys"] for axis in axes}
    run_files.check(path, rows, [{**ROW, **dict.fromkeys(names, _cell)}], "runs")
    for number, row in enumerate(rows):
        if row["status"] == "done" and row["directory"] is None:
            raise run_files.Error(path, f"runs[{number}].directory: is missing of a point that is done")
    return Runs(names, meta["objective"], rows)
