#!/usr/bin/python3
"""Whether the planner's selection misses the fastest mapping: ten spaces in which every mapping that fits is simulated.

  bench/plan_spaces.py [--bin build/bin] [--out out/plan_spaces] [--only TEXT]

Each space is a model, a machine and a batch, with some axes fixed so that at most 60 mappings fit. scripts/plan.py first simulates what it
would choose, then all others. "loss" is how much longer the step of the first winner is than that of all mappings. It is meant to be 0 in
nine of ten spaces, and the rank correlation of the estimate 0.9 or more. The runs stay in --out: the same command goes on.
"""

import argparse
import json
import os
import subprocess
import sys

from scenarios import PROJECT

EVERYTHING = 1000
SMALL = {"cp": 1, "stage_layers": "even"}
PLAIN = SMALL | {"recompute": "none", "tp_overlap": "none"}
# Name, model, platform, GPU, servers, sequences, tokens, fixed axes
SPACES = (
    ("70B on 128 H100", "llama-3.1-70b", "dgx_h100", None, 16, 128, 8192, PLAIN | {"zero_stage": 1, "micro_batch": 1}),
    ("70B on 64 H100, recomputed", "llama-3.1-70b", "dgx_h100", None, 8, 128, 8192, SMALL | {"recompute": "full", "zero_stage": 1, "schedule": "1f1b", "tp_overlap": "none"}),
    ("70B on 64 H100, overlap", "llama-3.1-70b", "dgx_h100", None, 8, 64, 8192, SMALL | {"recompute": "selective", "zero_stage": 1, "micro_batch": 1, "schedule": "interleaved"}),
    ("70B on 64 L40S", "llama-3.1-70b", "plx_box", "L40S", 8, 64, 2048, PLAIN | {"zero_stage": 1, "micro_batch": 1}),
    ("8B on 8 H100", "llama-3.1-8b", "dgx_h100", None, 1, 32, 8192, PLAIN | {"schedule": "1f1b"}),
    ("8B on 16 A100, splits", "llama-3.1-8b", "dgx_a100", None, 2, 64, 4096, {"cp": 1, "recompute": "none", "tp_overlap": "none", "zero_stage": 1, "schedule": "1f1b"}),
    ("8B on 16 A100, zero bubble", "llama-3.1-8b", "dgx_a100", None, 2, 64, 4096, PLAIN | {"zero_stage": 1, "schedule": "zb_h1"}),
    ("Mixtral on 32 H100", "mixtral-8x7b", "dgx_h100", None, 4, 128, 4096, PLAIN | {"zero_stage": 1, "micro_batch": 1, "schedule": "1f1b"}),
    ("GPT 22B on 32 A100", "gpt-22b", "dgx_a100", None, 4, 64, 2048, PLAIN | {"zero_stage": 1, "micro_batch": 1}),
    ("70B on 32 B200", "llama-3.1-70b", "dgx_b200", None, 4, 64, 8192, SMALL | {"recompute": "none", "zero_stage": 1, "micro_batch": 1, "schedule": "1f1b"}),
)
COLUMNS = ("space", "legal", "fit", "simulated first", "winner", "step", "loss", "estimate off", "rank correlation")


def planned(options, space, *words):
    name, model, platform, gpu, servers, batch, tokens, fixed = space
    command = [os.path.join(PROJECT, "scripts", "plan.py"), "--model", os.path.join(PROJECT, "scenarios", "models", model + ".json"), "--platform", platform,
               "--nodes", servers, "--batch", batch, "--seq", tokens, "--no-what-if", "--json", "--bin", options.bin, "--out",
               os.path.join(options.out, name.replace(" ", "_").replace(",", "")), "--limit-s", options.limit_s, *words]
    command += ["--gpu", gpu] if gpu else []
    command += [word for axis, value in fixed.items() for word in ("--fix", f"{axis}={value}")]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"plan_spaces.py: {name}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def label(mapping):
    words = [f"{axis} {mapping[axis]}" for axis in ("tp", "ep", "pp", "dp", "virtual_stages", "micro_batch", "zero_stage") if axis == "tp" or mapping[axis] != 1]
    return " ".join([*words, *(word for word in (mapping["schedule"], mapping["tp_overlap"], mapping["stage_layers"]) if word not in ("none", "even"))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(PROJECT, "build", "bin"), help="where the executables are (default build/bin)")
    parser.add_argument("--out", default=os.path.join(PROJECT, "out", "plan_spaces"), help="folder of all runs (default out/plan_spaces)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only spaces whose name contains TEXT")
    parser.add_argument("--limit-s", type=int, default=120, metavar="S", help="leave out mappings that take longer (default 120)")
    options = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |\n| --- |" + " ---: |" * 3 + " --- |" + " ---: |" * 4)
    for space in SPACES:
        if options.only not in space[0]:
            continue
        first, whole = planned(options, space), planned(options, space, "--top", EVERYTHING)
        counts, best = whole["counts"], whole["winner"]
        print(f"| {space[0]} | {counts['legal']} | {counts['fit']} | {first['counts']['simulated']} | {label(best['mapping'])} | {best['step_s']:.3f} s"
              f" | {100 * (first['winner']['step_s'] / best['step_s'] - 1):.1f} % | {100 * whole['estimate_error']['mean_ratio']:.1f} %"
              f" | {whole['rank_correlation']:.3f} |", flush=True)


if __name__ == "__main__":
    main()
