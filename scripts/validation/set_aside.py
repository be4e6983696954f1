"""Rows whose value cannot be compared with a model, each for a reason of its measurement.

A row is set aside for what its source says of the harness, or for what its own numbers say; never because a prediction is off. The
report counts these rows in a table of their own. Rules:

  beyond the wire       the bytes that must cross a GPU's links, or a server's NICs, in the measured time exceed the raw rate of the links
  waits for the peer    kernel times of a profiler begin when a rank's own kernel begins, not when the last rank is there. Vidur's sweeps
                        prove it: below 1 MiB their times fall as sizes grow (two A100: 59 us at 34 KiB, 15 us at 258 KiB)
  sent before           the same for a message: NCCL's buffers of 4 MiB a channel can be full when the receiver's kernel begins. Vidur
                        shows it: 16 MiB between two A100 in 51 us, 329 of 300 GB/s
  one launching thread  nccl-tests -g N: one thread launches the kernels of N GPUs, one after the other. As long as that takes longer than
                        the collective, it is what the sweep measures. Azure's ND H100 v5 shows 42 us from 64 KiB to 1 MiB, where the
                        same GPUs with a process each take 20 to 27 us (NVIDIA/dgxc-benchmarking)
  a loop in Python      InferSim times FlashInfer's decode with FlashAttention's benchmark_forward: a Python call inside autocast, again and
                        again (kernel_benchmark/flashinfer_mha_decode.py). Caches that HBM delivers within 13 us take 26 to 48 us,
                        whatever the shape, and one takes 241 us: the call
  coarse clock          Vidur prints the times of kernels in whole microseconds: the rounding of 1 and 2 us is up to 50 % and 25 %
  contradictory sweeps  another published sweep of the same kernel on the same GPUs differs by a factor of two or more
  another algorithm     the kernel that vLLM issue 50576 calls one-shot is its author's own: GPUs of an island add up first, then exchange
                        sums with the other island. No engine's one-shot does this
  a derived value       DeepEP's low-latency rdma_bw is the kernel's bytes over the latency of the row before it: one measurement
  other programs        transfer engines, whose own threads post the messages. Mooncake's blocks of 64, 128 and 256 KB give 97, 191 and
                        325 GB/s over NICs of 400 GB/s: 1.3 to 1.5 million posts a second
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from . import systems
from .rows import BYTES_PER_SECOND, SECONDS, Incomparable, Row, Unmapped

POINT_TO_POINT = "2-point-to-point"
PEER_WAIT_BYTES = 1 << 20
HOST_US_PER_GPU = 6  # launch of one GPU's kernel by nccl-tests: 42 us over 8 GPUs, and the spread of the plateaus (to 47 us)
LOOP_US, LOOP_CACHE_US = 37, 13  # of a Python call in InferSim's loop; time of HBM below which a row is nothing but the call
US = 1e-6
HALF_BYTES = 2  # of a number in 16 bits
COARSE_US = 2  # a kernel's time, printed in whole microseconds
PCIE_LANE_BYTES = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}  # a lane, by generation, after its line code
NVLS_GENERATION = 4  # of NVLink: switches that add
KERNEL_TIME = r"kernel time"
# Source, system: nccl-tests' -g (Azure/AI-benchmarking-guide Benchmarks/NVIDIA/NCCLBandwidth.py; stas00/ml-engineering network/README.md,
# "all_reduce_perf -b 32k -e 16G -f 2 -g 8 -n 50"; NVIDIA/nccl issue 1530, "all_reduce_perf -g 8 -b 8 -e 128M -f 2")
ONE_THREAD = ((r"Azure/AI-benchmarking-guide", r"."), (r"stas00/ml-engineering network", r"8xA100"), (r"nccl/issues/1530", r"4090"))
# "unit test performance in H100 (without cuda graph)": vLLM's kernel takes half of what aiconfigurator's eager sweep of it takes at
# 512 B and, at 1 MiB, three times what its graph sweep takes
CONTRADICTED = r"sglang PR 2904"
OWN_KERNEL = r"vllm #50576"  # comment of 2026-08-04: "publish, intra-island P2P read-reduce, single cross-island exchange"
OTHER_PROGRAMS = r"transfer engine"


@dataclass(frozen=True)
class Rule:
    name: str
    reason: str
    applies: Callable[[Row], bool]


def check(row: Row) -> None:
    """@throws Incomparable with the reason of the first rule that sets the row aside"""
    for rule in RULES:
        if rule.applies(row):
            raise Incomparable(f"{rule.name}: {rule.reason}")


def seconds_of(row: Row) -> float | None:
    """The measured time of a collective; None if the row does not say enough. Bandwidths are nccl-tests'."""
    if row["unit"] in SECONDS:
        return row.value * SECONDS[row["unit"]]
    size, ranks = row.integer("bytes"), row.integer("n_gpus")
    if row["unit"] not in BYTES_PER_SECOND or not size or not ranks:
        return None
    factor = {"all_reduce": 2 * (ranks - 1) / ranks, "sendrecv": 1, "send_recv": 1, "broadcast": 1}.get(row["op"], (ranks - 1) / ranks)
    return size * (factor if row["metric"] == "busbw" else 1) / (row.value * BYTES_PER_SECOND[row["unit"]])


