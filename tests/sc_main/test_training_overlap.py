"""workload.tp_overlap: products that overlap with their tensor-parallel collectives. Bytes, times, jobs, bad input."""

import json
import re

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

HIDDEN, FFN, LAYERS, TOKENS, TP = 8192, 28672, 2, 4096, 8
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": HIDDEN,
         "intermediate_size": FFN, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 32000, "num_hidden_layers": LAYERS,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
METHODS = ["none", "ring", "pipelined", "bulk", "decomposed", "fused", "userbuffers"]
MULTICAST = {"dgx_h100": ["pipelined", "bulk", "userbuffers"], "dgx_a100": []}  # methods that do, where switches can


def scenario(folder, platform="dgx_h100", fidelity="fluid", **keys):
    (folder / "model.json").write_text(json.dumps(MODEL))
    workload = {"kind": "training", "seq_tokens": TOKENS, "global_batch": 2, "tp": TP, "sequence_parallel": True, "launch": "graph",
                "nvls": False, "grad_norm": "none"} | keys
    path = folder / "scenario.yaml"
    path.write_text(json.dumps({"schema_version": 1, "platform": platform, "fabric": {"fidelity": fidelity}, "model": {"config": "model.json"}, "workload": workload}))
    return path


def step(folder, *options, out="out", platform="dgx_h100", **keys):
    succeed(platform, scenario(folder, platform, **keys), "--out", folder / out, "--quiet", *options)
    return folder / out


def tp_bytes(out):
    return next(row["bytes"] for row in summary(out)["traffic"] if row["class"] == "tp")


@pytest.mark.parametrize("platform", MULTICAST)
@pytest.mark.parametrize("keys", [{}, {"fidelity": "train"}, {"recompute": "full"}, {"keep_gathered": True}, {"pp": 2, "tp": 4, "schedule": "zb_h1"},
                                  {"steps": 2}])
def test_methods_move_the_same_bytes_and_parts_add_up(keys, platform, tmp_path):
    """Those that multicast move fewer."""
    sent = {}
    for method in METHODS:
        out = step(tmp_path, out=method, platform=platform, tp_overlap=method, **keys)
        sent[method] = tp_bytes(out)
        metrics = summary(out)["metrics"]
        for row in rows(out / "ranks.csv"):
            parts = sum(float(value) for key, value in row.items() if key.startswith("exposed_") or key in ("kernels_s", "bubble_s", "host_s", "optimizer_s"))
            assert parts == pytest.approx(float(row["step_s"]), abs=1e-12)
        assert metrics["kernels_s"] <= metrics["step_s"]
    # NCCL sends smaller vectors by LL128, which adds 8 bytes to every 120.
    multicast = {method: sent.pop(method) for method in MULTICAST[platform]}
    assert set(sent.values()) == {sent["none"]}
    assert all(found <= sent["none"] for found in multicast.values())  # with zb_h1, nothing of bulk runs beside products
    assert multicast.get("userbuffers", 0) < sent["none"]


@pytest.mark.parametrize("method", ["decomposed", "fused", "userbuffers"])
def test_faster_links_lengthen_no_step(method, tmp_path):
    """Where links could fill the memory, messages leave half of its rate to the products beside them. Waves of thread blocks that shift change a
    step by less than a thousandth."""
    seconds = [summary(step(tmp_path, "--set", f"machine.overrides.gpu.nvlink.gb_per_s={rate}", out=str(rate), tp_overlap=method))["metrics"]["step_s"]
               for rate in (25, 50, 100, 1000)]
    assert all(faster <= 1.001 * slower for slower, faster in zip(seconds, seconds[1:])), seconds


