"""Runs of each kind have the metrics that docs/results.md lists for the kind, all of them and no others."""

import re

import pytest

from platform_runs import ROOT, succeed, summary, tiny

PAGE = (ROOT / "docs" / "results.md").read_text()
TABLES = dict(re.findall(r"<!-- metrics of (\w+) -->\n(.*?)<!-- end of metrics -->", PAGE, re.DOTALL))
SCENARIOS = ROOT / "scenarios"
RUNS = {  # runs that have all metrics of a kind together: platform, scenario, settings
    "serving": [("plx_box", None),  # its preset disaggregated_prefill
                ("plx_box", "serving_llama3_70b_plx_pp4.yaml"),
                ("plx_box", "serving_llama3_70b_plx_pp4.yaml", "workload.instances=[{name: p, role: prefill, pp: 4, gpus: [0, 1, 2, 3]}, "
                                                               "{name: d, role: decode, pp: 4, gpus: [4, 5, 6, 7]}]",
                 "fabric.fidelity=fluid"),
                ("dgx_h100", "pd/colocated_or_not.yaml", "workload.requests.count=4", "workload.instances=[{name: c, count: 2}]",
                 "workload.requests.sessions={turns: 2, growth_tokens: 8}", "workload.kv_tiers.host={bytes_per_server: 1.0e+9, pool: server}",
                 "workload.kv_tiers.disk={bytes_per_server: 1.0e+10, gb_per_s: 5, latency_us: 80}"),
                ("dgx_h100", "pd/colocated_or_not.yaml", "workload.requests.count=4", "machine.groups={d: {servers: 2, gpu: H100-SXM5-80GB}}",
                 "workload.instances=[{name: a}, {name: b, gpus: [8]}]",
                 "workload.kv_tiers={host: {bytes_per_server: 1.0e+9}, peers: {min_tokens: 16}}"),
                ("dgx_h100", "fleet/speculation.yaml", "workload.requests.count=4"),
                ("dgx_h100", "pd/small_turns.yaml", "workload.requests.count=8", "workload.router={policy: round_robin, decider: isl_bounding}"),
                ("dgx_h100", "load.yaml", f"workload.requests={{format: llmservingsim, file: {ROOT}/tests/sc_main/leaving.jsonl}}"),
                ("dgx_h100", "fleet/failing_instance.yaml", "workload.requests.count=60",
                 "events=[{at_us: 5.0e+5, instance: c2, fail: true}, {at_us: 1.0e+6, instance: c2, join: c0}]")],
    "training": [("dgx_h100", "training/llama3_8b_8.yaml", "workload.zero_stage=3", "workload.global_batch=16"),
                 ("dgx_b200", "training/gtp_8.yaml"),
                 ("gb200_nvl72", "training/llama3_8b_offload.yaml", "workload.seq_tokens=2048", "fabric.fidelity=fluid")],
    "collective": [("dgx_h100", "nccl_tests_dgx_h100.yaml", "workload.sizes_bytes=[65536]", "workload.ranks=2")],
    "p2p": [("plx_box", "p2p_plx.yaml", "workload.ranks=2"),
            *(("plx_box", "p2p_plx.yaml", f"workload={{kind: p2p, test: {test}, ranks: 2}}") for test in ("h2d", "d2h")),
            *(("dgx_a100", "ib_write.yaml", f"workload.test={test}", "workload.max_bytes=64")
              for test in ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat"))],
    "kernel": [("plx_box", "kernels_h100_l40s.yaml"),
               ("dgx_h100", "kernels_h100_l40s.yaml", "platform=dgx_h100", "machine={groups: {node: {gpu: H100-SXM5-80GB}}}",
                "workload.kernels=[{op: copy, bytes: 4096}]")],
    "layer": [("dgx_h100", "layers/decode.yaml")],
    "overlap": [("dgx_a100", "overlap_tp8_a800.yaml", "workload.gemm={m: 1024, n: 4096, k: 1024}")],
    "trace": [("dgx_h100", "trace_simai.yaml")],
}


def listed(kind):
    """The keys of a kind's table; each is a list of names, and a name in brackets stands for any name."""
    keys = re.findall(r"^\| `metrics\.(\S+)` \|", TABLES[kind], re.MULTILINE)
    return [tuple(re.findall(r"\[\w+\]|[^.]+", key)) for key in keys]


def leaves(value, names=()):
    if not isinstance(value, dict):
        return {names}
    return {leaf for name, below in value.items() for leaf in leaves(below, (*names, name))}


def stands_for(key, names):
    return len(key) == len(names) and all(part.startswith("[") or part == name for part, name in zip(key, names))


@pytest.mark.parametrize("kind", TABLES)
def test_runs_have_the_metrics_of_the_page(kind, tmp_path):
    found = set()
    for number, (platform, scenario, *settings) in enumerate(RUNS[kind]):
        out = tmp_path / str(number)
        path = SCENARIOS / scenario if scenario else tiny(tmp_path)
        succeed(platform, path, "--out", out, "--quiet", *(option for text in settings for option in ("--set", text)))
        found |= leaves(summary(out)["metrics"])
    keys = listed(kind)
    assert [names for names in found if sum(stands_for(key, names) for key in keys) != 1] == []
    assert [key for key in keys if not any(stands_for(key, names) for names in found)] == []
