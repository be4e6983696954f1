"""workload.kind: layer from outside: steps, FLOPs in closed form, collectives, repeatability."""

import json
import re

import pytest

from platform_runs import ROOT, rows, run, succeed, summary
from test_kinds import documented

PHASES = {phase: ROOT / "scenarios" / "layers" / f"{phase}.yaml" for phase in ["prefill", "decode", "training"]}
# Llama-3.1-70B: hidden, MLP width, heads, KV heads, head size.
H, F, A, G, D = 8192, 28672, 64, 8, 128
PROJECTIONS = {"qkv": H * (A + 2 * G) * D, "o_proj": A * D * H, "gate_up": H * 2 * F, "down": F * H}


def steps(folder, phase, *sets):
    options = [option for text in sets for option in ["--set", text]]
    succeed("dgx_h100", PHASES[phase], "--out", folder, "--quiet", *options)
    return rows(folder / "layer.csv")


def kernel(step):
    return step["name"].rsplit(".", 1)[1]


def is_collective(step):
    return step["algorithm"] != ""


@pytest.mark.parametrize("phase", PHASES)
def test_steps_make_the_layer(phase, tmp_path):
    table = succeed("dgx_h100", PHASES[phase], "--out", tmp_path / "out").stdout
    written = rows(tmp_path / "out" / "layer.csv")
    metrics = summary(tmp_path / "out")["metrics"]
    printed = [line.split() for line in table.splitlines() if re.match(r"  (forward\.|backward\.)?(attention|mlp)\.", line)]
    assert [line[0] for line in printed] == [step["name"] for step in written] == list(metrics["time_s"])
    last = 0.0
    for step in written:  # one stream, without gaps
        assert float(step["start_s"]) == pytest.approx(last, abs=1e-14)
        last = float(step["end_s"])
        assert last - float(step["start_s"]) == pytest.approx(float(step["time_us"]) * 1e-6, rel=1e-6)
    assert metrics["layer_s"] == pytest.approx(last, rel=1e-9)
    told = sum(float(step["time_us"]) for step in written if is_collective(step)) * 1e-6
    assert metrics["collectives_s"] == pytest.approx(told, rel=1e-9) and metrics["kernels_s"] + told == pytest.approx(last, rel=1e-9)
    assert metrics["tflops"] == pytest.approx(sum(float(step["flops"] or 0) for step in written) / last * 1e-12, rel=1e-6)
    if phase != "training":
        tokens = 4096 if phase == "prefill" else 32
        assert metrics["pass_s"] == pytest.approx(80 * metrics["layer_s"] + metrics["embedding_and_head_s"], rel=1e-9)
        assert metrics["tokens_per_s"] == pytest.approx(tokens / metrics["pass_s"], rel=1e-9)
    assert set(written[0]) == documented("Layers")
    jobs = rows(tmp_path / "out" / "jobs.csv")
    assert len(jobs) == sum(1 if is_collective(step) else 8 for step in written) and {job["kind"] for job in jobs} == {"compute", "tp"}


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_flops_in_closed_form(tp, tmp_path):
    tokens, before = 512, 1024
    found = steps(tmp_path / "prefill", "prefill", f"workload.tp={tp}", f"workload.tokens={tokens}", f"workload.context_tokens={before}")
    flops = {kernel(step): float(step["flops"]) for step in found if not is_collective(step)}
    for name, weights in PROJECTIONS.items():
        assert flops[name] * tp == 2 * tokens * weights
    assert flops["attention"] * tp == 4 * A * D * (tokens * before + tokens * (tokens + 1) / 2)
    assert sum(map(is_collective, found)) == (0 if tp == 1 else 2)
    found = steps(tmp_path / "decode", "decode", f"workload.tp={tp}")
    flops = {kernel(step): float(step["flops"]) for step in found if not is_collective(step)}
    assert flops["attention"] * tp == 4 * A * D * 32 * 4096
    assert flops["down"] * tp == 2 * 32 * PROJECTIONS["down"]


