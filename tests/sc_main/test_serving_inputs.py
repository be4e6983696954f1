"""Bad input of `workload.kind: serving`: one line that names the place, what is wrong and what is accepted, and exit status 2."""

import json
import re

import pytest

from platform_runs import ROOT, rows, run, succeed, summary

HEAD = f"""\
model: {{config: {ROOT}/tests/models/tiny.json}}
machine: {{groups: {{gpus: {{servers: 1, gpu: L40S}}}}}}
workload:
  kind: serving
"""
REQUEST = "  requests: {prompt_tokens: 512, output_tokens: 8}\n"


def refusal(tmp_path, text):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD + text)
    result = run("plx_box", scenario, "--out", tmp_path / "out", "--quiet")
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
    assert not (tmp_path / "out").exists()
    return result.stderr.replace(f"{tmp_path}/", "").rstrip("\n")


TWO = "  instances: [{name: east}, {name: west, gpus: [1]}]\n"
PAIR = "  instances: [{name: east, role: prefill}, {name: west, role: decode, gpus: [1]}]\n"
POLICIES = "fixed, round_robin, random, session, least_load, least_requests, power_of_two, cache_aware, kv_cost, scorers, sticky, prefix_trie, link_aware"
WHOLE = "fit into a batch, and chunked_prefill is false; accepted: up to max_batched_tokens, 2048"
POOL = "accepted: up to 32, all that a request can have"


def experts(instance, more=""):
    """A model with eight experts on eight GPUs."""
    return REQUEST + f"  instances: [{{name: a, {instance}}}]\n" + more


@pytest.mark.parametrize("text, line", [
    (experts("tp: 4, ep: 2"), "6:36: error: workload.instances.0.ep: 2 is not tp x dp, 4; accepted: tp x dp (experts are dealt whole to these "
                              "ranks), or none (without dp, tensor parallelism divides every expert)"),
    (experts("dp: 3"), "6:29: error: workload.instances.0.dp: 3 does not divide the 8 experts of tiny_experts"),
    (experts("tp: 2, dp: 2, engine: trtllm-1.0"),
     "6:36: error: workload.instances.0.dp: 2 with tp 2 by engine trtllm-1.0 is not modelled; accepted: tp 1, or another engine"),
    (experts("tp: 2, dp: 4, ep: 4"), "6:43: error: workload.instances.0.ep: 4 is not tp x dp, 8; accepted: tp x dp (experts are dealt whole to these "
                                     "ranks), or none (without dp, tensor parallelism divides every expert)"),
    (experts("tp: 2, dp: 2, gpus: [0, 1, 2, 8]"),
     "6:15: error: workload.instances.0: replica 1 of instance a has its 2 ranks on servers in another way than replica 0; accepted: GPUs of one "
     "server for each replica, or a tp that is a multiple of 8"),
    (experts("dp: 2, pp: 2"), "6:29: error: workload.instances.0.dp: 2 with pp 2 is not modelled; accepted: pp 1"),
    (experts("tp: 4", "  experts: {routing: {skew: 1}}\n"), "7:12: error: workload.experts: no instance has ep or dp; accepted with these"),
    (experts("tp: 4, ep: 4", "  experts: {redundant: 3}\n"), "6:36: error: workload.instances.0.ep: 4 does not divide the 8 experts of tiny_experts "
                                                              "and 3 redundant ones"),
    (experts("tp: 4, ep: 4", "  experts: {redundant: 28}\n"), "7:24: error: workload.experts.redundant: 28 are more than 4 ranks can hold; accepted: "
                                                               "up to 24"),
    (experts("tp: 4, ep: 4", "  experts: {exchange: deepep}\n"),
     "7:23: error: workload.experts.exchange: unknown value 'deepep'; accepted: allgather_reducescatter, all_to_all, deepep_low_latency"),
    (experts("dp: 4", "  experts: {micro_batches: 2}\n"), "7:28: error: workload.experts.micro_batches: 2 with exchange "
     "allgather_reducescatter, which takes SMs until its end; accepted: exchange deepep_low_latency, or 1 micro-batch"),
    (experts("dp: 4", "  experts: {exchange: deepep_low_latency, micro_batches: 0}\n"),
     "7:58: error: workload.experts.micro_batches: '0' is out of range; accepted: 1 to 2"),
    (experts("dp: 4", "  experts: {exchange: deepep_low_latency, micro_batches: 3}\n"),
     "7:58: error: workload.experts.micro_batches: '3' is out of range; accepted: 1 to 2"),
    (experts("tp: 4, ep: 4", "  experts: {exchange: deepep_low_latency, micro_batches: 2}\n"),
     "7:58: error: workload.experts.micro_batches: 2 with dp 1, whose ranks exchange no tokens; accepted: dp of 2 or more, or 1 micro-batch"),
    (experts("dp: 4, engine: trtllm-1.0", "  experts: {exchange: deepep_low_latency, micro_batches: 2}\n"),
     "7:58: error: workload.experts.micro_batches: 2 with engine trtllm-1.0, which has no steps of two micro-batches; "
     "accepted: vllm-0.19, sglang-0.5, or 1 micro-batch"),
])
def test_experts_that_ranks_cannot_hold(tmp_path, text, line):
    scenario = tmp_path / "s.yaml"
    servers = "servers: 2" if "8]" in text else "servers: 1"
    scenario.write_text(HEAD.replace("tiny.json", "tiny_experts.json").replace("servers: 1", servers) + text)
    result = run("plx_box", scenario, "--quiet")
    assert (result.returncode, result.stderr.replace(f"{tmp_path}/", "").rstrip("\n")) == (2, f"s.yaml:{line}")


