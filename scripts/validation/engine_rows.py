"""Published rows of any serving engine as scenarios of `workload.kind: serving`.

Rules, by column; `extra` and `note` may say in words what has no column of its own:
  framework         engine and version; its sheet is that of the nearest version (serving_engines.py)
  tp, pp, n_gpus    of an instance; without tp, all GPUs that pp leaves. "4 instances" and the like: one of them with its share of the load,
                    as routers that look at nothing but load give it. "8+8", 1P1D: an instance that prefills and one that decodes, each
                    in a server of its own if the row says so, or if one server has too few GPUs
  load              concurrency: a closed loop, ten requests for each place unless their number is printed; requests a second: Poisson, for
                    120 s (at most 4000 requests) or that number; all at once, a batch of equal requests, or one request. A `batch` beside a closed loop is its
                    concurrency
  input_len, output_len   of all requests; a mean stands for all. "lengths +-15 %": equally likely from 85 to 115 % of it
  max_num_batched_tokens, max_num_seqs, max batch, max_num_tokens, chunked context or prefill, KV fp8, enforce eager   of the engine
  metric            TTFT, TPOT, ITL or E2E, its mean or a percentile; tokens or requests a second, also of a GPU
What a row names and the model lacks is the reason why the row is skipped.
"""

import re
from dataclasses import replace

from . import load_rows, systems
from .experiment import Experiment, table_of
from .rows import SECONDS, Row, Unmapped
from .served_models import number
from .serving_engines import Served, serve, version_of

WORDS = ("batch", "extra", "config", "note")  # columns with words
# The first match counts
QUANTITIES = (
    (r"TTFT|time to first token|first.token latency", "TTFT"),
    (r"TPOT|time per output token", "TPOT"),
    (r"\bITL\b|inter.token|\bTBT\b|time between tokens", "ITL"),
    (r"\bE2EL?\b|end.to.end|request latency|\be2e", "E2E"),
    (r"KV|prefill|decode|\bnode\b", ""),
    (r"(output|generat\w+|decode)[ _](tokens?/s|tok/s|throughput)", "output_tokens_per_s"),
    (r"(total|overall)[ _](tokens?/s|tok/s|throughput|token throughput)", "total_tokens_per_s"),
    (r"requests?/s|req/s|request throughput", "request_rate_per_s"),
    (r"^throughput|^tokens/s|^tok/s", "output_tokens_per_s"),
)
RATES = dict.fromkeys(("tok/s", "tokens/s", "tok/s/GPU", "tokens/s/GPU", "1/s", "req/s", "requests/s"), 1.0)
CONCURRENCY = r"concurren\w*(?: of)?[ =:]*(\d+)|(\d+) concurrent"
RATE = r"(\d+(?:\.\d+)?) ?(?:q/s|qps|req(?:uests?)?/s|rps|requests a second)"
COUNT = r"(\d+) (?:prompts|requests)\b"
APART = r"(?<!no )\bPD\b|[Dd]isagg"  # in metrics
TWO_SERVERS = r"^\s*2 ?x ?\d|\b2 (?:servers|nodes|pods|machines)\b"
SPREAD = r"lengths \+-\s?(\d+) ?%"
INSTANCES = r"(\d+)(?: colocated)? instances?(?:\(s\))?|\bDP ?=? ?(\d+)\b(?! attention)|(\d+) (?:replicas|pods)"
LACKING = (
    (r"\bEAGLE|\bMTP\b(?! off)|speculat(?!\w* off)|draft tokens|medusa", r"no (?:speculation|MTP|speculative)|without speculat", "speculative decoding"),
    (r"DP\d* attention|DP attention|attn_dp|data.parallel attention", None, "data-parallel attention"),
    (r"\bEP ?=? ?([2-9]|\d\d)|expert.parallel|DeepEP", None, "expert parallelism of an engine"),
    (r"offload(?!\w* (?:off|false|none))|CPU cache|through pinned host|LMCache|HiCache", None, "KV cache in host memory"),
    (r"\bLoRA\b", None, "adapters (LoRA)"),
    (r"prefix(?:-aware)? (?:scor|rout)|routing: (?!random|load)|cache.aware", None, "routing by prefixes"),
    (r"shared tokens|shared prefix|multi.?turn|agentic|\btrace\b", None, "sharing tokens among prompts without its columns"),
    (r"(?:prefill|decode) only", None, "half of an engine alone"),
)
LEAST_ANSWER = 2  # so that an instance that decodes has something to do
STAGE_S, WAVES, MOST_REQUESTS = 120, 10, 4000


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    words = row.text(*WORDS)
    lacking = next((what for pattern, but, what in LACKING if re.search(pattern, words, re.IGNORECASE) and not (but and re.search(but, words, re.IGNORECASE))), None)
    if lacking or row.flag("cpu_kv_offload"):
        raise Unmapped(f"{lacking or 'KV cache in host memory'} is not modelled")
    quantity = next((name for pattern, name in QUANTITIES if re.search(pattern, row["metric"], re.IGNORECASE)), "")
    if not quantity:
        raise Unmapped(f"metric '{row['metric']}' is no latency or rate of requests")
    served = served_by(row)
    requests, share, shared = load_of(row, words)
    assumed = "; ".join(filter(None, (served.assumed, shared)))
    requests |= lengths_of(row, words, quantity)
    scenario = served.with_requests(requests, client_us=load_rows.CLIENT_US, **options_of(row, words))
    unit = row.scale(SECONDS) if quantity.isupper() else row.scale(RATES)
    name = "closed loop" if requests["arrivals"] == "closed_loop" else "batch" if requests["arrivals"] == "at_once" else "load"
    rank = rank_of(row["metric"])
    statistic = f" {statistic_of(rank)}" if quantity.isupper() else ""
    if quantity.isupper():
        def read(result):
            return load_rows.value(table_of(result, "requests.csv"), quantity, rank)
    else:
        gpus = (row.integer("n_gpus") or served.gpus * share) if re.search(r"GPU$", row["metric"] + row["unit"]) else 1

        def read(result):
            return result.summary["metrics"][quantity] * share / gpus
    return Experiment(f"{name} {quantity}{statistic} {served.engine}", served.platform, scenario, None, read, unit,
                      cost=requests.get("count", 100) * served.gpus, size_class=f"TP{served.tp}", assumed=assumed)


