#!/usr/bin/python3
"""Checks what holds of NCCL's collectives on every machine, without measured data: 1 to 8 servers with 1 to 64 NICs, from one GPU in
each server to all.

  scripts/studies/collective_properties.py --sample 100 --seed 7         # some machines, operations and sizes; minutes
  scripts/studies/collective_properties.py --only 'plx_box/RTX-4090/*'   # machines PLATFORM/GPU/SERVERS/NICS/GPUS IN EACH SERVER

  falls      more bytes take at least 0.95 of the time, also where NCCL's choice changes. Where NCCL adds channels, the bytes of a
             channel count
  doubling   above 16 MiB twice the bytes take at least 1.5 times the time within one plan, without that of its smallest vector.
             Chains, trees and in-switch trees: above the chunks with which they fill
  choice     NCCL's choice takes at most 1.5 times as long as any algorithm and protocol that NCCL has and that can be forced

NCCL's tuner itself does not know everything of what it chooses (Times.unplanned_us says what, with sources). The first and the last
are checked without that time. Links are fluid. tests/collective/test_collective_sizes.py runs a sample. Prints a line for each
violation.
Exit status: 0 none, 1 some, 2 bad arguments.
"""

import csv
import fnmatch
import itertools
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib.command_line import Parser, positive  # noqa: E402


class Platform(NamedTuple):
    gpus: list[str]
    gpus_per_server: int = 8
    nics: tuple[int, ...] = (4, 8, 16, 32, 64)
    nvlink: bool = True
    blackwell: bool = False


PLATFORMS = {"dgx_a100": Platform(["A100-SXM4-80GB", "A800-SXM4-80GB"]),
             "dgx_h100": Platform(["H100-SXM5-80GB", "H800-SXM5-80GB", "H20-SXM-96GB"]),
             "dgx_b200": Platform(["B200-SXM-180GB", "B300-SXM-270GB"], blackwell=True),
             "hgx_a100_4gpu": Platform(["A100-SXM4-80GB"], 4, (1, 2, 4, 8)), "hgx_h100_4gpu": Platform(["H100-SXM5-80GB"], 4, (1, 2, 4, 8)),
             "plx_box": Platform(["L40S", "A100-PCIe-80GB", "RTX-3090", "RTX-4090", "RTX-5090", "RTX-PRO-6000-Blackwell-Server"],
                                 nics=(1, 2, 4, 8), nvlink=False),
             "gb200_nvl72": Platform(["GB200-186GB"], 72, (72,), blackwell=True)}
SERVERS, RANKS = (1, 2, 3, 4, 8), (1, 2, 4, 8)
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv")
MOST_FALL, LEAST_DOUBLING, DOUBLING_ABOVE, MOST_BEHIND = 0.05, 1.5, 16 << 20, 1.5
SLOT, HEAD_CHUNK, MOST_HEADS = 512 << 10, 128 << 10, 32  # of Simple, in chains and trees, and in the switches
# NCCL plans 0.6 us for a step of LL over NVLink on every GPU (src/graph/tuning.cc, hwLatencies). On Blackwell a step takes 1.5 us:
# all-reduces of 16 KiB in 15 to 29 us on 4 GB200 and 8 B200 (aiconfigurator tables), of which 7 us are the launch. So NCCL itself
# stays with rings in LL for too long there.
PLANNED_LL_STEP_US, BLACKWELL_LL_STEP_US = 0.6, 1.5
# NCCL plans LL with half of the rate of the links. Where its receiver polls lines in host memory, each takes a read over PCIe. On eight
# RTX PRO 6000 rings in LL are measured to fall behind in this way: 512 KiB take 156 us and 1 MiB in Simple 132, gathers 91 and 75
# (aiconfigurator tables), where the model has 101 and 56 us in Simple. So NCCL stays with LL up to twice the time of Simple.
HOST_LL_SHARE = 0.5
# Over servers NCCL plans LL with up to 39 GB/s for each of two servers and 20 GB/s for each of more (src/graph/tuning.cc, llMaxBws),
# whatever the number of NICs and GPUs. Their proxies check the lines, each 2.5 GB/s (models/collective/nccl_tables.cpp). A chain fills
# with a line of each channel.
TWO_LL_BYTES_PER_US, MORE_LL_BYTES_PER_US, PROXY_LL_BYTES_PER_US, LL_LINE = 39e3, 20e3, 2.5e3, 4 << 10


class Machine(NamedTuple):
    platform: str
    gpu: str
    servers: int = 1
    nics: int = 4
    ranks_per_server: int = 0  # 0: every GPU

    @property
    def members(self):
        return self.servers * (self.ranks_per_server or PLATFORMS[self.platform].gpus_per_server)

    @property
    def polls_host(self):
        """Lines of LL are in host memory: no peer access, or several CPUs between the GPUs."""
        return not PLATFORMS[self.platform].nvlink and self.members > self.servers

    def __str__(self):
        return "/".join(map(str, self))


