"""Line charts of a quantity by size, with one line for each setting; and bar charts without sizes.

This module computes numbers, as charts.py does; draw_lines.py draws."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from .charts import Chart, Table

MOST_LINES = 24
MOST_BARS = 120
Bar = tuple[int | None, str, dict[str, float]]  # number and label of a run, values by way


@dataclass
class Dot:
    """A value of a run. `number`: of the run, if the page has a row for the run."""

    x: float
    y: float
    number: int | None
    note: str = ""  # what else is to be said


@dataclass
class Line:
    """The line of one setting, by x. `level`: its value if the setting has no x; drawn as a dotted line. `look`: the number of its style
    (draw_lines.look), where lines belong together; else that of its place."""

    label: str
    dots: list[Dot]
    level: float | None = None
    look: int | None = None


@dataclass
class Lines(Chart):
    """A quantity by another quantity. `y_logarithmic`: a time whose small values matter as much as its large values."""

    x_name: str
    y_name: str
    lines: list[Line]
    y_logarithmic: bool = False
    limit: float | None = None  # of y: an objective
    place: float | None = None  # of x: where it is met

    @property
    def doubles(self) -> bool:
        """Whether all x are powers of two."""
        places = {dot.x for line in self.lines for dot in line.dots}
        return len(places) > 2 and min(places) > 0 and all(math.log2(place).is_integer() for place in places)

    @property
    def heights(self) -> list[float]:
        """The y values of all dots and levels."""
        levels = [line.level for line in self.lines if line.level is not None]
        return [dot.y for line in self.lines for dot in line.dots] + levels + ([] if self.limit is None else [self.limit])

    @property
    def reaches(self) -> tuple[float, float]:
        """Values of x and y that determine the units of the axes."""
        xs, ys = [dot.x for line in self.lines for dot in line.dots], self.heights
        return max(xs), math.sqrt(min(ys) * max(ys)) if self.y_logarithmic else max(ys)

    def table(self) -> Table:
        rows = [[line.label, dot.x, dot.y, dot.note] for line in self.lines for dot in line.dots]
        columns = 4 if any(row[3] for row in rows) else 3
        return Table(["setting", self.x_name, self.y_name, "how"][:columns], [row[:columns] for row in rows])


@dataclass
class Bars(Chart):
    """One value for each method, for each run. `base`: the value without any method."""

    value_name: str
    bars: list[Bar]
    base: float | None = None
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = list(dict.fromkeys(name for _, _, values in self.bars for name in values))

    def table(self) -> Table:
        rows = [[label, *(values.get(name) for name in self.names)] for _, label, values in self.bars]
        return Table(["run", *(f"{name}: {self.value_name}" if name else self.value_name for name in self.names)], rows)


def lines_of(samples: Iterable[tuple[str, Dot]]) -> list[Line]:
    """@param samples  label of the setting, and a dot. Dots with equal x (repeats) are averaged; their mark links to the first run"""
    found: dict[str, dict[float, list[Dot]]] = {}
    for label, dot in samples:
        found.setdefault(label, {}).setdefault(dot.x, []).append(dot)
    return [
        Line(
            label,
            [Dot(x, statistics.fmean(dot.y for dot in dots), dots[0].number, dots[0].note) for x, dots in sorted(by_x.items())],
        )
        for label, by_x in found.items()
    ]


def chart_of(
    name: str,
    title: str,
    x_name: str,
    y_name: str,
    samples: Iterable[tuple[str, Dot]],
    note: str = "",
    y_logarithmic: bool = False,
) -> list[Lines]:
    """One chart; no chart if there is nothing to show."""
    lines = lines_of(samples)
    if len(lines) > MOST_LINES:
        note = f"{note} The first {MOST_LINES} of {len(lines)} settings.".strip()
    return [Lines(name, title, x_name, y_name, lines[:MOST_LINES], y_logarithmic, note=note)] if lines else []


def bars_of(name: str, title: str, value_name: str, bars: list[Bar], base: float | None = None, note: str = "") -> list[Bars]:
    """The same for bars. Runs are shown completely or not at all, as many as there is space for."""
    shown, drawn = [], 0
    for bar in bars:
        drawn += len(bar[2])
        if shown and drawn > MOST_BARS:
            break
        shown.append(bar)
    if len(shown) < len(bars):
        note = f"{note} The first {len(shown)} of {len(bars)} runs.".strip()
    return [Bars(name, title, value_name, shown, base, note=note)] if shown else []