def served_by(row: Row) -> Served:
    """One instance, or one that prefills and one that decodes. @throws Unmapped with the reason"""
    sizes = re.fullmatch(r"(\d+)\+(\d+)", row["tp"].strip())
    roles = re.search(r"\b(\d+)P(\d+)D\b", row.text("framework", *WORDS))
    version = version_of(row["framework"])
    if not sizes and not roles and not re.search(APART, row["metric"]):
        return serve(_with_tp(row), row["framework"], version)
    if roles and roles.groups() != ("1", "1"):
        raise Unmapped(f"{roles[0]}: more than one instance of a role")
    tp = tuple(map(int, sizes.groups())) if sizes else (number(row, "tp", 1),) * 2
    if (row.integer("pp") or 1) > 1:
        raise Unmapped("stages of instances that prefill and decode apart are not printed apart")
    served = serve(Row(row.file, row.line, row.columns | {"tp": str(max(tp))}, row.value), row["framework"], version)
    gpu, of_server = systems.gpu_of(row), systems.gpus_per_server(served.platform)
    apart = sum(tp) > of_server or re.search(TWO_SERVERS, row.text("system", *WORDS)) is not None
    row, assumed = systems.with_network(row, gpu) if apart else (row, "")
    begins = of_server if apart else tp[0]
    instances = [{"name": role, "role": role, "tp": size, "gpus": list(range(first, first + size))}
                 for role, size, first in (("prefill", tp[0], 0), ("decode", tp[1], begins))]
    scenario = served.scenario | {"machine": systems.machine(row, served.platform, gpu, 2 if apart else 1),
                                  "workload": served.scenario["workload"] | {"instances": instances}}
    return replace(served, scenario=scenario, assumed=assumed)


