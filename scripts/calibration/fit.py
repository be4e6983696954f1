"""Constants of a datasheet fitted to measured rows.

Each group of constants is fitted to its own rows: matrix products, prefill attention, decode attention, and the groups of collectives.py.
Least squares with a loss that tolerates outliers (soft L1) finds the region. Then Powell's method minimises the reported error, the
mean |ln(model / measured)|. A constant that is 0 in the datasheet switches an effect off and stays 0; one without influence on any row
keeps its value.
"""

import pathlib
import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy
from scipy import optimize

from validation import gpu
from validation.rows import Row, Unmapped

from . import collectives
from .datasheet import Datasheet
from .evaluate import Evaluator, Table

GROUPS = {
    "gemm": ("sm.burst_efficiency_ratio", "sm.sustained_efficiency_ratio", "sm.low_precision_sustained_ratio", "sm.throttle_us",
             "sm.feed_bytes_per_clock", "sm.epilogue_bytes_per_clock", "l2.bytes_per_sm_clock", "l2.working_ratio", "hbm.gemm_ratio",
             "kernel.gemm_fixed_us", "kernel.split_k_us", "kernel.gemm_step_clocks", "kernel.overlap_exponent", "kernel.dynamic_scale_us"),
    "attention prefill": ("kernel.attention_ratio", "kernel.attention_block_us", "kernel.attention_fixed_us"),
    "attention decode": ("kernel.decode_attention_ratio", "kernel.decode_attention_fixed_us"),
}
NARROW_ONLY = ("sm.low_precision_sustained_ratio", "kernel.dynamic_scale_us")  # constants without influence on 16-bit rows
LIMITED_BY = {"collective.p2p_gb_per_s": "collective.simple_gb_per_s"}  # half of a channel's warps, and all of them
# May exceed 1: it counts exponentials as 16 a clock, of which there can be more. A datasheet accepts 2.
MOST_RATIOS = {"kernel.attention_ratio": 1.99}
REACH = 4.0        # a constant moves at most by this factor
COLLECTIVE_REACH = 2.0  # the same for collectives, whose constants hide each other in a sum
STEP = 0.02        # of the logarithm, for derivatives
ROW_NOISE = 0.05   # errors beyond this count less and less
LEAST_ROWS = 20    # fewest rows for a fit of a group
EVALUATIONS = 500  # of Powell's method


@dataclass
class Fit:
    """The fit of one group of constants: mean |ln(model / measured)| before and after, for fitted and for held-out rows."""

    group: str
    rows: int
    kept: int
    before: float
    after: float
    kept_before: float
    kept_after: float
    constants: dict


def group_of(row: Row, kernels: list[dict]) -> str | None:
    op = kernels[-1]["op"]
    if op == "gemm":
        # Steady load, synchronous calls, row-wise kernels and those of experts differ from a burst in a graph and must not be fitted together with it.
        last = kernels[-1]
        other = last.get("steady") or last.get("launch") == "synchronous" or last.get("gemm_library") == "rowwise" or row["kind"] == "products of experts"
        return None if other else "gemm"
    return {"attention_prefill": "attention prefill", "attention_decode": "attention decode"}.get(op)


def experiment_of(row: Row, gpu_name: str):
    """@return None if the row is not a kernel, or set aside. A system without the name of a GPU counts as the GPU that is fitted."""
    for columns in (row.columns, row.columns | {"system": gpu_name}):
        try:
            gpu.check(row)
            return gpu.map_row(Row(row.file, row.line, columns, row.value))
        except Unmapped:
            continue
    return None


def measured(rows: list[Row], system: str, gpu_name: str) -> dict[str, list]:
    """The system's rows with a time, by group of constants: kernels or the run of each row, and its seconds."""
    found = {name: [] for name in GROUPS}
    for row in rows:
        if not re.fullmatch(system, row["system"]) or not row["metric"].startswith("time"):
            continue
        experiment = experiment_of(row, gpu_name)
        if not experiment:
            continue
        kernels = list(experiment.kernels)
        group = group_of(row, kernels)
        if group:
            found[group].append((kernels, row.value * experiment.unit))
    found |= collectives.measured(rows, system)
    return {name: pairs for name, pairs in found.items() if len(pairs) >= LEAST_ROWS}


def limits(key: str, value: float, sheet: Datasheet) -> tuple[float, float]:
    reach = COLLECTIVE_REACH if key.startswith("collective.") else REACH
    most = MOST_RATIOS.get(key, 0.98) if key.endswith("_ratio") else value * reach
    if key in LIMITED_BY:
        most = min(most, float(sheet.get(LIMITED_BY[key])))
    return value / reach, max(most, value)


