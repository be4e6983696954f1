"""Rows of decode speed as scenarios of `workload.kind: layer`: as many layers as the model has, embedding and head.

Rules, by column:
  framework         gpt-fast: compiled, in a CUDA graph, NCCL between tensor-parallel ranks
  model, precision  a configuration under scenarios/models; int8 and int4 are weights only, the nearest format of that width
  tp, n_gpus        ranks. Of A100 joined by a mesh of NVLinks, a board with NVSwitches: the sum of one token waits, it does not stream
  batch             sequences, one where none is said
  input_len, output_len   a token in the middle of the answer; where none is said, 200 tokens after a short prompt, gpt-fast's default
  metric            decode tokens/s
"""

import re

from . import systems
from .experiment import Experiment
from .rows import Row, Unmapped
from .served_models import model_of

PRECISIONS = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "int8": "int8", "int4": "fp4"}
PER_SECOND = {"tok/s": 1.0, "tokens/s": 1.0}
USUAL_PROMPT, USUAL_ANSWER = 6, 200


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["framework"] != "gpt-fast" or not re.match(r"decode tok", row["metric"]):
        raise Unmapped("a served model: not a layer's time times layers")
    model = model_of(row, PRECISIONS)
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    tp, batch = row.integer("tp") or row.integer("n_gpus") or 1, row.integer("batch") or 1
    prompt, answer = row.integer("input_len") or USUAL_PROMPT, row.integer("output_len") or USUAL_ANSWER
    scenario = {
        "model": model | {"kv_dtype": "bf16"},
        "machine": {"groups": {"node": {"servers": 1, "gpu": gpu.name}}},
        "workload": {"kind": "layer", "phase": "decode", "tp": tp, "batch": batch, "context_tokens": prompt + answer // 2,
                     "library": "nccl"},
    }
    return Experiment(f"decode {row['precision']}", platform, scenario, None,
                      lambda result: result.summary["metrics"]["tokens_per_s"], row.scale(PER_SECOND), 1, size_class=f"TP{tp}")
