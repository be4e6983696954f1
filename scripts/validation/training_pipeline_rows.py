"""Rows of pipeline schedules and of overlapped tensor parallelism as scenarios of `workload.kind: training`.

Rules, by column:
  kind             pipeline S: the schedule S on one replica. ZB_1p and ZB_2p are the schedules that are searched under an activation limit
                   of one and two times that of 1F1B (Qi et al., arXiv 2401.10241). Software megatron_2023. bubble rate S: the same run.
                   The paper finds rates by the schedule from profiled times of slots and transfers, so bubble_planned_fraction is compared;
                   as some rates are 0, what they leave of 1.
                   TP vanilla, TP async: FSDP with TP of torchtitan; async hides collectives behind products. fp8 rowwise, tensorwise: torchao's
                   recipe
                   ... DualPipe: sums and kernels of a trace of DeepSeek-V3. Its dispatch and combine are rows of class fabric
  config           model, GPUs and batch, as printed; a row of bubble rates has the shape of the throughput row of its model
  metric           samples/s/GPU, tokens/s/GPU, bubble_rate
"""

import re
from dataclasses import replace

from .experiment import Experiment
from .rows import Row, Unmapped
from .training_models import gpt, padded, shape_of
from .training_stacks import AUTOGRAD, recipe_said
from .training_steps import Step, experiment

# sail-sg/zero-bubble-pipeline-parallelism, branch arxiv, examples/pretrain_zero_bubble.sh: one layer in each virtual stage.
# Their optimizer step does not wait for the norm of gradients: it is validated later (section 4 of the paper).
SCHEDULES = {
    "1F1B": {"schedule": "1f1b"},
    "1F1B interleaved": {},
    "ZB_1p": {"schedule": "zb_auto", "memory_limit_stages": 1, "grad_norm": "none"},
    "ZB_2p": {"schedule": "zb_auto", "memory_limit_stages": 2, "grad_norm": "none"},
}
# arXiv 2401.10241, table 3: layers, hidden size, heads, micro-batch
MODELS = {"GPT 1.5B": (22, 2304, 24, 6), "GPT 6.2B": (30, 4096, 32, 3), "GPT 14.6B": (46, 5120, 40, 1)}
DUALPIPE = (("GEMM", "shapes of the products are not printed"),
            ("attention fwd", "one kernel, which no training step reports alone (tests/transformer/transformer_latent.cpp compares it)"),
            ("", "a sum over a trace of two passes, which no run reports"))
SEQ = 1024
VOCAB = 32000  # not printed; with one embedding, the models' names are their parameters (14.6B; with GPT-2's 50257 it would be 14.7B)
PER_SECOND = {"samples/s/GPU": 1.0, "tok/s/GPU": 1.0, "fraction": 1.0}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    found = re.fullmatch(r"(pipeline|bubble rate) (.*)", row["kind"])
    if found:
        return _pipeline(row, found[2])
    if re.match(r"TP (vanilla|async)", row["kind"]):
        return _tensor_parallel(row)
    if "DualPipe" in row["kind"]:
        raise Unmapped(f"{row['metric']}: {next(reason for word, reason in DUALPIPE if word in row['metric'])}")
    raise Unmapped(f"kind '{row['kind']}' is neither a pipeline schedule nor TP vanilla, TP async")


def _pipeline(row, name):
    if name not in SCHEDULES:
        raise Unmapped(f"schedule '{name}' is none of {', '.join(SCHEDULES)}")
    model = next((model for model in MODELS if row["config"].startswith(model)), None)
    sizes = re.search(r"PP=(\d+) microbatches=(\d+)", row["config"])
    if model is None or not sizes:
        raise Unmapped(f"config '{row['config']}' names no model, PP and micro-batches")
    layers, hidden, heads, micro_batch = MODELS[model]
    pp, batches = int(sizes[1]), int(sizes[2])
    virtual = (layers + 2) // pp if name == "1F1B interleaved" else 1  # one layer each
    step = Step(row=row, stack=f"zero bubble {name}", software="megatron_2023", gpus=row.integer("n_gpus"), seq=SEQ,
                shape=gpt(model, layers, hidden, heads, SEQ, padded(VOCAB, 1)), global_batch=micro_batch * batches, micro_batch=micro_batch,
                gemm="fp16", fp32_gradients=False, pp=pp, virtual=virtual,
                options=SCHEDULES[name])
    if row["metric"] == "bubble_rate":
        found = experiment(step, lambda metrics: 1 - metrics["bubble_planned_fraction"], row.scale(PER_SECOND))
        return replace(found, operation=f"{found.operation}, 1 - bubble rate", compared=lambda rate: 1 - rate)
    return experiment(step, lambda metrics: step.global_batch / step.gpus / metrics["step_s"], row.scale(PER_SECOND))


def _tensor_parallel(row):
    words = re.match(r"Llama3 (\d+b) FSDP(\d+) TP(\d+) compile (full AC|per-op SAC) local batch (\d+) seq (\d+)", row["config"], re.IGNORECASE)
    if not words:
        raise Unmapped(f"config '{row['config']}' names no model, FSDP, TP, batch and sequence")
    sharded, tp, micro_batch, seq = (int(words[i]) for i in (2, 3, 5, 6))
    shape = shape_of(Row(row.file, row.line, {"model": f"Llama3 {words[1]}"}, row.value), seq, tp)
    step = Step(row=row, stack="torchtitan", software="torchtitan_compile", shape=shape, gpus=row.integer("n_gpus"), seq=seq,
                global_batch=micro_batch * sharded, micro_batch=micro_batch, tp=tp, sequence_parallel=True, zero_stage=3,
                recompute="full", tp_overlap="decomposed" if "async" in row["kind"] else "none", gemm="fp8" if "fp8" in row["kind"] else "bf16",
                recipe=recipe_said(row["kind"]), fp32_gradients=True, options=AUTOGRAD)
    step = replace(step, recompute="full" if words[4].lower() == "full ac" else "selective")
    return experiment(step, lambda metrics: metrics["tokens_per_s_per_gpu"], row.scale(PER_SECOND))
