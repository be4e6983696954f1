"""Whoever looks at a run changes nothing: results are the same bytes with and without waveform, timeline and critical path, although
a timeline, and a waveform of links, have collectives simulated that are replayed otherwise. And a run that ends with an error
leaves nothing behind, whoever looks."""

import json

import pytest

from platform_runs import run, succeed, summary

MODEL = {
    "model_type": "llama",
    "hidden_act": "gelu",
    "num_hidden_layers": 8,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
TRAFFIC = """\
model: {config: model.json}
workload:
  kind: disaggregated_prefill
"""
# Each has members that end at one instant and set off what shares a link, or collectives that follow close upon each other.
SCENARIOS = {
    "handoffs_at_one_instant": (
        "dgx_h100",
        {"num_hidden_layers": 1, "hidden_size": 2048, "num_attention_heads": 32, "intermediate_size": 512, "vocab_size": 1000},
        """\
  prefill: {tp: 4, pp: 1}
  decode: {tp: 1, pp: 1, steps: 0, max_batch: 2}
  handoff: at_end
  nic_rule: modulo
  chunk_tokens: 100
  requests: {count: 4, prompt_tokens: 17}
machine: {groups: {prefill: {gpu: H200-SXM-141GB}, decode: {servers: 2, gpu: H20-SXM-96GB}}, nic: {datasheet: connectx5_roce, per_server: 4}}
""",
    ),
    "members_of_two_speeds": (
        "plx_box",
        {},
        """\
  prefill: {tp: 2, pp: 4}
  decode: {tp: 1, pp: 6, steps: 3, max_batch: 32}
  handoff: at_end
  pp_send: shard
  nic_rule: nearest
  requests: {count: 1, prompt_tokens: 100}
machine: {groups: {prefill: {gpu: RTX-3090}, decode: {gpu: A800-PCIe-80GB}}, plx: {nics_per_plx: 1}, nvlink_bridge: pairs}
""",
    ),
    "small_all_reduces": (
        "dgx_a100",
        {"num_hidden_layers": 7, "hidden_size": 512, "num_attention_heads": 8, "num_key_value_heads": 1},
        """\
  prefill: {tp: 1, pp: 2}
  decode: {tp: 4, pp: 3, steps: 1, max_batch: 32}
  handoff: per_chunk
  pp_send: shard
  nic_rule: modulo
  requests: {count: 2, prompt_tokens: 512}
machine: {groups: {prefill: {gpu: A100-SXM4-40GB}, decode: {servers: 3, gpu: A100-SXM4-80GB}}, nic: {datasheet: connectx8_xdr}}
""",
    ),
}
REPLAYS = [["--why"], ["--vcd", "--vcd-level", "summary"]]
SIMULATES = [["--vcd"], ["--timeline"], ["--vcd", "--vcd-level", "all", "--timeline", "--why"]]


def write(folder, model, text):
    (folder / "model.json").write_text(json.dumps({**MODEL, **model}))
    path = folder / "scenario.yaml"
    path.write_text(TRAFFIC + text)
    return path


def results(folder):
    record = summary(folder)
    record.pop("simulator")
    return {"summary.json": json.dumps(record, indent=1), **{name: (folder / name).read_text() for name in ("jobs.csv", "links.csv", "requests.csv")}}


@pytest.mark.parametrize("name", SCENARIOS)
def test_results_are_the_same_whoever_looks(tmp_path, name):
    platform, model, text = SCENARIOS[name]
    path = write(tmp_path, model, text)
    succeed(platform, path, "--quiet", "--out", tmp_path / "plain")
    assert summary(tmp_path / "plain")["simulator"]["replayed_transactions"] > 0
    plain = results(tmp_path / "plain")
    for options in REPLAYS + SIMULATES:
        out = tmp_path / "".join(options)
        succeed(platform, path, "--quiet", "--out", out, *options)
        if options in SIMULATES:
            assert summary(out)["simulator"]["replayed_transactions"] == 0
        for file, content in results(out).items():
            assert content == plain[file], f"{file} with {options}"


@pytest.mark.parametrize("options", [[], ["--vcd", "--timeline"]])
def test_a_handoff_that_cannot_be_delivered_ends_the_run_whoever_looks(tmp_path, options):
    path = write(
        tmp_path,
        {"num_hidden_layers": 2, "intermediate_size": 512},
        """\
  prefill: {tp: 1, pp: 1}
  decode: {tp: 1, pp: 1, steps: 0}
  handoff: at_end
  requests: {count: 1, prompt_tokens: 512}
events: [{at_us: 1, link: "GPU_D[0][0]_PCI", fail: true}]
""",
    )
    result = run("plx_box", path, "--quiet", "--out", tmp_path / "out", *options)
    assert result.returncode == 3, result.stderr
    assert "cannot be delivered" in result.stderr
    assert not list(tmp_path.glob("*.partial-*"))
