"""Devices and numbers of GPUs that a fit has not seen: a section of docs/fidelity.md.

devices  For each calibrated GPU, all constants are replaced by those of another GPU; the datasheet keeps its specification, its board and
         the rules of the libraries.
counts   NCCL's constants are fitted to the rows of the other numbers of GPUs, up to 4 MiB, from the constants of the other GPU; all rows
         of the number left out are predicted with them.
"""

import pathlib
import tempfile

import numpy

from validation import rows, systems

from . import fit
from .collectives import ONE_SERVER_TABLES, Measured
from .datasheet import CONSTANTS, Datasheet
from .report import TABLES

# A calibrated GPU: its system in the rows, and the GPU whose constants it takes. This is a GPU of the generation before, except for the
# A100, which is the oldest, and for GB200, which follows B200.
DEVICES = {
    "A100-SXM4-80GB": ("a100_sxm", "H100-SXM5-80GB"),
    "H100-SXM5-80GB": ("h100_sxm", "A100-SXM4-80GB"),
    "B200-SXM-180GB": ("b200_sxm", "H100-SXM5-80GB"),
    "GB200-186GB": ("gb200", "B200-SXM-180GB"),
    "L40S": ("l40s", "A100-SXM4-80GB"),
    "RTX-PRO-6000-Blackwell-Server": ("rtx_pro_6000_server", "L40S"),
}
COUNTED = "nccl"  # group of constants whose fits leave a number of GPUs out
COUNTED_DEVICES = ("H100-SXM5-80GB", "B200-SXM-180GB")  # a fit takes a minute or two
MOST_FIT_BYTES = 4 << 20  # larger rows show the links' rates, and take minutes
LAUNCHED = (COUNTED, "all-to-all")  # groups whose kernels begin with NCCL's launch
LAUNCH = "collective.launch_us"
COLUMNS = ("nccl", "all-to-all", "custom all-reduce", "gemm", "attention prefill", "attention decode")


def without_own(sheet: Datasheet, other: str) -> Datasheet:
    """The datasheet with the constants of another GPU."""
    blank = sheet.copy(sheet.path)
    for key in filter(blank.says, CONSTANTS):
        blank.remove(key)
    blank.set_family(other)
    return blank


def median_error(group: str, sheet: Datasheet, pairs: list, executables: pathlib.Path) -> float:
    """Median |model / measured - 1|."""
    with tempfile.TemporaryDirectory() as directory:
        errors = fit.errors_of(group, sheet, pairs, executables, pathlib.Path(directory))([{}])[0]
    return float(numpy.median(numpy.abs(numpy.expm1(errors))))


def devices(sheets: pathlib.Path, tables: pathlib.Path, executables: pathlib.Path) -> list[str]:
    """The table of devices: median errors with the constants of another GPU, for NCCL also with the own launch, and in brackets with their
    own."""
    table = [row for name in (*ONE_SERVER_TABLES, *TABLES) for row in rows.read(str(tables / name))]
    lines = ["| GPU | constants of | " + " | ".join(COLUMNS) + " |", "| --- | --- |" + " ---: |" * len(COLUMNS)]
    for name, (system, other) in DEVICES.items():
        own = Datasheet(sheets / f"{name}.yaml")
        found = fit.measured(table, system, name)
        cells = []
        for group in COLUMNS:
            if group in found:
                blank = without_own(own, other)
                known = blank.copy(own.path)
                known.set(LAUNCH, float(own.get(LAUNCH)))
                variants = (blank, known, own) if group in LAUNCHED else (blank, own)
                errors = [f"{100 * median_error(group, sheet, found[group], executables):.1f} %" for sheet in variants]
                cells.append(f"{', '.join(errors[:-1])} ({errors[-1]})")
            else:
                cells.append("")
        lines.append(f"| {name} | {other} | " + " | ".join(cells) + " |")
    return lines


def gpus_of(measured: Measured) -> int:
    """GPUs that take part in a row of one server."""
    experiment = measured[0]
    return int(experiment.scenario["workload"].get("ranks_per_server", systems.gpus_per_server(experiment.platform)))


def counts(sheets: pathlib.Path, tables: pathlib.Path, executables: pathlib.Path) -> list[str]:
    """The table of numbers of GPUs: median errors of each number without its own rows, and in brackets with all constants of the datasheet."""
    table = [row for name in ONE_SERVER_TABLES for row in rows.read(str(tables / name))]
    found = {name: fit.measured(table, DEVICES[name][0], name)[COUNTED] for name in COUNTED_DEVICES}
    numbers = sorted({gpus_of(pair) for pairs in found.values() for pair in pairs})
    lines = ["| GPU | " + " | ".join(f"{number} GPUs left out" for number in numbers) + " |", "| --- |" + " ---: |" * len(numbers)]
    for name, pairs in found.items():
        own = Datasheet(sheets / f"{name}.yaml")
        start = without_own(own, DEVICES[name][1])
        lines.append(f"| {name} | " + " | ".join(_without(number, pairs, own, start, executables) for number in numbers) + " |")
    return lines


def _without(number: int, pairs: list[Measured], own: Datasheet, start: Datasheet, executables: pathlib.Path) -> str:
    left = [pair for pair in pairs if gpus_of(pair) == number]
    others = [pair for pair in pairs if gpus_of(pair) != number and pair[0].size <= MOST_FIT_BYTES]
    fitted = start.copy(start.path)
    for key, value in fit.fit_group(COUNTED, start, others, executables).items():
        fitted.set(key, value)
    errors = [median_error(COUNTED, sheet, left, executables) for sheet in (fitted, own)]
    return "{:.1f} % ({:.1f} %)".format(*(100 * error for error in errors))
