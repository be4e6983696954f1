#!/usr/bin/python3
"""What a training step costs on this computer, by number of GPUs and of micro-batches.

  bench/training.py [--bin build/bin]

The step is that of scenarios/training/llama3_70b_128.yaml; with fewer than 32 GPUs it is Llama-3.1-8B on tp 8. The 128
GPUs are meant to stay within 10 s of processor time and 500 MB. "error" is the difference of the step's time from a run
with trains on all links. Memory is meant not to grow with micro-batches.
"""

import argparse
import os
import tempfile

from scenarios import PROJECT, measure

SCENARIO = os.path.join(PROJECT, "scenarios", "training", "llama3_70b_128.yaml")
SMALL = os.path.join(PROJECT, "scenarios", "models", "llama-3.1-8b.json")
MOST_SECONDS, MOST_BYTES = 10.0, 500e6
GPUS_PER_SERVER = 8


def sets_of(gpus, micro_batches, fidelity):
    pp = min(4, gpus // GPUS_PER_SERVER)
    dp = gpus // (GPUS_PER_SERVER * pp)
    sets = {"machine.groups.node.servers": gpus // GPUS_PER_SERVER, "workload.pp": pp, "workload.global_batch": dp * micro_batches,
            "fabric.fidelity": fidelity}
    return sets | ({"model.config": SMALL} if gpus < 32 else {})


def run(options, directory, gpus, micro_batches, fidelity="auto"):
    sets = sets_of(gpus, micro_batches, fidelity)
    command = [os.path.join(options.bin, "dgx_h100"), SCENARIO, "--jobs", "none"]
    return measure(command + [word for key, value in sets.items() for word in ("--set", f"{key}={value}")], directory)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(PROJECT, "build", "bin"), help="where the executables are (default build/bin)")
    options = parser.parse_args()
    print("| GPUs | micro-batches | processor | of 10 s | wall | memory | of 500 MB | replayed | step | error |")
    print("| ---: |" + " ---: |" * 9)
    with tempfile.TemporaryDirectory() as scratch:
        for gpus, micro_batches in [(8, 32), (16, 32), (32, 32), (128, 32), (512, 32), (32, 16), (32, 64), (32, 256)]:
            cpu_s, wall_s, summary = run(options, os.path.join(scratch, "auto"), gpus, micro_batches)
            simulator, step_s = summary["simulator"], summary["metrics"]["step_s"]
            error = ""
            if gpus <= 16:
                trains = run(options, os.path.join(scratch, "train"), gpus, micro_batches, "train")[2]["metrics"]["step_s"]
                error = f"{100 * (step_s / trains - 1):+.3f} %"
            memory = simulator["peak_rss_bytes"]
            print(
                f"| {gpus} | {micro_batches} | {cpu_s:.2f} s | {cpu_s / MOST_SECONDS:.2f} | {wall_s:.2f} s | {memory * 1e-6:.0f} MB"
                f" | {memory / MOST_BYTES:.2f} | {100 * simulator['replayed_transactions'] / max(1, simulator['transactions']):.1f} %"
                f" | {step_s:.3f} s | {error} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
