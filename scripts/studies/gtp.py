#!/usr/bin/python3
"""Compares ways to divide the weights of four layers of Llama-3.1-70B: tensor parallelism, GTP, FSDP and HSDP.

  scripts/studies/gtp.py                                   # prints five tables
  scripts/studies/gtp.py --out out/gtp --figure out/gtp.svg

  methods     eight H100; then their steps by tokens of a sequence
  break-even  a layer with GTP on eight H100 and 32 GPUs of a GB200 rack: when do its kernels last as long as its gathers and scatters
  servers     8 to 128 H100
  rack        64 GPUs of a GB200 rack: number formats of products and gathers

Each GPU has its own sequence in a step with GTP, FSDP and HSDP; with tensor parallelism a group of GPUs has as many sequences, one after
the other. The study takes about five minutes of processor time. Each run leaves its scenario, command and results in a folder below --out.
Exit status: 0 all runs done, 1 some failed, 2 bad input.
"""

import argparse
import csv
import itertools
import json
import math
import pathlib
import sys
import tempfile
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import runner  # noqa: E402
from lib.command_line import ROOT, Parser, one_line  # noqa: E402
from reporting import draw_lines, figures  # noqa: E402
from reporting.lines import Dot, Line, Lines  # noqa: E402

LAYERS, SHORT = 4, 2  # of the model; times of a layer are the difference of two steps
HIDDEN, KV, FFN, VOCABULARY = 8192, 1024, 28672, 128256
PARAMETERS = LAYERS * (2 * HIDDEN * (HIDDEN + KV) + 3 * HIDDEN * FFN) + 2 * VOCABULARY * HIDDEN  # of matrices
TOKENS, SEQUENCES = 4096, [1024, 2048, 4096, 8192, 16384]
SERVERS = [1, 4, 16]
SERVER_GPUS, RACK_GPUS = 8, 64
FORMATS = ["bf16", "mxfp8", "nvfp4"]
USES = ("forward", "backward", "gradients")
FSDP = {"zero_stage": 3}
METHODS = {
    "TP 8": {"tp": 8, "sequence_parallel": True},
    "TP 2 x GTP 4": {"tp": 2, "sequence_parallel": True, "gtp": {"size": 4}},
    "GTP 8": {"gtp": {"size": 8}},
    "GTP 8, 4 ahead": {"gtp": {"size": 8, "prefetch_depth": 4}},
    "GTP 8, kept": {"gtp": {"size": 8, "keep_gathered": "step"}},
    "GTP 32": {"gtp": {"size": 32}},
    "GTP 64": {"gtp": {"size": 64}},
    "FSDP": FSDP,
    "FSDP, 2 ahead": FSDP | {"prefetch_layers": 2},
    "FSDP, kept": FSDP | {"reshard_after_forward": False},
    "HSDP 4": FSDP | {"hsdp": 4},
    "HSDP 8": FSDP | {"hsdp": 8},
}
ON_SERVER = [method for method in METHODS if method not in ("GTP 32", "GTP 64", "HSDP 8")]
OVER_SERVERS = ["TP 8", "TP 2 x GTP 4", "GTP 8", "FSDP", "HSDP 8"]
ON_RACK = ["TP 8", "GTP 8", "GTP 64", "FSDP", "HSDP 8"]
NARROW_ON_RACK = ["TP 8", "GTP 8", "GTP 64"]
DIVIDING = [("dgx_h100", 8, "GTP 8"), ("gb200_nvl72", 32, "GTP 32")]  # a layer: when is it as long as its gathers and scatters?


class Key(NamedTuple):
    platform: str
    gpus: int
    method: str
    tokens: int = TOKENS
    layers: int = LAYERS
    gemm: str = "bf16"
    micro_batch: int = 1


