#!/usr/bin/python3
"""Throughput of a server with pipeline stages, by the number of batches in flight.

  scripts/studies/serving_pipeline.py                                          # prints a table
  scripts/studies/serving_pipeline.py --figure docs/serving_pipeline.svg       # and draws it
  scripts/studies/serving_pipeline.py --out out/serving_pipeline               # keeps the runs, in the folders 1, 2, ...

Llama-3.1-8B on 1, 2 and 4 L40S of a PCIe server: 128 requests at once, 512 tokens in and 64 out. `without bubbles` is the rate at which
the busiest stage would serve these requests if it never waited. Exit status: 0 all runs done, 1 one failed, 2 bad input.
"""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "python")]

import railyard  # noqa: E402
from lib.command_line import Parser, one_line  # noqa: E402
from reporting import draw_lines, figures  # noqa: E402
from reporting.lines import Dot, Line, Lines  # noqa: E402

STAGES = (1, 2, 4)
IN_FLIGHT = (1, 2, 3, 4, 5, 6)
SCENARIO = {"schema_version": 1, "platform": "plx_box", "model": {"config": str(ROOT / "scenarios" / "models" / "llama-3.1-8b.json")},
            "machine": {"groups": {"gpus": {"servers": 1, "gpu": "L40S"}}},
            "workload": {"kind": "serving", "requests": {"count": 128, "prompt_tokens": 512, "output_tokens": 64}, "instances": [{"name": "a"}]}}


def without_bubbles(metrics: dict) -> float:
    """Requests per second."""
    return metrics["requests"] / max(metrics["stage_busy_s"].values())


def print_table(found: dict[tuple[int, int], dict]) -> None:
    print("| stages | " + " | ".join(f"{n} in flight" for n in IN_FLIGHT) + " | without bubbles | busy, least to most |")
    print("| ---: |" + " ---: |" * (len(IN_FLIGHT) + 2))
    for stages in STAGES:
        rates = [f"{found[stages, n]['request_rate_per_s']:.1f}" for n in IN_FLIGHT]
        full = found[stages, stages]
        busy = sorted(full["stage_busy_ratio"].values())
        print(f"| {stages} | " + " | ".join(rates) + f" | {without_bubbles(full):.1f} | {100 * busy[0]:.0f} to {100 * busy[-1]:.0f} % |")


def draw(path: pathlib.Path, found: dict[tuple[int, int], dict]) -> None:
    lines = [Line(f"{stages} stage{'s' * (stages > 1)}", [Dot(n, found[stages, n]["request_rate_per_s"], None) for n in IN_FLIGHT],
                  without_bubbles(found[stages, stages])) for stages in STAGES]
    title = "Requests per second by batches in flight (dotted: without bubbles)"
    figures.write(path, title, draw_lines.lines(Lines(path.stem, title, "batches in flight", "requests/s", lines)))


def parse_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("--figure", type=pathlib.Path, metavar="FILE", help="draw the throughput into this SVG file")
    parser.add_runs()
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_options(arguments)
    axes = {"workload.instances.0.pp": STAGES, "workload.scheduler.max_in_flight": IN_FLIGHT}
    os.environ["RAILYARD"] = str(ROOT / "scripts" / "railyard")  # whichever is in PATH
    try:
        with one_line("serving_pipeline.py", railyard.InputError):
            results = railyard.sweep(SCENARIO, axes, workers=options.workers, out=options.out, options=["--bin", options.bin])
    except railyard.RunFailed as error:
        print(f"serving_pipeline.py: {error}", file=sys.stderr)
        return 1
    found = {tuple(result.sets.values()): result.metrics for result in results}
    print_table(found)
    if options.figure:
        draw(options.figure, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
