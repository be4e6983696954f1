"""The charts of each kind of workload: collectives and copies by size, parts of a layer by tokens or ranks, methods of overlap. The
charts show a sweep, or one run with several sizes or methods. Kernels are in kernel_charts.py."""

from collections.abc import Iterable, Iterator

from . import kernel_charts
from .charts import MOST_PANELS, Chart, Heat, Panel, numbered
from .lines import Bars, Dot, Lines, bars_of, chart_of
from .source import Point, Subject

ASKED = ("model.config", "workload.op", "workload.phase")  # axes with a chart for each value
SIZES = ("workload.min_bytes", "workload.max_bytes", "workload.sizes_bytes", "workload.factor")
COPIES = {
    "unidirectional_gb_per_s": "Bandwidth one way",
    "bidirectional_gb_per_s": "Bandwidth both ways",
    "latency_s": "Latency",
    "h2d_gb_per_s": "Bandwidth from the host",
    "d2h_gb_per_s": "Bandwidth to the host",
}
SERIAL = "serial"
ALONE = ("gemm", "collective")


def charts(subject: Subject) -> list[Chart]:
    found: list[Chart] = []
    for kind, make in (("collective", _collectives), ("p2p", _copies), ("layer", _layers), ("overlap", _overlaps)):
        points = [point for point in subject.done if point.kind == kind]
        for question, members in _questions(subject, points):
            made = make(subject, members)
            for chart in made:
                chart.name += "".join(f"-{value}" for value in question.values())
                chart.title += ": " + ", ".join(f"{name}={value}" for name, value in question.items()) if question else ""
            found += made
    return found + kernel_charts.charts(subject)


def _asks(subject: Subject, name: str) -> bool:
    return any(key in ASKED for key in subject.axes[name])


def _questions(subject: Subject, points: list[Point]) -> Iterator[tuple[dict[str, object], list[Point]]]:
    """Points grouped by their question. Each group has its own charts."""
    names = [name for name in subject.axes if _asks(subject, name)]
    groups: dict[tuple, list[Point]] = {}
    for point in points:
        groups.setdefault(tuple(point.values[name] for name in names), []).append(point)
    for values, members in list(groups.items())[:MOST_PANELS]:
        yield dict(zip(names, values)), members


def _label(subject: Subject, point: Point, without: Iterable[str] = ()) -> str:
    """The label of a run: the settings that differ between the runs of a chart."""
    names = [name for name in subject.axes if name not in without and not _asks(subject, name)]
    return ", ".join(f"{name}={point.values[name]}" for name in names)


def _bar_label(subject: Subject, point: Point) -> str:
    return _label(subject, point) or point.label


def _growing(subject: Subject, points: list[Point], least: int) -> str | None:
    """The numeric axis with the most values; None if it has fewer than this number."""
    values = {name: {point.values[name] for point in points} for name in subject.axes if not _asks(subject, name)}
    numbers = {name: len(of) for name, of in values.items() if all(isinstance(value, (int, float)) for value in of)}
    name = max(numbers, key=lambda name: numbers[name], default=None)
    return name if name is not None and numbers[name] >= least else None


def _by_size(subject: Subject, points: list[Point], metric: str, name: str, title: str) -> list[Lines]:
    """A chart of a metric that has one value for each size."""
    without = [axis for axis, keys in subject.axes.items() if any(key in SIZES for key in keys)]
    samples = [
        (_label(subject, point, without), Dot(float(key[len(metric) + 1 :]), point.metrics[key], subject.row(point)))
        for point in points
        for key in numbered(point, metric + ".")
    ]
    return chart_of(name, title, "bytes", metric, samples, y_logarithmic=metric.endswith("_s") and not metric.endswith("per_s"))


def _collectives(subject: Subject, points: list[Point]) -> list[Lines]:
    return [
        *_by_size(subject, points, "busbw_gb_per_s", "busbw", "Bus bandwidth by size"),
        *_by_size(subject, points, "time_s", "times", "Time by size"),
    ]


def _copies(subject: Subject, points: list[Point]) -> list[Chart]:
    found: list[Chart] = [
        *_by_size(subject, points, "write_gb_per_s", "writes", "RDMA write bandwidth by size"),
        *_by_size(subject, points, "write_latency_s", "write-times", "RDMA write latency by size"),
        *_by_size(subject, points, "read_gb_per_s", "reads", "RDMA read bandwidth by size"),
        *_by_size(subject, points, "read_latency_s", "read-times", "RDMA read latency by size"),
    ]
    sizes = next((name for name, keys in subject.axes.items() if "workload.copy_bytes" in keys), None)
    for metric, title in COPIES.items() if subject.is_sweep else ():
        measured = [point for point in points if point.metrics.get(metric)]
        name = metric.partition("_")[0]
        if sizes:
            samples = [
                (_label(subject, point, [sizes]), Dot(point.values[sizes], point.metrics[metric], subject.row(point)))
                for point in measured
            ]
            found += chart_of(name, f"{title} by size", "bytes", metric, samples)
        else:
            found += bars_of(
                name, title, metric, [(subject.row(p), _bar_label(subject, p), {"": p.metrics[metric]}) for p in measured]
            )
    return found


def _layers(subject: Subject, points: list[Point]) -> list[Lines]:
    axis = _growing(subject, points, 2)
    if axis is None:
        return []
    found = []
    for metric, what in (("kernels_s", "kernels"), ("collectives_s", "exposed collectives")):
        samples = [
            (_label(subject, point, [axis]), Dot(point.values[axis], point.metrics[metric], subject.row(point)))
            for point in points
            if metric in point.metrics
        ]
        found += chart_of(f"layer-{what.replace(' ', '-')}", f"Layer: {what} by {axis}", axis, metric, samples)
    return found


def _overlaps(subject: Subject, points: list[Point]) -> list[Chart]:
    """The speed-up over running both in series. `bound`: the speed-up if the shorter part were hidden completely."""
    quickened = []
    for point in points:
        times = {key[len("time_s.") :]: value for key, value in point.metrics.items() if key.startswith("time_s.") and value}
        if SERIAL not in times:
            continue
        ways = {way: times[SERIAL] / time for way, time in times.items() if way not in (SERIAL, *ALONE)}
        if all(way in times for way in ALONE):
            ways["bound"] = times[SERIAL] / max(times[way] for way in ALONE)
        quickened.append((point, ways))
    note = "Against the product and its collective one after the other. bound: as long as the longer of the two alone."
    title, value_name = "Speed-up of each way", "time in series / time"
    axis = _growing(subject, [point for point, _ in quickened], 3)
    if axis is None:
        bars = [(subject.row(point), _bar_label(subject, point), ways) for point, ways in quickened if ways]
        return bars_of("speed-up", title, value_name, bars, 1.0, note)
    samples = [
        (
            ", ".join(word for word in (way, _label(subject, point, [axis])) if word),
            Dot(point.values[axis], value, subject.row(point)),
        )
        for point, ways in quickened
        for way, value in ways.items()
    ]
    return chart_of("speed-up", f"{title} by {axis}", axis, value_name, samples, note)
