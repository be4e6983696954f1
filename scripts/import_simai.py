#!/usr/bin/python3
"""Writes a scenario from a topology file of SimAI, and from a workload in its text format.

  scripts/import_simai.py Spectrum-X_16g_8gps_400Gbps_H100 workload.txt --out simai.yaml
  build/bin/dgx_h100 simai.yaml

A topology becomes a machine if it is made of what Railyard has: servers of eight GPUs of a known type, each GPU with NVSwitches of its own
server and with one NIC; NICs on one switch, or on one leaf for each rail, and leaves on spines. Any other line is refused with its
number. Rates of NVLink, NICs and cables are taken over. Latencies and error rates are the platform's own, because SimAI's links have no
packets and credits: stderr says so.
"""

import argparse
import collections
import math
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from lib import written
from lib.command_line import Parser, one_line

try:
    import yaml
except ImportError as missing:
    sys.exit(f"import_simai.py: error: {missing}; it needs the Debian package python3-yaml")

SERVER_GPUS = 8
BITS = {"Gbps": 1.0, "Mbps": 1e-3, "Tbps": 1e3}  # in Gbit/s
NVLINK = {"A100": 12, "A800": 8, "H100": 18, "H800": 8, "H20": 18}  # links of a GPU (NVIDIA's datasheets)
PLATFORMS = {"A100": ("dgx_a100", None), "A800": ("dgx_a100", "A800-SXM4-80GB"), "H100": ("dgx_h100", None), "H800": ("dgx_h100", "H800-SXM5-80GB"),
             "H20": ("dgx_h100", "H20-SXM-96GB")}


class TopologyError(Exception):
    """A topology that Railyard does not have. The text contains the place."""


class Link(NamedTuple):
    line: int
    source: int
    target: int
    gb_per_s: float


