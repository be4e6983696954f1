#!/usr/bin/python3
"""Writes a training scenario as the three files of Calculon (calculon-ai/calculon): a model, a mapping and a system.

  scripts/export_calculon.py scenarios/training/gpt_175b_64.yaml --out out/175b      # out/175b.app.json, .exe.json, .system.json
  calculon llm out/175b.app.json out/175b.exe.json out/175b.system.json -

Calculon has models of GPT's shape, tp x pp x dp, 1F1B and interleaved schedules, and a distributed optimizer. Anything else is refused by
name. The system has the peak rates of the GPU, NVLink and NICs with efficiencies of 1 and the latencies of the machine's paths, so its
times are ideal; stderr says so. import_calculon.py reads the model and the mapping back.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence

from lib import written
from lib.command_line import Parser, one_line

try:
    from lib import training_scenario
    from lib.yaml_source import InputError
except ImportError as missing:
    sys.exit(f"export_calculon.py: error: {missing}; it needs the Debian package python3-yaml")

SERVER_GPUS = 8
ATTENTION = {"gpt2": "multihead", "gpt_bigcode": "multiquery"}  # by model_type
DTYPES = {"float16": "float16", "bfloat16": "bfloat16", "fp16": "float16", "bf16": "bfloat16"}
RECOMPUTE = {"none": "none", "selective": "attn_only", "full": "full"}
OVERLAP = {"none": "none", "ring": "ring", "pipelined": "pipe"}
SCHEDULES = ("1f1b", "interleaved")
REFUSED = {"cp": 1, "ep": 1, "gtp": "none", "hsdp": None, "stage_layers": None, "placement": None}  # key: the only value that Calculon can say
VECTOR_RATIO = 78 / 312  # rate of other cores to that of tensor cores, as on A100 (NVIDIA's datasheet)
IDEAL = [[0, 1.0]]  # efficiency by size
GIB = 2**30


class ExportError(Exception):
    """A scenario that Calculon cannot say."""


class Scenario:
    """A training scenario, its model's config, and what the executable says of both."""

    def __init__(self, path: pathlib.Path, executables: pathlib.Path) -> None:
        self.path = path
        values = training_scenario.read(path)
        self.workload = values["workload"]
        for key, only in REFUSED.items():
            if self.workload.get(key, only) != only:
                raise self.error(f"workload.{key}: Calculon has no {key}")
        executable = executables.resolve() / values["platform"]
        if not os.access(executable, os.X_OK):
            raise self.error(f"no platform executable '{values['platform']}' in {executables}")
        self.explained = self._ask(executable, "--explain")
        self.machine = self._ask(executable, "--describe")
        self.model = values["model"]
        self.config = json.loads((path.resolve().parent / self.model["config"]).read_text(encoding="utf-8"))

    def error(self, what: str) -> ExportError:
        return ExportError(f"{self.path}: {what}")

    def _ask(self, executable: pathlib.Path, option: str) -> dict:
        done = subprocess.run([str(executable), str(self.path), option, "--json"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ExportError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{executable}: exit status {done.returncode}")
        return json.loads(done.stdout)

    def word(self, key: str, default: str, words: dict[str, str]) -> str:
        value = self.workload.get(key, default)
        if not isinstance(value, str) or value not in words:
            raise self.error(f"workload.{key}: Calculon has no {value}; accepted: {', '.join(words)}")
        return words[value]


def app_of(scenario: Scenario) -> dict:
    config = scenario.config
    if config.get("model_type") not in ATTENTION:
        raise scenario.error(f"model: Calculon has no models of type {config.get('model_type')}; accepted: {', '.join(ATTENTION)}")
    hidden, heads = config["n_embd"], config["n_head"]
    return {"hidden": hidden, "feedforward": config.get("n_inner") or 4 * hidden, "seq_size": scenario.workload["seq_tokens"], "attn_heads": heads,
            "attn_size": config.get("head_dim", hidden // heads), "num_blocks": config["n_layer"]}


def exe_of(scenario: Scenario) -> dict:
    workload = scenario.workload
    tp, pp, virtual = (workload.get(key, 1) for key in ("tp", "pp", "virtual_stages"))
    ranks = len(scenario.machine["ranks"])
    schedule = scenario.word("schedule", "1f1b", {name: name for name in SCHEDULES})
    zero_stage = workload.get("zero_stage", 1)
    if zero_stage not in (0, 1):
        raise scenario.error(f"workload.zero_stage: Calculon has no ZeRO stage {zero_stage}; accepted: 0, 1")
    sequence_parallel = workload.get("sequence_parallel", False)
    dtype = scenario.model.get("dtype", scenario.config.get("torch_dtype"))
    if dtype not in DTYPES:
        raise scenario.error(f"model.dtype: {dtype}; accepted: {', '.join(DTYPES)}")
    comm = "rs_ag" if sequence_parallel else "p2p_rs_ag" if workload.get("pp_send") == "shard" else "ar"
    network = 0 if ranks <= SERVER_GPUS else 1
    return {"num_procs": ranks, "tensor_par": tp, "pipeline_par": pp, "data_par": ranks // (tp * pp), "tensor_par_net": 0 if tp <= SERVER_GPUS else 1,
            "pipeline_par_net": network, "data_par_net": network, "batch_size": workload["global_batch"],
            "microbatch_size": workload.get("micro_batch", 1), "datatype": DTYPES[dtype], "fused_activation": False,
            "attention_type": ATTENTION[scenario.config["model_type"]], "activation_recompute": scenario.word("recompute", "none", RECOMPUTE),
            "pipeline_interleaving": virtual if schedule == "interleaved" else 1, "optimizer_sharding": zero_stage == 1,
            "tensor_par_comm_type": comm, "tensor_par_overlap": scenario.word("tp_overlap", "none", OVERLAP),
            "seq_par_ag_redo": sequence_parallel and not workload.get("keep_gathered", False), "data_par_overlap": workload.get("dp_overlap", False),
            "weight_offload": False, "activations_offload": False, "optimizer_offload": False, "training": True}


def network_of(gb_per_s: float, size: int, latency_s: float, fills: bool) -> dict:
    return {"bandwidth": gb_per_s, "efficiency": 1.0, "size": size, "latency": latency_s,
            "ops": {"p2p": [1.0, None], "reduce_scatter": [1.0, -1], "all_gather": [1.0, -1], "all_reduce": [2.0, -1]}, "must_be_filled": fills,
            "processor_usage": 0.0}


def system_of(scenario: Scenario) -> dict:
    peak = scenario.machine["groups"][0]["peak"]
    memory = scenario.explained["memory"][0]["capacity_bytes"]
    tflops = {f"float{bits}": peak["tflops"][name] for bits, name in ((8, "fp8"), (16, "fp16")) if name in peak["tflops"]}
    links = {link["name"].partition("_")[0]: link for link in scenario.machine["links"]}
    if "NVLink" not in links or "IB" not in links:
        raise scenario.error("machine: Calculon's systems have servers with NVLink and a network")
    first = scenario.machine["ranks"][0]["gpu"]
    nvlink = sum(link["gb_per_s"] for link in scenario.machine["links"] if link["direction"] == "tx" and link["from"].startswith(f"{first}.nvlink"))
    return {"matrix": {name: {"tflops": rate, "gflops_efficiency": IDEAL} for name, rate in tflops.items()},
            "vector": {name: {"tflops": VECTOR_RATIO * rate, "gflops_efficiency": IDEAL} for name, rate in tflops.items()},
            "mem1": {"GiB": memory / GIB, "GBps": peak["hbm_gb_per_s"], "MB_efficiency": IDEAL},
            "mem2": {"GiB": 0, "GBps": 1, "MB_efficiency": IDEAL}, "processing_mode": "no_overlap",
            "networks": [network_of(round(nvlink, 3), SERVER_GPUS, 1e-9 * links["NVLink"]["latency_ns"], True),
                         network_of(links["IB"]["gb_per_s"], 65536, 1e-9 * links["IB"]["latency_ns"], False)]}


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("scenario", type=pathlib.Path, metavar="SCENARIO", help="a scenario of workload.kind training")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="PREFIX", help="writes PREFIX.app.json, PREFIX.exe.json, PREFIX.system.json")
    parser.add_executables()
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    with one_line("export_calculon.py", InputError, complete=True), one_line("export_calculon.py", ExportError):
        scenario = Scenario(options.scenario, options.bin)
        files = {"app": app_of(scenario), "exe": exe_of(scenario), "system": system_of(scenario)}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        for name, values in files.items():
            written.text(options.out.with_name(f"{options.out.name}.{name}.json"), json.dumps(values, indent=2) + "\n")
        print("export_calculon.py: efficiencies are 1, so Calculon's times are ideal; embedding and head are left out", file=sys.stderr)


if __name__ == "__main__":
    main()
