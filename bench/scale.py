#!/usr/bin/python3
"""What folding saves, and what training steps on up to 16 384 GPUs cost.

  bench/scale.py [--bin build/bin] [--most-gpus N]

Llama-3.1-70B is meant to take less than 10 s of processor time on 128 GPUs and, folded, on 1024; Llama-3.1-405B on 16 384
GPUs less than 60 s and 1 GB. "error" is the difference of the step's time from the whole machine's, which is simulated
on at most N GPUs (default 128).
"""

import argparse
import os
import tempfile

from scenarios import PROJECT, measure

# Scenario, GPUs, overrides, bounds of processor time and memory. Weak scaling of 70B, then the large scenarios.
RAIL = {"machine.network": "{kind: rail_optimized}"}
POINTS = [
    *[("llama3_70b_128", 32 * dp, {"machine.groups.node.servers": 4 * dp, "workload.global_batch": 32 * dp} | RAIL, 10, 500e6)
      for dp in (1, 2, 4, 8, 16, 32)],
    ("llama3_70b_1024", 1024, {}, 10, 500e6),
    ("llama3_405b_16384", 16384, {}, 60, 1e9),
]


def run(options, directory, name, sets, fold):
    scenario = os.path.join(PROJECT, "scenarios", "training", f"{name}.yaml")
    command = [os.path.join(options.bin, "dgx_h100"), scenario, "--jobs", "none"]
    sets = sets | {"simulation.fold": fold}
    return measure(command + [word for key, value in sets.items() for word in ("--set", f"{key}={value}")], directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(PROJECT, "build", "bin"), help="where the executables are (default build/bin)")
    parser.add_argument("--most-gpus", type=int, default=128, help="largest machine that is also simulated as a whole (default 128)")
    options = parser.parse_args()
    print("| scenario | GPUs | simulated | processor | of bound | memory | of bound | step | tokens/s per GPU | bubble | exposed dp | error | whole |")
    print("| --- |" + " ---: |" * 12)
    with tempfile.TemporaryDirectory() as scratch:
        for name, gpus, sets, most_s, most_bytes in POINTS:
            cpu_s, _, summary = run(options, os.path.join(scratch, "part"), name, sets, "auto")
            metrics, memory = summary["metrics"], summary["simulator"]["peak_rss_bytes"]
            error = whole = ""
            if gpus <= options.most_gpus:
                whole_s, _, all_gpus = run(options, os.path.join(scratch, "whole"), name, sets, "off")
                error, whole = f"{100 * (metrics['step_s'] / all_gpus['metrics']['step_s'] - 1):+.6f} %", f"{whole_s:.2f} s"
            print(
                f"| {name} | {gpus} | {summary['simulation']['simulated_gpus']} | {cpu_s:.2f} s | {cpu_s / most_s:.2f} | {memory * 1e-6:.0f} MB"
                f" | {memory / most_bytes:.2f} | {metrics['step_s']:.3f} s | {metrics['tokens_per_s_per_gpu']:.0f}"
                f" | {100 * metrics['bubble_fraction']:.1f} % | {metrics['exposed_s']['dp']:.3f} s | {error} | {whole} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