def constants_of(group: str, sheet: Datasheet, pairs: list) -> dict:
    if group in collectives.GROUPS:
        return {key: float(sheet.get(key)) for key in collectives.GROUPS[group] if sheet.get(key)}
    narrow = any(kernel["op"] == "quantize" or kernel.get("dtype") in ("fp8", "int8", "fp4", "mxfp8", "nvfp4")
                 for kernels, _ in pairs for kernel in kernels)
    return {key: float(sheet.get(key)) for key in GROUPS[group] if sheet.get(key) and (narrow or key not in NARROW_ONLY)}


def split(group: str, pairs: list, kept_ratio: float, seed: int) -> tuple[list, list]:
    """The rows to fit and the held-out rows. All rows of a shape, or of a size of message, are in the same set."""
    shape_of = (lambda pair: pair[0].size) if group in collectives.GROUPS else (lambda pair: str(pair[0]))
    shapes = sorted({shape_of(pair) for pair in pairs})
    random.Random(seed).shuffle(shapes)
    kept = set(shapes[:round(kept_ratio * len(shapes))])
    return [pair for pair in pairs if shape_of(pair) not in kept], [pair for pair in pairs if shape_of(pair) in kept]


def errors_of(group: str, sheet: Datasheet, pairs: list, executables: pathlib.Path,
              directory: pathlib.Path) -> Callable[[list[dict]], numpy.ndarray]:
    """@return gives ln(model / measured) of every row (columns) for each variant of the constants (rows)"""
    if group in collectives.GROUPS:
        return collectives.Evaluator(sheet, pairs, executables, directory).errors
    table = Table(pairs)
    evaluator = Evaluator(sheet, table.kernels, executables, directory)
    return lambda variants: table.errors(evaluator.times(variants))


def mean_error(group: str, sheet: Datasheet, pairs: list, executables: pathlib.Path) -> float:
    """Mean |ln(model / measured)|; nan without rows."""
    if not pairs:
        return float("nan")
    with tempfile.TemporaryDirectory() as directory:
        return float(numpy.mean(numpy.abs(errors_of(group, sheet, pairs, executables, pathlib.Path(directory))([{}]))))


def fit_group(group: str, sheet: Datasheet, pairs: list, executables: pathlib.Path) -> dict:
    """The constants of the group with the smallest error over the rows."""
    with tempfile.TemporaryDirectory() as directory:
        evaluations = collectives.EVALUATIONS if group in collectives.GROUPS else EVALUATIONS
        return least(constants_of(group, sheet, pairs), lambda key, value: limits(key, value, sheet),
                     errors_of(group, sheet, pairs, executables, pathlib.Path(directory)), evaluations)


def least(start: dict, limits_of: Callable[[str, float], tuple[float, float]], errors_with: Callable[[list[dict]], numpy.ndarray],
          evaluations: int) -> dict:
    """The constants with the smallest mean absolute error; those without influence are left out."""
    changed = [start, *({**start, key: value * numpy.exp(STEP)} for key, value in start.items())]
    values = errors_with(changed)
    keys = [key for key, row in zip(start, values[1:]) if numpy.any(row != values[0])]
    if not keys:
        return {}
    x0 = numpy.log([start[key] for key in keys])
    bounds = numpy.log([limits_of(key, start[key]) for key in keys])
    low, high = bounds[:, 0], bounds[:, 1] + 1e-9

    def errors(points):
        return errors_with([{**start, **dict(zip(keys, numpy.exp(numpy.clip(point, low, high))))} for point in points])

    def jacobian(x):
        step = numpy.where(x + STEP < high, STEP, -STEP)
        values = errors([x, *(x + numpy.diag(step))])
        return ((values[1:] - values[0]) / step[:, None]).T

    found = optimize.least_squares(lambda x: errors([x])[0], numpy.clip(x0, low, high), jacobian, (low, high), loss="soft_l1",
                                   f_scale=ROW_NOISE, max_nfev=40)
    polished = optimize.minimize(lambda x: numpy.mean(numpy.abs(errors([x])[0])), found.x, method="Powell",
                                 bounds=list(zip(low, high)), options={"maxfev": evaluations, "xtol": 0.005, "ftol": 1e-4})
    best = min((x0, found.x, polished.x), key=lambda x: numpy.mean(numpy.abs(errors([x])[0])))
    return dict(zip(keys, numpy.exp(best)))


def fit(sheet: Datasheet, rows: list[Row], system: str, kept_ratio: float, seed: int, executables: pathlib.Path) -> list[Fit]:
    """Fits every group that the system has rows for, and sets its constants in `sheet`."""
    fits = []
    for group, pairs in measured(rows, system, sheet.path.stem).items():
        fitted, kept = split(group, pairs, kept_ratio, seed)
        before = [mean_error(group, sheet, some, executables) for some in (fitted, kept)]
        constants = fit_group(group, sheet, fitted, executables)
        for key, value in constants.items():
            sheet.set(key, value)
        after = [mean_error(group, sheet, some, executables) for some in (fitted, kept)]
        fits.append(Fit(group, len(fitted), len(kept), before[0], after[0], before[1], after[1], constants))
    return fits
