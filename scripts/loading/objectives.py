"""An objective of a load: `ttft_p99_s=1`, `tpot_s=0.03`, `slo_attainment_ratio>=0.95`.

Times of each request (QUANTITIES) take any percentile, and the mean without one. Every other metric of docs/results.md is compared as the
run reports it.
"""

import math
import re
from dataclasses import dataclass

from lib import metrics
from lib.request_times import PARTS, QUANTITIES, examples, quantity_of

KIND = "serving"
_TEXT = re.compile(r"(?P<metric>[^<>=]+)(?P<sign>=|<=|>=)(?P<bound>[^<>=]+)")


class ObjectiveError(Exception):
    """No objective, in one line."""


@dataclass(frozen=True)
class Objective:
    metric: str
    bound: float
    at_most: bool = True
    quantity: str = ""  # of QUANTITIES, or a part of TTFT; nothing: a metric of the summary
    percent: float | None = None  # None: the mean

    @property
    def text(self) -> str:
        return f"{self.metric} {'<=' if self.at_most else '>='} {self.bound:g}"

    @property
    def allowed(self) -> float | None:
        """The share of requests that may be above the limit; None if the objective is no percentile."""
        return None if self.percent is None else 1 - self.percent / 100

    @property
    def label(self) -> str:
        """`TTFT p99`, or the name of the metric."""
        if not self.quantity:
            return self.metric
        name = QUANTITIES.get(self.quantity, "TTFT, " + self.quantity.removeprefix(PARTS).replace("_", " "))
        return f"{name} mean" if self.percent is None else f"{name} p{self.percent:g}"


def objective_of(text: str) -> Objective:
    found = _TEXT.fullmatch(text.strip())
    if not found:
        raise ObjectiveError(f"'{text}' is not METRIC=LIMIT, as ttft_p99_s=1")
    metric, sign = found["metric"].strip(), found["sign"]
    try:
        bound = float(found["bound"])
    except ValueError:
        bound = math.nan
    if not 0 < bound < math.inf:
        raise ObjectiveError(f"'{text}': the limit is no number above 0; accepted: METRIC=LIMIT, as ttft_p99_s=1")
    try:
        of_requests = quantity_of(metric)
    except ValueError as error:
        raise ObjectiveError(str(error)) from error
    if of_requests is None and not metrics.is_metric(metric, (KIND,)):
        raise ObjectiveError(f"'{metric}' is no metric of {KIND}{metrics.nearest(metric, (KIND,), examples())}")
    if of_requests is None:
        if sign == "=" and not re.search(r"(?<!per)_s(\.|$)", metric):
            raise ObjectiveError(f"'{text}': at most or at least? accepted: {metric}<={bound:g}, {metric}>={bound:g}")
        return Objective(metric, bound, sign != ">=")
    if sign == ">=":
        raise ObjectiveError(f"'{text}': a time is at most its limit; accepted: {metric}={bound:g}")
    return Objective(metric, bound, True, *of_requests)


def objectives_of(text: str) -> list[Objective]:
    """@param text  objectives between commas"""
    found: dict[str, Objective] = {}
    for part in text.split(","):
        objective = objective_of(part)
        if objective.metric in found:
            raise ObjectiveError(f"{objective.metric} is given twice")
        found[objective.metric] = objective
    return list(found.values())