class Forced(NamedTuple):
    algorithm: str
    protocol: str | None = None

    @property
    def most_bytes(self):
        """LL carries flags as wide as its data: it is never the best choice for large vectors, and takes long to simulate."""
        return 1 << 20 if self.protocol == "ll" else sys.maxsize


class Times:
    """Runs of one machine and operation. rows: those of collectives.csv by bytes."""

    def __init__(self, executables, machine, operation, fidelity="fluid"):
        self.executables, self.machine, self.operation, self.fidelity = executables, machine, operation, fidelity

    def rows(self, sizes, forced=None):
        """@return None: not possible on this machine"""
        machine = self.machine
        workload = {"kind": "collective", "op": self.operation, "sizes_bytes": sizes}
        if machine.ranks_per_server:
            workload["ranks_per_server"] = machine.ranks_per_server
        if forced:
            workload |= {key: value for key, value in forced._asdict().items() if value}
        scenario = {"machine": {"groups": {"node": {"gpu": machine.gpu, "servers": machine.servers}}, "nic": {"per_server": machine.nics}},
                    "fabric": {"fidelity": self.fidelity}, "workload": workload}
        with tempfile.TemporaryDirectory() as folder:
            path, out = pathlib.Path(folder) / "scenario.yaml", pathlib.Path(folder) / "out"
            path.write_text(json.dumps(scenario))
            done = subprocess.run([self.executables / machine.platform, path, "--out", out, "--quiet"], capture_output=True, text=True,
                                  check=False)
            if forced and done.returncode == 2:
                return None
            if done.returncode:
                raise RuntimeError(f"{machine} {self.operation}: {done.stderr.strip()}")
            with open(out / "collectives.csv", newline="") as file:
                return {int(row["bytes"]): row for row in csv.DictReader(file)}

    def violations(self, sizes, every=1):
        """Texts of what does not hold. @param every  1: all sizes are forced as well, 2: every second one"""
        chosen, latency_us = self.rows(sizes), {}
        for forced in forced_plans(self.machine, self.operation):
            rows = self.rows([size for size in sizes[::every] if size <= forced.most_bytes], forced) or {}
            for row in list(rows.values())[:1]:
                latency_us[plan_of(row)[:2]] = float(row["time_us"])
            yield from self.of_choice(chosen, rows)
        yield from self.of_sizes(chosen, latency_us)

    def of_sizes(self, chosen, latency_us):
        """@param latency_us  of the smallest vector, by algorithm and protocol"""
        for (less, before), (more, after) in itertools.pairwise(sorted(chosen.items())):
            time, then = float(before["time_us"]), float(after["time_us"])
            text = f"{less} to {more}: {time:.1f} us {' '.join(plan_of(before))}, {then:.1f} us {' '.join(plan_of(after))}"
            of_channel = more / int(after["channels"]) / (less / int(before["channels"]))
            planned = time - self.unplanned_us(before)
            if plan_of(before) == plan_of(after) and not self.machine.polls_host:  # where lines are slow, the number of threads counts
                planned = time
            elif plan_of(before)[:2] == plan_of(after)[:2]:
                planned = min(planned, time * of_channel)
            if then < planned * (1 - MOST_FALL):
                yield f"falls {text}"
            first = latency_us.get(plan_of(before)[:2], 0)
            growth = 1 + (LEAST_DOUBLING - 1) * (more / less - 1)
            if plan_of(before) == plan_of(after) and less >= self.proportional_from(before) and \
                    then - first < (time - first) * growth:
                yield f"doubling {text}"

    def of_choice(self, chosen, rows):
        for size, row in rows.items():
            time, best = float(chosen[size]["time_us"]), float(row["time_us"])
            if time - self.unplanned_us(chosen[size]) > best * MOST_BEHIND:
                yield f"choice at {size}: {time:.1f} us {' '.join(plan_of(chosen[size]))}, {best:.1f} us {' '.join(plan_of(row))}"

    def unplanned_us(self, row):
        """What NCCL does not know of the time of what it chose."""
        time = float(row["time_us"])
        unplanned = 0
        if row["protocol"] == "ll":
            unplanned = self.unplanned_ll_us(row, time)
        elif row["protocol"] == "simple":
            # NCCL plans chains without the slots with which they fill ("waiting for proper chunk modeling", src/graph/tuning.cc), and
            # trees with a share of their bandwidth by size only.
            fills = self.fill_bytes(row)
            unplanned = time * fills / (int(row["bytes"]) + fills)
        return min(unplanned, time)

    def unplanned_ll_us(self, row, time):
        machine, rounds, size = self.machine, 2 if self.operation == "all_reduce" else 1, int(row["bytes"])
        polled_us = time * HOST_LL_SHARE if machine.polls_host else 0
        if machine.servers == 1:
            slow_steps = (machine.members - 1) * rounds if row["algorithm"] == "ring" and PLATFORMS[machine.platform].blackwell else 0
            return polled_us + slow_steps * (BLACKWELL_LL_STEP_US - PLANNED_LL_STEP_US)
        if self.operation in ("all_to_all", "send_recv"):  # planned by the size of parts alone
            return polled_us + size / PROXY_LL_BYTES_PER_US
        if row["algorithm"] == "tree" and machine.servers > 2:
            rounds = 3  # up, and down to two children
        proxies = min(machine.nics, machine.members // machine.servers)
        channels = int(row["channels"])
        share = -(-channels // proxies) / channels  # of the busiest proxy
        fill = (machine.servers - 1) * min(size, LL_LINE * channels) if self.operation in ("broadcast", "reduce") else 0
        planned = TWO_LL_BYTES_PER_US if machine.servers == 2 else MORE_LL_BYTES_PER_US
        return polled_us + max(0, (rounds * size + fill) * share / PROXY_LL_BYTES_PER_US - rounds * size / planned)

    def proportional_from(self, row):
        """Bytes above those that fill what works at once; of nvls_tree, the heads of all channels on the way up and down."""
        heads = min(MOST_HEADS, self.machine.members // self.machine.servers)
        tree = 2 * heads * int(row["channels"]) * HEAD_CHUNK if row["algorithm"] == "nvls_tree" else 0
        return max(DOUBLING_ABOVE, self.fill_bytes(row), tree)

    def fill_bytes(self, row):
        """Bytes that fill a chain or a tree in Simple."""
        machine = self.machine
        depth = 0
        if self.operation in ("broadcast", "reduce"):
            depth = machine.members
        elif row["algorithm"] == "tree":
            depth = 2 * (machine.members // machine.servers + int(math.log2(machine.servers)))
        return depth * int(row["channels"]) * SLOT


def plan_of(row):
    return row["algorithm"], row["protocol"], row["channels"]


def forced_plans(machine, operation):
    """What NCCL has. It does not use LL128 without NVLink: a store of 128 bytes is not kept together there."""
    if operation == "all_to_all":
        return [Forced("direct"), Forced("pxn")]
    if operation == "send_recv":
        return []
    protocols = ["simple", "ll"] + (["ll128"] if PLATFORMS[machine.platform].nvlink else [])
    plans = [Forced("ring", protocol) for protocol in protocols]
    if operation == "all_reduce":
        plans += [Forced("tree", protocol) for protocol in protocols] + [Forced("nvls"), Forced("nvls_tree")]
    return plans


def machines():
    for name, platform in PLATFORMS.items():
        for gpu, servers, nics, ranks in itertools.product(platform.gpus, SERVERS, platform.nics, RANKS):
            if servers > 1 or (nics == platform.nics[0] and ranks > 1):
                if ranks <= platform.gpus_per_server:
                    yield Machine(name, gpu, servers, nics, ranks)


def sizes_of(least, most, draw=None):
    """Powers of two, or by chance a number of KiB from each power of two on."""
    return [1024 * int((1 << k) * (draw.uniform(1, 2) if draw else 1)) for k in range(least, most)]


def sample(chosen, operations, count, seed, most_kib=65536):
    """Machine, operation and sizes, by chance. Between powers of two, and with few large messages: they take longest."""
    draw = random.Random(seed)
    for _ in range(count if chosen else 0):
        machine, operation = draw.choice(chosen), draw.choice(operations)
        most = 4096 if machine.members > 16 and operation == "all_to_all" else most_kib
        yield machine, operation, sizes_of(2, min(most, most_kib).bit_length() - 1, draw)


def cases(options):
    chosen = [machine for machine in machines() if fnmatch.fnmatchcase(str(machine), options.only)]
    operations = options.op or OPERATIONS
    if options.sample:
        return sample(chosen, operations, options.sample, options.seed)
    return ((machine, operation, sizes_of(2, 20)) for machine, operation in itertools.product(chosen, operations))


def main() -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="machines PLATFORM/GPU/SERVERS/NICS/GPUS (with * and ?)")
    parser.add_argument("--op", choices=OPERATIONS, action="append", help="only these operations")
    parser.add_argument("--sample", type=positive, metavar="N", help="N machines with an operation each, by chance")
    parser.add_argument("--seed", type=positive, default=1, metavar="N", help="of the sample (default 1)")
    parser.add_executables()
    options = parser.parse_args()
    found = 0
    for machine, operation, sizes in cases(options):
        for text in Times(options.bin.resolve(), machine, operation).violations(sizes):
            found += 1
            print(f"{machine} {operation}: {text}", flush=True)
    print(f"{found} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
