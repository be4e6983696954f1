#!/usr/bin/python3
"""Writes a scenario from the files of Calculon (calculon-ai/calculon), an analytical model of transformer training.

  scripts/import_calculon.py APP.json EXE.json --out 175b.yaml                 # on servers of eight A100
  scripts/import_calculon.py APP.json EXE.json SYSTEM.json --out 175b.yaml
  build/bin/dgx_a100 175b.yaml

APP is the model's shape. EXE is the mapping: all 23 keys are taken over or refused by name. SYSTEM chooses the platform with the
nearest tensor rate; its rates and memory become overrides. Efficiencies are the platform's own, or with --as-is those of SYSTEM: of the
largest matrix and the largest transfer, and of each network. Latencies, vector rates, processor_usage and the second memory have no
counterpart: the platform's own times are used instead.

Calculon's models have no embedding and no head. The scenario's have the smallest ones that the mapping can divide. The model's shape
is written beside the scenario, as 175b.model.json.
"""

import argparse
import difflib
import errno
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lib import run_files
from lib.command_line import Parser, one_line

try:
    import yaml
except ImportError as missing:
    sys.exit(f"import_calculon.py: error: {missing}; it needs the Debian package python3-yaml")

APP = ("hidden", "feedforward", "seq_size", "attn_heads", "attn_size", "num_blocks")
NUMBERS = ("num_procs", "tensor_par", "pipeline_par", "data_par", "batch_size", "microbatch_size", "pipeline_interleaving")
NETWORKS = ("tensor_par_net", "pipeline_par_net", "data_par_net")
FLAGS = ("fused_activation", "optimizer_sharding", "seq_par_ag_redo", "data_par_overlap", "weight_offload", "activations_offload",
         "optimizer_offload", "training")
WORDS = {"datatype": {"float16": "fp16", "bfloat16": "bf16"},
         "attention_type": {"multihead": "gpt2", "multiquery": "gpt_bigcode"},  # model_type
         "activation_recompute": {"none": "none", "attn_only": "selective", "full": "full"},
         "tensor_par_comm_type": {"ar": False, "p2p_rs_ag": False, "rs_ag": True},  # sequence_parallel
         "tensor_par_overlap": {"none": "none", "ring": "ring", "pipe": "pipelined"}}
REFUSED = {"fused_activation": "an activation that is not kept for the backward pass is not modelled",
           "weight_offload": "offload to host memory is not modelled", "activations_offload": "offload to host memory is not modelled",
           "optimizer_offload": "offload to host memory is not modelled"}


@dataclass(frozen=True)
class Platform:
    """What of a platform's datasheets a system file can replace."""
    name: str
    tflops: float  # dense, 16 bits
    clock_mhz: float
    hbm_gb: float
    hbm_gb_per_s: float
    links: int
    link_gb_per_s: float
    cable_gb_per_s: float
    server_gpus: int


PLATFORMS = (Platform("dgx_a100", 312, 1410, 80, 2039, 12, 25, 25, 8), Platform("dgx_h100", 989.4, 1830, 80, 3352, 18, 25, 50, 8),
             Platform("dgx_b200", 2250, 1850, 180, 7672, 18, 50, 50, 8))
GB_PER_GIB = 1.073741824
MOST_GB = 100_000  # that a scenario accepts; Calculon's systems without limit have more
SAME = 0.03  # ratio; a smaller difference is another rounding of the same device


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("app", type=pathlib.Path, metavar="APP.json", help="the model")
    parser.add_argument("exe", type=pathlib.Path, metavar="EXE.json", help="the mapping")
    parser.add_argument("system", type=pathlib.Path, metavar="SYSTEM.json", nargs="?", help="the machine (default: servers of eight A100)")
    parser.add_argument("--as-is", action="store_true", help="efficiencies of SYSTEM in place of the platform's own")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE", help="the scenario; must not exist yet")
    options = parser.parse_args(arguments)
    if options.as_is and options.system is None:
        parser.error("--as-is needs SYSTEM.json")
    return options


