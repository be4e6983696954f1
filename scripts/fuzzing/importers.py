"""Mutated files of Calculon and SimAI for the scripts that import them. The scripts run in this process, a few hundred cases a second.
They must write a scenario, or end with status 2, a one-line error, and no file."""

import json
import pathlib
import random

from . import mutate, outputs
from .cases import Failure

APP = {"hidden": 2048, "feedforward": 8192, "seq_size": 1024, "attn_heads": 16, "attn_size": 128, "num_blocks": 8}
EXE = {"num_procs": 16, "tensor_par": 4, "pipeline_par": 2, "data_par": 2, "tensor_par_net": 0, "pipeline_par_net": 1, "data_par_net": 1,
       "batch_size": 8, "microbatch_size": 1, "datatype": "float16", "fused_activation": False, "attention_type": "multihead",
       "activation_recompute": "attn_only", "pipeline_interleaving": 2, "optimizer_sharding": True, "tensor_par_comm_type": "rs_ag",
       "tensor_par_overlap": "none", "seq_par_ag_redo": True, "data_par_overlap": True, "weight_offload": False,
       "activations_offload": False, "optimizer_offload": False, "training": True}
SYSTEM = {"matrix": {"float16": {"tflops": 312, "gflops_efficiency": [[128, 0.95], [16, 0.9], [0, 0.1]]}},
          "mem1": {"GiB": 80, "GBps": 2039, "MB_efficiency": [[1, 0.6], [100, 0.9]]},
          "networks": [{"bandwidth": 300, "size": 8, "efficiency": 0.65}, {"bandwidth": 25, "size": 65536, "efficiency": 0.9}]}


def topology(servers: int, spines: int, gpu: str) -> str:
    """As SimAI's generator writes it: GPUs, an NVSwitch for each server, a leaf for each rail, spines."""
    gpus, leaves = 8 * servers, 8
    first = gpus + servers
    links = []
    for g in range(gpus):
        links += [f"{g} {gpus + g // 8} 2880Gbps 0.000025ms 0", f"{g} {first + g % 8} 400Gbps 0.0005ms 0"]
    links += [f"{first + leaf} {first + leaves + spine} 400Gbps 0.0005ms 0" for leaf in range(leaves) for spine in range(spines)]
    switches = servers + leaves + spines
    head = f"{gpus + switches} 8 {servers} {leaves + spines} {len(links)} {gpu}"
    return "\n".join([head, " ".join(str(gpus + s) for s in range(switches)), *links]) + "\n"


TOPOLOGIES = tuple(topology(servers, spines, gpu).encode() for servers, spines, gpu in ((1, 0, "A100"), (2, 1, "H100"), (2, 2, "H20")))


def words(rng: random.Random, content: bytes) -> bytes:
    """Replaces words of lines: numbers by other numbers, links by other links."""
    lines = content.decode().split("\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        line = rng.choice((0, 1, rng.randrange(len(lines))))
        found = lines[line].split(" ")
        place = rng.randrange(len(found))
        found[place] = rng.choice(("0", "1", "7", "17", "99", "-1", "1e9", "", "9" * 12, "400Gbps", "0Gbps", "1Tbps", "H800", "B200", "\u0663",
                                   rng.choice(rng.choice(lines).split(" "))))
        lines[line] = " ".join(found)
        if rng.random() < 0.2:
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
        if rng.random() < 0.2:
            del lines[rng.randrange(len(lines))]
            lines = lines or [""]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def mutated(rng: random.Random, value: object) -> bytes:
    """A mapping of Calculon, damaged by key or as text."""
    if rng.random() < 0.3:
        return mutate.text(rng, json.dumps(value).encode())
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = mutate.tree(rng, value)
    return mutate.dumped(rng, value)


def calculon(rng: random.Random, folder: pathlib.Path) -> list[str]:
    files = {"app": APP, "exe": EXE, "system": SYSTEM}
    damaged = rng.choice(sorted(files))
    for name, value in files.items():
        (folder / name).write_bytes(mutated(rng, value) if name == damaged else json.dumps(value).encode())
    if rng.random() < 0.05:
        mutate.whole_file(rng, folder / damaged)
    given = ["app", "exe"] + (["system"] if damaged == "system" or rng.random() < 0.5 else [])
    as_is = ["--as-is"] if "system" in given and rng.random() < 0.5 else []
    return [*(str(folder / name) for name in given), *as_is, "--out", str(folder / "s.yaml")]


def simai(rng: random.Random, folder: pathlib.Path) -> list[str]:
    content = rng.choice(TOPOLOGIES)
    (folder / "topology").write_bytes(words(rng, content) if rng.random() < 0.7 else mutate.text(rng, content))
    if rng.random() < 0.05:
        mutate.whole_file(rng, folder / "topology")
    return [str(folder / "topology"), "w.txt", "--out", str(folder / "s.yaml")]


def attempt(rng: random.Random, folder: pathlib.Path) -> tuple[str, list[list[str]], Failure | None]:
    """Runs one case. @return its outcome, its command, and its fault"""
    name, make = rng.choice((("import_calculon", calculon), ("import_simai", simai)))
    how, command, failure = outputs.called(name, make(rng, folder))
    written = sorted(path.name for path in folder.glob("s*"))
    if failure is None and how == "status 0" and "s.yaml" not in written:
        failure = Failure(f"{name}.py: no scenario", "")
    if failure is None and how != "status 0" and {"s.yaml", "s.model.json"} & set(written):
        failure = Failure(f"{name}.py: {how}, and a file", str(written))
    return f"{name} {how}", command, failure
