"""Targets of class `fabric`, and NCCL's all-reduce beside ASTRA-sim.

ASTRA-sim publishes the geometric mean of its errors for NCCL's all-reduce on 2, 4 and 8 GPUs of one server. Here the same mean is over all
rows of NCCL's all-reduce inside a server, of every GPU and size.
"""

import math
from collections.abc import Sequence

from . import targets
from .comparison import Outcome
from .targets import Target

ASTRA_SIM = {2: 0.206, 4: 0.120, 8: 0.097}
LEAST_ERROR = 1e-4  # of a row in a geometric mean: rows print three or four digits


def _workload(one: Outcome) -> dict:
    return one.experiment.scenario["workload"]


def _collective(one: Outcome) -> bool:
    return _workload(one)["kind"] == "collective"


def _servers(one: Outcome) -> int:
    return one.experiment.scenario["machine"]["groups"]["node"]["servers"]


def _own_kernel(one: Outcome) -> bool:
    return one.chosen.split(" ")[0] in ("one_shot", "two_shot")


def _nccl_inside(one: Outcome) -> bool:
    return _collective(one) and _servers(one) == 1 and not _own_kernel(one)


TARGETS = (
    Target("collectives", _collective, {"median": 0.065, "90th percentile": 0.25}),
    Target("collectives, NCCL inside a server", _nccl_inside, {"median": 0.04}),
    Target("collectives, kernels of serving engines", lambda one: _collective(one) and _own_kernel(one), {"median": 0.09}),
    Target("collectives, several servers", lambda one: _collective(one) and _servers(one) > 1, {"median": 0.12}),
    Target("point-to-point", lambda one: _workload(one)["kind"] == "p2p", {"median": 0.05}),
)


def geometric_mean(errors: Sequence[float]) -> float:
    return math.exp(sum(math.log(max(abs(error), LEAST_ERROR)) for error in errors) / len(errors))


def _beside_astra_sim(outcomes: Sequence[Outcome]) -> list[str]:
    made = ["### NCCL's all-reduce beside ASTRA-sim", "", "Geometric mean of |error| over all rows of NCCL's all-reduce inside a server. The "
            "constants of six GPUs are fitted to such rows.", "",
            "| GPUs | rows | this model | ASTRA-sim |", "| ---: | ---: | ---: | ---: |"]
    for gpus, theirs in ASTRA_SIM.items():
        errors = [one.error for one in outcomes if not one.skipped and _nccl_inside(one) and _workload(one)["op"] == "all_reduce"
                  and _workload(one)["library"] == "nccl" and one.row.integer("n_gpus") == gpus]
        if errors:
            made.append(f"| {gpus} | {len(errors)} | {100 * geometric_mean(errors):.1f} % | {100 * theirs:.1f} % |")
    return made + [""]


def lines(outcomes: Sequence[Outcome]) -> list[str]:
    return targets.lines(TARGETS, outcomes) + _beside_astra_sim(outcomes)