class Input:
    """A file of Calculon, key by key. Every problem is an error that names the file and the key."""

    def __init__(self, path: pathlib.Path, what: str) -> None:
        self.path = path
        self.values = run_files.json_file(path, run_files.Any, what)
        if not isinstance(self.values, dict):
            raise run_files.Error(path, f"not {what}: expected a mapping")

    def error(self, key: str, what: str) -> run_files.Error:
        return run_files.Error(self.path, f"{key}: {what}")

    def accept(self, keys: Sequence[str]) -> None:
        for key in self.values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                raise self.error(key, "unknown key" + (f"; nearest: {near[0]}" if near else ""))

    def get(self, key: str) -> Any:
        if key not in self.values:
            raise self.error(key, "missing")
        return self.values[key]

    def whole(self, key: str, least: int = 1) -> int:
        value = self.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.error(key, f"{run_files.shown(value)} is not a whole number of at least {least}")
        return value

    def flag(self, key: str) -> bool:
        value = self.get(key)
        if not isinstance(value, bool):
            raise self.error(key, f"{run_files.shown(value)} is not true or false")
        return value

    def word(self, key: str) -> Any:
        value, accepted = self.get(key), WORDS[key]
        if not isinstance(value, str) or value not in accepted:
            raise self.error(key, f"{run_files.shown(value)}; accepted: {', '.join(accepted)}")
        return accepted[value]

    def inside(self, *keys: str | int) -> tuple[str, Any]:
        """A value inside mappings and lists, and its name."""
        value, where = self.values, ""
        for key in keys:
            where += f"[{key}]" if isinstance(key, int) else f"{'.' if where else ''}{key}"
            there = (isinstance(value, list) and len(value) > key) if isinstance(key, int) else isinstance(value, dict) and key in value
            if not there:
                raise self.error(where, "missing")
            value = value[key]
        return where, value

    def positive(self, *keys: str | int) -> float:
        where, value = self.inside(*keys)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < run_files.LARGEST:
            raise self.error(where, f"{run_files.shown(value)} is not a number above 0")
        return float(value)

    def efficiency(self, *keys: str | int) -> float:
        """Of the largest size in a table [[size, ratio], ...], or the only one."""
        where, value = self.inside(*keys)
        pairs = value if isinstance(value, list) else [[0, value]]
        numbers = [pair for pair in pairs if isinstance(pair, list) and [type(number) in (int, float) for number in pair] == [True, True]]
        ratio = max(numbers, default=[0, 0])[1]
        if len(numbers) < len(pairs) or not 0 < ratio <= 1:
            raise self.error(where, "is neither a ratio above 0 and up to 1 nor a table of sizes and such ratios")
        return ratio


def model_of(app: Input, exe: Input) -> dict:
    app.accept(APP)
    sizes = {key: app.whole(key) for key in APP}
    model_type = exe.word("attention_type")
    model = {"model_type": model_type, "architectures": ["GPT2LMHeadModel" if model_type == "gpt2" else "GPTBigCodeForCausalLM"],
             "activation_function": "gelu_new", "n_layer": sizes["num_blocks"], "n_embd": sizes["hidden"], "n_head": sizes["attn_heads"],
             "head_dim": sizes["attn_size"], "n_inner": sizes["feedforward"], "n_positions": sizes["seq_size"],
             "vocab_size": exe.whole("tensor_par"),  # a row for each rank
             "tie_word_embeddings": False, "torch_dtype": {"fp16": "float16", "bf16": "bfloat16"}[exe.word("datatype")]}
    return model | ({"multi_query": True} if model_type == "gpt_bigcode" else {})


def workload_of(app: Input, exe: Input) -> dict:
    exe.accept((*NUMBERS, *NETWORKS, *FLAGS, *WORDS))
    sizes = {key: exe.whole(key) for key in NUMBERS}
    flags = {key: exe.flag(key) for key in FLAGS}
    for key, why in REFUSED.items():
        if flags[key]:
            raise exe.error(key, f"true; {why}; accepted: false")
    if not flags["training"]:
        raise exe.error("training", "false; only training steps are imported; accepted: true")
    ranks = sizes["tensor_par"] * sizes["pipeline_par"] * sizes["data_par"]
    if sizes["num_procs"] != ranks:
        raise exe.error("num_procs", f"{sizes['num_procs']} is not tensor_par x pipeline_par x data_par = {ranks}")
    sequence_parallel = exe.word("tensor_par_comm_type")
    overlap = exe.word("tensor_par_overlap")
    if flags["seq_par_ag_redo"] and not sequence_parallel:
        raise exe.error("seq_par_ag_redo", "true needs tensor_par_comm_type: rs_ag")
    if overlap != "none" and not sequence_parallel:
        raise exe.error("tensor_par_overlap", f"{exe.get('tensor_par_overlap')} needs tensor_par_comm_type: rs_ag")
    # Megatron-LM of the time of Calculon; its distributed optimizer came later.
    software = {"software": "megatron_core", "attention": "unfused", "dropout": True} if flags["optimizer_sharding"] else {"software": "megatron_2021"}
    workload = {"kind": "training"} | software | {
        "seq_tokens": app.whole("seq_size"), "global_batch": sizes["batch_size"], "micro_batch": sizes["microbatch_size"],
        "tp": sizes["tensor_par"], "pp": sizes["pipeline_par"], "dp": sizes["data_par"],
        "recompute": exe.word("activation_recompute"), "zero_stage": 1 if flags["optimizer_sharding"] else 0,
        "dp_overlap": flags["data_par_overlap"], "param_gather_overlap": flags["data_par_overlap"]}
    if sizes["pipeline_interleaving"] > 1:
        workload |= {"schedule": "interleaved", "virtual_stages": sizes["pipeline_interleaving"]}
    if sequence_parallel and sizes["tensor_par"] > 1:
        workload |= {"sequence_parallel": True, "keep_gathered": not flags["seq_par_ag_redo"], "tp_overlap": overlap}
    elif exe.get("tensor_par_comm_type") == "p2p_rs_ag":
        workload["pp_send"] = "shard"
    return workload


