"""The picture of training steps: a row for each rank, with its slots from left to right; from jobs.csv and ranks.csv of a run."""

import pathlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from comparing.tables import UNITS, duration
from lib import run_files

from .charts import Chart, Table
from .draw import canvas, horizontal, legend, words
from .markup import Element, Quantity, Scale, element, text_width

MOST_ROWS = 32  # of a run
WIDTH = 1100.0
ROW, HEAD, GAP = 18.0, 22.0, 12.0  # heights of a rank, of a run's title, and below a run
LABEL = 10  # letters in a slot
LEAST_SHADE = 0.45  # of a rank's last virtual stage
SLOT = re.compile(r"([FBW])_PP\[\d+\]_TP\[\d+\]_MB\[(\d+)\](?:_V\[(\d+)\])?")
TRANSFER = re.compile(r"PP_\w+_FromP\[(\d+)\]_ToP\[(\d+)\]_TP\[(\d+)\](?:.*_DP\[(\d+)\])?")
GROUP = re.compile(r"(PP|TP)\[(\d+)\]")  # of a data-parallel collective, which has one row in jobs.csv
LOOKS = {"F": "g0", "B": "g2", "W": "g4"}
OPTIMIZER, EXPOSED = "g3", "g1"
SUMMARY = {"kind": str, "setup": {"virtual_stages?": int, "schedule?": str}, "metrics": {"step_s?": float, "bubble_fraction?": float}}

NAMES = {LOOKS["F"]: "forward", LOOKS["B"]: "backward", LOOKS["W"]: "gradients of weights", OPTIMIZER: "gradient norm, optimizer"}

Interval = tuple[float, float]


class Error(Exception):
    """Bad input, in words for the user."""


@dataclass
class Box:
    """A slot, or kernels of gradient norm and optimizer."""

    begin: float
    end: float
    look: str
    label: str = ""
    virtual_stage: int = 0


@dataclass
class Row:
    place: tuple[int, int, int]  # data-parallel replica, pipeline rank, tensor-parallel rank
    boxes: list[Box] = field(default_factory=list)
    transfers: list[Interval] = field(default_factory=list)  # beside slots


@dataclass
class Run:
    title: str
    virtual_stages: int
    rows: list[Row]
    kinds: set[str]  # letters of its slots

    def end(self) -> float:
        ends = [box.end for row in self.rows for box in row.boxes] + [end for row in self.rows for _, end in row.transfers]
        return max(ends, default=0.0)


def rows_of(folder: pathlib.Path) -> dict[int, Row]:
    """By rank, in the order in which they are drawn."""
    columns = dict.fromkeys(("rank", "pp", "tp", "dp"), run_files.whole)
    rows = {row["rank"]: Row((row["dp"], row["pp"], row["tp"])) for row in run_files.table(folder / "ranks.csv", columns, "ranks of a step")}
    if len(rows) > MOST_ROWS:
        rows = {rank: row for rank, row in rows.items() if row.place[0] == row.place[2] == 0}
    if len(rows) > MOST_ROWS:
        raise Error(f"{folder}: {len(rows)} pipeline ranks are more than a picture holds ({MOST_ROWS})")
    return dict(sorted(rows.items(), key=lambda item: item[1].place))


def read(folder: pathlib.Path) -> Run:
    summary = run_files.json_file(folder / "summary.json", SUMMARY, "summary of a run")
    if summary["kind"] != "training":
        raise Error(f"{folder}: a run of kind {summary['kind']}; only runs of kind training have slots")
    rows = rows_of(folder)
    by_place = {row.place: row for row in rows.values()}
    columns = {"name": str, "kind": str, "rank": run_files.whole, "start_s": run_files.number, "end_s": run_files.number, "queued_s": run_files.number}
    kinds = set()
    for job in run_files.table(folder / "jobs.csv", columns, "jobs of a run"):
        begin, end, row = job["start_s"], job["end_s"], rows.get(job["rank"])
        moves = begin + job["queued_s"]  # bytes, after a wait for the other end
        if ends := TRANSFER.match(job["name"]):
            first, last, tensor, replica = (int(text or 0) for text in ends.groups())
            for pipeline in (first, last):  # both may wait for it
                if (replica, pipeline, tensor) in by_place:
                    by_place[replica, pipeline, tensor].transfers.append((moves, end))
        elif slot := SLOT.match(job["name"]):
            kinds.add(slot[1])
            if row:
                row.boxes.append(Box(begin, end, LOOKS[slot[1]], slot[2], int(slot[3] or 0)))
        elif row and job["kind"] == "compute":
            row.boxes.append(Box(begin, end, OPTIMIZER))
        elif job["kind"] == "dp":
            group = {letters: int(place) for letters, place in GROUP.findall(job["name"])}
            for member in rows.values():
                if all(group.get(letters, place) == place for letters, place in zip(("PP", "TP"), member.place[1:])):
                    member.transfers.append((moves, end))
    if not kinds:
        raise Error(f"{folder}/jobs.csv has no slots; run with --jobs stage or --jobs all")
    metrics, setup = summary["metrics"], summary["setup"]
    title = setup.get("schedule", "")
    if "step_s" in metrics:
        title += f": {duration(metrics['step_s'])}, {100 * metrics['bubble_fraction']:.1f} % bubble"
    return Run(title, setup.get("virtual_stages", 1), list(rows.values()), kinds)


