"""Rows of point-to-point measurements as scenarios of `workload.kind: p2p`.

Rules, by column:
  kind, metric    what is copied, in words or in the names of nvbandwidth's test cases (device_to_device_memcpy_read_ce):
                  p2p..., nvbandwidth, D2D          test matrix: uni(directional), bidir(ectional) or latency
                  h2d, d2h, host_to_device ...      tests h2d and d2h
                  ib_write, ib_send, ib latency, GPU-NIC   RDMA writes between two servers; the CPU's bench of pegaflow likewise
                  ib_read, READ of pegaflow  RDMA reads between two servers
                  local                             a copy inside a GPU, whose bytes p2pBandwidthLatencyTest counts twice, and nvbandwidth
                                                    once (DeviceLocalCopy in its testcases_ce.cpp)
  metric          _sm, sm_copy (SMs copy) or _ce (copy engines), _nop2p (GPUs without peer access: through host memory), and the
                  statistic over pairs: _min, _max, _avg, _median (also where none is said), sum: over all pairs, or over the N of sum_N_pairs
  kind            nvbandwidth copies 512 MiB, p2pBandwidthLatencyTest 40 MB
  link            which pair: SYS is two GPUs under different sockets, NODE two of one socket that meet in its root complex, PIX two below
                  one PCIe switch; else all GPUs, of bridged cards the first pair
  link, config    queue pairs as in "8 QP"; GPUDirect, GDR, cuda: GPU memory, else the host's
  bytes           of an RDMA read or write; a bandwidth without it is taken at 8 MiB, a latency at 2 bytes, perftest's ends
"""

import math
import re
import statistics
from collections.abc import Sequence

from . import systems
from .experiment import Experiment, metric_at, table_of
from .rows import BYTES_PER_SECOND, SECONDS, Row, Unmapped

GB = 1e9
NVBANDWIDTH_BYTES = 512 << 20
PERFTEST_BANDWIDTH_BYTES = 8 << 20
PERFTEST_LATENCY_BYTES = 2
LOCAL_COUNTS = 2  # how often p2p.csv counts the bytes of a copy inside a GPU
MOST_RANKS = 8  # of a matrix: in a rack every pair is alike
BOARD_OF_NIC = {3: "dgx_a100", 4: "dgx_a100", 5: "dgx_h100", 6: "dgx_b200"}  # where no GPU is named, by the NIC's PCIe generation
STATISTICS = {"min": min, "max": max, "median": statistics.median, "avg": statistics.mean, "mean": statistics.mean}
HOST_TO_DEVICE = r"h2d|host_?to_?device|cpu_?to_?gpu"
DEVICE_TO_HOST = r"d2h|device_?to_?host|gpu_?to_?cpu"
COPIES = r"^p2p|nvbandwidth|simpleP2P|d2d|device_to_device"
RDMA = r"ib_(write|send|read)_|ib (latency|bandwidth|bw)|perftest|GPU-NIC|pegaflow"
# `measure` of p2p.csv, and the column that a row is compared with
MEASURES = {"unidirectional": "gb_per_s", "bidirectional": "gb_per_s", "latency": "latency_us", "h2d": "gb_per_s", "d2h": "gb_per_s"}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    words = re.sub(r"[\s-]+", "_", f"{row['kind']} {row['metric']}").lower().replace("bandwidthlatencytest", "")
    if re.match(RDMA, row["kind"], re.IGNORECASE):
        return _rdma(row, words)
    if not re.search(COPIES, words, re.IGNORECASE) and not re.search(f"{HOST_TO_DEVICE}|{DEVICE_TO_HOST}", words):
        raise Unmapped(f"'{row['kind']}' is not a test of the fabric alone")
    return _copies(row, words)


def _scenario(row, platform, gpu, servers, workload):
    return {"machine": systems.machine(row, platform, gpu, servers), "workload": {"kind": "p2p"} | workload}


def _copies(row, words):
    if re.search(r"all_to|to_all|one_to", words):
        raise Unmapped("copies of several GPUs at once are not a test of workload.kind p2p")
    measure = _measure(words)
    if measure is None:
        raise Unmapped(f"metric '{row['metric']}' of {row['kind']} is not known")
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    pairs = _number_of_pairs(words)
    workload = {"test": measure if measure in ("h2d", "d2h") else "matrix", "ranks": _ranks(row, platform, gpu, pairs)}
    if workload["test"] == "matrix" and re.search(r"(?<![a-z])sm(?![a-z])", words.replace("_", " ")):
        workload["engine"] = "sm"
    if "nvbandwidth" in words and workload["test"] == "matrix":
        workload["copy_bytes"] = NVBANDWIDTH_BYTES
    unit = row.scale(SECONDS) / SECONDS["us"] if measure == "latency" else row.scale(BYTES_PER_SECOND) / GB
    local = "local" in words
    if local and "nvbandwidth" in words:
        unit *= LOCAL_COUNTS
    names = {"unidirectional": "p2p uni bw", "bidirectional": "p2p bidir bw", "latency": "p2p latency"}
    return Experiment("p2p local bw" if local else names.get(measure, f"p2p {measure}"), platform, _scenario(row, platform, gpu, 1, workload), None,
                      lambda result: combined(_values(result, measure, local), words, pairs), unit)


