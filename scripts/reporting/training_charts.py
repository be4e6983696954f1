"""Charts of one run of `training`: the memory of its fullest rank over time, from memory.csv."""

import pathlib

from lib import run_files

from .lines import Dot, Line, Lines
from .source import Point

FILE = "memory.csv"
GIGA = 1e9
KINDS = {"weights": "weights", "gradients": "gradients", "optimizer": "optimizer state", "activations": "activations", "gathered": "gathered weights",
         "recomputed": "recomputed activations", "software": "software"}
COLUMNS = {"time_s": run_files.number, "rank": run_files.whole, "total_bytes": run_files.whole, **{f"{kind}_bytes": run_files.whole for kind in KINDS}}
STEPS = 400  # of a line


def _held(rows: list[dict], column: str, end: float) -> list[Dot]:
    """In GB: the most within each of STEPS parts of the time."""
    dots, place, now = [], 0, 0.0
    for i in range(STEPS):
        most = now
        while place < len(rows) and rows[place]["time_s"] <= end * (i + 1) / STEPS:
            now = rows[place][column] / GIGA
            most = max(most, now)
            place += 1
        dots.append(Dot(end * i / STEPS, most, None))
    return dots


def charts(point: Point) -> list[Lines]:
    """@throws run_files.Error"""
    path: pathlib.Path | None = point.files / FILE if point.kind == "training" and point.files else None
    if path is None or not path.exists():
        return []
    by_rank: dict[int, list[dict]] = {}
    for row in run_files.table(path, COLUMNS, "the memory of a run"):
        by_rank.setdefault(row["rank"], []).append(row)
    end = max((rows[-1]["time_s"] for rows in by_rank.values()), default=0.0)
    if end <= 0:
        return []
    rank, rows = max(by_rank.items(), key=lambda item: (max(row["total_bytes"] for row in item[1]), -item[0]))
    lines = [Line("together", _held(rows, "total_bytes", end))]
    lines += [Line(words, _held(rows, f"{kind}_bytes", end)) for kind, words in KINDS.items() if any(row[f"{kind}_bytes"] for row in rows)]
    return [Lines("memory", f"Memory of rank {rank} over time", "time_s", "GB", lines, note="Of the rank that holds most.")]
