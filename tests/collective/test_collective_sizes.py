"""Collectives of NCCL over platforms, servers, operations and sizes: more bytes do not take less time, no algorithm that could
have been forced is much faster than the chosen one, and large ones reach what the links carry."""

import re
import sys

import pytest

from platform_runs import BIN, ROOT, rows, run, succeed

sys.path.insert(0, str(ROOT / "scripts" / "studies"))

import collective_properties  # noqa: E402

Machine = collective_properties.Machine
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]
MACHINES = {
    "a100": Machine("dgx_a100", "A100-SXM4-80GB"),
    "a100_two": Machine("dgx_a100", "A100-SXM4-80GB", 2, 8),
    "a100_four": Machine("dgx_a100", "A100-SXM4-80GB", 4, 8),
    "h100": Machine("dgx_h100", "H100-SXM5-80GB"),
    "h100_two": Machine("dgx_h100", "H100-SXM5-80GB", 2, 8),
    "h800": Machine("dgx_h100", "H800-SXM5-80GB"),
    "h800_two": Machine("dgx_h100", "H800-SXM5-80GB", 2, 8),
    "b200": Machine("dgx_b200", "B200-SXM-180GB"),
    "b200_two": Machine("dgx_b200", "B200-SXM-180GB", 2, 8),
    "gb200_four": Machine("gb200_nvl72", "GB200-186GB", 1, 72, 4),
    "gb200_sixteen": Machine("gb200_nvl72", "GB200-186GB", 1, 72, 16),
    "pcie": Machine("plx_box", "L40S"),
    "pcie_two": Machine("plx_box", "A100-PCIe-80GB", 2),
}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("name", MACHINES)
def test_time_grows_and_the_choice_is_good(name, op):
    """Gathers over servers still change protocol at 64 MiB."""
    machine = MACHINES[name]
    sizes = collective_properties.sizes_of(2, {"all_reduce": 16, "all_to_all": 14}.get(op, 18))
    fidelity = "auto" if machine.servers == 1 or name == "h100_two" else "fluid"  # networks take most of the time
    assert list(collective_properties.Times(BIN, machine, op, fidelity).violations(sizes, every=3)) == []


# By chance, with machines of at most 16 GPUs: a wide sample is minutes (scripts/studies/collective_properties.py --sample).
SAMPLE = list(collective_properties.sample([m for m in collective_properties.machines() if m.members <= 16],
                                           collective_properties.OPERATIONS, 24, seed=1, most_kib=8192))


@pytest.mark.parametrize("machine, op, sizes", SAMPLE, ids=[f"{machine}_{op}" for machine, op, _ in SAMPLE])
def test_properties_hold_of_a_sample_of_machines(machine, op, sizes):
    assert list(collective_properties.Times(BIN, machine, op).violations(sizes)) == []


@pytest.mark.parametrize("machine, op, sizes", [(("plx_box", "RTX-4090", 1, 4), "broadcast", 18), (("plx_box", "RTX-5090", 1, 4), "all_reduce", 16),
                                                (("dgx_h100", "H100-SXM5-80GB", 2, 8, 1), "all_reduce", 18),
                                                (("gb200_nvl72", "GB200-186GB", 4, 72, 1), "all_reduce", 15),
                                                (("plx_box", "RTX-5090", 2, 2, 1), "all_reduce", 15)])
def test_properties_hold_where_they_once_did_not(machine, op, sizes):
    times = collective_properties.Times(BIN, collective_properties.Machine(*machine), op)
    assert list(times.violations(collective_properties.sizes_of(2, sizes))) == []


def test_proxies_check_the_lines_of_ll_one_after_the_other():
    """A GPU's proxy moves 2.55 GB/s at most (an eighth of NCCL's plan for a server), and those of several GPUs work at once."""
    def further_us(ranks_per_server):
        machine = collective_properties.Machine("dgx_h100", "H100-SXM5-80GB", 2, 8, ranks_per_server)
        rows = collective_properties.Times(BIN, machine, "all_reduce").rows([1 << 20, 1 << 21], collective_properties.Forced("ring", "ll"))
        return float(rows[1 << 21]["time_us"]) - float(rows[1 << 20]["time_us"])

    of_a_proxy = 20400 / 8  # bytes each us
    assert (1 << 20) / of_a_proxy <= further_us(1) <= 1.5 * (1 << 20) / of_a_proxy
    assert further_us(8) == pytest.approx((1 << 20) * 2 * 15 / 16 / 8 / of_a_proxy, rel=0.2)


def test_lone_gpus_read_lines_of_ll128_while_they_arrive():
    """More bytes take the time of their lines at the NIC's 50 GB/s, and at most half of it to read what came last."""
    machine = collective_properties.Machine("dgx_h100", "H100-SXM5-80GB", 2, 8, 1)
    rows = collective_properties.Times(BIN, machine, "all_reduce").rows([1 << 25, 1 << 26], collective_properties.Forced("ring", "ll128"))
    further_us = float(rows[1 << 26]["time_us"]) - float(rows[1 << 25]["time_us"])
    at_the_nic_us = (1 << 25) * 128 / 120 / 50e3
    assert at_the_nic_us <= further_us <= 1.5 * at_the_nic_us


def test_fewer_links_do_not_make_larger_in_switch_collectives_slower():
    sizes = [1 << k for k in (25, 27, 29)]
    times = collective_properties.Times(BIN, MACHINES["h800"], "all_reduce", "auto")
    switch, ring = ([float(row["time_us"]) for row in times.rows(sizes, collective_properties.Forced(algorithm)).values()]
                    for algorithm in ("nvls", "ring"))
    rates = [size / time for size, time in zip(sizes, switch)]
    assert rates == sorted(rates)
    assert all(of_switch < of_ring for of_switch, of_ring in zip(switch, ring))


