"""Rows of matrix products overlapped with their collective as scenarios of `workload.kind: overlap`.

Rules, by column:
  kind     AG+GEMM: all_gather_gemm, GEMM+RS: gemm_reduce_scatter
  config   M, N, K of all ranks, TP ranks, number format
  metric   GEMM only, comm only, serial: the parts; fused total: the fused kernel. The parts of a fused kernel are not compared
"""

import re

from . import systems
from .experiment import Experiment, table_of
from .rows import SECONDS, Row, Unmapped

OPERATIONS = {"AG+GEMM": "all_gather_gemm", "GEMM+RS": "gemm_reduce_scatter"}
METHODS = ((r"\bGEMM only\b", "gemm"), (r"\bcomm only\b", "collective"), (r"\bserial\b", "serial"), (r"\bfused total\b", "fused"))
DTYPES = ("bf16", "fp16", "fp8", "int8")


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    operation = OPERATIONS.get(row["kind"].strip())
    if operation is None:
        raise Unmapped(f"'{row['kind']}' is neither {' nor '.join(OPERATIONS)}; whole steps belong to class training")
    method = next((name for pattern, name in METHODS if re.search(pattern, row["metric"])), None)
    if method is None:
        raise Unmapped(f"metric '{row['metric']}' is none of GEMM only, comm only, serial, fused total")
    sizes = {name: _number(row, name) for name in "MNK"}
    ranks = row.integer("n_gpus") or _number(row, "TP")
    dtype = next((name for name in DTYPES if re.search(rf"\b{name}\b", row["config"])), "bf16")
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    if ranks > systems.gpus_per_server(platform):
        raise Unmapped(f"{ranks} ranks: the methods are those of one server, and {platform} has {systems.gpus_per_server(platform)} GPUs")
    workload = {"kind": "overlap", "op": operation, "ranks": ranks, "gemm": {name.lower(): value for name, value in sizes.items()} | {"dtype": dtype}}
    scenario = {"machine": systems.machine(row, platform, gpu, 1), "fabric": {}, "workload": workload}

    def read(result):
        return next(float(line["time_us"]) for line in table_of(result, "overlap.csv") if line["method"] == method) * 1e-6

    return Experiment(f"{row['kind'].strip()} {method}", platform, scenario, None, read, row.scale(SECONDS), ranks, size_class=f"M={sizes['M']}")


def _number(row, name):
    found = re.search(rf"\b{name}(\d+)\b", row["config"])
    if not found:
        raise Unmapped(f"config '{row['config']}' has no {name}")
    return int(found.group(1))
