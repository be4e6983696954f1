"""Published steps with adapters (LoRA): what each source trains, and how.

  MLPerf      rank 16 beside QKV and output projection; weights in fp8 only, no overlap of gradients or of tensor-parallel products that the
              model has for adapters (NVIDIA/NeMo scripts/performance/llm/mlperf_lora_llama2_70b.py). Attention sees whole samples. A replica has
              GPUs x accumulated micro-batches / batch GPUs: up to four are tensor-parallel, the others context-parallel
              (config_DGXH100_128x8x1xtp4pp1cp2.sh, config_DGXB200_1x8x1xtp1pp1cp1.sh)
  NeMo 8B     rank 8 beside QKV (nemo/collections/llm/recipes/llama3_8b.py, performance_mode). Packed documents are modelled as one, so attention
              is somewhat longer
"""

import re
from dataclasses import replace

from .rows import Row, Unmapped
from .served_models import number
from .training_steps import Step

MOST_TP = 4


def has_adapters(row: Row) -> bool:
    return re.search(r"\blora\b", row.text("model", "extra"), re.IGNORECASE) is not None


def with_adapters(step: Step, row: Row) -> Step:
    """The step of a recipe that trains adapters. @throws Unmapped if its source has no rule"""
    step = replace(step, tp_overlap="none")
    if "mlcommons" in row["source"]:
        return _mlperf(step, row)
    if "dgxc-benchmarking" in row["source"] and re.search(r"llama3 8b", row["model"], re.IGNORECASE):
        return _adapted(step, 8, ["qkv"], micro_batch=1)
    raise Unmapped("there is no rule for recipes with adapters (LoRA) of this source")


def _adapted(step: Step, rank: int, modules: list[str], **changes) -> Step:
    return replace(step, options=step.options | {"lora": {"rank": rank, "modules": modules}}, **changes)


def _mlperf(step: Step, row: Row) -> Step:
    gpus, rest = divmod(step.gpus * number(row, "ga"), step.global_batch)
    if rest or not gpus:
        raise Unmapped(f"{step.gpus} GPUs are not divided evenly among micro-batches of a batch of {step.global_batch}")
    tp = min(MOST_TP, gpus)
    step = replace(step, options=step.options | {"dp_overlap": False, "param_gather_overlap": False}, narrow_parameters=step.gemm != "bf16")
    return _adapted(step, 16, ["qkv", "proj"], micro_batch=1, tp=tp, cp=gpus // tp, sequence_parallel=tp > 1)
