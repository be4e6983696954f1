"""compute.profile: kernel times from a profile bundle, where it was asked outside of what it measured, and bad bundles."""

import json
import shutil

import pytest

from platform_runs import ROOT, rows, run, succeed, summary
from test_kinds import documented

MODEL = ROOT / "tests" / "models" / "tiny.json"
SHAPE = json.loads(MODEL.read_text())
DENSE = ["embedding", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj", "final_layernorm"]
KERNELS = {"rmsnorm": "layernorm", "qkv": "qkv_proj", "rotary": "rotary_emb", "o_proj": "o_proj", "gate_up": "gate_up_proj",
           "activation": "act_fn", "down": "down_proj"}
TOKENS, CONTEXTS, SEQUENCES = [1, 64, 512], [0, 128, 1024], [1, 8, 32]


def dense_us(layer, tokens):
    return 3.0 + DENSE.index(layer) + tokens / 100


def prefill_us(tokens, before):
    return 5 + tokens / 10 + before / 50


def decode_us(sequences, context):
    return 7 + sequences + context / 20


@pytest.fixture(name="bundle")
def fixture_bundle(tmp_path):
    """Linear times, so that what lies between measured points is exact."""
    folder = tmp_path / "bundle"
    for tp in [1, 2]:
        own = folder / f"tp{tp}"
        own.mkdir(parents=True)
        lines = [f"{layer},{tokens},{dense_us(layer, tokens)}" for layer in DENSE for tokens in TOKENS]
        (own / "dense.csv").write_text("\n".join(["layer,tokens,time_us"] + lines) + "\n")
        lines = [f"{layer},{n},{20 + n}" for layer in ["lm_head", "sampler"] for n in SEQUENCES]
        (own / "per_sequence.csv").write_text("\n".join(["layer,sequences,time_us"] + lines) + "\n")
        lines = [f"{t},{c},0,0,{prefill_us(t, c)}" for t in TOKENS for c in CONTEXTS]
        lines += [f"0,0,{n},{c},{decode_us(n, c)}" for n in SEQUENCES for c in CONTEXTS] + ["64,128,8,128,99"]
        (own / "attention.csv").write_text("\n".join(["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"] + lines) + "\n")
    heads = SHAPE["num_attention_heads"]
    (folder / "meta.yaml").write_text(f"hardware: TEST\nengine_effective:\n  hf_overrides:\n    num_attention_heads: {heads}\n")
    return folder


def scenario(folder, workload):
    path = folder / "s.yaml"
    path.write_text(f"model: {{config: {MODEL}}}\ncompute: {{profile: bundle}}\nworkload: {workload}\n")
    return path


def layer(tmp_path, workload, *options):
    succeed("plx_box", scenario(tmp_path, workload), "--out", tmp_path / "out", "--quiet", *options)
    times = {step["name"]: float(step["time_us"]) for step in rows(tmp_path / "out" / "layer.csv") if not step["algorithm"]}
    return times, summary(tmp_path / "out")


@pytest.mark.parametrize("tp", [1, 2])
def test_times_are_the_profiles(tp, tmp_path, bundle):
    assert bundle.exists()
    times, told = layer(tmp_path, f"{{kind: layer, phase: prefill, tp: {tp}, tokens: 300, context_tokens: 200}}")
    for name, us in times.items():
        kernel = name.split(".")[1]
        assert us == pytest.approx(prefill_us(300, 200) if kernel == "attention" else dense_us(KERNELS[kernel], 300), rel=1e-9)
    assert told["compute"] == {"profile": "bundle", "hardware": "TEST", "extrapolated": {}}
    ends = dense_us("embedding", 300) + dense_us("final_layernorm", 1) + 2 * (20 + 1)
    assert told["metrics"]["embedding_and_head_s"] == pytest.approx(ends * 1e-6, rel=1e-9)
    times, _ = layer(tmp_path, f"{{kind: layer, phase: decode, tp: {tp}, batch: 20, context_tokens: 900}}")
    assert times["attention.attention"] == pytest.approx(decode_us(20, 900), rel=1e-9)
    assert times["mlp.down"] == pytest.approx(dense_us("down_proj", 20), rel=1e-9)
    times, _ = layer(tmp_path, f"{{kind: layer, phase: prefill, tp: {tp}, batch: 3, tokens: 100, context_tokens: 200}}")
    assert times["attention.attention"] == pytest.approx(prefill_us(300, 600), rel=1e-9)  # prompts are one chunk of their sums


def test_extrapolation_is_told(tmp_path, bundle):
    assert bundle.exists()
    times, told = layer(tmp_path, "{kind: layer, phase: prefill, tokens: 2048, context_tokens: 5000}")
    assert times["attention.qkv"] == pytest.approx(dense_us("qkv_proj", 2048), rel=1e-9)  # the last two points lead on
    assert times["attention.attention"] == pytest.approx(prefill_us(2048, 5000), rel=1e-9)
    outside = told["compute"]["extrapolated"]
    assert outside["qkv_proj tokens"] == {"times": 1, "least": 2048, "most": 2048, "measured_from": 1, "measured_to": 512}
    assert outside["embedding tokens"]["most"] == 2048 and "lm_head sequences" not in outside
    assert outside["attention prefill context"]["measured_to"] == 1024 and "attention prefill tokens" in outside
    keys = {"compute.profile", "compute.hardware"} | {f"compute.extrapolated.[quantity].{key}" for key in outside["qkv_proj tokens"]}
    assert keys == documented("Measured kernel times")
    text = succeed("plx_box", tmp_path / "s.yaml").stdout
    assert "kernel times of profile bundle" in text and "extrapolated: qkv_proj tokens from 2048 to 2048, measured from 1 to 512" in text


def test_prefill_takes_them_too(tmp_path, bundle):
    assert bundle.exists()
    # The first of two chunks: behind the last one's attention, KV that leaves shares HBM with the kernels.
    workload = "{kind: disaggregated_prefill, requests: {count: 1, prompt_tokens: 1024}, chunk_tokens: 512, handoff: at_end, engine: none, prefill: {tp: 1, pp: 1}}"
    succeed("plx_box", scenario(tmp_path, workload), "--out", tmp_path / "out", "--quiet")
    per_layer = 2 * dense_us("layernorm", 512) + prefill_us(512, 0) + sum(dense_us(name, 512) for name in list(KERNELS.values())[1:])
    whole = dense_us("embedding", 512) + SHAPE["num_hidden_layers"] * per_layer
    chunk = next(row for row in rows(tmp_path / "out" / "jobs.csv") if row["name"] == "P_Rank_PP[0]_TP[0]_Chunk[0]")
    assert float(chunk["end_s"]) - float(chunk["start_s"]) == pytest.approx(whole * 1e-6, rel=1e-6)


def test_a_share_of_the_machine_is_unchanged(tmp_path, bundle):
    """FLOPs and bytes are the formula's, whatever the time is."""
    assert bundle.exists()
    workload = "{kind: layer, phase: prefill, tokens: 300}"
    succeed("plx_box", scenario(tmp_path, workload), "--out", tmp_path / "profile", "--quiet")
    succeed("plx_box", scenario(tmp_path, workload), "--out", tmp_path / "formula", "--quiet", "--set", "compute.profile=null")
    measured, formula = (rows(tmp_path / folder / "layer.csv") for folder in ["profile", "formula"])
    assert "compute" not in summary(tmp_path / "formula")
    for column in ["name", "flops", "hbm_bytes", "waves"]:
        assert [step[column] for step in measured] == [step[column] for step in formula]
    assert [step["time_us"] for step in measured] != [step["time_us"] for step in formula]


def refusal(tmp_path, workload="{kind: layer, phase: prefill, tokens: 8}", *options):
    result = run("plx_box", scenario(tmp_path, workload), "--out", tmp_path / "out", *options)
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and not (tmp_path / "out").exists()
    return result.stderr


@pytest.mark.parametrize("file, old, new, words", [
    ("tp1/dense.csv", "layer,tokens", "layer,rows", "dense.csv:1:1: error: no column tokens"),
    ("tp1/dense.csv", "qkv_proj", "qkv", "dense.csv:1:1: error: no rows of layer 'qkv_proj'; it has"),
    ("tp1/dense.csv", "embedding,64,", "embedding,64,x", "dense.csv:3:1: error: time_us: expected a number"),
    ("tp1/dense.csv", "embedding,64,3.64", "embedding,64,0", "dense.csv:3:1: error: time_us: '0' is not a time"),
    ("tp1/dense.csv", "embedding,64", "embedding,1", "dense.csv:3:1: error: a second row for the same point"),
    ("tp1/dense.csv", "embedding,64,", "embedding,", "dense.csv:3:1: error: expected 3 columns"),
    ("tp1/attention.csv", "1,0,0,0,", "-1,0,0,0,", "attention.csv:2:1: error: prefill_chunk: expected a number from 0"),
    ("meta.yaml", "num_attention_heads: ", "num_attention_heads: 9", "meta.yaml:4:"),
])
def test_bad_tables_are_one_line(file, old, new, words, tmp_path, bundle):
    text = (bundle / file).read_text()
    assert old in text
    (bundle / file).write_text(text.replace(old, new) if old == "qkv_proj" else text.replace(old, new, 1))
    assert words in refusal(tmp_path)


@pytest.mark.parametrize("degrees, divisor", [([1], 1), ([1, 2], 2), ([1, 2, 4], 4)])
@pytest.mark.parametrize("tp", [1, 2])
def test_the_sizes_of_a_bundle_are_those_of_a_rank_of_its_last_tp(tp, degrees, divisor, tmp_path, bundle):
    meta = f"tp_degrees: {degrees}\nengine_effective: {{hf_overrides: {{num_attention_heads: %d}}}}\n"
    workload = f"{{kind: layer, phase: prefill, tp: {tp}, tokens: 8}}"
    heads = SHAPE["num_attention_heads"] // divisor
    (bundle / "meta.yaml").write_text(meta % heads)
    succeed("plx_box", scenario(tmp_path, workload), "--check")
    (bundle / "meta.yaml").write_text(meta % (2 * heads))
    assert f"meta.yaml:2:56: error: engine_effective.hf_overrides.num_attention_heads: '{2 * heads}'; " in refusal(tmp_path, workload)


def test_bad_bundles_are_one_line(tmp_path, bundle):
    assert "no tp4; it has tp1, tp2" in refusal(tmp_path, "{kind: layer, phase: prefill, tokens: 8, tp: 4}")
    assert "profiles have no times for a backward pass" in refusal(tmp_path, "{kind: layer, phase: training, tokens: 8}")
    assert "no folder" in refusal(tmp_path, "{kind: layer, phase: prefill, tokens: 8}", "--set", "compute.profile=nowhere")
    (bundle / "tp1" / "per_sequence.csv").unlink()
    assert "the bundle has no tp1/per_sequence.csv" in refusal(tmp_path)
    kernels = tmp_path / "k.yaml"
    kernels.write_text("compute: {profile: bundle}\nworkload: {kind: kernel, kernels: [{op: copy, bytes: 1}]}\n")
    result = run("plx_box", kernels)
    assert result.returncode == 2 and "compute.profile: this workload.kind runs no model" in result.stderr


def test_experts_take_the_time_of_their_block(tmp_path, bundle):
    config = SHAPE | {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    (tmp_path / "moe.json").write_text(json.dumps(config))
    lines = [f"{tokens},{active},{10 * active + tokens / 10}" for tokens in TOKENS for active in [1, 4, 8]]
    (bundle / "tp1" / "moe.csv").write_text("\n".join(["tokens,activated_experts,time_us"] + lines) + "\n")
    model = f"model.config={tmp_path / 'moe.json'}"
    for batch, active in [(1, 2), (100, 8)]:
        times, _ = layer(tmp_path, f"{{kind: layer, phase: decode, batch: {batch}}}", "--set", model)
        block = sum(us for name, us in times.items() if name.startswith("mlp.") and name != "mlp.rmsnorm")
        assert block == pytest.approx(10 * active + batch / 10, rel=1e-9)
    shutil.rmtree(tmp_path / "out")
    (bundle / "tp1" / "moe.csv").unlink()
    assert "the bundle has no tp1/moe.csv" in refusal(tmp_path, "{kind: layer, phase: decode}", "--set", model)
