"""Rows of matrix products as kernels.

Rules, by column:
  M, N, K, dtype   the product; bfloat16 is bf16
  library          what surrounds it. aiconfigurator ("weights rotated") captures five layers with weights of their own in a graph;
                   its narrow layers quantise their input with a scale they find first, unless only their weights are narrow. cuBLASLt and torch loops use the same
                   operands again and again, until the GPU is at its power limit; DeepGEMM never splits K, and its benchmark flushes L2
                   before every call. torch (LLMCompass) waits for each call
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
    parts = [gemm]
    if dtype in NARROW and re.search("rotated", row["library"]) and not row["dtype"].endswith(WEIGHTS_ONLY):
        parts.insert(0, {"op": "quantize", "tokens": m, "width": k, "dtype": dtype, "dynamic": True})
    operation, size_class = f"gemm {dtype}", kernels.classed(m, SIZES, "M")
    if row["metric"] == "time":
        return kernels.time_experiment(row, operation, size_class, parts)
    if re.search("TFLOPs", row["metric"]):
        return kernels.experiment(row, operation, size_class, parts, lambda seconds: 2.0 * m * n * k / seconds, row.scale(TERA))
    raise Unmapped(f"metric '{row['metric']}' is neither time nor TFLOPs")


def _circumstances(row):
    library = row["library"]
    if re.search("rotated", library):
        return {"weight_copies": ROTATED}
    if re.search("DeepGEMM", library, re.IGNORECASE):
        return {"split_k": False}
    if re.search("LLMCompass", row["system"]):
        return {"weight_copies": kernels.SAME_OPERANDS, "launch": "synchronous", "host_us": kernels.TORCH_CALL_US["matmul"]}
    return {"weight_copies": kernels.SAME_OPERANDS, "launch": "stream", "steady": True}
