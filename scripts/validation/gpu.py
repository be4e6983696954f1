"""Class `gpu`: kernels of one GPU, decode steps layer after layer, and kernels that overlap with collectives."""

from . import attention_rows, decode_rows, gemm_rows, memory_rows, overlap_rows, set_aside
from .experiment import Experiment
from .rows import Row, Unmapped

TITLE = "GPU: matrix products, attention, memory-bound kernels and launches, decode steps, overlap"
TABLES = ("gemm.csv", "grouped_gemm.csv", "attention.csv", "memory_and_launch.csv", "gpt_fast.csv", "overlap.csv", "measured.csv")
COMPUTE = "3-compute"
INFERENCE = "5-inference"
OVERLAP = "6-overlap-pipeline"
check = set_aside.check


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["category"] == INFERENCE:
        return decode_rows.map_row(row)
    if row["category"] == OVERLAP:
        return overlap_rows.map_row(row)
    if row["category"] != COMPUTE:
        raise Unmapped(f"belongs to another class: category '{row['category']}'")
    if row["M"]:
        return gemm_rows.map_row(row)
    if row["phase"]:
        return attention_rows.map_row(row)
    if row["kind"]:
        return memory_rows.map_row(row)
    raise Unmapped("says neither M, N and K, nor a phase of attention, nor a kind of kernel")


def point_name(row: Row, experiment: Experiment) -> str:
    """The name of the run for such rows."""
    gpu, workload = experiment.scenario["machine"]["groups"]["node"]["gpu"], experiment.scenario["workload"]
    if workload["kind"] == "kernel":
        return f"kernels-{gpu}"
    if workload["kind"] == "collective":
        return f"{workload['op']}-{gpu}"
    if workload["kind"] == "overlap":
        return f"{workload['op']}-{gpu}"
    return f"layer-{row['model']}-{row['precision']}-{gpu}-tp{workload['tp']}"
