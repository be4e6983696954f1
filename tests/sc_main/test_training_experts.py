"""Launches of mixtures of experts in training: closed forms where the host is slower than the GPU, and where it waits for numbers of copies."""

import csv
import json
import math

import pytest

from platform_runs import run, succeed, summary

EXPERTS, LAYERS, MICRO_BATCHES = 8, 2, 3
MODEL = {"model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": LAYERS,
         "vocab_size": 8192, "num_local_experts": EXPERTS, "num_experts_per_tok": 2}
WORKLOAD = {"seq_tokens": 1024, "global_batch": MICRO_BATCHES, "tp": 1, "pp": 1, "dp": 1, "launch": "eager", "expert_call_us": 0}
SLOW_US = 1000.0  # longer than any kernel
COUNTS, WAIT = 11, 1  # sums and copies to the host; its call


def step_s(folder, **keys):
    folder.mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps(MODEL))
    scenario = {"schema_version": 1, "model": {"config": "model.json"}, "fabric": {"fidelity": "fluid"}, "workload": {"kind": "training"} | WORKLOAD | keys}
    (folder / "s.yaml").write_text(json.dumps(scenario))
    succeed("dgx_h100", folder / "s.yaml", "--quiet", "--out", folder / "out")
    return summary(folder / "out")["metrics"]["step_s"]


def launches(folder, **keys):
    """Of a step, by what it takes longer if each launch does."""
    return (step_s(folder / "slow", host_us=2 * SLOW_US, **keys) - step_s(folder / "fast", host_us=SLOW_US, **keys)) / (SLOW_US * 1e-6)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return launches(tmp_path_factory.mktemp("plain"), experts_synchronize=False)


@pytest.mark.parametrize("recompute, forward", [("none", 1), ("full", 2)])
def test_a_slow_host_waits_in_each_forward_pass_of_a_layer(recompute, forward, tmp_path):
    more = launches(tmp_path / "with", recompute=recompute) - launches(tmp_path / "without", recompute=recompute, experts_synchronize=False)
    assert more == pytest.approx(forward * LAYERS * MICRO_BATCHES * (COUNTS + WAIT), abs=1e-6)


def test_each_expert_has_products_of_its_own(plain, tmp_path):
    fewer = plain - launches(tmp_path / "grouped", experts_synchronize=False, expert_products="grouped")
    products = 2 + 4  # forward, and backward two for each matrix
    assert fewer == pytest.approx(LAYERS * MICRO_BATCHES * products * (EXPERTS - 1), abs=1e-6)


def test_calls_take_the_host_beside_their_launches(plain, tmp_path):
    # Products of all experts are one call each, other launches are a call each.
    keys = {"host_us": SLOW_US, "experts_synchronize": False}
    calls = (step_s(tmp_path / "calls", **keys | {"expert_call_us": SLOW_US}) - step_s(tmp_path / "none", **keys)) / (SLOW_US * 1e-6)
    grouped = keys | {"expert_products": "grouped"}
    of_grouped = (step_s(tmp_path / "calls_grouped", **grouped | {"expert_call_us": SLOW_US}) - step_s(tmp_path / "grouped", **grouped)) / (SLOW_US * 1e-6)
    assert calls == pytest.approx(of_grouped, abs=1e-6) and plain / 2 < calls < plain


def test_a_fast_host_and_a_graph_have_the_same_step(tmp_path):
    # The GPU copies rows for longer than the host launches what follows.
    eager = step_s(tmp_path / "eager", host_us=0.01, seq_tokens=8192)
    graph = step_s(tmp_path / "graph", seq_tokens=8192, **{"launch": "graph"})
    assert eager == pytest.approx(graph, rel=1e-3) and eager >= graph


MIXTURE = MODEL | {"num_local_experts": 32, "num_experts_per_tok": 4}
SPREAD = {"tp": 1, "dp": 16, "ep": 16, "global_batch": 16 * MICRO_BATCHES, "seq_tokens": 4096}
DEEPEP = {"expert_exchange": "deepep"}


def scenario_of(folder, model=MIXTURE, servers=2, simulation=None, **keys):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps(model))
    scenario = {"schema_version": 1, "model": {"config": "model.json"}, "machine": {"groups": {"node": {"servers": servers}}},
                "fabric": {"fidelity": "fluid"}, "workload": {"kind": "training"} | WORKLOAD | SPREAD | keys}
    (folder / "s.yaml").write_text(json.dumps(scenario | ({"simulation": simulation} if simulation else {})))
    return folder / "s.yaml"


def step_of(folder, **keys):
    succeed("dgx_h100", scenario_of(folder, **keys), "--quiet", "--out", folder / "out")
    return summary(folder / "out")


