"""Rows of servers in a closed loop (aiconfigurator's measurements) as scenarios of `workload.kind: serving`.

Rules, by column:
  mode              aggregated servers only
  attn_dp, moe_ep   attention replicas (dp) with tp 1; experts dealt whole to all ranks (ep). Both kinds of division at once: not mapped
  isl, osl          lengths of all requests
  concurrency       of the closed loop: all start at once, and a new request follows each answer. Ten requests were sent for each
                    place (eval/benchmarks/genai_perf_runner.py of the source @b642c1e2), of which the first meets all others in the
                    queue. The run has four for each place: one in the first wave counts a tenth, two in the steady state the rest, the
                    last sees others leave
  backend           engine. TensorRT-LLM has the limits that the source writes for it (generator/backends/trtllm.py): as many requests
                    as places, prompts whole, and a budget of one request for each place, one prompt and 1500 tokens. Answers are
                    equally likely to be up to a fifth shorter or longer: requests that are quite equal stay in step for ever in a
                    model without noise, although the API server takes them one by one. SGLang's rows stay in step: whoever arrives
                    during a prefill joins it, and all decode together. Spread, their TTFT would be a fifth of what was measured. Times
                    of clients part no loop (docs/validation.md)
  metric TTFT, TPOT means over requests
"""

from .experiment import Experiment, table_of
from .load_rows import spread
from .rows import SECONDS, Row, Unmapped
from .served_models import has_latent_attention, instance_of, number
from .serving_engines import serve

WAVES = 4
FIRST_WAVE_SHARE = 0.1
SPREAD = 0.2
# Of the load generator (genai-perf), before the API server has a request: with the server's own time, what TTFT misses
CLIENT_US = {"vllm": 40000, "sglang": 40000, "trtllm": 103500}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["metric"] not in ("TTFT", "TPOT"):
        raise Unmapped(f"metric '{row['metric']}' is neither TTFT nor TPOT")
    if row["mode"] != "agg":
        raise Unmapped(f"mode '{row['mode']}': disaggregated servers are not of this class")
    served = serve(row, row["backend"], row["backend_version"], instance_of(row))
    concurrency, prompt, answer = number(row, "concurrency"), number(row, "isl"), number(row, "osl")
    requests = {"count": WAVES * concurrency, "arrivals": "closed_loop", "concurrency": concurrency, "prompt_tokens": prompt,
                "output_tokens": answer if served.engine == "sglang" else spread(answer, SPREAD)}
    options = {}
    if served.engine == "trtllm":
        options["scheduler"] = {"max_seqs": concurrency, "max_batched_tokens": concurrency + prompt + 1500, "chunked_prefill": False}
    guessed = " bf16?" if row["precision"] == "bf16?" else ""
    attention = " latent attention" if has_latent_attention(served.scenario["model"]["config"]) else ""
    scenario = served.with_requests(requests, client_us=CLIENT_US[served.engine], **options)
    return Experiment(f"closed loop {row['metric']} {row['backend']}{attention}{guessed}", served.platform, scenario, None,
                      lambda result: value(table_of(result, "requests.csv"), row["metric"], concurrency), row.scale(SECONDS),
                      cost=WAVES * answer * served.gpus, size_class=f"TP{served.gpus}")


def value(requests: list[dict], metric: str, concurrency: int) -> float:
    """Seconds: the mean of the first wave and of the steady state, by their shares."""
    values = [int(request[metric]) for request in sorted(requests, key=lambda request: int(request["arrival"]))]
    first, steady = values[:concurrency], values[concurrency:-concurrency]
    return 1e-9 * (FIRST_WAVE_SHARE * sum(first) / len(first) + (1 - FIRST_WAVE_SHARE) * sum(steady) / len(steady))