def _with_tp(row: Row) -> Row:
    """The row with the TP that n_gpus leaves, if it prints none."""
    gpus, pp = row.integer("n_gpus"), row.integer("pp") or 1
    if row["tp"].strip() or not gpus:
        return row
    return Row(row.file, row.line, row.columns | {"tp": str(max(1, gpus // pp))}, row.value)


def rank_of(metric: str) -> float | None:
    """Of a percentile; None for a mean."""
    if re.search("median", metric, re.IGNORECASE):
        return 0.5
    found = re.search(r"\bp(\d\d(?:\.\d+)?)\b", metric, re.IGNORECASE)
    return float(found[1]) / 100 if found else None


def statistic_of(rank: float | None) -> str:
    return "mean" if rank is None else f"p{100 * rank:g}"


def load_of(row: Row, words: str) -> tuple[dict, int, str]:
    """Arrivals for an instance, the number of instances that share the load, and what was assumed. @throws Unmapped without a load"""
    concurrency = _number(row, ("concurrency", "max_concurrency"), CONCURRENCY, words)
    rate = _number(row, ("rate_per_s", "request_rate", "rate", "qps"), RATE, words)
    count = _number(row, ("num_prompts", "n_requests", "requests"), COUNT, words)
    batch = row.integer("batch") if re.fullmatch(r"\s*\d+\s*", row["batch"]) else None
    instances = int(_number(row, ("instances", "dp"), INSTANCES, words) or 1)
    assumed = f"{instances} instances take equal shares of the load" if instances > 1 else ""
    if re.search(r"closed.loop|batch = concurrency", words) and batch:
        concurrency = concurrency or batch
    if concurrency:
        places = max(1, round(concurrency / instances))
        requests = {"arrivals": "closed_loop", "concurrency": places, "count": max(places, round(count / instances) if count else WAVES * places)}
    elif rate:
        requests = {"arrivals": "poisson", "rate_per_s": rate / instances, "count": round(count / instances) if count else min(MOST_REQUESTS, round(STAGE_S * rate / instances))}
    elif batch or count:
        requests = {"arrivals": "at_once", "count": round((batch or count) / instances)}
    else:
        raise Unmapped("no load is printed: concurrency, requests a second, or a batch")
    if not 0 < requests["count"] <= MOST_REQUESTS:
        raise Unmapped(f"{requests['count']} requests: at most {MOST_REQUESTS} are run")
    return requests, instances, assumed


def _number(row: Row, columns: tuple[str, ...], pattern: str, words: str) -> float | None:
    """Of the first column that has one, else in words."""
    for column in columns:
        try:
            value = float(row[column])
        except ValueError:
            continue
        if 0 < value < float("inf"):
            return value
    found = re.search(pattern, words, re.IGNORECASE)
    return next((float(number) for number in found.groups() if number), None) if found else None


def lengths_of(row: Row, words: str, quantity: str) -> dict:
    """@throws Unmapped if the row prints no lengths"""
    prompt = next((value for column in ("input_len", "isl", "prompt_tokens") if (value := row.mean(column))), None)
    answer = next((value for column in ("output_len", "osl", "output_tokens") if (value := row.mean(column))), None)
    if prompt is None:
        raise Unmapped("has no input_len")
    if answer is None and quantity != "TTFT":
        raise Unmapped("has no output_len")
    spread = re.search(SPREAD, words)

    def length(mean: int) -> int | dict:
        return load_rows.spread(mean, int(spread[1]) / 100) if spread else mean

    return {"prompt_tokens": length(prompt), "output_tokens": length(answer or LEAST_ANSWER)}


def options_of(row: Row, words: str) -> dict:
    """Keys of the workload that the row sets."""
    scheduler: dict = {}
    for key, columns, pattern in (("max_batched_tokens", ("max_num_batched_tokens",), r"max_num_(?:batched_)?tokens[ =:]*(\d+)|chunk (\d+)"),
                                  ("max_seqs", ("max_num_seqs",), r"max batch[ =:]*(\d+)|max_num_seqs[ =:]*(\d+)|at most (\d+) running")):
        value = _number(row, columns, pattern, words)
        if value:
            scheduler[key] = int(value)
    if re.search(r"chunked (?:context|prefill)[^;,]* (?:off|false)", words, re.IGNORECASE):
        scheduler["chunked_prefill"] = False
    if "max_batched_tokens" in scheduler and "max_seqs" in scheduler:  # a request that runs has a token of the budget
        scheduler["max_seqs"] = min(scheduler["max_seqs"], scheduler["max_batched_tokens"])
    options: dict = {"scheduler": scheduler} if scheduler else {}
    if re.search(r"enforce.?eager|\beager\b|without CUDA graphs|no CUDA graphs", words, re.IGNORECASE) or row.flag("enforce_eager"):
        options["cudagraph"] = {"mode": "none"}
    return options
