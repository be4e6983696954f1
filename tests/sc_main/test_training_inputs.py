"""Bad input of `workload.kind: training`: one line that names the place, what is wrong and what is accepted, and exit status 2."""

import json

import pytest

from platform_runs import ROOT, run, succeed

HEAD = f"""\
model: {{config: {ROOT}/tests/models/tiny.json}}
machine: {{groups: {{node: {{servers: 1}}}}}}
workload:
  kind: training
  seq_tokens: 512
"""
BATCH = "  global_batch: 16\n"


def refusal(tmp_path, text, platform="dgx_h100"):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD + text)
    result = run(platform, scenario, "--out", tmp_path / "out", "--quiet")
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
    assert not (tmp_path / "out").exists()
    return result.stderr.replace(f"{tmp_path}/", "").rstrip("\n")


@pytest.mark.parametrize("text, line", [
    (BATCH + "  tp: 8\n  pp: 2\n",
     "7:7: error: workload.tp: tp 8 x pp 2 = 16 does not divide the 8 GPUs of the machine; set workload.dp to use fewer, or "
     "machine.groups.node.servers"),
    (BATCH + "  tp: 4\n  pp: 2\n  dp: 2\n",
     "9:7: error: workload.dp: tp 4 x pp 2 x dp 2 needs 16 GPUs; the machine has 8; set machine.groups.node.servers to 2 or more"),
    ("  global_batch: 12\n  micro_batch: 2\n",
     "6:17: error: workload.global_batch: 12 is not a multiple of micro_batch 2 x dp 8 = 16"),
    ("  global_batch: 20\n  pp: 4\n  schedule: interleaved\n  virtual_stages: 1\n",
     "9:19: error: workload.virtual_stages: schedule interleaved needs at least 2 virtual stages on each rank"),
    ("  global_batch: 14\n  tp: 2\n  pp: 3\n  dp: 1\n  schedule: interleaved\n  virtual_stages: 2\n",
     "6:17: error: workload.global_batch: 14 micro-batches in groups of 3 leave a last group of 2, but schedule interleaved needs at "
     "least 3 (pipeline ranks) in each group"),
    (BATCH + "  pp: 4\n  schedule: interleaved\n  virtual_stages: 2\n",
     "9:19: error: workload.virtual_stages: pp 4 x virtual_stages 2 is more than the 6 layers of tiny"),
    (BATCH + "  pp: 2\n  virtual_stages: 2\n",
     "8:19: error: workload.virtual_stages: schedule 1f1b has 1 virtual stage on each rank, not 2; schedules with more: interleaved "
     "(2 or more), zbv and dualpipe_v (2)"),
    (BATCH + "  pp: 2\n  schedule: zbv\n",
     "workload.virtual_stages: schedule zbv has 2 virtual stages on each rank, not 1"),
    ("  global_batch: 3\n  pp: 2\n  dp: 1\n  schedule: dualpipe_v\n  virtual_stages: 2\n",
     "6:17: error: workload.global_batch: 3 micro-batches; schedule dualpipe_v needs at least 2 x 2 (pipeline ranks)"),
    ("  global_batch: 12\n  pp: 3\n  dp: 2\n  schedule: dualpipe\n",
     "7:7: error: workload.pp: 3; schedule dualpipe needs an even number of pipeline ranks"),
    ("  global_batch: 6\n  pp: 4\n  dp: 1\n  schedule: dualpipe\n",
     "6:17: error: workload.global_batch: 6 micro-batches; schedule dualpipe needs at least 2 x 4 (pipeline ranks)"),
    ("  global_batch: 9\n  pp: 4\n  dp: 1\n  schedule: dualpipe\n",
     "6:17: error: workload.global_batch: 9 is not a multiple of micro_batch 1 x dp 1 x the 2 ends of schedule dualpipe = 2"),
    (BATCH + "  pp: 2\n  schedule: dualpipe\n  virtual_stages: 2\n",
     "9:19: error: workload.virtual_stages: schedule dualpipe has 1 virtual stage for each rank, not 2; a rank holds two of them"),
    (BATCH + "  pp: 2\n  schedule: dualpipe\n  grad_norm: post_validation\n",
     "9:14: error: workload.grad_norm: post_validation is not accepted with schedule dualpipe; accepted: none and before"),
    (BATCH + "  pp: 2\n  stage_layers: [3, 4]\n", "8:17: error: workload.stage_layers:"),
    (BATCH + "  pp: 2\n  stage_layers: [1, 2, 3]\n", "8:17: error: workload.stage_layers:"),
    (BATCH + "  pp: 8\n", "7:7: error: workload.pp: pp 8 x virtual_stages 1 is more than the 6 layers of tiny"),
    (BATCH + "  routing: {skew: -1}\n", "7:19: error: workload.routing.skew: '-1' is out of range; accepted: 0 to 10"),
    (BATCH + "  routing: {seed: 1}\n", "7:12: error: workload.routing.skew: is required;"),
    (BATCH + "  routing: unifrm\n", "7:12: error: workload.routing: unknown value 'unifrm'; accepted: uniform (did you mean 'uniform'?)"),
    (BATCH + "  routing: {skew: 1}\n", "7:12: error: workload.routing: tiny has no experts"),
    (BATCH + "  tp: 3\n  dp: 2\n", "7:7: error: workload.tp: 3 does not divide"),
    (BATCH + "  sequence_parallel: true\n", "7:22: error: workload.sequence_parallel: needs workload.tp of 2 or more"),
    (BATCH + "  schedule: 1f1\n",
     "7:13: error: workload.schedule: unknown '1f1' (did you mean '1f1b'?), or a path with a /"),
    (BATCH + "  schedule: ./missing.txt\n", "7:13: error: workload.schedule:"),
    (BATCH + "  zero_stage: 1\n  software: megatron_2021\n", "7:15: error: workload.zero_stage: 1; megatron_2021 has zero stages 0"),
    (BATCH + "  flash_attention: 4\n", "7:20: error: workload.flash_attention: '4' is out of range; accepted: 1 to 3"),
    (BATCH + "  software: megatron_cor\n", "7:13: error: workload.software:"),
    (BATCH + "  pp: 2\n  recompute: {method: block, layers: 4}\n",
     "8:38: error: workload.recompute.layers: 4 is more than the 3 layers of a stage"),
    (BATCH + "  recompute: {method: block}\n", "7:14: error: workload.recompute.layers: is required; layers of a group, or of each virtual stage"),
    (BATCH + "  grad_norm: post_validation\n",
     "7:14: error: workload.grad_norm: post_validation needs pp of 2 or more; accepted with pp: 1: none and before"),
    (BATCH + "  recompute: selectiv\n",
     "7:14: error: workload.recompute: unknown value 'selectiv'; accepted: none, selective, full (did you mean 'selective'?)"),
    (BATCH + "  group_micro_batches: 4\n",
     "7:24: error: workload.group_micro_batches: only schedule interleaved has groups of micro-batches"),
    (BATCH + "  pp: 2\n  schedule: interleaved\n  virtual_stages: 3\n  group_micro_batches: 1\n",
     "10:24: error: workload.group_micro_batches: a group of 1 micro-batches is smaller than the 2 pipeline ranks"),
    (BATCH + "  schedule: zb_auto\n  memory_limit_stages: 3\n", "8:24: error: workload.memory_limit_stages: '3' is out of range; accepted: 1 to 2"),
    (BATCH + "  placement: [0, 1, 2]\n", "7:14: error: workload.placement:"),
    (BATCH + "  placement: [0, 1, 2, 3, 4, 5, 6, 6]\n", "error: workload.placement"),
    (BATCH + "  rank_order: dp-tp\n", "7:15: error: workload.rank_order: unknown value 'dp-tp'; accepted: tp-cp-ep-dp-pp"),
    ("", "4:3: error: workload.global_batch: is required"),
])
def test_a_bad_value_is_refused_at_its_place(text, line, tmp_path):
    said = refusal(tmp_path, text)
    assert line in said and said.startswith("s.yaml:"), said


