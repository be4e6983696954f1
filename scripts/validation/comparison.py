"""From rows to outcomes: the runner runs experiments, and every row is compared, or skipped with the reason."""

import collections
import math
import pathlib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

from lib.runner import TOO_LONG, Point, Result

from .experiment import SIZE_ORDER, Experiment, merge, size_class
from .figures import figures
from .rows import Incomparable, Row, Unmapped

SKIPPED = "skipped"


@dataclass
class Outcome:
    """A row and its outcome: a prediction in the row's unit, or the reason why there is none.

    `experiment` and `point` are those that count; before the runs, the first ones. `points` are those of all candidates."""

    row: Row
    group: str = SKIPPED
    experiment: Experiment | None = None
    point: Point | None = None
    points: tuple[Point, ...] = ()
    directory: pathlib.Path | None = None  # of the run, if there was one
    predicted: float | None = None
    host_s: float | None = None  # of a TTFT: host time in the mean of all requests, where the run tells it
    chosen: str = ""  # choices of the run, such as algorithm and protocol
    skipped: str = ""
    set_aside: bool = False  # skipped for a reason of the measurement (set_aside.py)

    @property
    def measured(self) -> float:
        return self.experiment.compared(self.row.value)

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def group_name(row: Row, experiment: Experiment) -> str:
    parts = (row["system"], experiment.operation, experiment.size_class or size_class(experiment.size))
    return "/".join(part.replace("/", "-") for part in parts)


def map_rows(validation_class: ModuleType, rows: Sequence[Row]) -> list[Outcome]:
    """An outcome for every row, with an experiment or skipped."""
    outcomes = []
    for row in rows:
        outcome = Outcome(row)
        try:
            if math.isnan(row.value):
                raise Unmapped(f"value '{row['value']}' is no number")
            if not row.value > 0 or math.isinf(row.value):
                raise Unmapped(f"measured value {row['value']} is not positive")
            if hasattr(validation_class, "check"):
                validation_class.check(row)
            outcome.experiment = validation_class.map_row(row)
            outcome.group = group_name(row, outcome.experiment)
        except Unmapped as reason:
            outcome.skipped, outcome.set_aside = str(reason), isinstance(reason, Incomparable)
        except Exception as fault:  # pylint: disable=broad-exception-caught  # one odd row must not end its table
            outcome.experiment, outcome.skipped = None, _failed(fault)
        outcomes.append(outcome)
    return outcomes


def assign_points(validation_class: ModuleType, outcomes: Sequence[Outcome]) -> list[Point]:
    """Assigns a point to every experiment. @return the points to run, expensive ones first"""
    mapped = [outcome for outcome in outcomes if outcome.experiment]
    points = merge((validation_class.point_name(outcome.row, one), one) for outcome in mapped for one in outcome.experiment.candidates)
    for outcome in mapped:
        outcome.points = tuple(points[one.key] for one in outcome.experiment.candidates)
        outcome.point = outcome.points[0]
    return list(points.values())


def compare(outcomes: Sequence[Outcome], results: Sequence[Result]) -> None:
    """Reads every row's prediction from the run of its point."""
    by_name = {result.point.name: result for result in results}
    for outcome in outcomes:
        if not outcome.point:
            continue
        candidates = [by_name[point.name] for point in outcome.points]
        unknown = next((result for result in candidates if result.interrupted or result.error.startswith(TOO_LONG)), None)
        if unknown:  # it may be the fastest of the candidates
            outcome.skipped = unknown.error
            continue
        result = choose(outcome, candidates)
        outcome.directory = result.directory
        if result.failed:
            outcome.skipped = f"the run failed: {result.error}"
            continue
        try:
            outcome.predicted = outcome.experiment.read(result) / outcome.experiment.unit
            outcome.chosen = outcome.experiment.chosen(result)
            outcome.host_s = outcome.experiment.host_s(result)
        except Unmapped as reason:
            outcome.skipped = str(reason)
        except Exception as fault:  # pylint: disable=broad-exception-caught
            outcome.skipped = _failed(fault)


def _failed(fault: Exception) -> str:
    where = traceback.extract_tb(fault.__traceback__)[-1]
    return f"the rule failed: {type(fault).__name__} in {pathlib.Path(where.filename).name}, line {where.lineno}: {fault}"


def coverage(outcomes: Sequence[Outcome]) -> dict:
    """How many rows are compared, or would be after a run; and why the others are not, the most frequent reason first."""
    reasons = collections.Counter(("set aside: " if outcome.set_aside else "") + outcome.skipped for outcome in outcomes if outcome.skipped)
    expressed = sum(not outcome.skipped for outcome in outcomes)
    assumed = collections.Counter(outcome.experiment.assumed for outcome in outcomes if not outcome.skipped and outcome.experiment.assumed)
    return {"rows": len(outcomes), "expressed": expressed, "ratio": expressed / len(outcomes) if outcomes else None,
            "reasons": dict(reasons.most_common()), "assumed": dict(assumed.most_common())}


def choose(outcome: Outcome, results: Sequence[Result]) -> Result:
    """The candidate that counts: the fastest run that did not fail, else the first one."""
    runs = list(zip(outcome.experiment.candidates, outcome.points, results))
    done = [run for run in runs if not run[2].failed]
    if len(runs) > 1 and done:
        outcome.experiment, outcome.point, result = min(done, key=lambda run: run[0].seconds(run[2]))
        return result
    return results[0]


def figures_of(outcomes: Sequence[Outcome]) -> dict:
    """Rows compared and their figures."""
    pairs = [(outcome.predicted, outcome.measured) for outcome in outcomes if not outcome.skipped]
    return {"rows": len(pairs)} | figures(pairs)


def grouped(outcomes: Sequence[Outcome], name: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    """The compared rows by name, sorted."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if not outcome.skipped:
            groups.setdefault(name(outcome), []).append(outcome)
    return dict(sorted(groups.items(), key=lambda group: by_size(group[0])))


def by_size(name: str) -> tuple:
    """Sorts groups by name, and sizes within by size."""
    rest, _, size = name.rpartition("/")
    return (rest, SIZE_ORDER.index(size)) if size in SIZE_ORDER else (name, 0)
