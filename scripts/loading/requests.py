"""The times of the requests of a run, from its requests.csv."""

import csv
import math
import pathlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lib import run_files

from .objectives import PARTS

NS = 1e-9
GAPS = "ITL"  # a column with a number for each token: nine tenths of the file


def _count(text: str) -> int:
    if not text.isdigit():
        raise ValueError(f"{run_files.shown(text)} is no integer")
    return int(text)


COLUMNS = dict.fromkeys(("arrival", "output", "TTFT", "TPOT", "latency", "queuing_delay", PARTS + "*"), _count)
VALUES: dict[str, Callable[[dict], float]] = {  # ns, by quantity; a part of TTFT has a column of its name
    "ttft": lambda row: row["TTFT"],
    "ttft_admitted": lambda row: row["TTFT"] - row["queuing_delay"],
    "tpot": lambda row: row["TPOT"] if row["output"] > 1 else math.nan,
    "e2e": lambda row: row["latency"],
}
MIDDLE = (0.1, 0.9)  # of the arrivals' time: before, the service fills; after, it empties


@dataclass
class Requests:
    """In the order of arrival."""

    arrivals_s: list[float]
    times_s: dict[str, list[float]]  # by quantity; of requests with one token, TPOT is nan

    @property
    def span_s(self) -> float:
        """From the first to the last arrival."""
        return self.arrivals_s[-1] - self.arrivals_s[0]

    def middle(self) -> "Requests":
        """The requests that arrive when the service has filled, and does not empty yet."""
        first, last = (self.arrivals_s[0] + share * self.span_s for share in MIDDLE)
        kept = [i for i, arrival in enumerate(self.arrivals_s) if first <= arrival <= last]
        return Requests([self.arrivals_s[i] for i in kept], {name: [values[i] for i in kept] for name, values in self.times_s.items()})

    def of(self, quantity: str) -> list[float]:
        """Without requests that do not have it."""
        return [value for value in self.times_s[quantity] if value == value]  # nan


def without_gaps(path: pathlib.Path) -> None:
    """Removes the column of gaps between tokens: a load has many long runs."""
    csv.field_size_limit(run_files.FIELD_BYTES)
    scratch = path.with_name(f".{path.name}")
    with open(path, encoding="utf-8", newline="") as file, open(scratch, "w", encoding="utf-8", newline="") as kept:
        rows, writer = csv.reader(file), csv.writer(kept, lineterminator="\n")
        header = next(rows, [])
        if GAPS not in header:
            scratch.unlink()
            return
        place = header.index(GAPS)
        writer.writerow(header[:place] + header[place + 1:])
        writer.writerows(row[:place] + row[place + 1:] for row in rows)
    scratch.replace(path)


def read(path: pathlib.Path, quantities: Iterable[str]) -> Requests:
    """@param quantities  which times to keep. @throws run_files.Error"""
    rows = sorted(run_files.table(path, COLUMNS, "the requests of a run"), key=lambda row: row["arrival"])
    if not rows:
        raise run_files.Error(path, "no request was served")
    times = {name: [NS * VALUES.get(name, lambda row, name=name: row[f"{name}_ns"])(row) for row in rows] for name in quantities}
    return Requests([NS * row["arrival"] for row in rows], times)


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that `percent` of the values do not exceed, as in summary.json. @param values  in order"""
    return values[max(0, math.ceil(percent / 100 * len(values) - 1e-9) - 1)]
