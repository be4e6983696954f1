"""Whether a load keeps its objectives, as far as its requests can tell.

The requests of the middle of each run, in the order of arrival, are divided into BATCHES of equal size. Of each batch the share of requests
above the limit of a percentile (of a mean: the mean itself) is one sample; Student's t on these samples says whether their mean is above or
below what is allowed. Neighbouring batches of a queue resemble each other: the error grows with their correlation, as in a series of first
order. Requests above a limit come in episodes, and a run that has seen few of them knows little: no error is smaller than that of the expected
number of episodes, if they come at random and their lengths vary as those of an exponential distribution.

A load is open if the samples do not decide, if a run is so short that its filling matters, or if requests in the system grow although
the objectives are kept: then it has to run longer. A load whose objectives are broken while the service still fills is broken: later
requests find more of it occupied.
"""

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from lib import summaries
from lib.request_times import MIDDLE, QUANTITIES, Requests, percentile

from .objectives import Objective
from .student import quantile

BATCHES = 10  # of a run
CERTAIN = 0.995  # of one side: at 1 % a decision is wrong, if it were the only one
FILLING = 90  # percentile of end-to-end times within which a service has filled


class Verdict(Enum):
    HOLDS = "holds"
    BROKEN = "broken"
    OPEN = "open"


@dataclass(frozen=True)
class Run:
    """One run of a load."""

    seed: int
    summary: dict
    requests: Requests  # of all of it

    @property
    def metrics(self) -> dict:
        return summaries.metrics(self.summary)


@dataclass(frozen=True)
class Finding:
    """An objective at a load. `excess` is above 0 if it is broken: a share of requests, or a share of the limit."""

    objective: Objective
    value: float
    excess: float
    error: float  # standard error of excess; inf: not known
    freedom: int

    @property
    def margin(self) -> float:
        return math.inf if math.isinf(self.error) else self.error * quantile(CERTAIN, self.freedom)

    @property
    def verdict(self) -> Verdict:
        if self.excess - self.margin > 0:
            return Verdict.BROKEN
        return Verdict.HOLDS if self.excess + self.margin <= 0 else Verdict.OPEN

    @property
    def level(self) -> float:
        """What grows with the load, 1 at the limit: requests above the limit / allowed ones, or value / limit."""
        allowed = self.objective.allowed
        return 1 + self.excess / (allowed if allowed is not None else 1.0)