def _waits_for_the_peer(row):
    size = row["op"] and row.integer("bytes")
    return bool(size) and size < PEER_WAIT_BYTES and re.search(KERNEL_TIME, row["library"], re.IGNORECASE) is not None


def _sent_before(row):
    return re.fullmatch("send_?recv", row["op"]) is not None and re.search(KERNEL_TIME, row["library"], re.IGNORECASE) is not None


def _one_thread(row):
    if not row["op"] or not any(re.search(source, row["source"]) and re.search(system, row["system"]) for source, system in ONE_THREAD):
        return False
    seconds = seconds_of(row)
    return seconds is not None and seconds <= HOST_US_PER_GPU * US * (row.integer("n_gpus") or 1)


def _loop_in_python(row):
    if not re.search("InferSim", row["library"]) or not row["phase"] or row["unit"] not in SECONDS:
        return False
    keys, heads, width = (row.integer(name) or 0 for name in ("kv_len", "kv_heads", "head_dim"))
    cache_bytes = 2 * HALF_BYTES * (row.integer("batch") or 1) * keys * heads * width
    rate = systems.datasheet("gpus", systems.gpu_of(row).name)["hbm"]["gb_per_s"] * 1e9
    return row.value * SECONDS[row["unit"]] <= LOOP_US * US or cache_bytes / rate <= LOOP_CACHE_US * US


def _coarse_clock(row):
    return re.search("microsoft/vidur", row["source"]) is not None and not row["op"] and row["unit"] == "us" and row.value <= COARSE_US


def _contradicted(row):
    return re.search(CONTRADICTED, row["source"]) is not None


def _another_algorithm(row):
    return re.search(OWN_KERNEL, row["source"]) is not None and re.search(r"one.?shot", row["algo"]) is not None


def _derived(row):
    return bool(row["ep_ranks"]) and row["metric"] == "rdma_bw" and re.search("low.latency", row["kernel"]) is not None


def _other_program(row):
    return re.search(OTHER_PROGRAMS, row["kind"], re.IGNORECASE) is not None


def _beyond_the_wire(row):
    try:
        if row["ep_ranks"]:
            return _exchange_beyond(row)
        return _collective_beyond(row) if row["op"] else _pair_beyond(row) if row["category"] == POINT_TO_POINT else False
    except Unmapped:
        return False  # nothing is known of the links


