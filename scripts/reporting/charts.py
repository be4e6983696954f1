"""Charts of many points: the Pareto front, the parts of a time, and heat maps of two axes.

This module computes numbers; draw.py draws."""

import difflib
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from comparing.tables import parts
from lib import request_times

from .source import Error, Point, Subject, mean

MOST_BARS = 60
MOST_PANELS = 12
LEAST_PART = 1e-6  # of a bar; less is rounding
QUESTIONS = (
    "model.config",
    "workload.requests",
    "workload.op",
    "workload.phase",
    "workload.tokens",
    "workload.batch",
    "workload.context_tokens",
)


@dataclass(frozen=True)
class Limit:
    """A service level of a metric, which may be any percentile of a time of each request."""

    metric: str
    value: float
    is_most: bool = True

    @property
    def text(self) -> str:
        return f"{self.metric} {'<=' if self.is_most else '>='} {self.value:g}"

    def of(self, point: Point) -> float | None:
        """The value of its metric."""
        found = point.metrics.get(self.metric)
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            return found
        try:
            return request_times.value_of(self.metric, point.files) if point.files else None
        except ValueError as error:
            raise Error(f"--slo {error}") from error

    def keeps(self, value: float) -> bool:
        return value <= self.value if self.is_most else value >= self.value


@dataclass
class Table:
    """The numbers of a chart as a table, also for readers who cannot see the chart."""

    header: list[str]
    rows: list[list]


@dataclass
class Chart:
    """`name` is unique in a report; the section and the file of the figure have this name. `note`: omissions, or how to read the chart."""

    name: str
    title: str
    note: str = field(default="", kw_only=True)
    table_open: bool = field(default=False, kw_only=True)  # its numbers say what the drawing does not


@dataclass
class Mark:
    """A run in a front. `best`: no other run of its group is better in both quantities."""

    number: int
    label: str
    group: str  # what was asked: runs of different questions do not compete
    x: float
    y: float
    best: bool = False


@dataclass
class Front(Chart):
    """Throughput (higher is better) against a time (lower is better)."""

    x_name: str
    y_name: str
    marks: list[Mark]
    limit: Limit | None = None  # of x

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(mark.group for mark in self.marks))

    def table(self) -> Table:
        rows = [[mark.label, mark.x, mark.y, "yes" if mark.best else ""] for mark in sorted(self.marks, key=lambda m: m.x)]
        return Table(["run", self.x_name, self.y_name, "on the front"], rows)


@dataclass
class Shares(Chart):
    """Parts that add up to a time, one bar for each run."""

    bars: list[tuple[int | None, str, dict[str, float]]]  # number and label of the run, seconds by part
    looks: dict[str, str] = field(default_factory=dict)  # style classes by part; of others, that of part_class()

    def look(self, part: str) -> str:
        return self.looks.get(part) or f"p-{part_class(part)}"

    @property
    def names(self) -> list[str]:
        """Of the parts that a bar has."""
        return list(dict.fromkeys(name for _, _, parts in self.bars for name, seconds in parts.items() if seconds > LEAST_PART * sum(parts.values())))

    def table(self) -> Table:
        rows = [
            [label, *(seconds.get(name, 0.0) for name in self.names), sum(seconds.values())] for _, label, seconds in self.bars
        ]
        return Table(["run", *(f"{name}, s" for name in self.names), "together, s"], rows)


@dataclass
class Panel:
    """A heat map of the runs that have these values on all other axes."""

    title: str
    cells: dict[tuple[object, object], tuple[float, int | None]]  # (row, column): mean value, and one run's number


@dataclass
class Heat(Chart):
    """A value by two axes. `marks_best`: the best cell is outlined, and colours span the range of values; otherwise colours start at zero."""

    value_name: str
    largest_is_best: bool
    row_name: str
    column_name: str
    rows: list
    columns: list
    panels: list[Panel]
    marks_best: bool = True

    @property
    def values(self) -> list[float]:
        return [value for panel in self.panels for value, _ in panel.cells.values()]

    @property
    def lowest(self) -> float:
        """The value at which the colours start."""
        return min(self.values) if self.marks_best else 0.0

    @property
    def best(self) -> float:
        return max(self.values) if self.largest_is_best else min(self.values)

    def table(self) -> Table:
        rows = [[panel.title, row, column, value] for panel in self.panels for (row, column), (value, _) in panel.cells.items()]
        return Table(["other axes", self.row_name, self.column_name, self.value_name], rows)


