"""Class `serving`: serving engines with real traffic. A row's table is known by its columns."""

import pathlib
import types

from . import batch_rows, closed_loop_rows, load_rows, published_rows, trace_rows
from .experiment import Experiment
from .rows import Row, Unmapped
from .serving_targets import lines as targets

TITLE = "Requests on serving engines"
TABLES = ("serving_load.csv", "serving_closed_loop.csv", "serving_batches.csv", "serving_published.csv", "serving_fleet.csv")


def map_row(row: Row, clone: pathlib.Path | None = None) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["category"] != "5-inference":
        raise Unmapped(f"belongs to another class: category '{row['category']}'")
    if row["users_per_group"]:
        return load_rows.map_row(row)
    if row["backend"]:
        return closed_loop_rows.map_row(row)
    if row["n_repeats"]:
        return batch_rows.map_row(row)
    if row["source"].startswith(trace_rows.SOURCE):
        return trace_rows.map_row(row, clone)
    return published_rows.map_row(row)


def point_name(row: Row, experiment: Experiment) -> str:
    """The name of the run for such rows."""
    workload = experiment.scenario["workload"]
    requests, instance = workload["requests"], workload["instances"][0]
    roles = [f"{one.get('count', 1)}{one['role']}" for one in workload["instances"] if "role" in one]
    words = [row["model"].rsplit("/", 1)[-1], row["precision"], row["system"], workload["engine"], *roles, f"tp{instance['tp']}",
             f"pp{instance.get('pp', 1)}"]
    prompt = requests.get("prompt_tokens")
    if prompt:
        printed = "-".join(map(str, prompt["uniform"].values())) if isinstance(prompt, dict) else prompt
        words += [f"{printed}x{row['osl'] or row['output_len'] or row['output_tokens']}"]
    words += [f"c{requests['concurrency']}"] if "concurrency" in requests else []
    words += ["rate" + "+".join(str(stage["rate_per_s"]) for stage in requests["stages"])] if "stages" in requests else []
    return "-".join(words).replace(" ", "_")


def with_clone(clone: pathlib.Path) -> types.SimpleNamespace:
    """The class, with traces and profiles from a clone of casys-kaist/LLMServingSim."""
    return types.SimpleNamespace(TITLE=TITLE, TABLES=TABLES, targets=targets, map_row=lambda row: map_row(row, clone), point_name=point_name)
