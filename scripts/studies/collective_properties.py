#!/usr/bin/python3
"""Checks what holds of NCCL's collectives on every machine, without measured data: 1 to 8 servers with 4 to 64 NICs.

  scripts/studies/collective_properties.py                             # the whole space; hours of processor time
  scripts/studies/collective_properties.py --only 'plx_box/RTX-4090/*' # machines PLATFORM/GPU/SERVERS/NICS

  falls      more bytes take at least 0.95 of the time, except where NCCL itself changes algorithm, protocol or channels
  doubling   above 16 MiB twice the bytes take at least 1.5 times the time, within one plan of NCCL; in a chain of broadcast or
             reduce, above the chunks of 512 KiB with which all ranks and channels fill
  choice     NCCL's choice takes at most 1.5 times as long as any algorithm that can be forced

Links are fluid. tests/collective/test_collective_sizes.py runs a sample. Prints a line for each violation.
Exit status: 0 none, 1 some, 2 bad arguments.
"""

import csv
import fnmatch
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib.command_line import Parser  # noqa: E402

GPUS = {"dgx_a100": ["A100-SXM4-80GB", "A800-SXM4-80GB"], "dgx_h100": ["H100-SXM5-80GB", "H800-SXM5-80GB", "H20-SXM-96GB"],
        "dgx_b200": ["B200-SXM-180GB", "B300-SXM-270GB"], "plx_box": ["L40S", "A100-PCIe-80GB", "RTX-3090", "RTX-4090", "RTX-5090"]}
SERVERS, NICS = [1, 2, 3, 4, 8], [4, 8, 16, 32, 64]
OPERATIONS = {"all_reduce": ["ring", "tree", "nvls", "nvls_tree"], "all_gather": [], "reduce_scatter": [], "broadcast": [],
              "reduce": [], "all_to_all": ["direct", "pxn"], "send_recv": []}
SIZES = [1 << k for k in range(12, 30)]
MOST_FALL, LEAST_DOUBLING, DOUBLING_ABOVE, MOST_BEHIND = 0.05, 1.5, 16 << 20, 1.5
SERVER_GPUS, CHAIN_CHUNK = 8, 512 << 10


def machines():
    for platform, gpus in GPUS.items():
        for gpu, servers, nics in itertools.product(gpus, SERVERS, NICS):
            if servers > 1 or nics == NICS[0]:
                yield platform, gpu, servers, nics


def times(folder, executables, machine, op, algorithm=None):
    """@return rows of collectives.csv by bytes; None: not possible on this machine"""
    platform, gpu, servers, nics = machine
    scenario = {"machine": {"groups": {"node": {"gpu": gpu, "servers": servers}}, "nic": {"per_server": nics}},
                "fabric": {"fidelity": "fluid"}, "workload": {"kind": "collective", "op": op, "sizes_bytes": SIZES}}
    if algorithm:
        scenario["workload"]["algorithm"] = algorithm
    path, out = folder / "scenario.yaml", folder / (algorithm or "auto")
    path.write_text(json.dumps(scenario))
    done = subprocess.run([executables / platform, path, "--out", out], capture_output=True, text=True, check=False)
    if algorithm and done.returncode == 2:
        return None
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    with open(out / "collectives.csv", newline="") as file:
        return {int(row["bytes"]): row for row in csv.DictReader(file)}


def violations(machine, op, chosen, forced):
    """Texts of what does not hold of one operation. @param forced  rows by bytes, by algorithm"""
    ranks = SERVER_GPUS * machine[2]
    fills = {size: ranks * int(row["channels"]) * CHAIN_CHUNK if op in ("broadcast", "reduce") else 0 for size, row in chosen.items()}
    plan = {size: (row["algorithm"], row["protocol"], row["channels"]) for size, row in chosen.items()}
    time = {size: float(row["time_us"]) for size, row in chosen.items()}
    for less, more in itertools.pairwise(sorted(time)):
        if plan[less] == plan[more] and time[more] < time[less] * (1 - MOST_FALL):
            yield f"falls at {more}: {time[less]:.1f} to {time[more]:.1f} us, {' '.join(plan[more])}"
        in_proportion = plan[less] == plan[more] and less >= max(DOUBLING_ABOVE, fills[less])
        if in_proportion and time[more] < time[less] * LEAST_DOUBLING:
            yield f"doubling to {more}: {time[less]:.1f} to {time[more]:.1f} us, {' '.join(plan[more])}"
    for algorithm, rows in forced.items():
        for size, row in (rows or {}).items():
            if time[size] > float(row["time_us"]) * MOST_BEHIND:
                yield f"choice at {size}: {' '.join(plan[size])} {time[size]:.1f} us, {algorithm} {float(row['time_us']):.1f} us"


def main() -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="machines PLATFORM/GPU/SERVERS/NICS (with * and ?)")
    parser.add_argument("--op", choices=OPERATIONS, action="append", help="only these operations")
    parser.add_executables()
    options = parser.parse_args()
    found = 0
    for machine in machines():
        name = "/".join(map(str, machine))
        if not fnmatch.fnmatchcase(name, options.only):
            continue
        for op in options.op or OPERATIONS:
            with tempfile.TemporaryDirectory() as folder:
                run = (pathlib.Path(folder), options.bin.resolve(), machine, op)
                chosen = times(*run)
                forced = {algorithm: times(*run, algorithm) for algorithm in OPERATIONS[op]}
            for text in violations(machine, op, chosen, forced):
                found += 1
                print(f"{name} {op}: {text}", flush=True)
    print(f"{found} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
