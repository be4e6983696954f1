"""Class `servers`: whole servers at low concurrency, with and without the host's time. TTFT and TPOT apart.

Rules, by column:
  model, precision  a configuration under scenarios/models; KV in bf16
  system            a board with NVSwitches where the GPU has them, else a PCIe box. Each group has as many GPUs as ranks need
  tp                ranks of each group; "8+8" is a prefill and a decode server, as are prefill_tp and decode_tp of `mode` disagg
  framework         the shipped sheet of the engine and version (serving_engines.py): its host, collectives and attention. TensorRT-LLM's
                    own pages run the engine in the benchmark's process; all others have a client, whose time is that of the rows under
                    load (load_rows.py), which alone tell it from the server's
  concurrency       requests that are open at a time
  metric TTFT       one prompt of input_len tokens, in chunks of at most 8192 tokens (vLLM's and TensorRT-LLM's budget), or 2048
                    where the framework says a smaller one. An aggregated server has no handoff: it leaves at the end, behind the
                    first token
  metric TPOT       `concurrency` requests, each in the middle of its answer: input_len + output_len / 2 tokens of context. The median
                    gap between tokens while all decode together. In an aggregated server each of the others' prompts holds the
                    batch up once in a request's time: their prefill / (output_len - 1) comes on top
"""

import ast
import re
import statistics
import types

from . import host_share, load_rows, systems
from .experiment import Experiment, table_of
from .rows import SECONDS, Row, Unmapped
from .served_models import check_parallel, model_of, number
from .serving_engines import engine_of, sheet_of, version_of

TITLE = "Whole servers at low concurrency: TTFT and TPOT"
TABLES = ("servers.csv",)
PRECISIONS = {"bf16": "bf16", "bf16?": "bf16", "fp16": "fp16", "fp8": "fp8"}
CHUNK_TOKENS = 8192
DECODED_ALONE = 8
MOST_CONCURRENT = 16
MOST_CONTEXT = 32768


def groups_text(row: Row) -> str:
    """The column tp, or "8+8" of a table that has a column for each of two servers. @throws Unmapped for more than two"""
    if row["mode"] != "disagg":
        return row["tp"].strip()
    if (number(row, "prefill_workers", 1), number(row, "decode_workers", 1)) != (1, 1):
        raise Unmapped("more than one server of a role")
    return f"{number(row, 'prefill_tp', 1)}+{number(row, 'decode_tp', 1)}"


def ranks_of(row: Row) -> int:
    """GPUs of each group: "8+8" is two groups."""
    both = re.fullmatch(r"(\d+)\+(\d+)", groups_text(row))
    if both:
        if both[1] != both[2]:
            raise Unmapped(f"tp '{groups_text(row)}': groups of two sizes")
        return int(both[1])
    return number(row, "tp", 1)


IN_PROCESS = r"TensorRT-LLM 0\."  # its own performance pages: no API server, no client