def test_tokens_that_tp_does_not_divide_are_refused(tmp_path):
    text = (BATCH + "  tp: 8\n  sequence_parallel: true\n").replace("16", "1")
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD.replace("512", "500") + text)
    result = run("dgx_h100", scenario, "--out", tmp_path / "out", "--quiet")
    assert result.returncode == 2 and not (tmp_path / "out").exists()
    assert result.stderr == (f"{scenario}:8:22: error: workload.sequence_parallel: 500 tokens cannot be divided evenly among 8 ranks\n")


def test_learned_positions_limit_a_sequence(tmp_path):
    """GPT-2 has a row for each position.."""
    gpt2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 4, "vocab_size": 1000}
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD.replace(f"{ROOT}/tests/models/tiny.json", "model.json") + BATCH + "  tp: 1\n")
    for positions, is_refused in ((256, True), (512, False)):
        (tmp_path / "model.json").write_text(json.dumps(gpt2 | {"n_positions": positions}))
        done = run("dgx_h100", scenario, "--check")
        assert done.returncode == (2 if is_refused else 0)
        assert ("a sequence of 512 tokens exceeds the 256 learned positions of model" in done.stderr) == is_refused


ROWS = ["F0 F1 B0 B1", "F0 B0 F1 B1"]


@pytest.mark.parametrize("rows, line", [
    (ROWS, None),
    ((ROWS[0], "F0 B0 F1"), "2:17: error: B of virtual stage 1, micro-batch 1 is missing on rank 1"),
    ((ROWS[0], "F0 B0 F1 B1 F1"), "2:21: error: F of virtual stage 1, micro-batch 1 is there twice"),
    ((ROWS[0], "B0 F0 F1 B1"), "2:9: error: B of virtual stage 1, micro-batch 0 comes before F of virtual stage 1, micro-batch 0, which it needs"),
    (("F0 B0 F1 B1", "F0 F1 B0 B1"), "1:12: error: deadlock: rank 0 waits with B of virtual stage 0, micro-batch 0"),
    ((ROWS[0], "F0 B0 F2 B1"), "2:15: error: F of virtual stage 1, micro-batch 2: there are 2 micro-batches"),
    ((ROWS[0], "F0 B0 X1 B1"), "2:15: error: 'X1' is not a slot; accepted: F, B, I or W"),
    ((ROWS[0],), "error: the line 'rank 1:' is missing; the pipeline has 2 ranks"),
])
def test_a_schedule_that_cannot_run_is_refused_at_its_slot(rows, line, tmp_path):
    table = tmp_path / "table.txt"
    table.write_text("".join(f"rank {r}: {row}\n" for r, row in enumerate(rows)))
    text = f"  global_batch: 2\n  pp: 2\n  dp: 1\n  schedule: {table}\n"
    if line is not None:
        said = refusal(tmp_path, text)
        assert said.startswith("table.txt:") and line in said, said
        return
    (tmp_path / "s.yaml").write_text(HEAD + text)
    assert run("dgx_h100", tmp_path / "s.yaml", "--quiet").returncode == 0


