"""A row becomes an experiment. Experiments that differ only in message size or kernels share one run."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lib import run_files
from lib.runner import Point, Result

from .rows import Unmapped

SIZE_CLASSES = ((64 << 10, "<=64KiB"), (4 << 20, "<=4MiB"))
LARGEST_CLASS = ">4MiB"
NO_SIZE = "no size"
SHAPES = ("M<=64", "M<=1024", "M>1024", "S<=512", "S<=4096", "S>4096", "KV<=16MB", "KV<=256MB", "KV>256MB")
SIZE_ORDER = (*(name for _, name in SIZE_CLASSES), LARGEST_CLASS, NO_SIZE, *SHAPES)


@dataclass(frozen=True)
class Experiment:
    """A run, the row's message size, and the function that reads the row's value from the output.

    `scenario` lacks workload.sizes_bytes and workload.kernels, which are merged over experiments. `size` is None and `kernels` is empty
    if the workload does not have them. `size_class` is set if the row's size is not a message size. `unit` converts: one unit of the row
    in the unit of `read`. `cost` increases with the time of the run. `chosen` describes choices of the run in a few words. `files` are
    texts that the scenario names. `variants` are the same row with other values for what its source does not print; the fastest of all,
    by `seconds`, counts. `compared` turns the row's value into what is compared, where this is not the value itself. `assumed` says what
    the row does not print and the rules took for it. `host_s` reads the host time in a TTFT, or None if the run does not tell it;
    `client_s` is the load generator's part of it that is not in the scenario.
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
    files: dict[str, str] = field(default_factory=dict)
    variants: tuple["Experiment", ...] = ()
    seconds: Callable[[Result], float] | None = None
    compared: Callable[[float], float] = lambda value: value
    assumed: str = ""
    host_s: Callable[[Result], float | None] = lambda result: result.summary["metrics"].get("ttft_parts_s", {}).get("host")
    client_s: float = 0

    @property
    def key(self) -> str:
        return self.platform + json.dumps([self.scenario, self.files] if self.files else self.scenario, sort_keys=True)

    @property
    def candidates(self) -> tuple["Experiment", ...]:
        return (self, *self.variants)


def size_class(size: int | None) -> str:
    if size is None:
        return NO_SIZE
    return next((name for limit, name in SIZE_CLASSES if size <= limit), LARGEST_CLASS)


def metric_at(result: Result, metric: str, size: int) -> float:
    """A metric of the summary, by size. @throws Unmapped if the run has no value for the size"""
    values = result.summary["metrics"][metric]
    if str(size) not in values:
        raise Unmapped(f"the run has no {metric} at {size} bytes")
    return values[str(size)]


def table_of(result: Result, name: str) -> list[dict]:
    """An output table of the run."""
    return list(run_files.table(result.directory / "out" / name, {}, "a table of a run"))


def merge(experiments: Iterable[tuple[str, Experiment]]) -> dict[str, Point]:
    """One point for each key, expensive ones first. `experiments` have the name for their point."""
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
        points[key] = Point(name, first.platform, scenario, options=("--jobs", "none"), files=first.files)
    return points