def claimed():
    """Ring bus bandwidths of large all-reduces in the table of docs/fabric.md, and what is measured, by column."""
    page = (ROOT / "docs" / "fabric.md").read_text()
    cells = re.search(r"^\| NCCL ring, 16 GiB \|(.*)\|$", page, re.MULTILINE).group(1).split("|")
    return [[float(number) for number in re.findall(r"[\d.]+", cell)] for cell in cells]


@pytest.mark.parametrize("column, platform, gpu", [(0, "dgx_a100", "A100-SXM4-80GB"), (1, "dgx_h100", "H100-SXM5-80GB"),
                                                   (2, "dgx_b200", "B200-SXM-180GB")])
def test_rings_of_the_executable_reach_what_the_page_claims(column, platform, gpu, tmp_path):
    out = tmp_path / "out"
    large = {"workload.algorithm": "ring", "workload.min_bytes": 1 << 34, "workload.max_bytes": 1 << 34, "platform": platform,
             "machine.groups.node.gpu": gpu, "fabric.transaction_bytes": 1 << 19}
    settings = [word for key, value in large.items() for word in ("--set", f"{key}={value}")]
    succeed(platform, ROOT / "scenarios" / "nccl_tests_dgx_h100.yaml", "--out", out, *settings)
    reached = float(rows(out / "collectives.csv")[-1]["busbw_gb_per_s"])
    (model,), measured = claimed()[2 * column:2 * column + 2]
    assert reached == pytest.approx(model, abs=0.5)
    assert min(measured) * 0.97 <= reached <= max(measured) * 1.03


@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"])
def test_every_nic_of_a_gpu_carries_its_share(op, tmp_path):
    """Four NICs for each GPU take between a quarter of the time of one and, with the steps that no NIC shortens, two thirds."""
    def time_us(per_server):
        path = tmp_path / f"{per_server}.yaml"
        algorithm = "auto" if op in ("all_to_all", "send_recv") else "ring"
        path.write_text(f"machine: {{groups: {{node: {{servers: 2}}}}, nic: {{datasheet: efa_100g, per_server: {per_server}}}}}\n"
                        f"workload: {{kind: collective, op: {op}, algorithm: {algorithm}, protocol: simple, sizes_bytes: [33554432]}}\n")
        succeed("dgx_h100", path, "--out", path.with_suffix(""))
        return float(rows(path.with_suffix("") / "collectives.csv")[-1]["time_us"])

    assert time_us(8) / 4 <= time_us(32) <= time_us(8) / 1.5


# All GPUs below NVSwitches are alike. In a PCIe box, which ranks share a switch decides which rounds of an all-to-all meet on its
# links; its halves are alike.
@pytest.mark.parametrize("platform, order", [("dgx_h100", [3, 1, 4, 0, 5, 7, 2, 6]), ("dgx_b200", [7, 6, 5, 4, 3, 2, 1, 0]),
                                             ("hgx_h100_4gpu", [1, 3, 0, 2]), ("plx_box", [4, 5, 6, 7, 0, 1, 2, 3])])
def test_alike_gpus_may_change_places(platform, order, tmp_path):
    def times(op, ranks):
        path = tmp_path / f"{op}_{ranks[0]}.yaml"
        path.write_text(f"workload: {{kind: collective, op: {op}, sizes_bytes: [16384, 1048576], ranks: {ranks}}}\n")
        succeed(platform, path, "--out", path.with_suffix(""), "--quiet")
        return [float(row["time_us"]) for row in rows(path.with_suffix("") / "collectives.csv")]

    for op in [*OPERATIONS, "reduce", "send_recv"]:
        assert times(op, order) == pytest.approx(times(op, sorted(order)), rel=1e-3), op


@pytest.mark.parametrize("op", ["all_gather", "reduce_scatter", "broadcast", "reduce"])
def test_gathers_and_broadcasts_to_all_peers_at_once_are_refused(op, tmp_path):
    path = tmp_path / "direct.yaml"
    path.write_text(f"workload: {{kind: collective, op: {op}, algorithm: direct, sizes_bytes: [1048576]}}\n")
    told = run("dgx_h100", path, "--out", tmp_path / "out")
    assert told.returncode == 2 and f"direct cannot run {op} of 1048576 bytes: direct supports all_to_all and send_recv" in told.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("op, algorithm, protocol, only", [("all_reduce", "nvls", "ll128", "simple"), ("all_gather", "nvls", "ll", "simple"),
                                                           ("all_to_all", "direct", "ll128", "protocols simple and ll"),
                                                           ("all_reduce", "two_shot", "simple", "protocol ll")])
def test_protocols_without_a_kernel_are_refused(op, algorithm, protocol, only, tmp_path):
    path = tmp_path / "forced.yaml"
    path.write_text(f"workload: {{kind: collective, op: {op}, algorithm: {algorithm}, protocol: {protocol}, sizes_bytes: [65536]}}\n")
    told = run("dgx_h100", path, "--out", tmp_path / "out")
    assert told.returncode == 2 and "support only protocol" in told.stderr and told.stderr.rstrip().endswith(only)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("forced", ["algorithm: ring", "protocol: simple"])
def test_an_engine_leaves_what_is_forced_to_nccl(forced, tmp_path):
    """The engine's own kernel would take 64 KiB."""
    def row(library):
        path = tmp_path / f"{library}.yaml"
        path.write_text(f"workload: {{kind: collective, op: all_reduce, library: {library}, {forced}, in_graph: true, sizes_bytes: [65536]}}\n")
        succeed("dgx_h100", path, "--out", path.with_suffix(""), "--quiet")
        [only] = rows(path.with_suffix("") / "collectives.csv")
        return only

    assert row("vllm-0.19") == row("nccl")
