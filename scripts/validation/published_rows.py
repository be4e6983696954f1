"""Published rows of inference engines as scenarios of `workload.kind: serving`.

Rules, by column:
  framework gpt-fast           one sequence, compiled, in a CUDA graph, without a host; 200 tokens after a short prompt, its default
  framework ... max throughput TensorRT-LLM offline: as many requests as its performance pages name, all at once, no API server
  framework TRT-LLM, batch     one batch of equal requests, all at once, no API server
  other frameworks and metrics by the columns (engine_rows.py)
  metric                       decode tokens/s: the inverse of TPOT. Throughputs: output tokens of the whole run; per GPU, over its GPUs
"""

import re

from . import engine_rows
from .experiment import Experiment
from .rows import Row, Unmapped
from .served_models import number
from .serving_engines import serve

PER_SECOND = {"tok/s": 1.0, "tokens/s": 1.0, "tok/s/GPU": 1.0}
# Tokens of prompt and answer -> requests (TensorRT-LLM v1.0, docs/source/developer-guide/perf-overview.md)
OFFLINE_REQUESTS = ((256, 30000), (2500, 3000), (5500, 1500), (22000, 1000))
USUAL_PROMPT, USUAL_ANSWER = 6, 200  # of gpt-fast
OFFLINE_HOST = {"request_us": 0}  # all requests are there before the first step


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["framework"] == "gpt-fast":
        return decode_speed(row)
    if not row["framework"]:
        raise Unmapped("names no engine")
    if not re.match(r"TRT-LLM|TensorRT-LLM", row["framework"]) or row["metric"] not in ("output throughput", "tokens/s", "throughput per GPU"):
        return engine_rows.map_row(row)
    served = serve(row, row["framework"], "")
    prompt, answer = number(row, "input_len"), number(row, "output_len")
    offline = "max throughput" in row["framework"]
    count = offline_requests(prompt + answer) if offline else number(row, "batch")
    requests = {"count": count, "prompt_tokens": prompt, "output_tokens": answer}
    ranks = served.tp * number(row, "pp", 1) if row["metric"].endswith("per GPU") else 1
    name = "max throughput" if offline else "batch throughput"
    return Experiment(name, served.platform, served.with_requests(requests, host=OFFLINE_HOST, stream=False), None,
                      lambda result: result.summary["metrics"]["output_tokens_per_s"] / ranks, row.scale(PER_SECOND),
                      cost=count * answer, size_class=f"TP{served.tp}")


def decode_speed(row: Row) -> Experiment:
    served = serve(row, "vllm", "")  # one sequence: all schedulers are the same
    requests = {"count": 1, "prompt_tokens": number(row, "input_len", USUAL_PROMPT), "output_tokens": number(row, "output_len", USUAL_ANSWER)}
    return Experiment("decode gpt-fast", served.platform, served.with_requests(requests, host="none"), None,
                      lambda result: 1 / result.summary["metrics"]["tpot_s"], row.scale(PER_SECOND), size_class=f"TP{served.tp}")


def offline_requests(tokens: int) -> int:
    """@throws Unmapped for longer requests than the pages have"""
    count = next((count for most, count in OFFLINE_REQUESTS if tokens <= most), None)
    if count is None:
        raise Unmapped(f"{tokens} tokens of prompt and answer: the performance pages have up to {OFFLINE_REQUESTS[-1][0]}")
    return count
