"""The tables of a comparison: values, each with its ratio or difference to the first run."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from lib import critical_path
from lib.summaries import IN_PHASE

from .runs import Run, link_name

MOST_WAITS = 3  # of each class and run
ROUNDING = 1e-9  # of a sum of parts, relative to the whole
LEAST_S = 0.5e-12  # smaller values would be shown as 0
UNITS = ((1, 1, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "us"), (0, 1e9, "ns"))
EXPOSED = {"tp": "all-reduces", "tp_sync": "waiting for the last peer", "pp": "waiting for activations", "host": "waiting for the host"}
Rows = list[tuple[str, list]]  # a name, and a value or None for each run


@dataclass
class Table:
    """`cells`: per row its name, the value of the first run, then the value and its ratio or difference for every other run."""

    title: str
    header: list[str]
    cells: list[list[str]]


def number(value: float) -> str:
    return f"{value:g}"


def percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def duration(value: float) -> str:
    if abs(value) < LEAST_S:
        return "0 s"
    scale, unit = next((scale, unit) for least, scale, unit in UNITS if abs(value) >= least)
    return f"{value * scale:.3f} {unit}"


def formatter(name: str) -> Callable[[float], str]:
    """The text of a metric's value. The unit comes from the name."""
    if any(word.endswith("_per_s") for word in name.split(".")):
        return "{:.1f}".format
    if any(word.endswith("_s") for word in name.split(".")):
        return duration
    if name.endswith("_fraction") or "utilisation" in name:
        return percent
    return number


def _ratio(value: float, first: float, _: Callable) -> str:
    return f"{value / first:.3f}" if first else ""


def _change(value: float, first: float, show: Callable) -> str:
    size = abs(value - first)
    text = f"{100 * size:.2f} points" if show is percent else show(size)
    return ("+" if value > first else "-") + text if re.search("[1-9]", text) else "0"


def _table(title: str, runs: list[Run], rows: Rows, show: Callable | None = None, beside: str = "ratio") -> Table:
    compare = _ratio if beside == "ratio" else _change
    cells = []
    for name, values in rows:
        text = show or formatter(name)
        line = [name]
        for i, value in enumerate(values):
            line.append("-" if value is None else text(value) if isinstance(value, (int, float)) else str(value))
            if i > 0:
                numbers = isinstance(value, (int, float)) and isinstance(values[0], (int, float))
                line.append(compare(value, values[0], text) if numbers else "")
        cells.append(line)
    header = [title, runs[0].label] + [word for run in runs[1:] for word in (run.label, beside)]
    return Table(title, header, cells)


def metric_rows(runs: list[Run]) -> Rows:
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    if all(run.metrics.get("requests") == 1 for run in runs):  # percentiles of a single value have no meaning
        names = [name for name in names if not re.search(r"_p\d+_s$", name)]
    return [(name, values) for name in names if not repeats(name, values := [run.metrics.get(name) for run in runs], runs)]


def repeats(name: str, values: list, runs: list[Run]) -> bool:
    """Whether these are the values of an instance that its service has as well: of its only instance, or by its role."""
    instance = re.fullmatch(r"instances\.([^.]+)\.(.+)", name)
    return instance is not None and any(values == [run.metrics.get(other) for run in runs]
                                        for other in (instance[2], f"{instance[1]}.{instance[2]}"))


def _has(metrics: dict, *names: str) -> bool:
    """Numbers under all of the names."""
    return all(isinstance(metrics.get(name), (int, float)) for name in names)


def _left(value: float, whole: float) -> float:
    """A difference of parts of a whole; nothing where only rounding is left."""
    return value if abs(value) > ROUNDING * whole else 0.0


def parts(metrics: dict) -> dict[str, float]:
    """The parts of a run's time, as far as its kind reports them: parts, then their sum."""
    if _has(metrics, "prefill_window_s", "bubble_fraction", "exposed_s.kv", *(f"exposed_s.{key}" for key in EXPOSED)):
        window = metrics["prefill_window_s"]
        stages = [metrics[name] for name in metrics if name.startswith("stage_utilisation.") and _has(metrics, name)] or [0.0]
        prefill = {
            "kernels": window * sum(stages) / len(stages),
            **{name: metrics[f"exposed_s.{key}"] for key, name in EXPOSED.items()},
            "bubble": _left(window * metrics["bubble_fraction"] - metrics["exposed_s.pp"] - metrics["exposed_s.host"], window),
        }
        if rest := _left(window - sum(prefill.values()), window):
            prefill["the rest"] = rest
        found = {f"prefill: {name}": value for name, value in prefill.items()}
        found |= {"prefill": window, "handoff": metrics["exposed_s.kv"]}
        if _has(metrics, "iterations.mean_s", "iterations.count", *(f"decode.exposed_s.{key}" for key in EXPOSED)) and metrics["iterations.count"]:
            step = metrics["iterations.mean_s"]
            decode = {name: metrics[f"decode.exposed_s.{key}"] / metrics["iterations.count"] for key, name in EXPOSED.items()}
            found |= {f"decode step: {name}": value for name, value in decode.items()}
            found |= {"decode step: kernels and the rest": _left(step - sum(decode.values()), step), "decode step": step}
        return found
    if _has(metrics, "step_s", "kernels_s", "bubble_s", "host_s", "optimizer_s"):
        step = {"kernels": metrics["kernels_s"]}
        step |= {f"exposed {name.partition('.')[2]}": metrics[name] for name in metrics if name.startswith("exposed_s.") and _has(metrics, name)}
        step |= {name: metrics[f"{name}_s"] for name in ("bubble", "host", "optimizer")}
        return {f"step: {name}": value for name, value in step.items()} | {"step": metrics["step_s"]}
    if _has(metrics, "layer_s", "kernels_s", "collectives_s"):
        layer = {"kernels": metrics["kernels_s"], "collectives": metrics["collectives_s"]}
        if rest := _left(metrics["layer_s"] - sum(layer.values()), metrics["layer_s"]):
            layer["the rest"] = rest
        return {f"layer: {name}": value for name, value in layer.items()} | {"layer": metrics["layer_s"]}
    return {}


