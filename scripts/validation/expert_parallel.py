"""Rows of dispatch and combine of mixtures of experts (DeepEP) as all-to-alls of `workload.kind: collective`.

Rules, by column:
  ep_ranks, system   ranks, eight in a server, with the network that the system names
  config             tokens of a rank, hidden size, and experts of a token: "128 tok/batch,7168 hidden,top8"; "top4 groups" of the router's
                     eight groups
  kernel             low-latency: a rank sends a token once for each of its experts, and the profiler times the kernels alone; normal:
                     once for each rank that has one of them, over RDMA once for each server. FP8 numbers have a scale of 4 bytes for
                     128 of them
  metric             latency; bottleneck_bw_NVLink, ..._RDMA: bytes of all tokens, also of those that stay at home, over time.
                     The latency of normal kernels over several servers is that of their RDMA
Tokens are equally many for all ranks. Sizes are those of nccl-tests: bytes of a rank for all ranks, its own included.
"""

import math
import re

from . import collectives, systems
from .experiment import Experiment, metric_at
from .rows import BYTES_PER_SECOND, SECONDS, Row, Unmapped

ELEMENT_BYTES = {"FP8": 1 + 4 / 128, "BF16": 2}
ROUTER_GROUPS = 8  # of DeepSeek-V3, which DeepEP's benchmarks follow
ALIGNMENT = 16     # bytes of a rank's share
GB = 1e9


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    kind = re.search(r"(low.latency|normal) (dispatch|combine) (\w+)", row["kernel"], re.IGNORECASE)
    if not kind or kind.group(3).upper() not in ELEMENT_BYTES:
        raise Unmapped(f"kernel '{row['kernel']}' is no low-latency or normal dispatch or combine of {' or '.join(ELEMENT_BYTES)}")
    if row["metric"] != "latency" and not row["metric"].startswith("bottleneck_bw"):
        raise Unmapped(f"metric '{row['metric']}' is neither latency nor bottleneck_bw")
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    ranks = row.integer("ep_ranks") or 0
    if ranks < 2:
        raise Unmapped(f"ep_ranks is '{row['ep_ranks']}': an exchange needs two")
    servers = systems.servers_of(platform, ranks, None)
    normal = kind.group(1).lower() == "normal"
    homes = (ranks if servers == 1 or row["metric"].endswith("NVLink") else servers) if normal else None
    token_bytes, copies = _token(row, ELEMENT_BYTES[kind.group(3).upper()], homes)
    share = round(token_bytes * copies / ranks / ALIGNMENT) * ALIGNMENT
    size = share * ranks
    workload = {"kind": "collective", "op": "all_to_all", "library": "nccl", "in_graph": True}
    if ranks % servers:
        raise Unmapped(f"{ranks} ranks do not spread evenly over {servers} servers")
    if ranks < servers * systems.gpus_per_server(platform):
        workload["ranks_per_server"] = ranks // servers
    scenario = {"machine": systems.machine(row, platform, gpu, servers), "fabric": collectives.fabric_of(size, servers), "workload": workload}
    latency = row["metric"] == "latency"
    metric, unit = ("time_s", row.scale(SECONDS)) if latency else ("algbw_gb_per_s", row.scale(BYTES_PER_SECOND) / GB)
    surroundings = ", in a step" if re.search("training step", row["config"]) else ""
    return Experiment(f"{kind.group(2).lower()}, {'normal' if normal else 'low latency'}{surroundings}", platform, scenario, size,
                      lambda result: metric_at(result, metric, size), unit, size * ranks)


def _token(row, element_bytes, homes):
    """@return bytes of a rank's tokens, and how often each of them is sent: once for each expert, or for each of `homes` that has one"""
    tokens, hidden, experts = (re.search(pattern, row["config"]) for pattern in (r"(\d+) tok", r"(\d+) hidden", r"top(\d+)(?! ?groups)\b"))
    if not tokens or not hidden or not experts:
        raise Unmapped("config names no tokens, hidden size and experts of a token")
    copies = int(experts.group(1))
    if homes:
        groups = re.search(r"top(\d+) ?groups", row["config"])
        copies = _reached(homes, copies, int(groups.group(1)) if groups else ROUTER_GROUPS)
    return int(tokens.group(1)) * int(hidden.group(1)) * element_bytes, copies


def _reached(homes, experts, groups):
    """@return the expected number of homes with at least one of a token's `experts`, which all are in `groups` of the router's groups"""
    if homes > ROUTER_GROUPS:
        return homes * (1 - (1 - 1 / homes) ** experts)  # a group has several homes
    own = ROUTER_GROUPS // homes
    draws = math.comb(ROUTER_GROUPS, groups)
    missed = sum(math.comb(own, hit) * math.comb(ROUTER_GROUPS - own, groups - hit) / draws * (1 - hit / groups) ** experts
                 for hit in range(min(own, groups) + 1))
    return homes * (1 - missed)
