"""Class `training`: steps of published training runs. A row's table is known by its columns.

Rules, by column:
  source                software and how it ran (training_stacks.py)
  model, layers, hidden, heads   a configuration under scenarios/models, or a GPT of these sizes (training_models.py)
  system, n_gpus        platform, GPU and network; the network of NVIDIA's own systems where the row names none (training_steps.py)
  seq, gbs, mbs, tp, pp, cp, ep, vp   as printed, or from the source's published recipe (training_recipes.py)
  metric                iteration_time, step_time: step_s. TFLOP/s/GPU and MFU: the source's formula for FLOPs over step_s.
                        tokens/s/GPU, seqs/s, samples/s as printed. layer_fwd and the like: kind layer (training_layer_rows.py)
  kind                  schedules and overlapped tensor parallelism (training_pipeline_rows.py)
"""

import re

from . import systems, training_flops, training_layer_rows, training_pipeline_rows
from .experiment import Experiment
from .rows import SECONDS, Row, Unmapped
from .training_recipes import filled
from .training_stacks import step_of
from .training_steps import Step, experiment
from .training_targets import lines as targets  # noqa: F401  of the digest

TITLE = "Steps of published training runs"
TABLES = ("training.csv", "training_vtrain.csv", "training_pipelines.csv")
TRAINING, PIPELINES = "4-training", "6-overlap-pipeline"
PER_SECOND = dict.fromkeys(("tok/s/GPU", "tokens/s/GPU", "tok/s", "tokens/s", "seq/s", "seqs/s", "samples/s", "1/s"), 1.0)
FLOPS = dict.fromkeys(("TFLOP/s", "TFLOPS", "TFLOP/s/GPU", "TFLOPS/GPU"), 1e12)
PERCENT = {"%": 0.01}
SHORT = {"tp": "tp", "pp": "pp", "cp": "cp", "v": "virtual_stages", "g": "global_batch", "m": "micro_batch"}  # in names of runs
# Dense bf16 by NVIDIA's datasheets, to which MFU refers (the Megatron-LM README has the H100's)
MFU_FLOPS = {"A100": 312e12, "A800": 312e12, "H100": 989.4e12, "H200": 989.4e12, "H800": 989.4e12, "B200": 2250e12, "GB200": 2500e12}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["category"] == PIPELINES:
        return training_pipeline_rows.map_row(row)
    if row["category"] != TRAINING:
        raise Unmapped(f"belongs to another class: category '{row['category']}'")
    if row["metric"].startswith("layer_"):
        return training_layer_rows.map_row(row)
    step = step_of(filled(row))
    if step.global_batch is None:
        raise Unmapped("has no gbs")
    metric = row["metric"].replace("_", " ").replace("tok/s", "tokens/s")
    if re.match(r"(iteration|step) time", metric):
        return experiment(step, lambda metrics: metrics["step_s"], row.scale(SECONDS))
    if metric == "tokens/s/GPU":
        return experiment(step, lambda metrics: metrics["tokens_per_s_per_gpu"], row.scale(PER_SECOND))
    if metric == "tokens/s":
        return experiment(step, lambda metrics: step.gpus * metrics["tokens_per_s_per_gpu"], row.scale(PER_SECOND))
    if metric in ("seqs/s", "sequences/s", "samples/s"):
        return experiment(step, lambda metrics: step.global_batch / metrics["step_s"], row.scale(PER_SECOND))
    if re.match(r"TFLOPS?(/s)?/GPU", metric):
        return experiment(step, lambda metrics: flops(step) / step.gpus / metrics["step_s"], row.scale(FLOPS))
    if metric == "MFU":
        peak = peak_of(row)
        return experiment(step, lambda metrics: flops(step) / step.gpus / peak / metrics["step_s"], row.scale(PERCENT))
    raise Unmapped(f"metric '{metric}' is no time or rate of a step")


def peak_of(row: Row) -> float:
    """FLOP/s of bf16 products to which an MFU refers. @throws Unmapped for GPUs without a datasheet's figure here"""
    family = systems.gpu_of(row).family
    if family not in MFU_FLOPS:
        raise Unmapped(f"MFU of {family}: to which rate is not known")
    return MFU_FLOPS[family]


def flops(step: Step) -> float:
    """FLOPs of a step, as the source of the row counts them."""
    if re.search("SC21", step.row["source"]):
        return training_flops.gpt(step.shape, step.seq, step.global_batch, recomputed=True)
    if re.search("Megatron-LM", step.row["source"]):
        return training_flops.gpt(step.shape, step.seq, step.global_batch, recomputed=False)
    return training_flops.llama(step.shape, step.seq, step.global_batch)


def point_name(row: Row, experiment: Experiment) -> str:
    """The name of the run for such rows."""
    workload, gpu = experiment.scenario["workload"], experiment.scenario["machine"]["groups"]["node"]["gpu"]
    model = row["model"] or " ".join(row["config"].split()[:2])
    if workload["kind"] == "layer":
        return "-".join(["layer", model, gpu, workload["recompute"]])
    gpus = workload["tp"] * workload["pp"] * workload["dp"] * workload.get("cp", 1)
    words = [workload["software"], model, workload["precision"].get("gemm", experiment.scenario["model"]["dtype"]), f"{gpus}x{gpu}", workload.get("schedule", ""), f"s{workload['seq_tokens']}"]
    words += [f"{name}{workload[key]}" for name, key in SHORT.items() if key in workload]
    return "-".join(filter(None, words))
