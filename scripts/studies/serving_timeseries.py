#!/usr/bin/python3
"""Requests running and waiting, and use of KV cache, beside the time series of a real vLLM server.

  scripts/studies/serving_timeseries.py --llmservingsim DIR                    # prints mean differences
  scripts/studies/serving_timeseries.py --llmservingsim DIR --figures docs     # and draws two figures

The run is that of the rows of class serving for Llama-3.1-8B on an RTX 4090 (300 ShareGPT requests, kernel profile). DIR is a clone of
casys-kaist/LLMServingSim, which has the trace, the profile and the server's time series. Exit status: 0 done, 1 the run failed, 2 bad input.
"""

import argparse
import bisect
import csv
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import runner  # noqa: E402
from lib.command_line import ROOT, Parser, one_line  # noqa: E402
from reporting import draw_lines, figures  # noqa: E402
from reporting.lines import Dot, Line, Lines  # noqa: E402
from validation import rows, serving  # noqa: E402

SERIES = pathlib.Path("bench/examples/RTX4090/Llama-3.1-8B/vllm/timeseries.csv")
QUANTITIES = {"running": "requests", "waiting": "requests", "KV cache": "%"}
FIGURES = {"serving_queue": ("Requests, ShareGPT-300 on an RTX 4090", ("running", "waiting")),
           "serving_kv": ("KV blocks in use, ShareGPT-300 on an RTX 4090", ("KV cache",))}


def point(clone: pathlib.Path) -> runner.Point:
    """@throws rows.InputError if no row belongs to the time series"""
    source = f"casys-kaist/LLMServingSim {SERIES.parent.parent}"
    row = next(row for row in rows.read(str(ROOT / "validation" / "serving_published.csv")) if row["source"] == source)
    experiment = serving.map_row(row, clone)
    scenario = {"schema_version": 1, "platform": experiment.platform} | experiment.scenario
    return runner.Point("sharegpt", experiment.platform, scenario, options=("--iterations",))


def measured(clone: pathlib.Path) -> list[tuple[float, dict[str, float]]]:
    """Seconds since the start, and the quantities."""
    with open(clone / SERIES, newline="", encoding="utf-8") as file:
        return [(float(row["t"]), {"running": float(row["running"]), "waiting": float(row["waiting"]), "KV cache": float(row["kv_cache_pct"])})
                for row in csv.DictReader(file)]


def predicted(result: runner.Result, times: list[float]) -> list[dict[str, float]]:
    """The quantities of the last batch that began before each time."""
    with open(result.directory / "out" / "iterations.csv", newline="", encoding="utf-8") as file:
        batches = list(csv.DictReader(file))
    starts = [float(batch["start_s"]) for batch in batches]
    total = result.summary["metrics"]["kv_blocks"]["total"]
    values = []
    for time in times:
        at = bisect.bisect(starts, time) - 1
        over = at < 0 or time > float(batches[-1]["end_s"])
        batch = {"running": 0, "waiting": 0, "blocks": 0} if over else batches[at]
        values.append({"running": float(batch["running"]), "waiting": float(batch["waiting"]), "KV cache": 100 * float(batch["blocks"]) / total})
    return values


def draw(folder: pathlib.Path, times: list[float], real: list[dict], model: list[dict]) -> None:
    for name, (title, shown) in FIGURES.items():
        lines = [Line(f"{quantity}, {whose}", [Dot(time, value[quantity], None) for time, value in zip(times, values)])
                 for quantity in shown for whose, values in (("vLLM", real), ("model", model))]
        unit = "requests" if len(shown) > 1 else "% of blocks"
        figures.write(folder / f"{name}.svg", title, draw_lines.lines(Lines(name, title, "seconds", unit, lines)))


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--llmservingsim", type=pathlib.Path, required=True, metavar="DIR", help="a clone of casys-kaist/LLMServingSim")
    parser.add_argument("--figures", type=pathlib.Path, metavar="DIR", help="draw serving_queue.svg and serving_kv.svg into this folder")
    parser.add_executables()
    options: argparse.Namespace = parser.parse_args(arguments)
    with one_line("serving_timeseries.py", OSError, rows.InputError, rows.Unmapped), tempfile.TemporaryDirectory() as scratch:
        clone = options.llmservingsim.resolve()
        series = measured(clone)
        result = runner.run([point(clone)], pathlib.Path(scratch), options.bin, 1)[0]
        if result.summary is None:
            print(f"serving_timeseries.py: {result.error}", file=sys.stderr)
            return 1
        times, real = [time for time, _ in series], [values for _, values in series]
        model = predicted(result, times)
    print(f"end: vLLM {times[-1]:.0f} s, model {result.summary['metrics']['end_s']:.1f} s")
    for quantity, unit in QUANTITIES.items():
        mean = sum(values[quantity] for values in real) / len(real)
        apart = sum(abs(ours[quantity] - theirs[quantity]) for ours, theirs in zip(model, real)) / len(real)
        print(f"{quantity}: {mean:.1f} {unit} on vLLM (mean), {apart:.1f} {unit} apart (mean)")
    if options.figures:
        draw(options.figures, times, real, model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