@pytest.mark.parametrize("text, line", [
    ("0,1,1,1,1,1,1,1,1\n1,1,1,1\n", "h.csv:2:1: error: 3 experts in layer 1; tiny_experts has 8"),
    ("0,1,1,1,1,1,1,1,1\n2,1,1,1,1,1,1,1,1\n", "h.csv:2:1: error: 2 is no layer of tiny_experts with experts"),
    ("0,1,1,1,1,1,1,1,1\n", "s.yaml:7:22: error: workload.experts.routing: h.csv has no line for layer 1 of tiny_experts"),
    ("0,1,1,1,1,1,1,1,x\n", "h.csv:1:1: error: cell 9: expected a number from 0 to 1e18, got 'x'"),
    ("0,9,1,1,1,1,1,1,1\n", "h.csv:1:1: error: expert 0 has 0.562 of the tokens of layer 0; accepted: at most 1/2, as a token goes to 2 experts"),
    ("0,1,1,1,1,1,1,1,1\n0,1,1,1,1,1,1,1,1\n", "h.csv:2:1: error: a second line for layer 0"),
])
def test_traced_loads_of_another_model(tmp_path, text, line):
    (tmp_path / "h.csv").write_text(text)
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD.replace("tiny.json", "tiny_experts.json") + experts("tp: 4, ep: 4", "  experts: {routing: h.csv}\n"))
    result = run("plx_box", scenario, "--quiet")
    assert (result.returncode, result.stderr.replace(f"{tmp_path}/", "").rstrip("\n")) == (2, line)


def test_a_model_without_experts_has_no_replicas(tmp_path):
    assert refusal(tmp_path, experts("dp: 2")) == (
        "s.yaml:6:29: error: workload.instances.0.dp: 2 with tiny, which has no experts; accepted: none, and `count` for instances of their own")


def test_a_policy_that_looks_at_no_prompt_needs_no_contents(tmp_path):
    scenario = tmp_path / "s.yaml"
    for router in ("{policy: scorers, prefix_weight: 0, kv_weight: 1}", "{policy: kv_cost, overlap_score_credit: 0}"):
        scenario.write_text(HEAD + REQUEST + TWO + f"  router: {router}\n")
        assert run("plx_box", scenario, "--describe").returncode == 0, router


SPECULATES = "sglang-0.5, trtllm-1.0, vllm-0.12, vllm-0.15, vllm-0.19"


