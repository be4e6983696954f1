"""--export-et: the import of an exported run ends at the same time."""

import json
import re

import pytest

from platform_runs import ROOT, run, succeed, summary

TINY = f"model: {{config: {ROOT}/tests/models/tiny.json}}\n"
RUNS = {
    "collective": ("dgx_h100", "workload: {kind: collective, op: all_reduce, min_bytes: 1024, max_bytes: 1048576, factor: 32}\n"),
    "servers": ("dgx_a100", "workload: {kind: collective, op: all_gather, sizes_bytes: [4194304]}\nmachine: {groups: {node: {servers: 2}}}\n"),
    "layer": ("dgx_h100", TINY + "workload: {kind: layer, phase: training, tp: 4, tokens: 512, sequence_parallel: true}\n"),
    "overlap": ("dgx_a100", "workload: {kind: overlap, op: gemm_all_reduce, gemm: {m: 4096, n: 12288, k: 6144}, methods: [beside]}\n"),
    "ring": ("dgx_a100", "workload: {kind: overlap, op: all_gather_gemm, gemm: {m: 4096, n: 12288, k: 6144}, methods: [ring]}\n"),
    "training": ("dgx_h100", TINY + "workload: {kind: training, seq_tokens: 128, global_batch: 8, micro_batch: 1, tp: 2, pp: 2}\n"),
    "userbuffers": ("dgx_h100", TINY + "workload: {kind: training, seq_tokens: 512, global_batch: 4, micro_batch: 1, tp: 4, sequence_parallel: true, "
                                       "tp_overlap: userbuffers}\n"),
    "experts": ("dgx_h100", f"model: {{config: {ROOT}/tests/models/tiny_experts.json}}\n"
                            "workload: {kind: training, seq_tokens: 128, global_batch: 8, micro_batch: 1, ep: 8, routing: {skew: 0.7}}\n"),
    "deepep": ("dgx_h100", f"model: {{config: {ROOT}/tests/models/tiny_experts_16.json}}\n"
                           "machine: {groups: {node: {servers: 2}}}\n"
                           "workload: {kind: training, seq_tokens: 128, global_batch: 16, micro_batch: 1, ep: 16, routing: {skew: 0.7}, expert_exchange: deepep}\n"),
    "fsdp": ("dgx_a100", TINY + "workload: {kind: training, seq_tokens: 128, global_batch: 8, micro_batch: 1, zero_stage: 3, software: torchtitan}\n"),
    "prefill": ("plx_box", TINY + "workload: {kind: disaggregated_prefill, requests: {count: 2, prompt_tokens: 256}, chunk_tokens: 128, "
                                  "prefill: {tp: 2, pp: 2}, decode: {tp: 2, pp: 1, steps: 2}}\n"),
}


def exported(folder, name):
    """Runs a scenario with --export-et. Returns its end time, and the scenario that imports the export."""
    platform, text = RUNS[name]
    (folder / "run.yaml").write_text(text)
    succeed(platform, folder / "run.yaml", "--out", folder / "run", "--quiet", "--export-et", folder / "t")
    machine = "".join(line + "\n" for line in text.splitlines() if line.startswith("machine:"))
    (folder / "import.yaml").write_text(f"workload: {{kind: trace, format: chakra, prefix: {folder}/t, groups: {folder}/t.groups.json}}\n{machine}")
    return summary(folder / "run"), folder / "import.yaml"


def imported(folder, scenario, platform):
    succeed(platform, scenario, "--out", folder / "import", "--quiet")
    return summary(folder / "import")


@pytest.mark.parametrize("name", RUNS)
def test_the_import_of_an_export_ends_at_the_same_time(name, tmp_path):
    run_summary, scenario = exported(tmp_path, name)
    import_summary = imported(tmp_path, scenario, RUNS[name][0])
    assert import_summary["metrics"]["end_s"] == run_summary["metrics"]["end_s"]


@pytest.mark.parametrize("name", ["collective", "layer", "prefill"])
def test_a_waveform_of_an_import_changes_nothing(name, tmp_path):
    _, scenario = exported(tmp_path, name)
    plain = imported(tmp_path, scenario, RUNS[name][0])["metrics"]
    succeed(RUNS[name][0], scenario, "--out", tmp_path / "import", "--quiet", "--vcd")
    assert summary(tmp_path / "import")["metrics"] == plain
    assert (tmp_path / "import" / "trace.vcd").stat().st_size > 0


def test_the_import_sends_the_same_bytes(tmp_path):
    run_summary, scenario = exported(tmp_path, "training")
    import_summary = imported(tmp_path, scenario, RUNS["training"][0])
    sent = [{c["class"]: (c["messages"], c["bytes"]) for c in s["traffic"] if c["messages"]} for s in (run_summary, import_summary)]
    assert sent[0] == sent[1]


def test_without_own_attributes_each_node_is_off_by_half_a_microsecond_at_most(tmp_path):
    """Kernels and collectives of a layer: one after the other."""
    run_summary, scenario = exported(tmp_path, "layer")
    nodes = 0
    for path in tmp_path.glob("t.*.et"):
        data, count = re.subn(rb"railyard_", b"elsewhere", path.read_bytes())
        path.write_bytes(data)
        nodes = max(nodes, count)
    end_s = imported(tmp_path, scenario, RUNS["layer"][0])["metrics"]["end_s"]
    assert end_s != run_summary["metrics"]["end_s"]
    assert abs(end_s - run_summary["metrics"]["end_s"]) < nodes * 0.5e-6


def test_an_export_in_another_form_is_refused_with_both(tmp_path):
    _, scenario = exported(tmp_path, "collective")
    path = tmp_path / "t.0.et"
    path.write_bytes(path.read_bytes().replace(b"railyard_form", b"elsewhere_for"))
    told = run("dgx_h100", scenario, "--out", tmp_path / "import", "--quiet")
    assert told.returncode == 2 and len(told.stderr.splitlines()) == 1
    assert re.search(r"t\.0\.et: .*older version of Railyard, in form 1; accepted: form 2\. Export the run again", told.stderr)
    assert not (tmp_path / "import").exists()


def test_a_fold_has_no_other_jobs(tmp_path):
    (tmp_path / "s.yaml").write_text(TINY + "workload: {kind: training, seq_tokens: 128, global_batch: 8, micro_batch: 1, tp: 8}\n"
                                     "machine: {groups: {node: {servers: 2}}}\nsimulation: {fold: require}\n")
    result = run("dgx_h100", tmp_path / "s.yaml", "--export-et", tmp_path / "t", "--quiet")
    assert result.returncode == 2
    assert "--export-et: error: a folded machine" in result.stderr
    assert not list(tmp_path.glob("t.*"))


def test_groups_are_those_of_astra_sim(tmp_path):
    exported(tmp_path, "training")
    groups = json.loads((tmp_path / "t.groups.json").read_text())
    assert [0, 1] in groups.values()
    assert all(isinstance(rank, int) for ranks in groups.values() for rank in ranks)


def test_it_is_not_for_critical_paths_nor_for_folders_that_are_not_there(tmp_path):
    (tmp_path / "s.yaml").write_text(RUNS["collective"][1])
    result = run("dgx_h100", tmp_path / "s.yaml", "--export-et", tmp_path / "t", "--why")
    assert result.returncode == 2 and "--export-et" in result.stderr
    result = run("dgx_h100", tmp_path / "s.yaml", "--export-et", tmp_path / "none" / "t", "--quiet")
    assert result.returncode == 2 and "cannot write" in result.stderr