def exposed(row: Row) -> Iterator[Interval]:
    """What the row's boxes leave of its transfers, without overlaps."""
    covered = sorted([(box.begin, box.end) for box in row.boxes])
    gaps, last = [], 0.0
    for begin, end in covered:
        if begin > last:
            gaps.append((last, begin))
        last = max(last, end)
    gaps.append((last, float("inf")))
    drawn, index = 0.0, 0
    for begin, end in sorted(row.transfers):
        while index < len(gaps) and gaps[index][1] <= begin:
            index += 1
        for gap in gaps[index:]:
            if gap[0] >= end:
                break
            left, right = max(begin, gap[0], drawn), min(end, gap[1])
            if left < right:
                yield left, right
                drawn = right


def labels_of(run: Run) -> list[str]:
    """Of the rows: the coordinates of which there are several."""
    names = ("dp", "pp", "tp")
    several = [i for i in range(len(names)) if len({row.place[i] for row in run.rows}) > 1] or [1]
    return [" ".join(f"{names[i]} {row.place[i]}" for i in several) for row in run.rows]


def shade(box: Box, run: Run) -> float | None:
    if box.virtual_stage == 0:
        return None
    return 1 - (1 - LEAST_SHADE) * box.virtual_stage / (run.virtual_stages - 1)


def drawn_row(x: Scale, top: float, row: Row, run: Run) -> Iterator[Element]:
    yield element("path", d=f"M{x.start:.1f},{top + ROW - 1:.1f}H{x(run.end()):.1f}", class_="ideal")
    for begin, end in exposed(row):
        yield element("rect", x=x(begin), y=top + 5, width=max(x(end) - x(begin), 0.7), height=ROW - 9, class_=EXPOSED)
    for box in row.boxes:
        left, right = x(box.begin), x(box.end)
        margin = 0.5 if right - left > 2 else 0.0  # between slots
        yield element("rect", x=left, y=top + 1, width=max(right - left - margin, 0.7), height=ROW - 3, class_=box.look, fill_opacity=shade(box, run))
        if box.label and text_width(box.label, LABEL) < right - left:
            yield words(box.label, (left + right) / 2, top + 12.5, "small inside" if box.virtual_stage == 0 else "small", "middle")


def key_of(runs: Sequence[Run], x: float) -> tuple[Element, float]:
    kinds = set().union(*(run.kinds for run in runs))
    entries = [(LOOKS["F"], "forward"), (LOOKS["B"], "backward" if "W" not in kinds else "backward, or its part for inputs")]
    if "W" in kinds:
        entries.append((LOOKS["W"], "gradients of weights"))
    return legend([*entries, (OPTIMIZER, "gradient norm, optimizer"), (EXPOSED, "waits for a transfer")], x, 12, WIDTH)


def drawing_of(runs: Sequence[Run]) -> Element:
    labels = [labels_of(run) for run in runs]
    left = max(text_width(label) for names in labels for label in names) + 16
    last = max(run.end() for run in runs) or 1.0
    x = Scale(0.0, last, left, WIDTH - 20)
    key, top = key_of(runs, left)
    first = top = top + 8
    tops = []
    for run in runs:
        tops.append(top)
        top += (HEAD if len(runs) > 1 else 0) + ROW * len(run.rows) + GAP
    drawing = canvas("gantt", f"Slots of {len(runs)} training steps", WIDTH, top + 42)
    factor, unit = next((factor, unit) for least, factor, unit in UNITS if last >= least)
    drawing.append(horizontal(Scale(0.0, last * factor, x.start, x.end), Quantity(f"time, {unit}", 1.0), first, top, 9))
    drawing.append(key)
    for run, names, begin in zip(runs, labels, tops):
        if len(runs) > 1:
            drawing.append(words(run.title, x.start, begin + 14, "strong"))
            begin += HEAD
        for index, (row, name) in enumerate(zip(run.rows, names)):
            drawing.append(words(name, x.start - 8, begin + ROW * index + 13, anchor="end"))
            drawing.extend(drawn_row(x, begin + ROW * index, row, run))
    return drawing


@dataclass
class Gantt(Chart):
    """The slots of one run."""

    run: Run

    def table(self) -> Table:
        rows = [[name, NAMES[box.look], box.label, box.begin, box.end] for name, row in zip(labels_of(self.run), self.run.rows) for box in row.boxes]
        return Table(["rank", "slot", "micro-batch", "start, s", "end, s"], rows)


def chart_of(folder: pathlib.Path) -> Gantt | None:
    """None where a picture does not hold the run, or jobs.csv has no slots."""
    if not all((folder / name).exists() for name in ("ranks.csv", "jobs.csv")):
        return None
    try:
        return Gantt("slots", "Slots of the step", read(folder), note="A bubble is white. Later virtual stages of a rank are lighter.")
    except Error:
        return None