@pytest.mark.parametrize("text, line", [
    ("{method: ngram, tokens: 3, acceptance: 1}", "6:55: error: workload.speculation.acceptance: 1 is out of range; accepted: from 0 to less than 1"),
    ("{method: ngram, tokens: 3, acceptance: -0.1}", "6:55: error: workload.speculation.acceptance: '-0.1' is out of range; accepted: 0 to 1"),
    ("{method: ngram, tokens: 2, acceptance: [0.5, 1]}", "6:61: error: workload.speculation.acceptance.1: 1 is out of range; accepted: from 0 to less than 1"),
    ("{method: ngram, tokens: 2, acceptance: [0.5, 0.6]}", "6:55: error: workload.speculation.acceptance: position 1 has 0.6, more than the "
     "position before it; accepted: a list that never increases, because a draft counts only if all before it are right"),
    ("{method: ngram, tokens: 3, acceptance: [0.5]}", "6:55: error: workload.speculation.acceptance: has 1 positions; accepted: one for each of 3 tokens"),
    ("{method: ngram, tokens: 0, acceptance: 0.5}", "6:40: error: workload.speculation.tokens: '0' is out of range; accepted: 1 to 64"),
    ("{method: ngram, tokens: 2, synthetic_length: 3.5}", "6:61: error: workload.speculation.synthetic_length: 3.5 is more than a step of 2 drafts "
     "can give; accepted: 1 to 3"),
    ("{method: ngram, tokens: 2, acceptance: 0.5, synthetic_length: 2}", "6:78: error: workload.speculation.synthetic_length: is not accepted beside "
     "acceptance; one of them says how many drafts are right"),
    ("{method: ngram, tokens: 2}", "6:16: error: workload.speculation: acceptance, or synthetic_length, is required"),
    ("{method: ngram, acceptance: 0.5}", "6:16: error: workload.speculation: tokens is required: the drafts of a step"),
    ("{tokens: 2, acceptance: 0.5}", "6:16: error: workload.speculation: method is required; accepted: ngram, eagle, mtp, draft"),
    ("{method: ngam, tokens: 2, acceptance: 0.5}", "6:25: error: workload.speculation.method: unknown value 'ngam'; accepted: ngram, eagle, mtp, draft "
     "(did you mean 'ngram'?)"),
    ("{method: eagle, tokens: 2, acceptance: 0.5, draft_model: tiny.json}", "6:73: error: workload.speculation.draft_model: method eagle takes none; "
     "accepted with method: draft"),
    ("{method: draft, tokens: 2, acceptance: 0.5}", "6:16: error: workload.speculation: draft_model is required by method: draft"),
    ("{method: draft, tokens: 2, acceptance: 0.5, draft_model: " + f"{ROOT}/scenarios/models/llama-3.1-8b.json}}", "6:73: error: "
     "workload.speculation.draft_model: its vocabulary has 128256 tokens, that of the model 8192; accepted: a model with the same vocabulary"),
    ("{method: ngram, tokens: 2, acceptance: 0.5, draft_tp: 1}", "6:70: error: workload.speculation.draft_tp: method ngram has no layers; accepted with "
     "eagle, mtp and draft"),
    ("{method: mtp, tokens: 2, acceptance: 0.5, draft_tp: 3}\n  instances: [{name: a, tp: 2}]", "6:68: error: workload.speculation.draft_tp: 3 is "
     "neither 1 nor the instance's tp, 2; accepted: one of them"),
    ("{method: draft, tokens: 2, acceptance: 0.5, draft_model: /none.json}", "6:73: error: workload.speculation.draft_model: cannot read '/none.json': "
     "No such file or directory"),
    ("{method: mtp, tokens: 2, acceptance: 0.5, draft_vocab: 9}", "6:71: error: workload.speculation.draft_vocab: method mtp has none of its own; "
     "accepted with method: eagle"),
    ("{method: eagle, tokens: 2, acceptance: 0.5, draft_vocab: 9000}", "6:73: error: workload.speculation.draft_vocab: 9000 is more than the "
     "vocabulary, 8192"),
    ("{method: ngram, tokens: 2, acceptance: 0.5}\n  engine: vllm-0.6", "6:16: error: workload.speculation: no speculative decoding is known of engine "
     "vllm-0.6; accepted with none, " + SPECULATES),
])
def test_speculation_that_cannot_be(tmp_path, text, line):
    assert refusal(tmp_path, REQUEST + f"  speculation: {text}\n") == "s.yaml:" + line


def test_speculation_of_one_instance(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD + "  requests: {count: 8, prompt_tokens: 64, output_tokens: 30}\n"
                        "  instances: [{name: east, speculation: {tokens: 2}}, {name: west, speculation: none}]\n"
                        "  speculation: {method: ngram, tokens: 4, synthetic_length: 2.5}\n")
    succeed("plx_box", scenario, "--out", tmp_path / "out")
    results = summary(tmp_path / "out")
    east, west = results["setup"]["instances"]
    assert east["speculation"] == {"method": "ngram", "tokens": 2, "tokens_per_step": 2.5} and "speculation" not in west
    drafts = results["metrics"]["speculation"]
    assert drafts["acceptance"] == pytest.approx(0.75, abs=0.05) and drafts["tokens_per_step"] == pytest.approx(2.5, abs=0.1)
    assert drafts["drafted_tokens"] % 2 == 0 and drafts["accepted_tokens"] < drafts["drafted_tokens"]


