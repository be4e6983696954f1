"""Memory that the software's kernels need: logits of the loss, kept results of operators, copies of gradients."""

import json

import pytest

from platform_runs import ROOT, rows, run, succeed

TOKENS, VOCAB, HIDDEN, FFN, HEADS, KV_HEADS, DIM, LAYERS = 4096, 128256, 4096, 14336, 32, 8, 128, 4  # Llama-3.1-8B, four layers


def peak(folder, **keys):
    """Bytes of a rank at its peak, by kind."""
    folder.mkdir(exist_ok=True)
    config = json.loads((ROOT / "scenarios" / "models" / "llama-3.1-8b.json").read_text())
    (folder / "model.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}))
    workload = {"kind": "training", "seq_tokens": TOKENS, "global_batch": 8, "tp": 1} | keys
    (folder / "s.yaml").write_text(json.dumps({"schema_version": 1, "model": {"config": "model.json"}, "workload": workload}))
    result = run("dgx_h100", folder / "s.yaml", "--explain", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["memory"][0]


@pytest.mark.parametrize("tp, forms", [(1, {"fused": 4, "in_place": 6, "operators": 12}), (8, {"fused": 4, "in_place": 6, "operators": 16})])
def test_the_loss_holds_the_bytes_of_its_kernels_for_each_logit(tp, forms, tmp_path):
    """Of operators: four fp32 tensors at a time where ranks divide the vocabulary, otherwise three."""
    logits = TOKENS * VOCAB // tp
    keys = {"tp": tp, "recompute": "full", "sequence_parallel": tp > 1, "micro_batch": 1}
    peaks = {form: peak(tmp_path, **keys, loss=form)["total_bytes"] for form in forms}
    assert peaks["in_place"] - peaks["fused"] == 2 * logits
    assert peaks["operators"] - peaks["fused"] == (forms["operators"] - 4) * logits


def test_chunks_hold_a_part_of_the_logits_and_gradients_of_all_inputs(tmp_path):
    keys = {"recompute": "full", "loss": "operators"}
    whole, chunks = (peak(tmp_path, **keys, loss_chunks=count)["total_bytes"] for count in (1, 8))
    assert whole - chunks == TOKENS * VOCAB * 12 * 7 // 8 - TOKENS * HIDDEN * 4


def test_operators_keep_every_second_product(tmp_path):
    """torchtitan: input of the layer, queries and values, attention with its statistics, the first and the last product of the MLP."""
    keys = {"recompute": "selective", "loss_chunks": 4096}
    attention, operators = (peak(tmp_path, **keys, selective_recompute=word)["activations_bytes"] for word in ("attention", "operators"))
    kept = TOKENS * (2 * (HIDDEN + HEADS * DIM + KV_HEADS * DIM + HEADS * DIM + FFN + HIDDEN) + 4 * HEADS)
    of_attention = TOKENS * 2 * (4 * HIDDEN + 2 * HEADS * DIM + 2 * KV_HEADS * DIM + 3 * FFN)  # norms, inputs, Q, output, K, V, gate, up, down
    assert attention - operators == LAYERS * (of_attention - kept)


def test_copies_of_gradients_are_there_while_the_optimizer_runs(tmp_path):
    """Gradients in 16 bits: the optimizer copies them to fp32. With little else in memory, that is the peak; otherwise it adds nothing."""
    keys = {"dp": 8, "zero_stage": 0, "recompute": "full", "loss": "fused", "launch": "graph"}
    parameters = peak(tmp_path, **keys)["gradients_bytes"] // 4
    few = peak(tmp_path, **keys, precision={"gradients": "as_parameters"}, loss_chunks=4096)
    many = peak(tmp_path, **keys | {"global_batch": 32, "micro_batch": 4, "recompute": "none"}, precision={"gradients": "as_parameters"})
    assert few["activations_bytes"] == 0 and few["optimizer_bytes"] == 16 * parameters
    assert many["activations_bytes"] > 4 * parameters and many["optimizer_bytes"] == 12 * parameters
    succeed("dgx_h100", tmp_path / "s.yaml", "--quiet", "--out", tmp_path / "out")
    held = rows(tmp_path / "out" / "memory.csv")
    optimizer = {int(row["optimizer_bytes"]) for row in held}
    assert optimizer == {12 * parameters, 16 * parameters}
    assert max(int(row["total_bytes"]) for row in held) == many["total_bytes"]
