"""Zero is a legal value of every time of every datasheet: the run ends, and no cost that is taken away makes it slower."""

import concurrent.futures
import json

import pytest

from platform_runs import ROOT, TINY, rows, run

COLLECTIVE = "workload: {{kind: collective, op: {op}, ranks: {ranks}, sizes_bytes: [1, 131072, 1048576]{more}}}\n"
GEMM = "workload: {kind: kernel, kernels: [{op: gemm, m: [16, 4096], n: 1024, k: 8192}]}\n"
LAYER = f"model: {{config: {ROOT}/tests/models/tiny.json}}\nworkload: {{kind: layer, phase: prefill, tp: 2, tokens: 512}}\n"
OVERLAP = "workload: {kind: overlap, op: all_gather_gemm, gemm: {m: 4096, n: 4096, k: 1024}}\n"


def machine(gpu, servers=1):
    return f"machine: {{groups: {{node: {{gpu: {gpu}, servers: {servers}}}}}}}\n"


def collective(op, ranks, more=""):
    return COLLECTIVE.format(op=op, ranks=ranks, more=more)


RING = collective("all_reduce", 2, ", algorithm: ring, protocol: simple")
RUNS = {
    "plx_ring": ("plx_box", machine("A100-PCIe-80GB") + RING),
    "plx_bounced": ("plx_box", machine("RTX-4090") + RING),
    "nvls": ("dgx_h100", machine("H100-SXM5-80GB") + collective("all_reduce", 8)),
    "one_and_two_shot": ("dgx_h100", machine("H100-SXM5-80GB") + collective("all_reduce", 4, ", library: vllm-0.19, in_graph: true")),
    "two_servers": ("dgx_a100", machine("A100-SXM4-80GB", 2) + collective("all_reduce", 4, ", ranks_per_server: 2")),
    "pxn": ("dgx_b200", machine("B200-SXM-180GB", 2) + collective("all_to_all", 4, ", ranks_per_server: 2")),
    "rack": ("gb200_nvl72", machine("GB200-186GB") + collective("all_gather", 8)),
    "copies": ("plx_box", machine("L40S") + "workload: {kind: p2p, test: matrix, engine: copy_engine}\n"),
    "rdma": ("dgx_a100", machine("A100-SXM4-80GB", 2) + "workload: {kind: p2p, test: ib_write_bw, sizes_bytes: [8, 65536]}\n"),
    "rdma_read": ("dgx_a100", machine("A100-SXM4-80GB", 2) + "workload: {kind: p2p, test: ib_read_bw, sizes_bytes: [8, 65536]}\n"),
    "kernels": ("dgx_h100", machine("H100-SXM5-80GB") + GEMM),
    "layer": ("dgx_h100", machine("H100-SXM5-80GB") + LAYER),
    "overlap": ("dgx_a100", machine("A800-SXM4-80GB") + OVERLAP),
    "prefill": ("plx_box", TINY),
}
ALONE = ["plx_ring", "two_servers", "prefill"]


def times(node, path):
    """Every key that is a time."""
    for key, below in node.get("properties", {}).items():
        if key.endswith(("_ns", "_us")):
            yield f"{path}.{key}"
        yield from times(below, f"{path}.{key}")


SCHEMA = json.loads((ROOT / "scenarios" / "scenario.schema.json").read_text())
TIMES = list(times(SCHEMA["properties"]["machine"]["properties"]["overrides"], "machine.overrides"))


def seconds(name, zeros, tmp_path):
    """How long the run takes with these times at zero."""
    platform, text = RUNS[name]
    which = zeros[0] if len(zeros) == 1 else len(zeros)
    scenario = tmp_path / f"{which}.yaml"
    scenario.write_text(text)
    out = tmp_path / f"out_{which}"
    settings = [word for key in zeros for word in ("--set", f"{key}=0")]
    result = run(platform, scenario, "--out", out, *settings)
    assert result.returncode == 0, f"{zeros}: status {result.returncode}: {result.stderr}"
    return max(float(job["end_s"]) for job in rows(out / "jobs.csv"))


def test_every_datasheet_has_times():
    owners = {key.split(".")[2] for key in TIMES}
    assert {"gpu", "nic", "ib_switch", "nvlink", "nvswitch", "plx", "host_memory", "root_complex"} <= owners
    assert len(TIMES) > 30


@pytest.mark.parametrize("name", RUNS)
def test_all_times_zero(name, tmp_path):
    assert seconds(name, TIMES, tmp_path) < seconds(name, [], tmp_path)


@pytest.mark.parametrize("name", ALONE)
def test_each_time_zero(name, tmp_path):
    usual = seconds(name, [], tmp_path)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for key, took in zip(TIMES, pool.map(lambda key: seconds(name, [key], tmp_path), TIMES)):
            assert took <= usual * 1.01, key
