"""Rows that no model can be compared with: which rules set them aside, and which rows near a rule's limit stay."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from validation import rows, set_aside  # noqa: E402

COLLECTIVE = {"id": "X-1", "category": "1-collectives", "system": "h100_sxm", "n_gpus": "8", "nodes": "1", "fabric": "NVSwitch3", "op": "all_reduce",
              "bytes": "1000000000", "library": "NCCL 2.29.2", "metric": "time", "value": "4000", "unit": "us", "source": "somebody"}
PAIR = {"id": "P-1", "category": "2-point-to-point", "system": "HGX H100 8 GPU", "kind": "p2pBandwidthLatencyTest", "link": "NVLink4 x18",
        "metric": "uni_bw", "value": "371", "unit": "GB/s", "source": "somebody"}
AZURE = {"source": "Azure/AI-benchmarking-guide Azure_Results/ND_H100_v5_results.md", "system": "Azure ND_H100_v5"}
KERNEL_TIME = {"system": "a100_dgx", "library": "NCCL via torch.distributed, kineto kernel time"}


def rule_of(base, **changes):
    """The name of the rule that sets the row aside, or nothing."""
    columns = base | changes
    try:
        set_aside.check(rows.Row("table.csv", 2, columns, float(columns["value"])))
    except rows.Incomparable as reason:
        return str(reason).split(":")[0]
    return ""


# 450 GB/s of NVLink 4 and switches that add: an all-reduce of 1 GB cannot take less than 1/450 s; other operations 7/8 of it, NVLink 3
# without adding switches 2 x 7/8 / 300 s; two servers with eight NICs of 50 GB/s 1/400 s
@pytest.mark.parametrize("changes, least_us", [
    ({}, 1e6 / 450),
    ({"op": "all_gather"}, 0.875e6 / 450),
    ({"op": "alltoall"}, 0.875e6 / 450),
    ({"op": "sendrecv", "n_gpus": "2"}, 1e6 / 450),
    ({"system": "a100_sxm"}, 1.75e6 / 300),
    ({"system": "l40s", "fabric": "PCIe4", "n_gpus": "2"}, 1e6 / 31.504),
    ({"system": "a100_pairwise_nvlink", "fabric": "", "n_gpus": "2"}, 1e6 / 300),
    ({"n_gpus": "16", "nodes": "2", "fabric": "8x NDR400"}, 1e6 / 400),
])
def test_beyond_the_wire_is_faster_than_the_raw_rate_of_the_links(changes, least_us):
    assert rule_of(COLLECTIVE, **changes, value=str(least_us * 0.999)) == "beyond the wire"
    assert rule_of(COLLECTIVE, **changes, value=str(least_us * 1.001)) == ""


@pytest.mark.parametrize("changes, most", [
    ({}, 450), ({"metric": "bidir_bw"}, 900), ({"kind": "nvbandwidth", "metric": "h2d_ce"}, 63),
    ({"system": "2 nodes CX-6 HDR200", "kind": "ib_write_bw", "link": "IB HDR200", "metric": "bw_avg"}, 25),
])
def test_copies_beyond_the_wire(changes, most):
    assert rule_of(PAIR, **changes, value=str(most * 1.001)) == "beyond the wire"
    assert rule_of(PAIR, **changes, value=str(most * 0.999)) == ""


def test_bandwidths_count_as_nccl_tests_count_them():
    row = rows.Row("table.csv", 2, COLLECTIVE | {"metric": "busbw", "unit": "GB/s"}, 350.0)
    assert set_aside.seconds_of(row) == pytest.approx(1.75 / 350)


def test_kernel_times_of_a_profiler_below_1_mib():
    assert rule_of(COLLECTIVE, **KERNEL_TIME, bytes="1048575", value="60") == "waits for the peer"
    assert rule_of(COLLECTIVE, **KERNEL_TIME, bytes="1048576", value="60") == ""
    assert rule_of(COLLECTIVE, bytes="1024", value="60") == ""


def test_kernel_times_of_messages():
    assert rule_of(COLLECTIVE, **KERNEL_TIME, op="send_recv", n_gpus="2", bytes="16777216", value="70") == "sent before"
    assert rule_of(COLLECTIVE, op="send_recv", n_gpus="2", bytes="16777216", value="70") == ""


def test_one_thread_that_launches_all_gpus_hides_behind_long_collectives():
    assert rule_of(COLLECTIVE, **AZURE, bytes="65536", value="48") == "one launching thread"
    assert rule_of(COLLECTIVE, **AZURE, bytes="65536", value="48.1") == ""
    assert rule_of(COLLECTIVE, **AZURE, bytes="65536", value="20", n_gpus="2") == ""
    assert rule_of(COLLECTIVE, bytes="65536", value="20") == ""
    cards = {"source": "github.com/NVIDIA/nccl/issues/1530", "system": "8x RTX 4090", "fabric": "PCIe4", "bytes": "8"}
    assert rule_of(COLLECTIVE, **cards, value="42") == "one launching thread" and rule_of(COLLECTIVE, **cards, value="49") == ""


def test_a_python_call_for_each_kernel():
    attention = {"id": "A-1", "category": "3-compute", "system": "H800", "phase": "decode", "batch": "16", "kv_len": "4096",
                 "kv_heads": "2", "head_dim": "128", "metric": "time", "unit": "us", "source": "somebody"}
    assert rule_of(attention, library="FA3/FlashInfer (InferSim)", value="36.9") == "a loop in Python"
    assert rule_of(attention, library="FA3/FlashInfer (InferSim)", value="37.1") == ""  # HBM delivers 67 MB in 20 us
    assert rule_of(attention, library="FA3/FlashInfer (InferSim)", value="241", batch="1") == "a loop in Python"
    assert rule_of(attention, library="vllm 0.24.0", value="20") == ""


def test_a_clock_of_whole_microseconds():
    kernel = {"id": "M-1", "category": "3-compute", "system": "a40 (vidur)", "kind": "Llama-2-7b-hf op add", "metric": "time_min", "unit": "us",
              "source": "microsoft/vidur @7d47513 data/profiling/compute/a40/mlp.csv"}
    assert rule_of(kernel, value="2") == "coarse clock" and rule_of(kernel, value="3") == ""
    assert rule_of(kernel, value="2", unit="ms") == "" and rule_of(kernel, value="2", source="somebody") == ""


def test_dispatch_and_combine():
    exchange = {"id": "E-1", "category": "1-collectives", "system": "H800 NVLink(160GB/s) + CX7 IB 400G", "kernel": "normal dispatch FP8",
                "ep_ranks": "32", "metric": "bottleneck_bw_RDMA", "unit": "GB/s", "source": "somebody"}
    assert rule_of(exchange, value="50.1") == "beyond the wire" and rule_of(exchange, value="49.9") == ""
    assert rule_of(exchange, value="50.1", metric="bottleneck_bw_NVLink") == ""
    assert rule_of(exchange, value="48", metric="rdma_bw", kernel="low-latency dispatch FP8") == "a derived value"


def test_programs_and_contradictory_sweeps():
    assert rule_of(COLLECTIVE, source="sgl-project/sglang PR 2904", bytes="4096", value="8.8") == "contradictory sweeps"
    assert rule_of(PAIR, kind="Mooncake transfer engine CPU-to-CPU", metric="write") == "other programs"
    islands = {"source": "vllm-project/vllm #50576", "system": "8xA800 two PCIe islands (2x4)", "fabric": "PCIe4", "bytes": "8192"}
    assert rule_of(COLLECTIVE, **islands, algo="one-shot custom", value="46.5") == "another algorithm"
    assert rule_of(COLLECTIVE, **islands, algo="NCCL", value="56.9") == ""
