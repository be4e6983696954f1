#!/usr/bin/python3
"""What one slow GPU or NIC costs a training step of Llama-3.1-70B on 128 and 1024 H100. Replicas are folded: the slow one runs beside one that
stands for all others.

  scripts/studies/stragglers.py                                       # prints the table
  scripts/studies/stragglers.py --out out/stragglers

  GPU    its SMs run at 0.7 to 0.95 of their speed from the start
  NIC    its cable carries half of its rate in both directions

The study takes about three minutes of processor time. Each run leaves its scenario, command and results in a folder below --out. Exit
status: 0 all runs done, 1 some failed, 2 bad input.
"""

import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import runner  # noqa: E402
from lib.command_line import ROOT, Parser, one_line  # noqa: E402

SERVER_GPUS, TP, PP = 8, 8, 4
REPLICA_SEQUENCES = 32
GPUS = (128, 1024)
# In the first replica's first pipeline stage.
SLOW = {"none": [], **{f"GPU at {speed}": [{"at_us": 0, "gpu": "node0.gpu0", "slow_ratio": speed}] for speed in (0.95, 0.9, 0.8, 0.7)},
        "NIC at 0.5": [{"at_us": 0, "link": "node0.nic0.network", "rate_ratio": 0.5}]}


def point(gpus: int, slow: str) -> runner.Point:
    batch = REPLICA_SEQUENCES * gpus // (TP * PP)
    scenario = {"schema_version": 1, "platform": "dgx_h100", "model": {"config": str(ROOT / "scenarios" / "models" / "llama-3.1-70b.json")},
                "machine": {"groups": {"node": {"servers": gpus // SERVER_GPUS}}, "network": {"kind": "rail_optimized"}},
                "simulation": {"fold": "require"}, "events": SLOW[slow],
                "workload": {"kind": "training", "seq_tokens": 8192, "global_batch": batch, "tp": TP, "sequence_parallel": True, "pp": PP}}
    return runner.Point(f"{gpus} GPUs, {slow}", "dgx_h100", scenario)


def print_table(gpus: int, found: dict[str, runner.Result]) -> None:
    columns = [f"{gpus} GPUs, slow", "step", "longer", "tokens/s per GPU", "bubble", "exposed tp", "exposed dp"]
    print(f"| {' | '.join(columns)} |\n| --- |" + " ---: |" * (len(columns) - 1))
    step = found["none"].summary["metrics"]["step_s"]
    for slow, result in found.items():
        metrics = result.summary["metrics"]
        print(f"| {slow} | {metrics['step_s']:.3f} s | {100 * (metrics['step_s'] / step - 1):.1f} % | {metrics['tokens_per_s_per_gpu']:.0f} "
              f"| {100 * metrics['bubble_fraction']:.1f} % | {1e3 * metrics['exposed_s']['tp']:.0f} ms | {1e3 * metrics['exposed_s']['dp']:.0f} ms |")


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_runs()
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    keys = [(gpus, slow) for gpus in GPUS for slow in SLOW]
    with one_line("stragglers.py"), tempfile.TemporaryDirectory() as scratch:
        results = runner.run([point(*key) for key in keys], options.out or scratch, options.bin, options.workers)
        failed = [result for result in results if result.failed]
        for result in failed:
            print(f"stragglers.py: {result.point.name}: {result.error}", file=sys.stderr)
        if failed:
            return 1
        found = dict(zip(keys, results, strict=True))
        for number, gpus in enumerate(GPUS):
            if number > 0:
                print()
            print_table(gpus, {slow: found[gpus, slow] for slow in SLOW})
    return 0


if __name__ == "__main__":
    sys.exit(main())
