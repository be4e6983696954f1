"""Collectives of NCCL over platforms, servers, operations and sizes: more bytes do not take less time, no algorithm that could
have been forced is much faster than the chosen one, and large ones reach what the links carry."""

import concurrent.futures
import re
import sys
from typing import NamedTuple

import pytest

from platform_runs import BIN, ROOT, rows, run, succeed

sys.path.insert(0, str(ROOT / "scripts" / "studies"))

import collective_properties  # noqa: E402

SIZES = [4096 << k for k in range(0, 16)]  # 4 KiB to 128 MiB: gathers over servers still change protocol at 64 MiB
FEWER = {"all_reduce": SIZES[:14], "all_to_all": SIZES[:14:2]}  # to 32 MiB


class Machine(NamedTuple):
    platform: str
    gpu: str
    servers: int = 1
    ranks: int = 0  # 0: every GPU

    @property
    def members(self):
        return self.ranks or 8 * self.servers

    @property
    def fidelity(self):
        """Rings over networks take most of the time; those of one platform run as trains."""
        return "fluid" if self.servers > 1 and self.platform != "dgx_h100" else "auto"


MACHINES = {
    "a100": Machine("dgx_a100", "A100-SXM4-80GB"),
    "a100_two": Machine("dgx_a100", "A100-SXM4-80GB", 2),
    "a100_four": Machine("dgx_a100", "A100-SXM4-80GB", 4),
    "h100": Machine("dgx_h100", "H100-SXM5-80GB"),
    "h100_two": Machine("dgx_h100", "H100-SXM5-80GB", 2),
    "h800": Machine("dgx_h100", "H800-SXM5-80GB"),
    "h800_two": Machine("dgx_h100", "H800-SXM5-80GB", 2),
    "b200": Machine("dgx_b200", "B200-SXM-180GB"),
    "b200_two": Machine("dgx_b200", "B200-SXM-180GB", 2),
    "gb200_four": Machine("gb200_nvl72", "GB200-186GB", ranks=4),
    "gb200_eight": Machine("gb200_nvl72", "GB200-186GB", ranks=8),
    "gb200_sixteen": Machine("gb200_nvl72", "GB200-186GB", ranks=16),
    "pcie": Machine("plx_box", "L40S"),
    "pcie_two": Machine("plx_box", "A100-PCIe-80GB", 2),
}
FORCED = {"all_reduce": ["ring", "tree", "nvls", "nvls_tree"], "all_to_all": ["direct", "pxn"]}
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]
MOST_FALL, MOST_BEHIND = 0.05, 1.5
# NCCL plans 0.6 us for a step of LL over NVLink on every GPU (src/graph/tuning.cc, hwLatencies). On Blackwell a step takes 1.5 us:
# all-reduces of 16 KiB in 15 to 29 us on 4 GB200 and 8 B200 (aiconfigurator tables), of which 7 us are the launch. So NCCL itself
# stays with rings in LL for too long there, by what it does not know of their steps.
PLANNED_LL_STEP_US, BLACKWELL_LL_STEP_US = 0.6, 1.5


class Point(NamedTuple):
    time_us: float
    algorithm: str
    protocol: str


def points(machine, tmp_path, op, algorithm, sizes):
    """Points by size in bytes; None: not possible on this machine."""
    path = tmp_path / f"{op}_{algorithm}.yaml"
    forced = f", algorithm: {algorithm}" if algorithm else ""
    some = f", ranks: {machine.ranks}" if machine.ranks else ""
    path.write_text(f"fabric: {{fidelity: {machine.fidelity}}}\nmachine: {{groups: {{node: {{gpu: {machine.gpu}, servers: {machine.servers}}}}}}}\n"
                    f"workload: {{kind: collective, op: {op}, sizes_bytes: {sizes}{forced}{some}}}\n")
    out = path.with_suffix("")
    result = run(machine.platform, path, "--out", out)
    if algorithm and result.returncode == 2:
        return None
    assert result.returncode == 0, result.stderr
    return {int(row["bytes"]): Point(float(row["time_us"]), row["algorithm"], row["protocol"])
            for row in rows(out / "collectives.csv")}


def unplanned_us(machine, op, point):
    """What NCCL does not know of the time of what it chose. Lines of LL are polled in host memory: at most half of the time."""
    if machine.platform == "plx_box" and point.protocol == "ll":
        return point.time_us / 2
    if (point.algorithm, point.protocol) != ("ring", "ll") or "B200" not in machine.gpu or machine.servers > 1:
        return 0
    steps = (machine.members - 1) * (2 if op == "all_reduce" else 1)
    return steps * (BLACKWELL_LL_STEP_US - PLANNED_LL_STEP_US)


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("name", MACHINES)
def test_time_grows_and_the_choice_is_good(name, op, tmp_path):
    machine, algorithms, sizes = MACHINES[name], [None, *FORCED.get(op, [])], FEWER.get(op, SIZES)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = dict(zip(algorithms, pool.map(lambda one: points(machine, tmp_path, op, one, sizes), algorithms)))
    chosen = runs[None]
    planned = {size: point.time_us - unplanned_us(machine, op, point) for size, point in chosen.items()}
    for less, more in zip(sizes, sizes[1:]):
        switches = chosen[less][1:] != chosen[more][1:]
        before = planned[less] if switches else chosen[less].time_us
        assert chosen[more].time_us >= before * (1 - MOST_FALL), f"{less} to {more} bytes: {chosen[less]} to {chosen[more]}"
    for algorithm, forced in runs.items():
        for size in sizes if forced else []:
            assert planned[size] <= forced[size].time_us * MOST_BEHIND, f"{size} bytes: {chosen[size]}, {algorithm} {forced[size]}"


@pytest.mark.parametrize("machine, op", [(("plx_box", "RTX-4090", 1, 4), "broadcast"), (("plx_box", "RTX-4090", 1, 4), "all_reduce"),
                                         (("dgx_a100", "A100-SXM4-80GB", 2, 4), "all_gather")])
def test_properties_hold_of_a_sample_of_machines(machine, op, tmp_path):
    chosen = collective_properties.times(tmp_path, BIN, machine, op)
    forced = {name: collective_properties.times(tmp_path, BIN, machine, op, name) for name in collective_properties.OPERATIONS[op]}
    assert list(collective_properties.violations(machine, op, chosen, forced)) == []


def test_fewer_links_do_not_make_larger_in_switch_collectives_slower(tmp_path):
    sizes = [1 << k for k in (25, 27, 29)]
    switch = points(MACHINES["h800"], tmp_path, "all_reduce", "nvls", sizes)
    ring = points(MACHINES["h800"], tmp_path, "all_reduce", "ring", sizes)
    rates = [size / switch[size].time_us for size in sizes]
    assert rates == sorted(rates)
    assert all(switch[size].time_us < ring[size].time_us for size in sizes)


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
