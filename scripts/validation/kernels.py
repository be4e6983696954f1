"""Measured kernels as experiments: entries of `workload.kind: kernel` on the GPU that the row names.

All rows of a GPU share one run. The time of a row is the sum of its kernels, which run one after the other in a stream.
"""

import functools
import json
import math
import pathlib
import re
from collections.abc import Callable

from lib import run_files
from lib.runner import Result

from . import systems
from .experiment import Experiment
from .rows import SECONDS, Row, Unmapped

PLATFORM = "plx_box"  # accepts every GPU datasheet; the kernels use no links
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "e4m3": "fp8", "fp8_block": "fp8", "mxfp4": "fp4",
          "int8_wo": "int8", "int4_wo": "fp4"}
KNOWN_DTYPES = ("fp16", "bf16", "tf32", "fp8", "int8", "fp4", "mxfp8", "nvfp4")
# Time of a synchronous torch call on LLMCompass's A100, as LLMCompass states it: hardware_model/compute_module.py, overhead_dict["A100"].
TORCH_CALL_US = {"matmul": 21, "softmax": 12, "layernorm": 45, "gelu": 45}
# Limits of a scenario for the keys of a kernel. A single kernel beyond them would make the whole run fail.
LEAST = {"context_tokens": 0}
MOST = {"batch": 1 << 16, "heads": 1 << 16, "kv_heads": 1 << 16, "head_dim": 1 << 16, "groups": 1 << 20, "bytes": 1 << 40}
MOST_ELSE = 1 << 30
SAME_OPERANDS = 1  # weight_copies of a benchmark that repeats with the same operands


def gpu_of(row: Row) -> str:
    return systems.gpu_of(named(row)).name


def experiment(row: Row, operation: str, size_class: str, kernels: list[dict], value: Callable[[float], float], unit: float) -> Experiment:
    """`value` converts the seconds of the kernels to the row's metric; `unit` is one unit of the row in this metric."""
    gpu = systems.gpu_of(named(row))
    for kernel in kernels:
        check(kernel, gpu)
    scenario = {"machine": {"groups": {"node": {"servers": 1, "gpu": gpu.name}}}, "fabric": {}, "workload": {"kind": "kernel"}}
    return Experiment(operation, PLATFORM, scenario, None, lambda result: value(seconds_of(result, kernels)), unit, len(kernels),
                      lambda result: limits_of(result, kernels), tuple(kernels), size_class)


def check(kernel: dict, gpu: systems.Gpu) -> None:
    """@throws Unmapped for a kernel that the executable would reject"""
    if kernel["op"] == "gemm" and kernel["dtype"] not in gpu.tensor_types:
        raise Unmapped(f"{gpu.name} has no tensor rate for {kernel['dtype']}")
    if kernel.get("heads", 1) % kernel.get("kv_heads", 1):
        raise Unmapped(f"{kernel['kv_heads']} KV heads do not divide {kernel['heads']}")
    for name, value in kernel.items():
        if isinstance(value, int) and not isinstance(value, bool) and name not in ("weight_copies", "load_bytes", "host_us"):
            if not LEAST.get(name, 1) <= value <= MOST.get(name, MOST_ELSE):
                raise Unmapped(f"{kernel['op']} of {name} {value}")


def named(row: Row) -> Row:
    """The row with memory sizes as the rules for names read them: a100_40 has 40 GB."""
    return Row(row.file, row.line, row.columns | {"system": re.sub(r"_(\d\d)$", r" \1GB", row["system"])}, row.value)


def time_experiment(row: Row, operation: str, size_class: str, kernels: list[dict]) -> Experiment:
    """The experiment of a row whose value is the time of these kernels."""
    return experiment(row, operation, size_class, kernels, lambda seconds: seconds, row.scale(SECONDS))


def dtype_of(row: Row) -> str:
    """@throws Unmapped for a number format that datasheets do not know"""
    name = DTYPES.get(row["dtype"].strip().lower(), row["dtype"].strip().lower())
    if name not in KNOWN_DTYPES:
        raise Unmapped(f"dtype '{row['dtype']}' is none of {', '.join(KNOWN_DTYPES)}")
    return name


def needed(row: Row, *columns: str) -> list[int]:
    """Integers of at least 1. @throws Unmapped if one is missing"""
    numbers = [row.integer(column) for column in columns]
    for column, number in zip(columns, numbers):
        if not number:
            raise Unmapped(f"has no {column}")
    return numbers


def classed(value: float, limits: tuple, name: str) -> str:
    """The name of the size class that a value falls into: `name` with the first limit that it does not exceed."""
    for limit, shown in limits:
        if value <= limit:
            return f"{name}<={shown}"
    return f"{name}>{limits[-1][1]}"


def key(kernel: dict) -> str:
    return json.dumps(kernel, sort_keys=True)


@functools.lru_cache(maxsize=None)
def _times(directory: pathlib.Path) -> dict:
    """The rows of kernels.csv by the kernel that the run's scenario asked for."""
    scenario = json.loads((directory / "scenario.yaml").read_text(encoding="utf-8"))
    rows = run_files.table(directory / "out" / "kernels.csv", {"time_us": run_files.number, "limit": str}, "the kernels of a run")
    return {key(kernel): line for kernel, line in zip(scenario["workload"]["kernels"], rows, strict=True)}


def seconds_of(result: Result, kernels: list[dict]) -> float:
    lines = _times(result.directory)
    return math.fsum(lines[key(kernel)]["time_us"] for kernel in kernels) * 1e-6


def limits_of(result: Result, kernels: list[dict]) -> str:
    lines = _times(result.directory)
    return " ".join(lines[key(kernel)]["limit"] for kernel in kernels)
