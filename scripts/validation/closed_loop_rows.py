"""Rows of servers in a closed loop (aiconfigurator's measurements) as scenarios of `workload.kind: serving`.

Rules, by column:
  mode              aggregated servers, or instances that prefill and that decode, with the numbers and the tp and ep of both. The tp
                    is that of attention: with tp 1, ep ranks are attention replicas that share the experts (dep8 in the names of
                    InferenceX's files); with tp = ep, whole experts are dealt to the ranks of tensor parallelism (tep8); other
                    values of ep are not mapped. Whether drafts were used is not printed; these rows are run without
  attn_dp, moe_ep   attention replicas (dp) of tp ranks; experts dealt whole to all ranks (ep = tp x dp). Experts that are cut and dealt,
                    too: not mapped, but for InferenceX's rows with equal moe_tp and moe_ep, which print one number (served_models.py)
  concurrency       of the closed loop: all start at once, and a new request follows each answer. Ten requests were sent for each
                    place, of which the first meets all others in the queue. The run has four for each place: one in the first wave
                    counts a tenth, two in the steady state the rest, the last sees others leave
  source            who sent the requests, and how the server was started:
                    InferenceX (SemiAnalysisAI/InferenceX @843c6254: benchmarks/benchmark_lib.sh, single_node/fixed_seq_len/*.sh, of
                    Llama-3.1-70B @2582bce4): prompts and answers are equally likely to have 80 to 100 % of isl and osl, for every
                    engine. SGLang has chunks of 32768 tokens, and on B200 looks for requests once in 10 steps, from 16 places on in 30.
                    TensorRT-LLM has whole prompts and at least 8192 tokens in a batch, vLLM 8192 tokens. The KV cache is in fp8, but
                    not that of SGLang on H200. vLLM's host of that time is the sheet's, although the scripts ask for asynchronous
                    scheduling: with a host that is hidden as since v0.14, TPOT is 24 % too short
                    other rows were sent by aiconfigurator's own client (eval/benchmarks/genai_perf_runner.py @b642c1e2): all
                    prompts have isl tokens, and the server is asked for osl. Newer servers stood behind Dynamo, which reads
                    ignore_eos under another name (bench_run.sh.j2 @095f58a5), so the lengths of their answers are not known. Rows
                    of vLLM and TensorRT-LLM do not stay in step, as equal requests would: their answers are spread by a fifth.
                    Rows of SGLang do. TensorRT-LLM has the limits that the source writes for it (generator/backends/trtllm.py):
                    as many requests as places, prompts whole, and a budget of one request for each place, one prompt and 1500
                    tokens
  metric TTFT, TPOT means over requests
"""

import re
from dataclasses import dataclass

from . import load_rows, systems
from .experiment import Experiment, table_of
from .rows import SECONDS, Row, Unmapped
from .served_models import INFERENCEX, has_latent_attention, instance_of, number, with_its_ranks
from .serving_engines import Served, serve, serve_apart

WAVES = 4
FIRST_WAVE_SHARE = 0.1
SPREAD = 0.2
HELD_BACK = "TensorRT-LLM that waits up to 40 steps for more prompts (batch_wait_timeout_iters) is not modelled"
SHORTEST = 0.8  # of InferenceX, of isl and osl
# Of the load generator (genai-perf), before the API server has a request: with the server's own time, what TTFT misses
CLIENT_US = {"vllm": 40000, "sglang": 40000, "trtllm": 103500}


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["metric"] not in ("TTFT", "TPOT"):
        raise Unmapped(f"metric '{row['metric']}' is neither TTFT nor TPOT")
    served = apart(row) if row["mode"] == "disagg" else together(with_its_ranks(row))
    concurrency, prompt, answer = number(row, "concurrency"), number(row, "isl"), number(row, "osl")
    way = of_inferencex if re.search(INFERENCEX, row["source"]) else of_aiconfigurator
    sent = way(row, served, prompt, answer, concurrency)
    requests = {"count": WAVES * concurrency, "arrivals": "closed_loop", "concurrency": concurrency, "prompt_tokens": sent.prompt,
                "output_tokens": sent.answer}
    guessed = " bf16?" if row["precision"] == "bf16?" else ""
    attention = " latent attention" if has_latent_attention(served.scenario["model"]["config"]) else ""
    scenario = served.with_requests(requests, client_us=sent.client_us, **sent.options)
    return Experiment(f"closed loop {row['metric']} {row['backend']}{attention}{guessed}", served.platform, scenario, None,
                      lambda result: value(table_of(result, "requests.csv"), row["metric"], concurrency), row.scale(SECONDS),
                      cost=WAVES * answer * served.gpus, size_class=f"TP{served.gpus}")


