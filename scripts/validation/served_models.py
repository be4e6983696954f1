"""Models, number formats and engines of rows of served models, for all classes that run a model."""

import re

from . import systems
from .rows import Row, Unmapped

# Names in rows -> configurations under scenarios/models
MODELS = {r"llama-?2-?7b(-hf)?|llama 7b": "llama-2-7b", r"llama-?2-?70b|llama 70b": "llama-2-70b",
          r"llama-?3(\.1)?-?8b(-instruct)?": "llama-3.1-8b", r"llama-?3(\.[13])?-?70b(-instruct)?": "llama-3.1-70b",
          r"llama-?3\.1-?405b(-instruct)?": "llama-3.1-405b", r"mixtral-?8x7b": "mixtral-8x7b",
          r"mistral-nemo-instruct-2407": "mistral-nemo-12b", r"yi-34b": "yi-34b",
          r"qwen3-8b": "qwen3-8b", r"qwen3-32b(-nvfp4)?": "qwen3-32b", r"qwen2\.5-7b-instruct": "qwen2.5-7b",
          r"qwen2\.5-72b": "qwen2.5-72b"}


# What the only public checkpoint of a model in a precision has: its configuration, and the type of everything that it leaves wide.
# Qwen3-32B in fp8 is Qwen/Qwen3-32B-FP8: scales of 128 x 128 weights, scales of activations found as they are used; aiconfigurator, which
# measured it, takes block scales by default on Hopper, too (ai-dynamo/aiconfigurator @b642c1e2 sdk/task.py).
CHECKPOINTS = {("qwen3-32b", "fp8"): ("qwen3-32b-fp8", "bf16")}


def number(row: Row, column: str, otherwise: int | None = None) -> int:
    """@throws Unmapped if the column is empty or zero, and there is no other value"""
    value = row.integer(column)
    if not value and otherwise is None:
        raise Unmapped(f"has no {column}")
    return value or otherwise


def model_of(row: Row, dtypes: dict) -> dict:
    """The scenario's `config` and `dtype`. An organisation before the model's name does not count.

    @throws Unmapped if there is no configuration, or if `dtypes` lacks the row's precision
    """
    model = row["model"].rsplit("/", 1)[-1]
    name = next((name for pattern, name in MODELS.items() if re.fullmatch(pattern, model, re.IGNORECASE)), None)
    if name is None:
        raise Unmapped(f"no configuration of model '{row['model']}'")
    config, dtype = CHECKPOINTS.get((name, row["precision"])) or (name, dtype_of(row, dtypes))
    return {"config": str(systems.ROOT / "scenarios" / "models" / f"{config}.json"), "dtype": dtype}


def dtype_of(row: Row, dtypes: dict) -> str:
    """@throws Unmapped if `dtypes` lacks the row's precision"""
    if row["precision"] not in dtypes:
        raise Unmapped(f"precision '{row['precision']}' is none of {', '.join(dtypes)}")
    return dtypes[row["precision"]]
