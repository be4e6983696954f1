"""The charts of a report by matplotlib, as SVG and PNG for papers. The same input gives the same bytes."""

import pathlib
from collections.abc import Callable, Sequence

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"font.size": 9, "font.family": "sans-serif", "svg.hashsalt": "railyard", "svg.fonttype": "none"})

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.collections import LineCollection  # noqa: E402

from .charts import Chart, Front, Heat, Shares, part_class  # noqa: E402
from .draw_run import BINS, WORK, utilisation_bin  # noqa: E402
from .markup import MOST_LINEAR, Quantity, brief  # noqa: E402
from .run_charts import Pipeline, Roofline, Topology  # noqa: E402

COLORS = {
    "compute": "#2f6db5",
    "odd": "#5a90cf",
    "tp": "#c9720c",
    "gate": "#9a7008",
    "pp": "#2a9d6f",
    "kv": "#a64d9c",
    "bubble": "#a9b0b8",
    "rest": "#5a6068",
}
GROUPS = ["#2f6db5", "#d1601f", "#2a8f5f", "#8e4aa0", "#9a7b13", "#6b7178"]
LINKS = ["#c9cdd2", "#5b93c9", "#3f8f3f", "#948310", "#c9720c", "#d4512a", "#a1102a"]
WIDTH = 6.4  # inches
DPI = 150


def _plain(axis: Axes) -> None:
    axis.set_axisbelow(True)
    axis.grid(color="#e4e4e4")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _scale(set_scale: Callable, set_limits: Callable, values: Sequence[float]) -> None:
    if min(values) > 0 and max(values) / min(values) > MOST_LINEAR:
        set_scale("log")
    else:
        set_limits(0, max(values) * 1.06)


def front(chart: Front) -> pyplot.Figure:
    figure, axis = pyplot.subplots(figsize=(WIDTH, 3.8))
    quantity = Quantity.of(chart.x_name, max(mark.x for mark in chart.marks))
    limit = [] if chart.limit is None else [chart.limit * quantity.factor]
    _scale(axis.set_xscale, axis.set_xlim, limit + [mark.x * quantity.factor for mark in chart.marks])
    _scale(axis.set_yscale, axis.set_ylim, [mark.y for mark in chart.marks])
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
    _plain(axis)
    return figure


def shares(chart: Shares) -> pyplot.Figure:
    figure, axis = pyplot.subplots(figsize=(WIDTH, 1.2 + 0.22 * len(chart.bars)))
    quantity = Quantity.of("time_s", max(sum(seconds.values()) for _, _, seconds in chart.bars))
    places, begun = range(len(chart.bars)), [0.0] * len(chart.bars)
    for name in chart.names:
        widths = [seconds.get(name, 0.0) * quantity.factor for _, _, seconds in chart.bars]
        axis.barh(places, widths, left=begun, color=COLORS[part_class(name)], label=name, height=0.7)
        begun = [start + width for start, width in zip(begun, widths)]
    axis.set_yticks(places, [label for _, label, _ in chart.bars])
    axis.invert_yaxis()
    axis.set_xlabel(quantity.label)
    _plain(axis)
    axis.grid(visible=False, axis="y")
    figure.legend(frameon=False, fontsize=8, ncol=3, loc="upper center", bbox_to_anchor=(0.5, 0.02))
    return figure


def heat(chart: Heat) -> pyplot.Figure:
    across = min(3, len(chart.panels))
    down = -(-len(chart.panels) // across)
    size = (0.9 + 0.62 * len(chart.columns), 0.9 + 0.36 * len(chart.rows))
    figure, grid = pyplot.subplots(down, across, figsize=(size[0] * across, size[1] * down), squeeze=False)
    low, high = min(chart.values), max(chart.values)
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
                        fontweight="bold" if value == chart.best else "normal",
                    )
        axis.set_xticks(range(len(chart.columns)), chart.columns)
        axis.set_yticks(range(len(chart.rows)), chart.rows)
        axis.set_xlabel(chart.column_name)
        axis.set_ylabel(chart.row_name)
        axis.set_title(panel.title, fontsize=8)
    figure.suptitle(chart.value_name, fontsize=9)
    return figure


