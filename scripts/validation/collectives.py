"""Rows of collective measurements (nccl-tests and kernels of serving engines) as scenarios of `workload.kind: collective`.

Rules, by column:
  n_gpus, nodes, devices_per_node   ranks; the first k GPUs of each server. Without `nodes`, as few servers as hold them. Trays of a rack are
                                    no servers: above 72 GPUs, servers are racks
  op                                the operation; sizes are nccl-tests' (all-gather and reduce-scatter: the whole buffer)
  bytes                             message size. A bandwidth without it is the peak of a sweep: taken at 1 GiB
  library, kernel, algo             whose all-reduce: NCCL's, or that of vLLM, SGLang or TensorRT-LLM
  kernel, library                   ..._eager is launched by the host, everything else of a serving engine runs in a CUDA graph;
                                    NCCL is launched by the host, unless `kernel time` says that its launch is not in the time
  algo                              ring, tree, one-shot, two-shot, CollNet: forced. NVLS: not forced, since sweeps that carry this label
                                    leave the choice to NCCL, which takes NVLS where it is faster
  library                           the version of NCCL chooses the rules of all-to-all and send/recv, which changed in 2.23 and 2.29
  metric                            time*: seconds; busbw, algbw: nccl-tests' bandwidths
Above 256 MiB transactions are 64 KiB, above 4 GiB 512 KiB: still far below what a rank sends in a step, where `auto` would cost
minutes. Above 4 GiB over servers, where a ring's step is small, rates are fluid: within 1 % of transactions of 64 KiB.
Above 64 ranks one server runs for all (docs/training.md, folding); a step of so many is small, and few bytes of it are simulated.
"""

import re

from . import systems
from .experiment import Experiment, metric_at, table_of
from .rows import BYTES_PER_SECOND, SECONDS, Row, Unmapped

OPERATIONS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "broadcast": "broadcast",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "sendrecv": "send_recv",
    "send_recv": "send_recv",
}
LIBRARIES = ((r"sglang", "sglang-0.5"), (r"vllm", "vllm-0.19"), (r"trt", "trtllm-1.0"))
ALGORITHMS = ((r"one.?shot", "one_shot"), (r"two.?shot", "two_shot"), (r"^ring\b(?!/)", "ring"), (r"^tree\b(?!/)", "tree"),
              (r"^collnet", "collnet_direct"))
NCCL_RULES = {22: "2.22", 28: "2.27"}  # last NCCL 2.x with other rules for sends and receives, and their name
PEAK_BYTES = 1 << 30
GB = 1e9
TRANSACTIONS = ((4 << 30, 512 << 10), (256 << 20, 64 << 10))  # above this size, bytes of a transaction
FLUID_ABOVE = 4 << 30  # over servers
FOLDED_ABOVE = 64  # ranks


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    operation = OPERATIONS.get(row["op"].strip().lower())
    if operation is None:
        raise Unmapped(f"operation '{row['op']}' is not one of {', '.join(dict.fromkeys(OPERATIONS.values()))}")
    if re.search(r"collnet.?chain", row["algo"], re.IGNORECASE):
        raise Unmapped("CollNetChain is not modelled")
    metric, unit = _metric(row)
    size = row.integer("bytes")
    if size is None and metric == "time_s":
        raise Unmapped("a time without a size")
    size = size or PEAK_BYTES
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    ranks, servers = _ranks(row, platform)
    workload = {"op": operation, "library": _library(row), "algorithm": _algorithm(row)}
    if ranks < servers * systems.gpus_per_server(platform):
        workload["ranks_per_server"] = ranks // servers
    if operation in ("all_to_all", "send_recv") and (version := _nccl_version(row)):
        workload["nccl_version"] = version
    if _in_graph(row, workload["library"]):
        workload["in_graph"] = True
    experiment = experiment_of(row, gpu, servers, workload, size, size * min(ranks, FOLDED_ABOVE), metric, unit)
    if ranks > FOLDED_ABOVE:
        experiment.scenario["simulation"] = {"fold": "auto"}
    return experiment


def experiment_of(row: Row, gpu: systems.Gpu, servers: int, workload: dict, size: int, cost: int, metric: str, unit: float) -> Experiment:
    """The run of a collective; `metric` and `unit` as _metric() returns them."""
    platform = systems.platform_of(row, gpu)
    scenario = {"machine": systems.machine(row, platform, gpu, servers), "fabric": fabric_of(size, servers),
                "workload": {"kind": "collective"} | workload}
    return Experiment(workload["op"], platform, scenario, size, lambda result: metric_at(result, metric, size), unit, cost,
                      lambda result: _chosen(result, size))


def fabric_of(size: int, servers: int) -> dict:
    """The scenario's `fabric` for collectives of this size."""
    if servers > 1 and size > FLUID_ABOVE:
        return {"fidelity": "fluid"}
    transaction = next((transaction for above, transaction in TRANSACTIONS if size > above), None)
    return {"transaction_bytes": transaction} if transaction else {}


def _metric(row):
    """@return the summary's metric, and what one of the row's unit is in the metric's"""
    metric = row["metric"].strip()
    if re.match(r"time\b|time_", metric):
        return "time_s", row.scale(SECONDS)
    if metric in ("busbw", "algbw"):
        return f"{metric}_gb_per_s", row.scale(BYTES_PER_SECOND) / GB
    raise Unmapped(f"metric '{metric}' is not time, busbw or algbw")


def _ranks(row, platform):
    """@return ranks and servers"""
    ranks = row.integer("n_gpus")
    if not ranks or ranks < 2:
        raise Unmapped(f"n_gpus is '{row['n_gpus']}': a collective needs two")
    per_server = systems.gpus_per_server(platform)
    servers = systems.servers_of(platform, ranks, row.integer("nodes"))
    if ranks % servers:
        raise Unmapped(f"{ranks} GPUs do not spread evenly over {servers} servers")
    if ranks // servers > per_server:
        raise Unmapped(f"{ranks // servers} GPUs in a server: {platform} has {per_server}")
    return ranks, servers


def _library(row):
    text = row.text("kernel", "algo") or row["library"]
    return next((name for pattern, name in LIBRARIES if re.search(pattern, text, re.IGNORECASE)),
                "vllm-0.19" if re.search("custom", text, re.IGNORECASE) else "nccl")


def _nccl_version(row):
    """@return the name of the rules that this version has; None: the newest"""
    version = re.search(r"nccl\s+v?2\.(\d+)", row["library"], re.IGNORECASE)
    return next((name for last, name in NCCL_RULES.items() if int(version[1]) <= last), None) if version else None


def _in_graph(row, library):
    if library == "nccl":
        return re.search("kernel time", row["library"], re.IGNORECASE) is not None
    return re.search("eager", row["kernel"], re.IGNORECASE) is None


def _algorithm(row):
    text = row["algo"].strip() or row["kernel"].strip()
    return next((name for pattern, name in ALGORITHMS if re.search(pattern, text, re.IGNORECASE)), "auto")


def _chosen(result, size):
    run = next(run for run in table_of(result, "collectives.csv") if run["bytes"] == str(size))
    return f"{run['algorithm']} {run['protocol']} x{run['channels']}"
