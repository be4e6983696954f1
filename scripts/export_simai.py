#!/usr/bin/python3
"""Writes a training scenario as a workload in the text format of SimAI and ASTRA-sim 1.

  scripts/export_simai.py scenarios/training/gpt_22b_8.yaml --out gpt_22b.txt

Each layer has four rows: the products before and after attention, and the two of the MLP, with the kernel times that the platform
executable gives for one layer (workload.kind: layer). The row `other_kernels` of a micro-batch has what the slowest stage's kernels take
beyond its layers: embedding, head and loss, and recomputation (--explain). Collectives follow from sequence parallelism, gradients and
weights of replicas from zero_stage. `ga`, `pp`, `vpp` and `pp_comm` are those of the schedule. stderr names what is left out. Context and
expert parallelism, gtp and zero_stage 3 are refused.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from lib import written
from lib.command_line import Parser, one_line

try:
    from lib import training_scenario
    from lib.yaml_source import InputError
except ImportError as missing:
    sys.exit(f"export_simai.py: error: {missing}; it needs the Debian package python3-yaml")

KIND = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
UPDATE_NS = 0
WEIGHT_BYTES, GRADIENT_BYTES = 2, 4  # gathered weights, reduced gradients of a parameter
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")
SECOND = {"attention": "o_proj", "mlp": "down"}  # the product after which the second row of a block begins
FORWARD, INPUTS, WEIGHTS = 1, 4, 7  # columns of compute times
REFUSED = {"cp": 1, "ep": 1, "gtp": "none"}  # key: the only value that the format can say


class ExportError(Exception):
    """A scenario that the format cannot say."""


def read(path: pathlib.Path) -> dict:
    scenario = training_scenario.read(path)
    workload = scenario["workload"]
    for key, only in REFUSED.items():
        if workload.get(key, only) != only:
            raise ExportError(f"{path}: workload.{key}: the format has no {key}")
    if workload.get("zero_stage") == 3:
        raise ExportError(f"{path}: workload.zero_stage: 3: the format has no gathers of weights beside layers; accepted: 0 to 2")
    return scenario


def run(executable: pathlib.Path, *arguments: str) -> str:
    done = subprocess.run([str(executable), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ExportError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{executable}: exit status {done.returncode}")
    return done.stdout


def layer_times(executable: pathlib.Path, scenario: dict, model: dict) -> tuple[dict[str, float], int]:
    """Seconds of each step of a layer; bytes of a collective, or of what would be one."""
    workload = scenario["workload"]
    layer = {"kind": "layer", "phase": "training", "tp": workload.get("tp", 1), "batch": workload.get("micro_batch", 1),
             "tokens": workload["seq_tokens"], "sequence_parallel": workload.get("sequence_parallel", False)}
    one = {key: scenario[key] for key in ("schema_version", "platform", "machine") if key in scenario} | {"model": model, "workload": layer}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "layer.yaml"
        path.write_text(json.dumps(one), encoding="utf-8")
        out = pathlib.Path(folder) / "out"
        run(executable, str(path), "--out", str(out), "--quiet", "--set", "fabric.fidelity=fluid")
        metrics = json.loads((out / "summary.json").read_text(encoding="utf-8"))["metrics"]
    config = json.loads(pathlib.Path(model["config"]).read_text(encoding="utf-8"))
    hidden = next(config[key] for key in ("hidden_size", "n_embd", "d_model") if key in config)
    return metrics["time_s"], 2 * layer["batch"] * layer["tokens"] * hidden


def rows_of(times: dict[str, float], size: int, scenario: dict) -> list[tuple]:
    """The four rows of a layer."""
    workload = scenario["workload"]
    sums: dict[tuple[str, str, str], float] = {}
    for name, seconds in times.items():
        phase, block, step = name.split(".")
        if step in COLLECTIVES:
            continue
        work = "forward" if phase == "forward" else "weights" if step.endswith("_wgrad") else "inputs"
        behind = list(times).index(f"forward.{block}.{SECOND[block]}")
        is_second = list(times).index(name) >= behind if phase == "forward" else step.startswith(SECOND[block])
        key = (block, "row" if is_second else "column", work)
        sums[key] = sums.get(key, 0.0) + seconds
    none = ("NONE", 0)
    if workload.get("tp", 1) == 1:
        column, row = (none, none), (none, none)
    elif workload.get("sequence_parallel", False):
        column, row = (("ALLGATHER", size), ("REDUCESCATTER", size)), (("REDUCESCATTER", size), ("ALLGATHER", size))
    else:
        column, row = (none, ("ALLREDUCE", size)), (("ALLREDUCE", size), none)
    def nanoseconds(block: str, part: str, work: str) -> int:
        return round(1e9 * sums.get((block, part, work), 0.0))
    return [(f"{block}_{part}", nanoseconds(block, part, "forward"), *forward, nanoseconds(block, part, "inputs"), *inputs,
             nanoseconds(block, part, "weights"), *none)
            for block in ("attention", "mlp") for part, (forward, inputs) in (("column", column), ("row", row))]


def text_of(rows: list[tuple]) -> list[str]:
    return ["\t".join(map(str, (name, -1, *rest, UPDATE_NS))) for name, *rest in rows]


def workload_text(executable: pathlib.Path, path: pathlib.Path, scenario: dict) -> str:
    workload = scenario["workload"]
    model = dict(scenario["model"]) | {"config": str((path.resolve().parent / scenario["model"]["config"]))}
    explained = json.loads(run(executable, str(path), "--explain", "--json"))
    stages, ga = explained["stages"], explained["micro_batches"]
    times, size = layer_times(executable, scenario, model)
    if any(name.startswith(("forward.moe", "forward.experts")) for name in times):
        raise ExportError(f"{path}: model: the format's experts are not written")
    tp, pp, vpp = (workload.get(key, 1) for key in ("tp", "pp", "virtual_stages"))
    slowest = max(stages, key=lambda stage: stage["forward_kernels_s"] + stage["backward_kernels_s"])
    layers = slowest["layers"]
    parameters = max(stage["parameters_per_rank"] for stage in stages)
    none = ("NONE", 0)
    replicas: list[tuple] = []
    if workload.get("zero_stage", 1) == 0:
        replicas.append(("gradients", 0, *none, 0, *none, 0, "ALLREDUCE", GRADIENT_BYTES * parameters))
    else:
        replicas.append(("weights", 0, *none, 0, *none, 0, "ALLGATHER", WEIGHT_BYTES * parameters))
        replicas.append(("gradients", 0, *none, 0, *none, 0, "REDUCESCATTER", GRADIENT_BYTES * parameters))
    of_layer = rows_of(times, size, scenario)
    forward = 1e9 * slowest["forward_kernels_s"] - layers * sum(row[FORWARD] for row in of_layer)
    backward = 1e9 * slowest["backward_kernels_s"] - layers * sum(row[INPUTS] + row[WEIGHTS] for row in of_layer)
    others = ("other_kernels", max(0, round(forward)), *none, max(0, round(backward)), *none, 0, *none)
    rows = text_of(replicas) + text_of([others, *of_layer * layers]) * ga
    rows += text_of([("gradient_norm", 0, "ALLREDUCE", 4, 0, *none, 0, *none)])
    gpus = len(json.loads(run(executable, str(path), "--describe", "--json"))["ranks"])
    pp_comm = size // tp if workload.get("sequence_parallel", False) else size
    head = (f"{KIND} model_parallel_NPU_group: {tp} ep: 1 pp: {pp} vpp: {vpp} ga: {ga} all_gpus: {gpus} checkpoints: 0 "
            f"checkpoint_initiates: 0 pp_comm: {pp_comm if pp > 1 else 0}")
    left_out = ["collectives of embedding and head", "the optimizer"]
    if pp > 1 and workload.get("schedule", "1f1b") not in ("1f1b", "interleaved"):
        left_out.append(f"the schedule {workload['schedule']}")
    print(f"export_simai.py: left out: {', '.join(left_out)}", file=sys.stderr)
    return "\n".join([head, str(len(rows)), *rows]) + "\n"


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("scenario", type=pathlib.Path, metavar="SCENARIO", help="a scenario of workload.kind training")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE", help="file to write")
    parser.add_executables()
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    with one_line("export_simai.py", InputError, complete=True), one_line("export_simai.py", ExportError):
        scenario = read(options.scenario)
        executable = options.bin.resolve() / scenario["platform"]
        if not os.access(executable, os.X_OK):
            raise ExportError(f"{options.scenario}: no platform executable '{scenario['platform']}' in {options.bin}")
        text = workload_text(executable, options.scenario, scenario)
        written.text(options.out, text)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