@pytest.mark.parametrize("sequence_parallel", ["false", "true"])
def test_backward_is_twice_forward(sequence_parallel, tmp_path):
    found = steps(tmp_path / "out", "training", f"workload.sequence_parallel={sequence_parallel}")
    forward = {step["name"].removeprefix("forward."): step for step in found if step["name"].startswith("forward.")}
    backward = {step["name"].removeprefix("backward."): step for step in found if step["name"].startswith("backward.")}
    for part, name in [("attention", "qkv"), ("attention", "o_proj"), ("mlp", "gate_up"), ("mlp", "down")]:
        for gradient in ["dgrad", "wgrad"]:
            assert backward[f"{part}.{name}_{gradient}"]["flops"] == forward[f"{part}.{name}"]["flops"]
    norm = forward["mlp.rmsnorm"]
    whole = 4 * 8192 * H * 2  # bytes that a norm of every token reads and writes
    assert float(norm["hbm_bytes"]) == pytest.approx(whole / (8 if sequence_parallel == "true" else 1), rel=0.01)
    operations = [kernel(step) for step in found if is_collective(step)]
    if sequence_parallel == "true":
        assert operations == ["all_gather", "reduce_scatter"] * 4
    else:
        assert operations == ["all_reduce"] * 4
    assert {int(step["bytes"]) for step in found if is_collective(step)} == {8192 * H * 2}


def test_recompute_repeats_forward_steps(tmp_path):
    unfused = ("workload.attention=unfused", "workload.dropout=true", "workload.tokens=2048")
    found = {form: steps(tmp_path / form, "training", f"workload.recompute={form}", *unfused) for form in ["none", "selective", "full"]}
    forward = [step for step in found["none"] if step["name"].startswith("forward.")]
    again = {form: [step for step in written if step["name"].startswith("recompute.")] for form, written in found.items()}
    assert again["none"] == []
    assert [kernel(step) for step in again["selective"]] == ["scores", "softmax", "softmax_dropout", "values"]
    assert [kernel(step) for step in again["full"]] == [kernel(step) for step in forward]
    # Scores of all keys, for the query heads of this rank.
    assert [float(step["flops"]) for step in again["selective"]] == [2 * 2048**2 * D * A / 8, 0, 0, 2 * 2048**2 * D * A / 8]


def test_collectives_are_those_of_the_collective_kind(tmp_path):
    found = [step for step in steps(tmp_path / "layer", "prefill") if is_collective(step)]
    alone = tmp_path / "alone.yaml"
    alone.write_text("workload: {kind: collective, op: all_reduce, library: vllm-0.19, in_graph: true, sizes_bytes: [67108864]}\n")
    succeed("dgx_h100", alone, "--out", tmp_path / "alone", "--quiet")
    (same,) = rows(tmp_path / "alone" / "collectives.csv")
    for step in found:
        assert float(step["time_us"]) == pytest.approx(float(same["time_us"]), rel=1e-3)
        assert (step["algorithm"], step["protocol"], step["channels"]) == (same["algorithm"], same["protocol"], same["channels"])
    other = [step for step in steps(tmp_path / "nccl", "decode", "workload.library=nccl") if is_collective(step)]
    assert {step["algorithm"] for step in other} <= {"ring", "tree", "nvls"}


def test_sequences_of_a_batch(tmp_path):
    one, four = (steps(tmp_path / str(batch), "prefill", f"workload.batch={batch}", "workload.tokens=1024") for batch in [1, 4])
    for single, several in zip(one, four, strict=True):
        if single["flops"] and float(single["flops"]) > 0:
            assert float(several["flops"]) == 4 * float(single["flops"])


@pytest.mark.parametrize("phase", PHASES)
def test_looking_and_repeating(phase, tmp_path):
    for look in ["--check", "--describe"]:
        assert succeed("dgx_h100", PHASES[phase], look).stdout
    numbers = json.loads(succeed("dgx_h100", PHASES[phase], "--explain", "--json").stdout)
    found = steps(tmp_path / "a", phase)
    assert [step["name"] for step in numbers["steps"]] == [step["name"] for step in found]
    assert numbers["kernels_s"] == pytest.approx(sum(float(step["time_us"]) for step in found if not is_collective(step)) * 1e-6, rel=1e-6)
    assert "limited by" in succeed("dgx_h100", PHASES[phase], "--explain").stdout
    succeed("dgx_h100", PHASES[phase], "--out", tmp_path / "b", "--quiet", "--vcd")
    for file in ["layer.csv", "jobs.csv", "links.csv", "machine.json"]:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert "qkv" in (tmp_path / "b" / "trace.vcd").read_text()


