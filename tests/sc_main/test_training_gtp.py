"""workload.gtp: ranks that divide matrices. Bytes on links, each matrix once per use, what is exposed, memory, bad input."""

import collections
import json
import re

import pytest

from platform_runs import ROOT, refuse, rows, run, succeed, summary, training

HIDDEN, FFN, VOCAB, HEADS, KV_HEADS, HEAD = 4096, 16384, 32000, 32, 16, 128
SEQUENCES = 16
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": HIDDEN,
         "intermediate_size": FFN, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
MATRICES = {"Qkv": HIDDEN * (HEADS + 2 * KV_HEADS) * HEAD, "Proj": HIDDEN * HEADS * HEAD, "Fc1": 2 * HIDDEN * FFN, "Fc2": HIDDEN * FFN}
LAYER = sum(MATRICES.values())
END = VOCAB * HIDDEN


def step(folder, *options, layers=2, out="out", platform="dgx_h100", **keys):
    """Runs a step on eight GPUs. Returns the folder of its results."""
    (folder / "model.json").write_text(json.dumps(MODEL | {"num_hidden_layers": layers}))
    workload = {"kind": "training", "seq_tokens": 4096, "global_batch": SEQUENCES, "nvls": False, "grad_norm": "none"} | keys
    scenario = folder / "scenario.yaml"
    scenario.write_text(json.dumps({"schema_version": 1, "platform": platform, "fabric": {"fidelity": "fluid"}, "model": {"config": "model.json"}, "workload": workload}))
    succeed(platform, scenario, "--out", folder / out, "--quiet", *options)
    return folder / out


def sent(out):
    return {row["class"]: row["bytes"] for row in summary(out)["traffic"]}


def outputs(out):
    """Everything but the wall time and the folder of a run."""
    found = {path.name: path.read_text() for path in out.iterdir() if path.suffix in (".csv", ".txt") and path.name != "command.txt"}
    found["summary"] = {key: value for key, value in summary(out).items() if key not in ("simulator", "scenario")}
    return found


def test_one_rank_divides_nothing(tmp_path):
    plain = step(tmp_path, "--jobs", "all", out="plain", dp=8)
    one = step(tmp_path, "--jobs", "all", out="one", dp=8, gtp={"size": 1})
    assert outputs(plain) == outputs(one)


def test_none_divides_nothing(tmp_path):
    plain = step(tmp_path, "--jobs", "all", out="plain", dp=8)
    none = step(tmp_path, "--jobs", "all", out="none", dp=8, gtp="none")
    assert outputs(plain) == outputs(none)


@pytest.mark.parametrize("keys, gathers", [
    ({"gtp": {"size": 8}}, 2),
    ({"gtp": {"size": 4, "prefetch_depth": 2}}, 2),
    ({"gtp": {"size": 8}, "recompute": "full"}, 3),
    ({"gtp": {"size": 2}, "tp": 2, "sequence_parallel": True, "zero_stage": 2}, 2),
    ({"gtp": {"size": 2}, "pp": 2, "schedule": "zb_h1"}, 2),
    ({"gtp": {"size": 8, "wgrad_order": "before_dgrad"}}, 2)])
def test_each_element_is_gathered_forward_and_backward_and_scattered(keys, gathers, tmp_path):
    out = step(tmp_path, layers=4, **keys)
    size = keys["gtp"]["size"]
    # The matrices of tp ranks are those of the model; each of 8 / tp ranks has a micro-batch of its own. bf16.
    passes = SEQUENCES * (size - 1) * 2 / size
    of_layers, head, embedding = 4 * LAYER * (gathers + 1), END * 3, END * 2
    assert sent(out)["weights"] == passes * (of_layers + head + embedding)
    assert summary(out)["metrics"]["gtp"]["bytes_per_element"] == 2 * (gathers + 1)


@pytest.mark.parametrize("gemm, gtp, bytes_per_element", [
    ("mxfp8", {}, 4.0625), ("nvfp4", {}, 3.125), ("nvfp4", {"gather_dtype": "nvfp4", "prefetch_depth": 3}, 3.125),
    ("mxfp8", {"quantize": "per_gather"}, 4.0625), ("mxfp8", {"gather_dtype": "bf16"}, 6), ("fp8", {}, 4)])