def moved_rows(runs: list[Run]) -> Rows:
    """The parts of the runs' time that are not zero. If the kind reports no parts: the durations that differ."""
    found = [parts(run.metrics) for run in runs]
    if any(found):
        rows = [(name, [part.get(name) for part in found]) for name in dict.fromkeys(name for part in found for name in part)]
        return [(name, values) for name, values in rows if any(values)]
    return [(name, values) for name, values in metric_rows(runs) if formatter(name) is duration and len(set(values)) > 1]


def traffic_rows(runs: list[Run]) -> Rows:
    traffic = [{entry["class"]: entry for entry in run.summary["traffic"]} for run in runs]
    rows = []
    for name in dict.fromkeys(name for entries in traffic for name in entries):
        for key in ("mean_actual_s", "mean_uncontended_s"):
            values = [entries.get(name, {}).get(key) for entries in traffic]
            if any(values):
                rows.append((f"{name}.{key}", values))
    return rows


def _utilisation(runs: list[Run], name: str, key: str = "utilisation") -> list[float | None]:
    return [run.links.get(name, {}).get(key) for run in runs]


def phases(runs: list[Run]) -> list[str]:
    """For every run: the phases with a utilisation of links."""
    keys = [{key for link in run.links.values() for key in link if key.startswith(IN_PHASE)} for run in runs]
    return sorted((key.removeprefix(IN_PHASE) for key in set.intersection(*keys)), reverse=True)


def link_rows(runs: list[Run], most: int, key: str = "utilisation") -> Rows:
    """The busiest links of every run."""
    names = {}
    for run in runs:
        busiest = sorted(run.links.values(), key=lambda link: -link.get(key, 0.0))[:most]
        names.update({link_name(link): None for link in busiest})
    return [(name, _utilisation(runs, name, key)) for name in names]


def changed_rows(runs: list[Run], most: int) -> Rows:
    """The links whose utilisation changed most, up or down, among the links of all runs."""
    rows = [(name, _utilisation(runs, name)) for name in runs[0].links if all(name in run.links for run in runs)]
    changes = {name: max(abs(value - values[0]) for value in values) for name, values in rows}
    return sorted((row for row in rows if changes[row[0]] > 0), key=lambda row: -changes[row[0]])[:most]


def wait_rows(runs: list[Run]) -> Rows:
    """For every class, the links for which its messages waited longest in any run."""
    rows = []
    for kind in dict.fromkeys(kind for run in runs for kind, _ in run.waits):
        names = {}
        for run in runs:
            of_kind = [(link, wait) for (its_kind, link), wait in run.waits.items() if its_kind == kind and wait > 0]
            names.update(dict.fromkeys(link for link, _ in sorted(of_kind, key=lambda wait: -wait[1])[:MOST_WAITS]))
        for link in sorted(names, key=lambda link: -max(run.waits.get((kind, link), 0) for run in runs)):
            rows.append((f"{kind} for {link}", [run.waits.get((kind, link)) for run in runs]))
    return rows


def path_rows(runs: list[Run]) -> dict[str, Rows]:
    """The critical path of each metric: costs, which sum to the metric, then their shares by traffic class and by link."""
    if not all(run.paths for run in runs):
        return {}
    found = {}
    for metric in runs[0].paths:
        if not all(metric in run.paths for run in runs):
            continue
        rows: Rows = []
        views = [run.paths[metric].views for run in runs]
        for view in views[0]:
            seconds = [{part.name: part.path_s for part in of_run[view]} for of_run in views]
            for name in dict.fromkeys(name for own in seconds for name in own):
                rows.append((critical_path.labelled(view, name), [own.get(name, 0) for own in seconds]))
        found[metric] = rows + [(metric, [run.paths[metric].mean_s for run in runs])]
    return found


def all_rows(runs: list[Run]) -> Rows:
    """Every number of every run."""
    rows = metric_rows(runs) + traffic_rows(runs)
    for name in dict.fromkeys(name for run in runs for name in run.links):
        rows.append((f"{name} utilisation", _utilisation(runs, name)))
    for kind, link in dict.fromkeys(name for run in runs for name in run.waits):
        rows.append((f"{link} waited_{kind}_s", [run.waits.get((kind, link)) for run in runs]))
    for metric, of_path in path_rows(runs).items():
        rows += [(f"path of {metric}: {name}", values) for name, values in of_path]
    return rows


def compare(runs: list[Run], most_links: int) -> list[Table]:
    tables = [
        _table("metric", runs, metric_rows(runs)),
        _table("where the time moved", runs, moved_rows(runs), duration, "change"),
        *(_table(f"critical path of {metric}", runs, rows, duration, "change") for metric, rows in path_rows(runs).items()),
        _table("message time, and alone", runs, traffic_rows(runs)),
        _table("busiest links, utilisation of the run", runs, link_rows(runs, most_links), percent),
        *(
            _table(f"busiest links, utilisation in {phase}", runs, link_rows(runs, most_links, IN_PHASE + phase), percent)
            for phase in phases(runs)
        ),
        _table("links that changed most", runs, changed_rows(runs, most_links), percent, "change"),
        _table("waiting, by class and link", runs, wait_rows(runs), duration),
    ]
    return [table for table in tables if table.cells]
