"""Class `fabric`: collectives and point-to-point transfers."""

from . import collectives, expert_parallel, point_to_point, set_aside
from .experiment import Experiment
from .fabric_targets import lines as targets  # noqa: F401  of the digest
from .rows import Row, Unmapped

TITLE = "Fabric: collectives and point-to-point transfers"
TABLES = ("nccl.csv", "custom_all_reduce.csv", "published_collectives.csv", "vidur_collectives.csv", "expert_parallel.csv", "point_to_point.csv")
COLLECTIVES = "1-collectives"
POINT_TO_POINT = set_aside.POINT_TO_POINT
check = set_aside.check


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["category"] == COLLECTIVES:
        if row["ep_ranks"]:
            return expert_parallel.map_row(row)
        return collectives.map_row(row)
    if row["category"] == POINT_TO_POINT:
        return point_to_point.map_row(row)
    raise Unmapped(f"belongs to another class: category '{row['category']}'")


def point_name(row: Row, experiment: Experiment) -> str:
    """The name of the run for such rows."""
    workload = experiment.scenario["workload"]
    group = experiment.scenario["machine"]["groups"]["node"]
    ranks = row["n_gpus"] or row["ep_ranks"]
    words = [experiment.platform, group.get("gpu", ""), f"{ranks}x" if ranks else ""]
    words += [str(workload[key]) for key in ("op", "test", "library", "algorithm", "engine") if workload.get(key, "auto") != "auto"]
    words += ["graph"] if workload.get("in_graph") else []
    words += ["bounced"] if experiment.scenario["machine"].get("overrides") else []
    fabric = experiment.scenario.get("fabric", {})
    words += [f"{fabric['transaction_bytes'] >> 10}KiB"] if "transaction_bytes" in fabric else []
    words += [fabric["fidelity"]] if "fidelity" in fabric else []
    return "-".join(filter(None, words))
