#!/usr/bin/python3
"""Scales training steps of Llama-3.1-70B and 405B from 128 to 16 384 H100. Replicas are folded.

  scripts/studies/scaling.py                                       # prints three tables
  scripts/studies/scaling.py --out out/scaling --figure out/scaling.svg

  weak    each replica has 32 sequences, so the batch grows with the GPUs
  strong  all GPUs together have 1024 sequences

The study takes about four minutes of processor time. Each run leaves its scenario, command and results in a folder below --out. Exit
status: 0 all runs done, 1 some failed, 2 bad input.
"""

import argparse
import pathlib
import sys
import tempfile
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import runner  # noqa: E402
from lib.command_line import ROOT, Parser, one_line  # noqa: E402
from reporting import draw_lines, figures  # noqa: E402
from reporting.lines import Dot, Line, Lines  # noqa: E402

SERVER_GPUS, TP = 8, 8
TWO_TIER_GPUS = 2048  # with eight NICs a server and switches of 64 ports
REPLICA_SEQUENCES, BATCH = 32, 1024


class Model(NamedTuple):
    name: str
    config: str
    pp: int
    seq_tokens: int
    stage_layers: tuple[int, ...] | str


M70B = Model("70B", "llama-3.1-70b.json", 4, 8192, "auto")
M405B = Model("405B", "llama-3.1-405b.json", 16, 4096, (*[8] * 14, 7, 7))
WEAK = {M70B: [128, 512, 2048, 8192, 16384], M405B: [512, 2048, 8192, 16384]}
STRONG = {M70B: [128, 512, 2048, 8192]}


class Key(NamedTuple):
    model: str
    gpus: int
    batch: int


def replicas(model: Model, gpus: int) -> int:
    return gpus // (TP * model.pp)


def point(model: Model, key: Key) -> runner.Point:
    network = {"kind": "rail_optimized"} | ({"tiers": 3} if key.gpus > TWO_TIER_GPUS else {})
    workload = {"kind": "training", "seq_tokens": model.seq_tokens, "global_batch": key.batch, "tp": TP, "sequence_parallel": True, "pp": model.pp,
                "stage_layers": model.stage_layers if model.stage_layers == "auto" else list(model.stage_layers)}
    scenario = {"schema_version": 1, "platform": "dgx_h100", "model": {"config": str(ROOT / "scenarios" / "models" / model.config)},
                "machine": {"groups": {"node": {"servers": key.gpus // SERVER_GPUS}}, "network": network}, "simulation": {"fold": "require"},
                "workload": workload}
    return runner.Point(", ".join(map(str, key)), "dgx_h100", scenario)


def weak(model: Model) -> list[Key]:
    return [Key(model.name, gpus, REPLICA_SEQUENCES * replicas(model, gpus)) for gpus in WEAK[model]]


def strong(model: Model) -> list[Key]:
    return [Key(model.name, gpus, BATCH) for gpus in STRONG[model]]


def rate(found: dict[Key, runner.Result], key: Key) -> float:
    return found[key].summary["metrics"]["tokens_per_s_per_gpu"]


def print_table(head: str, model: Model, keys: list[Key], found: dict[Key, runner.Result]) -> None:
    columns = [head, "replicas", "micro-batches", "step", "tokens/s per GPU", "of the first", "bubble", "exposed dp", "memory"]
    print(f"| {' | '.join(columns)} |\n|" + " ---: |" * len(columns))
    for key in keys:
        metrics = found[key].summary["metrics"]
        count = replicas(model, key.gpus)
        print(f"| {key.gpus} GPUs | {count} | {key.batch // count} | {metrics['step_s']:.3f} s | {metrics['tokens_per_s_per_gpu']:.0f} "
              f"| {100 * rate(found, key) / rate(found, keys[0]):.1f} % | {100 * metrics['bubble_fraction']:.1f} % "
              f"| {1e3 * metrics['exposed_s']['dp']:.0f} ms | {1e-9 * metrics['memory']['peak_bytes']:.1f} GB |")


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("--figure", type=pathlib.Path, metavar="FILE.svg", help="draw tokens per second and GPU by GPUs")
    parser.add_runs()
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    tables = [("70B, weak", M70B, weak(M70B)), ("405B, weak", M405B, weak(M405B)), ("70B, strong", M70B, strong(M70B))]
    with one_line("scaling.py"), tempfile.TemporaryDirectory() as scratch:
        points = {key: point(model, key) for _, model, keys in tables for key in keys}
        results = runner.run(points.values(), options.out or scratch, options.bin, options.workers)
        failed = [result for result in results if result.failed]
        for result in failed:
            print(f"scaling.py: {result.point.name}: {result.error}", file=sys.stderr)
        if failed:
            return 1
        found = dict(zip(points, results, strict=True))
        for number, (head, model, keys) in enumerate(tables):
            if number > 0:
                print()
            print_table(head, model, keys, found)
        if options.figure:
            lines = [Line(head, [Dot(key.gpus, rate(found, key), None) for key in keys]) for head, _, keys in tables]
            chart = Lines("scaling", "Training on H100, tp 8", "GPUs", "tokens/s per GPU", lines, y_logarithmic=True)
            options.figure.parent.mkdir(parents=True, exist_ok=True)
            figures.write(options.figure, chart.title, draw_lines.lines(chart))
    return 0


if __name__ == "__main__":
    sys.exit(main())