def test_narrow_gathers_move_fewer_bytes(gemm, gtp, bytes_per_element, tmp_path):
    """mxfp8: 1 + 1/32 bytes in each direction, nvfp4: 1/2 + 1/16. Gradients have 2 bytes, as have embedding and head."""
    out = step(tmp_path, platform="dgx_b200", gtp={"size": 8} | gtp, precision={"gemm": gemm})
    # NCCL sends the smallest gathers with as many bytes of flags (protocol LL).
    flags = 2 * 2 * MATRICES["Proj"] * 9 / 16 if gemm == "nvfp4" else 0
    assert sent(out)["weights"] == SEQUENCES * 7 / 8 * (2 * LAYER * bytes_per_element + END * (6 + 4) + flags)
    assert summary(out)["metrics"]["gtp"]["bytes_per_element"] == bytes_per_element


@pytest.mark.parametrize("gemm, copies, width", [("bf16", 1, 2), ("mxfp8", 2, 33 / 32)])
def test_kept_matrices_are_gathered_once_a_step(gemm, copies, width, tmp_path):
    batches = SEQUENCES // 8
    keys = {"platform": "dgx_b200", "precision": {"gemm": gemm}}
    again = step(tmp_path, out="again", gtp={"size": 8}, **keys)
    out = step(tmp_path, gtp={"size": 8, "keep_gathered": "step"}, **keys)
    ends = 2 * END + batches * 2 * END
    assert sent(out)["weights"] == 7 * (2 * LAYER * (copies * width + batches * 2) + 2 * ends)
    assert summary(out)["metrics"]["gtp"]["bytes_per_element"] == 2 + copies * width / batches
    # All whole matrices, and two gradients of the largest one.
    assert summary(out)["metrics"]["gtp"]["cache_peak_bytes"] == 2 * LAYER * copies * width + 2 * 2 * END + 2 * 2 * max(END, *MATRICES.values())
    assert summary(out)["metrics"]["step_s"] <= summary(again)["metrics"]["step_s"]


def test_all_to_all_adds_in_32_bits(tmp_path):
    ring, exchanged = [step(tmp_path, "--jobs", "all", out=reduce, gtp={"size": 8, "reduce": reduce}) for reduce in ("ring", "all_to_all_fp32")]
    assert sent(ring)["weights"] == sent(exchanged)["weights"]
    metrics = [summary(out)["metrics"] for out in (ring, exchanged)]
    # Receives a whole gradient, and reads 8 parts of it, not one sum.
    assert metrics[1]["gtp"]["cache_peak_bytes"] - metrics[0]["gtp"]["cache_peak_bytes"] == 2 * max(END, *MATRICES.values())
    names = [{row["name"].split("_")[1] for row in rows(out / "jobs.csv") if row["name"].startswith("GTP_")} for out in (ring, exchanged)]
    assert names == [{"AG", "RS"}, {"AG", "A2A"}]


def test_switches_add_gradients(tmp_path):
    """A rank receives its shard of the sum. Switches read whole gradients, the own shard among them: 8/7 of what a ring sends."""
    ring, switches = [step(tmp_path, out=reduce, nvls=True, gtp={"size": 8, "reduce": reduce}) for reduce in ("ring", "nvls")]
    scattered = SEQUENCES * 2 * (2 * LAYER + 2 * END)
    flags = sent(switches)["weights"] - (sent(ring)["weights"] - scattered * 7 / 8 + scattered / 8)  # of 16 bytes: a rank's part of a chunk is ready
    assert flags % 16 == 0 and 0 < flags < 1e-4 * scattered
    assert summary(switches)["metrics"]["gtp"]["bytes_per_element"] == pytest.approx(4 + 2 * 8 / 7)
    links = [{row["name"]: float(row["bytes"]) for row in rows(out / "links.csv") if row["direction"] == "tx" and "NVLink" in row["name"]}
             for out in (ring, switches)]
    assert sum(links[1].values()) - sum(links[0].values()) == pytest.approx(scattered / 8, rel=0.01)


