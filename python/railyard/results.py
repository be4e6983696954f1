"""The results of a run: metrics, and tables as lists of rows, or as DataFrames where pandas is installed."""

import csv
import functools
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

try:
    import pandas
except ImportError:
    pandas = None  # tables are lists of dictionaries


def number(text: str) -> Any:
    """A cell of a table: None, a number or text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text or None


def rows_of(path: pathlib.Path) -> list[dict[str, Any]]:
    """The rows of a CSV file."""
    with open(path, newline="", encoding="utf-8") as stream:
        return [{key: number(cell) for key, cell in row.items()} for row in csv.DictReader(stream)]


def frame(rows: list[dict[str, Any]]) -> Any:
    """A DataFrame if pandas is installed; otherwise the rows."""
    return pandas.DataFrame(rows) if pandas is not None else rows


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of nested mappings, by names with dots."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class Tables(Mapping):
    """The CSV files of a run by name without .csv, read when they are asked for."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def __getitem__(self, name: str) -> Any:
        path = self._directory / f"{name}.csv"
        if not path.is_file():
            raise KeyError(f"{name}; there are: {', '.join(self)}")
        return frame(rows_of(path))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.stem for path in self._directory.glob("*.csv")))

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass(frozen=True)
class Result:
    """A run. A directory that run() made lives as long as its result."""

    directory: pathlib.Path
    sets: Mapping[str, Any] = field(default_factory=dict)  # as given to run()
    _kept: tempfile.TemporaryDirectory | None = field(default=None, repr=False, compare=False)

    @functools.cached_property
    def summary(self) -> dict[str, Any]:
        """summary.json (docs/results.md)."""
        return json.loads((self.directory / "summary.json").read_text(encoding="utf-8"))

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the workload's kind; times in seconds where a name ends in _s."""
        return self.summary["metrics"]

    @property
    def tables(self) -> Tables:
        """jobs, links, and those of the workload's kind: requests, layer, collectives, ..."""
        return Tables(self.directory)


def read(directory: str | os.PathLike) -> Result:
    """The results in a directory that `railyard run --out` wrote."""
    return Result(pathlib.Path(directory))
