"""Charts of the kernels of a run, or of all runs of a sweep: rooflines, and rates by size."""

import pathlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lib import run_files

from .charts import MOST_PANELS, Chart, Table
from .lines import Dot, chart_of
from .run_charts import machine_of
from .source import Point, Subject

MOST_KERNELS = 3000
ROOFS = ("bf16", "fp8", "fp4")  # shown in any case; those of other types where a kernel uses them
GROWING = ("m", "tokens", "batch", "context_tokens", "n", "k", "copy_bytes", "width", "groups")
SIZES = ("m", "n", "k", "groups", "heads", "kv_heads", "head_dim", "batch", "tokens", "context_tokens", "width", "copy_bytes")
NAMES = ("group", "gpu", "launch", "dtype")  # other columns of kernels.csv that tell kernels apart
WORK = {"flops": run_files.maybe(run_files.whole), "hbm_bytes": run_files.maybe(run_files.whole), "tflops": run_files.maybe(run_files.number)}


def _size(text: str) -> str:
    """The text of a size, which must be a number."""
    run_files.maybe(run_files.number)(text)
    return text


STEPS = {"name": str, "limit": str, **WORK}
KERNELS = {"op": str, "group": str, "limit": str, "time_us": run_files.number, **WORK, **dict.fromkeys(NAMES, str), **dict.fromkeys(SIZES, _size)}
TOLD = re.compile(
    r"workload\.kernels\.\d+\.(" + "|".join((*NAMES, *SIZES, "op", "bytes")) + r")|machine\.groups\.\w+\.gpu"
)  # keys


@dataclass
class Kernel:
    """A kernel's FLOPs per byte of HBM traffic, and its FLOP rate. `number`: of the run, if the page has a row for the run."""

    name: str
    limit: str
    flops_per_byte: float
    tflops: float
    number: int | None = None


@dataclass
class Roofline(Chart):
    """Kernels of a GPU and the peak rates of this GPU, including overrides of the scenario."""

    kernels: list[Kernel]
    gb_per_s: float  # of HBM
    peaks: dict[str, float]  # TFLOP/s by data type

    @property
    def roofs(self) -> dict[str, float]:
        """The peak rates; data types with the same rate share one peak."""
        types: dict[float, list[str]] = {}
        for name, peak in self.peaks.items():
            types.setdefault(peak, []).append(name)
        return {", ".join(names): peak for peak, names in types.items()}

    def table(self) -> Table:
        return Table(
            ["kernel", "limit", "FLOPs / HBM byte", "TFLOP/s"],
            [[k.name, k.limit, k.flops_per_byte, k.tflops] for k in self.kernels],
        )


@dataclass(frozen=True)
class _Gpu:
    """A GPU of a machine, including overrides of the scenario."""

    name: str
    gb_per_s: float
    tflops: tuple[tuple[str, float], ...]


@dataclass
class _Measured:
    """A row of kernels.csv."""

    row: dict[str, str]
    label: str  # of the run, without what the row tells itself
    point: Point
    number: int | None
    gpu: _Gpu


def charts(subject: Subject) -> list[Chart]:
    """Charts of kernel runs: one roofline for each GPU, and one chart for each operation with several sizes."""
    told = [name for name, keys in subject.axes.items() if keys and all(TOLD.fullmatch(key) for key in keys)]
    found: list[_Measured] = []
    count = 0
    for point in subject.ranked():
        path = point.files / "kernels.csv" if point.files else None
        if point.kind != "kernel" or not path.exists():
            continue
        label = ", ".join(f"{name}={point.values[name]}" for name in subject.axes if name not in told)
        gpus = _gpus(point.files)
        own = []
        for row in run_files.table(path, KERNELS, "the kernels of a run"):
            if row["group"] not in gpus:
                raise run_files.Error(path, f"group {run_files.shown(row['group'])} is not in machine.json")
            own.append(_Measured(row, label, point, subject.row(point), gpus[row["group"]]))
        count += 1
        if found and len(found) + len(own) > MOST_KERNELS:
            break
        found += own
    found.sort(key=lambda kernel: kernel.point.number)
    left = sum(point.kind == "kernel" for point in subject.done) - count
    made = [*_rooflines(found), *_by_size(found)]
    for chart in made:
        if left:
            chart.note = f"{chart.note} The best {count} of {count + left} runs.".strip()
    return made