@pytest.mark.parametrize("text, line", [
    (REQUEST + "  scheduler: {max_batched_tokens: 128, max_seqs: 256}\n",
     "6:50: error: workload.scheduler.max_seqs: max_batched_tokens 128 is less than max_seqs 256; each running request needs a token of "
     "the budget"),
    (REQUEST + "  scheduler: {max_batched_tokens: 128}\n",  # max_seqs from the preset
     "6:35: error: workload.scheduler.max_batched_tokens: max_batched_tokens 128 is less than max_seqs 256; each running request needs "
     "a token of the budget"),
    (REQUEST + "  scheduler: {preemption: never}\n",
     "6:27: error: workload.scheduler.preemption: never needs reserve: full_output; else the answers of running requests may not fit"),
    (REQUEST + "  scheduler: {reserve: expected_output}\n",
     "6:24: error: workload.scheduler.reserve: expected_output (SGLang) needs mix: prefill_first"),
    (REQUEST + "  engine: sglang-0.5\n  scheduler: {reserve: full_output}\n",
     "7:24: error: workload.scheduler.reserve: full_output (TensorRT-LLM) needs mix: mixed"),
    (REQUEST + "  engine: vllm-0.91\n",
     "6:11: error: workload.engine: no datasheet 'vllm-0.91'; shipped: nccl, none, sglang-0.5, trtllm-1.0, vllm-0.12, vllm-0.15, vllm-0.19, "
     "vllm-0.6, vllm-2023-eager; or a path to a .yaml file (did you mean 'vllm-0.19'?)"),
    (REQUEST + "  scheduler: {preset: vlm}\n",
     "6:23: error: workload.scheduler.preset: unknown value 'vlm' (did you mean 'vllm'?); this key is now workload.engine, the name of an engine "
     "with its version"),
    (REQUEST + "  engine: sglang-0.5\n  host: {preset: vllm_v1}\n",
     "7:18: error: workload.host.preset: 'vllm_v1', of engine vllm-0.19, contradicts workload.engine: 'sglang-0.5'; write workload.engine alone"),
    (REQUEST + "  host: eager\n", "6:9: error: workload.host: expected a mapping or 'none', got 'eager'"),
    (REQUEST + "  host: {stepus: 1}\n", "6:10: error: workload.host.stepus: unknown key (did you mean 'step_us'?)"),
    (REQUEST + "  slo: {ttft_s: 0}\n",
     "6:17: error: workload.slo.ttft_s: '0' is out of range; accepted: 1e-06 to 1000000 (seconds)"),
    (REQUEST + "  slo: {tpot_s: -1}\n",
     "6:17: error: workload.slo.tpot_s: '-1' is out of range; accepted: 1e-06 to 1000000 (seconds)"),
    ("  requests: {prompt_tokens: 2041, output_tokens: 8}\n  scheduler: {chunked_prefill: false}\n",  # may start again with its answer
     f"5:29: error: workload.requests: 2049 tokens of a prompt and its answer do not {WHOLE}"),
    ("  requests: {prompt_tokens: 2049, output_tokens: 8}\n  engine: trtllm-1.0\n  scheduler: {chunked_prefill: false, max_batched_tokens: 2048}\n",
     f"5:29: error: workload.requests: 2049 tokens of a prompt do not {WHOLE}"),
    (REQUEST + "  kv_blocks: 33\n",
     f"5:29: error: workload.requests: a request of 520 tokens, prompt and answer, needs 33 KV blocks; {POOL}"),
    ("  kv_blocks: 33\n  requests:\n    list:\n    - {prompt_tokens: 500, output_tokens: 12}\n    - {prompt_tokens: 500, output_tokens: 13}\n",
     f"9:7: error: workload.requests: a request of 513 tokens, prompt and answer, needs 33 KV blocks; {POOL}"),
    (REQUEST + "  kv_blocks: 1000000\n",
     "6:14: error: workload.kv_blocks: 1000000 is more than memory holds; accepted: up to 212718"),
    (REQUEST + "  kv_blocks: 40\n  instances: [{name: a, kv_blocks: 1000000}]\n",
     "7:36: error: workload.instances.0.kv_blocks: 1000000 is more than memory holds; accepted: up to 212718"),
    ("  requests: {list: [{prompt_tokens: 9, output_tokens: 4}, {prompt_tokens: 9, output_tokens: 4, priority: 3}]}\n",
     "5:106: error: workload.requests.list.1.priority: does not apply to policy: fcfs; accepted with policy: priority"),
    ("  requests: {prompt_tokens: 500, output_tokens: 12}\n  scheduler: {max_model_len: 511}\n",
     "5:29: error: workload.requests: a request of 512 tokens, prompt and answer, is longer than max_model_len, 511; accepted: up to 511"),
    ("  requests: {prompt_tokens: 512, output_tokens: {lognormal: {mean: 9, cv_ratio: 1}}}\n  scheduler: {max_model_len: 511}\n",
     "5:29: error: workload.requests: a prompt of 512 tokens is longer than max_model_len, 511; accepted: up to 511"),
    (REQUEST + "  kv_transfer: {mode: push_per_chunk}\n",
     "6:16: error: workload.kv_transfer: there is no prefill instance; accepted with prefill instances"),
    (REQUEST + "  kv_tiers: {host: {bytes_per_server: 1000}}\n",
     "6:39: error: workload.kv_tiers.host.bytes_per_server: 1000 hold no block of KV cache of instance gpus; accepted: at least 196608"),
    (REQUEST + "  kv_tiers: {host: {bytes_per_server: 1.0e+9}, disk: {bytes_per_server: 1000, gb_per_s: 5, latency_us: 80}}\n",
     "6:73: error: workload.kv_tiers.disk.bytes_per_server: 1000 hold no block of KV cache of instance gpus; accepted: at least 196608"),
    (REQUEST + "  kv_tiers: {disk: {bytes_per_server: 1.0e+9, gb_per_s: 5, latency_us: 80}}\n",
     "6:20: error: workload.kv_tiers.disk: KV on disks goes through host memory; accepted with workload.kv_tiers.host.bytes_per_server"),
    (REQUEST + "  kv_tiers: {host: {bytes_per_server: 1.0e+9}, disk: {bytes_per_server: 1.0e+9, gb_per_s: 5}}\n",
     "6:54: error: workload.kv_tiers.disk: has no latency_us; accepted: bytes_per_server, gb_per_s and latency_us together"),
    (REQUEST + "  kv_tiers: {host: {bytes_per_server: 1.0e+9}, disk: {bytes_per_server: 1.0e+9, gb_per_s: 0, latency_us: 80}}\n",
     "6:91: error: workload.kv_tiers.disk.gb_per_s: '0' is out of range; accepted: 1e-06 to 10000 (GB/s (1e9 bytes per second, one direction))"),
    (REQUEST + "  kv_tiers: {host: {pool: server}}\n",
     "6:27: error: workload.kv_tiers.host.pool: there is no memory for it; accepted with workload.kv_tiers.host.bytes_per_server"),
    (REQUEST + "  kv_tiers: {host: {bytes_per_server: 1.0e+9, pool: servers}}\n",
     "6:53: error: workload.kv_tiers.host.pool: unknown value 'servers'; accepted: instance, server (did you mean 'server'?)"),
    (REQUEST + "  kv_tiers: {peers: {min_tokens: 2048}}\n",
     "6:21: error: workload.kv_tiers.peers: reads go to host memory; accepted with workload.kv_tiers.host.bytes_per_server"),
    (REQUEST + "  kv_tiers: {host: {bytes_per_server: 1.0e+9}, peers: {min_tokens: 2048}}\n",
     "6:55: error: workload.kv_tiers.peers: no instance has another one with its tp, layers of stages, kv_dtype and block_tokens on other "
     "servers; accepted with such a pair"),
    (REQUEST + "  kv_tiers: {host: {bytes_per_server: 1.0e+9}, peers: {}}\n",
     "6:55: error: workload.kv_tiers.peers: has no min_tokens; accepted: tokens from which on a read is worth its time"),
    (REQUEST + "  kv_tiers: {host: {bytes_per_server: 1.0e+9}}\n  scheduler: {prefix_caching: false}\n",
     "6:39: error: workload.kv_tiers.host.bytes_per_server: instance gpus does not look for equal prefixes; accepted with "
     "scheduler.prefix_caching: true"),
    (REQUEST + TWO + "events: [{at_us: 9, instance: wset, drain: true}]\n",
     "7:31: error: events.0.instance: no instance 'wset'; accepted: east, west (did you mean 'west'?)"),
    (REQUEST + TWO + "events: [{at_us: 9, instance: north, drain: true}]\n",
     "7:31: error: events.0.instance: no instance 'north'; accepted: east, west"),
    (REQUEST + TWO + "events: [{at_us: 9, instance: west}]\n",
     "7:10: error: events.0: needs exactly one of: drain: true, fail: true, join"),
    (REQUEST + TWO + "events: [{at_us: 9, instance: west, slow_ratio: 0.5}]\n",
     "7:49: error: events.0.slow_ratio: is accepted only for a gpu; for an instance: drain, fail, join"),
    (REQUEST + TWO + "events: [{at_us: 9, gpu: gpus0.gpu1, slow_ratio: 0.5, drain: true}]\n",
     "7:62: error: events.0.drain: is accepted only for an instance"),
    (REQUEST + TWO + "events: [{at_us: 9, instance: west, fail: true}, {at_us: 20, instance: west, drain: true}]\n",
     "7:50: error: events.1: instance west is not there at that time, or drained already; accepted after join"),
    (REQUEST + TWO + "events: [{at_us: 9, instance: west, drain: true}, {at_us: 20, instance: west, join: wets}]\n",
     "7:85: error: events.1.join: no instance 'wets'; accepted: host, east, west (did you mean 'west'?)"),
    (REQUEST + TWO + "events: [{at_us: 9, instance: west, join: west}]\n",
     "7:43: error: events.0.join: west is the instance itself; accepted: host, or another instance"),
    (REQUEST + "  instances: [{name: east, tp: 2}, {name: west, gpus: [4]}]\nevents: [{at_us: 9, instance: west, join: east}]\n",
     "7:43: error: events.0.join: east has other shares of the weights than west; accepted: host, or an instance with the same tp, pp, dp, ep and "
     "stage_layers"),
    (REQUEST + TWO + "events: [{at_us: 9, instance: west, fail: true}, {at_us: 20, instance: east, fail: true}, {at_us: 30, instance: east, join: west}]\n",
     "7:125: error: events.2.join: west does not have its weights then; accepted: host, or an instance that does"),
    (REQUEST + TWO + "events: [{at_us: 0, instance: west, drain: true}, {at_us: 0, instance: east, drain: true}]\n",
     "7:51: error: events.1: no instance takes requests from the start, and none joins; accepted: a later event, or a join"),
    (REQUEST + TWO + "  router: fixed\n",
     "5:13: error: workload.requests: do not say to which instance each goes, which router: fixed needs; accepted: a `list` with `instance`, one "
     "of east, west"),
    (REQUEST + "  instances: [{name: east}, {name: east, gpus: [1]}]\n",
     "6:36: error: workload.instances.1.name: 'east' is the name of another instance; accepted: a name of its own"),
    ("  requests: {list: [{prompt_tokens: 9, output_tokens: 4}]}\n" + TWO + "  router: fixed\n",
     "5:21: error: workload.requests.list.0: has no `instance`, which router: fixed needs; accepted: east, west"),
    ("  requests: {list: [{prompt_tokens: 9, output_tokens: 4, instance: wset}]}\n" + TWO,
     "5:68: error: workload.requests.list.0.instance: no instance 'wset' takes it (did you mean 'west'?)"),
    ("  requests: {list: [{prompt_tokens: 9, output_tokens: 4, instance: west, decode_instance: east}]}\n" + TWO,
     "5:91: error: workload.requests.list.0.decode_instance: there is no decode instance"),
    (REQUEST + "  router: fxied\n",
     f"6:11: error: workload.router: unknown value 'fxied'; accepted: {POLICIES} (did you mean 'fixed'?)"),
    (REQUEST + TWO + "  router: {policy: kv_csot}\n",
     f"7:20: error: workload.router.policy: unknown value 'kv_csot'; accepted: {POLICIES} (did you mean 'kv_cost'?)"),
    (REQUEST + TWO + "  router: kv_cost\n",
     "7:11: error: workload.router: kv_cost compares prompts, and the requests do not say what is in them; accepted: generated requests with "
     "`prefix`, or a trace with hash_ids or input_tok_ids"),
    (REQUEST + TWO + "  router: {policy: random, balance_abs: 3}\n",
     "7:41: error: workload.router.balance_abs: does not apply to policy: random; accepted with policy: cache_aware"),
    (REQUEST + TWO + "  router: {policy: random, decode: random}\n",
     "7:36: error: workload.router.decode: there is no decode instance; accepted with prefill and decode instances"),
    (REQUEST + TWO + "  router: {policy: random, decider: uncached_tokens}\n",
     "7:37: error: workload.router.decider: there is no prefill instance; accepted with prefill instances"),
    (REQUEST + TWO + "  router: {policy: random, decode: link_aware}\n",
     "7:36: error: workload.router.decode: there is no decode instance; accepted with prefill and decode instances"),
    (REQUEST + PAIR.replace("decode,", "decode, kv_dtype: fp8,"),
     "6:81: error: workload.instances.1.kv_dtype: east gives KV in bf16, and west keeps fp8; no engine converts KV between two instances; "
     "accepted: the same format in both"),
    (REQUEST + PAIR.replace("prefill}", "prefill, kv_dtype: fp8}"),
     "6:53: error: workload.instances.0.kv_dtype: east gives KV in fp8, and west keeps bf16; no engine converts KV between two instances; "
     "accepted: the same format in both"),
    (REQUEST + TWO.replace("east}", "east, kv_dtype: fp9}"),
     "6:38: error: workload.instances.0.kv_dtype: unknown value 'fp9'; accepted: fp16, bf16, tf32, fp8, int8, fp4, mxfp8, nvfp4 "
     "(did you mean 'fp8'?)"),
    (REQUEST + TWO + "  kv_transfer: {first_contact: in_run}\n",
     "7:16: error: workload.kv_transfer: there is no prefill instance; accepted with prefill instances"),
    (REQUEST + PAIR + "  kv_transfer: {connector: mooncake, mode: pull, first_contact: in_run}\n",
     "7:65: error: workload.kv_transfer.first_contact: in_run has no effect: this connector has no metadata_us or prepare_us; accepted with "
     "a connector that has, such as nixl"),
    (REQUEST + PAIR + "  router: link_aware\n",
     "7:11: error: workload.router: link_aware compares the ways of KV from the instance with the prompt; accepted as router.decode"),
    (REQUEST + PAIR + "  router: {policy: random, decode: link_aware, decider: uncached_tokens}\n",
     "7:36: error: workload.router.decode: link_aware needs the instance with the prompt, and a decider chooses the decode instance first; "
     "accepted with decider: none"),
    (REQUEST + PAIR + "  router: {policy: random, decider: isl_bounding}\n",
     "7:37: error: workload.router.decider: isl_bounding compares prompts, and the requests do not say what is in them; accepted: "
     "uncached_tokens, generated requests with `prefix`, or a trace with hash_ids or input_tok_ids"),
    (REQUEST + PAIR + "  router: {policy: random, decider: prefill_load}\n",
     "7:37: error: workload.router.decider: nothing says when an instance is busy; accepted with queue_threshold"),
    (REQUEST + PAIR + "  router: {policy: random, decider: uncached_tokens, decider_ratio: 0.5}\n",
     "7:69: error: workload.router.decider_ratio: does not apply to decider: uncached_tokens; accepted with decider: isl_bounding, isl_or_load"),
    (REQUEST + PAIR + "  router: {policy: random, decider: uncahced_tokens}\n",
     "7:37: error: workload.router.decider: unknown value 'uncahced_tokens'; accepted: none, isl_bounding, prefill_load, isl_or_load, "
     "uncached_tokens (did you mean 'uncached_tokens'?)"),
    (REQUEST + TWO + "  router: {policy: random, queue_threshold: 0}\n",
     "7:45: error: workload.router.queue_threshold: '0' is out of range; accepted: 1e-06 to 1000000"),
    (REQUEST + "  scheduler: {receive_interval: 10}\n",
     "6:33: error: workload.scheduler.receive_interval: only SGLang's scheduler has it; accepted with reserve: expected_output"),
    (REQUEST + TWO + "  router: {policy: sticky}\n", "7:20: error: workload.router.policy: sticky needs saturation_tokens: prompt tokens in flight, "
     "for example 286720"),
    (REQUEST + TWO + "  router: {policy: random, queue_order: lcfs}\n",
     "7:41: error: workload.router.queue_order: no request waits; accepted with queue_threshold"),
    ("  requests: {list: [{prompt_tokens: 9, output_tokens: 4, instance: west}]}\n" + TWO + "  router: random\n",
     "7:11: error: workload.router: random chooses by itself, and requests name instances; accepted: fixed, or requests without `instance` and "
     "`decode_instance`"),
    (REQUEST + "  instances: [{name: a, count: 4, gpus: [0, 1, 2]}]\n",
     "6:41: error: workload.instances.0.gpus: lists 3 GPUs, which are not as many for each of the 4 instances"),
    (REQUEST + "  instances: [{name: a, count: 2, gpus: [0, 1]}, {name: b, gpus: [1]}]\n",
     "6:50: error: workload.instances.1.gpus: GPU 1 of group gpus is in two instances; accepted: GPUs that no other instance has"),
    (REQUEST + "  instances: [{name: a, count: 3, tp: 4}]\n",
     "6:15: error: workload.instances.0: no 4 free GPUs side by side in group gpus for instance a2; 0 of 8 are free; accepted: more servers "
     "(machine.groups.gpus.servers), or fewer instances"),
    (REQUEST + "  instances: [{name: a1}, {name: a, count: 2}]\n",
     "6:34: error: workload.instances.1.name: 'a1' is the name of another instance; accepted: a name of its own"),
    (REQUEST + "  instances: [{name: a}, {name: b, role: decode, gpus: [1]}]\n",
     "6:14: error: workload.instances: 1 colocated, 0 prefill, 1 decode; accepted: at least one decode or colocated instance beside those that "
     "prefill, and at least one prefill instance beside those that decode"),
    (REQUEST + "  engine_reserved_bytes: 100000000000\n",
     "4:3: error: workload: a rank of stage 0 on L40S has no memory for KV cache: 57.37 GB are missing for two blocks, with 0.22 GB of "
     "weights, 0.08 GB of activations and 100.00 GB reserved in 42.93 GB; set a larger tp or pp, or a smaller max_batched_tokens"),
])
def test_a_bad_value_is_refused_at_its_place(text, line, tmp_path):
    assert refusal(tmp_path, text) == f"s.yaml:{line}"


