#!/usr/bin/python3
"""What a sweep adds to its points, and whether it survives being killed.

  bench/sweep.py [--bin build/bin] [--kills 20] [--seed 1]

A sweep of 200 points of the default scenario runs on two processes. "in flight" is the time its simulations took, over wall
time on two cores: how well they are kept busy, also when others use them. "cores busy" is the processor time of all that the
sweep starts, over the same: equal to it on a quiet machine. "added" is what remains of two cores' time for a point: starting
its process, building its machine, writing and reading results, the database, waiting for the last one.

Then the sweep begins anew, is killed (SIGKILL) at random moments, and is left to end: its runs must equal those of the first,
byte for byte.
"""

import argparse
import contextlib
import pathlib
import random
import resource
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import time

PROJECT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = 2
SWEEP = f"""\
scenario: {PROJECT}/scenarios/disagg_llama3_70b_plx.yaml
set: {{workload.decode.steps: 1}}
axes:
  workload.requests.prompt_tokens: {{from: 16, to: 800, step: 16}}
  workload.chunk_tokens: [128, 256]
  workload.nic_rule: [modulo, nearest]
"""


def processor_s():
    """Of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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

        used, begun = processor_s(), time.monotonic()
        succeed(command("whole"))
        wall_s, used_s = time.monotonic() - begun, processor_s() - used
        with contextlib.closing(sqlite3.connect(scratch / "whole" / "results.sqlite")) as database:
            points, simulated_s = database.execute("SELECT count(*), sum(wall_s) FROM cost").fetchone()
        print("| points | wall | in flight | cores busy | added per point | of a point |")
        print("|" + " ---: |" * 6)
        added_s = (WORKERS * wall_s - simulated_s) / points
        print(f"| {points} | {wall_s:.1f} s | {simulated_s / wall_s / WORKERS:.1%} | {used_s / wall_s / WORKERS:.1%}"
              f" | {added_s * 1e3:.1f} ms | {added_s / (simulated_s / points):.1%} |")

        if options.kills == 0:
            return
        dice = random.Random(options.seed)
        over = []
        for _ in range(options.kills):
            with subprocess.Popen(command("killed"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
                time.sleep(dice.uniform(0, 2 * wall_s / options.kills))
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