def test_each_gather_finds_its_maximum(tmp_path):
    """nvfp4 scales by the maximum of the whole matrix: each gather of a layer waits for an all-reduce of one 32-bit number."""
    each, once = [step(tmp_path, "--jobs", "all", out=when, platform="dgx_b200", gtp={"size": 8, "quantize": when}, precision={"gemm": "nvfp4"})
                  for when in ("per_gather", "at_optimizer")]
    found = [{row["name"]: row for row in rows(out / "jobs.csv") if row["name"].startswith("GTP_A")} for out in (each, once)]
    maxima = {name: row for name, row in found[0].items() if name.startswith("GTP_AR")}
    gathers = [name for name in found[0] if name.startswith("GTP_AG_Layer")]
    assert set(maxima) == {name.replace("_AG_", "_AR_") for name in gathers} and len(gathers) > 0
    # Once a step: one all-reduce for all matrices of a rank, between the optimizer and the cast.
    of_step = {name: row for name, row in found[1].items() if name.startswith("GTP_AR")}
    jobs = {row["name"]: row for row in rows(once / "jobs.csv")}
    assert of_step and all(name.startswith("GTP_AR_Maxima_") for name in of_step)
    for name, row in of_step.items():
        place = name.removeprefix("GTP_AR_Maxima_")
        assert float(jobs[f"Adam_{place}"]["end_s"]) <= float(row["start_s"]) <= float(row["end_s"]) <= float(jobs[f"GTP_Cast_{place}"]["start_s"])
    for name, row in maxima.items():
        assert int(row["bytes"]) == 4
        assert float(row["end_s"]) <= float(found[0][name.replace("_AR_", "_AG_")]["start_s"])
    # Less of each gather is hidden. The step may be shorter for all that: kernels then share their SMs with fewer gathers.
    exposed = [summary(out)["metrics"]["gtp"]["gather_exposed_s"] for out in (each, once)]
    assert exposed[0] > exposed[1]


def test_gradients_are_reduced_over_ranks_with_the_same_shard(tmp_path):
    out = step(tmp_path, gtp={"size": 4}, dp=2, zero_stage=0)
    shards, whole = (2 * LAYER + 2 * END) // 4, (2 * 2 + 1) * HIDDEN
    # All-reduces of 4 bytes: 4 groups of 2 ranks for the shards, one of all ranks for the norms. The latter is small: NCCL's protocol LL sends a
    # flag with each number.
    assert sent(out)["dp"] == 4 * 2 * (4 * shards * (2 - 1) + 2 * whole * (8 - 1))


def test_shards_are_padded_to_16_rows(tmp_path):
    plain = step(tmp_path, gtp={"size": 8}, out="plain")
    out = tmp_path / "padded"
    # 32001 rows: 4001 for each of 8 ranks, padded to 4016; 4000 need no padding.
    (tmp_path / "model.json").write_text(json.dumps(MODEL | {"num_hidden_layers": 2, "vocab_size": VOCAB + 1}))
    succeed("dgx_h100", tmp_path / "scenario.yaml", "--out", out, "--quiet")
    assert sent(out)["weights"] - sent(plain)["weights"] == SEQUENCES * 7 / 8 * 2 * 5 * 8 * 16 * HIDDEN
    memory = [summary(folder)["metrics"]["memory"]["weights_peak_bytes"] for folder in (out, plain)]
    assert memory[0] - memory[1] == 2 * 2 * 16 * HIDDEN


