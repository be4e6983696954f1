"""Rows of vLLM under load (inference-perf, shared prefixes) as scenarios of `workload.kind: serving`.

Rules, by column:
  prefix_groups, users_per_group   inference-perf makes one prompt for each user and sends it again and again
                       (datagen/shared_prefix_datagen.py), so all but a user's first request find the whole prompt in the cache. A
                       user's next request waits for the answer to the last one
  shared_prefix_tokens, question_tokens   together the prompt
  output_tokens        of all requests
  rate_per_s           of the row's stage, or of all stages one after the other; Poisson arrivals (inference-perf draws exponential
                       intervals). A stage is cut to 120 s, but not so short that the first requests of users, which meet
                       cold caches, count more than in the whole stage by over 1 % of its requests
  max_num_batched_tokens, max_num_seqs, kv_blocks        of the scheduler and its memory
  metric               E2E, TTFT: of a request, at the client. ITL: of a gap between two tokens
"""

import ast
import math
import re

from .experiment import Experiment, table_of
from .figures import percentile
from .rows import SECONDS, Row, Unmapped
from .served_models import number
from .serving_engines import serve

SHORTEST_STAGE_S = 120
USUAL_STAGE_S = 600  # of the source's runs, for tables without duration_s
COLD_RATIO = 0.01
# Of inference-perf, from sending a request to the API server: with the server's own time, 6.2 ms of TTFT at low load
CLIENT_US = 4700
METRIC = re.compile(r"(E2E|TTFT|ITL) (Mean|P(\d+))")


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    metric = METRIC.fullmatch(row["metric"])
    if not metric:
        raise Unmapped(f"metric '{row['metric']}' is none of E2E, TTFT, ITL")
    if row.flag("cpu_kv_offload"):
        raise Unmapped("KV cache in host memory is not modelled")
    name, _, version = row["framework"].partition(" ")
    served = serve(row, name, version)
    rates = rates_of(row)
    prompt = number(row, "shared_prefix_tokens") + number(row, "question_tokens")
    users = number(row, "prefix_groups") * number(row, "users_per_group")
    durations = stages_of(row, rates, users)
    requests = {
        "arrivals": "poisson", "stages": [{"rate_per_s": rate, "duration_s": duration} for rate, duration in zip(rates, durations)],
        "prompt_tokens": prompt, "output_tokens": number(row, "output_tokens"),
        "prefix": {"groups": users, "users_per_group": 1, "shared_tokens": prompt},
    }
    scheduler = {"max_batched_tokens": number(row, "max_num_batched_tokens"), "max_seqs": number(row, "max_num_seqs"),
                 "block_tokens": number(row, "block_tokens")}
    scenario = served.with_requests(requests, client_us=CLIENT_US, scheduler=scheduler, kv_blocks=number(row, "kv_blocks"),
                                    engine_reserved_bytes=0)  # the count is known, so memory is not modelled
    rank = int(metric[3]) / 100 if metric[3] else None
    return Experiment(f"under load {metric[1]} {metric[2].lower()}", served.platform, scenario, None,
                      lambda result: value(table_of(result, "requests.csv"), metric[1], rank), row.scale(SECONDS),
                      cost=sum(rate * duration for rate, duration in zip(rates, durations)) * served.tp, size_class=f"TP{served.tp}")


def stages_of(row: Row, rates: list[float], users: int) -> list[float]:
    """Seconds of each stage. Users come one after the other at first, so the first stage has most of the cold requests."""
    whole = (row.integer("duration_s") or USUAL_STAGE_S * len(rates)) / len(rates)
    return [min(whole, max(SHORTEST_STAGE_S, math.ceil(1 / (COLD_RATIO * rate / users + 1 / whole)))) for rate in rates]


def rates_of(row: Row) -> list[float]:
    """Arrivals per second of each stage: "5.0+10.0" is two."""
    try:
        return [float(rate) for rate in row["rate_per_s"].split("+")]
    except ValueError:
        raise Unmapped(f"rate_per_s '{row['rate_per_s']}' is no list of numbers") from None


def spread(mean: int, ratio: float) -> dict:
    """A distribution of lengths with this mean."""
    most = round(mean * ratio)
    return {"uniform": {"min": mean - most, "max": mean + most}}


def value(requests: list[dict], quantity: str, rank: float | None) -> float:
    """Seconds; the mean if `rank` is None."""
    if quantity == "ITL":
        values = [gap for request in requests for gap in ast.literal_eval(request["ITL"])]
    else:
        values = [int(request["latency" if quantity == "E2E" else quantity]) for request in requests if quantity != "TPOT" or request["output"] != "1"]
        if not values:
            raise Unmapped(f"no request has a {quantity}")
    return 1e-9 * (sum(values) / len(values) if rank is None else percentile(values, rank))