def test_a_request_of_a_trace_that_never_fits_is_refused_at_its_line(tmp_path):
    lines = ['{"input_toks": 500, "output_toks": %d, "arrival_time_ns": %d}' % row for row in [(12, 0), (13, 7), (5, 9)]]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    line = refusal(tmp_path, "  kv_blocks: 33\n  requests: {format: llmservingsim, file: t.jsonl}\n")
    assert line == f"t.jsonl:2:1: error: workload.requests: a request of 513 tokens, prompt and answer, needs 33 KV blocks; {POOL}"


def test_a_priority_of_a_trace_needs_its_policy(tmp_path):
    lines = ['{"input_toks": 64, "output_toks": 4, "arrival_time_ns": 0%s}' % more for more in (', "priority": 2', "", ', "priority": 1')]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    trace = "  requests: {format: llmservingsim, file: t.jsonl}\n"
    assert refusal(tmp_path, trace) == "t.jsonl:1:72: error: priority: does not apply to policy: fcfs; accepted with policy: priority"
    (tmp_path / "s.yaml").write_text(HEAD + trace + "  scheduler: {policy: priority, max_seqs: 1}\n  engine: none\n")
    succeed("plx_box", tmp_path / "s.yaml", "--out", tmp_path / "out", "--quiet")
    assert [row["request id"] for row in sorted(rows(tmp_path / "out" / "requests.csv"), key=lambda row: int(row["end_time"]))] == ["1", "2", "0"]


