"""Rows of real vLLM servers on the traces of LLMServingSim as scenarios of `workload.kind: serving`.

Traces, kernel profiles and settings come from a clone of casys-kaist/LLMServingSim; without one the rows are skipped.

Rules, by column:
  source            "casys-kaist/LLMServingSim FOLDER": FOLDER/vllm/meta.json names trace, limits of the scheduler and, if known, KV blocks
  system, model, precision   times of kernels from profiler/perf, if the clone has them for this GPU; otherwise from the datasheet
  metric            TTFT, TPOT or Latency, with Mean, Median or a percentile. The engine is timed in its own process: no host
"""

import json
import pathlib
import re

from .experiment import Experiment
from .rows import SECONDS, Row, Unmapped
from .served_models import dtype_of
from .serving_engines import DTYPES, serve

SOURCE = "casys-kaist/LLMServingSim "
METRIC = re.compile(r"(TTFT|TPOT|Latency) (Mean|Median|P(?:90|95|99))")
NAMES = {"TTFT": "ttft", "TPOT": "tpot", "Latency": "e2e"}
RANKS = {"Mean": "", "Median": "_p50", "P90": "_p90", "P95": "_p95", "P99": "_p99"}


def map_row(row: Row, clone: pathlib.Path | None) -> Experiment:
    """@throws Unmapped with the reason"""
    metric = METRIC.fullmatch(row["metric"])
    if not metric:
        raise Unmapped(f"metric '{row['metric']}' is none of TTFT, TPOT, Latency")
    if clone is None:
        raise Unmapped("needs a clone of casys-kaist/LLMServingSim: --llmservingsim DIR")
    folder = clone / row["source"].removeprefix(SOURCE)
    try:
        run = json.loads((folder / "vllm" / "meta.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise Unmapped(f"the clone of casys-kaist/LLMServingSim has no {folder.relative_to(clone)}/vllm/meta.json") from error
    served = serve(row, row["framework"], run["vllm_version"])
    settings = run["engine_kwargs"]
    scheduler = {"max_batched_tokens": settings["max_num_batched_tokens"], "max_seqs": settings["max_num_seqs"]}
    requests = {"format": "llmservingsim", "file": str(clone / run["dataset_path"])}
    blocks = {"kv_blocks": run["kv_cache"]["num_gpu_blocks"], "engine_reserved_bytes": 0} if "kv_cache" in run else {}
    scenario = served.with_requests(requests, scheduler=scheduler, host="none", **blocks)
    profile = clone / "profiler" / "perf" / folder.parent.name / run["model"] / dtype_of(row, DTYPES)
    if profile.is_dir():
        scenario["compute"] = {"profile": str(profile)}
    name = f"{NAMES[metric[1]]}{RANKS[metric[2]]}_s"
    return Experiment(f"trace {metric[1]}" + (", profile" if profile.is_dir() else ""), served.platform, scenario, None,
                      lambda result: result.summary["metrics"][name], row.scale(SECONDS), size_class=f"TP{served.tp}")
