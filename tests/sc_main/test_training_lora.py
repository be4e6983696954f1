"""Steps with low-rank adapters: what gradients, optimizer and collectives hold."""

import json

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

TOKENS, HIDDEN, FFN, KV, LAYERS, RANK = 2048, 4096, 14336, 1024, 4, 16  # Llama-3.1-8B, four layers
ADAPTERS = LAYERS * RANK * (HIDDEN + (HIDDEN + 2 * KV) + HIDDEN + HIDDEN)  # beside QKV and output projection


def scenario(folder, **keys):
    folder.mkdir(exist_ok=True)
    config = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-8b.json").read_text())
    (folder / "model.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}))
    workload = {"kind": "training", "seq_tokens": TOKENS, "global_batch": 8, "tp": 1, "lora": {"rank": RANK, "modules": ["qkv", "proj"]}} | keys
    machine = {"groups": {"node": {"servers": 1}}}
    text = {"schema_version": 1, "model": {"config": "model.json"}, "machine": machine, "fabric": {"fidelity": "fluid"}, "workload": workload}
    (folder / "s.yaml").write_text(json.dumps(text))
    return folder / "s.yaml"


def planned(folder, **keys):
    result = run("dgx_h100", scenario(folder, **keys), "--explain", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("zero_stage, sent", [(0, 4 * ADAPTERS), (1, (4 + 2) * ADAPTERS)])
def test_only_adapters_have_gradients(zero_stage, sent, tmp_path):
    """Reduced in fp32; with zero_stage 1 gathered in 16 bits."""
    all_weights, adapted = (planned(tmp_path, zero_stage=zero_stage, **more)["memory"][0] for more in ({"lora": "none"}, {}))
    assert adapted["weights_bytes"] == all_weights["weights_bytes"] + 2 * ADAPTERS
    assert adapted["gradients_bytes"] == 4 * ADAPTERS
    assert adapted["optimizer_bytes"] == 12 * ADAPTERS // (8 if zero_stage else 1)
    succeed("dgx_h100", scenario(tmp_path, zero_stage=zero_stage), "--quiet", "--jobs", "all", "--out", tmp_path / "out")
    jobs = rows(tmp_path / "out" / "jobs.csv")
    assert sum(int(job["bytes"]) for job in jobs if job["name"].startswith("DP_")) == sent


def test_frozen_matrices_may_exist_in_the_type_of_products_only(tmp_path):
    matrices = LAYERS * (HIDDEN * (HIDDEN + 2 * KV) + HIDDEN * HIDDEN + 3 * HIDDEN * FFN)
    sent, weights = [], []
    for parameters in ("model", "gemm"):
        keys = {"zero_stage": 1, "precision": {"gemm": "fp8", "parameters": parameters}}
        weights.append(planned(tmp_path, **keys)["memory"][0]["weights_bytes"])
        succeed("dgx_h100", scenario(tmp_path, **keys), "--quiet", "--jobs", "all", "--out", tmp_path / parameters)
        sent.append(sum(int(job["bytes"]) for job in rows(tmp_path / parameters / "jobs.csv") if job["name"].startswith("DP_")))
    assert weights[0] - weights[1] == 2 * matrices
    assert sent == [(4 + 2) * ADAPTERS] * 2  # adapters have 16 bits


def test_gradients_of_what_ranks_hold_alike_are_summed_over_them(tmp_path):
    """A beside QKV and B beside the output projection; nothing of frozen norms."""
    succeed("dgx_h100", scenario(tmp_path, tp=2, sequence_parallel=True), "--quiet", "--jobs", "all", "--out", tmp_path / "out")
    shared = [int(job["bytes"]) for job in rows(tmp_path / "out" / "jobs.csv") if job["name"].startswith("TP_AR_PP[0]_Norms")]
    assert set(shared) == {4 * LAYERS * RANK * 2 * HIDDEN}


def test_a_backward_slot_has_half_of_its_products(tmp_path):
    """Frozen matrices have gradients of inputs only, and adapters twice their forward products."""
    slots = {word: planned(tmp_path, **more)["stages"][0] for word, more in (("all", {"lora": "none"}), ("adapted", {}))}
    adapters = 2 * TOKENS * ADAPTERS
    weights = LAYERS * (HIDDEN * (HIDDEN + 2 * KV) + HIDDEN * HIDDEN + 3 * HIDDEN * FFN) + HIDDEN * 128256
    assert slots["adapted"]["forward_flops"] - slots["all"]["forward_flops"] == pytest.approx(adapters, rel=1e-9)
    assert slots["all"]["backward_flops"] - slots["adapted"]["backward_flops"] == pytest.approx(2 * TOKENS * weights - 2 * adapters, rel=1e-9)


def test_a_step_is_shorter_and_its_mfu_counts_what_it_computes(tmp_path):
    metrics = {}
    for word, more in (("all", {"lora": "none"}), ("adapted", {})):
        succeed("dgx_h100", scenario(tmp_path, **more), "--quiet", "--out", tmp_path / word)
        metrics[word] = summary(tmp_path / word)["metrics"]
    assert metrics["adapted"]["step_s"] < 0.8 * metrics["all"]["step_s"]
    assert metrics["adapted"]["hfu"] == pytest.approx(metrics["adapted"]["mfu"], rel=0.02)