def _measure(words):
    if re.search("latency", words):
        return None if "nvbandwidth" in words else "latency"  # nvbandwidth chases pointers, which is no copy
    both_ways = re.search("bidir", words)
    host = "h2d" if re.search(HOST_TO_DEVICE, words) else "d2h" if re.search(DEVICE_TO_HOST, words) else None
    if host:
        if both_ways:
            raise Unmapped("copies from and to the host at once are not a test of workload.kind p2p")
        return host
    if re.search(r"bw|bandwidth|memcpy|sum|d2d|device_to_device", words):
        return "bidirectional" if both_ways else "unidirectional"
    return None


def _number_of_pairs(words) -> int | None:
    told = re.search(r"sum_?(?:of_|over_)?(\d+)", words)
    return int(told.group(1)) if told else None


def combined(values: Sequence[float], words: str, pairs: int | None) -> float:
    """The statistic that `words` names, of the values of all pairs; a sum over more pairs than were run, of pairs that are alike."""
    if "sum" in words:
        return statistics.mean(values) * (pairs or len(values))
    return next((combine for name, combine in STATISTICS.items() if re.search(rf"_{name}(_|$)", words)), statistics.median)(values)


def _ranks(row, platform, gpu, pairs):
    if gpu.card:
        if re.search(r"\bSYS\b|cross.socket", row.text("link", "config"), re.IGNORECASE):
            return [0, systems.gpus_per_server(platform) // 2]  # the first of either socket
        if re.search(r"\bNODE\b", row.text("link", "config")):
            return [0, systems.gpus_of_a_root_port(row)]
        if re.search(r"\bPIX\b", row.text("link", "config")):
            return [0, 1]
        if gpu.nvlink and re.search("nvlink", row["link"], re.IGNORECASE):
            return [0, 1]
    if pairs:
        return min(math.isqrt(pairs) + 1, MOST_RANKS)  # n (n - 1) pairs
    counted = re.search(r"\b(\d+)\s?(?:x|GPU)", row["system"])
    return min(int(counted.group(1)) if counted else MOST_RANKS, MOST_RANKS)


def _values(result, measure, local):
    """Of every GPU with every other, or of each GPU with itself or with its host."""
    column = MEASURES[measure]
    within = local or measure in ("h2d", "d2h")
    return [float(pair[column]) for pair in table_of(result, "p2p.csv") if pair["measure"] == measure and (pair["from"] == pair["to"]) == within]


def _rdma(row, words):
    if re.search("bidir", words):
        raise Unmapped("RDMA in both directions at once is not a test of workload.kind p2p")
    verb = "read" if re.search(r"(?<![a-z])read(?![a-z])", words.replace("_", " ")) else "write"
    latency = re.search("lat", words) is not None
    try:
        gpu = systems.gpu_of(row)
        platform = systems.platform_of(row, gpu)
    except Unmapped:
        gpu, platform = None, BOARD_OF_NIC[systems.network_of(row).pcie]
    size = row.integer("bytes") or (PERFTEST_LATENCY_BYTES if latency else PERFTEST_BANDWIDTH_BYTES)
    if not latency:
        size = min(size, PERFTEST_BANDWIDTH_BYTES)
    queue_pairs = re.search(r"(\d+)\s?QP", row.text("link", "config"))
    workload: dict = {"test": f"ib_{verb}_lat" if latency else f"ib_{verb}_bw"}
    if queue_pairs and not latency:
        workload["queue_pairs"] = int(queue_pairs.group(1))
    if re.search(r"GDR|GPU-?Direct|cuda|GPU mem", row.text("kind", "link", "config"), re.IGNORECASE):
        workload["memory"] = "gpu"
    unit = row.scale(SECONDS) if latency else row.scale(BYTES_PER_SECOND) / GB
    metric = f"{verb}_latency_s" if latency else f"{verb}_gb_per_s"
    return Experiment(workload["test"], platform, _scenario(row, platform, gpu, 2, workload), size,
                      lambda result: metric_at(result, metric, size), unit)