# What a part of a time is, whatever the kind calls it: the drawings' colours.
CLASSES = {
    "kernels": "compute",
    "kernels and the rest": "compute",
    "all-reduces": "tp",
    "collectives": "tp",
    "waiting for the last peer": "gate",
    "waiting for activations": "pp",
    "waiting for the host": "host",
    "handoff": "kv",
    "bubble": "bubble",
}
# Parts of a training step, in words, with their looks.
STEP_PARTS = {
    "exposed tp": ("tensor-parallel collectives", "p-tp"),
    "exposed pp": ("pipeline transfers", "p-pp"),
    "exposed dp": ("data-parallel collectives", "p-kv"),
    "exposed cp": ("context-parallel transfers", "w0"),
    "exposed ep": ("exchange between experts", "w1"),
    "exposed weights": ("gathering of weights", "w3"),
    "exposed offload": ("offloading", "w2"),
    "host": ("host software", "p-host"),
    "optimizer": ("optimizer", "p-compute odd"),
}
STEP_LOOKS = dict(STEP_PARTS.values())


def part_class(name: str) -> str:
    return CLASSES.get(name, "rest")


def numbered(point: Point, prefix: str) -> list[str]:
    """The metrics of a point that are named `prefix` and a number, by number."""
    names = [name for name in point.metrics if name.startswith(prefix) and name[len(prefix) :].isdigit()]
    return sorted(names, key=lambda name: int(name[len(prefix) :]))


def _front_axes(point: Point) -> list[tuple[str, str, str, Callable[[Point], int]]]:
    """For the kind of this run: name, time, throughput, and the number of GPUs by which throughput is divided."""
    if point.kind == "disaggregated_prefill":
        return [
            ("prefill", "ttft_s", "prefill_capacity_tokens_per_s", lambda p: p.ranks("prefill")),
            ("decode", "tpot_s", "iterations.tokens_per_s", lambda p: p.ranks("decode")),
        ]
    if point.kind == "serving":
        return [
            ("TTFT", "ttft_p99_s", "request_rate_per_s", lambda p: p.ranks()),
            ("TPOT", "tpot_p50_s", "output_tokens_per_s", lambda p: p.ranks()),
        ]
    if point.kind == "layer" and "tokens_per_s" in point.metrics:
        return [("pass", "pass_s", "tokens_per_s", lambda p: p.metrics["ranks"])]
    if point.kind == "layer":
        return [("layer", "layer_s", "tflops", lambda p: 1)]
    if point.kind == "collective" and (sizes := numbered(point, "time_s.")):
        return [("collective", sizes[0], numbered(point, "busbw_gb_per_s.")[-1], lambda p: 1)]
    return []


def _question(subject: Subject, point: Point) -> str:
    """The values of the axes that define the question (sizes, for example), not a choice."""
    asked = [name for name, keys in subject.axes.items() if any(key.startswith(QUESTIONS) for key in keys)]
    return ", ".join(f"{name}={point.values[name]}" for name in asked)


def fronts(subject: Subject, limits: Iterable[Limit]) -> list[Front]:
    """The fronts of a sweep, those of its kind and one for each limit of another metric; a single run has none."""
    found: dict[str, Front] = {}
    by_metric = {limit.metric: limit for limit in limits}
    for point in subject.done if subject.is_sweep else []:
        axes = _front_axes(point)
        for name, x_name, y_name, gpus in axes:
            _mark(subject, found, f"front-{name}", f"Front: {name}", point, x_name, point.metrics.get(x_name), y_name, gpus, by_metric)
        for metric, limit in by_metric.items():
            if all(metric != x_name for _, x_name, _, _ in axes):
                _, _, y_name, gpus = axes[-1] if axes else ("", "", subject.objective, lambda p: 1)
                _mark(subject, found, f"front-{metric}", f"Front: {metric}", point, metric, limit.of(point), y_name, gpus, by_metric)
    for chart in found.values():
        highest = dict.fromkeys(chart.groups, -math.inf)
        for mark in sorted(chart.marks, key=lambda m: (m.x, -m.y)):
            mark.best = mark.y > highest[mark.group]
            highest[mark.group] = max(highest[mark.group], mark.y)
        if chart.limit is not None:
            within = [mark for mark in chart.marks if chart.limit.keeps(mark.x)]
            best = max(within, key=lambda m: m.y, default=None)
            most = f"the most throughput has {best.label}" if best else "none"
            sign = "" if chart.limit.is_most else "at least "
            chart.note = f"Within {chart.x_name} = {sign}{chart.limit.value:g}: {len(within)} of {len(chart.marks)} runs; {most}."
    return list(found.values())


def _mark(subject: Subject, found: dict[str, Front], name: str, title: str, point: Point, x_name: str, x: float | None, y_name: str,
          gpus: Callable[[Point], int], limits: dict[str, Limit]) -> None:
    """Adds a run to a front, if it has both quantities."""
    y = point.metrics.get(y_name, point.objective if y_name == subject.objective else None)
    if not x or y is None or not (count := gpus(point)):
        return
    per_gpu = "" if point.kind == "collective" or y_name in ("tflops", subject.objective) else " per GPU"
    chart = found.setdefault(name, Front(name, title, x_name, y_name + per_gpu, [], limits.get(x_name)))
    chart.marks.append(Mark(point.number, point.label, _question(subject, point), x, y / count))


