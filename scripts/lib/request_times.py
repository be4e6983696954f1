"""The times of the requests of a serving run, from its requests.csv, and metrics that are percentiles or means of them: `ttft_p99.9_s`,
`ttft_queue_blocks_s`."""

import csv
import math
import pathlib
import re
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from . import metrics, run_files

NS = 1e-9
FILE = "requests.csv"
PARTS = "ttft_"  # with a part of TTFT behind it
QUANTITIES = {"ttft": "TTFT", "ttft_admitted": "TTFT from admission", "tpot": "TPOT", "e2e": "E2E"}
_OF_REQUESTS = re.compile(r"(?P<quantity>[a-z0-9_]+?)(?:_p(?P<percent>\d+(?:\.\d+)?))?_s")
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
    rows = sorted((row for row in run_files.table(path, COLUMNS, "the requests of a run") if row.get("aborted") != "1"), key=lambda row: row["arrival"])
    if not rows:
        raise run_files.Error(path, "no request was served")
    times = {name: [NS * VALUES.get(name, lambda row, name=name: row[f"{name}_ns"])(row) for row in rows] for name in quantities}
    return Requests([NS * row["arrival"] for row in rows], times)


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that `percent` of the values do not exceed, as in summary.json. @param values  in order"""
    return values[max(0, math.ceil(percent / 100 * len(values) - 1e-9) - 1)]


def quantity_of(metric: str) -> tuple[str, float | None] | None:
    """The quantity and the percentile in the name of a metric (None: the mean); None if it is none of each request.
    @throws ValueError where the percentile is none"""
    found = _OF_REQUESTS.fullmatch(metric)
    if not found or found["quantity"] not in (*QUANTITIES, *(PARTS + part for part in metrics.ttft_parts())):
        return None
    percent = found["percent"]
    if percent is not None and not 0 < float(percent) < 100:
        raise ValueError(f"{metric}: a percentile is above 0 and below 100")
    return found["quantity"], None if percent is None else float(percent)


def examples() -> list[str]:
    """Names of metrics of each request, for hints."""
    return [f"{quantity}{percent}_s" for quantity in QUANTITIES for percent in ("", "_p50", "_p90", "_p99")]


def value_of(metric: str, folder: pathlib.Path) -> float | None:
    """A metric of each request that the summary does not have, over all requests of a run; None if it is no such metric.
    @throws run_files.Error"""
    of_requests = quantity_of(metric)
    if of_requests is None or not (folder / FILE).exists():
        return None
    quantity, percent = of_requests
    values = sorted(read(folder / FILE, [quantity]).of(quantity))
    if not values:
        return None
    return statistics.fmean(values) if percent is None else percentile(values, percent)
