"""Charts of one run by matplotlib; see figures.py."""

from matplotlib import pyplot
from matplotlib.collections import LineCollection

from .draw_run import BINS, WORK, utilisation_bin
from .figure_style import COLORS, GROUPS, LINKS, WIDTH, downward, key, look_color, plain
from .kernel_charts import Roofline
from .markup import Quantity
from .path_charts import Causes
from .run_charts import Pipeline, Topology


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
    downward(axis, range(len(chart.lanes)), chart.lanes, quantity.label)
    key(figure, 4)
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
    key(figure, 7)
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
    for name, peak in chart.roofs.items():
        corner = peak * 1e3 / chart.gb_per_s
        high = max(high, corner * 3)
        axis.plot([low, corner, high], [low * chart.gb_per_s * 1e-3, peak, peak], color="#5a6068", linewidth=1)
        axis.text(high, peak, f"{name} {peak:.0f} TFLOP/s ", ha="right", va="bottom", fontsize=7)
    axis.set_xlabel("FLOPs / HBM byte")
    axis.set_ylabel("TFLOP/s")
    axis.legend(frameon=False, fontsize=8)
    plain(axis)
    return figure


def causes(chart: Causes) -> pyplot.Figure:
    figure, axes = pyplot.subplots(
        len(chart.bars), 1, figsize=(WIDTH, 1.05 * len(chart.bars) + 0.4), sharex=True, squeeze=False
    )
    quantity = Quantity.of(chart.path.metric, chart.path.mean_s)
    for (view, pieces), axis in zip(chart.bars, axes.flat):
        begun = 0.0
        for piece in pieces:
            axis.barh(
                0, piece.seconds * quantity.factor, left=begun, color=look_color(piece.look), label=piece.name, height=0.7
            )
            begun += piece.seconds * quantity.factor
        axis.set_yticks([])
        axis.set_title(view, fontsize=8, loc="left")
        axis.legend(frameon=False, fontsize=6.5, ncol=4, loc="upper left", bbox_to_anchor=(0, 0))
        for side in axis.spines.values():
            side.set_visible(False)
        axis.tick_params(bottom=False, labelbottom=False)
    figure.supxlabel(f"{quantity.label}: {chart.path.mean_s * quantity.factor:.5g}", fontsize=8)
    return figure
