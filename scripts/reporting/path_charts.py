"""Critical paths of a run with --why, by cost, traffic class and link."""

import pathlib
from dataclasses import dataclass

from lib import critical_path

from .charts import Chart, Table

OTHER = "all else"
# Classes of the page's style.
LOOKS = {
    "kernels": "p-compute",
    "kernel slow-down by contention": "g4",
    "slow GPUs": "g3",
    "collectives waiting for SMs": "p-gate",
    "collective protocol steps": "p-tp",
    "DMA engines and copy rates": "p-kv",
    "latency": "g5",
    "serialisation on the bottleneck link": "p-pp",
    "queueing": "g1",
    "host software": "p-host",
    "delays": "p-rest",
    "idle: no work had arrived": "p-bubble",
    "tp": "p-tp",
    "pp": "p-pp",
    "kv": "p-kv",
    OTHER: "p-bubble",
}
COLOURS = ("g0", "g1", "g2", "g3", "g4", "g5")


PLAIN = ("kernels bound by", "slow GPU", "host", "links")  # views whose parts have no colour of their own


@dataclass
class Piece:
    name: str
    look: str
    seconds: float


def _change(without_s: float | None, mean_s: float) -> list[float | str]:
    return ["not predicted", ""] if without_s is None else [without_s, without_s - mean_s]


@dataclass
class Causes(Chart):
    """The critical path of a metric as bars, one for each view. Each bar is as long as the metric."""

    path: critical_path.Path

    @property
    def bars(self) -> list[tuple[str, list[Piece]]]:
        bars = []
        for view, parts in self.path.views.items():
            if not parts:
                continue  # no GPU is slow
            shown = parts
            if view == "links":
                shown = sorted(parts, key=lambda part: -part.path_s)[: len(COLOURS)]
            pieces = [
                Piece(part.name, COLOURS[i] if view in PLAIN else LOOKS.get(part.name, "p-rest"), part.path_s)
                for i, part in enumerate(shown)
            ]
            rest = self.path.mean_s - sum(piece.seconds for piece in pieces)
            if view != "cost" and rest > 0:
                pieces.append(Piece(OTHER, LOOKS[OTHER], rest))
            bars.append((view if view.endswith("by") else f"by {view}", pieces))
        return bars

    def table(self) -> Table:
        rows = [
            [critical_path.labelled(view, part.name), part.path_s, 100 * part.path_s / self.path.mean_s]
            + [*_change(part.without_s, self.path.mean_s), part.where]
            for view, parts in self.path.views.items()
            for part in parts
        ]
        metric = self.path.metric.removesuffix("_s")
        return Table(["what", "on the path, s", "share, %", f"{metric} without it, s", "change, s", "most at"], rows)


def charts(files: pathlib.Path) -> list[Causes]:
    note = (
        "The critical path: what nothing else hid. Without one part, others take over, so changes do not add up."
    )
    return [Causes(f"why-{path.metric}", f"Critical path of {path.metric}", path, note=note, table_open=True) for path in critical_path.read(files)]