@pytest.mark.parametrize("platform", MULTICAST)
@pytest.mark.parametrize("keys, passes", [({}, 3), ({"recompute": "full"}, 4), ({"pp": 2, "tp": 2, "schedule": "zb_h1"}, 3)])
def test_methods_move_the_same_bytes_where_ranks_divide_weights(keys, passes, platform, tmp_path):
    """A run ends with an error if a product begins before its matrix has landed."""
    traffic, steps = set(), {}
    for method in METHODS:
        out = step(tmp_path, out=method, platform=platform, tp_overlap=method, **{"tp": 4, "gtp": {"size": 2}} | keys)
        if method not in MULTICAST[platform]:
            traffic.add(tuple((row["class"], row["bytes"]) for row in summary(out)["traffic"]))
        metrics = summary(out)["metrics"]
        assert metrics["gtp"]["bytes_per_element"] == 2 * passes
        steps[method] = metrics["step_s"]
    assert len(traffic) == 1
    assert steps["fused"] < min(steps["decomposed"], steps["ring"]) and max(steps["decomposed"], steps["ring"]) < steps["none"]
    assert platform == "dgx_a100" or steps["decomposed"] < steps["ring"]


def test_switches_that_multicast_take_each_vector_once(tmp_path):
    """Without them each rank sends its part to all others. bulk multicasts the scatters beside wgrad."""
    none, bulk = (tp_bytes(step(tmp_path, out=method, tp_overlap=method, keep_gathered=True)) for method in ("none", "bulk"))
    vector = TOKENS * HIDDEN * 2
    scatters = 2 * 2 * LAYERS  # of a part, micro-batch and layer
    flags = scatters * TP * (TP - 1) * 16
    assert none - bulk == scatters * (TP - 2) * vector - flags


def test_userbuffers_hide_most_traffic_of_long_products(tmp_path):
    none, overlapped = (summary(step(tmp_path, out=method, tp_overlap=method))["metrics"] for method in ("none", "userbuffers"))
    assert overlapped["step_s"] < none["step_s"]
    assert overlapped["exposed_s"]["tp"] < 0.6 * none["exposed_s"]["tp"]
    assert overlapped["hidden_ratio"]["tp"] > none["hidden_ratio"]["tp"]


def test_faster_links_are_never_slower(tmp_path):
    for method in METHODS:
        times = [summary(step(tmp_path, "--set", f"machine.overrides.nvlink.gb_per_s={rate}", out=f"{method}{rate}", tp_overlap=method))["metrics"]["step_s"]
                 for rate in (12.5, 25, 100)]
        assert times == sorted(times, reverse=True)


