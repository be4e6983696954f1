"""A small run of a serving engine under load, for tests from outside."""

from platform_runs import ROOT

SERVING = """\
model: {{config: {root}/tests/models/tiny.json}}
machine: {{groups: {{gpus: {{servers: 1}}}}}}
workload:
  kind: serving
  kv_blocks: {blocks}
  engine: {engine}
  host: {host}
  scheduler: {{max_batched_tokens: 384, max_seqs: 16}}
  instances: [{{name: a, tp: {tp}, pp: {pp}}}]
  requests: {{count: 40, arrivals: poisson, rate_per_s: 4000, prompt_tokens: {{lognormal: {{mean: 400, cv_ratio: 0.8}}}},
    output_tokens: {{lognormal: {{mean: 20, cv_ratio: 0.8}}}}}}
"""
SYNC = "{async: false, step_us: 50, sequence_us: 0, layer_us: 0, eager_layer_us: 0, request_us: 100, token_us: 7}"
ASYNC = "{async: true, step_us: 300, sequence_us: 5, layer_us: 0, eager_layer_us: 0, request_us: 0, token_us: 0}"
SHAPES = [{}, {"tp": 2, "host": SYNC}, {"pp": 3, "host": ASYNC}, {"tp": 2, "pp": 2, "host": ASYNC, "engine": "sglang-0.5"},
          {"pp": 2, "engine": "trtllm-1.0"}]


def serving(tp=1, pp=1, host="none", engine="vllm-0.19", blocks=200):
    return SERVING.format(root=ROOT, tp=tp, pp=pp, host=host, engine=engine, blocks=blocks)
