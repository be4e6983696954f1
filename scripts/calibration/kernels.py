"""Constants of attention kernels (platforms/datasheets/kernels), fitted to the measured rows of all GPUs that run them.

A group is a section of the sheet and the kernels of a library in it; its rows are those of the library. The GPUs' own constants stay as they are. A number that is 0
switches an effect off and stays 0; whole numbers and words are rules of the library, and stay.
"""

import functools
import json
import pathlib
import re
import tempfile
from collections.abc import Callable

import numpy
import yaml
from lib import run_files
from validation import gpu
from validation.rows import Row, Unmapped

from . import datasheet
from .datasheet import Datasheet, number
from .evaluate import Evaluator, Table
from .fit import EVALUATIONS, LEAST_ROWS, Fit, least, split

SHEETS = datasheet.SHEETS.parent / "kernels"
FITTED = {
    "prefill": ("products_ratio", "operand_clocks", "exponentials_ratio", "overlap_exponent", "block_ratio", "fixed_ratio"),
    "decode": ("read_ratio", "flight_kib", "block_us", "join_us", "split_us", "fixed_ratio"),
}
# A library of the rows: its kernels in each section. TensorRT-LLM decodes with one of two, by the shape.
KERNELS = {"flash": {"prefill": ("flash",), "decode": ("flash",)}, "trtllm": {"prefill": ("trtllm",), "decode": ("xqa", "masked")},
           "cudnn": {"prefill": ("cudnn",), "decode": ("cudnn",)}}
OPERATIONS = {"attention_prefill": "prefill", "attention_decode": "decode"}
REACH = 4.0  # a constant moves at most by this factor
MOST = {"read_ratio": 1.0}
LEAST = {"overlap_exponent": 1.0}
COMMON = "common"  # a base of sheets; no GPU names it
SMALL_SHARED_MEMORY_KIB = 128  # below: cards, whose kernels are those of warp.yaml (models/gpu/kernels/kernel_time.h)

Pairs = list[tuple[list[dict], float]]  # the kernels of a row, and its seconds


