"""Orderings of class `training`: does the model say which of two mappings is faster?

A pair is two rows of one table, metric and unit whose scenarios differ only in how the step is mapped: same model, machine, software, GPUs
and batch. Pairs whose measured values differ by at most 5 % are left out, because steps of one configuration vary by as much.
"""

import itertools
import json
import math
import pathlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .comparison import Outcome

# Keys of a workload that say how a step is mapped
MAPPING = ("tp", "pp", "dp", "cp", "ep", "virtual_stages", "schedule", "micro_batch", "zero_stage", "hsdp", "recompute", "sequence_parallel",
           "tp_overlap", "stage_layers", "memory_limit_stages", "grad_norm", "pp_overlap", "placement")
CLEAR_RATIO = 1.05
TARGET = 0.9
SHOWN = 3  # wrong pairs


@dataclass(frozen=True)
class Pair:
    low: Outcome  # the smaller measured value
    high: Outcome

    @property
    def right(self) -> bool:
        return self.low.predicted < self.high.predicted

    @property
    def measured_ratio(self) -> float:
        return self.high.measured / self.low.measured

    @property
    def predicted_ratio(self) -> float:
        return self.high.predicted / self.low.predicted

    @property
    def text(self) -> str:
        return f"{self.low.row['id']} and {self.high.row['id']}: measured x {self.measured_ratio:.2f}, predicted x {self.predicted_ratio:.2f}"


def _alike(one: Outcome) -> tuple:
    """What two rows of a pair have in common."""
    workload = one.experiment.scenario["workload"]
    gpus = math.prod(workload.get(key, 1) for key in ("tp", "pp", "dp", "cp"))
    rest = one.experiment.scenario | {"workload": {key: value for key, value in workload.items() if key not in MAPPING}}
    files = {name: re.sub(r'"vocab_size": \d+', "", text) for name, text in one.experiment.files.items()}  # tp decides how it is padded
    return one.row.file, one.row["source"], one.row["metric"], one.row["unit"], gpus, json.dumps([rest, files], sort_keys=True)


def pairs(outcomes: Iterable[Outcome]) -> list[Pair]:
    groups: dict[tuple, list[Outcome]] = {}
    for one in outcomes:
        if not one.skipped and one.experiment.scenario["workload"]["kind"] == "training":
            groups.setdefault(_alike(one), []).append(one)
    found = []
    for group in groups.values():
        for two in itertools.combinations(group, 2):
            low, high = sorted(two, key=lambda one: one.measured)
            if high.measured > CLEAR_RATIO * low.measured and low.experiment.key != high.experiment.key:
                found.append(Pair(low, high))
    return found


def _source(pair: Pair) -> str:
    source = re.split(r'[("@:]', pair.low.row["source"])[0].strip()
    return f"{pathlib.Path(pair.low.row.file).name}, {source}"


def tables(found: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Pairs by table and source, and all of them at the end."""
    by_source: dict[str, list[Pair]] = {}
    for pair in found:
        by_source.setdefault(_source(pair), []).append(pair)
    return dict(sorted(by_source.items())) | {"all": list(found)}


def right_share(found: Sequence[Pair]) -> float:
    return sum(pair.right for pair in found) / len(found)


def lines(outcomes: Sequence[Outcome]) -> list[str]:
    """The table of the digest; nothing without pairs."""
    found = pairs(outcomes)
    if not found:
        return []
    made = ["### Which of two mappings is faster", "",
            f"Pairs of rows that differ only in mapping or schedule, and by more than {100 * (CLEAR_RATIO - 1):.0f} % as measured. "
            f"Target: {100 * TARGET:.0f} % in the right order.", "",
            "| table, source | pairs | in the right order |", "| --- | ---: | ---: |"]
    made += [f"| {name} | {len(some)} | {100 * right_share(some):.1f} % |" for name, some in tables(found).items()]
    wrong = sorted((pair for pair in found if not pair.right), key=lambda pair: -pair.measured_ratio)
    made += ["", f"The wrong pairs that differ most: {'; '.join(pair.text for pair in wrong[:SHOWN])}."] if wrong else []
    return [*made, ""]


def as_json(outcomes: Sequence[Outcome]) -> dict:
    found = pairs(outcomes)
    return {name: {"pairs": len(some), "right_share": right_share(some) if some else None} for name, some in tables(found).items()}
