"""The clock of a GPU in a whole training step (sm.step_clock_ratio), fitted to some published steps.

A step's time falls as the clock rises, so the ratio whose mean error is zero is found by bisection. The other rows of the GPU are
predictions: their errors with the same ratio are printed beside those of the fit.
"""

import copy
import pathlib
import re
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lib import runner
from validation import comparison, training
from validation.rows import Row

LOWEST, HIGHEST, STEP = 0.5, 1.0, 0.01  # of the ratio


@dataclass(frozen=True)
class StepClock:
    ratio: float
    fitted: list[float]  # predicted / measured - 1 of step times
    kept_out: dict[str, list[float]]  # the same for other sources


def _with_ratio(experiment, ratio: float):
    """The experiment, and its variants, on a GPU with this ratio."""
    scenario = copy.deepcopy(experiment.scenario)
    sheet = scenario["machine"].setdefault("overrides", {}).setdefault("gpu", {})
    sheet.setdefault("sm", {})["step_clock_ratio"] = ratio
    return replace(experiment, scenario=scenario, variants=tuple(_with_ratio(one, ratio) for one in experiment.variants))


def _is_time(row: Row) -> bool:
    return row["unit"] in ("s", "ms", "us")


def _errors(outcomes: Sequence[comparison.Outcome], ratio: float, executables: pathlib.Path, limit_s: float) -> dict[str, list[float]]:
    """Errors of the rows' step times, by source."""
    outcomes = [replace(outcome, experiment=_with_ratio(outcome.experiment, ratio)) for outcome in outcomes]
    points = [replace(point, limit_s=limit_s) for point in comparison.assign_points(training, outcomes)]
    with tempfile.TemporaryDirectory() as directory:
        comparison.compare(outcomes, runner.run(points, directory, executables))
    errors: dict[str, list[float]] = {}
    for outcome in outcomes:
        if not outcome.skipped:
            error = outcome.error if _is_time(outcome.row) else 1 / (1 + outcome.error) - 1
            errors.setdefault(outcome.row["source"], []).append(error)
    return errors


def fit(table: Sequence[Row], datasheet: str, steps: str, executables: pathlib.Path, limit_s: float) -> StepClock | None:
    """@param steps  regular expression for "SOURCE MODEL PRECISION": the rows of the fit. @return None if none of them has a scenario
    with this GPU and a run within the limit"""
    def on_gpu(outcome):
        return outcome.experiment and outcome.experiment.scenario["machine"]["groups"]["node"]["gpu"] == datasheet

    outcomes = [outcome for outcome in comparison.map_rows(training, table) if on_gpu(outcome)]
    chosen = [outcome for outcome in outcomes if re.search(steps, outcome.row.text("source", "model", "precision"), re.IGNORECASE)]
    low, high = LOWEST, HIGHEST
    while high - low > STEP:
        middle = (low + high) / 2
        errors = sum(_errors(chosen, middle, executables, limit_s).values(), [])
        if not errors:
            return None
        if statistics.mean(errors) > 0:  # too slow
            low = middle
        else:
            high = middle
    ratio = round((low + high) / 2, 2)
    others = [outcome for outcome in outcomes if outcome not in chosen]
    return StepClock(ratio, sum(_errors(chosen, ratio, executables, limit_s).values(), []), _errors(others, ratio, executables, limit_s))