class KernelSheet:
    """A sheet of kernels, edited in place: numbers change, comments and order stay."""

    def __init__(self, path: pathlib.Path) -> None:
        """@throws run_files.Error for a file that is no sheet; the executable checks its values"""
        self.path = path
        try:
            self.text = path.read_text(encoding="utf-8")
            self.values = yaml.safe_load(self.text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise run_files.Error(path, f"no sheet of kernels: {str(error).splitlines()[0]}") from error
        sections = [self.values.get(name, {}) for name in FITTED] if isinstance(self.values, dict) else [None]
        if not all(isinstance(section, dict) and all(isinstance(kernel, dict) for kernel in section.values()) for section in sections):
            raise run_files.Error(path, "no sheet of kernels: expected a mapping with the sections prefill and decode")
        self.stands_for = path.stem if path.parent == SHEETS else self.values.get("base", "")  # a shipped sheet, whose GPUs count

    def copy(self, path: pathlib.Path) -> "KernelSheet":
        """The same text, to be written elsewhere; a base that is a file is named by its whole path."""
        other = KernelSheet.__new__(KernelSheet)
        base = self.values.get("base", "")
        other.stands_for = self.stands_for
        other.path, other.values, other.text = path, json.loads(json.dumps(self.values)), self.text
        if "/" in base or base.endswith(".yaml"):
            other.text = re.sub(r"(?m)^base:.*$", f"base: {(self.path.parent / base).resolve()}", self.text)
        return other

    def get(self, key: str) -> float:
        section, kernel, name = key.split(".")
        return float(self.values[section][kernel][name])

    def set(self, key: str, value: float) -> None:
        """@pre the sheet has the number, in a line of its own"""
        section, kernel, name = key.split(".")
        pattern = rf"(?m)(^{section}:[^\n]*\n(?:(?:  [^\n]*)?\n)*?  {kernel}:[^\n]*\n(?:    [^\n]*\n)*?    {name}: )[^\s#]+"
        self.text, changes = re.subn(pattern, rf"\g<1>{number(value)}", self.text, count=1)
        if not changes:
            raise run_files.Error(self.path, f"{key}: expected in a line of its own")
        self.values[section][kernel][name] = float(number(value))

    def write(self) -> None:
        self.path.write_text(self.text, encoding="utf-8")

    def kernels_of(self, section: str, library: str) -> tuple[str, ...]:
        """Those that run for a library: its own, or FlashAttention's."""
        return tuple(kernel for kernel in KERNELS[library][section] if kernel in self.values.get(section, {})) or ("flash",)

    def constants_of(self, section: str, kernels: tuple[str, ...]) -> dict[str, float]:
        """The numbers of kernels that can be fitted."""
        found = {}
        for kernel in kernels:
            values = self.values.get(section, {}).get(kernel, {})
            found |= {f"{section}.{kernel}.{name}": float(values[name]) for name in FITTED[section] if values.get(name)}
        return found


@functools.cache
def sheet_of(gpu_name: str) -> str:
    """The sheet of a shipped GPU's kernels, by name, as the loader chooses it (sc_main/scenario/datasheets/datasheets.cpp)."""
    sheet = Datasheet(datasheet.SHEETS / f"{gpu_name}.yaml")
    if "kernels" in sheet.values:
        return sheet.values["kernels"]
    large = sheet.values["sm"]["shared_memory_kib"] >= SMALL_SHARED_MEMORY_KIB
    return sheet.values["architecture"] if large and (SHEETS / f"{sheet.values['architecture']}.yaml").exists() else "warp"


def shipped_name(sheet: KernelSheet) -> str:
    """The shipped sheet whose GPUs a sheet is for: itself, or its base."""
    shipped = {path.stem for path in SHEETS.glob("*.yaml")} - {COMMON}
    if sheet.stands_for in shipped:
        return sheet.stands_for
    raise run_files.Error(sheet.path, f"base: names no shipped sheet; accepted: {', '.join(sorted(shipped))}")


class VariantsOfKernels(Evaluator):
    """Times of one GPU's kernels, with variants of the sheet of kernels."""

    def __init__(self, kernels: KernelSheet, *of_gpu) -> None:
        super().__init__(*of_gpu)
        self.kernels_sheet = kernels

    def write_variant(self, number: int, constants: dict) -> pathlib.Path:
        variant = self.kernels_sheet.copy(self.directory / f"kernels{number}.yaml")
        for key, value in constants.items():
            variant.set(key, value)
        variant.write()
        sheet = self.datasheet.copy(self.directory / f"variant{number}.yaml")
        sheet.text = re.sub(r"(?m)^kernels:.*\n", "", sheet.text)
        sheet.text = re.sub(r"(?m)^(architecture:.*\n)", rf"\1kernels: {variant.path.name}\n", sheet.text)
        sheet.write()
        return sheet.path


def measured(rows: list[Row], system: str, sheet: KernelSheet) -> dict[tuple[str, tuple[str, ...]], dict[str, Pairs]]:
    """Rows of attention with a time, on GPUs that run the kernels of the sheet: by section and kernels, and by GPU."""
    found: dict[tuple[str, tuple[str, ...]], dict[str, Pairs]] = {}
    name = shipped_name(sheet)
    for row in rows:
        if not re.fullmatch(system, row["system"]) or not row["metric"].startswith("time"):
            continue
        try:
            gpu.check(row)
            experiment = gpu.map_row(row)
        except Unmapped:
            continue
        kernels = list(experiment.kernels)
        section = OPERATIONS.get(kernels[-1]["op"]) if kernels else None
        if not section:
            continue
        device = experiment.scenario["machine"]["groups"]["node"]["gpu"]
        if sheet_of(device) != name:
            continue
        group = (section, sheet.kernels_of(section, kernels[-1].get("library", "flash")))
        found.setdefault(group, {}).setdefault(device, []).append((kernels, row.value * experiment.unit))
    return {group: by_gpu for group, by_gpu in found.items() if sum(map(len, by_gpu.values())) >= LEAST_ROWS}


def errors_of(sheet: KernelSheet, by_gpu: dict[str, Pairs], executables: pathlib.Path,
              directory: pathlib.Path) -> Callable[[list[dict]], numpy.ndarray]:
    """@return gives ln(model / measured) of the rows of all GPUs (columns) for each variant (rows)"""
    parts = []
    for device, pairs in by_gpu.items():
        table = Table(pairs)
        parts.append((table, VariantsOfKernels(sheet, Datasheet(datasheet.SHEETS / f"{device}.yaml"), table.kernels, executables, directory)))
    return lambda variants: numpy.hstack([table.errors(evaluator.times(variants)) for table, evaluator in parts])


def mean_error(sheet: KernelSheet, by_gpu: dict[str, Pairs], executables: pathlib.Path) -> float:
    """Mean |ln(model / measured)|; nan without rows."""
    by_gpu = {device: pairs for device, pairs in by_gpu.items() if pairs}
    if not by_gpu:
        return float("nan")
    with tempfile.TemporaryDirectory() as directory:
        return float(numpy.mean(numpy.abs(errors_of(sheet, by_gpu, executables, pathlib.Path(directory))([{}]))))


def limits(key: str, value: float) -> tuple[float, float]:
    name = key.rpartition(".")[2]
    low, high = value / REACH, value * REACH
    return min(max(low, LEAST.get(name, low)), value), max(min(high, MOST.get(name, high)), value)


def fit(sheet: KernelSheet, rows: list[Row], system: str, kept_ratio: float, seed: int, executables: pathlib.Path,
        evaluations: int = EVALUATIONS) -> list[Fit]:
    """Fits every group that has rows and numbers of its own in the sheet, and sets them there."""
    fits = []
    for (section, names), by_gpu in sorted(measured(rows, system, sheet).items()):
        start = sheet.constants_of(section, names)
        if not start:
            continue
        parts = {device: split(section, pairs, kept_ratio, seed) for device, pairs in by_gpu.items()}
        fitted, kept = ({device: part[index] for device, part in parts.items() if part[index]} for index in (0, 1))
        before = [mean_error(sheet, some, executables) for some in (fitted, kept)]
        with tempfile.TemporaryDirectory() as directory:
            found = least(start, limits, errors_of(sheet, fitted, executables, pathlib.Path(directory)), evaluations)
        for key, value in found.items():
            sheet.set(key, value)
        after = [mean_error(sheet, some, executables) for some in (fitted, kept)]
        count = [sum(map(len, some.values())) for some in (fitted, kept)]
        fits.append(Fit(f"{section}, {' and '.join(names)}", count[0], count[1], before[0], after[0], before[1], after[1], found))
    return fits