class Topology:
    """A file: its first line, its switches, its links."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), 1) if line.split()]
        if len(lines) < 3:
            raise self.error(1, "expected counts, switches and links")
        words = lines[0][1]
        if len(words) != 6:
            raise self.error(1, f"expected nodes, GPUs a server, NVSwitches, switches, links and the type of GPU, got {len(words)} words")
        nodes, self.server_gpus, nvswitches, switches, links = (self.whole(1, word) for word in words[:5])
        self.gpu_type = words[5]
        self.gpus = nodes - nvswitches - switches
        listed = [self.whole(lines[1][0], word) for word in lines[1][1]]
        if listed != list(range(self.gpus, nodes)):
            raise self.error(lines[1][0], f"expected the numbers of all switches, {self.gpus} to {nodes - 1}")
        self.nvswitches = set(listed[:nvswitches])
        self.links = [self.link(number, words, nodes) for number, words in lines[2:]]
        if len(self.links) != links:
            raise self.error(lines[-1][0], f"{len(self.links)} links; the first line says {links}")

    def error(self, line: int, what: str) -> TopologyError:
        return TopologyError(f"{self.path}:{line}: error: {what}")

    def whole(self, line: int, word: str) -> int:
        if not word.isdigit() or len(word) > 9:
            raise self.error(line, f"'{word}' is not a number")
        return int(word)

    def link(self, line: int, words: list[str], nodes: int) -> Link:
        if len(words) != 5:
            raise self.error(line, f"a link has two ends, a rate, a latency and an error rate, got {len(words)} words")
        source, target = self.whole(line, words[0]), self.whole(line, words[1])
        if max(source, target) >= nodes:
            raise self.error(line, f"no node {max(source, target)}; nodes are 0 to {nodes - 1}")
        rate = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([GMT]bps)", words[2])
        if not rate or float(rate[1]) == 0:
            raise self.error(line, f"'{words[2]}' is not a rate, as 400Gbps")
        return Link(line, source, target, float(rate[1]) * BITS[rate[2]] / 8)


def one_rate(topology: Topology, links: list[Link], what: str) -> float:
    for link in links:
        if not math.isclose(link.gb_per_s, links[0].gb_per_s):
            raise topology.error(link.line, f"{what} have the same rate in Railyard; the first has {links[0].gb_per_s:g} GB/s, this one {link.gb_per_s:g}")
    return links[0].gb_per_s


def nvlink_gb_per_s(topology: Topology, nvlinks: list[Link]) -> float:
    """Rate of a GPU in one direction."""
    switches: dict[int, int] = {}
    for link in nvlinks:
        server = link.source // SERVER_GPUS
        if switches.setdefault(link.target, server) != server:
            raise topology.error(link.line, f"GPU {link.source} is on an NVSwitch of server {switches[link.target]}; NVSwitches serve one server")
    count = collections.Counter(link.source for link in nvlinks)
    for gpu in range(topology.gpus):
        if count[gpu] != count[0]:
            raise topology.error(nvlinks[0].line, f"GPU {gpu} has {count[gpu]} links to NVSwitches, GPU 0 has {count[0]}")
    return count[0] * one_rate(topology, nvlinks, "links to NVSwitches")


def network_of(topology: Topology, nics: list[Link], uplinks: list[Link]) -> dict:
    leaf_of: dict[int, int] = {}
    for link in nics:
        if link.source in leaf_of:
            raise topology.error(link.line, f"GPU {link.source} has a second NIC; Railyard's servers have one for each GPU")
        leaf_of[link.source] = link.target
    for gpu in range(topology.gpus):
        if gpu not in leaf_of:
            raise topology.error(nics[0].line if nics else 1, f"GPU {gpu} has no NIC")
    leaves = sorted(set(leaf_of.values()))
    if not uplinks and len(leaves) == 1:
        return {"kind": "single_switch"}
    for link in nics:
        if leaf_of[link.source] != leaf_of[link.source % SERVER_GPUS]:
            raise topology.error(link.line, f"GPU {link.source} is on another leaf than GPU {link.source % SERVER_GPUS}; accepted: one leaf for each rail")
    spines = {link.target for link in uplinks}
    for link in uplinks:
        if link.source not in leaves or link.target in leaves:
            raise topology.error(link.line, "not a link from a leaf to a spine; accepted: two tiers")
    missing = {(leaf, spine) for leaf in leaves for spine in spines} - {(link.source, link.target) for link in uplinks}
    if missing:
        leaf, spine = min(missing)
        raise topology.error(uplinks[-1].line, f"leaf {leaf} has no link to spine {spine}; accepted: each leaf to each spine")
    network: dict = {"kind": "rail_optimized"}
    return network | ({"spines": len(spines)} if spines else {})


def machine_of(topology: Topology) -> tuple[str, dict]:
    if topology.gpu_type not in PLATFORMS:
        raise topology.error(1, f"GPUs of type {topology.gpu_type}; accepted: {', '.join(PLATFORMS)}")
    if topology.server_gpus != SERVER_GPUS or topology.gpus <= 0 or topology.gpus % SERVER_GPUS != 0:
        raise topology.error(1, f"{topology.gpus} GPUs, {topology.server_gpus} in a server; accepted: servers of {SERVER_GPUS}")
    kinds: dict[str, list[Link]] = {"nvlink": [], "nic": [], "uplink": []}
    for link in topology.links:
        if link.source >= topology.gpus:
            kinds["uplink"].append(link)
        elif link.target in topology.nvswitches:
            kinds["nvlink"].append(link)
        elif link.target >= topology.gpus:
            kinds["nic"].append(link)
        else:
            raise topology.error(link.line, f"GPUs {link.source} and {link.target} have a link; Railyard's GPUs meet at NVSwitches")
    if not kinds["nvlink"]:
        raise topology.error(1, "no GPU has a link to an NVSwitch")
    platform, gpu = PLATFORMS[topology.gpu_type]
    overrides: dict = {"gpu": {"nvlink": {"gb_per_s": round(nvlink_gb_per_s(topology, kinds["nvlink"]) / NVLINK[topology.gpu_type], 6)}}}
    machine: dict = {"groups": {"node": {"servers": topology.gpus // SERVER_GPUS} | ({"gpu": gpu} if gpu else {})}}
    if topology.gpus > SERVER_GPUS or kinds["nic"]:
        machine["network"] = network_of(topology, kinds["nic"], kinds["uplink"])
        rate = one_rate(topology, [*kinds["nic"], *kinds["uplink"]], "NICs and cables")
        overrides |= {"nic": {"gb_per_s": rate}, "ib_cable": {"gb_per_s": rate}}
    return platform, machine | {"overrides": overrides}


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("topology", type=pathlib.Path, metavar="TOPOLOGY", help="topology file of SimAI")
    parser.add_argument("workload", type=pathlib.Path, metavar="WORKLOAD", help="workload in SimAI's text format")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE", help="scenario to write")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    with one_line("import_simai.py"), one_line("import_simai.py", TopologyError, complete=True):
        platform, machine = machine_of(Topology(options.topology))
        scenario = {"schema_version": 1, "platform": platform, "machine": machine, "fabric": {"fidelity": "fluid"},
                    "workload": {"kind": "trace", "format": "simai", "file": str(options.workload.resolve())}}
        written.text(options.out, f"# From {options.topology.name} and {options.workload.name} of SimAI.\n" + yaml.safe_dump(scenario, sort_keys=False))
        print("import_simai.py: latencies and error rates are the platform's own", file=sys.stderr)


if __name__ == "__main__":
    main()