def network_bytes(folder):
    with (folder / "out" / "links.csv").open() as table:
        return next(int(row["bytes"]) for row in csv.DictReader(table) if row["port"] == "node0.gpu0.pcie" and row["direction"] == "tx")


def test_a_token_crosses_the_network_once_for_each_server(tmp_path):
    experts, choices, hidden_bytes, tokens, flags = 32, 4, 2048, 4096, 4 * 16
    reached = 1 - math.comb(experts // 2, choices) / math.comb(experts, choices)  # of the experts of the other server
    token = [hidden_bytes + 16 * math.ceil((8 + 4 * numbers) / 16) for numbers in (2 * choices, 0, 0, choices)]
    for batches in (1, MICRO_BATCHES):
        step_of(tmp_path / str(batches), global_batch=16 * batches, **DEEPEP)
    more = network_bytes(tmp_path / str(MICRO_BATCHES)) - network_bytes(tmp_path / "1")
    assert more == pytest.approx((MICRO_BATCHES - 1) * LAYERS * (tokens * reached * sum(token) + flags), rel=1e-5)


def test_deepep_is_folded_routed_unevenly_and_overlapped_like_other_exchanges(tmp_path):
    large = {"servers": 4, "dp": 32, "global_batch": 32} | DEEPEP
    whole, folded = step_of(tmp_path / "whole", **large), step_of(tmp_path / "folded", simulation={"fold": "require"}, **large)
    assert folded["simulation"]["simulated_gpus"] == 16
    assert folded["metrics"]["step_s"] == pytest.approx(whole["metrics"]["step_s"], rel=1e-3)
    even, skewed = step_of(tmp_path / "even", **DEEPEP), step_of(tmp_path / "skewed", routing={"skew": 1}, **DEEPEP)
    assert skewed["metrics"]["step_s"] > even["metrics"]["step_s"]
    stages = {"pp": 2, "dp": 8, "ep": 8, "global_batch": 48, "expert_call_us": 0, "host_us": 1} | DEEPEP
    apart, beside = step_of(tmp_path / "apart", **stages), step_of(tmp_path / "beside", overlap_moe=True, **stages)
    assert 0 == apart["metrics"]["hidden_ratio"]["ep"] < beside["metrics"]["hidden_ratio"]["ep"]


def test_shared_experts_hide_exchanges(tmp_path):
    # DeepSeek-V2's form: shared experts as wide as the routed ones of a token
    model = MIXTURE | {"model_type": "qwen2_moe", "num_experts": 32, "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 4096}
    keys = {"model": model, "host_us": 1}
    for exchange in ("all_to_all", "deepep"):
        alone = step_of(tmp_path / exchange, expert_exchange=exchange, **keys)["metrics"]
        beside = step_of(tmp_path / f"{exchange}_beside", expert_exchange=exchange, shared_experts_beside=True, **keys)["metrics"]
        assert beside["exposed_s"]["ep"] < alone["exposed_s"]["ep"] and beside["step_s"] < alone["step_s"]
        assert beside["hidden_ratio"]["ep"] > alone["hidden_ratio"]["ep"] == 0


def test_padded_experts_take_the_copies_of_their_capacity(tmp_path):
    plain = step_of(tmp_path / "plain")["metrics"]
    padded = step_of(tmp_path / "padded", expert_capacity=2, pad_to_capacity=True)["metrics"]
    assert padded["exposed_s"]["ep"] > plain["exposed_s"]["ep"]
    assert padded["memory"]["activations_peak_bytes"] > plain["memory"]["activations_peak_bytes"]
    graph = step_of(tmp_path / "graph", expert_capacity=2, pad_to_capacity=True, launch="graph")["metrics"]
    assert graph["step_s"] < padded["step_s"]


@pytest.mark.parametrize("keys, words", [
    ({"ep": 1} | DEEPEP, "needs ep of 2 or more"),
    ({"tp": 2, "dp": 8, "ep": 8, "sequence_parallel": True} | DEEPEP, "needs expert_tp: 1"),
    ({"launch": "graph"} | DEEPEP, "launch: eager"),
    ({"expert_capacity": 1.25} | DEEPEP, "expert_exchange: all_to_all"),
    ({"pad_to_capacity": True}, "needs expert_capacity"),
    ({"expert_capacity": 33}, "more than the 32 experts"),
    ({"shared_experts_beside": True}, "no shared experts"),
    ({"expert_exchange": "deep_ep"}, "did you mean"),
    ({"dp": 8, "ep": 8, "global_batch": 24, "placement": [0, 1, 2, 3, 8, 9, 10, 11]} | DEEPEP, "each server, but server 0 has 4"),
])
def test_what_experts_cannot_have_is_one_line(keys, words, tmp_path):
    done = run("dgx_h100", scenario_of(tmp_path, **keys), "--check")
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
    assert words in done.stderr
