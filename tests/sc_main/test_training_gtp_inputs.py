"""workload.gtp.activations: sharded. Saved inputs on tensor-parallel ranks: bytes on links, memory, when they are gathered, bad input."""

import json

import pytest

from platform_runs import refuse, rows, succeed, summary, training

HIDDEN, FFN, VOCAB, LAYERS, TOKENS, SEQUENCES = 4096, 16384, 32000, 4, 4096, 16
MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": HIDDEN, "intermediate_size": FFN,
         "num_attention_heads": 32, "num_key_value_heads": 16, "vocab_size": VOCAB, "num_hidden_layers": LAYERS, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16"}


def step(folder, activations, *options, tp=2, **keys):
    (folder / "model.json").write_text(json.dumps(MODEL))
    gtp = {"size": 4 // keys.get("pp", 1)} | ({"activations": activations} if activations else {}) | keys.pop("gtp", {})
    workload = {"kind": "training", "seq_tokens": TOKENS, "global_batch": SEQUENCES, "tp": tp, "nvls": False, "grad_norm": "none", "gtp": gtp} | keys
    scenario = folder / "scenario.yaml"
    scenario.write_text(json.dumps({"schema_version": 1, "platform": "dgx_h100", "fabric": {"fidelity": "fluid"}, "model": {"config": "model.json"}, "workload": workload}))
    out = folder / (activations or "default")
    succeed("dgx_h100", scenario, "--out", out, "--quiet", *options)
    return out


def sent(out):
    return {row["class"]: row["bytes"] for row in summary(out)["traffic"]}


def test_whole_is_the_default(tmp_path):
    default, whole = (step(tmp_path, activations, "--jobs", "all") for activations in (None, "whole"))
    assert (default / "jobs.csv").read_bytes() == (whole / "jobs.csv").read_bytes()


@pytest.mark.parametrize("keys", [{}, {"pp": 2, "schedule": "zb_h1"}])
def test_inputs_are_kept_divided_and_gathered_once(keys, tmp_path):
    whole, sharded = (step(tmp_path, activations, "--jobs", "all", **keys) for activations in ("whole", "sharded"))
    of_input = 2 * TOKENS * HIDDEN
    # Inputs of qkv and fc1 of each layer and of the head; each of two ranks sends its half to the other one, for each sequence.
    assert sent(sharded)["weights"] - sent(whole)["weights"] == SEQUENCES * (2 * LAYERS + 1) * of_input
    assert sent(sharded)["tp"] == sent(whole)["tp"]
    if not keys:  # one micro-batch at a time
        kept = [summary(out)["metrics"]["memory"]["activations_peak_bytes"] for out in (whole, sharded)]
        assert kept[0] - kept[1] == (2 * LAYERS + 1) * of_input / 2
    names = [row["name"] for row in rows(sharded / "jobs.csv") if "Input_" in row["name"]]
    assert len(names) == len(set(names)) and all(name.startswith("GTP_AG_") for name in names)
    assert all(("Input_W_" if keys else "Input_B_") in name for name in names)


def test_the_gather_of_an_input_hides_beside_the_product_before(tmp_path):
    out = step(tmp_path, "sharded", "--jobs", "all", seq_tokens=TOKENS, global_batch=4, launch="eager", host_us=0)
    jobs = {row["name"]: row for row in rows(out / "jobs.csv")}
    end = "_B_PP[0]_TP[0]_MB[0]_GTP[0]"
    for layer in range(LAYERS):
        matrix, saved = jobs[f"GTP_AG_Layer[{layer}]_Fc1{end}"], jobs[f"GTP_AG_Layer[{layer}]_Fc1Input{end}"]
        assert float(saved["start_s"]) >= float(matrix["end_s"])  # one chain
    exposed = {(row["layer"], row["use"]): float(row["exposed_s"]) for row in rows(out / "gtp.csv")}
    assert all(exposed[str(layer), "backward"] == 0 for layer in range(LAYERS))


def test_a_saved_input_is_in_the_cache(tmp_path):
    whole, sharded = (summary(step(tmp_path, activations, launch="eager"))["metrics"]["gtp"]["cache_peak_bytes"] for activations in ("whole", "sharded"))
    assert sharded - whole == 2 * TOKENS * HIDDEN  # an input follows a matrix: one buffer for all


def test_sequence_parallel_ranks_gather_in_the_chain(tmp_path):
    """In place of the second gather beside the product of the input: as many bytes."""
    whole, sharded = (step(tmp_path, activations, sequence_parallel=True) for activations in ("whole", "sharded"))
    assert sum(sent(whole).values()) == sum(sent(sharded).values())
    assert sent(whole)["tp"] - sent(sharded)["tp"] == SEQUENCES * (2 * LAYERS + 1) * 2 * TOKENS * HIDDEN
    kept = [summary(out)["metrics"]["memory"]["activations_peak_bytes"] for out in (whole, sharded)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("keys, model, line", [
    ("  gtp: {size: 8, activations: sharded}\n", "tiny", "7:31: error: workload.gtp.activations: sharded needs tp of 2 or more; accepted: whole"),
    ("  gtp: {size: 4, activations: sharded}\n  tp: 2\n", "tiny_experts", "workload.gtp.activations: sharded needs a model without experts; accepted: whole"),
    ("  gtp: {size: 4, activations: sharded}\n  tp: 2\n  recompute: full\n", "tiny", "sharded needs recompute: none or selective; accepted: whole"),
    ("  gtp: {size: 4, activations: sharded, keep_gathered: step}\n  tp: 2\n", "tiny", "sharded needs keep_gathered: micro_batch; accepted: whole"),
    ("  gtp: {size: 4, activations: sharded}\n  tp: 2\n  keep_gathered: true\n", "tiny", "sharded needs workload.keep_gathered: false; accepted: whole"),
    ("  gtp: {size: 4, activations: shard}\n  tp: 2\n", "tiny", "workload.gtp.activations: unknown value 'shard'; accepted: whole, sharded (did you mean 'sharded'?)")])
def test_bad_input(keys, model, line, tmp_path):
    assert line in refuse("dgx_h100", training(tmp_path, keys, model), "--out", tmp_path / "out", "--quiet")