def check_networks(exe: Input, server_gpus: int) -> None:
    """A network is the inside of a server (0) or what joins servers (1); ranks are placed tensor-parallel first, as in Megatron-LM."""
    reach = 1
    for key, size in zip(NETWORKS, ("tensor_par", "pipeline_par", "data_par")):
        network = exe.whole(key, 0)
        if network > 1:
            raise exe.error(key, f"{network}; accepted: 0 (inside a server) and 1 (between servers)")
        if key == "tensor_par_net":
            reach = exe.whole(size)
        if network == 0 and (reach if key == "tensor_par_net" else exe.whole("num_procs")) > server_gpus:
            raise exe.error(key, f"0, but ranks of {size} lie in several servers of {server_gpus} GPUs; accepted: 1")


def with_efficiencies(system: Input, overrides: dict, platform: Platform) -> dict:
    """The overrides with the system's efficiencies in place of the platform's."""
    gpu = {part: dict(facts) for part, facts in overrides.get("gpu", {}).items()}
    products, memory = system.efficiency("matrix", "float16", "gflops_efficiency"), system.efficiency("mem1", "MB_efficiency")
    inside, outside = (system.efficiency("networks", i, "efficiency") for i in (0, 1))
    gpu.setdefault("sm", {}).update({key: products for key in ("burst_efficiency_ratio", "sustained_efficiency_ratio")})
    gpu.setdefault("hbm", {}).update({key: memory for key in ("gemm_ratio", "stream_ratio")})
    gpu.setdefault("nvlink", {})["gb_per_s"] = round(inside * system.positive("networks", 0, "bandwidth") / platform.links, 3)
    return overrides | {"gpu": gpu, "ib_cable": {"gb_per_s": round(outside * system.positive("networks", 1, "bandwidth"), 3)}}


def machine_of(system: Input | None, as_is: bool) -> tuple[Platform, dict]:
    """The platform, and what is replaced of it."""
    if system is None:
        return PLATFORMS[0], {}
    tflops = system.positive("matrix", "float16", "tflops")
    platform = min(PLATFORMS, key=lambda p: abs(p.tflops / tflops - 1))
    server = system.positive("networks", 0, "size")
    if server != platform.server_gpus:
        raise system.error("networks[0].size", f"{server:g}; servers of {platform.name}, the platform with the nearest tensor rate, have "
                           f"{platform.server_gpus} GPUs")
    memory = system.positive("mem1", "GiB")
    memory_gb = platform.hbm_gb if memory == platform.hbm_gb else min(memory * GB_PER_GIB, MOST_GB)  # makers say GB, Calculon GiB
    found = {"sm.clock_mhz": (platform.clock_mhz * tflops / platform.tflops, platform.clock_mhz),
             "hbm.capacity_gb": (memory_gb, platform.hbm_gb),
             "hbm.gb_per_s": (system.positive("mem1", "GBps"), platform.hbm_gb_per_s),
             "nvlink.gb_per_s": (system.positive("networks", 0, "bandwidth") / platform.links, platform.link_gb_per_s)}
    overrides: dict = {}
    for key, (value, known) in found.items():
        part, fact = key.split(".")
        if abs(value / known - 1) > SAME:
            overrides.setdefault("gpu", {}).setdefault(part, {})[fact] = round(value, 3)
    cable = system.positive("networks", 1, "bandwidth")
    if abs(cable / platform.cable_gb_per_s - 1) > SAME:
        overrides["ib_cable"] = {"gb_per_s": cable}
    return platform, with_efficiencies(system, overrides, platform) if as_is else overrides


def scenario_of(app: Input, exe: Input, system: Input | None, as_is: bool, config: str) -> dict:
    platform, overrides = machine_of(system, as_is)
    workload = workload_of(app, exe)
    check_networks(exe, platform.server_gpus)
    ranks = exe.whole("num_procs")
    machine = {"groups": {"node": {"servers": -(-ranks // platform.server_gpus)}}} | ({"overrides": overrides} if overrides else {})
    return {"schema_version": 1, "platform": platform.name, "model": {"config": config}, "machine": machine, "workload": workload}


def write_new(texts: dict[pathlib.Path, str]) -> None:
    """Writes all of these files, or none."""
    for path in texts:
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    for path, text in texts.items():
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    with one_line("import_calculon.py"):
        app, exe = Input(options.app, "a model of Calculon"), Input(options.exe, "a mapping of Calculon")
        system = None if options.system is None else Input(options.system, "a system of Calculon")
        config = options.out.with_suffix(".model.json")
        scenario, model = scenario_of(app, exe, system, options.as_is, config.name), model_of(app, exe)
        sources = ", ".join(file.name for file in (options.app, options.exe, options.system) if file)
        write_new({options.out: f"# From {sources} of Calculon.\n" + yaml.safe_dump(scenario, sort_keys=False),
                   config: json.dumps(model, indent=2) + "\n"})


if __name__ == "__main__":
    main()