def test_each_matrix_is_gathered_and_scattered_once_for_each_use(tmp_path):
    out = step(tmp_path, "--jobs", "all", gtp={"size": 8}, recompute="full", micro_batch=1)
    names = collections.Counter(re.sub(r"_GTP\[\d\]", "", row["name"]) for row in rows(out / "jobs.csv") if row["name"].startswith("GTP_"))
    assert len(set(names.values())) == 1  # each on as many ranks
    places = [f"Layer[{layer}]_{name}" for layer in range(2) for name in MATRICES]
    expected = {f"GTP_{what}_{place}_{slot}_PP[0]_TP[0]_MB[{batch}]" for batch in range(SEQUENCES // 8)
                for what, slot, matrices in [("AG", "F", ["Embedding", *places, "Head"]), ("AG", "R", places),
                                             ("AG", "B", [*places, "Head"]), ("RS", "B", ["Embedding", *places, "Head"])]
                for place in matrices}
    assert set(names) == expected


def exposed(out):
    return {(row["layer"], row["use"]): float(row["exposed_s"]) for row in rows(out / "gtp.csv")}


def test_only_the_first_gather_of_a_chain_is_exposed_if_products_are_longer(tmp_path):
    """The embedding takes no time beside its neighbours: forward, the gather after its own is exposed, too; backward, both last scatters."""
    found = exposed(step(tmp_path, gtp={"size": 8}, seq_tokens=65536, global_batch=8, layers=4, recompute="selective"))
    assert found["embedding", "forward"] > 0
    first = {("embedding", "forward"), ("0", "forward"), ("head", "backward"), ("0", "gradients"), ("embedding", "gradients")}
    assert {place for place, seconds in found.items() if seconds > 0} <= first


def test_prefetch_hides_gathers(tmp_path):
    times = [summary(step(tmp_path, out=f"out{depth}", layers=4, launch="eager", host_us=0, gtp={"size": 8, "prefetch_depth": depth}))["metrics"]
             for depth in range(3)]
    assert times[0]["step_s"] > times[1]["step_s"] >= times[2]["step_s"]
    assert times[0]["gtp"]["gather_hidden_ratio"] < times[1]["gtp"]["gather_hidden_ratio"]


@pytest.mark.parametrize("depth, held", [(0, 1), (3, 1), (4, 2), (8, 3)])
def test_neighbours_of_a_chain_do_not_share_buffers(depth, held, tmp_path):
    """A layer has four shapes; a fifth matrix is the first of the next layer."""
    out = step(tmp_path, layers=8, launch="eager", gtp={"size": 8, "prefetch_depth": depth})
    found = summary(out)["metrics"]["gtp"]["cache_peak_bytes"]
    # Embedding and head are far from each other and share a buffer. Two whole gradients as large as the largest matrix.
    assert found == 2 * (held * LAYER + END + 2 * max(END, *MATRICES.values()))


def test_memory_of_shards(tmp_path):
    whole = summary(step(tmp_path, out="plain", dp=8, zero_stage=0))["metrics"]["memory"]
    shards = summary(step(tmp_path, out="divided", gtp={"size": 8}, zero_stage=0))["metrics"]["memory"]
    norms = 5 * HIDDEN
    for key, size in [("weights", 2), ("gradients", 4), ("optimizer", 12)]:
        assert shards[f"{key}_peak_bytes"] - size * norms == (whole[f"{key}_peak_bytes"] - size * norms) / 8


# FSDP and GTP are the same chain of gathers with different units: whole layers with their norms, or single matrices without. FSDP also gathers the
# embedding backward, and GTP reduces norms at the end of the step.
BF16_GRADIENTS = {"global_batch": 8, "precision": {"gradients": "as_parameters"}}
FSDP = {"dp": 8, "zero_stage": 3} | BF16_GRADIENTS


@pytest.mark.parametrize("keys, passes, parameters", [
    (FSDP, 3, LAYER + 2 * HIDDEN), (FSDP | {"reshard_after_forward": False}, 2, LAYER + 2 * HIDDEN), ({"gtp": {"size": 8}} | BF16_GRADIENTS, 3, LAYER)])
def test_fsdp_and_gtp_send_the_same_bytes_for_a_layer(keys, passes, parameters, tmp_path):
    few, more = (sent(step(tmp_path, out=f"out{layers}", layers=layers, **keys)) for layers in (2, 4))
    norms = more["dp"] - few["dp"] if "gtp" in keys else 0
    assert sum(more.values()) - sum(few.values()) - norms == 2 * 2 * passes * 7 * parameters
    assert norms <= 2 * 2 * 2 * 4 * 7 * 2 * HIDDEN  # two collectives of at most 4 bytes, and as many bytes of flags


def test_fsdp_and_gtp_take_the_same_time_on_slow_links(tmp_path):
    """Both take the sum of the gathers and the last product, because these gathers are 50 times longer than products."""
    slow = ["--jobs", "all", "--set", "machine.overrides.nvlink.gb_per_s=0.1", "--set", "fabric.transaction_bytes=1048576"]
    eager = {"layers": 4, "launch": "eager", "host_us": 0}
    fsdp, gtp = (step(tmp_path, *slow, out=out, **eager, **keys) for out, keys in (("fsdp", FSDP), ("gtp", {"gtp": {"size": 8}} | BF16_GRADIENTS)))
    times = [{row["name"]: float(row["end_s"]) - float(row["start_s"]) for row in rows(out / "jobs.csv")} for out in (fsdp, gtp)]
    forward = [next(seconds for name, seconds in found.items() if name.startswith("F_")) for found in times]
    assert forward[0] == pytest.approx(forward[1], rel=1e-3)
    embedding = times[1]["GTP_AG_Embedding_F_PP[0]_TP[0]_MB[0]_GTP[0]"]
    steps = [summary(out)["metrics"]["step_s"] for out in (fsdp, gtp)]
    assert steps[0] - embedding == pytest.approx(steps[1], rel=1e-3)


@pytest.mark.parametrize("text, line", [
    ("  gtp: {size: 3}\n", "workload.gtp.size: tp 1 x gtp 3 x pp 1 = 3 does not divide the 8 GPUs of the machine"),
    ("  gtp: {size: 8, gather_dtype: mxfp8}\n", "7:32: error: workload.gtp.gather_dtype: mxfp8; H100-SXM5-80GB has no tensor rate for mxfp8; accepted: auto, bf16"),
    ("  gtp: {size: 8, gather_dtype: fp8}\n", "7:32: error: workload.gtp.gather_dtype: unknown value 'fp8'; accepted: auto, bf16, mxfp8, nvfp4"),
    ("  gtp: {size: 8, quantize: per_gather}\n", "7:28: error: workload.gtp.quantize: per_gather needs narrow gathers"),
    ("  gtp: {size: 8, gather_dtype: bf16}\n  precision: {gemm: fp8, weight_cast: step}\n",
     "8:39: error: workload.precision.weight_cast: step; gtp with gather_dtype: bf16 keeps no weights; accepted: product"),
    ("  gtp: {size: 8}\n  precision: {gemm: fp8, weight_cast: product}\n",
     "8:39: error: workload.precision.weight_cast: product needs gtp.gather_dtype: bf16; accepted: step"),
    ("  gtp: {size: 2, reduce: nvls}\n", "7:26: error: workload.gtp.reduce: nvls needs workload.nvls: true; accepted: ring, all_to_all_fp32"),
    ("  gtp: {size: 2, reduce: nvls}\n  nvls: true\n", "7:26: error: workload.gtp.reduce: nvls needs gtp.size of 3 or more"),
    ("  gtp: {size: 8}\n  zero_stage: 3\n", "8:15: error: workload.zero_stage: 3 needs gtp.size: 1; accepted with gtp: 0, 1 and 2"),
    ("  gtp: {size: 8, prefetch_depth: 0}\n  launch: graph\n", "7:34: error: workload.gtp.prefetch_depth: 0 needs launch: eager"),
    ("  gtp: {size: 4, wgrad_order: before_dgrad}\n  tp: 2\n", "7:31: error: workload.gtp.wgrad_order: before_dgrad needs tp: 1"),
    ("  gtp: {prefetch_depth: 1}\n", "workload.gtp"),
    ("  gtp: all\n", "7:8: error: workload.gtp: expected a mapping or 'none', got 'all'"),
    ("  gtp: {size: 8, prefetch: 1}\n", "workload.gtp.prefetch: unknown key; accepted: size, experts_size, prefetch_depth, wgrad_order, gather_dtype, quantize, keep_gathered, reduce, activations"),
])
def test_bad_input(text, line, tmp_path, platform="dgx_h100"):
    assert line in refuse(platform, training(tmp_path, text), "--out", tmp_path / "out", "--quiet")


@pytest.mark.parametrize("gemm, gather", [("nvfp4", "mxfp8"), ("bf16", "nvfp4")])
def test_products_that_cannot_use_gathered_weights(gemm, gather, tmp_path):
    test_bad_input(f"  gtp: {{size: 8, gather_dtype: {gather}}}\n  precision: {{gemm: {gemm}}}\n",
                   f"7:32: error: workload.gtp.gather_dtype: {gather}; products in {gemm} cannot use it; accepted: auto, bf16, or "
                   f"precision.gemm: {gather}", tmp_path, "dgx_b200")


def test_switches_add_within_a_server_only(tmp_path):
    (tmp_path / "s.yaml").write_text(f"model: {{config: {ROOT}/tests/models/tiny.json}}\nmachine: {{groups: {{node: {{servers: 2}}}}}}\nworkload:\n  kind: training\n"
                                     "  seq_tokens: 512\n  global_batch: 16\n  nvls: true\n  gtp: {size: 16, reduce: nvls}\n")
    result = run("dgx_h100", tmp_path / "s.yaml", "--out", tmp_path / "out", "--quiet")
    assert result.returncode == 2 and "8:27: error: workload.gtp.reduce: nvls needs the ranks of a group in one server, but ranks 0 and 8" in result.stderr, result.stderr
