"""workload.gtp with routed experts: which ranks divide them, what moves, when it is gathered, memory, bad input."""

import json

import pytest

from platform_runs import refuse, rows, succeed, summary, training

HIDDEN, FFN, VOCAB, EXPERTS, LAYERS, SEQUENCES = 4096, 4096, 32000, 8, 4, 16  # NCCL would send smaller matrices with flags
MODEL = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_hidden_layers": LAYERS, "hidden_size": HIDDEN,
         "num_attention_heads": 32, "num_key_value_heads": 16, "intermediate_size": FFN, "num_local_experts": EXPERTS, "num_experts_per_tok": 2,
         "vocab_size": VOCAB, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
QKV, PROJ = HIDDEN * (32 + 2 * 16) * 128, HIDDEN * HIDDEN
ATTENTION = QKV + PROJ
EXPERT_FC1, EXPERT_FC2 = 2 * FFN * HIDDEN, FFN * HIDDEN
END = VOCAB * HIDDEN


def step(folder, *options, out="out", platform="dgx_h100", **keys):
    """Runs a step on eight GPUs. Returns the folder of its results."""
    (folder / "model.json").write_text(json.dumps(MODEL))
    workload = {"kind": "training", "seq_tokens": 2048, "global_batch": SEQUENCES, "nvls": False, "grad_norm": "none"} | keys
    (folder / "scenario.yaml").write_text(json.dumps({"schema_version": 1, "platform": platform, "fabric": {"fidelity": "fluid"}, "model": {"config": "model.json"}, "workload": workload}))
    succeed(platform, folder / "scenario.yaml", "--out", folder / out, "--quiet", *options)
    return folder / out


def sent(out):
    return {row["class"]: row["bytes"] for row in summary(out)["traffic"]}


@pytest.mark.parametrize("gtp, keys, gathers", [
    ({"size": 8, "experts_size": 8}, {}, 2), ({"size": 8, "experts_size": 2}, {}, 2), ({"size": 8}, {}, 2),
    ({"size": 4, "experts_size": 2}, {"ep": 2}, 2), ({"size": 4, "experts_size": 4}, {"recompute": "full", "stops_early": False}, 3),
    ({"size": 2, "experts_size": 2}, {"tp": 2, "sequence_parallel": True, "ep": 2}, 2), ({"size": 4, "experts_size": 4}, {"pp": 2, "schedule": "zb_h1"}, 2)])
def test_experts_are_gathered_and_scattered_over_their_own_ranks(gtp, keys, gathers, tmp_path):
    keys = dict(keys)
    if keys.pop("stops_early", None) is False:
        keys["recompute_stops_early"] = False
    out = step(tmp_path, gtp=gtp, **keys)
    n, m, ep = gtp["size"], gtp.get("experts_size", 1), keys.get("ep", 1)
    batches = SEQUENCES * keys.get("tp", 1)  # micro-batches of all ranks of a pipeline stage, each with the matrices of its tp rank
    dense = LAYERS * ATTENTION / keys.get("tp", 1) * (gathers + 1) + END / keys.get("tp", 1) * (3 + 2)
    experts = LAYERS * EXPERTS / ep * (EXPERT_FC1 + EXPERT_FC2) / keys.get("tp", 1) * (gathers + 1)
    assert sent(out)["weights"] == 2 * batches * (dense * (n - 1) / n + experts * (m - 1) / m)
    assert summary(out)["metrics"]["gtp"]["bytes_per_element"] == 2 * (gathers + 1)


@pytest.mark.parametrize("experts_size", [1, 2, 8])
def test_gradients_of_experts_are_reduced_over_ranks_with_the_same_shard(experts_size, tmp_path):
    out = step(tmp_path, gtp={"size": 8, "experts_size": experts_size}, zero_stage=0)
    shard = LAYERS * EXPERTS * (EXPERT_FC1 + EXPERT_FC2) // experts_size
    replicas = 8 // experts_size
    norms = LAYERS * (2 * HIDDEN + HIDDEN * EXPERTS) + HIDDEN  # and routers: on all ranks
    # All-reduces of 4 bytes over `experts_size` groups. The few norms and routers have flags (NCCL's protocol LL), so are counted within 1 %.
    assert sent(out)["dp"] - 4 * 2 * experts_size * shard * (replicas - 1) == pytest.approx(4 * 2 * norms * 7, rel=1.01)
    assert sent(out)["dp"] >= 4 * 2 * (experts_size * shard * (replicas - 1) + norms * 7)


