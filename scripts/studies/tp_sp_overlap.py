#!/usr/bin/python3
"""Tensor and sequence parallelism on four GPUs, with and without overlap of products and their collectives, beside one GPU.

  scripts/studies/tp_sp_overlap.py                       # prints two tables
  scripts/studies/tp_sp_overlap.py --out out/tp_sp       # keeps the runs, and writes results.csv beside them

Two sizes. `small`: four layers of hidden size 512 with 4 sequences of 256 tokens, whose kernels are shorter than their launches.
`large`: four layers of Llama-3.1-70B with a sequence of 8192 tokens. Scaling efficiency is the time of one GPU / (4 x the time of four).
Each run leaves its scenario, command and results in a folder below --out. Exit status: 0 all runs done, 1 some failed, 2 bad input.
"""

import argparse
import csv
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import runner  # noqa: E402
from lib.command_line import ROOT, Parser, one_line  # noqa: E402

GPUS = 4
METHODS = ["none", "ring", "pipelined", "bulk", "decomposed", "fused", "userbuffers"]
SMALL = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new", "n_layer": 4, "n_embd": 512,
         "n_inner": 1024, "n_head": 8, "n_positions": 256, "vocab_size": 1024, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
SIZES = {
    "small": ("dgx_h100", {"config": "model.json"}, {"seq_tokens": 256, "global_batch": 4, "micro_batch": 4}, {"model.json": json.dumps(SMALL)}),
    "large": ("dgx_b200", {"config": str(ROOT / "scenarios" / "models" / "llama-3.1-70b-4layers.json")}, {"seq_tokens": 8192, "global_batch": 1}, {}),
}
COLUMNS = ["size", "mapping", "step_ms", "scaling_efficiency_ratio", "exposed_tp_ms", "hidden_tp_ratio", "kernels_ms", "host_ms", "peak_mb"]


def point(size: str, mapping: str) -> runner.Point:
    """@param mapping  "1 GPU", or the tp_overlap of four"""
    platform, model, sizes, files = SIZES[size]
    parallel = {} if mapping == "1 GPU" else {"tp": GPUS, "sequence_parallel": True, "tp_overlap": mapping}
    workload = {"kind": "training", "dp": 1, "zero_stage": 0, "reserved_bytes": 0} | sizes | parallel
    return runner.Point(f"{size}, {mapping}", platform, {"schema_version": 1, "platform": platform, "model": model, "workload": workload}, files=files)


def row(size: str, mapping: str, metrics: dict, alone_s: float) -> dict:
    gpus = 1 if mapping == "1 GPU" else GPUS
    values = [1e3 * metrics["step_s"], alone_s / (gpus * metrics["step_s"]), 1e3 * metrics["exposed_s"].get("tp", 0), metrics["hidden_ratio"].get("tp"),
              1e3 * metrics["kernels_s"], 1e3 * metrics["host_s"], 1e-6 * metrics["memory"]["peak_bytes"]]
    return dict(zip(COLUMNS, [size, mapping, *values], strict=True))


def print_table(rows: list[dict]) -> None:
    print("| mapping | step | efficiency | exposed | hidden | kernels | host | memory |")
    print("| --- |" + " ---: |" * 7)
    for each in rows:
        name = each["mapping"] if each["mapping"] == "1 GPU" else f"4 GPUs, `{each['mapping']}`"
        hidden = "" if each["hidden_tp_ratio"] is None else f"{100 * each['hidden_tp_ratio']:.0f} %"
        print(f"| {name} | {each['step_ms']:.3f} ms | {each['scaling_efficiency_ratio']:.2f} | {each['exposed_tp_ms']:.3f} ms | {hidden} "
              f"| {each['kernels_ms']:.3f} ms | {each['host_ms']:.3f} ms | {each['peak_mb']:.0f} MB |")


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_runs()
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    keys = [(size, mapping) for size in SIZES for mapping in ["1 GPU", *METHODS]]
    with one_line("tp_sp_overlap.py"), tempfile.TemporaryDirectory() as scratch:
        results = runner.run([point(*key) for key in keys], options.out or scratch, options.bin, options.workers)
        failed = [result for result in results if result.summary is None]
        for result in failed:
            print(f"tp_sp_overlap.py: {result.point.name}: {result.error}", file=sys.stderr)
        if failed:
            return 1
        found = {key: result.summary["metrics"] for key, result in zip(keys, results, strict=True)}
        rows = [row(size, mapping, found[size, mapping], found[size, "1 GPU"]["step_s"]) for size, mapping in keys]
        for size in SIZES:
            print(f"\n{size}\n")
            print_table([each for each in rows if each["size"] == size])
        if options.out:
            with open(options.out / "results.csv", "w", newline="", encoding="utf-8") as table:
                writer = csv.DictWriter(table, COLUMNS)
                writer.writeheader()
                writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
