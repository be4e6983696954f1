"""Activations and the optimizer in host memory: bytes, times and memory against closed forms."""

import json

import pytest

from platform_runs import ROOT, refuse, rows, run, succeed, summary

TOKENS, HIDDEN, FFN, HEADS, KV_HEADS, DIM = 4096, 4096, 14336, 32, 8, 128  # Llama-3.1-8B with few layers
# Inputs of two norms, of QKV and MLP; Q and output; K and V; gate, up and the input of down; statistics of attention.
KEPT = TOKENS * (2 * (4 * HIDDEN + 2 * HEADS * DIM + 2 * KV_HEADS * DIM + 3 * FFN) + 4 * HEADS)
HOST = 307.2e9  # a socket's memory, bytes/s


def scenario(folder, layers, overrides=None, **keys):
    folder.mkdir(exist_ok=True)
    config = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-8b.json").read_text())
    (folder / "model.json").write_text(json.dumps(config | {"num_hidden_layers": layers}))
    workload = {"kind": "training", "seq_tokens": TOKENS, "global_batch": 1, "tp": 1, "dp": 1, "launch": "graph", "grad_norm": "none"} | keys
    machine = {"groups": {"node": {"servers": 1}}, "overrides": overrides or {}}
    text = {"schema_version": 1, "model": {"config": "model.json"}, "machine": machine, "fabric": {"fidelity": "fluid"}, "workload": workload}
    (folder / "s.yaml").write_text(json.dumps(text))
    return folder / "s.yaml"


def step(folder, layers, **keys):
    path = scenario(folder, layers, **keys)
    succeed("dgx_h100", path, "--quiet", "--jobs", "all", "--out", folder / "out")
    return summary(folder / "out")["metrics"], rows(folder / "out" / "jobs.csv"), rows(folder / "out" / "memory.csv")


