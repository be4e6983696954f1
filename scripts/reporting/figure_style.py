"""How figures look: matplotlib's settings, colours, and what their axes share."""

from collections.abc import Callable, Sequence

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"font.size": 9, "font.family": "sans-serif", "svg.hashsalt": "railyard", "svg.fonttype": "none"})

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from .markup import MOST_LINEAR  # noqa: E402

COLORS = {
    "compute": "#2f6db5",
    "odd": "#5a90cf",
    "tp": "#c9720c",
    "gate": "#9a7008",
    "pp": "#2a9d6f",
    "kv": "#a64d9c",
    "bubble": "#a9b0b8",
    "host": "#b0413e",
    "rest": "#5a6068",
}
GROUPS = ["#2f6db5", "#d1601f", "#2a8f5f", "#8e4aa0", "#9a7b13", "#6b7178"]
DASHES, MARKERS = ("-", "--", ":", "-."), "os^D"
LINKS = ["#c9cdd2", "#5b93c9", "#3f8f3f", "#948310", "#c9720c", "#d4512a", "#a1102a"]
WIDTH = 6.4  # inches


def look_color(look: str) -> str:
    """Of a class of the page's style."""
    return COLORS[look[2:]] if look.startswith("p-") else GROUPS[int(look[1:])]


def plain(axis: Axes) -> None:
    axis.set_axisbelow(True)
    axis.grid(color="#e4e4e4")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def downward(axis: Axes, places: Sequence[float], labels: Sequence[str], x_label: str) -> None:
    """Rows from top to bottom."""
    axis.set_yticks(places, labels)
    axis.invert_yaxis()
    axis.set_xlabel(x_label)
    plain(axis)
    axis.grid(visible=False, axis="y")


def key(figure: pyplot.Figure, columns: int) -> None:
    """Below the chart."""
    figure.legend(frameon=False, fontsize=8, ncol=columns, loc="upper center", bbox_to_anchor=(0.5, 0.02))


def scale(set_scale: Callable, set_limits: Callable, values: Sequence[float]) -> None:
    if min(values) > 0 and max(values) / min(values) > MOST_LINEAR:
        set_scale("log")
    else:
        set_limits(0, max(values) * 1.06)
