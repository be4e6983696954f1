"""The charts of a report by matplotlib, as SVG and PNG for papers. The same input gives the same bytes."""

import pathlib
from collections.abc import Sequence

from matplotlib import pyplot

from . import figures_run
from .charts import Chart, Front, Heat, Shares, part_class
from .figure_style import COLORS, DASHES, GROUPS, MARKERS, WIDTH, downward, key, plain, scale
from .kernel_charts import Roofline
from .lines import Bars, Lines
from .markup import Quantity, brief, shown
from .path_charts import Causes
from .run_charts import Pipeline, Topology

DPI = 150


def front(chart: Front) -> pyplot.Figure:
    figure, axis = pyplot.subplots(figsize=(WIDTH, 3.8))
    quantity = Quantity.of(chart.x_name, max(mark.x for mark in chart.marks))
    limit = [] if chart.limit is None else [chart.limit * quantity.factor]
    scale(axis.set_xscale, axis.set_xlim, limit + [mark.x * quantity.factor for mark in chart.marks])
    scale(axis.set_yscale, axis.set_ylim, [mark.y for mark in chart.marks])
    for i, group in enumerate(chart.groups):
        members = [mark for mark in chart.marks if mark.group == group]
        best = sorted((mark for mark in members if mark.best), key=lambda mark: mark.x)
        color = GROUPS[min(i, len(GROUPS) - 1)]
        axis.plot(
            [mark.x * quantity.factor for mark in members],
            [mark.y for mark in members],
            linestyle="",
            marker="o",
            markersize=4,
            color=color,
            label=group or None,
        )
        axis.step([mark.x * quantity.factor for mark in best], [mark.y for mark in best], where="post", color=color)
    for place in limit:
        axis.axvline(place, color="#c0392b", linestyle="--", linewidth=1)
        axis.text(place, axis.get_ylim()[1], f" SLO {place:g}", color="#c0392b", va="top", fontsize=8)
    axis.set_xlabel(quantity.label)
    axis.set_ylabel(chart.y_name)
    if len(chart.groups) > 1:
        axis.legend(frameon=False)
    plain(axis)
    return figure


def shares(chart: Shares) -> pyplot.Figure:
    figure, axis = pyplot.subplots(figsize=(WIDTH, 1.2 + 0.22 * len(chart.bars)))
    quantity = Quantity.of("time_s", max(sum(seconds.values()) for _, _, seconds in chart.bars))
    places, begun = range(len(chart.bars)), [0.0] * len(chart.bars)
    for name in chart.names:
        widths = [seconds.get(name, 0.0) * quantity.factor for _, _, seconds in chart.bars]
        axis.barh(places, widths, left=begun, color=COLORS[part_class(name)], label=name, height=0.7)
        begun = [start + width for start, width in zip(begun, widths)]
    downward(axis, places, [label for _, label, _ in chart.bars], quantity.label)
    key(figure, 3)
    return figure


