"""The largest rate at which a service keeps all objectives. This module knows no simulator: its steps say which loads they
need, so that several searches can go on together.

A load that is open runs again with more requests, as many as its error asks for. It is taken as it is when the error is worth less than the
precision in rate, by the growth of the objective between two rates, or at `most` requests. Two rates, one that keeps all objectives and one that
does not, close in on the largest one, at first with short runs. Between them the share of requests above a limit grows about
exponentially, so the next rate is where a line through its logarithms meets what is allowed. In the end both rates have runs that are long enough.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from .judgement import Finding, Load, Verdict
from .student import quantile

STEP = 2.0  # of the rate, while only one side is known
CONFIDENCE = 0.95  # of the interval
APART = 1.5  # times the precision: how far a new rate is from both ends, at least
SOFT = 4  # see settle()
LEAST_FACTOR, MOST_FACTOR = 1.5, 8.0  # of requests at once
MOST_LOADS = 60
LEAST_LEVEL = 1e-3  # of a level that no request has reached
DIGITS = 4  # of a rate
LONGEST_S = 16000.0  # of arrivals: the executable ends a run at 18000 s

Wanted = list[tuple[float, int]]  # rates, and requests of each run
Measure = Callable[[Wanted], list[Load]]
Answer = TypeVar("Answer")
Steps = Generator[Wanted, list[Load], Answer]  # says which loads it needs, and is sent these


class NoKnee(Exception):
    """No rate keeps the objectives, or all rates that may be tried do; in one line."""


class KneeAbove(NoKnee):
    """The largest rate that may be tried keeps the objectives."""


@dataclass(frozen=True)
class Knee:
    rate_per_s: float
    interval_per_s: tuple[float, float] | None  # of CONFIDENCE
    low: Load  # the largest rate that keeps all objectives
    high: Load  # the smallest that does not
    broken: tuple[str, ...]  # metrics of the objectives that are broken beyond, the first one first; none: no steady state


def rounded(rate: float) -> float:
    return float(f"{rate:.{DIGITS}g}")


def _log_level(finding: Finding) -> float:
    return math.log(max(finding.level, LEAST_LEVEL))


def _pairs(low: Load, high: Load) -> list[tuple[Finding, Finding]]:
    return [(a, b) for a, b in zip(low.findings, high.findings) if not math.isnan(a.value) and not math.isnan(b.value)]


def _crossing(low: Load, high: Load) -> tuple[float, float, Finding, Finding] | None:
    """Where the first objective meets its limit: the rate, the growth of its level there (d log / d log), and its findings."""
    found = []
    width = math.log(high.rate_per_s / low.rate_per_s)
    for a, b in _pairs(low, high):
        if b.excess > 0 and (growth := (_log_level(b) - _log_level(a)) / width) > 0:
            rate = low.rate_per_s * math.exp(min(max(0.0, -_log_level(a) / growth), width))
            found.append((rate, growth, a, b))
    return min(found, key=lambda entry: entry[0], default=None)


def driven(steps: Steps[Answer], measure: Measure) -> Answer:
    """The answer of steps whose loads are measured one after the other."""
    try:
        wanted = next(steps)
        while True:
            wanted = steps.send(measure(wanted))
    except StopIteration as end:
        return end.value


@dataclass
class Search:
    first: int  # requests of a run at first,
    most: int  # and at most
    precision: float  # of the rate, as a ratio
    loads: dict[float, Load] = field(default_factory=dict)  # by rate, the longest ones

    def settle(self, rates: Sequence[float], roughly: bool = False) -> Steps[list[Load]]:
        """Loads at these rates, each with as many requests as it takes to tell.
        @param roughly  what SOFT times the first requests do not decide stays open; a run is never too short for its service to fill"""
        counts = {rate: self.loads[rate].count if rate in self.loads else self.first for rate in rates}
        asked = {rate: count for rate, count in counts.items() if rate not in self.loads}
        while True:
            if asked:
                for load in (yield list(asked.items())):
                    self.loads[load.rate_per_s] = load
            asked = {rate: count for rate in rates if (count := self._more(self.loads[rate], roughly))}
            if not asked:
                return [self.loads[rate] for rate in rates]

    def is_settled(self, rate: float) -> bool:
        """Whether a longer run of this load would not tell more, or may not be."""
        return not self._more(self.loads[rate], False)

    def _more(self, load: Load, roughly: bool) -> int:
        """How many requests the runs of a load need; 0: these are enough."""
        if load.verdict is not Verdict.OPEN or load.count >= self.most:
            return 0
        factor = load.filling_factor
        if factor <= 1:
            if roughly and load.count >= SOFT * self.first:
                return 0
            factor = 2.0 if load.may_grow else self._error_factor(load)
            if factor <= 1:
                return 0
        return min(math.ceil(load.count * min(max(LEAST_FACTOR, 1.1 * factor), MOST_FACTOR)), self.most)

    def _error_factor(self, load: Load) -> float:
        """By how much more requests an open objective is decided, or its limit is known to `precision` in rate; errors fall with their root."""
        most = 0.0
        for i, finding in enumerate(load.findings):
            if finding.verdict is Verdict.OPEN:
                decided = (finding.margin / abs(finding.excess)) ** 2 if finding.excess else math.inf
                growth = self._growth(load, i)
                near = (self._in_rate(finding, growth) / self.precision) ** 2 if growth > 0 and not math.isinf(finding.error) else math.inf
                most = max(most, min(decided, near))
        return most

    def _growth(self, load: Load, index: int) -> float:
        """Of the level of an objective with the rate, d log / d log, by the nearest other rate; 0: not known."""
        others = [other for other in self.loads.values() if other is not load]
        if not others:
            return 0.0
        other = min(others, key=lambda entry: abs(math.log(entry.rate_per_s / load.rate_per_s)))
        return (_log_level(other.findings[index]) - _log_level(load.findings[index])) / math.log(other.rate_per_s / load.rate_per_s)

    @staticmethod
    def _in_rate(finding: Finding, growth: float) -> float:
        """The half-width of the interval of a finding, as a ratio of rate."""
        allowed = finding.objective.allowed
        error = finding.error / (allowed if allowed is not None else 1.0) / max(finding.level, LEAST_LEVEL)
        return quantile((1 + CONFIDENCE) / 2, finding.freedom) * error / growth

    def ends(self) -> tuple[Load | None, Load | None]:
        """The largest rate that holds and the smallest that does not. Where two rates contradict each other, longer runs count."""
        loads = sorted(self.loads.values(), key=lambda load: load.rate_per_s)
        low = high = None
        for load in loads:
            if load.holds and not any(other.count >= load.count and not other.holds for other in loads if other.rate_per_s < load.rate_per_s):
                low = load
        for load in reversed(loads):
            if not load.holds and not any(other.count > load.count and other.holds for other in loads if other.rate_per_s > load.rate_per_s):
                high = load
        return low, high

    def largest(self, start: float, least: float = 0.0, most: float = math.inf) -> Steps[Knee]:
        """@param least, most  rates between which the knee is looked for. @throws NoKnee"""
        rate = rounded(min(max(start, least), most))
        slowest = rounded(self.first / LONGEST_S)
        for _ in range(MOST_LOADS):
            at_end = rate in (least, most)
            load, = yield from self.settle([rate], roughly=not at_end)
            low, high = self.ends()
            if load.holds and rate >= most:
                raise KneeAbove(f"every objective holds at {rate:g} requests/s, the largest rate: the knee is above it")
            if not load.holds and rate <= least:
                raise NoKnee(f"{_why_broken(load)} at {rate:g} requests/s, the smallest rate: the knee is below it")
            if not load.holds and load.is_unloaded:
                raise NoKnee(f"no load meets {_why_broken(load)} at {rate:g} requests/s, where requests hardly meet")
            if not load.holds and rate <= slowest:
                raise NoKnee(f"no load meets {_why_broken(load)} at {rate:g} requests/s, the smallest rate of runs with {self.first} requests")
            if low is None:
                served = high.mean("middle.request_rate_per_s") or high.rate_per_s
                rate = rounded(max(min(high.rate_per_s / self._step_down(), served), least, slowest))
            elif high is None:
                rate = rounded(min(STEP * low.rate_per_s, most))
            elif high.rate_per_s / low.rate_per_s > 1 + 2 * self.precision:
                rate = self._between(low, high)
            elif open_ends := [end.rate_per_s for end in (low, high) if self._more(end, False)]:
                yield from self.settle(open_ends)
                rate = open_ends[0]
            else:
                return self._knee(low, high)
        raise NoKnee(f"{MOST_LOADS} loads did not find the knee; the last one was {rate:g} requests/s")

    def _step_down(self) -> float:
        """STEP, but where it has not helped twice, more and more: perhaps no rate keeps the objectives."""
        return STEP ** max(1.0, 2.0 ** (len(self.loads) - 2))

    def _between(self, low: Load, high: Load) -> float:
        """The next rate: where the limit is met, but so far from both ends that one of them moves."""
        width = math.log(high.rate_per_s / low.rate_per_s)
        found = _crossing(low, high)
        inner = min(APART * self.precision, width / 2)
        place = math.log(found[0] / low.rate_per_s) if found else width / 2
        return rounded(low.rate_per_s * math.exp(min(max(place, inner), width - inner)))

    def _knee(self, low: Load, high: Load) -> Knee:
        found = _crossing(low, high)
        if found is None:
            return Knee(low.rate_per_s, None, low, high, ())
        rate, growth, at_low, at_high = found
        nearer = at_low if rate / low.rate_per_s < high.rate_per_s / rate else at_high
        broken = tuple(dict.fromkeys([at_high.objective.metric, *(b.objective.metric for _, b in _pairs(low, high) if b.excess > 0)]))
        if math.isinf(nearer.error):
            return Knee(rounded(rate), None, low, high, broken)
        width = self._in_rate(nearer, growth)
        return Knee(rounded(rate), (rounded(rate * math.exp(-width)), rounded(rate * math.exp(width))), low, high, broken)


def _why_broken(load: Load) -> str:
    """The objective that is broken most, and its value."""
    worst = max(load.broken, key=lambda finding: finding.level, default=None)
    if worst is None:
        return "a steady state: requests in the system grow"
    return f"{worst.objective.text}: the value is {worst.value:.4g}"
