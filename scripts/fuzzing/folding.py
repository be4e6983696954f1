"""Folded runs against the whole machine: random collectives and training steps on alike servers, or of replicas in one server, with
and without simulation.fold.

A folded run that says `exact: true` has the times of the whole machine. One that does not says in `bound` how it may differ.
"""

import csv
import json
import pathlib
import random
import re

from . import bases, cases, machines
from .cases import Failure

# Of a time. Trains: rounding. Fluid links count the acks of a message alone on its links as none, and of two in both directions as a
# load on each, also where the part has one message for both.
EXACT = {"train": 1e-3, "fluid": 1e-2}
PLATFORMS = ("dgx_h100", "dgx_h100", "dgx_a100", "dgx_b200", "hgx_a100_4gpu", "plx_box")
SWITCHED = ("dgx_h100", "dgx_a100", "dgx_b200", "gb200_nvl72")  # NVSwitches join the GPUs of a server
ALGORITHMS = {"all_reduce": ("auto", "ring", "tree", "nvls_tree", "hierarchical", "two_shot", "one_shot"),
              "all_gather": ("auto", "ring"), "reduce_scatter": ("auto", "ring"), "all_to_all": ("auto", "direct", "pxn")}
OTHER_LIBRARY = {"hierarchical": "trtllm-1.0", "two_shot": "trtllm-1.0", "one_shot": "trtllm-1.0"}


def scenario(rng: random.Random) -> tuple[str, dict, dict[str, object]]:
    """@return platform, scenario, and the files that the scenario names"""
    if rng.random() < 0.2:
        return in_one_server(rng)
    platform = rng.choice(PLATFORMS)
    gpus = machines.MESH_GPUS if platform.startswith("hgx") else machines.USUAL_GPUS
    servers = rng.choice((2, 3, 4, 4, 8))
    machine: dict = {"groups": {"node": {"servers": servers, "gpu": rng.choice(machines.GPUS[platform])}}}
    machine["network"] = rng.choice(({"kind": "single_switch"}, {"kind": "single_switch"}, {"kind": "leaf_spine"}))
    if platform != "plx_box" and rng.random() < 0.4:
        machine["nic"] = {"per_server": rng.choice([n for n in (1, 2, 4, 8) if n <= gpus])}
    machine["overrides"] = {"ib_switch": {"ports": rng.choice((16, 32))} if machine["network"]["kind"] == "leaf_spine" else {"ports": 128}}
    if rng.random() < 0.4:
        machine["overrides"]["ib_cable"] = {"latency_ns": rng.choice((100, 500))}
    made: dict = {"schema_version": 1, "platform": platform, "seed": 1, "machine": machine}
    if rng.random() < 0.6:
        made["fabric"] = {"fidelity": "fluid"}
    files: dict[str, object] = {}
    if rng.random() < 0.6:
        made["workload"] = collective(rng, gpus)
    else:
        made["workload"] = training(rng, gpus, servers)
        files["models/tiny.json"] = bases.MODEL | {"num_hidden_layers": 4}
        made["model"] = {"config": "models/tiny.json"}
    if rng.random() < 0.15:
        server = rng.randrange(servers)
        made["events"] = [{"at_us": 0, "link": f"node{server}.nic0.network", "rate_ratio": rng.choice((0.25, 0.5))}]
    return platform, made, files


def in_one_server(rng: random.Random) -> tuple[str, dict, dict[str, object]]:
    """Replicas that share the only server, or eight GPUs of a rack."""
    platform = rng.choice(SWITCHED)
    workload = training(rng, machines.USUAL_GPUS, 1)
    workload["dp"] = machines.USUAL_GPUS // (workload["tp"] * workload["pp"])
    made = {"schema_version": 1, "platform": platform, "seed": 1, "workload": workload, "model": {"config": "models/tiny.json"},
            "machine": {"groups": {"node": {"servers": 1, "gpu": rng.choice(machines.GPUS[platform])}}}}
    if rng.random() < 0.6:
        made["fabric"] = {"fidelity": "fluid"}
    return platform, made, {"models/tiny.json": bases.MODEL | {"num_hidden_layers": 4}}


