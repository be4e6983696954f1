"""Charts of one run of `serving`: its requests over time, where TTFT goes, distributions, stages and instances; from requests.csv and the
metrics of the run."""

import math
import pathlib
import statistics
from collections.abc import Callable

from lib import request_times, run_files
from lib.request_times import NS, percentile

from .charts import Chart, Shares
from .lines import Bars, Dot, Line, Lines
from .source import Point

# Parts of TTFT in words, with the look of their colour. KV takes its parts together.
PARTS = {
    "host": ("host software", "p-host"),
    "router": ("router", "p-rest"),
    "step_alignment": ("wait for the next batch", "p-bubble"),
    "queue_slots": ("queue: all slots taken", "w3"),
    "queue_budget": ("queue: batch is full", "w1"),
    "queue_blocks": ("queue: KV memory is full", "w2"),
    "queue_behind": ("queue: behind another request", "w0"),
    "queue_pipeline": ("wait for an earlier batch", "w4"),
    "prefill_kernels": ("prefill kernels", "p-compute"),
    "tp": ("tensor-parallel collectives", "p-tp"),
    "pp": ("pipeline transfers", "p-pp"),
    "kv": ("KV transfer", "p-kv"),
    "decode_queue": ("wait for the decode instance", "p-gate"),
    "decode_kernels": ("decode kernels", "p-compute odd"),
}
KV_PARTS = ("kv", "kv_handshake", "kv_post", "kv_staging", "kv_contention")
LOOKS = dict(PARTS.values())
# What a stage does, and why it is idle (docs/serving.md), in words.
BUSY = ("runs batches", "p-compute")
CAUSES = {
    "no_work": ("no request", "p-bubble"),
    "fill": ("pipeline fills or empties", "w1"),
    "host": ("host software", "p-host"),
    "imbalance": ("other stages are longer", "w3"),
    "transfer": ("transfers", "p-pp"),
    "tokens": ("waits for tokens", "w0"),
}
CURVE_POINTS = 60  # of a cumulative distribution
STEPS = 200  # of a line over time
SLOWEST = 99  # percentile


def parts_of(seconds: Callable[[str], float | None]) -> dict[str, float]:
    """Parts of TTFT in words, those above 0. @param seconds  of a part by its name in summary.json; None: it has none"""
    found = {words: sum(seconds(name) or 0.0 for name in (KV_PARTS if part == "kv" else (part,))) for part, (words, _) in PARTS.items()}
    return {words: value for words, value in found.items() if value > 0}


def distribution(values: list[float]) -> list[Dot]:
    """Percent of the values that do not exceed a value. @param values  in order"""
    percents = sorted([*(100 * (i + 0.5) / CURVE_POINTS for i in range(CURVE_POINTS)), 99.0, 99.9])
    return [Dot(percentile(values, p), p, None) for p in percents]


def _count(begins: list[float], ends: list[float], times: list[float]) -> list[Dot]:
    """How many have begun and not ended."""
    marks = sorted([*((at, 1) for at in begins), *((at, -1) for at in ends)])
    dots, place, now = [], 0, 0
    for time in times:
        while place < len(marks) and marks[place][0] <= time:
            now += marks[place][1]
            place += 1
        dots.append(Dot(time, now, None))
    return dots


def _over_time(rows: list[dict]) -> Lines:
    arrivals = [NS * row["arrival"] for row in rows]
    firsts = [at + NS * row["TTFT"] for at, row in zip(arrivals, rows)]
    ends = [at + NS * row["latency"] for at, row in zip(arrivals, rows)]
    times = [max(ends) * i / STEPS for i in range(STEPS + 1)]
    lines = [Line("in the service", _count(arrivals, ends, times)), Line("without a first token", _count(arrivals, firsts, times))]
    return Lines("requests", "Requests over time", "time_s", "requests", lines)


def _ttft(rows: list[dict]) -> Shares:
    slow = percentile(sorted(row["TTFT"] for row in rows), SLOWEST)
    bars = []
    for label, these in (("all requests", rows), (f"the slowest {100 - SLOWEST} %", [row for row in rows if row["TTFT"] >= slow])):
        parts = parts_of(lambda name, these=these: statistics.fmean(NS * row.get(f"ttft_{name}_ns", 0) for row in these))
        bars.append((None, label, parts))
    return Shares("ttft-parts", "Where TTFT goes", bars, LOOKS, note="Means.")


def _distributions(files: pathlib.Path) -> list[Lines]:
    names = {quantity: name for quantity, name in request_times.QUANTITIES.items() if quantity != "ttft_admitted"}
    found = request_times.read(files / request_times.FILE, names)
    values = {quantity: sorted(found.of(quantity)) for quantity in names}
    return [Lines(f"cdf-{quantity}", f"Distribution of {name}", f"{name}_s", "% of requests", [Line("requests", distribution(values[quantity]))],
                  note="The share of requests with at most this time.")
            for quantity, name in names.items() if values[quantity]]


def _stages(point: Point) -> list[Shares]:
    """Busy and idle time of each stage; of several instances, not of their roles together."""
    bars: dict[str, dict[str, float]] = {}
    of_instances = {name: value for name, value in point.metrics.items() if name.startswith("instances.")}
    for metric, value in (of_instances or point.metrics).items():
        before, found, after = metric.partition("stage_busy_s.")
        if found and "." not in after:
            bars.setdefault(_stage(before, after), {})[BUSY[0]] = value
        before, found, after = metric.partition("stage_bubble_s.")
        stage, _, cause = after.partition(".")
        if found and cause in CAUSES and value > 0:
            bars.setdefault(_stage(before, stage), {})[CAUSES[cause][0]] = value
    looks = dict([BUSY, *CAUSES.values()])
    return [Shares("stages", "What stages do", [(None, name, parts) for name, parts in bars.items()], looks)] if bars else []


def _stage(before: str, stage: str) -> str:
    """"instances.a.", "stage0": "a, stage 0"."""
    owner = before.removeprefix("instances.").strip(".")
    return (f"{owner}, " if owner else "") + stage.replace("stage", "stage ")


def _instances(point: Point) -> list[Bars]:
    drawn = []
    for metric, title, value_name in (("requests", "Requests of each instance", "requests"), ("ttft_s", "TTFT by instance, mean", "ttft_s"),
                                      ("tpot_s", "TPOT by instance, mean", "tpot_s")):
        found = {name.split(".")[1]: value for name, value in point.metrics.items() if name.startswith("instances.") and name.split(".")[2:] == [metric]}
        bars = [(None, name, {"": float(value)}) for name, value in found.items() if isinstance(value, (int, float)) and math.isfinite(value)]
        if len(bars) > 1:
            drawn.append(Bars(f"instances-{metric.removesuffix('_s')}", title, value_name, bars))
    return drawn


def charts(point: Point) -> list[Chart]:
    """@throws run_files.Error"""
    if point.kind != "serving" or point.files is None:
        return []
    drawn: list[Chart] = []
    path = point.files / request_times.FILE
    if path.exists():
        rows = [row for row in run_files.table(path, request_times.COLUMNS, "the requests of a run") if row.get("aborted") != "1"]
        if rows:
            drawn = [_over_time(rows), _ttft(rows), *_distributions(point.files)]
    return [*drawn, *_stages(point), *_instances(point)]