def map_row(row: Row, has_host: bool) -> Experiment:
    """@throws Unmapped with the reason"""
    if row["category"] != "5-inference":
        raise Unmapped(f"belongs to another class: category '{row['category']}'")
    metric = next((name for name in ("TTFT", "TPOT") if row["metric"].startswith(name)), None)
    if metric is None:
        raise Unmapped(f"metric '{row['metric']}' is neither TTFT nor TPOT")
    model = model_of(row, PRECISIONS)
    check_parallel(row)
    gpu = systems.gpu_of(row)
    platform = systems.platform_of(row, gpu)
    tp, concurrent = ranks_of(row), number(row, "concurrency", 1)
    if concurrent > MOST_CONCURRENT:
        raise Unmapped(f"concurrency {concurrent}: what requests wait for is the scheduler's")
    prompt, answer = number(row, "isl" if row["isl"] else "input_len"), number(row, "osl" if row["osl"] else "output_len", 1)
    if metric == "TTFT" and concurrent > 1 and prompt * (concurrent - 1) > answer:
        raise Unmapped(f"TTFT at concurrency {concurrent}: prompts wait for each other")
    if metric == "TPOT" and answer < 2:
        raise Unmapped("TPOT of one token")
    tokens = prompt if metric == "TTFT" else prompt + answer // 2
    if tokens > MOST_CONTEXT:
        raise Unmapped(f"{tokens} tokens of context")
    requests = {"count": 1 if metric == "TTFT" else concurrent, "prompt_tokens": tokens}
    framework = row["framework"] or row["backend"]
    engine = (re.match(r"[A-Za-z-]+", framework) or [framework])[0]
    sheet = sheet_of(engine_of(engine), row["backend_version"] or version_of(framework))
    in_process = re.match(IN_PROCESS, framework) is not None
    client_s = load_rows.CLIENT_US * 1e-6 if has_host and not in_process else 0
    host = {} if has_host and not in_process else {"host": {"request_us": 0} if has_host else "none"}
    group = {"servers": 1, "gpu": gpu.name}
    steps = 0 if metric == "TTFT" else decoded(concurrent, tokens)
    scenario = {
        "model": model | {"kv_dtype": "bf16"},
        "machine": {"groups": {"prefill": group, "decode": group}},
        "workload": {"kind": "disaggregated_prefill", "requests": requests, "chunk_tokens": CHUNK_TOKENS, "handoff": "at_end",
                     "memory_limit_ratio": 1.0, "engine": sheet, **host,
                     "prefill": {"tp": tp, "pp": 1}, "decode": {"steps": steps, "max_batch": concurrent}},
    }
    aggregated = "+" not in groups_text(row)
    read = (lambda result: ttft(result, client_s)) if metric == "TTFT" else lambda result: tpot(result, concurrent if aggregated else 1, answer)
    host_s = (lambda result: host_of(result, client_s)) if metric == "TTFT" else lambda result: None
    return Experiment(f"{metric} {engine}", platform, scenario, None, read, row.scale(SECONDS), tokens * requests["count"],
                      size_class=f"TP{tp}", host_s=host_s, client_s=client_s)


def decoded(concurrent: int, tokens: int) -> int:
    """Steps of each request: enough that the last request joins before the first request is done."""
    return DECODED_ALONE if concurrent == 1 else 64 + concurrent * tokens // 256


def ttft(result, client_s: float) -> float:
    return result.summary["metrics"]["ttft_s"] + client_s


def host_of(result, client_s: float) -> float:
    """Host time in the TTFT of the only request: client, API server, and what the GPUs wait for the engine's steps and launches."""
    [request] = table_of(result, "requests.csv")
    queued = 1e-9 * (int(request["queued_ns"]) - int(request["arrival"]))
    return client_s + queued + result.summary["metrics"]["exposed_s"]["host"]


def tpot(result, concurrent: int, answer: int) -> float:
    """Seconds from token to token while all requests decode together, and the share of the others' prompts."""
    requests = table_of(result, "requests.csv")
    joined = max(int(row["decode_begin_ns"]) for row in requests)
    left = min(int(row["end_time"]) for row in requests)
    gaps, last = [], max(requests, key=lambda row: int(row["decode_begin_ns"]))
    at = int(last["first_token_ns"])
    for gap in ast.literal_eval(last["ITL"])[1:]:  # the first holds the handoff and the wait for a step
        at += gap
        if joined < at <= left:
            gaps.append(gap)
    if not gaps:
        raise Unmapped("no step with all requests")
    prefill = result.summary["metrics"]["prefill_window_s"] / len(requests)
    return statistics.median(gaps) * 1e-9 + (concurrent - 1) * prefill / (answer - 1)


def point_name(row: Row, experiment: Experiment) -> str:
    """The name of the run for such rows."""
    workload = experiment.scenario["workload"]
    return (f"{experiment.operation}-{row['model']}-{row['precision']}-{row['system']}-tp{workload['prefill']['tp']}-"
            f"{workload['requests']['prompt_tokens']}x{workload['requests']['count']}").replace(" ", "_")


def with_host(has_host: bool, title: str) -> types.SimpleNamespace:
    """The class, with the engines' hosts or without."""
    return types.SimpleNamespace(TITLE=title, TABLES=TABLES, targets=host_share.lines, map_row=lambda row: map_row(row, has_host), point_name=point_name)
