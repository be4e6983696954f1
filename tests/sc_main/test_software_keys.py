"""Datasheets of training software: every key has an effect, on time, memory, or what is accepted."""

import json
import re

import pytest

from platform_runs import ROOT, run, succeed, summary

SHEET = (ROOT / "platforms" / "datasheets" / "software" / "megatron_core.yaml").read_text()
WORKLOAD = {"kind": "training", "seq_tokens": 2048, "global_batch": 8, "tp": 2, "pp": 2, "dp": 2, "zero_stage": 1}
MIXTURE = {"tp": 1, "ep": 2, "dp": 4}
# Key, another value, other keys of the datasheet with which it counts, keys of the workload with which it counts
KEYS = [
    ("attention", "unfused", {}, {}), ("flash_attention", "2", {}, {}), ("cudnn_on_blackwell", "false", {"flash_attention": "2", "cudnn_on_blackwell": "true"}, {}), ("bias_activation_fused", "false", {}, {}), ("bias_dropout_fused", "false", {"dropout": "true"}, {}),
    ("residual_norm_fused", None, {}, {}),
    ("norm_fused", "false", {}, {}), ("rotary_fused", "false", {}, {}), ("projections_fused", "false", {}, {}),
    ("expert_products", "grouped", {}, MIXTURE), ("router_fused", None, {}, MIXTURE), ("permute_fused", None, {}, MIXTURE), ("expert_weights_sent", None, {}, MIXTURE), ("experts_synchronize", None, {}, MIXTURE),
    ("sequence_first", "false", {}, {"sequence_parallel": True}), ("dropout", "true", {}, {}), ("recompute_stops_early", "true", {}, {"recompute": "full"}), ("selective_recompute", "operators", {}, {"recompute": "selective"}),
    ("loss", "operators", {}, {"pp": 1, "dp": 4, "micro_batch": 2}), ("loss_chunks", "8", {}, {"pp": 1, "dp": 4, "micro_batch": 2}),
    ("reduce_beside_wgrad", None, {}, {"sequence_parallel": True}), ("tp_overlap", "userbuffers", {}, {"sequence_parallel": True}), ("launch", "graph", {}, {}),
    ("host_us", "300", {}, {}), ("expert_call", "[]", {}, MIXTURE), ("slot_host_us", "20000", {}, {}), ("slots_synchronize", "true", {"host_us": "300"}, {}), ("pp_overlap", "all", {}, {}), ("pp_send", None, {}, {}), ("dp_overlap", "true", {}, {}), ("param_gather_overlap", "true", {}, {}),
    ("bucket_parameters", "1e8", {"dp_overlap": "true", "bucket_parameters_per_rank": "0"}, {}),
    ("bucket_parameters_per_rank", "2e8", {"dp_overlap": "true"}, {}), ("gradients", "as_parameters", {}, {}), ("gradient_sum", "kernel", {}, {}), ("zero_stages", "[0]", {}, {}),
    ("nvls", None, {}, {"tp": 8, "pp": 1, "dp": 1, "zero_stage": 0, "seq_tokens": 8192}), ("nccl_ctas", "2", {}, {}),
    ("comm_priority", "high", {"dp_overlap": "true"}, {"tp": 1, "pp": 1, "dp": 8, "bucket_parameters": 1, "seq_tokens": 4096, "launch": "graph"}), ("reserved_bytes", "5e9", {}, {}),
]
EXPERTS = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 1024}
# Products of Hopper hold their SMs to the end in any case. With slow links, collectives queue and begin in the middle of products.
MACHINES = {"cudnn_on_blackwell": ("dgx_b200", []), "comm_priority": ("dgx_a100", ["--set", "machine.overrides.nvlink.gb_per_s=7"])}


def value_of(key):
    return re.search(rf"^{key}: *([^#\n]*)", SHEET, re.MULTILINE).group(1).strip()


def other(value):
    return {"true": "false", "false": "true", "full": "shard", "shard": "full"}[value]


def outcome(folder, values, workload, machine):
    """Step time and memory, or the message of a refusal."""
    platform, options = machine
    folder.mkdir()
    sheet = SHEET
    for key, value in values.items():
        sheet, count = re.subn(rf"^{key}:.*$", f"{key}: {value}", sheet, flags=re.MULTILINE)
        assert count == 1, key
    (folder / "mine.yaml").write_text(sheet)
    config = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-8b.json").read_text())
    (folder / "model.json").write_text(json.dumps(config | {"num_hidden_layers": 4} | (EXPERTS if "ep" in workload else {})))
    scenario = {"schema_version": 1, "fabric": {"fidelity": "fluid"}, "model": {"config": "model.json"}, "workload": WORKLOAD | {"software": "./mine.yaml"} | workload}
    (folder / "s.yaml").write_text(json.dumps(scenario))
    if run(platform, folder / "s.yaml", "--check", *options).returncode != 0:
        return "refused"
    succeed(platform, folder / "s.yaml", *options, "--quiet", "--out", folder / "out")
    metrics = summary(folder / "out")["metrics"]
    return metrics["step_s"], metrics["memory"]["peak_bytes"]


def test_all_keys_are_here():
    assert {key for key, *_ in KEYS} == set(re.findall(r"^(\w+):", SHEET, re.MULTILINE)) - {"source"}


@pytest.mark.parametrize("key, value, beside, workload", KEYS, ids=[key for key, *_ in KEYS])
def test_a_key_changes_something(key, value, beside, workload, tmp_path):
    machine = MACHINES.get(key, ("dgx_h100", []))
    before = outcome(tmp_path / "before", beside, workload, machine)
    assert before != "refused"
    assert outcome(tmp_path / "after", beside | {key: value or other(value_of(key))}, workload, machine) != before


def test_a_key_of_the_scenario_is_that_of_the_sheet(tmp_path):
    """Whether the sheet or the scenario says it, and also where the scenario says what a default or another sheet would."""
    said = {"expert_products": "sequential", "router_fused": "true", "permute_fused": "true", "experts_synchronize": "false", "flash_attention": "2", "dropout": "true", "selective_recompute": "operators", "loss": "operators", "loss_chunks": "8", "launch": "eager",
            "host_us": "300", "slot_host_us": "20000", "slots_synchronize": "true", "pp_send": "shard", "dp_overlap": "true", "param_gather_overlap": "true",
            "nvls": "true", "nccl_ctas": "2", "comm_priority": "high", "reserved_bytes": "5e9", "gradients": "as_parameters"}
    workload = {"recompute": "selective"} | MIXTURE
    machine = ("dgx_h100", [])
    written = {key: json.loads(value) if re.match(r"\d|true|false", value) else value for key, value in said.items()}
    written["precision"] = {"gradients": written.pop("gradients")}
    in_sheet = outcome(tmp_path / "sheet", said, workload, machine)
    assert in_sheet not in ("refused", outcome(tmp_path / "neither", {}, workload, machine))
    assert outcome(tmp_path / "scenario", {}, workload | written, machine) == in_sheet
    back = {key: value_of(key) for key in said if key != "gradients"}
    written = {key: json.loads(value) if re.match(r"\d|true|false", value) else value for key, value in back.items()}
    written["precision"] = {"gradients": value_of("gradients")}
    assert outcome(tmp_path / "back", said, workload | written, machine) == outcome(tmp_path / "same", {}, workload, machine)