def test_all_experts_of_a_layer_are_one_gather_a_layer_ahead(tmp_path):
    out = step(tmp_path, "--jobs", "all", seq_tokens=32768, global_batch=8, launch="eager", host_us=0, gtp={"size": 8, "experts_size": 8})
    jobs = {row["name"]: row for row in rows(out / "jobs.csv")}
    end = "_PP[0]_TP[0]_MB[0]_GTP[0]"
    for matrix, size in (("ExpertsFc1", EXPERT_FC1), ("ExpertsFc2", EXPERT_FC2)):
        gathers = [jobs[f"GTP_AG_Layer[{layer}]_{matrix}_F{end}"] for layer in range(LAYERS)]
        assert all(int(row["bytes"]) == 2 * EXPERTS * size for row in gathers)
        starts = [float(row["start_s"]) for row in gathers]
        # QKV of a layer is gathered when the output projection of the layer before begins; experts, when those of the layer before begin.
        attention = [float(jobs[f"GTP_AG_Layer[{layer}]_Qkv_F{end}"]["start_s"]) for layer in range(LAYERS)]
        assert starts[0] < attention[1]
        assert all(attention[layer] < starts[layer] for layer in range(1, LAYERS))
        assert all(starts[layer] < attention[layer + 1] for layer in range(1, LAYERS - 1))
        assert sum(name.startswith("GTP_AG_") and matrix in name and "_GTP[0]" in name for name in jobs) == 2 * LAYERS


def test_two_layers_of_experts_are_in_memory(tmp_path):
    out = step(tmp_path, launch="eager", gtp={"size": 8, "experts_size": 8})
    found = summary(out)["metrics"]["gtp"]["cache_peak_bytes"]
    experts = 2 * EXPERTS * (EXPERT_FC1 + EXPERT_FC2)
    # One buffer for each of qkv, proj, and embedding and head. Two whole gradients of the largest matrix, fc1 of all experts.
    assert found == 2 * (experts + ATTENTION + END + 2 * EXPERTS * EXPERT_FC1)
    gathered = [int(row["gathered_bytes"]) for row in rows(out / "memory.csv")]
    assert gathered[0] == 0 and max(gathered) == found and len(set(gathered)) > 2
    whole, divided = [summary(step(tmp_path, out=f"out{m}", zero_stage=0, gtp={"size": 8, "experts_size": m}))["metrics"]["memory"] for m in (1, 8)]
    for key, size in (("weights", 2), ("gradients", 4), ("optimizer", 12)):
        assert whole[f"{key}_peak_bytes"] - divided[f"{key}_peak_bytes"] == size * LAYERS * EXPERTS * (EXPERT_FC1 + EXPERT_FC2) * 7 / 8


def test_one_kernel_finds_the_maximum_of_all_experts(tmp_path):
    out = step(tmp_path, "--jobs", "all", platform="dgx_b200", precision={"gemm": "nvfp4"}, gtp={"size": 8, "experts_size": 8, "quantize": "per_gather"})
    names = [row["name"] for row in rows(out / "jobs.csv")]
    maxima = [name for name in names if name.startswith("GTP_AR_") and "Experts" in name and "_GTP[0]" in name]
    assert len(maxima) == 2 * 2 * LAYERS * SEQUENCES // 8 and len(set(maxima)) == len(maxima)


@pytest.mark.parametrize("experts_size", [1, 2, 8])
def test_folded_replicas_reduce_experts_as_the_whole_machine_does(experts_size, tmp_path):
    sets = ["--set", "machine.groups.node.servers=4", "--set", "fabric.fidelity=fluid"]
    whole, part = (step(tmp_path, *sets, "--set", f"simulation.fold={fold}", out=fold, global_batch=32, zero_stage=1,
                        gtp={"size": 8, "experts_size": experts_size}) for fold in ("off", "require"))
    assert summary(part)["simulation"]["replicas"] == 4
    assert summary(part)["metrics"]["step_s"] == summary(whole)["metrics"]["step_s"]
    assert sent(part)["dp"] == pytest.approx(sent(whole)["dp"] / 4, rel=1e-6)  # a folded ring has equal chunks


@pytest.mark.parametrize("text, model, line", [
    ("  gtp: {size: 8, experts_size: 3}\n", "tiny_experts", "7:32: error: workload.gtp.experts_size: 3 does not divide gtp.size 8"),
    ("  gtp: {size: 8, experts_size: 2}\n", "tiny", "7:32: error: workload.gtp.experts_size: tiny has no experts; accepted: 1"),
    ("  gtp: {size: 8, experts_size: 0}\n", "tiny_experts", "7:32: error: workload.gtp.experts_size: "),
    ("  gtp: {size: 8, expert_size: 2}\n", "tiny_experts", "did you mean 'experts_size'?"),
    ("  gtp: {size: 8, experts_size: 2, reduce: nvls}\n  nvls: true\n", "tiny_experts",
     "workload.gtp.reduce: nvls needs gtp.experts_size of 1, or of 3 or more; accepted: ring, all_to_all_fp32")])
def test_bad_input(text, model, line, tmp_path):
    assert line in refuse("dgx_h100", training(tmp_path, text, model), "--out", tmp_path / "out", "--quiet")
