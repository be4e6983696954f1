"""Models, number formats and engines of rows of served models, for all classes that run a model."""

import functools
import json
import pathlib
import re

from . import model_configs
from .rows import Row, Unmapped

# What the only public checkpoint of a model in a precision has: its configuration, and the type of everything that it leaves wide.
# Qwen3-32B in fp8 is Qwen/Qwen3-32B-FP8: scales of 128 x 128 weights, scales of activations found as they are used; aiconfigurator, which
# measured it, takes block scales by default on Hopper, too (ai-dynamo/aiconfigurator @b642c1e2 sdk/task.py).
CHECKPOINTS = {("qwen3-32b", "fp8"): ("qwen3-32b-fp8", "bf16")}
# Precisions in rows -> `quant_method` of a configuration that says itself what it has in few bits: the scenario's type is that of the rest
QUANTISED = {"fp8": "fp8", "mxfp4": "mxfp4", "fp4": "mxfp4"}
# In the sources of aiconfigurator's table: the words themselves, or the files that it took from InferenceX
INFERENCEX = r"InferenceX|\[db-dump|source_file=20\d\d-"


def number(row: Row, column: str, otherwise: int | None = None) -> int:
    """@throws Unmapped if the column is empty or zero, and there is no other value"""
    value = row.mean(column)
    if not value and otherwise is None:
        raise Unmapped(f"has no {column}")
    return value or otherwise


def check_parallel(row: Row) -> None:
    """@throws Unmapped for parallelism of engines that is not modelled"""
    columns = (("attn_dp", "data-parallel attention"), ("moe_ep", "expert parallelism of an engine"), ("prefill_ep", "expert parallelism of an engine"),
               ("decode_ep", "expert parallelism of an engine"))
    for column, what in columns:
        if (row.integer(column) or 1) > 1:
            raise Unmapped(f"{what} is not modelled")


def with_its_ranks(row: Row) -> Row:
    """Rows of InferenceX in aiconfigurator's table: attention has the printed number of ranks instead of its product with that of experts.

    InferenceX prints tp, ep, and whether attention is data-parallel (.github/configs/CONFIGS.md @10590a2e). The columns have tp as moe_tp,
    ep as moe_ep, and tp x ep ranks of attention. The table has some of these measurements twice: with attn_dp 2, moe_tp 1 and moe_ep 2, and
    as attn_dp 4, moe_tp 2 and moe_ep 2.
    """
    tp, ep = row.integer("moe_tp") or 1, row.integer("moe_ep") or 1
    ranks = (row.integer("tp") or 1) * (row.integer("attn_dp") or 1)
    if not re.search(INFERENCEX, row["source"]) or tp == 1 or tp != ep or ranks != tp * ep:
        return row
    attention = {"attn_dp": str(tp)} if (row.integer("attn_dp") or 1) > 1 else {"tp": str(tp)}
    return Row(row.file, row.line, row.columns | attention | {"moe_tp": "1"}, row.value)


def instance_of(row: Row) -> dict:
    """The keys of an instance beside tp and pp: attention replicas, and experts dealt whole to their ranks.

    @throws Unmapped for parallelism of engines that is not modelled
    """
    tp, dp = row.integer("tp") or 1, row.integer("attn_dp") or 1
    moe_tp, ep = row.integer("moe_tp") or 1, row.integer("moe_ep") or 1
    if ep > 1 and moe_tp > 1:
        raise Unmapped("experts that are dealt to ranks and cut among others are not modelled")
    if dp > 1 and ep == 1:
        raise Unmapped("data-parallel attention with experts that are cut is not modelled")
    if ep > 1 and ep != tp * dp:
        raise Unmapped("experts dealt to some of the ranks are not modelled")
    return ({"dp": dp} if dp > 1 else {}) | ({"ep": ep} if ep > 1 else {})


def model_of(row: Row, dtypes: dict) -> dict:
    """The scenario's `config` and `dtype`.

    @throws Unmapped if there is no configuration, or if `dtypes` lacks the row's precision
    """
    config = model_configs.find(row)
    checkpoint = CHECKPOINTS.get((config.stem, row["precision"]))
    if checkpoint:
        return {"config": str(config.with_stem(checkpoint[0])), "dtype": checkpoint[1]}
    if row["precision"] in QUANTISED and _quantised(config) == QUANTISED[row["precision"]]:
        return {"config": str(config), "dtype": "bf16"}
    if _quantised(config):
        raise Unmapped(f"no configuration of model '{row['model']}' in precision '{row['precision']}'")
    return {"config": str(config), "dtype": dtype_of(row, dtypes)}


def has_latent_attention(config: str) -> bool:
    return bool(_values(pathlib.Path(config)).get("kv_lora_rank"))


def _quantised(config: pathlib.Path) -> str:
    """The number format that a configuration names; empty: none."""
    section = _values(config).get("quantization_config")
    return str(section.get("quant_method", "")) if isinstance(section, dict) else ""


@functools.cache
def _values(config: pathlib.Path) -> dict:
    """Of a configuration; empty if it is none: the executable reports what is wrong with it."""
    try:
        values = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def dtype_of(row: Row, dtypes: dict) -> str:
    """@throws Unmapped if `dtypes` lacks the row's precision"""
    if row["precision"] not in dtypes:
        raise Unmapped(f"precision '{row['precision']}' is none of {', '.join(dtypes)}")
    return dtypes[row["precision"]]