def heat(chart: Heat) -> pyplot.Figure:
    across = min(3, len(chart.panels))
    down = -(-len(chart.panels) // across)
    size = (0.9 + 0.62 * len(chart.columns), 0.9 + 0.36 * len(chart.rows))
    figure, grid = pyplot.subplots(down, across, figsize=(size[0] * across, size[1] * down), squeeze=False)
    low, high = chart.lowest, max(chart.values)
    for axis in grid.flat[len(chart.panels) :]:
        axis.set_visible(False)
    for panel, axis in zip(chart.panels, grid.flat):
        values = [[panel.cells.get((row, column), (float("nan"), 0))[0] for column in chart.columns] for row in chart.rows]
        axis.imshow(values, vmin=low, vmax=high, cmap="Blues", aspect="auto")
        for r, line in enumerate(values):
            for c, value in enumerate(line):
                if value == value:
                    dark = high > low and (value - low) / (high - low) > 0.55
                    axis.text(
                        c,
                        r,
                        brief(value),
                        ha="center",
                        va="center",
                        fontsize=6.5,
                        color="white" if dark else "black",
                        fontweight="bold" if chart.marks_best and value == chart.best else "normal",
                    )
        axis.set_xticks(range(len(chart.columns)), chart.columns)
        axis.set_yticks(range(len(chart.rows)), chart.rows)
        axis.set_xlabel(chart.column_name)
        axis.set_ylabel(chart.row_name)
        axis.set_title(panel.title, fontsize=8)
    figure.suptitle(chart.value_name, fontsize=9)
    return figure


def lines(chart: Lines) -> pyplot.Figure:
    figure, axis = pyplot.subplots(figsize=(WIDTH, 3.8))
    x_name, y_name = (Quantity.of(name, largest) for name, largest in zip((chart.x_name, chart.y_name), chart.reaches))
    for i, line in enumerate(chart.lines):
        axis.plot(
            [dot.x * x_name.factor for dot in line.dots],
            [dot.y * y_name.factor for dot in line.dots],
            color=GROUPS[i % len(GROUPS)],
            linestyle=DASHES[i // len(GROUPS)],
            marker=MARKERS[i // len(GROUPS)],
            markersize=3.5,
            linewidth=1.2,
            label=line.label or None,
        )
    xs = [dot.x for line in chart.lines for dot in line.dots]
    if chart.doubles:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(lambda value, _: x_name.text(value))
    else:
        scale(axis.set_xscale, axis.set_xlim, [x * x_name.factor for x in xs])
    if chart.y_logarithmic:
        axis.set_yscale("log")
    else:
        axis.set_ylim(0)
    axis.set_xlabel(x_name.label)
    axis.set_ylabel(y_name.label)
    if len(chart.lines) > 1:
        axis.legend(frameon=False, fontsize=7)
    plain(axis)
    return figure


def bars(chart: Bars) -> pyplot.Figure:
    rows = sum(len(values) for _, _, values in chart.bars)
    figure, axis = pyplot.subplots(figsize=(WIDTH, 1.0 + 0.16 * rows + 0.12 * len(chart.bars)))
    quantity = Quantity.of(chart.value_name, max(value for _, _, values in chart.bars for value in values.values()))
    ticks, top = [], 0.0
    for _, label, values in chart.bars:
        ticks.append((top, label))
        for way, value in values.items():
            axis.barh(top, value * quantity.factor, color=GROUPS[chart.names.index(way) % len(GROUPS)], height=0.85)
            axis.text(value * quantity.factor, top, f" {shown(value, chart.value_name)}", va="center", fontsize=6.5)
            top += 1
        top += 0.7
    if chart.names != [""]:
        for i, way in enumerate(chart.names):
            axis.barh(0, 0, color=GROUPS[i % len(GROUPS)], label=way)
        key(figure, 4)
    if chart.base is not None:
        axis.axvline(chart.base * quantity.factor, color="#c0392b", linestyle="--", linewidth=1)
    axis.margins(x=0.12)
    downward(axis, [place for place, _ in ticks], [label for _, label in ticks], quantity.label)
    return figure


DRAWN = {
    Front: front,
    Shares: shares,
    Heat: heat,
    Lines: lines,
    Bars: bars,
    Pipeline: figures_run.pipeline,
    Topology: figures_run.topology,
    Roofline: figures_run.roofline,
    Causes: figures_run.causes,
}


def draw_all(charts: Sequence[Chart], directory: pathlib.Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        figure = DRAWN[type(chart)](chart)
        if figure is None:
            continue
        figure.tight_layout()
        figure.savefig(directory / f"{chart.name}.svg", bbox_inches="tight", metadata={"Date": None})
        figure.savefig(directory / f"{chart.name}.png", bbox_inches="tight", dpi=DPI, metadata={"Software": None})
        pyplot.close(figure)
