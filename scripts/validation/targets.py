"""Targets of a class: the largest error that the model should have, over groups of rows; and their table in the digest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .comparison import Outcome
from .figures import percentile

STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "median": lambda sizes: percentile(sizes, 0.5),
    "90th percentile": lambda sizes: percentile(sizes, 0.9),
    "mean": lambda sizes: sum(sizes) / len(sizes),
}


@dataclass(frozen=True)
class Target:
    """Rows of one group, and the largest value of some statistics of their |error|."""

    name: str
    belongs: Callable[[Outcome], bool]
    limits: dict[str, float]


def lines(targets: Sequence[Target], outcomes: Sequence[Outcome]) -> list[str]:
    """The table of the targets, for the digest."""
    headings = [name for statistic in STATISTICS for name in (statistic, "target")]
    made = ["### Targets", "", "|error| over the rows compared, beside the largest value that it should have.", "",
            "| rows of | rows | " + " | ".join(headings) + " |", "| --- |" + " ---: |" * (len(headings) + 1)]
    for target in targets:
        sizes = [abs(one.error) for one in outcomes if not one.skipped and target.belongs(one)]
        if not sizes:
            continue
        cells = []
        for name, statistic in STATISTICS.items():
            cells += [f"{100 * statistic(sizes):.1f} %", f"{100 * target.limits[name]:.4g} %" if name in target.limits else ""]
        made.append(f"| {target.name} | {len(sizes)} | " + " | ".join(cells) + " |")
    return made + [""]