def test_each_shard_is_a_job_of_its_product(tmp_path):
    out = step(tmp_path, "--jobs", "all", tp_overlap={"fc1_fprop": "ring"})
    shards = [row for row in rows(out / "jobs.csv") if row["name"].startswith("TP_AG_") and "_Fc1" in row["name"]]
    micro_batches = 2
    assert len(shards) == TP * (TP - 1) * LAYERS * micro_batches
    assert {int(row["bytes"]) for row in shards} == {TOKENS * HIDDEN * 2 // TP}
    assert not [row for row in rows(out / "jobs.csv") if row["name"].startswith("TP_") and "_Qkv" in row["name"]]


def test_a_default_and_single_products(tmp_path):
    alike = step(tmp_path, out="alike", tp_overlap={"default": "userbuffers", "fc1_fprop": "ring"})  # which userbuffers has anyway
    word = step(tmp_path, out="word", tp_overlap="userbuffers")
    assert (alike / "jobs.csv").read_bytes() == (word / "jobs.csv").read_bytes()
    software = step(tmp_path, out="software")
    none = step(tmp_path, out="none", tp_overlap="none")
    assert (software / "jobs.csv").read_bytes() == (none / "jobs.csv").read_bytes()


def test_tokens_in_the_order_of_ranks_are_copied_for_gradients_of_weights(tmp_path):
    """With [batch, sequence, hidden], a gather alone is followed by a copy. An overlapped product needs none, but the weight's gradient does."""
    sheet = (ROOT / "platforms" / "datasheets" / "software" / "megatron_core.yaml").read_text()

    def kernels_s(layers, first, products, keys):
        (tmp_path / "mine.yaml").write_text(re.sub(r"^sequence_first:.*$", f"sequence_first: {first}", sheet, flags=re.MULTILINE))
        path = scenario(tmp_path, software="./mine.yaml", tp_overlap=dict.fromkeys(products, "decomposed"), keep_gathered=True, **keys)
        (tmp_path / "model.json").write_text(json.dumps(MODEL | {"num_hidden_layers": layers}))
        stage = json.loads(succeed("dgx_h100", path, "--explain", "--json").stdout)["stages"][0]
        return stage["forward_kernels_s"] + stage["backward_kernels_s"]

    def copies_s(products, keys):  # of one layer
        return sum(sign * kernels_s(layers, first, products, keys)
                   for sign, layers, first in ((1, 3, "false"), (-1, 3, "true"), (-1, 2, "false"), (1, 2, "true")))

    def saved_s(*products, **keys):
        return copies_s([], keys) - copies_s(products, keys)

    forward = saved_s("fc1_fprop", recompute="full")  # the first forward pass keeps nothing that is gathered
    assert forward > 0
    assert saved_s("qkv_fprop", "fc1_fprop", recompute="full") == pytest.approx(2 * forward, rel=0.05)  # kernels overlap at their ends
    for products in (["fc1_fprop"], ["fc2_dgrad"], ["qkv_fprop", "proj_dgrad"]):
        assert saved_s(*products) == pytest.approx(0, abs=0.25 * forward)  # less than one copy


def test_sms_of_the_collectives_of_a_product(tmp_path):
    """The product beside gets the others. Multicast in the switches needs few: a scatter on 4 takes as long as on 16, if nothing else is there."""
    alike = step(tmp_path, out="alike", tp_overlap={"fc1_wgrad": {"method": "bulk", "comm_sms": 16}})
    word = step(tmp_path, out="word", tp_overlap={"fc1_wgrad": "bulk"})
    assert (alike / "jobs.csv").read_bytes() == (word / "jobs.csv").read_bytes()
    few = step(tmp_path, out="few", tp_overlap={"fc1_wgrad": {"method": "userbuffers", "comm_sms": 4}})
    assert tp_bytes(few) == tp_bytes(word)
    fewer, more = (summary(out)["metrics"] for out in (few, word))
    assert fewer["kernels_s"] < 0.99 * more["kernels_s"]
    assert fewer["step_s"] < more["step_s"]


def test_narrow_gathers_overlap_too(tmp_path):
    precision = {"gemm": "fp8", "recipe": "delayed"}
    none, ring = (summary(step(tmp_path, out=method, tp_overlap=method, precision=precision))["metrics"] for method in ("none", "ring"))
    assert ring["exposed_s"]["tp"] < none["exposed_s"]["tp"]


def test_collectives_of_normal_priority_wait_longer_for_sms(tmp_path):
    """With slow links, buckets queue behind each other, so most begin in the middle of a kernel. GEMMs of A100 have several waves."""
    keys = {"tp": 1, "sequence_parallel": False, "global_batch": 8, "dp_overlap": True, "bucket_parameters": 1}
    found = []
    for priority in ("high", "normal", None):
        path, out = scenario(tmp_path, **keys, **({"comm_priority": priority} if priority else {})), tmp_path / str(priority)
        (tmp_path / "model.json").write_text(json.dumps(MODEL | {"num_hidden_layers": 4}))
        succeed("dgx_a100", path, "--set", "platform=dgx_a100", "--set", "machine.overrides.nvlink.gb_per_s=5", "--out", out, "--quiet")
        found.append(summary(out))
    high, normal, default = found
    assert default["metrics"] == normal["metrics"]  # of Megatron Core
    assert 0 < high["metrics"]["sm_wait_s"] < normal["metrics"]["sm_wait_s"]
    assert high["traffic"] == normal["traffic"]
    waits = [rank["sm_wait_s"] for rank in normal["memory"]["node"]]
    assert normal["metrics"]["sm_wait_s"] == pytest.approx(sum(waits) / len(waits))


@pytest.mark.parametrize("keys", [{"tp_overlap": "userbuffers"}, {"tp": 1, "sequence_parallel": False, "gtp": {"size": 8}, "global_batch": 8}])
def test_libraries_with_priorities_of_their_own(keys, tmp_path):
    """Transformer Engine's streams and those of gtp have high priority, unless the scenario has the key."""
    written = {priority: step(tmp_path, "--jobs", "all", out=str(priority), **keys, **({"comm_priority": priority} if priority else {}))
               for priority in ("high", None)}
    assert (written["high"] / "jobs.csv").read_bytes() == (written[None] / "jobs.csv").read_bytes()


@pytest.mark.parametrize("keys, where, what", [
    ({"comm_priority": "hgh"}, "workload.comm_priority", "did you mean 'high'?"),
    ({"tp_overlap": "rings"}, "workload.tp_overlap", "did you mean 'ring'?"),
    ({"tp_overlap": {"fc3_fprop": "ring"}}, "workload.tp_overlap", "did you mean 'fc1_fprop'?"),
    ({"tp_overlap": {"proj_fprop": "ring"}}, "workload.tp_overlap.proj_fprop", "accepted: none, pipelined, decomposed, fused, userbuffers"),
    ({"tp_overlap": {"fc1_wgrad": {"method": "ring"}}}, "workload.tp_overlap.fc1_wgrad.method", "accepted: none, bulk, userbuffers"),
    ({"tp_overlap": {"fc1_fprop": {"method": "ring", "comm_sms": 4}}}, "workload.tp_overlap.fc1_fprop.comm_sms", "needs method: pipelined or bulk"),
    ({"tp_overlap": {"fc1_wgrad": {"method": "bulk", "comm_sms": 132}}}, "workload.tp_overlap", "its collectives use 132 SMs, but H100-SXM5-80GB has 132"),
    ({"tp_overlap": {"fc1_wgrad": {"comm_sms": 4}}}, "workload.tp_overlap.fc1_wgrad.method", "is required"),
    ({"tp_overlap": {"fc2_wgrad": "bulk"}}, "workload.tp_overlap.fc2_wgrad", "accepted: none, userbuffers"),
    ({"tp_overlap": "ring", "sequence_parallel": False}, "workload.tp_overlap", "needs sequence_parallel: true"),
    ({"tp_overlap": "pipelined", "seq_tokens": 4104}, "workload.tp_overlap", "4 pieces for tp 8, but a micro-batch of a rank has 4104 tokens"),
    ({"tp_overlap": "ring", "precision": {"gemm": "fp8", "recipe": "rowwise"}}, "workload.tp_overlap",
     "precision.recipe: rowwise narrows activations after their gather, so only words for reduce-scatters overlap"),
    ({"tp_overlap": {"default": "decomposed", "fc1_fprop": "decomposed"}, "precision": {"gemm": "fp8", "recipe": "rowwise"}}, "workload.tp_overlap",
     "fc1_fprop gathers activations that precision.recipe: rowwise narrows after their gather; accepted: none"),
    ({"tp_overlap": "userbuffers", "tp": 2, "placement": [0, 8]}, "workload.tp_overlap", "ranks 0 and 1 are in servers 0 and 1")])
def test_refused(keys, where, what, tmp_path):
    servers = ["--set", "machine.groups.node.servers=2"] if "placement" in keys else []
    result = run("dgx_h100", scenario(tmp_path, **({"dp": 1} | keys)), "--out", tmp_path / "out", *servers)
    assert result.returncode == 2, result.stderr
    assert where in result.stderr and what in result.stderr, result.stderr
    assert not (tmp_path / "out").exists()
