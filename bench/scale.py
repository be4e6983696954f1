#!/usr/bin/python3
"""What folding saves, and what training steps on up to 16 384 GPUs cost.

  bench/scale.py [--bin build/bin] [--most-gpus N]

Llama-3.1-70B is meant to take less than 10 s of processor time on 128 GPUs and, folded, on 1024; Llama-3.1-405B on 16 384
GPUs less than 60 s and 1 GB. "error" is the difference of the step's time from the whole machine's, which is simulated
on at most N GPUs (default 128). A second table has this error where messages cross spines: Llama-3.1-8B, tp 8, with one
micro-batch for each replica, or with two pipeline stages and two micro-batches, so that messages take much of the step.
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


# By the servers on a leaf; with rails, a leaf has one NIC of each of eight times as many.
def leaves(servers, spines, kind="leaf_spine"):
    network = {"kind": kind, "spines": spines}
    return {"machine.overrides.ib_switch.ports": 16 * servers, "machine.network": "{" + ", ".join(f"{k}: {v}" for k, v in network.items()) + "}"}


NETWORKS = [  # name, pipeline stages, overrides
    ("1 server on a leaf", 1, leaves(1, 8)),
    ("1 server on a leaf, 4 : 1", 1, leaves(1, 2)),
    ("2 servers on a leaf, 2 : 1", 2, leaves(2, 8)),
    ("4 servers on a leaf, 4 : 1", 1, leaves(4, 8)),
    ("4 servers on a leaf, 4 : 1", 2, leaves(4, 8)),
    ("rails of 8 servers, 2 : 1", 1, leaves(1, 4, "rail_optimized")),
]
SPINES_GPUS = (16, 32, 64, 128)


def run(options, directory, name, sets, fold):
    scenario = os.path.join(PROJECT, "scenarios", "training", f"{name}.yaml")
    command = [os.path.join(options.bin, "dgx_h100"), scenario, "--jobs", "none"]
    sets = sets | {"simulation.fold": fold}
    return measure(command + [word for key, value in sets.items() for word in ("--set", f"{key}={value}")], directory)


def over_spines(options, scratch):
    print("| network | pp | " + " | ".join(f"{gpus} GPUs" for gpus in SPINES_GPUS) + " |\n| --- |" + " ---: |" * (1 + len(SPINES_GPUS)))
    for name, pp, network in NETWORKS:
        errors = []
        for gpus in SPINES_GPUS:
            dp = gpus // 8 // pp
            sets = network | {"machine.groups.node.servers": gpus // 8, "workload.tp": 8, "workload.pp": pp, "workload.global_batch": dp * pp}
            if dp == 1 or gpus > options.most_gpus:
                errors.append("")
                continue
            part, whole = (run(options, os.path.join(scratch, fold), "llama3_8b_8", sets, fold)[2]["metrics"]["step_s"] for fold in ("require", "off"))
            errors.append(f"{100 * (part / whole - 1):+.2f} % of {1e3 * whole:.0f} ms")
        print(f"| {name} | {pp} | " + " | ".join(errors) + " |", flush=True)


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
        print()
        over_spines(options, scratch)


if __name__ == "__main__":
    main()
