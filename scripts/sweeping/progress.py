"""The progress line of a sweep: finished points, failures, remaining time, and the best result so far."""

import re
import statistics
import sys
import time

from comparing import tables

from .plan import Sweep, settings_text
from .store import Job, Outcome, objective

LINES_EVERY_S = 10.0  # where nobody watches a terminal
REDRAW_EVERY_S = 0.1


def duration(seconds: float) -> str:
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    return f"{seconds // 60} min {seconds % 60} s" if seconds < 3600 else f"{seconds // 3600} h {seconds % 3600 // 60} min"


def shown(sweep: Sweep, value: float) -> str:
    """A value of the objective; in a unit of time if the objective is a metric in seconds, not a sum or a quotient."""
    name = sweep.objective.text
    if not re.fullmatch(r"[\w.]+", name) or tables.formatter(name) is not tables.duration:
        return f"{value:.6g}"
    scale, unit = next((scale, unit) for least, scale, unit in tables.UNITS if abs(value) >= least)
    return f"{value * scale:.6g} {unit}"


class Ranking:
    """Ranks points by the objective of the sweep: the mean over the repeats of a point, when all repeats have finished."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.values: dict[int, list[float]] = {}  # by the position of the first repeat
        self.labels: dict[int, str] = {}

    def add(self, job: Job, outcome: Outcome) -> None:
        value = objective(self.sweep, job.point, outcome)
        if value is not None:
            first = job.point.position - job.point.position % self.sweep.repeats
            self.values.setdefault(first, []).append(value)
            self.labels[first] = settings_text(job.point.values)

    def best(self, count: int) -> list[tuple[float, str]]:
        """Values and labels, the best first."""
        repeats = self.sweep.repeats
        whole = [(statistics.fmean(values), first) for first, values in self.values.items() if len(values) == repeats]
        whole.sort(key=lambda entry: (-entry[0] if self.sweep.largest_is_best else entry[0], entry[1]))
        return [(value, self.labels[first]) for value, first in whole[:count]]


class Progress:
    """Counts finished points, and draws the line on stderr."""

    def __init__(self, ranking: Ranking, over: int, count: int) -> None:
        self.ranking = ranking
        self.over_before = self.over = over
        self.count = count
        self.failed = 0
        self.begun = self.drawn = time.monotonic()
        self.on_terminal = sys.stderr.isatty()

    def __call__(self, job: Job, outcome: Outcome) -> None:
        self.over += 1
        self.ranking.add(job, outcome)
        if outcome.error:
            self.failed += 1
            self._print(f"failed: {job.point.label}: {outcome.error}")
        now = time.monotonic()
        if now - self.drawn >= (REDRAW_EVERY_S if self.on_terminal else LINES_EVERY_S) or self.over == self.count:
            self.drawn = now
            self._draw(now)

    def _draw(self, now: float) -> None:
        left = (self.count - self.over) * (now - self.begun) / max(1, self.over - self.over_before)
        line = f"{self.over} of {self.count} over, {self.failed} failed, {duration(left)} left"
        best = self.ranking.best(1)
        if best:
            line += f", best {self.ranking.sweep.objective.text} = {shown(self.ranking.sweep, best[0][0])} at {best[0][1]}"
        if self.on_terminal:
            print(f"\r\033[K{line}", end="\n" if self.over == self.count else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def _print(self, line: str) -> None:
        print(f"\r\033[K{line}" if self.on_terminal else line, file=sys.stderr, flush=True)