def _batches(values: Sequence[float], count: int) -> list[Sequence[float]]:
    return [part for i in range(count) if (part := values[len(values) * i // count: len(values) * (i + 1) // count])]


def _error(samples: list[list[float]]) -> float:
    """Standard error of the mean of series of samples, one for each run."""
    every = [sample for series in samples for sample in series]
    if len(every) < 3:
        return math.inf
    mean, variance = statistics.fmean(every), statistics.variance(every)
    pairs = [(a - mean) * (b - mean) for series in samples for a, b in zip(series, series[1:])]
    correlation = min(max(0.0, statistics.fmean(pairs) / variance), 0.9) if variance > 0 and pairs else 0.0
    return math.sqrt(variance / len(every) * (1 + correlation) / (1 - correlation))


def _episodes(series: Sequence[Sequence[float]], bound: float) -> list[int]:
    """How many requests in a row are above a limit; [1] if none is."""
    found = [sum(1 for _ in group) for values in series for above, group in itertools.groupby(values, lambda value: value > bound) if above]
    return found or [1]


@dataclass
class Load:
    """The runs of one rate with one number of requests, and what they say."""

    rate_per_s: float
    count: int  # requests of each run
    runs: list[Run]
    objectives: list[Objective]
    findings: list[Finding] = field(init=False)
    middles: list[Requests] = field(init=False)

    def __post_init__(self) -> None:
        self.middles = [run.requests.middle() for run in self.runs]
        self.findings = [self._of_requests(objective) if objective.quantity else self._of_summary(objective) for objective in self.objectives]

    def _of_requests(self, objective: Objective) -> Finding:
        series = [middle.of(objective.quantity) for middle in self.middles]
        every = sorted(value for values in series for value in values)
        if not every:
            return Finding(objective, math.nan, 0.0, math.inf, 1)
        allowed, bound = objective.allowed, objective.bound
        if allowed is None:
            samples = [[statistics.fmean(batch) / bound - 1 for batch in _batches(values, BATCHES)] for values in series]
            value, excess = statistics.fmean(every), statistics.fmean(every) / bound - 1
            least = statistics.pstdev(every) / bound / math.sqrt(len(every))
        else:
            samples = [[statistics.fmean(value > bound for value in batch) for batch in _batches(values, BATCHES)] for values in series]
            value, excess = percentile(every, objective.percent), sum(value > bound for value in every) / len(every) - allowed
            least = math.sqrt(2 * allowed * (1 - allowed) * statistics.fmean(_episodes(series, bound)) / len(every))
        count = sum(map(len, samples))
        return Finding(objective, value, excess, max(_error(samples), least), max(1, count - 1))

    def _of_summary(self, objective: Objective) -> Finding:
        """A metric that only a whole run has: its values differ between seeds."""
        values = [value for run in self.runs if isinstance(value := run.metrics.get(objective.metric), (int, float))]
        if not values:
            return Finding(objective, math.nan, 0.0, math.inf, 1)
        sign = 1 if objective.at_most else -1
        samples = [sign * (value / objective.bound - 1) for value in values]
        error = statistics.stdev(samples) / math.sqrt(len(samples)) if len(samples) > 1 else 0.0
        return Finding(objective, statistics.fmean(values), statistics.fmean(samples), error, max(1, len(samples) - 1))

    @property
    def grows(self) -> bool:
        """Whether most runs say that they have no steady state."""
        return 2 * sum(self._certain(run) for run in self.runs) > len(self.runs)

    @property
    def may_grow(self) -> bool:
        return any(self._certain(run) for run in self.runs)

    @staticmethod
    def _certain(run: Run) -> bool:
        return bool(run.metrics.get("growth.is_certain"))

    @functools.cached_property
    def filling_factor(self) -> float:
        """How many times longer the runs must be so that the service fills in the part of the arrivals' time that is left out."""
        return max(percentile(sorted(run.requests.of("e2e")), FILLING) / max(MIDDLE[0] * run.requests.span_s, 1e-9) for run in self.runs)

    @property
    def is_unloaded(self) -> bool:
        """Whether requests hardly ever meet."""
        mean = statistics.fmean(statistics.fmean(run.requests.of("e2e")) for run in self.runs)
        return self.rate_per_s * mean < 0.02

    @functools.cached_property
    def verdict(self) -> Verdict:
        verdicts = {finding.verdict for finding in self.findings}
        if Verdict.BROKEN in verdicts:
            return Verdict.BROKEN
        if Verdict.OPEN in verdicts or self.filling_factor > 1 or self.may_grow:
            return Verdict.OPEN
        return Verdict.HOLDS

    @property
    def holds(self) -> bool:
        """The verdict, or if it is open the more likely one."""
        if self.verdict is Verdict.OPEN:
            return not self.grows and all(finding.excess <= 0 for finding in self.findings)
        return self.verdict is Verdict.HOLDS

    @property
    def broken(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.excess > 0 and finding.verdict is not Verdict.HOLDS]

    # -- what a reader wants to see

    def times(self, quantity: str) -> list[float]:
        """Of all requests of the middle, in order."""
        return sorted(value for middle in self.middles for value in middle.of(quantity))

    @property
    def within(self) -> float:
        """The share of requests of the middle that are within all limits of times of requests."""
        limits = [(objective.quantity, objective.bound) for objective in self.objectives if objective.quantity]
        kept = all_of = 0
        for middle in self.middles:
            columns = [(middle.times_s[quantity], bound) for quantity, bound in limits]
            all_of += len(middle.arrivals_s)
            kept += sum(not any(values[i] > bound for values, bound in columns) for i in range(len(middle.arrivals_s)))
        return kept / all_of if all_of else 0.0

    def mean(self, metric: str) -> float | None:
        """A metric of the summary, mean of the runs."""
        values = [value for run in self.runs if isinstance(value := run.metrics.get(metric), (int, float)) and not isinstance(value, bool)]
        return statistics.fmean(values) if values else None

    @staticmethod
    def quantities(objectives: list[Objective]) -> list[str]:
        """What runs are read for."""
        return list(dict.fromkeys([*QUANTITIES, *(objective.quantity for objective in objectives if objective.quantity)]))
