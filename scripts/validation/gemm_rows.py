"""Rows of matrix products as kernels.

Rules, by column:
  M, N, K, dtype   the product; bfloat16 is bf16
  groups           groups of M rows on average, each with weights of its own, in one launch
  library          what surrounds it. aiconfigurator ("weights rotated") captures five layers with weights of their own in a graph;
                   its narrow layers quantise their input with a scale they find first, unless only their weights are narrow. cuBLASLt and torch loops use the same
                   operands again and again, until the GPU is at its power limit; DeepGEMM picks its own tiles, and its benchmark flushes L2
                   before every call. torch (LLMCompass) waits for each call. scripts/measure_gpu.py ("in turn") has five weights, too, and
                   leaves quantisation out
  kind             product, one scale a row: a row-wise kernel; gradient of weights: a product alone, as it is written, or added to gradients in bf16 or fp32; products of experts: M
                   tokens, each with the experts that `config` says, drawn at random
  metric           time: seconds; TFLOPs, MAMF_max_TFLOPs: useful FLOPs over time
"""

import re

from . import kernels
from .experiment import Experiment
from .rows import Row, Unmapped

ROTATED = 5  # layers of the aiconfigurator's collector
SIZES = ((64, "64"), (1024, "1024"))
NARROW = ("fp8", "int8", "fp4", "mxfp8", "nvfp4")
WEIGHTS_ONLY = "_wo"
TERA = {"TFLOP/s": 1e12, "TFLOPS": 1e12}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    m, n, k = kernels.needed(row, "M", "N", "K")
    dtype = kernels.dtype_of(row)
    gemm = {"op": "gemm", "m": m, "n": n, "k": k, "dtype": dtype} | _circumstances(row)
    experts = re.match(r"(\d+) experts, (\d+) a token", row["config"])
    if experts:
        # Experts that at least one of the tokens has, on average: each token leaves each out with the same probability.
        count, chosen = int(experts[1]), int(experts[2])
        groups = max(1, round(count * (1 - (1 - chosen / count) ** m)))
        gemm |= {"groups": groups, "m": max(1, round(m * chosen / groups))}
    if row["groups"]:
        gemm["groups"] = kernels.needed(row, "groups")[0]
    parts = [gemm]
    if dtype in NARROW and re.search("rotated", row["library"]) and not row["dtype"].endswith(WEIGHTS_ONLY):
        parts.insert(0, {"op": "quantize", "tokens": m, "width": k, "dtype": dtype, "dynamic": True})
    operation, size_class = _operation(row, dtype), kernels.classed(m, SIZES, "M")
    if row["metric"] == "time":
        return kernels.time_experiment(row, operation, size_class, parts)
    if re.search("TFLOPs", row["metric"]):
        return kernels.experiment(row, operation, size_class, parts, lambda seconds: 2.0 * m * n * k / seconds, row.scale(TERA))
    raise Unmapped(f"metric '{row['metric']}' is neither time nor TFLOPs")


def _operation(row, dtype):
    added = re.search("added in (.+)", row["kind"])
    if row["groups"]:
        return f"gemm {dtype}, groups"
    if re.match("products of experts", row["kind"]):
        return f"gemm {dtype}, experts"
    if re.search("one scale a row", row["kind"]):
        return f"gemm {dtype}, row-wise"
    return f"gemm {dtype}, added in {added[1]}" if added else f"gemm {dtype}"


def _circumstances(row):
    library = row["library"]
    if re.match("gradient of weights", row["kind"]):
        added = re.search("added in (.+)", row["kind"])
        gradients = {"bf16": "bf16", "fp32": "tf32"}[added[1]] if added else row["dtype"]
        return {"weight_copies": kernels.SAME_OPERANDS, "accumulate": bool(added), "result_dtype": gradients}
    if re.search("rotated|in turn", library):
        rowwise = {"gemm_library": "rowwise"} if re.search("one scale a row", row["kind"]) else {}
        return {"weight_copies": ROTATED} | rowwise
    if re.search("DeepGEMM", library, re.IGNORECASE):
        return {"gemm_library": "deepgemm", "l2_flushed": True}
    if re.search("LLMCompass", row["system"]):
        return {"weight_copies": kernels.SAME_OPERANDS, "launch": "synchronous", "host_us": kernels.TORCH_CALL_US["matmul"]}
    return {"weight_copies": kernels.SAME_OPERANDS, "launch": "stream", "steady": True}