def together(row: Row) -> Served:
    """@throws Unmapped with the reason"""
    return serve(row, row["backend"], row["backend_version"], instance_of(row))


def apart(row: Row) -> Served:
    """@throws Unmapped with the reason"""
    roles = ("prefill", "decode")
    counts, tp = (tuple(number(row, f"{role}_{what}") for role in roles) for what in ("workers", "tp"))
    parallel = tuple(experts_apart(size, row.integer(f"{role}_ep") or 1) for role, size in zip(roles, tp))
    served = serve_apart(row, row["backend"], row["backend_version"], counts, tp, parallel=parallel)
    if has_latent_attention(served.scenario["model"]["config"]) and (1, {}) in zip(tp, parallel):
        raise Unmapped("latent attention and experts on one GPU: how the instance divides them is not printed")
    return served


def experts_apart(tp: int, ep: int) -> dict:
    """Keys of an instance beside tp. @throws Unmapped with the reason"""
    if ep == 1:
        return {}
    if tp == 1:
        return {"dp": ep, "ep": ep}
    if tp == ep:
        return {"ep": ep}
    raise Unmapped("experts dealt to another number of ranks than attention is divided by are not modelled")


@dataclass(frozen=True)
class Sent:
    """Requests of a client, and how its server was started."""

    prompt: int | dict
    answer: int | dict
    client_us: float
    options: dict  # of the workload


def of_inferencex(row: Row, served: Served, prompt: int, answer: int, concurrency: int) -> Sent:
    options = {}
    is_b200 = systems.gpu_of(row).family == "B200"
    if is_b200 and row["metric"] == "TTFT" and served.engine == "trtllm" and concurrency >= 64:
        raise Unmapped(HELD_BACK)
    if served.engine == "sglang":
        options["scheduler"] = {"max_batched_tokens": 32768}
        if is_b200:
            options["scheduler"]["receive_interval"] = 30 if concurrency >= 16 else 10
            served.scenario["model"]["kv_dtype"] = "fp8"
    elif served.engine == "trtllm":
        options["scheduler"] = {"max_batched_tokens": max(8192, -(-(concurrency + prompt + 64) // 64) * 64), "chunked_prefill": False}
    else:
        options["scheduler"] = {"max_seqs": concurrency, "max_batched_tokens": 8192}
        served.scenario["model"]["kv_dtype"] = "fp8"
    lengths = ({"uniform": {"min": int(SHORTEST * most), "max": most}} for most in (prompt, answer))
    return Sent(*lengths, load_rows.CLIENT_US, options)


def of_aiconfigurator(_row: Row, served: Served, prompt: int, answer: int, concurrency: int) -> Sent:
    options = {}
    if served.engine == "trtllm":
        options["scheduler"] = {"max_seqs": concurrency, "max_batched_tokens": concurrency + prompt + 1500, "chunked_prefill": False}
    return Sent(prompt, answer if served.engine == "sglang" else load_rows.spread(answer, SPREAD), CLIENT_US[served.engine], options)


def value(requests: list[dict], metric: str, concurrency: int) -> float:
    """Seconds: the mean of the first wave and of the steady state, by their shares."""
    values = [int(request[metric]) for request in sorted(requests, key=lambda request: int(request["arrival"]))]
    first, steady = values[:concurrency], values[concurrency:-concurrency]
    return 1e-9 * (FIRST_WAVE_SHARE * sum(first) / len(first) + (1 - FIRST_WAVE_SHARE) * sum(steady) / len(steady))
