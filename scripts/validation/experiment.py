"""An experiment is what a row becomes. Rows whose experiments differ in message size or kernels only share one run."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import run_files
from runner import Point, Result

from .rows import Unmapped

SIZE_CLASSES = ((64 << 10, "<=64KiB"), (4 << 20, "<=4MiB"))
LARGEST_CLASS = ">4MiB"
NO_SIZE = "no size"
SHAPES = ("M<=64", "M<=1024", "M>1024", "S<=512", "S<=4096", "S>4096", "KV<=16MB", "KV<=256MB", "KV>256MB")
SIZE_ORDER = (*(name for _, name in SIZE_CLASSES), LARGEST_CLASS, NO_SIZE, *SHAPES)


@dataclass(frozen=True)
class Experiment:
    """A run, the message size in it that the row is about, and how the row's value is read from what it left.

    `scenario` lacks workload.sizes_bytes and workload.kernels, which merged experiments share; `size` is None and `kernels` empty
    where the workload has none. `size_class` is the row's where its size is not a message's.
    `unit` is what one of the row's unit is in what `read` gives. `cost` grows with the run's time. `chosen` tells what the run
    decided by itself, in a few words.
    """

    operation: str
    platform: str
    scenario: dict
    size: int | None
    read: Callable[[Result], float]
    unit: float
    cost: float = 0
    chosen: Callable[[Result], str] = lambda result: ""
    kernels: tuple = ()
    size_class: str = ""

    @property
    def key(self) -> str:
        return self.platform + json.dumps(self.scenario, sort_keys=True)


def size_class(size: int | None) -> str:
    if size is None:
        return NO_SIZE
    return next((name for limit, name in SIZE_CLASSES if size <= limit), LARGEST_CLASS)


def metric_at(result: Result, metric: str, size: int) -> float:
    """A metric that the summary has by size. @throws Unmapped where the run did not get there"""
    values = result.summary["metrics"][metric]
    if str(size) not in values:
        raise Unmapped(f"the run has no {metric} at {size} bytes")
    return values[str(size)]


def table_of(result: Result, name: str) -> list[dict]:
    """A table that the run left."""
    return list(run_files.table(result.directory / "out" / name, {}, "a table of a run"))


def merge(experiments: Iterable[tuple[str, Experiment]]) -> dict[str, Point]:
    """One point for each key, the costly ones first. `experiments` come with the name that their point should have."""
    merged: dict[str, list] = {}
    for name, experiment in experiments:
        merged.setdefault(experiment.key, []).append((name, experiment))
    costs = {key: sum({one.size: one.cost for _, one in group}.values()) for key, group in merged.items()}
    taken: set[str] = set()
    points = {}
    for key in sorted(merged, key=lambda key: -costs[key]):
        first = merged[key][0][1]
        scenario = json.loads(json.dumps(first.scenario))
        kernels = {json.dumps(kernel, sort_keys=True): kernel for _, one in merged[key] for kernel in one.kernels}
        if kernels:
            scenario["workload"]["kernels"] = list(kernels.values())
        sizes = sorted({one.size for _, one in merged[key] if one.size is not None})
        if sizes:
            scenario["workload"]["sizes_bytes"] = sizes
        wanted = merged[key][0][0]
        name = next(name for name in [wanted] + [f"{wanted} {i}" for i in range(2, len(merged) + 2)] if name not in taken)
        taken.add(name)
        points[key] = Point(name, first.platform, scenario)
    return points