def kept(subject: Subject, limits: list[Limit]) -> str:
    """How many runs keep all limits, and the best of them; of a single run, each value. @throws Error for a metric that no run has"""
    values = {limit: {point.number: value for point in subject.done if (value := limit.of(point)) is not None} for limit in limits}
    for limit, of_limit in values.items():
        if not of_limit:
            names = {name for point in subject.done for name in point.metrics} | set(request_times.examples())
            close = difflib.get_close_matches(limit.metric, sorted(names), 3, 0.5)
            raise Error(f"--slo {limit.metric}: no run has this metric" + (f"; nearest: {', '.join(close)}" if close else ""))
    if not limits:
        return ""
    texts = ", ".join(limit.text for limit in limits)
    if not subject.is_sweep:
        return ", ".join(f"{limit.text}: {'kept' if limit.keeps(value) else 'broken'} ({value:.4g})" for limit, of in values.items() for value in of.values())
    within = [point for point in subject.ranked() if all(point.number in of and limit.keeps(of[point.number]) for limit, of in values.items())]
    best = f"; the {'best' if subject.objective else 'first'} of them: {within[0].label}" if within else ""
    return f"{len(within)} of {len(subject.done)} runs keep {texts}{best}"


def shares(subject: Subject) -> list[Shares]:
    """The parts of each phase of a kind. Metrics named `phase: part` add up to the phase."""
    found: dict[str, Shares] = {}
    points = subject.ranked()
    bars = points[:MOST_BARS]
    if all(point.kind == "layer" for point in bars):  # by size, not by rank: what grows with tokens and ranks is the question
        bars.sort(key=lambda point: point.number)
    for point in bars:
        phases: dict[str, dict[str, float]] = {}
        for name, seconds in parts(point.metrics).items():
            phase, colon, part = name.partition(": ")
            if colon:
                phases.setdefault(phase, {})[part] = seconds
            elif name == "handoff":  # after the first token: on top of prefill
                phases["prefill"][name] = seconds
        for phase, of_phase in phases.items():
            if sum(of_phase.values()) <= 0:  # interrupted before it began
                continue
            looks = STEP_LOOKS if phase == "step" else {}
            chart = found.setdefault(phase, Shares("parts-" + phase.replace(" ", "-"), f"Where the time goes: {phase}", [], looks))
            of_phase = {STEP_PARTS.get(part, (part,))[0] if looks else part: seconds for part, seconds in of_phase.items()}
            chart.bars.append((point.number, point.label, of_phase))
    for chart in found.values():
        if len(points) > MOST_BARS:
            chart.note = f"The best {MOST_BARS} of {len(points)} runs."
    return list(found.values())


def _heat_axes(subject: Subject) -> tuple[str, str] | None:
    """Tensor-parallel and pipeline-parallel sizes if the sweep has both; otherwise its first two axes."""
    for end in ("prefill.{}", "{}"):
        pair = [
            next(
                (name for name, keys in subject.axes.items() if any(key.endswith("." + end.format(size)) for key in keys)), None
            )
            for size in ("tp", "pp")
        ]
        if all(pair):
            return pair[0], pair[1]
    names = list(subject.axes)
    return (names[0], names[1]) if len(names) > 1 else None


def _order(values: Iterable) -> list:
    """Sorts numbers by value, then words in their given order."""
    return sorted(dict.fromkeys(values), key=lambda value: (1, 0) if isinstance(value, str) else (0, value))


def heats(subject: Subject) -> list[Heat]:
    """The objective by two axes, with one panel for each combination of the other axes. Repeats are averaged."""
    points = [point for point in subject.done if point.objective is not None]
    axes = _heat_axes(subject)
    if axes is None or not points:
        return []
    others = [name for name in subject.axes if name not in axes]
    rows, columns = (_order(point.values[axis] for point in points) for axis in axes)
    values = [_order(point.values[name] for point in points) for name in others]
    panels = []
    for combination in itertools.product(*values):
        members = [point for point in points if all(point.values[name] == v for name, v in zip(others, combination))]
        cells = {}
        for row, column in itertools.product(rows, columns):
            here = [point for point in members if (point.values[axes[0]], point.values[axes[1]]) == (row, column)]
            if here:
                cells[row, column] = (mean(point.objective for point in here), here[0].number)
        if cells:
            panels.append(Panel(", ".join(f"{name}={value}" for name, value in zip(others, combination)), cells))
    note = f"{subject.objective}: the {'largest' if subject.largest_is_best else 'smallest'} is best."
    if len(panels) > MOST_PANELS:
        note += f" The first {MOST_PANELS} of {len(panels)} combinations of the other axes."
    title = f"{axes[0].upper()} x {axes[1].upper()}" if axes == ("tp", "pp") else f"{axes[0]} x {axes[1]}"
    return [
        Heat("heat", title, subject.objective, subject.largest_is_best, *axes, rows, columns, panels[:MOST_PANELS], note=note)
    ]
