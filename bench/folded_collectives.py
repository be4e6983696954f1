#!/usr/bin/python3
"""What folding saves in collectives of servers that are alike, and how it differs from the whole machine.

  bench/folded_collectives.py [--bin build/bin] [--most-servers N]

DGX H100, leaves of four servers, fluid links. Differences of the time of 4 MiB, 64 MiB and 256 MiB from the whole machine's, which is simulated
on at most N servers (default 32); then 256 servers, folded: 2048 ranks are meant to take less than 30 s of processor time.
"""

import argparse
import os
import tempfile

from scenarios import PROJECT, measure

MIB = 1 << 20
# Name, overrides.
COLLECTIVES = [
    ("all-gather, ring", {"op": "all_gather"}),
    ("all-to-all, pxn", {"op": "all_to_all"}),
    ("all-to-all, direct", {"op": "all_to_all", "algorithm": "direct"}),
    ("broadcast, ring", {"op": "broadcast"}),
    ("all-reduce, ring", {"algorithm": "ring"}),
    ("all-reduce, tree", {"algorithm": "tree"}),
    ("all-reduce, nvls_tree", {"algorithm": "nvls_tree"}),
]
SERVERS = (4, 8, 16, 32)
SIZES = (4 * MIB, 64 * MIB, 256 * MIB)
LARGE_SERVERS, LARGE_BYTES = 256, (64 * MIB, 1024 * MIB, 8192 * MIB)
MEANT_S = 30


def run(options, directory, servers, sizes, keys, fold, network="leaf_spine"):
    sets = {f"workload.{key}": value for key, value in keys.items()} | {
        "machine.groups.node.servers": servers, "machine.network.kind": network,
        "machine.overrides.ib_switch.ports": 1024 if network == "single_switch" else 64,
        "fabric.fidelity": "fluid", "simulation.fold": fold, "workload.sizes_bytes": "[" + ", ".join(map(str, sizes)) + "]"}
    command = [os.path.join(options.bin, "dgx_h100"), os.path.join(PROJECT, "scenarios", "nccl_tests_dgx_h100.yaml"), "--jobs", "none"]
    return measure(command + [word for key, value in sets.items() for word in ("--set", f"{key}={value}")], directory)


def times(measured):
    return list(measured[2]["metrics"]["time_s"].values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(PROJECT, "build", "bin"), help="where the executables are (default build/bin)")
    parser.add_argument("--most-servers", type=int, default=32, help="largest machine that is also simulated as a whole (default 32)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for network in ("single_switch", "leaf_spine"):
            print(f"| {network} | " + " | ".join(f"{servers} servers" for servers in SERVERS) + " |\n| --- |" + " ---: |" * len(SERVERS))
            for name, keys in COLLECTIVES:
                cells = []
                for servers in SERVERS:
                    if servers > options.most_servers:
                        cells.append("")
                        continue
                    part, whole = (times(run(options, os.path.join(scratch, fold), servers, SIZES, keys, fold, network)) for fold in ("require", "off"))
                    cells.append(", ".join(f"{100 * (a / b - 1):+.1f}" for a, b in zip(part, whole)) + " %")
                print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
            print()
        print("| 2048 ranks | bytes | processor | of bound | memory |\n| --- | ---: | ---: | ---: | ---: |")
        for name, keys in (("all-gather", {"op": "all_gather"}), ("all-reduce", {})):
            for size in LARGE_BYTES:
                cpu_s, _, summary = run(options, os.path.join(scratch, "large"), LARGE_SERVERS, [size], keys, "require")
                memory = summary["simulator"]["peak_rss_bytes"]
                print(f"| {name} | {size} | {cpu_s:.2f} s | {cpu_s / MEANT_S:.2f} | {memory * 1e-6:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