def test_a_request_is_at_most_as_long_as_the_context_of_the_model(tmp_path):
    scenario = tmp_path / "s.yaml"
    config = json.loads((ROOT / "tests/models/tiny.json").read_text())
    for context, most in [({"max_position_embeddings": 600}, 600), ({"max_position_embeddings": 600, "seq_length": 519}, 519),
                          ({"max_position_embeddings": 9999, "rope_scaling": {"rope_type": "yarn", "factor": 4,
                                                                             "original_max_position_embeddings": 130}}, 520),
                          ({"max_position_embeddings": 300, "rope_scaling": {"type": "linear", "factor": 2}}, 600),
                          ({"max_position_embeddings": 300, "rope_scaling": {"rope_type": "llama3", "factor": 8}}, 300)]:
        (tmp_path / "m.json").write_text(json.dumps(config | context))
        scenario.write_text((HEAD + REQUEST).replace(f"{ROOT}/tests/models/tiny.json", "m.json"))
        result = run("plx_box", scenario, "--explain")
        if most >= 520:
            assert result.returncode == 0, result.stderr
        else:
            assert result.stderr.endswith(f"s.yaml:5:29: error: workload.requests: a request of 520 tokens, prompt and answer, is longer than "
                                          f"max_model_len, {most} by the model's config.json; accepted: up to {most}\n")
        scenario.write_text(scenario.read_text() + f"  scheduler: {{max_model_len: {most + 1}}}\n")
        assert f"scheduler.max_model_len: {most + 1} is more than the context of the model's config; accepted: up to {most}" in run("plx_box", scenario).stderr


