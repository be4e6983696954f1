"""A small run of a serving engine under load, for tests from outside."""

from platform_runs import ROOT

SERVING = """\
model: {{config: {root}/tests/models/tiny.json}}
machine: {{groups: {{gpus: {{servers: 1}}}}}}
workload:
  kind: serving
  kv_blocks: {blocks}
  host: {host}
  scheduler: {{preset: {preset}, max_batched_tokens: 384, max_seqs: 16}}
  instances: [{{name: a, tp: {tp}, pp: {pp}}}]
  requests: {{count: 40, arrivals: poisson, rate_per_s: 4000, prompt_tokens: {{lognormal: {{mean: 400, cv_ratio: 0.8}}}},
    output_tokens: {{lognormal: {{mean: 20, cv_ratio: 0.8}}}}}}
"""
SYNC = "{preset: none, async: false, step_us: 50, request_us: 100, token_us: 7}"
ASYNC = "{preset: none, async: true, step_us: 300, sequence_us: 5}"
SHAPES = [{}, {"tp": 2, "host": SYNC}, {"pp": 3, "host": ASYNC}, {"tp": 2, "pp": 2, "host": ASYNC, "preset": "sglang"},
          {"pp": 2, "preset": "trtllm"}]


def serving(tp=1, pp=1, host="{preset: none}", preset="vllm", blocks=200):
    return SERVING.format(root=ROOT, tp=tp, pp=pp, host=host, preset=preset, blocks=blocks)
