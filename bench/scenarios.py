#!/usr/bin/python3
"""What the two default scenarios cost on this computer: processor time, peak memory and transactions per second.

  bench/scenarios.py [--bin build/bin] [--repeat 3]

Each runs alone, with every output file but no waveform; the time is the best of the repetitions. "simulated" counts
transactions that started on a link, without those of collectives that were computed once and replayed.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCENARIOS = [("plx_box", "scenarios/disagg_llama3_70b_plx.yaml"), ("dgx_h100", "scenarios/disagg_llama3_70b_dgx.yaml")]
MOST_SECONDS = 5.0
MOST_BYTES = 500e6


def measure(command, directory):
    """(processor seconds, wall seconds, summary) of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run(command + ["--quiet", "--out", directory], check=False)
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(done.returncode)
    with open(os.path.join(directory, "summary.json"), encoding="utf-8") as file:
        summary = json.load(file)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, summary


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(PROJECT, "build", "bin"), help="where the executables are (default build/bin)")
    parser.add_argument("--repeat", type=int, default=3, choices=range(1, 101), metavar="N", help="runs of each (default 3)")
    options = parser.parse_args()
    print("| scenario | processor | of 5 s | wall | memory | of 500 MB | simulated | replayed | simulated/s | simulated time |")
    print("| --- |" + " ---: |" * 9)
    with tempfile.TemporaryDirectory() as scratch:
        for platform, scenario in SCENARIOS:
            executable = os.path.join(options.bin, platform)
            if not os.access(executable, os.X_OK):
                sys.exit(f"bench/scenarios.py: {executable} is missing: scripts/build release")
            command = [executable, os.path.join(PROJECT, scenario)]
            cpu_s, wall_s, summary = min(
                (measure(command, os.path.join(scratch, platform)) for _ in range(options.repeat)), key=lambda m: m[0]
            )
            simulator = summary["simulator"]
            memory = simulator["peak_rss_bytes"]
            simulated = simulator["transactions"] - simulator["replayed_transactions"]
            print(
                f"| {os.path.basename(scenario)} | {cpu_s:.2f} s | {cpu_s / MOST_SECONDS:.2f} | {wall_s:.2f} s"
                f" | {memory * 1e-6:.0f} MB | {memory / MOST_BYTES:.2f} | {simulated * 1e-6:.2f} M"
                f" | {simulator['replayed_transactions'] * 1e-6:.2f} M | {simulated / cpu_s * 1e-6:.2f} M"
                f" | {summary['metrics']['end_s'] * 1e3:.1f} ms |"
            )


if __name__ == "__main__":
    main()