def planned(folder, layers, **keys):
    result = run("dgx_h100", scenario(folder, layers, **keys), "--explain", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["memory"][0]


def durations(jobs, begin):
    return [float(job["end_s"]) - float(job["start_s"]) for job in jobs if job["name"].startswith(begin)]


def pcie(gb_per_s):
    return {"gpu_pcie": {"gb_per_s": gb_per_s}}


@pytest.mark.parametrize("share, layers, prefetch", [(1, 8, 1), (0.5, 8, 1), (1, 5, 1), (1, 8, 2), (1, 8, 0)])
def test_memory_holds_two_layers_forward_and_the_prefetched_ones_backward(share, layers, prefetch, tmp_path):
    """To the byte, in the plan and at each instant of the run."""
    offload = {"activations": share, "layers": layers, "prefetch_layers": prefetch}
    keys = {"loss_chunks": 4096}  # so that layers, not the loss, are the peak
    whole, part = (planned(tmp_path, 8, **keys, **more)["activations_bytes"] for more in ({}, {"offload": offload}))
    moved = int(KEPT * share)
    assert whole - part == (layers - max(2, 1 + prefetch)) * moved
    metrics, jobs, held = step(tmp_path, 8, **keys, offload=offload)
    assert max(int(row["total_bytes"]) for row in held) == metrics["memory"]["peak_bytes"]
    assert {int(row["total_bytes"]) for row in held[-1:]} == {min(int(row["total_bytes"]) for row in held)}
    assert metrics["offload"]["activation_bytes"] == layers * moved
    assert metrics["memory"]["host_peak_bytes"] == layers * moved
    for begin in ("Store_", "Load_"):
        assert [int(job["bytes"]) for job in jobs if job["name"].startswith(begin)] == [moved] * layers


def test_offload_is_hidden_exactly_if_bytes_take_less_than_a_layer(tmp_path):
    """Otherwise the layer after the next one waits: L - 1 times what a copy takes longer than a layer."""
    forward = {}
    for layers in (4, 8):
        _, jobs, _ = step(tmp_path / f"{layers}", layers)
        forward[layers] = durations(jobs, "F_")[0]
    of_layer = (forward[8] - forward[4]) / 4
    offload = {"activations": 0.1}
    _, jobs, _ = step(tmp_path / "slow", 8, offload=offload, overrides=pcie(10))
    copy = durations(jobs, "Store_")[0]
    even = 10 * copy / of_layer  # GB/s at which a copy takes as long as a layer
    assert even < 60  # PCIe 5 is faster
    for ratio in (0.5, 0.8, 1.2):
        metrics, jobs, _ = step(tmp_path / "at", 8, offload=offload, overrides=pcie(even * ratio))
        copy = durations(jobs, "Store_")[0]
        longer = 7 * max(0.0, copy - of_layer)
        assert durations(jobs, "F_")[0] - forward[8] == pytest.approx(longer, abs=0.02 * forward[8])
        if ratio > 1:
            assert copy < of_layer
        assert copy == pytest.approx(of_layer / ratio, rel=0.02)


def test_backward_slots_wait_for_what_comes_back_late(tmp_path):
    """All but the first layers' copies are hidden on a fast link. On a slow one the step is that of its bytes, both ways."""
    metrics, jobs, _ = step(tmp_path / "fast", 8, offload={"activations": 0.1, "layers": 6})
    none, _, _ = step(tmp_path / "none", 8)
    assert metrics["step_s"] == pytest.approx(none["step_s"], rel=0.02)
    assert metrics["hidden_ratio"]["offload"] > 0.98
    slow, jobs, _ = step(tmp_path / "slow", 8, offload={"activations": 1}, overrides=pcie(1))
    copies = 8 * (durations(jobs, "Store_")[0] + durations(jobs, "Load_")[-1])  # the first one and the last one are alone
    assert copies < slow["step_s"] < copies + none["step_s"]
    assert copies - none["step_s"] < slow["exposed_s"]["offload"] < slow["step_s"]


def test_gpus_below_one_switch_share_its_uplink(tmp_path):
    """Copies are messages on the fabric: two GPUs of a PCIe switch get half of its link to the CPU each."""
    copy = {}
    for dp in (1, 2):
        _, jobs, _ = step(tmp_path / f"{dp}", 4, dp=dp, global_batch=dp, offload={"activations": 1}, zero_stage=0)
        copy[dp] = max(durations(jobs, "Store_"))
    assert copy[2] / copy[1] == pytest.approx(2, rel=0.1)


def test_the_cpu_runs_adam_at_the_rate_of_its_memory(tmp_path):
    """Gradients of 4 bytes down, 30 bytes a parameter in host memory, weights of 2 bytes up; the GPU keeps 6 bytes."""
    path = scenario(tmp_path, 2, offload={"optimizer": True}, dp_overlap=False)
    memory = planned(tmp_path, 2, offload={"optimizer": True})
    parameters = memory["weights_bytes"] // 2
    assert memory["optimizer_bytes"] == 0 and memory["gradients_bytes"] == 4 * parameters
    assert memory["host_state_bytes"] == (12 + 4 + 2) * parameters
    succeed("dgx_h100", path, "--quiet", "--jobs", "all", "--out", tmp_path / "out")
    jobs = rows(tmp_path / "out" / "jobs.csv")
    total = {begin: sum(int(job["bytes"] or 0) for job in jobs if job["name"].startswith(begin)) for begin in ("GradStore_", "WeightLoad_")}
    assert total == {"GradStore_": 4 * parameters, "WeightLoad_": 2 * parameters}
    assert sum(durations(jobs, "HostAdam_")) == pytest.approx(30 * parameters / HOST, rel=1e-9)
    metrics = summary(tmp_path / "out")["metrics"]
    assert metrics["host_s"] + metrics["exposed_s"]["offload"] > 30 * parameters / HOST


def test_ranks_of_a_socket_take_turns_and_own_their_shard(tmp_path):
    """With zero_stage 1, four replicas on a socket update a quarter each, so the CPU's work is that of one replica."""
    one, _, _ = step(tmp_path / "one", 2, offload={"optimizer": True}, zero_stage=0)
    _, jobs, _ = step(tmp_path / "four", 2, dp=4, global_batch=4, offload={"optimizer": True}, zero_stage=1)
    parameters = planned(tmp_path, 2)["weights_bytes"] // 2
    assert sum(durations(jobs, "HostAdam_")) == pytest.approx(30 * parameters / HOST, rel=1e-6)
    spans = sorted((float(job["start_s"]), float(job["end_s"])) for job in jobs if job["name"].startswith("HostAdam_"))
    assert all(before[1] <= after[0] + 1e-12 for before, after in zip(spans, spans[1:]))


def test_narrow_states_take_their_bytes(tmp_path):
    def bytes_per_parameter(**precision):
        memory = planned(tmp_path, 2, zero_stage=0, precision=precision)
        return (memory["gradients_bytes"] + memory["optimizer_bytes"]) / (memory["weights_bytes"] / 2)
    assert bytes_per_parameter() == 16
    assert bytes_per_parameter(moments="bf16", gradients="as_parameters") == 10
    assert bytes_per_parameter(moments="fp8") == 10
    assert bytes_per_parameter(moments="bf16", master="none") == 8


def test_primary_weights_in_fp8_replace_those_in_16_bits(tmp_path):
    both, narrow = (planned(tmp_path, 2, zero_stage=1, precision={"gemm": "fp8", "parameters": word})["weights_bytes"] for word in ("model", "gemm"))
    matrices = 2 * (HIDDEN * (HEADS + 2 * KV_HEADS) * DIM + HEADS * DIM * HIDDEN + 3 * HIDDEN * FFN)
    assert both - narrow == 2 * matrices


@pytest.mark.parametrize("keys, line", [
    ({"offload": {"activations": 1.5}}, "workload.offload.activations: '1.5' is out of range; accepted: 0 to 1"),
    ({"offload": {"activations": -0.1}}, "workload.offload.activations: '-0.1' is out of range; accepted: 0 to 1"),
    ({"offload": {"activations": 1, "layers": 5}}, "workload.offload.layers: 5 is more than the 4 layers of a stage"),
    ({"offload": {"layers": 2}}, "workload.offload.layers: needs offload.activations above 0"),
    ({"offload": {"activation": 1}}, "workload.offload.activation: unknown key (did you mean 'activations'?)"),
    ({"offload": {"nvme": True}}, "workload.offload.nvme: not modelled: offload to disks"),
    ({"offload": {"activations": 1}, "dp": 1, "pp": 2, "schedule": "zb_h1", "global_batch": 4},
     "workload.offload.activations: needs a schedule without W slots; accepted: 0"),
    ({"precision": {"parameters": "gemm"}}, "workload.precision.parameters: gemm needs precision.gemm: fp8, mxfp8 or nvfp4; accepted: model"),
    ({"precision": {"moments": "bf8"}}, "workload.precision.moments: unknown value 'bf8'; accepted: fp32, bf16, fp16, fp8"),
    ({"recompute": {"modules": ["core_atn"]}},
     "workload.recompute.modules.0: unknown value 'core_atn'; accepted: core_attn, layernorm, mlp, moe, moe_act (did you mean 'core_attn'?)"),
    ({"recompute": {"modules": ["moe"]}}, "workload.recompute.modules: moe: model has no experts; accepted: core_attn, layernorm, mlp"),
    ({"recompute": {"modules": []}}, "workload.recompute.modules: expected a list of one or more of core_attn, layernorm, mlp, moe, moe_act, got an empty list"),
    ({"recompute": {"modules": ["mlp", "mlp"]}}, "workload.recompute.modules.1: 'mlp' is listed twice"),
    ({"lora": {"rank": 0}}, "workload.lora.rank: '0' is out of range"),
    ({"lora": {"rank": 5000}}, "workload.lora.rank: 5000 is more than the width of model; accepted: 1 to 4096"),
    ({"lora": {"rank": 8, "modules": ["q_proj"]}}, "workload.lora.modules.0: unknown value 'q_proj'; accepted: qkv, proj, fc1, fc2"),
    ({"lora": {"rank": 8}, "zero_stage": 3, "software": "torchtitan"}, "workload.lora: needs zero_stage: 0, 1 or 2"),
    ({"packed_sequences": True}, "workload.packed_sequences: not modelled: packed sequences and sequences of several lengths in a step"),
])
def test_bad_input_is_one_line(keys, line, tmp_path):
    assert line in refuse("dgx_h100", scenario(tmp_path, 4, **keys), "--quiet", "--out", tmp_path / "out")


def test_offload_beyond_host_memory_is_refused_with_the_sum(tmp_path):
    keys = {"offload": {"activations": 1, "optimizer": True}, "overrides": {"host_memory": {"bytes": 1e10}}}
    text = refuse("dgx_h100", scenario(tmp_path, 4, **keys), "--quiet", "--out", tmp_path / "out")
    state = planned(tmp_path, 4)["weights_bytes"] // 2 * 18
    activations = 4 * KEPT
    assert (f"workload.offload: 1 ranks keep activations {activations * 1e-9:.2f} GB + optimizer {state * 1e-9:.2f} GB = "
            f"{(activations + state) * 1e-9:.2f} GB in the memory of a CPU socket, which has 10.00 GB") in text


def test_a_step_that_does_not_fit_names_the_features_that_would_make_it_fit(tmp_path):
    """What each change needs is what --explain says of the changed scenario."""
    keys = {"seq_tokens": 65536, "dp": 8, "global_batch": 8, "zero_stage": 1, "loss_chunks": 4096}
    text = refuse("dgx_h100", scenario(tmp_path, 8, **keys), "--quiet", "--out", tmp_path / "out")
    for change, more in {"offload.activations: 1": {"offload": {"activations": 1}}, "recompute: full": {"recompute": "full"}}.items():
        needed = planned(tmp_path, 8, **keys, **more)["total_bytes"]
        assert f"{change} ({needed * 1e-9:.2f} GB)" in text


def test_the_page_lists_what_is_not_modelled():
    listed = (ROOT / "sc_main" / "scenario" / "table" / "not_modelled.cpp").read_text()
    for line in (ROOT / "docs" / "fidelity.md").read_text().split("### Keys that say so")[1].split("## Two")[0].splitlines():
        if not line.startswith("| `"):
            continue
        keys, text = line.strip("| ").split(" | ")
        assert f'"{text}"' in listed
        assert "{" + keys.replace("`", '"') + "}" in listed
