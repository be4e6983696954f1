"""Rows of one layer's forward and backward time as scenarios of `workload.kind: layer`.

Rules, by column:
  model, mbs, tp, seq   the layer and its tokens. Megatron-LM of 2022: fp16, unfused attention, dropout, sums of input gradients beside the
                        products for weight gradients, gathered inputs not kept (core/tensor_parallel/layers.py)
  extra                 sequence parallel; full or selective recompute
  metric                layer_fwd, layer_bwd, with what the backward pass runs again, and their sum
"""

import re

from .experiment import Experiment, table_of
from .rows import SECONDS, Row, Unmapped
from .served_models import number
from .training_models import shape_of
from .training_stacks import recompute_printed
from .training_steps import machine_of

PARTS = {"layer_fwd": ("forward",), "layer_bwd": ("backward", "recompute"), "layer_fwd+bwd": ("forward", "backward", "recompute")}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["metric"] not in PARTS:
        raise Unmapped(f"metric '{row['metric']}' is none of {', '.join(PARTS)}")
    tp, seq = number(row, "tp"), number(row, "seq")
    platform, machine = machine_of(row, tp)
    model, files = shape_of(row, seq, tp).section("fp16")
    workload = {"kind": "layer", "phase": "training", "tp": tp, "batch": number(row, "mbs"), "tokens": seq, "attention": "unfused", "dropout": True,
                "recompute": recompute_printed(row), "residual_norm_fused": False, "reduce_beside_wgrad": True}
    workload |= {"sequence_parallel": True, "keep_gathered": False} if re.search("sequence parallel", row["extra"]) else {}
    scenario = {"model": model, "machine": machine, "workload": workload}
    return Experiment(row["metric"].replace("_", " "), platform, scenario, None, lambda result: part_s(table_of(result, "layer.csv"), row["metric"]),
                      row.scale(SECONDS), tp, size_class=row["extra"], files=files)


def part_s(lines: list[dict], metric: str) -> float:
    """Seconds from the first to the last step of each part that belongs to the metric."""
    total = 0.0
    for part in PARTS[metric]:
        if steps := [line for line in lines if line["name"].split(".")[0] == part]:
            total += max(float(line["end_s"]) for line in steps) - min(float(line["start_s"]) for line in steps)
    return total