def pipeline(chart: Pipeline) -> pyplot.Figure:
    figure, axis = pyplot.subplots(figsize=(WIDTH, 1.2 + 0.26 * len(chart.lanes)))
    quantity = Quantity.of("time_s", max(bar.end_s for bar in chart.bars))
    rows = {lane: i for i, lane in enumerate(chart.lanes)}
    drawn: dict[tuple[float, float], list] = {}  # by place and height
    for bar in chart.bars:
        place = (rows[bar.lane] + 0.2, 0.2)
        if bar.work == "tp":  # of all ranks
            place = (-0.42, len(rows) - 0.45)
        elif bar.work == "compute":
            place = (rows[bar.lane] - 0.42, 0.55)
        drawn.setdefault(place, []).append(bar)
    for (place, tall), bars in drawn.items():
        colors = [COLORS["odd" if bar.work == "compute" and i % 2 == 0 else bar.work] for i, bar in enumerate(bars)]
        spans = [(bar.begin_s * quantity.factor, (bar.end_s - bar.begin_s) * quantity.factor) for bar in bars]
        axis.broken_barh(spans, (place, tall), facecolors=colors)
    for work in WORK:
        if any(bar.work == work for bar in chart.bars):
            axis.barh(0, 0, color=COLORS[work], label=WORK[work])
    axis.set_yticks(range(len(chart.lanes)), chart.lanes)
    axis.invert_yaxis()
    axis.set_xlabel(quantity.label)
    _plain(axis)
    axis.grid(visible=False, axis="y")
    figure.legend(frameon=False, fontsize=8, ncol=4, loc="upper center", bbox_to_anchor=(0.5, 0.02))
    return figure


def topology(chart: Topology) -> pyplot.Figure | None:
    if not chart.devices:
        return None
    rows = {row: -i for i, row in enumerate(sorted({device.row for device in chart.devices}))}
    places = {device.name: (device.column, rows[device.row]) for device in chart.devices}
    wide = max(x for x, _ in places.values()) + 1
    figure, axis = pyplot.subplots(figsize=(max(WIDTH, 0.42 * wide), 0.8 + 0.7 * len(rows)))
    links = sorted(chart.connections, key=lambda link: link.utilisation)
    bins = [utilisation_bin(link.utilisation) for link in links]
    axis.add_collection(
        LineCollection(
            [[places[end] for end in link.ends] for link in links],
            colors=[LINKS[b] for b in bins],
            linewidths=[1.0 if b == 0 else 1.8 for b in bins],
        )
    )
    for device in chart.devices:
        axis.text(
            *places[device.name],
            device.name.rpartition(".")[2].replace("nvswitch", "nvs"),
            ha="center",
            va="center",
            fontsize=6,
            bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "#5a6068"},
        )
    for i, label in enumerate(["0 %", *(f"< {100 * edge:g} %" for edge in BINS), f">= {100 * BINS[-1]:g} %"]):
        if i in bins:
            axis.plot([], [], color=LINKS[i], label=label)
    axis.set_xlim(-0.7, wide - 0.3)
    axis.set_ylim(min(rows.values()) - 0.5, 0.5)
    axis.axis("off")
    figure.legend(frameon=False, fontsize=8, ncol=7, loc="upper center", bbox_to_anchor=(0.5, 0.02))
    return figure


def roofline(chart: Roofline) -> pyplot.Figure:
    figure, axis = pyplot.subplots(figsize=(WIDTH, 3.8))
    for color, limit in zip(GROUPS, dict.fromkeys(kernel.limit for kernel in chart.kernels)):
        members = [kernel for kernel in chart.kernels if kernel.limit == limit]
        axis.plot(
            [kernel.flops_per_byte for kernel in members],
            [kernel.tflops for kernel in members],
            linestyle="",
            marker="o",
            markersize=4,
            color=color,
            label=f"limited by {limit}",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    low, high = axis.get_xlim()
    for name, peak in chart.peaks.items():
        corner = peak * 1e3 / chart.gb_per_s
        high = max(high, corner * 3)
        axis.plot([low, corner, high], [low * chart.gb_per_s * 1e-3, peak, peak], color="#5a6068", linewidth=1)
        axis.text(high, peak, f"{name} {peak:.0f} TFLOP/s ", ha="right", va="bottom", fontsize=7)
    axis.set_xlabel("FLOPs / HBM byte")
    axis.set_ylabel("TFLOP/s")
    axis.legend(frameon=False, fontsize=8)
    _plain(axis)
    return figure


DRAWN = {Front: front, Shares: shares, Heat: heat, Pipeline: pipeline, Topology: topology, Roofline: roofline}


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