def of_layer(files: pathlib.Path) -> list[Roofline]:
    """Charts of a layer run."""
    path = files / "layer.csv"
    if not path.exists():
        return []
    gpus = list(_gpus(files).values())
    rows = run_files.table(path, STEPS, "the steps of a layer")
    kernels = [kernel for row in rows if (kernel := _kernel(row, row["name"]))]
    return [_roofline(gpus[0], kernels, ())] if kernels and gpus else []


def _gpus(files: pathlib.Path) -> dict[str, _Gpu]:
    """The GPUs of a machine, by group."""
    return {
        group["name"]: _Gpu(group["gpu"], group["peak"]["hbm_gb_per_s"], tuple(group["peak"]["tflops"].items()))
        for group in machine_of(files)["groups"]
    }


def _kernel(row: dict[str, str], name: str, number: int | None = None) -> Kernel | None:
    """The kernel of a row; None if the kernel has no FLOPs or no HBM traffic."""
    if not row["flops"] or not row["hbm_bytes"] or not row["tflops"]:
        return None
    return Kernel(name, row["limit"], row["flops"] / row["hbm_bytes"], row["tflops"], number)


def _roofline(gpu: _Gpu, kernels: list[Kernel], dtypes: Iterable[str]) -> Roofline:
    peaks = {name: peak for name, peak in gpu.tflops if name in ROOFS or name in dtypes}
    return Roofline(f"roofline-{gpu.name}", f"Roofline: {gpu.name}", kernels, gpu.gb_per_s, peaks)


def _rooflines(measured: list[_Measured]) -> list[Roofline]:
    """One roofline for each GPU. If scenarios override a GPU, each variant has its own roofline."""
    found: dict[_Gpu, list[tuple[_Measured, Kernel]]] = {}
    for one in measured:
        name = ", ".join(word for word in (one.label, kernel_name(one.row)) if word)
        if kernel := _kernel(one.row, name, one.number):
            found.setdefault(one.gpu, []).append((one, kernel))
    names = [gpu.name for gpu in found]
    made: list[Roofline] = []
    for gpu, members in list(found.items())[:MOST_PANELS]:
        chart = _roofline(gpu, [kernel for _, kernel in members], {one.row["dtype"] for one, _ in members})
        if names.count(gpu.name) > 1:
            first = members[0][0]
            chart.name += f"-{len(made)}"
            chart.title += f", {first.label or first.row['group']}"
        made.append(chart)
    return made


def _label(one: _Measured, columns: Iterable[str]) -> str:
    return ", ".join([*([one.label] if one.label else []), *(f"{key}={one.row[key]}" for key in columns)])


def _by_size(measured: list[_Measured]) -> list[Chart]:
    """One chart for each operation: its FLOP rate (its time if it has no FLOPs) by the size with the most values."""
    operations: dict[str, list[_Measured]] = {}
    for one in measured:
        operations.setdefault(one.row["op"], []).append(one)
    found: list[Chart] = []
    for op, members in operations.items():
        values = {key: {one.row[key] for one in members} - {""} for key in (*NAMES, *SIZES)}
        size = max(GROWING, key=lambda key: len(values[key]))
        if len(values[size]) < 2:
            continue
        varying = [key for key in values if key != size and len(values[key]) > 1]
        if {"group", "gpu"} <= set(varying) and len(values["group"]) == len(values["gpu"]):  # each tells the other
            varying.remove("group")
        places = {(one.point.number, _label(one, varying), one.row[size]) for one in members}
        if len(places) < len(members):  # entries that differ in what the file does not tell
            varying.append("item")
        rated = all(one.row["tflops"] for one in members)
        samples = []
        for one in members:
            value = one.row["tflops" if rated else "time_us"]
            dot = Dot(float(one.row[size]), value, one.number, f"limited by {one.row['limit']}")
            samples.append((_label(one, varying), dot))
        name = "bytes" if size == "copy_bytes" else size
        y_name = "TFLOP/s" if rated else "time, us"
        found += chart_of(f"{op}-by-{name}", f"{op} by {name}", name, y_name, samples, y_logarithmic=not rated)
    return found


def kernel_name(row: dict[str, str]) -> str:
    sizes = [f"{key}={row[key]}" for key in ("m", "n", "k", "batch", "tokens", "context_tokens", "width") if row[key]]
    return " ".join([f"{row['op']} {row['dtype']}", *sizes])
