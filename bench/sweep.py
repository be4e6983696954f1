#!/usr/bin/python3
"""What a sweep adds to its points, and whether it survives being killed.

  bench/sweep.py [--bin build/bin] [--kills 20] [--seed 1]

A sweep of 200 points of the default scenario runs on two processes, and every 20 ms its tasks are counted, the driver's threads
among them:

  wanted       share of two cores' time for which a task of the sweep ran, or waited for a core that others had
  in flight    share of the time in which two simulations were there
  driver       processor time of the sweep's own process, for a point
  added        for a point: the driver's time, and that of both cores while no task wanted them (building up, writing, the last
               simulations)

Other processes that use the cores change none of them; they do change "cores busy", processor time over that of two cores.

Then the sweep begins anew, is killed (SIGKILL) at random moments, and is left to end: its runs must equal those of the first,
byte for byte.
"""

import argparse
import contextlib
import glob
import itertools
import os
import pathlib
import random
import shlex
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = 2
LOOK_S = 0.02
SWEEP = f"""\
scenario: {PROJECT}/scenarios/disagg_llama3_70b_plx.yaml
set: {{workload.decode.steps: 1}}
axes:
  workload.requests.prompt_tokens: {{from: 12, to: 600, step: 12}}
  workload.chunk_tokens: [128, 256]
  workload.nic_rule: [modulo, nearest]
"""


def states(process):
    """Of all threads of a process: R that runs or waits for a core, S, D, Z. None of one that is gone."""
    found = []
    for path in glob.glob(f"/proc/{process}/task/*/stat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            found.append(file.read().rpartition(")")[2].split()[0])
    return found


def children(process):
    found = []
    for path in glob.glob(f"/proc/{process}/task/*/children"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            found += file.read().split()
    return found


def processor_s(process):
    """Of a process that has ended and was not waited for: its own, and its children's."""
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    own, below = (sum(map(int, fields[i : i + 2])) / os.sysconf("SC_CLK_TCK") for i in (11, 13))
    return own, below


class Watched:
    """A command that ran to its end, and what its tasks did meanwhile."""

    def __init__(self, command):
        begun = time.monotonic()
        wanted, in_flight = [], []
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
                simulations = [states(child) for child in children(process.pid)]
                tasks = [*states(process.pid), *itertools.chain(*simulations)]
                wanted.append(min(tasks.count("R"), WORKERS))
                in_flight.append(sum(any(state != "Z" for state in own) for own in simulations) >= WORKERS)
                time.sleep(LOOK_S)
            self.wall_s = time.monotonic() - begun
            self.driver_s, self.simulations_s = processor_s(process.pid)
        if process.returncode != 0:
            sys.exit(f"bench/sweep.py: {shlex.join(map(str, command))}: exit status {process.returncode}")
        self.wanted_ratio = statistics.fmean(wanted) / WORKERS
        self.in_flight_ratio = statistics.fmean(in_flight)

    def added_s(self, points):
        return (self.driver_s + (1 - self.wanted_ratio) * WORKERS * self.wall_s) / points


def succeed(command, **options):
    done = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"bench/sweep.py: {shlex.join(map(str, command))}: {done.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=PROJECT / "build" / "bin", help="where the executables are (default build/bin)")
    parser.add_argument("--kills", type=int, default=20, choices=range(0, 1001), metavar="N",
                        help="how often to kill (default 20; 0 only measures)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default 1)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        (scratch / "sweep.yaml").write_text(SWEEP, encoding="utf-8")

        def command(out):
            return [PROJECT / "scripts" / "sweep.py", scratch / "sweep.yaml", "--bin", options.bin, "--workers", str(WORKERS),
                    "--out", scratch / out, "--csv", scratch / f"{out}.csv"]

        whole = Watched(command("whole"))
        with contextlib.closing(sqlite3.connect(scratch / "whole" / "results.sqlite")) as database:
            points, simulated_s = database.execute("SELECT count(*), sum(wall_s) FROM cost").fetchone()
        print("| points | of each, wall and processor | wall | wanted | in flight | cores busy | driver | added |")
        print("|" + " ---: |" * 8)
        busy = (whole.driver_s + whole.simulations_s) / whole.wall_s / WORKERS
        print(f"| {points} | {simulated_s / points * 1e3:.0f} ms, {whole.simulations_s / points * 1e3:.0f} ms | {whole.wall_s:.1f} s"
              f" | {whole.wanted_ratio:.1%} | {whole.in_flight_ratio:.1%} | {busy:.1%}"
              f" | {whole.driver_s / points * 1e3:.1f} ms | {whole.added_s(points) * 1e3:.1f} ms |")

        if options.kills == 0:
            return
        dice = random.Random(options.seed)
        over = []
        for _ in range(options.kills):
            with subprocess.Popen(command("killed"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                time.sleep(dice.uniform(0, 2 * whole.wall_s / options.kills))
                process.kill()
            there = scratch / "killed" / "points"
            over.append(len(list(there.glob("[!.]*"))) if there.exists() else 0)
        succeed(command("killed"))
        same = (scratch / "killed.csv").read_bytes() == (scratch / "whole.csv").read_bytes()
        print(f"\nkilled {options.kills} times, with {', '.join(map(str, over))} points over: "
              + ("the same runs as without" if same else "OTHER RUNS than without"))
        sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
