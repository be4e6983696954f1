#!/usr/bin/python3
"""What a waveform costs: the default scenario with and without --vcd, at each level, in turns.

  bench/waveform.py [--bin build/bin] [--repeat 5]

A thread beside the simulation writes the waveform: the ratio of wall times needs two free processors to be good; that of
processor times, meant to stay below 1.5 at level links, counts both threads. Both are of the best of the repetitions.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCENARIO = os.path.join(PROJECT, "scenarios", "disagg_llama3_70b_plx.yaml")
RUNS = {"untraced": [], **{level: ["--vcd", "--vcd-level", level] for level in ("summary", "links", "all")}}
MOST_RATIO = 1.5


def measure(command):
    """(wall seconds, processor seconds) of one run."""
    begun = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(os.waitstatus_to_exitcode(status))
    return time.monotonic() - begun, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(PROJECT, "build", "bin"), help="where the executables are (default build/bin)")
    parser.add_argument("--repeat", type=int, default=5, choices=range(1, 101), metavar="N", help="runs of each (default 5)")
    options = parser.parse_args()
    executable = os.path.join(options.bin, "plx_box")
    if not os.access(executable, os.X_OK):
        sys.exit(f"bench/waveform.py: {executable} is missing: scripts/build release")
    times = {name: [] for name in RUNS}
    sizes = {}
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(options.repeat):
            for name, more in RUNS.items():
                out = os.path.join(scratch, "out")
                times[name].append(measure([executable, SCENARIO, "--quiet", "--out", out, *more]))
                trace = os.path.join(out, "trace.vcd")
                sizes[name] = os.path.getsize(trace) if more else 0
    best = {name: [min(column) for column in zip(*measured, strict=True)] for name, measured in times.items()}
    print("| waveform | wall | ratio | processor | ratio | of 1.5 | trace.vcd |")
    print("| --- |" + " ---: |" * 6)
    for name, (wall_s, cpu_s) in best.items():
        ratio = cpu_s / best["untraced"][1]
        print(
            f"| {name} | {wall_s:.2f} s | {wall_s / best['untraced'][0]:.2f} | {cpu_s:.2f} s | {ratio:.2f}"
            f" | {ratio / MOST_RATIO:.2f} | {sizes[name] * 1e-6:.0f} MB |"
        )


if __name__ == "__main__":
    main()