def _pair_beyond(row):
    """One direction of a copy, an RDMA write or a read, both directions of a bidirectional one."""
    if row["unit"] not in BYTES_PER_SECOND or re.search(r"local|sum|total|_nop2p|stream", f"{row['metric']} {row['kind']}", re.IGNORECASE):
        return False
    rate = row.value * BYTES_PER_SECOND[row["unit"]] / (2 if re.search("bidir", row["metric"]) else 1)
    if re.match(r"ib_|GPU-NIC", row["kind"]):
        return rate > _nic_rate(systems.network_of(row))
    gpu = systems.gpu_of(row)
    host = re.match(r"h2d|d2h|host|device_to_host", row["metric"])
    linked = not gpu.card or re.search("nvlink", row["link"], re.IGNORECASE)
    return rate > (_nvlink_rate(gpu) if linked and not host else _pcie_rate(gpu))


def _collective_beyond(row):
    seconds, size, ranks = seconds_of(row), row.integer("bytes"), row.integer("n_gpus")
    if not seconds or not size or not ranks or ranks < 2:
        return False
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    servers = systems.servers_of(platform, ranks, row.integer("nodes"))
    if servers > 1:
        network = systems.network_of(row, gpu.pcie)
        own = ranks // servers
        nics = network.per_server or max(own, 1)
        return size * _least(row["op"], servers, False) / seconds > nics * _nic_rate(network)
    bridged = gpu.nvlink and (not gpu.card or (ranks == 2 and re.search(systems.BRIDGE_WORDS, row.text("system", "fabric"), re.IGNORECASE)))
    adds = not gpu.card and gpu.nvlink >= NVLS_GENERATION
    return size * _least(row["op"], ranks, adds) / seconds > (_nvlink_rate(gpu) if bridged else _pcie_rate(gpu))


def _exchange_beyond(row):
    """DeepEP counts tokens that stay in their server; what it prints for RDMA can exceed the NIC of a GPU."""
    if row["unit"] not in BYTES_PER_SECOND or not re.search("RDMA", row["metric"], re.IGNORECASE):
        return False
    return row.value * BYTES_PER_SECOND[row["unit"]] > _nic_rate(systems.network_of(row, systems.gpu_of(row).pcie))


def _least(operation: str, members: int, switches_add: bool) -> float:
    """Bytes that each member must send or receive, of one byte of nccl-tests' size."""
    shared = (members - 1) / members
    if operation == "all_reduce":
        return 1 if switches_add else 2 * shared
    return shared if re.search("gather|scatter|all", operation) else 1


def _nvlink_rate(gpu):
    sheet = systems.datasheet("gpus", gpu.name)["nvlink"]
    return sheet["links"] * sheet["gb_per_s"] * 1e9


def _pcie_rate(gpu):
    return systems.datasheet("gpus", gpu.name).get("pcie", {}).get("lanes", 16) * PCIE_LANE_BYTES[gpu.pcie]


def _nic_rate(network):
    return systems.datasheet("nics", network.nic)["gb_per_s"] * 1e9


RULES = (
    Rule("waits for the peer", "a profiler's kernel time, which begins before the last rank is there; below 1 MiB", _waits_for_the_peer),
    Rule("sent before", "a profiler's kernel time of a message, which may be in the receiver's buffers when its kernel begins", _sent_before),
    Rule("one launching thread", "one thread launches the kernels of all GPUs, which takes longer than the collective", _one_thread),
    Rule("a loop in Python", "a Python call for each kernel takes longer than the kernel", _loop_in_python),
    Rule("coarse clock", "a kernel of 1 or 2 us, printed in whole microseconds", _coarse_clock),
    Rule("contradictory sweeps", "another published sweep of the kernel on these GPUs differs by a factor of two or more", _contradicted),
    Rule("another algorithm", "the author's own kernel, which adds up inside an island of GPUs first", _another_algorithm),
    Rule("a derived value", "bytes over the latency of another row, the same measurement", _derived),
    Rule("other programs", "the threads of a transfer program set the rate, not the fabric alone", _other_program),
    Rule("beyond the wire", "more bytes in the measured time than the raw rate of the links", _beyond_the_wire),
)