def test_a_model_without_a_context_has_no_limit_in_explain(tmp_path):
    scenario = tmp_path / "s.yaml"
    for keys, shown in (("", "null"), ("  scheduler: {max_model_len: 600}\n", "600")):
        scenario.write_text(HEAD + REQUEST + keys)
        assert re.findall(r'"max_model_len": (\w+)', run("plx_box", scenario, "--explain", "--json").stdout) == [shown]


def test_a_drawn_request_beyond_the_context_is_refused_when_it_arrives(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD + "  scheduler: {max_model_len: 512}\n  requests: {count: 50, prompt_tokens: {lognormal: {mean: 400, cv_ratio: 1}}, output_tokens: 8}\n")
    succeed("plx_box", scenario, "--out", tmp_path / "out", "--quiet")
    metrics = summary(tmp_path / "out")["metrics"]
    assert metrics["refused"] > 0 and metrics["requests"] > 0 and metrics["refused"] + metrics["requests"] == 50
    assert max(int(row["input"]) + 8 for row in rows(tmp_path / "out" / "requests.csv")) <= 512


def test_stages_take_the_remainder_of_layers_by_the_engines_rule(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD + REQUEST + "  instances: [{name: a, pp: 4}]\n")  # six layers
    for engine, layers in [("vllm-0.19", [1, 2, 2, 1]), ("sglang-0.5", [1, 1, 2, 2]), ("trtllm-1.0", [2, 2, 1, 1])]:
        text = succeed("plx_box", scenario, "--explain", "--set", f"workload.engine={engine}").stdout
        assert [int(n) for n in re.findall(r"stage \d, (\d+) layers", text)] == layers


def test_a_request_may_fill_the_pool(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD + REQUEST + "  kv_blocks: 34\n")
    succeed("plx_box", scenario, "--out", tmp_path / "out", "--quiet")
    assert summary(tmp_path / "out")["metrics"]["kv_blocks"] == {"total": 34, "peak": 33}


def test_a_drawn_request_that_never_fits_is_refused_when_it_arrives(tmp_path):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(HEAD + "  kv_blocks: 33\n  requests: {count: 50, prompt_tokens: {lognormal: {mean: 400, cv_ratio: 1}}, output_tokens: 8}\n")
    succeed("plx_box", scenario, "--out", tmp_path / "out", "--quiet")
    whole = summary(tmp_path / "out")
    metrics = whole["metrics"]
    assert whole["complete"] is False
    assert metrics["refused"] > 0 and metrics["requests"] > 0 and metrics["refused"] + metrics["requests"] == 50
    served = rows(tmp_path / "out" / "requests.csv")
    assert len(served) == metrics["requests"]
    assert max(int(row["input"]) + int(row["output"]) for row in served) <= 32 * 16
