"""Collectives of NCCL over platforms, servers, operations and sizes: more bytes do not take less time, no algorithm that could
have been forced is much faster than the chosen one, and large ones reach what the links carry."""

import concurrent.futures
import re

import pytest

from platform_runs import ROOT, rows, run, succeed

SIZES = [4096 << k for k in range(0, 14)]  # 4 KiB to 32 MiB; of all-reduces all, else every other one
MACHINES = {
    "a100": ("dgx_a100", "A100-SXM4-80GB", 1),
    "a100_two": ("dgx_a100", "A100-SXM4-80GB", 2),
    "a100_four": ("dgx_a100", "A100-SXM4-80GB", 4),
    "h100": ("dgx_h100", "H100-SXM5-80GB", 1),
    "h100_two": ("dgx_h100", "H100-SXM5-80GB", 2),
    "h800": ("dgx_h100", "H800-SXM5-80GB", 1),
    "b200": ("dgx_b200", "B200-SXM-180GB", 1),
    "b200_two": ("dgx_b200", "B200-SXM-180GB", 2),
    "pcie": ("plx_box", "L40S", 1),
    "pcie_two": ("plx_box", "A100-PCIe-80GB", 2),
}
FORCED = {"all_reduce": ["ring", "tree", "nvls", "nvls_tree"], "all_to_all": ["direct", "pxn"]}
OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
MOST_FALL, MOST_BEHIND = 0.05, 1.5


def microseconds(machine, tmp_path, op, algorithm, sizes):
    """Time by size in bytes; None: not possible on this machine."""
    platform, gpu, servers = machine
    path = tmp_path / f"{op}_{algorithm}.yaml"
    forced = f", algorithm: {algorithm}" if algorithm else ""
    path.write_text(f"machine: {{groups: {{node: {{gpu: {gpu}, servers: {servers}}}}}}}\n"
                    f"workload: {{kind: collective, op: {op}, sizes_bytes: {sizes}{forced}}}\n")
    out = path.with_suffix("")
    result = run(platform, path, "--out", out)
    if algorithm and result.returncode == 2:
        return None
    assert result.returncode == 0, result.stderr
    return {int(row["bytes"]): float(row["time_us"]) for row in rows(out / "collectives.csv")}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("name", MACHINES)
def test_time_grows_and_the_choice_is_good(name, op, tmp_path):
    machine, algorithms = MACHINES[name], [None, *FORCED.get(op, [])]
    sizes = SIZES if op == "all_reduce" else SIZES[::2]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        times = dict(zip(algorithms, pool.map(lambda one: microseconds(machine, tmp_path, op, one, sizes), algorithms)))
    chosen = times[None]
    for less, more in zip(sizes, sizes[1:]):
        assert chosen[more] >= chosen[less] * (1 - MOST_FALL), f"{less} to {more} bytes: {chosen[less]} to {chosen[more]} us"
    for algorithm, forced in times.items():
        for size in sizes if forced else []:
            assert chosen[size] <= forced[size] * MOST_BEHIND, f"{size} bytes: {chosen[size]} us, {algorithm} {forced[size]}"


def test_fewer_links_do_not_make_larger_in_switch_collectives_slower(tmp_path):
    sizes = [1 << k for k in (25, 27, 29)]
    switch = microseconds(MACHINES["h800"], tmp_path, "all_reduce", "nvls", sizes)
    ring = microseconds(MACHINES["h800"], tmp_path, "all_reduce", "ring", sizes)
    rates = [size / switch[size] for size in sizes]
    assert rates == sorted(rates)
    assert all(switch[size] < ring[size] for size in sizes)


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
