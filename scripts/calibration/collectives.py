"""Constants of collectives, fitted to measured times of NCCL and of the all-reduces of serving engines on one GPU.

A run of a platform executable gives the times of one operation for all sizes, with the constants of a datasheet. Each group of constants
has its own rows: NCCL's rings, trees and in-switch kernels; its all-to-all; the engines' own kernels.
"""

import copy
import math
import pathlib
import re
import shutil
from dataclasses import replace

import numpy

from lib import runner
from validation import fabric
from validation.experiment import Experiment, merge
from validation.rows import Row, Unmapped

from .datasheet import Datasheet
from .evaluate import EvaluationError

GROUPS = {
    "nccl": ("collective.launch_us", "collective.wide_launch_us", "collective.ll_step_ns", "collective.ll_wide_step_ns",
             "collective.ll_line_ns", "collective.ll128_step_ns", "collective.ll128_gb_per_s", "collective.simple_step_ns",
             "collective.simple_gb_per_s", "collective.nvls_step_ns", "collective.nvls_gb_per_s"),
    "all-to-all": ("collective.p2p_launch_us", "collective.p2p_gb_per_s", "collective.p2p_copy_gb_per_s"),
    "custom all-reduce": ("collective.graph_launch_us", "collective.custom_step_ns", "collective.custom_fence_ns",
                          "collective.custom_gb_per_s"),  # custom_pull_ns: the slope of vLLM's rows of two ranks
}
EVALUATIONS = 60  # of Powell's method; each is a run for each operation
ONE_SERVER_TABLES = ("nccl.csv", "custom_all_reduce.csv")

Measured = tuple[Experiment, float]  # a run that gives the row's value, and the value in the run's unit


def group_of(experiment: Experiment) -> str:
    workload = experiment.scenario["workload"]
    if workload["op"] == "all_to_all":
        return "all-to-all"
    return "nccl" if workload["library"] == "nccl" else "custom all-reduce"


def measured(rows: list[Row], system: str) -> dict[str, list[Measured]]:
    """The system's rows with a time, inside one server, by group of constants."""
    found = {name: [] for name in GROUPS}
    for row in rows:
        if not re.fullmatch(system, row["system"]) or not row["metric"].startswith("time"):
            continue
        try:
            experiment = fabric.map_row(row)
        except Unmapped:
            continue
        found[group_of(experiment)].append((experiment, row.value * experiment.unit))
    return {name: pairs for name, pairs in found.items() if pairs}


class Evaluator:
    """Times of the rows with variants of a datasheet."""

    def __init__(self, datasheet: Datasheet, pairs: list[Measured], executables: pathlib.Path, directory: pathlib.Path) -> None:
        self.datasheet, self.pairs, self.executables, self.directory = datasheet, pairs, executables, directory
        self.points = merge((f"run{number}", experiment) for number, (experiment, _) in enumerate(pairs))

    def errors(self, variants: list[dict]) -> numpy.ndarray:
        """ln(model / measured) of every row (columns) for each variant (rows)."""
        names = []
        for number, constants in enumerate(variants):
            sheet = self.datasheet.copy(self.directory / f"variant{number}.yaml")
            for key, value in constants.items():
                sheet.set(key, value)
            sheet.write()
            names.append(sheet.path)
        points = [replace(point, name=f"{number}-{point.name}", scenario=_with_sheet(point.scenario, path))
                  for number, path in enumerate(names) for point in self.points.values()]
        results = {}
        for index, result in runner.completed(points, self.directory / "runs", self.executables, runner.WORKERS):
            if result.failed:
                raise EvaluationError(result.error)
            results[index] = result
        shutil.rmtree(self.directory / "runs")
        place = {key: index for index, key in enumerate(self.points)}
        return numpy.array([[math.log(experiment.read(results[number * len(place) + place[experiment.key]]) / value)
                             for experiment, value in self.pairs] for number in range(len(variants))])


def _with_sheet(scenario: dict, sheet: pathlib.Path) -> dict:
    """The scenario with another datasheet for its GPUs."""
    changed = copy.deepcopy(scenario)
    changed["machine"]["groups"]["node"]["gpu"] = str(sheet)
    return changed
