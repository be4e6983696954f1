"""Rules of validation class fabric: what the columns of a measured row become, and what is refused with which reason."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from lib import runner  # noqa: E402
from validation import CLASSES, collectives, comparison, rows, systems  # noqa: E402

FABRIC = CLASSES["fabric"]

COLLECTIVE = {"id": "X-1", "category": "1-collectives", "system": "h100_sxm", "device": "NVIDIA H100 80GB HBM3", "n_gpus": "8",
              "nodes": "1", "fabric": "NVSwitch3/NVLink4 900GB/s", "op": "all_reduce", "bytes": "1048576", "library": "NCCL 2.29.2",
              "metric": "time", "value": "25.4", "unit": "us"}
POINT_TO_POINT = {"id": "P-1", "category": "2-point-to-point", "system": "HGX H100 8 GPU", "kind": "p2pBandwidthLatencyTest",
                  "link": "NVLink4 x18 via NVSwitch", "bytes": "", "config": "", "metric": "uni_bw", "value": "371", "unit": "GB/s"}


def row(base=COLLECTIVE, **changes):
    columns = base | changes
    return rows.Row("table.csv", 2, columns, float(columns["value"]))


def mapped(base=COLLECTIVE, **changes):
    return FABRIC.map_row(row(base, **changes))


def reason(base=COLLECTIVE, **changes):
    with pytest.raises(rows.Unmapped) as caught:
        mapped(base, **changes)
    return str(caught.value)


def node(one):
    return one.scenario["machine"]["groups"]["node"]


# --- systems by name

@pytest.mark.parametrize("system, device, gpu, platform", [
    ("a100_sxm", "NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", "dgx_a100"),
    ("some cluster A100-SXM4-40GB", "", "A100-SXM4-40GB", "dgx_a100"),
    ("3x8 A100-40G", "", "A100-SXM4-40GB", "dgx_a100"),
    ("a800_sxm", "NVIDIA A800-SXM4-80GB", "A800-SXM4-80GB", "dgx_a100"),
    ("h200_sxm", "NVIDIA H200", "H200-SXM-141GB", "dgx_h100"),
    ("8xH20 node", "", "H20-SXM-96GB", "dgx_h100"),
    ("H800 cluster", "", "H800-SXM5-80GB", "dgx_h100"),
    ("b300_sxm", "NVIDIA B300 SXM6 AC", "B300-SXM-270GB", "dgx_b200"),
    ("gb200", "NVIDIA GB200", "GB200-186GB", "gb200_nvl72"),
    ("gb300", "", "GB300-278GB", "gb200_nvl72"),
    ("h100_pcie", "NVIDIA H100 PCIe", "H100-PCIe-80GB", "plx_box"),
    ("a100_pairwise_nvlink", "", "A100-PCIe-80GB", "plx_box"),
    ("l20", "NVIDIA L20", "L20-48GB", "plx_box"),
    ("l40", "NVIDIA L40", "L40-48GB", "plx_box"),
    ("l40s", "NVIDIA L40S", "L40S", "plx_box"),
    ("a40_pairwise_nvlink", "", "A40-48GB", "plx_box"),
    ("8x RTX4090", "", "RTX-4090", "plx_box"),
    ("rtx_pro_6000_server", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Blackwell-Server", "plx_box"),
    ("AWS p5en.48xlarge", "", "H200-SXM-141GB", "dgx_h100"),
    ("AWS p4d", "", "A100-SXM4-40GB", "dgx_a100"),
    ("4xA100 NVLink fully connected", "", "A100-SXM4-80GB", "hgx_a100_4gpu"),
    ("Leonardo A100 (4xNVLink/pair)", "", "A100-SXM4-80GB", "hgx_a100_4gpu"),
    ("4xH100 NV6 direct", "", "H100-SXM5-80GB", "hgx_h100_4gpu"),
])
def test_names_become_datasheets_and_platforms(system, device, gpu, platform):
    one = mapped(system=system, device=device, fabric="", n_gpus="4")
    assert (node(one)["gpu"], one.platform) == (gpu, platform)


def test_gpus_of_pcie_6_have_switches_of_pcie_6():
    assert mapped(system="b300_sxm", device="", fabric="", n_gpus="8").scenario["machine"]["plx"] == {"datasheet": "pex90144"}
    assert "plx" not in mapped(system="AWS p5en.48xlarge", device="", fabric="", n_gpus="8").scenario["machine"]


def test_a_fabric_decides_the_form_of_a_gpu_whose_name_is_silent():
    assert node(mapped(system="4x A100", device="", fabric="PCIe4", n_gpus="4"))["gpu"] == "A100-PCIe-80GB"
    assert node(mapped(system="8x A100", device="", fabric="NVSwitch2 and PCIe4"))["gpu"] == "A100-SXM4-80GB"


def test_boxes_of_cards_have_the_switch_of_their_generation_and_the_uplinks_that_are_named():
    plx = {text: mapped(system=text, device="", fabric="PCIe", n_gpus="4").scenario["machine"]["plx"]
           for text in ("4xV100 PCIe", "L40S", "H100 PCIe, single root", "L20 cascaded")}
    assert list(plx.values()) == [{"datasheet": "pex8796"}, {"datasheet": "pex88096"}, {"datasheet": "pex89144", "uplink": "single_root"},
                                  {"datasheet": "pex88096", "uplink": "cascaded"}]


def test_every_shipped_gpu_datasheet_is_found_by_its_own_name():
    for gpu in systems.gpus():
        assert systems.gpu_of(row(system=gpu.name.lower().replace("-", "_"), device="", fabric="")).name == gpu.name


@pytest.mark.parametrize("changes, what", [
    ({"system": "tpu_v5", "device": ""}, "no GPU datasheet for 'tpu_v5'"),
    ({"system": "GH200", "device": ""}, "no platform has GH200 GPUs"),
    ({"system": "H800 PCIe", "device": ""}, "no datasheet for the PCIe card H800"),
    ({"system": "MI300X", "device": ""}, "no platform has the xGMI mesh of MI300X"),
    ({"system": "DGX-1 V100-SXM2", "device": ""}, "no platform has V100 GPUs"),
    ({"system": "4xB200", "device": "", "fabric": "NVLink5 fully connected"}, "no platform has NVLinks from B200 to B200 without switches"),
    ({"n_gpus": "8", "fabric": "NVLink4 fully connected"}, "8 GPUs in a server: hgx_h100_4gpu has 4"),
    ({"op": "gather"}, "operation 'gather' is not one of"),
    ({"metric": "power"}, "metric 'power' is not time, busbw or algbw"),
    ({"unit": "furlongs"}, "unit 'furlongs' of time"),
    ({"bytes": "4-64 B"}, "bytes '4-64 B' is no whole number"),
    ({"bytes": ""}, "a time without a size"),
    ({"n_gpus": ""}, "n_gpus is ''"),
    ({"n_gpus": "9", "nodes": "1"}, "9 GPUs in a server: dgx_h100 has 8"),
    ({"n_gpus": "16", "nodes": "3"}, "16 GPUs do not spread evenly over 3 servers"),
    ({"n_gpus": "16", "nodes": "2"}, "no network named"),
    ({"n_gpus": "16", "nodes": "2", "fabric": "IB FDR"}, "no NIC datasheet for infiniband at 56 Gb/s"),
    ({"n_gpus": "16", "nodes": "2", "fabric": "RoCE"}, "roce of a rate that is not named"),
    ({"algo": "CollNetChain"}, "CollNetChain is not modelled"),
    ({"category": "3-compute"}, "belongs to another class: category '3-compute'"),
])
def test_what_cannot_be_mapped_says_why(changes, what):
    assert reason(**changes).startswith(what) or what in reason(**changes)


@pytest.mark.parametrize("fabric, nic, per_server", [
    ("8x HDR200", "connectx6_hdr", 8),
    ("4x HDR200 IB per node", "connectx6_hdr", 4),
    ("NDR InfiniBand", "connectx7_ndr", None),
    ("IB", "connectx7_ndr", None),
    ("8x ConnectX-7 400G RoCE per node", "connectx7_roce", 8),
    ("RoCEv2 200 Gbps", "connectx6_roce", None),
    ("8x EFAv4 400 Gbps", "efa_400g", 8),
    ("16 EFAv3 x 200 Gbps", "efa_200g", 16),
    ("32 EFA x 100 Gbps", "efa_100g", 32),
    ("8x EFAv4 400 Gbps", "efa_400g", 8),
    ("16 EFAv3 x 200 Gbps", "efa_200g", 16),
    ("EDR", "connectx5_edr", None),
    ("XDR800", "connectx8_xdr", None),
    ("HDR100", "connectx5_edr", None),
    ("8x 80GB GPUs, 4x NDR", "connectx7_ndr", 4),
])
def test_networks_by_protocol_and_rate(fabric, nic, per_server):
    machine = mapped(n_gpus="16", nodes="2", fabric=fabric).scenario["machine"]
    assert machine["groups"]["node"]["servers"] == 2
    assert machine["nic"] == {"datasheet": nic} | ({"per_server": per_server} if per_server else {})


@pytest.mark.parametrize("system, fabric, ranks, fold, network", [
    ("h100_sxm", "8x NDR400", 64, None, None), ("h100_sxm", "8x NDR400", 72, "auto", None), ("h100_sxm", "8x NDR400", 2048, "auto", None),
    ("h100_sxm", "8x NDR400", 2056, "auto", {"tiers": 3}), ("a100_sxm", "8x HDR", 808, "auto", {"tiers": 3})])
def test_many_ranks_are_folded_and_many_nics_need_three_tiers(system, fabric, ranks, fold, network):
    one = mapped(system=system, device="", n_gpus=str(ranks), nodes=str(ranks // 8), fabric=fabric)
    assert one.scenario.get("simulation", {}).get("fold") == fold and one.scenario["machine"].get("network") == network


def test_a_cloud_instance_brings_its_network():
    for system, nic, gpu, count in (("p5en.48xlarge", "efa_200g", "H200-SXM-141GB", 16), ("p6-b200.48xlarge", "efa_400g", "B200-SXM-180GB", 8)):
        machine = mapped(system=system, device="", fabric="", n_gpus="32", nodes="4").scenario["machine"]
        assert machine["nic"] == {"datasheet": nic, "per_server": count} and machine["groups"]["node"]["gpu"] == gpu


def test_one_server_has_no_network_and_a_rack_is_one_server():
    assert "nic" not in mapped().scenario["machine"]
    one = mapped(system="gb200", device="", n_gpus="16", nodes="4", fabric="NVL NVLink5")
    assert (one.platform, node(one)["servers"], one.scenario["workload"]["ranks_per_server"]) == ("gb200_nvl72", 1, 16)


@pytest.mark.parametrize("ranks, nodes, racks, each", [
    ("72", "18", 1, None), ("144", "36", 2, None), ("128", "32", 2, 64), ("144", "2", 2, None), ("16", "2", 2, 8), ("144", "", 2, None),
])
def test_nodes_of_more_gpus_than_a_tray_are_racks(ranks, nodes, racks, each):
    one = mapped(system="gb200", device="", n_gpus=ranks, nodes=nodes, fabric="NVL72, 400G NDR")
    assert (node(one)["servers"], one.scenario["workload"].get("ranks_per_server")) == (racks, each)
    assert ("nic" in one.scenario["machine"]) == (racks > 1)


# --- collectives

@pytest.mark.parametrize("changes, workload", [
    ({}, {"op": "all_reduce", "library": "nccl", "algorithm": "auto"}),
    ({"op": "alltoall", "n_gpus": "4"}, {"op": "all_to_all", "library": "nccl", "algorithm": "auto", "ranks_per_server": 4}),
    ({"algo": "Ring (NVLS disabled)"}, {"op": "all_reduce", "library": "nccl", "algorithm": "ring"}),
    ({"algo": "Ring/Tree"}, {"op": "all_reduce", "library": "nccl", "algorithm": "auto"}),
    ({"algo": "NVLS"}, {"op": "all_reduce", "library": "nccl", "algorithm": "auto"}),
    ({"kernel": "TRTLLM", "library": ""}, {"op": "all_reduce", "library": "trtllm-1.0", "algorithm": "auto", "in_graph": True}),
    ({"kernel": "vLLM_custom_graph", "library": ""}, {"op": "all_reduce", "library": "vllm-0.19", "algorithm": "auto", "in_graph": True}),
    ({"kernel": "SGLang_CustomAllReduce_eager", "library": ""}, {"op": "all_reduce", "library": "sglang-0.5", "algorithm": "auto"}),
    ({"algo": "CollNetDirect"}, {"op": "all_reduce", "library": "nccl", "algorithm": "collnet_direct"}),
    ({"algo": "one-shot custom"}, {"op": "all_reduce", "library": "vllm-0.19", "algorithm": "one_shot", "in_graph": True}),
])
def test_columns_become_a_workload(changes, workload):
    assert mapped(**changes).scenario["workload"] == {"kind": "collective"} | workload


def left(tmp_path, metrics, **tables):
    """A run that left these."""
    (tmp_path / "out").mkdir()
    for name, lines in tables.items():
        (tmp_path / "out" / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return runner.Result(runner.Point("point", "box", {}), tmp_path, {"metrics": metrics}, "")


def test_predictions_are_read_in_the_rows_metric(tmp_path):
    sizes = {str(1 << 20): 60.0, str(collectives.PEAK_BYTES): 450.0}
    result = left(tmp_path, {"time_s": {str(1 << 20): 30e-6}, "busbw_gb_per_s": sizes})
    for changes, value in (({}, 30), ({"metric": "time_min", "unit": "ms"}, 0.03), ({"metric": "busbw", "unit": "GB/s"}, 60),
                           ({"metric": "busbw", "unit": "Gb/s"}, 480), ({"metric": "busbw", "unit": "GB/s", "bytes": ""}, 450)):
        one = mapped(**changes)
        assert one.read(result) / one.unit == pytest.approx(value), changes
    with pytest.raises(rows.Unmapped):
        mapped(bytes="512").read(result)


def test_rows_that_differ_in_size_share_a_run():
    outcomes = comparison.map_rows(FABRIC, [row(bytes=size) for size in ("2048", "512", "512", "1024")] + [row(n_gpus="2")])
    points = comparison.assign_points(FABRIC, outcomes)
    assert [point.scenario["workload"]["sizes_bytes"] for point in points] == [[1 << 20], [512, 1024, 2048]]
    assert len({point.name for point in points}) == 2
    assert outcomes[0].point is outcomes[3].point


EXCHANGE = {"id": "E-1", "category": "1-collectives", "system": "H800 NVLink(160GB/s) + CX7 IB 400G", "kernel": "low-latency dispatch FP8",
            "ep_ranks": "32", "config": "128 tok/batch,7168 hidden,top8", "metric": "latency", "value": "155", "unit": "us"}


def test_dispatch_and_combine_are_all_to_alls():
    one = mapped(EXCHANGE)
    assert one.scenario["workload"] == {"kind": "collective", "op": "all_to_all", "library": "nccl", "in_graph": True}
    assert (one.operation, node(one), one.scenario["machine"]["nic"]) == ("dispatch, low latency", {"servers": 4, "gpu": "H800-SXM5-80GB"},
                                                                         {"datasheet": "connectx7_ndr"})
    assert one.size == 128 * 8 * (7168 + 7168 // 32)  # one byte a number, and four for 128
    assert mapped(EXCHANGE, kernel="low-latency combine BF16").size == 128 * 8 * 7168 * 2
    normal = {"kernel": "normal combine BF16", "config": "4096 tok/batch,7168 hidden,top4 groups,top8", "metric": "bottleneck_bw_RDMA", "unit": "GB/s"}
    # four of eight groups, two in each of four servers. No token for a server: none of its groups is one of the four (15 of 70 choices),
    # or one or both are (40 and 15 of 70), but all eight experts are in the other ones
    servers = 4 * (1 - (15 + 40 * (3 / 4) ** 8 + 15 * (1 / 2) ** 8) / 70)
    assert mapped(EXCHANGE, **normal).size == pytest.approx(4096 * 7168 * 2 * servers, rel=1e-4)
    in_step = mapped(EXCHANGE, **normal | {"config": f"training step; {normal['config']}", "metric": "latency", "unit": "us"})
    assert (in_step.operation, in_step.size) == ("combine, normal, in a step", mapped(EXCHANGE, **normal).size)
    assert "V2" in reason(EXCHANGE, kernel="V2 dispatch", ep_ranks="8x2") and "rdma_bw" in reason(EXCHANGE, metric="rdma_bw")
    assert "needs two" in reason(EXCHANGE, ep_ranks="1") and "spread evenly" in reason(EXCHANGE, ep_ranks="9")


def test_large_sizes_run_apart_with_larger_transactions():
    outcomes = comparison.map_rows(FABRIC, [row(bytes="512"), row(bytes=str(1 << 29), value="2500")])
    large, small = comparison.assign_points(FABRIC, outcomes)
    assert large.scenario["fabric"] == {"transaction_bytes": 65536}
    assert small.scenario["fabric"] == {}


# --- point to point

def test_matrix_statistics_and_variants(tmp_path):
    lines = ["measure,from,to,gb_per_s,latency_us", "unidirectional,0,0,99,"]
    for i, value in enumerate((1, 2, 4), start=1):
        lines += [f"unidirectional,0,{i},{value},", f"bidirectional,0,{i},{2 * value},", f"latency,0,{i},,{3 * value}"]
    result = left(tmp_path, {}, p2p=lines)
    expected = {"uni_bw": 2, "uni_bw_min": 1, "uni_bw_max": 4, "bidir_bw": 4, "sum_3_pairs": 7, "uni_bw_sm_copy_min": 1, "uni_bw_nop2p_max": 4}
    for metric, value in expected.items():
        one = mapped(POINT_TO_POINT, metric=metric)
        assert one.read(result) / one.unit == pytest.approx(value), metric
    latency = mapped(POINT_TO_POINT, metric="latency_p2p_max", unit="us")
    assert latency.read(result) / latency.unit == pytest.approx(12)
    assert mapped(POINT_TO_POINT, metric="uni_bw_sm_copy_min").scenario["workload"]["engine"] == "sm"
    bounced = {"gpu": {"pcie": {"p2p": False}}}
    assert mapped(POINT_TO_POINT, metric="latency_nop2p_min", unit="us").scenario["machine"]["overrides"] == bounced
    assert mapped(system="8x L40S", device="", fabric="PCIe4, P2P disabled").scenario["machine"]["overrides"] == bounced
    far = mapped(POINT_TO_POINT, system="A100 PCIe", link="PCIe4 (SYS)", config="no peer access").scenario
    assert far["machine"]["overrides"] == bounced and far["workload"]["ranks"] == [0, 4]
    assert "overrides" not in mapped().scenario["machine"]
    local = mapped(POINT_TO_POINT, metric="local_bw_min")
    assert local.operation == "p2p local bw" and local.read(result) / local.unit == 99
    once = mapped(POINT_TO_POINT, kind="nvbandwidth", metric="device_local_copy")
    assert once.operation == "p2p local bw" and once.read(result) / once.unit == 49.5


@pytest.mark.parametrize("system, board, ranks", [
    ("Gigabyte G493-ZB0 8x RTX PRO 6000", "g493_zb0", {"NODE": [0, 1], "SYS": [0, 4]}),
    ("ASUS ESC8000A-E13P 8x RTX PRO 6000", "esc8000a_e13p", {"PIX": [0, 1], "NODE": [0, 2], "SYS": [0, 4]}),
    ("ASRock WRX90 WS EVO 8x RTX PRO 6000", "wrx90_ws_evo", {"PIX": [0, 1], "NODE": [0, 4]}),
])
def test_pcie_boards_and_their_pairs(system, board, ranks):
    for link, pair in ranks.items():
        scenario = mapped(POINT_TO_POINT, system=system, link=f"PCIe5 ({link})").scenario
        assert scenario["machine"]["plx"] == {"board": board} and scenario["workload"]["ranks"] == pair


def test_a_sum_over_pairs_is_compared_with_a_sum(tmp_path):
    result = left(tmp_path, {}, p2p=["measure,from,to,gb_per_s,latency_us"] + [f"unidirectional,{i},{j},{10 + i},"
                                                                               for i in range(3) for j in range(3)])
    pairs = {"uni_bw_sum": 6, "sum_6_pairs": 6, "device_to_device_memcpy_read_ce_sum": 6, "sum_5112_pairs": 5112}
    for metric, count in pairs.items():
        one = mapped(POINT_TO_POINT, kind="nvbandwidth", metric=metric)
        assert one.read(result) / one.unit == pytest.approx(11 * count), metric
    ranks = {metric: mapped(POINT_TO_POINT, kind="nvbandwidth", metric=metric).scenario["workload"]["ranks"] for metric in pairs}
    assert ranks == {"uni_bw_sum": 8, "sum_6_pairs": 3, "device_to_device_memcpy_read_ce_sum": 8, "sum_5112_pairs": 8}


@pytest.mark.parametrize("metric, operation, workload", [
    ("device_to_device_memcpy_read_ce", "p2p uni bw", {"test": "matrix", "copy_bytes": 512 << 20}),
    ("device_to_device_bidirectional_memcpy_write_sm", "p2p bidir bw", {"test": "matrix", "engine": "sm", "copy_bytes": 512 << 20}),
    ("d2d_bidir_read_total", "p2p bidir bw", {"test": "matrix", "copy_bytes": 512 << 20}),
    ("host_to_device_memcpy_ce", "p2p h2d", {"test": "h2d"}),
    ("h2d_ce", "p2p h2d", {"test": "h2d"}),
    ("device_to_host_memcpy_sm", "p2p d2h", {"test": "d2h"}),
])
def test_names_of_nvbandwidth(metric, operation, workload):
    one = mapped(POINT_TO_POINT, kind="nvbandwidth", metric=metric)
    assert one.operation == operation
    assert one.scenario["workload"] == {"kind": "p2p", "ranks": 8} | workload


def test_copies_with_the_host_are_read_per_gpu(tmp_path):
    result = left(tmp_path, {}, p2p=["measure,from,to,gb_per_s,latency_us", "h2d,0,0,50,", "h2d,1,1,54,"])
    for metric, value in (("h2d_ce", 52), ("h2d_ce_min", 50), ("h2d_ce_sum", 104)):
        one = mapped(POINT_TO_POINT, kind="nvbandwidth", metric=metric)
        assert one.read(result) / one.unit == value


def test_networks_that_add():
    far = {"n_gpus": "16", "nodes": "2", "fabric": "4x HDR200 IB per node, NCCL-SHARP plugin"}
    assert mapped(**far).scenario["machine"]["network"] == {"sharp": True}
    assert "network" not in mapped(**far | {"fabric": "4x HDR200 IB, NVLink SHARP"}).scenario["machine"]


def test_pairs_of_cards():
    bridged = {"system": "A100-80G PCIe, NVLink-bridged pairs"}
    assert mapped(POINT_TO_POINT, link="NVLink bridge", **bridged).scenario["workload"]["ranks"] == [0, 1]
    assert mapped(POINT_TO_POINT, link="PCIe4 cross-socket (SYS)", **bridged).scenario["workload"]["ranks"] == [0, 4]
    assert mapped(POINT_TO_POINT, link="NVLink bridge", **bridged).scenario["machine"]["nvlink_bridge"] == "pairs"
    assert "nvlink_bridge" not in mapped(system="A100-PCIe 2x2", device="", fabric="IB", n_gpus="4", nodes="2").scenario["machine"]


def test_rdma_sweeps(tmp_path):
    changes = {"system": "2 nodes CX-6 HDR200", "kind": "ib_write_bw", "link": "IB HDR200 8 QP", "bytes": "65536", "metric": "bw_avg",
               "unit": "MB/s(perftest MiB/s)"}
    one = mapped(POINT_TO_POINT, **changes)
    assert one.scenario["machine"]["nic"] == {"datasheet": "connectx6_hdr"}
    assert one.scenario["workload"]["queue_pairs"] == 8
    assert one.read(left(tmp_path, {"write_gb_per_s": {"65536": 20.0}})) / one.unit == pytest.approx(20e9 / 2**20)
    for kind in ("ib_write_lat", "ib_send_lat", "ib latency", "perftest lat"):
        assert mapped(POINT_TO_POINT, **changes | {"kind": kind, "unit": "us", "metric": "t_typical"}).operation == "ib_write_lat"
    assert "memory" not in one.scenario["workload"]
    for kind in ("ib_write_bw GPUDirect", "GPU-NIC GDR copy", "ib_write_bw --use_cuda"):
        assert mapped(POINT_TO_POINT, **changes | {"kind": kind}).scenario["workload"]["memory"] == "gpu"


def test_rdma_reads_are_mapped_like_writes(tmp_path):
    changes = {"system": "2 nodes CX-6 HDR200", "link": "IB HDR200", "bytes": "4194304", "config": "2 QP/peer", "metric": "bw", "unit": "Gb/s"}
    read, write = (mapped(POINT_TO_POINT, **changes | {"kind": kind}) for kind in ("ib_read_bw", "ib_write_bw"))
    assert read.operation == "ib_read_bw"
    assert read.scenario == write.scenario | {"workload": write.scenario["workload"] | {"test": "ib_read_bw"}}
    assert mapped(POINT_TO_POINT, **changes | {"kind": "pegaflow-cpu-bench", "metric": "READ 1 NIC"}).scenario == read.scenario
    latency = mapped(POINT_TO_POINT, **changes | {"kind": "ib_read_lat", "unit": "us", "metric": "t_typical"})
    assert latency.operation == "ib_read_lat" and "queue_pairs" not in latency.scenario["workload"]
    result = left(tmp_path, {"read_gb_per_s": {"4194304": 25.0}, "read_latency_s": {"4194304": 3e-6}})
    assert read.read(result) / read.unit == pytest.approx(200)
    assert latency.read(result) / latency.unit == pytest.approx(3)


@pytest.mark.parametrize("changes, words", [
    ({"kind": "Mooncake transfer engine", "metric": "write"}, "not a test of the fabric"),
    ({"kind": "nvbandwidth", "metric": "all_to_one_write_ce"}, "several GPUs at once"),
    ({"kind": "nvbandwidth", "metric": "host_to_device_bidirectional_memcpy_ce"}, "from and to the host at once"),
    ({"kind": "nvbandwidth", "metric": "device_to_device_latency_sm", "unit": "ns"}, "is not known"),
    ({"kind": "ib_write_bw", "metric": "bidir_bw", "link": "IB HDR200"}, "both directions at once"),
])
def test_copies_that_are_no_test_of_the_model(changes, words):
    assert words in reason(POINT_TO_POINT, **changes)