@pytest.mark.parametrize("platform, text, line", [
    ("dgx_a100", "  flash_attention: 3\n", "7:20: error: workload.flash_attention: 3 of megatron_core has no rate on A100-SXM4-80GB; accepted: auto, 1, 2"),
    ("dgx_b200", "  software: llm_foundry\n  zero_stage: 3\n", "workload.flash_attention: 1 of llm_foundry has no rate on B200-SXM-180GB; accepted: auto"),
])
def test_a_version_of_flash_attention_without_a_rate_is_refused(tmp_path, platform, text, line):
    assert line in refusal(tmp_path, BATCH + text, platform)


def test_an_unknown_key_of_a_software_datasheet_is_refused(tmp_path):
    sheet = tmp_path / "mine.yaml"
    sheet.write_text((ROOT / "platforms/datasheets/software/megatron_core.yaml").read_text() + "pp_overlp: all\n")
    said = refusal(tmp_path, BATCH + f"  software: {sheet}\n")
    assert said.startswith(f"mine.yaml:{len(sheet.read_text().splitlines())}:1: error:") and "pp_overlap" in said, said


@pytest.mark.parametrize("keys, fits, change", [
    ("  micro_batch: 8\n  attention: unfused\n  reserved_bytes: 83e9\n", "micro_batch: 4", ["micro_batch=4"]),
    ("  attention: unfused\n  reserved_bytes: 84.2e9\n", "tp: 2 and dp: 4", ["tp=2", "dp=4"]),
    ("  zero_stage: 0\n  reserved_bytes: 83.7e9\n", "zero_stage: 1", ["zero_stage=1"]),
    ("  reserved_bytes: 200e9\n", "use more GPUs, or a larger tp or pp", None),
])
def test_a_step_that_does_not_fit_is_refused_with_the_sum_and_what_fits(keys, fits, change, tmp_path):
    said = refusal(tmp_path, "  global_batch: 64\n" + keys)
    assert said.startswith("s.yaml:4:3: error: workload: a rank of pipeline rank 0 needs weights "), said
    assert f", but H100-SXM5-80GB has 84.90 GB; {fits}" in said, said
    if change is not None:
        assert said.endswith(" would fit")
        sets = [part for key in change for part in ("--set", f"workload.{key}")]
        assert run("dgx_h100", tmp_path / "s.yaml", "--check", *sets).returncode == 0
        changed = json.loads(succeed("dgx_h100", tmp_path / "s.yaml", "--explain", "--json", *sets).stdout)["memory"]
        assert f"{fits} ({max(rank['total_bytes'] for rank in changed) * 1e-9:.2f} GB)" in said
    explained = succeed("dgx_h100", tmp_path / "s.yaml", "--explain", "--json")
    memory, = json.loads(explained.stdout)["memory"]
    terms = sum(value for key, value in memory.items() if key.endswith("_bytes") and key not in ["total_bytes", "capacity_bytes"])
    assert not memory["fits"] and terms == memory["total_bytes"] > memory["capacity_bytes"]
    assert fits in succeed("dgx_h100", tmp_path / "s.yaml", "--explain").stdout