def collective(rng: random.Random, gpus: int) -> dict:
    made = {"kind": "collective", "op": rng.choice(machines.OPERATIONS), "in_graph": True,
            "sizes_bytes": [rng.choice((1024, 65536, 300000, 1 << 20, 3 << 20))]}
    made["ranks_per_server"] = rng.choice([n for n in (1, 2, 4, 8) if n <= gpus])
    made["algorithm"] = rng.choice(ALGORITHMS.get(made["op"], ("auto",)))
    if made["algorithm"] in OTHER_LIBRARY:
        made["library"] = OTHER_LIBRARY[made["algorithm"]]
    if rng.random() < 0.3:
        made["iterations"] = rng.choice((2, 5))
    return made


def training(rng: random.Random, gpus: int, servers: int) -> dict:
    tp = rng.choice([n for n in (1, 2, 4, 8) if n <= gpus])
    pp = rng.choice([n for n in (1, 2, 4) if gpus * servers % (tp * n) == 0])
    made: dict = {"kind": "training", "seq_tokens": 512, "tp": tp, "pp": pp, "micro_batch": 1,
                  "global_batch": gpus * servers // (tp * pp) * rng.choice((pp, 2 * pp))}
    if tp > 1:
        made["sequence_parallel"] = rng.random() < 0.5
    if pp > 1:
        made["schedule"] = rng.choice(("1f1b", "gpipe", "zb_h1"))
    made["zero_stage"] = rng.choice((0, 1, 2))
    if rng.random() < 0.5:
        made["grad_norm"] = "none"
    if rng.random() < 0.3:
        made["dp_overlap"] = rng.random() < 0.5
    return made


def times(folder: pathlib.Path, kind: str) -> list[float]:
    if kind == "training":
        return [json.loads((folder / "summary.json").read_text())["metrics"]["step_s"]]
    with (folder / "collectives.csv").open(newline="") as file:
        return [float(row["time_us"]) for row in csv.DictReader(file)]


def bounds(text: str) -> tuple[float, float]:
    """Of a time over that of the whole machine."""
    shorter, longer = (re.search(rf"(?:at most ([\d.e+]+) %|not) {way}\b", text) for way in ("shorter", "longer"))
    return 1 - float(shorter[1] or 0) / 100, 1 + float(longer[1] or 0) / 100


class Compared:
    """The two runs of a scenario, and how they differ."""

    def __init__(self, folder: pathlib.Path, executable: pathlib.Path, kind: str, patience_s: float, limit_memory: bool) -> None:
        self.folder, self.kind, self.patience_s, self.limit_memory = folder, kind, patience_s, limit_memory
        self.command = [str(executable), "s.yaml", "--quiet", "--jobs", "none"]
        self.commands: list[list[str]] = []

    def run(self, fold: str) -> cases.Done:
        command = [*self.command, "--out", fold, "--set", f"simulation.fold={fold}"]
        self.commands.append(command)
        return cases.run(command, self.folder, self.patience_s, self.limit_memory)

    def attempt(self) -> tuple[str, Failure | None]:
        runs = {fold: self.run(fold) for fold in ("require", "off")}
        if any(done.cut_short for done in runs.values()):
            return "too long", None
        for fold, done in runs.items():
            if done.status not in (0, 2):
                said = done.stderr.decode("utf-8", "backslashreplace")
                return f"{fold}: status {done.status}", Failure(f"{fold}: status {done.status}: {cases.signature(said)}", said)
        if runs["require"].status == 2:
            return "not folded", None
        summary = json.loads((self.folder / "require" / "summary.json").read_text())
        told, exact = summary["simulation"], EXACT[summary["fidelity"]]
        whole, part = times(self.folder / "off", self.kind), times(self.folder / "require", self.kind)
        ratio = max((b / a for a, b in zip(whole, part, strict=True)), key=lambda r: abs(r - 1))
        how = "exact" if told["exact"] else "bounded"
        if told["exact"] and abs(ratio - 1) > exact:
            return how, Failure("exact, and not the time of the whole machine", f"folded over whole: {ratio:.9g}")
        if not told["exact"]:
            least, most = bounds(told["bound"])
            for one, other in zip(whole, part, strict=True):
                if not least - exact <= other / one <= most + exact:
                    return how, Failure("beyond its bound", f"folded over whole: {other / one:.9g}; {told['bound']}")
        return f"{how}, {'equal' if abs(ratio - 1) <= exact else 'longer' if ratio > 1 else 'shorter'}", None
