"""What a service does over time, from iterations.csv of a run with --iterations."""

import pathlib
import statistics

from lib import run_files

FILE = "iterations.csv"
PARTS = 100  # of the run
COLUMNS = {"instance": int, "start_s": run_files.number, "end_s": run_files.number, **dict.fromkeys(("tokens", "running", "waiting", "blocks"), run_files.number)}
SUMMED = ("running", "waiting", "blocks")  # over instances; of tokens in a batch the mean
Series = list[tuple[float, float]]  # begin of a part, and mean in it


def read(path: pathlib.Path) -> dict[str, Series]:
    rows = list(run_files.table(path, COLUMNS, "the batches of a run"))
    names = ("running", "waiting", "tokens", "blocks")
    if not rows:
        return {name: [] for name in names}
    end = max(row["end_s"] for row in rows)
    by_instance: dict[int, list[list[dict]]] = {}
    for row in rows:
        parts = by_instance.setdefault(row["instance"], [[] for _ in range(PARTS)])
        parts[min(int(PARTS * row["start_s"] / end), PARTS - 1)].append(row)
    return {name: [(i * end / PARTS, _together(name, [_mean(name, parts, i) for parts in by_instance.values()])) for i in range(PARTS)]
            for name in names}


def _mean(name: str, parts: list[list[dict]], i: int) -> float:
    """In part i; without batches there, 0: the instance has nothing to do."""
    return statistics.fmean(row[name] for row in parts[i]) if parts[i] else 0.0


def _together(name: str, values: list[float]) -> float:
    return sum(values) if name in SUMMED else statistics.fmean(values)