@pytest.mark.parametrize("phase, option, words", [
    ("training", "workload.tokens=8191", "workload.sequence_parallel: 8191 tokens cannot be divided evenly among 8 ranks"),
    ("training", "workload.tp=1", "workload.sequence_parallel: needs workload.tp of 2 or more"),
    ("training", "workload.context_tokens=5", "workload.context_tokens: is not accepted with phase: training"),
    ("prefill", "workload.dropout=true", "workload.dropout: is not accepted with phase: prefill"),
    ("prefill", "workload.reduce_beside_wgrad=true", "workload.reduce_beside_wgrad: is not accepted with phase: prefill"),
    ("prefill", "workload.residual_norm_fused=false", "workload.residual_norm_fused: is not accepted with phase: prefill"),
    ("decode", "workload.recompute=full", "workload.recompute: is not accepted with phase: decode"),
    ("training", "workload.attention=flush", "unknown value 'flush'; accepted: flash, unfused (did you mean 'flash'?)"),
    ("prefill", "workload.tp=3", "workload.tp: 3 does not divide the 64 attention heads"),
    ("prefill", "workload.tp=16", "workload.tp: 16; the first group has 8 GPUs"),
    ("prefill", "workload={kind: layer, phase: prefill}", "workload.tokens: is required by phase: prefill"),
    ("decode", "workload.tokens=2", "workload.tokens: is not accepted with phase: decode"),
    ("decode", "workload.phase=decodes", "(did you mean 'decode'?)"),
    ("decode", "workload.batch=60000", "one layer needs"),
    ("decode", "model.dtype=fp4", "has no tensor rate for fp4; set model.dtype to one of fp16, bf16, tf32, fp8, int8"),
])
def test_what_is_refused(phase, option, words, tmp_path):
    result = run("dgx_h100", PHASES[phase], "--set", option, "--out", tmp_path / "out")
    assert result.returncode == 2 and words in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("tp", [1, 4])
def test_a_pass_is_its_layers(tp, tmp_path):
    """The time to the first token of a prompt in one chunk, against one layer times layers."""
    steps(tmp_path / "layer", "prefill", f"workload.tp={tp}", "workload.tokens=512")
    whole = tmp_path / "whole.yaml"
    whole.write_text(f"model: {{config: {ROOT}/scenarios/models/llama-3.1-70b.json}}\n"
                     "workload: {kind: disaggregated_prefill, requests: {count: 1, prompt_tokens: 512}, chunk_tokens: 512, handoff: at_end, engine: none,\n"
                     f"           memory_limit_ratio: 1, prefill: {{tp: {tp}, pp: 1}}, decode: {{tp: {tp}, pp: 1}}}}\n")
    options = ["--set", "machine.overrides={gpu: {hbm: {capacity_gb: 400}}}"]  # so that one GPU holds them all
    succeed("dgx_h100", whole, "--out", tmp_path / "whole", "--quiet", *options)
    ttft, layers = (summary(tmp_path / folder)["metrics"][key] for folder, key in [("whole", "ttft_s"), ("layer", "pass_s")])
    assert ttft == pytest.approx(layers, rel=0.005)


@pytest.mark.parametrize("sequence_parallel", ["false", "true"])
def test_collectives_beside_products(sequence_parallel, tmp_path):
    """What runs beside a product begins with it, and the next step waits for both; nothing else moves."""
    split = f"workload.sequence_parallel={sequence_parallel}"
    serial = steps(tmp_path / "serial", "training", split)
    beside = steps(tmp_path / "beside", "training", split, "workload.reduce_beside_wgrad=true", "workload.keep_gathered=false")
    kernels = {step["name"] for step in serial if not is_collective(step)}
    assert kernels == {step["name"] for step in beside if not is_collective(step)}
    hidden, ends = 0, []
    for one, after in zip(beside, beside[1:]):
        start, end = float(after["start_s"]), float(one["end_s"])
        ends.append(end)
        if is_collective(one) and start == float(one["start_s"]):
            assert re.search("_wgrad|_dgrad", after["name"]), after["name"]
            hidden += 1
        elif not is_collective(one):
            assert start == pytest.approx(max(ends), abs=1e-14)
    assert hidden == (4 if sequence_parallel == "true" else 2)  # sums of two parts; gathers of two parts
    before, now = (summary(tmp_path / folder)["metrics"] for folder in ("serial", "beside"))
    assert now["layer_s"] == pytest.approx(float(beside[-1]["end_s"]), rel=1e-9)
    assert now["collectives_s"] < before["collectives_s"]
    assert now["kernels_s"] > before["kernels_s"]  # the collectives take SMs
    if sequence_parallel == "false":  # with it, inputs are gathered once more
        assert now["layer_s"] < before["layer_s"]
