"""workload.kind: training on expert-parallel and context-parallel ranks: bytes on links, and what is refused."""

import json

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

TOKENS, HIDDEN, HEAD, LAYERS, SEQUENCES = 4096, 1024, 128, 2, 16
MODEL = {"num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": 8, "num_key_value_heads": 4,
         "vocab_size": 32000, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
ROUTED = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "intermediate_size": 2048, "num_local_experts": 8,
          "num_experts_per_tok": 2}
DENSE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "intermediate_size": 4096}

WIDE = DENSE | {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 16, "intermediate_size": 16384}  # no matrix is small for NCCL
WIDE_ROUTED = ROUTED | {"hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 16}


def scenario(folder, form, **keys):
    (folder / "model.json").write_text(json.dumps(MODEL | form))
    workload = {"kind": "training", "seq_tokens": TOKENS, "global_batch": SEQUENCES, "nvls": False} | keys
    path = folder / "scenario.yaml"
    path.write_text(json.dumps({"schema_version": 1, "platform": "dgx_h100", "fabric": {"fidelity": "fluid"}, "model": {"config": "model.json"}, "workload": workload}))
    return path


def step(folder, form, **keys):
    """Bytes by class of traffic, and the rows of all ranks."""
    out = folder / "out"
    succeed("dgx_h100", scenario(folder, form, **keys), "--out", out, "--quiet")
    ranks = [{key: float(value) for key, value in row.items() if key != "gpu"} for row in rows(out / "ranks.csv")]
    for rank in ranks:
        parts = [rank[key] for key in ["kernels_s", "bubble_s", "host_s", "optimizer_s"]] + [rank[key] for key in rank if key.startswith("exposed_")]
        assert sum(parts) == pytest.approx(rank["step_s"], abs=1e-12)
    return {row["class"]: row["bytes"] for row in summary(out)["traffic"]}, ranks


def between_experts(hidden, ep, tp):
    """Bytes of a step: copies there and back, twice; their weights there, and gradients of these back; numbers of copies in each forward pass
    of a rank. The last two are small, so NCCL sends a flag with each number (LL)."""
    copies = SEQUENCES * TOKENS * 2
    flags, numbers = 2, SEQUENCES * tp * 8 * 8 * (ep - 1)
    return LAYERS * (copies * (4 * hidden * 2 + flags * 2 * 4) * (ep - 1) / ep + flags * numbers)


@pytest.mark.parametrize("keys, routers, ep", [({"ep": 8}, 8, 8), ({"ep": 2, "dp": 8}, 8, 2), ({"ep": 4, "pp": 2}, 4, 4),
                                               ({"ep": 2, "tp": 2, "sequence_parallel": True}, 8, 2)])
def test_bytes_of_expert_parallel_ranks(keys, routers, ep, tmp_path):
    found, _ = step(tmp_path, ROUTED, zero_stage=1, **keys)
    assert found["ep"] == between_experts(HIDDEN, ep, keys.get("tp", 1))
    # Gradients of 4 bytes are scattered, weights of 2 bytes gathered: experts among fewer ranks.
    tp, pp = keys.get("tp", 1), keys.get("pp", 1)
    dp = 8 // tp // pp
    experts = LAYERS * 8 * 3 * HIDDEN * 2048
    attention = LAYERS * (HIDDEN * (8 + 2 * 4) * HEAD + 8 * HEAD * HIDDEN)
    common = attention + LAYERS * (8 * HIDDEN + 2 * HIDDEN) + 2 * 32000 * HIDDEN + HIDDEN
    expected = (4 + 2) * ((dp - 1) * common + (dp // ep - 1) * experts)
    assert found["dp"] == pytest.approx(expected, rel=1e-5)  # and a few bytes of the gradient norm


@pytest.mark.parametrize("keys, ep", [({"tp": 2, "ep": 2}, 2), ({"tp": 4, "ep": 8}, 8), ({"tp": 2, "ep": 4, "pp": 2, "dp": 2}, 4)])
def test_whole_experts_of_tensor_parallel_ranks(keys, ep, tmp_path):
    """Each rank sends its own tokens to all expert-parallel ranks, and nothing is gathered around the experts."""
    keys = {"sequence_parallel": True, "zero_stage": 1} | keys
    found, ranks = step(tmp_path, WIDE_ROUTED, **keys, expert_tp=1)
    tokens, hidden, tp = SEQUENCES * TOKENS, 4096, keys["tp"]
    assert found["ep"] == between_experts(hidden, ep, tp)
    results = summary(tmp_path / "out")
    assert results["setup"]["ep"] == ep and results["setup"]["expert_tp"] == 1
    (tmp_path / "divided").mkdir()
    if ep > tp:
        divided, ranks_divided = step(tmp_path / "divided", WIDE_ROUTED, **(keys | {"ep": ep // tp}))
        # Divided experts: tokens are gathered and scattered in both directions, k copies of each.
        around = 4 * LAYERS * 2 * tokens * hidden * 2 * (tp - 1)
        assert divided["tp"] - found["tp"] == pytest.approx(around, rel=1e-9)
        # States of the same size, reduced over as many replicas.
        assert divided["dp"] == found["dp"]
        memory, memory_divided = results["metrics"]["memory"], summary(tmp_path / "divided" / "out")["metrics"]["memory"]
        assert memory["weights_peak_bytes"] == memory_divided["weights_peak_bytes"] and memory["activations_peak_bytes"] < memory_divided["activations_peak_bytes"]


def test_exchanges_of_whole_experts_run_beside_products(tmp_path):
    keys = {"tp": 2, "ep": 4, "dp": 2, "pp": 2, "sequence_parallel": True, "expert_tp": 1, "global_batch": 32, "launch": "graph", "pp_overlap": True}
    model = ROUTED | {"num_hidden_layers": 8}
    apart, one_by_one = step(tmp_path, model, **keys)
    together, interleaved = step(tmp_path, model, **keys, overlap_moe=True)
    assert together["ep"] == apart["ep"] and mean(interleaved, "exposed_ep_s") < mean(one_by_one, "exposed_ep_s")


@pytest.mark.parametrize("keys, why", [
    ({"tp": 4, "ep": 4, "expert_tp": 2}, "workload.expert_tp: 2; accepted: 1, or tp, which is 4"),
    ({"tp": 4, "ep": 2, "expert_tp": 1}, "workload.ep: 2 with expert_tp: 1; accepted: a multiple of tp, 4, that divides tp x dp, 8"),
    ({"tp": 2, "ep": 2, "expert_tp": 1, "sequence_parallel": False}, "workload.expert_tp: 1 needs sequence_parallel: true"),
    ({"tp": 2, "ep": 2, "expert_tp": 1, "routing": {"skew": 1}}, "workload.expert_tp: 1 needs routing: uniform"),
    ({"tp": 2, "ep": 2, "expert_tp": 1, "cp": 2}, "workload.expert_tp: 1 needs cp: 1 and gtp: none")])
def test_whole_experts_that_are_not_modelled_are_refused(keys, why, tmp_path):
    done = run("dgx_h100", scenario(tmp_path, ROUTED, **({"sequence_parallel": True} | keys)))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and why in done.stderr, done.stderr


def mean(ranks, key):
    return sum(rank[key] for rank in ranks) / len(ranks)


@pytest.mark.parametrize("keys", [{"ep": 8}, {"ep": 4, "pp": 2}, {"ep": 2, "tp": 2, "sequence_parallel": True},
                                  {"ep": 4, "pp": 2, "dp": 4, "schedule": "interleaved", "virtual_stages": 2},
                                  {"ep": 4, "pp": 2, "dp": 4, "schedule": "dualpipe_v", "virtual_stages": 2},
                                  {"ep": 2, "pp": 4, "dp": 2, "schedule": "dualpipe"}])
def test_exchanges_with_experts_run_beside_products(keys, tmp_path):
    """Interleaved slots move the same bytes. Exchanges are exposed less, by no more than kernels could hide."""
    keys = keys | {"global_batch": 32, "launch": "graph", "pp_overlap": True}
    model = ROUTED | {"num_hidden_layers": 4 * keys.get("pp", 1)}  # a stage is more than its head
    apart, one_by_one = step(tmp_path, model, **keys)
    together, interleaved = step(tmp_path, model, **keys, overlap_moe=True)
    for traffic in ("ep", "pp", "tp"):
        assert together.get(traffic) == apart.get(traffic)
    exposed, hidden = mean(interleaved, "exposed_ep_s"), mean(one_by_one, "exposed_ep_s") - mean(interleaved, "exposed_ep_s")
    assert 0 < exposed and 0 < hidden < mean(interleaved, "kernels_s")
    # Exchanges take SMs and HBM from the kernels beside them.
    assert mean(interleaved, "kernels_s") > mean(one_by_one, "kernels_s")
    if keys.get("schedule") not in ("interleaved", "dualpipe"):  # there, each pair waits for transfers from the pairs of its neighbours
        assert mean(interleaved, "step_s") < mean(one_by_one, "step_s")


@pytest.mark.parametrize("keys", [{"zero_stage": 1}, {"tp": 2, "sequence_parallel": True, "zero_stage": 0}, {"zero_stage": 2, "recompute": "full"}])
def test_dualpipe_is_dualpipe_v_with_another_way_between_the_stages(keys, tmp_path):
    """Four ranks of a pipeline hold four stages twice. Two ranks of dualpipe_v hold them once, and another two replicas the same stages."""
    keys = keys | {"global_batch": 32, "launch": "graph"}
    model, tp = DENSE | {"num_hidden_layers": 8}, keys.get("tp", 1)
    replicas = 2 // tp
    found = []
    for name, more in [("both", {"schedule": "dualpipe", "pp": 4, "dp": replicas}),
                       ("v", {"schedule": "dualpipe_v", "pp": 2, "virtual_stages": 2, "dp": 2 * replicas})]:
        (tmp_path / name).mkdir()
        sent, ranks = step(tmp_path / name, model, **keys, **more)
        found.append((sent, ranks, summary(tmp_path / name / "out")))
    (both, ranks, results), (v, ranks_v, results_v) = found
    activations = 32 * TOKENS * HIDDEN * 2  # of all sequences, forward; gradients have as many bytes
    assert both["pp"] == 2 * 3 * activations  # three ways from rank to rank
    assert v["pp"] == 2 * 2 * activations  # the two stages in the middle are on one rank
    assert both["dp"] == v["dp"] and both.get("tp") == v.get("tp")
    assert mean(ranks, "kernels_s") == pytest.approx(mean(ranks_v, "kernels_s"), rel=0.02)  # beside other transfers
    assert mean(ranks, "step_s") == pytest.approx(mean(ranks_v, "step_s"), rel=0.02)
    assert results["metrics"]["memory"]["peak_bytes"] == results_v["metrics"]["memory"]["peak_bytes"]
    assert {key: results["setup"][key] for key in ("pp", "dp", "micro_batches", "schedule")} == {
        "pp": 4, "dp": replicas, "micro_batches": 32 // replicas, "schedule": "dualpipe"}
    gpus = {(int(row["pp"]), int(row["dp"]), int(row["tp"])): row["gpu"] for row in rows(tmp_path / "both" / "out" / "ranks.csv")}
    for p in range(4):
        for d in range(replicas):
            for t in range(tp):
                assert gpus[p, d, t] == f"node0.gpu{(p * replicas + d) * tp + t}"


@pytest.mark.parametrize("cp_comm", ["p2p", "all_gather", "a2a"])
@pytest.mark.parametrize("cp, tp", [(2, 1), (4, 1), (2, 2)])
def test_bytes_of_context_parallel_ranks(cp_comm, cp, tp, tmp_path):
    found, ranks = step(tmp_path, DENSE, cp=cp, tp=tp, cp_comm=cp_comm)
    kv, q = [2 * LAYERS * SEQUENCES * TOKENS * heads * HEAD for heads in (2 * 4, 8)]  # of all ranks, in bytes
    expected = 2 * (kv + 2 * q) * (cp - 1) / cp if cp_comm == "a2a" else 3 * kv * (cp - 1)
    assert found["cp"] == expected
    assert {rank["cp"] for rank in ranks} == set(range(cp))


def test_the_ring_hides_behind_attention(tmp_path):
    exposed = {}
    for cp_comm in ["p2p", "all_gather"]:
        folder = tmp_path / cp_comm
        folder.mkdir()
        _, ranks = step(folder, DENSE, cp=2, cp_comm=cp_comm, seq_tokens=32768)
        exposed[cp_comm] = sum(rank["exposed_cp_s"] for rank in ranks)
    assert exposed["p2p"] < 0.5 * exposed["all_gather"]


@pytest.mark.parametrize("form, keys", [
    (DENSE, {"tp": 2, "sequence_parallel": True, "zero_stage": 0}), (DENSE, {"tp": 2, "pp": 2, "recompute": "full"}),
    (DENSE, {"cp": 2, "cp_comm": "all_gather"}), (DENSE, {"zero_stage": 2, "micro_batch": 2}), (DENSE, {"zero_stage": 3, "reshard_after_forward": False}),
    (WIDE, {"zero_stage": 3, "hsdp": 4}), (WIDE, {"zero_stage": 1, "hsdp": 2}), (WIDE, {"zero_stage": 2, "hsdp": 2, "tp": 2, "sequence_parallel": True}),
    (WIDE, {"gtp": {"size": 4}, "dp": 2, "zero_stage": 0}), (WIDE, {"gtp": {"size": 2}, "tp": 2, "sequence_parallel": True, "zero_stage": 0}),
    (WIDE, {"gtp": {"size": 2}, "zero_stage": 2, "recompute": "full"}),
    (ROUTED, {"ep": 4, "dp": 8}), (WIDE_ROUTED, {"ep": 4, "zero_stage": 3})])
def test_explained_bytes_cross_the_links(form, keys, tmp_path):
    """Rings send each byte once to each rank that needs it. Small all-reduces (the norm of gradients, numbers of the loss) use the
    protocol LL, which sends a flag with each four bytes."""
    explained = json.loads(succeed("dgx_h100", scenario(tmp_path, form, **keys), "--explain", "--json").stdout)
    found, _ = step(tmp_path, form, **keys)
    for group in explained["sent"]:
        names = {"gtp": ["weights"], "dp": ["dp", "weights"] if keys.get("zero_stage") == 3 else ["dp"]}.get(group["group"], [group["group"]])
        sent = sum(found.get(name, 0) for name in names)
        assert sent / 8 == pytest.approx(group["bytes_per_rank"], rel=1e-3), group
    assert {group["group"] for group in explained["sent"]} | {"weights"} >= {name for name, sent in found.items() if sent > 0}


@pytest.mark.parametrize("form, keys, message", [
    (DENSE, {"ep": 2}, "workload.ep: model has no experts; accepted: 1"),
    (DENSE, {"overlap_moe": True}, "workload.overlap_moe: model has no experts; accepted: false"),
    (ROUTED, {"overlap_moe": True}, "workload.overlap_moe: needs ep of 2 or more; accepted with ep: 1: false"),
    (ROUTED, {"ep": 8, "global_batch": 8, "overlap_moe": True},
     "workload.overlap_moe: needs 2 or more micro-batches; set global_batch"),
    (ROUTED, {"ep": 8, "recompute": "full", "overlap_moe": True}, "workload.overlap_moe: needs recompute: none or selective"),
    (ROUTED, {"ep": 4, "pp": 2, "schedule": "zb_h1", "overlap_moe": True},
     "workload.overlap_moe: needs schedule: 1f1b, interleaved, dualpipe_v or dualpipe"),
    (ROUTED, {"ep": 8, "zero_stage": 3, "overlap_moe": True}, "workload.overlap_moe: needs zero_stage: 0, 1 or 2"),
    (ROUTED, {"ep": 8, "pp_overlap": False, "overlap_moe": True}, "workload.overlap_moe: needs pp_overlap: true"),
    (ROUTED, {"ep": 3, "dp": 6}, "workload.ep: 3 does not divide the 8 experts of model"),
    (ROUTED, {"ep": 8, "dp": 4}, "workload.ep: 8 does not divide dp 4"),
    (ROUTED, {"ep": 2, "tp": 2}, "workload.ep: with tp of 2 or more, ep needs sequence_parallel: true"),
    (DENSE, {"cp": 8, "seq_tokens": 4104}, "workload.cp: 8 does not divide half of the 4104 tokens of a sequence"),
    (DENSE, {"cp_comm": "a2a"}, "workload.cp_comm: is accepted only with cp of 2 or more"),
    (DENSE, {"cp": 4, "tp": 2, "cp_comm": "a2a"},
     "workload.cp_comm: a2a divides heads, but cp 4 does not divide the 4 heads and 2 KV heads of a tensor-parallel rank; set p2p or all_gather"),
    (DENSE, {"zero_stage": 0, "hsdp": 4}, "workload.hsdp: zero_stage 0 divides no state; accepted with zero_stage: 1, 2 and 3"),
    (DENSE, {"hsdp": 3}, "workload.hsdp: 3 does not divide the 8 data-parallel replicas (dp x cp)"),
    (ROUTED, {"ep": 2, "hsdp": 2}, "workload.hsdp: needs ep: 1 and gtp.size: 1"),
    (DENSE, {"cp": 2, "attention": "unfused"}, "workload.cp: needs attention: flash"),
    (DENSE, {"cp": 4, "pp": 2, "dp": 2}, "workload.dp: tp 1 x cp 4 x pp 2 x dp 2 needs 16 GPUs; the machine has 8"),
])
def test_refusals(form, keys, message, tmp_path):
    result = run("dgx_h100", scenario(tmp_path, form, **keys), "--out", tmp_path / "out")
    assert result.returncode == 2 and not (tmp_path / "out").exists()
    assert message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("zero_stage", [1, 2, 3])
def test_state_that_all_replicas_divide_is_the_plain_step(zero_stage, tmp_path):
    assert step(tmp_path, DENSE, zero_stage=zero_stage, hsdp=8) == step(tmp_path, DENSE, zero_stage=zero_stage)


@pytest.mark.parametrize("zero_stage", [1, 2, 3])
def test_state_of_a_group_is_that_of_so_many_replicas(zero_stage, tmp_path):
    memory = {}
    for name, keys in {"four groups": {"hsdp": 2}, "two ranks": {"dp": 2, "global_batch": SEQUENCES // 4}}.items():
        explained = json.loads(succeed("dgx_h100", scenario(tmp_path, DENSE, zero_stage=zero_stage, **keys), "--explain", "--json").stdout)
        memory[name] = explained["memory"]
    assert memory["four groups"] == memory["two ranks"]


@pytest.mark.parametrize("keys", [{"tp": 4, "sequence_parallel": True}, {"tp": 2, "pp": 2}, {"zero_stage": 3, "dp": 4}])
def test_equal_placements_take_equal_time(keys, tmp_path):
    """All GPUs of a server have the same links to all switch planes, so four neighbours are alike wherever they begin."""
    times = set()
    for begin in range(5):
        _, ranks = step(tmp_path, DENSE, dp=keys.get("dp", 1), placement=[begin + r for r in range(4)], **{k: v for k, v in keys.items() if k != "dp"})
        times.add(tuple(rank["step_s"] for rank in ranks))
    assert len(times) == 1


@pytest.mark.parametrize("keys", [{"ep": 8}, {"ep": 4, "pp": 2}, {"ep": 2, "tp": 2, "sequence_parallel": True}, {"ep": 4, "overlap_moe": True}])
def test_skewed_routing(keys, tmp_path):
    """Skew moves work and bytes between expert-parallel ranks. It changes neither sum, and skew 0 changes nothing."""
    keys = keys | {"global_batch": 32, "launch": "graph"}
    even, even_ranks = step(tmp_path, ROUTED, **keys)
    zero, zero_ranks = step(tmp_path, ROUTED, **keys, routing={"skew": 0})
    assert zero == even
    assert zero_ranks[0]["step_s"] == pytest.approx(even_ranks[0]["step_s"], rel=1e-5)
    memory = summary(tmp_path / "out")["metrics"]["memory"]["activations_peak_bytes"]
    last = mean(even_ranks, "step_s")
    for skew in (0.5, 1):
        skewed, ranks = step(tmp_path, ROUTED, **keys, routing={"skew": skew})
        assert skewed["ep"] == pytest.approx(even["ep"], rel=1e-4)
        assert skewed.get("tp", 0) == pytest.approx(even.get("tp", 0), rel=0.01)
        # Products of experts are not exactly proportional to their tokens. With overlap, kernels also slow beside exchanges, by at most
        # what longer exchanges add to the step.
        more_kernels = mean(ranks, "kernels_s") - mean(even_ranks, "kernels_s")
        more_step = mean(ranks, "step_s") - mean(even_ranks, "step_s")
        assert -0.05 * mean(even_ranks, "kernels_s") < more_kernels
        assert more_kernels < (more_step if "overlap_moe" in keys else 0.05 * mean(even_ranks, "kernels_s"))
        assert max(rank["kernels_s"] for rank in ranks) > 1.02 * max(rank["kernels_s"] for rank in even_ranks)
        assert mean(ranks, "step_s") > 1.02 * last
        last = mean(ranks, "step_s")
        more = summary(tmp_path / "out")["metrics"]["memory"]["activations_peak_bytes"]
        assert more > memory
        memory = more


def test_skewed_routing_depends_on_its_seed(tmp_path):
    steps = [step(tmp_path, ROUTED, ep=8, routing={"skew": 0.5, "seed": seed})[1] for seed in (1, 1, 2)]
    assert steps[0] == steps[1] != steps[2]
    (tmp_path / "even.csv").write_text("".join(f"{layer}" + ",7" * 8 + "\n" for layer in range(LAYERS)))
    even, traced = (step(tmp_path, ROUTED, ep=8, routing=routing)[1] for routing in ({"skew": 0}, str(tmp_path / "even.csv")))
    assert traced == even


@pytest.mark.parametrize("keys, buckets", [({"zero_stage": 1}, 1), ({"zero_stage": 2}, 4), ({"zero_stage": 3}, 4), ({"zero_stage": 3, "bucket_parameters": 10**9}, 1)])
def test_gradients_that_ranks_divide_are_reduced_layer_by_layer(keys, buckets, tmp_path):
    """Beside the backward pass of the layers below, although no bucket size is given."""
    sheet = (ROOT / "platforms" / "datasheets" / "software" / "torchtitan.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(sheet.replace("zero_stages: [2, 3]", "zero_stages: [1, 2, 3]"))
    step(tmp_path, WIDE | {"num_hidden_layers": 4}, software="./mine.yaml", launch="graph", global_batch=8, grad_norm="none", **keys)
    jobs = rows(tmp_path / "out" / "jobs.csv")
    reductions = {row["name"]: float(row["start_s"]) for row in jobs if row["name"].startswith("DP_RS_") and row["rank"] == "0"}
    end = next(float(row["end_s"]) for row in jobs if row["name"].startswith("B_") and row["rank"] == "0")
    assert len(reductions) == buckets
    assert sum(start < end for start in reductions.values()) == buckets - 1  # only the lowest layer's waits for the end