@pytest.mark.parametrize("platform, precision, line", [
    ("dgx_a100", "{gemm: fp8}", "21: error: workload.precision.gemm: fp8; A100-SXM4-80GB has no tensor rate for fp8; accepted: bf16"),
    ("dgx_h100", "{gemm: mxfp8}", "21: error: workload.precision.gemm: mxfp8; H100-SXM5-80GB has no tensor rate for mxfp8; accepted: bf16, fp8"),
    ("dgx_h100", "{gemm: fp16}", "21: error: workload.precision.gemm: fp16; model.dtype is bf16; accepted: bf16, fp8, mxfp8, nvfp4"),
    ("dgx_h100", "{gemm: fp8, recipe: mxfp8}",
     "34: error: workload.precision.recipe: mxfp8; recipes of gemm: fp8: delayed, tensorwise, rowwise, blockwise"),
    ("dgx_b200", "{gemm: nvfp4, recipe: delayed}", "36: error: workload.precision.recipe: delayed; recipes of gemm: nvfp4: nvfp4"),
    ("dgx_h100", "{recipe: delayed}", "23: error: workload.precision.recipe: needs precision.gemm: fp8, mxfp8 or nvfp4"),
    ("dgx_h100", "{gemm: fp8, recipe: rows}",
     "34: error: workload.precision.recipe: unknown value 'rows'; accepted: delayed, tensorwise, rowwise, blockwise, mxfp8, nvfp4"),
])
def test_products_that_are_refused(platform, precision, line, tmp_path):
    assert refusal(tmp_path, BATCH + f"  precision: {precision}\n", platform) == f"s.yaml:7:{line}"


def test_zero_stage_3_casts_weights_before_each_product(tmp_path):
    text = BATCH + "  zero_stage: 3\n  software: torchtitan\n  precision: {gemm: fp8, weight_cast: step}\n"
    assert refusal(tmp_path, text) == ("s.yaml:9:39: error: workload.precision.weight_cast: step; zero_stage 3 keeps no weights; "
                                       "accepted: product")


@pytest.mark.parametrize("platform", ["dgx_a100", "dgx_h100"])  # without and with a rate for fp8
def test_fp8_weights_are_refused(platform, tmp_path):
    (tmp_path / "s.yaml").write_text(HEAD.replace("tiny.json", "tiny.json, dtype: fp8") + BATCH)
    result = run(platform, tmp_path / "s.yaml", "--out", tmp_path / "out", "--quiet")
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and not (tmp_path / "out").exists(), result.stderr
    assert result.stderr.startswith(f"{tmp_path}/s.yaml:"), result.stderr