def point(key: Key) -> runner.Point:
    """A sequence for each GPU, or micro_batch. Transactions of 1 MiB change a step by less than 0.1 %."""
    keys = METHODS[key.method]
    model = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-70b-4layers.json").read_text(encoding="utf-8")) | {"num_hidden_layers": key.layers}
    precision = {"gradients": "as_parameters"} | ({} if key.gemm == "bf16" else {"gemm": key.gemm})
    degree = keys.get("tp", 1) * keys.get("gtp", {"size": 1})["size"]
    workload = {"kind": "training", "seq_tokens": key.tokens, "micro_batch": key.micro_batch, "global_batch": key.micro_batch * key.gpus,
                "dp": key.gpus // degree, "dp_overlap": True, "param_gather_overlap": True, "precision": precision} | keys
    scenario = {"schema_version": 1, "platform": key.platform, "model": {"config": "model.json"}, "fabric": {"transaction_bytes": 2**20}, "workload": workload}
    if key.platform == "dgx_h100":
        scenario["machine"] = {"groups": {"node": {"servers": key.gpus // SERVER_GPUS}}}
    return runner.Point(", ".join(map(str, key)), key.platform, scenario, files={"model.json": json.dumps(model)})


def exposed_s(metrics: dict) -> float:
    return sum(seconds for kind, seconds in metrics["exposed_s"].items() if kind != "pp")


def bytes_per_parameter(result: runner.Result, gpus: int) -> float:
    """What a GPU sends, over the parameters of the matrices."""
    return sum(row["bytes"] for row in result.summary["traffic"]) / gpus / PARAMETERS


def print_head(columns: list[str]) -> None:
    print(f"| {' | '.join(columns)} |\n| --- |" + " ---: |" * (len(columns) - 1))


def print_methods(found: dict[Key, runner.Result], methods: list[str], place: tuple[str, int], gemm: str = "bf16") -> None:
    for method in methods:
        result = found[Key(*place, method, gemm=gemm)]
        metrics = result.summary["metrics"]
        name = method if gemm == "bf16" else f"{method}, {gemm}"
        print(f"| {name} | {1e3 * metrics['step_s']:.1f} ms | {1e3 * exposed_s(metrics):.1f} ms | {1e-9 * metrics['memory']['peak_bytes']:.1f} GB "
              f"| {bytes_per_parameter(result, place[1]):.2f} |")


def print_tokens(found: dict[Key, runner.Result]) -> None:
    print_head(["step, 8 H100", *(f"{count} tokens" for count in SEQUENCES), "4 x 2048 tokens"])
    for method in ON_SERVER:
        keys = [*(Key("dgx_h100", 8, method, count) for count in SEQUENCES), Key("dgx_h100", 8, method, 2048, micro_batch=4)]
        print(f"| {method} | " + " | ".join(f"{1e3 * found[key].summary['metrics']['step_s']:.1f} ms" for key in keys) + " |")


def print_servers(found: dict[Key, runner.Result]) -> None:
    print_head(["step, 4096 tokens", *(f"{SERVER_GPUS * count} H100" for count in SERVERS)])
    for method in OVER_SERVERS:
        steps = [found[Key("dgx_h100", SERVER_GPUS * count, method)].summary["metrics"]["step_s"] for count in SERVERS]
        print(f"| {method} | " + " | ".join(f"{1e3 * step:.1f} ms" for step in steps) + " |")


def layer_times(long: runner.Result, short: runner.Result) -> tuple[float, float]:
    """Of one layer and micro-batch: gathers and scatters; kernels. The latter are what more layers add. Seconds, means of all ranks."""
    with open(long.directory / "out" / "gtp.csv", newline="", encoding="utf-8") as table:
        rows = [row for row in csv.DictReader(table) if row["use"] in USES and row["layer"].isdigit()]
    kernels = [result.summary["metrics"]["kernels_s"] for result in (long, short)]
    return sum(float(row["transfers_s"]) for row in rows) / LAYERS, (kernels[0] - kernels[1]) / (LAYERS - SHORT)


def break_even(rows: list[tuple[int, float, float]]) -> float | None:
    """Tokens at which kernels last as long as gathers and scatters, between two sizes by powers. None: at none of these sizes."""
    for (below, *before), (above, *after) in itertools.pairwise(rows):
        first, last = math.log(before[1] / before[0]), math.log(after[1] / after[0])
        if first <= 0 < last:
            return below * (above / below) ** (first / (first - last))
    return None


def print_layers(found: dict[Key, runner.Result]) -> list[Line]:
    """@return the same as lines of a chart"""
    lines = []
    print_head(["a layer", "tokens", "gathers and scatters", "kernels"])
    ends = []
    for platform, gpus, method in DIVIDING:
        name = f"{gpus} {'H100' if platform == 'dgx_h100' else 'GB200'}"
        rows = [(count, *layer_times(*(found[Key(platform, gpus, method, count, layers)] for layers in (LAYERS, SHORT)))) for count in SEQUENCES]
        for count, transfers, kernels in rows:
            print(f"| {name} | {count} | {1e3 * transfers:.2f} ms | {1e3 * kernels:.2f} ms |")
        lines += [Line(f"{what}, {name}", [Dot(row[0], 1e3 * row[which], None) for row in rows])
                  for which, what in ((1, "gathers and scatters"), (2, "kernels"))]
        even = break_even(rows)
        ends.append(f"{name}: as long as each other " + (f"with {even:.0f} tokens" if even else f"with fewer than {SEQUENCES[0]} or more than {SEQUENCES[-1]} tokens"))
    print("\n" + "\n".join(ends))
    return lines


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("--figure", type=pathlib.Path, metavar="FILE.svg", help="draw the times of a layer by tokens")
    parser.add_runs()
    return parser.parse_args(arguments)


def all_keys() -> list[Key]:
    keys = [Key("dgx_h100", 8, method, count) for method in ON_SERVER for count in SEQUENCES]
    keys += [Key("dgx_h100", 8, method, 2048, micro_batch=4) for method in ON_SERVER]
    keys += [Key("dgx_h100", SERVER_GPUS * count, method) for method in OVER_SERVERS for count in SERVERS]
    keys += [Key("gb200_nvl72", RACK_GPUS, method) for method in ON_RACK]
    keys += [Key("gb200_nvl72", RACK_GPUS, method, gemm=gemm) for method in NARROW_ON_RACK for gemm in FORMATS[1:]]
    keys += [Key(*place, count, layers) for place in DIVIDING for count in SEQUENCES for layers in (LAYERS, SHORT)]
    return list(dict.fromkeys(keys))


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    with one_line("gtp.py"), tempfile.TemporaryDirectory() as scratch:
        keys = all_keys()
        results = runner.run([point(key) for key in keys], options.out or scratch, options.bin, options.workers)
        found = dict(zip(keys, results, strict=True))
        failed = [result for result in results if result.failed]
        for result in failed:
            print(f"gtp.py: {result.point.name}: {result.error}", file=sys.stderr)
        if failed:
            return 1
        print_head(["8 H100, 4096 tokens", "step", "exposed", "memory", "bytes per parameter"])
        print_methods(found, ON_SERVER, ("dgx_h100", SERVER_GPUS))
        print()
        print_tokens(found)
        print()
        lines = print_layers(found)
        print()
        print_servers(found)
        print()
        print_head([f"{RACK_GPUS} GB200, 4096 tokens", "step", "exposed", "memory", "bytes per parameter"])
        print_methods(found, ON_RACK, ("gb200_nvl72", RACK_GPUS))
        for gemm in FORMATS[1:]:
            print_methods(found, NARROW_ON_RACK, ("gb200_nvl72", RACK_GPUS), gemm)
        if options.figure:
            chart = Lines("layer", "A layer of Llama-3.1-70B with GTP", "tokens of a sequence", "ms for a micro-batch", lines, y_logarithmic=True)
            options.figure.parent.mkdir(parents=True, exist_ok=True)
            figures.write(options.figure, chart.title, draw_lines.lines(chart))
    return 0


if __name__ == "__main__":
    sys.exit(main())
