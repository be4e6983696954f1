"""Targets of class `training`: the largest error that the model should have, over groups of rows.

Each target is for the median, the 90th percentile or the mean of |error|. Sources of the figures that it is compared with: Calculon's mean on
eight steps of Korthikanti's tables; vTrain's own mean errors, with profiled kernels, on the rows of its table.
"""

import pathlib
from collections.abc import Sequence

from . import orderings, targets
from .comparison import Outcome
from .targets import Target

SERVER_GPUS = 8


def _table(one: Outcome) -> str:
    return pathlib.Path(one.row.file).name


def _operation(one: Outcome, *words: str) -> bool:
    return all(word in one.experiment.operation for word in words)


def _nvidia(one: Outcome) -> bool:
    return "H100" in one.row["system"] and (_operation(one, "NeMo") or _operation(one, "MLPerf"))


def _overlap(one: Outcome) -> bool:
    return _operation(one, "TP overlap")


def _several(one: Outcome) -> bool:
    return (one.row.integer("n_gpus") or 0) > SERVER_GPUS


TARGETS = (
    Target("training.csv", lambda one: _table(one) == "training.csv", {"median": 0.08, "90th percentile": 0.20}),
    Target("Megatron-LM on A100 (Korthikanti, tables 4 and 5)", lambda one: "Korthikanti" in one.row["source"], {"mean": 0.0365}),
    Target("vTrain, one server", lambda one: _table(one) == "training_vtrain.csv" and not _several(one), {"mean": 0.084}),
    Target("vTrain, several servers", lambda one: _table(one) == "training_vtrain.csv" and _several(one), {"mean": 0.147}),
    Target("NVIDIA's recipes on H100, bf16, without TP overlap", lambda one: _nvidia(one) and _operation(one, "bf16") and not _overlap(one),
           {"mean": 0.06}),
    Target("NVIDIA's recipes on H100, bf16, with TP overlap", lambda one: _nvidia(one) and _operation(one, "bf16") and _overlap(one), {}),
    Target("NVIDIA's recipes on H100, fp8, without TP overlap", lambda one: _nvidia(one) and _operation(one, "fp8") and not _overlap(one), {}),
    Target("NVIDIA's recipes on H100, fp8, with TP overlap", lambda one: _nvidia(one) and _operation(one, "fp8") and _overlap(one), {}),
    Target("llm-foundry on A100", lambda one: _operation(one, "MPT") and "a100" in one.row["system"], {}),
    Target("llm-foundry on H100", lambda one: _operation(one, "MPT") and "h100" in one.row["system"], {}),
    Target("zero-bubble schedules, samples/s", lambda one: _operation(one, "zero bubble") and one.row["metric"] != "bubble_rate", {"mean": 0.10}),
    Target("zero-bubble schedules, 1 - bubble rate", lambda one: one.row["metric"] == "bubble_rate", {"90th percentile": 0.03}),
)


def lines(outcomes: Sequence[Outcome]) -> list[str]:
    """The tables of the targets and of the orderings, for the digest."""
    return targets.lines(TARGETS, outcomes) + orderings.lines(outcomes)
