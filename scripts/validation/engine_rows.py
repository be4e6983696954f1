"""Published rows of any serving engine as scenarios of `workload.kind: serving`.

Rules, by column; `extra` and `note` may say in words what has no column of its own:
  framework         engine and version; its sheet is that of the nearest version (serving_engines.py)
  tp, pp, n_gpus    of an instance; without tp, all GPUs that pp leaves. "4 instances" and the like: one of them with its share of the load,
                    as routers that look at nothing but load give it; with a router in words ("routing: random"), all of them behind it.
                    "8+8", 1P1D: an instance that prefills and one that decodes, each in a server of its own if the row says so, or if
                    one server has too few GPUs; 3P1D: instances of both roles, side by side
  load              concurrency: a closed loop, ten requests for each place unless their number is printed; requests a second: Poisson, for
                    120 s (at most 4000 requests) or that number; all at once, a batch of equal requests, or one request. A `batch` beside a
                    closed loop is its concurrency. All at once without a number: four times the engine's largest batch
  "150 groups of 6000 shared tokens, 5 users each"   beginnings of prompts that are equal
  input_len, output_len   of all requests; a mean stands for all. "lengths +-15 %": equally likely from 85 to 115 % of it
  max_num_batched_tokens, max_num_seqs, max batch, max_num_tokens, chunked context or prefill, KV fp8, enforce eager   of the engine.
                    policy max_util: TensorRT-LLM's MAX_UTILIZATION, which needs blocks for the prompt alone and evicts
  metric            TTFT, TPOT, ITL or E2E, its mean or a percentile; tokens or requests a second, also of a GPU, with Poisson arrivals
                    over the middle of the run; of transfers of KV: transfer_rows.py
What a row names and the model lacks is the reason why the row is skipped.
"""

import math
import re
from dataclasses import replace

from . import load_rows, systems, transfer_rows
from .experiment import Experiment, table_of
from .rows import SECONDS, Row, Unmapped
from .served_models import number
from .serving_engines import Served, serve, serve_apart, version_of

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
    (r"medusa|draft model", None, "speculative decoding with its kind of drafts"),
    (r"DP\d* attention|DP attention|attn_dp|data.parallel attention", None, "data-parallel attention"),
    (r"\bEP ?=? ?([2-9]|\d\d)|expert.parallel|DeepEP", None, "expert parallelism of an engine"),
    (r"offload(?!\w* (?:off|false|none))|CPU cache|through pinned host|LMCache|HiCache", None, "KV cache in host memory"),
    (r"\bLoRA\b", None, "adapters (LoRA)"),
    (r"shared (?:tokens|prefix)(?!, \d+ users)|multi.?turn|agentic|\btrace\b", None, "sharing tokens among prompts without its columns"),
    (r"KV fp8 but", None, "a KV type for each layer"),
    (r"(?:prefill|decode) only", None, "half of an engine alone"),
)
SPECULATES = r"\bEAGLE|\bMTP\b(?! off)|speculat(?!\w* off)|draft tokens"
NO_SPECULATION = r"no (?:speculation|MTP|speculative)|without speculat"
METHODS = ((r"\bMTP\b", "mtp"), (r"\bEAGLE", "eagle"), (r"n-?gram", "ngram"))  # the first match counts
DRAFTS = r"(\d+) steps|(\d+) (?:draft )?tokens(?! a step)"  # SGLang's draft tokens are one more than its steps
STEP_TOKENS = r"(\d+\.\d+) tokens a step|accept\w* length (\d+\.\d+)"
# The first match counts. Scores are those of llm-d, whose names these are
ROUTERS = (
    (r"rout\w*:? random", {"policy": "random"}),
    (r"round.robin", {"policy": "round_robin"}),
    (r"cache.aware", {"policy": "cache_aware"}),
    (r"precise prefix|prefix\w* scor\w* \(KV events", {"policy": "scorers", "by_events": True, "kv_weight": 1}),
    (r"prefix(?:-aware)? (?:scor|rout)", {"policy": "scorers", "kv_weight": 1}),
    (r"rout\w*:? load only", {"policy": "scorers", "prefix_weight": 0, "kv_weight": 1}),
)
SHARED = r"(\d+) groups of (\d+) shared tokens, (\d+) users"
RAMP = r"(\d+(?:\.\d+)?) to \d+(?:\.\d+)? ?(?:q/s|qps|req(?:uests?)?/s|rps)"
FULL_BATCHES = 4  # of requests that are all there at once
USUAL_BUDGET = 8192  # of the sheets, tokens
LEAST_ANSWER = 2  # so that an instance that decodes has something to do
STAGE_S, WAVES, MOST_REQUESTS = 120, 10, 4000


def map_row(row: Row) -> Experiment:
    """@throws Unmapped with the reason"""
    words = row.text(*WORDS)
    lacking = next((what for pattern, but, what in LACKING if re.search(pattern, words, re.IGNORECASE) and not (but and re.search(but, words, re.IGNORECASE))), None)
    if lacking or row.flag("cpu_kv_offload"):
        raise Unmapped(f"{lacking or 'KV cache in host memory'} is not modelled")
    transfer = transfer_rows.find(row["metric"])
    quantity = transfer.name if transfer else next((name for pattern, name in QUANTITIES if re.search(pattern, row["metric"], re.IGNORECASE)), "")
    if not quantity:
        raise Unmapped(f"metric '{row['metric']}' is no latency or rate of requests")
    served = served_by(row)
    if transfer and len(served.scenario["workload"]["instances"]) == 1:
        raise Unmapped("names no instances that prefill and that decode, between which KV moves")
    router = next((router for pattern, router in ROUTERS if re.search(pattern, words, re.IGNORECASE)), None)
    requests, share, shared = load_of(row, words)
    options = options_of(row, words)
    if router:
        served, share, shared = behind(router, served, row, share), 1, ""
    assumed = "; ".join(filter(None, (served.assumed, shared)))
    requests |= lengths_of(row, words, transfer is not None or quantity == "TTFT")
    hold_whole_prompts(options.get("scheduler", {}), requests)
    scenario = served.with_requests(requests, client_us=load_rows.CLIENT_US, **options)
    is_latency = quantity.isupper()
    unit = row.scale(transfer.units if transfer else SECONDS if is_latency else RATES)
    name = "closed loop" if requests["arrivals"] == "closed_loop" else "batch" if requests["arrivals"] == "at_once" else "load"
    rank = rank_of(row["metric"])
    statistic = f" {statistic_of(rank)}" if is_latency else ""
    if transfer:
        def read(result):
            return transfer.value(table_of(result, "transfers.csv"), rank)
    elif is_latency:
        def read(result):
            return load_rows.value(table_of(result, "requests.csv"), quantity, rank)
    else:
        gpus = (row.integer("n_gpus") or served.gpus * share) if re.search(r"GPU$", row["metric"] + row["unit"]) else 1

        def read(result):
            metrics = result.summary["metrics"]
            if requests["arrivals"] == "poisson":  # a short run begins and ends with few requests
                middle = metrics["middle"]
                metrics = middle | {"total_tokens_per_s": middle["prompt_tokens_per_s"] + middle["output_tokens_per_s"]}
            return metrics[quantity] * share / gpus
    return Experiment(f"{name} {quantity}{statistic} {served.engine}", served.platform, scenario, None, read, unit,
                      cost=requests.get("count", 100) * served.gpus, size_class=f"TP{served.tp}", assumed=assumed)


def served_by(row: Row) -> Served:
    """One instance, or those that prefill and those that decode. @throws Unmapped with the reason"""
    sizes = re.fullmatch(r"(\d+)\+(\d+)", row["tp"].strip())
    roles = re.search(r"\b(\d+)P(\d+)D\b", row.text("framework", *WORDS))
    version = version_of(row["framework"])
    if not sizes and not roles and not re.search(APART, row["metric"]):
        return serve(_with_tp(row), row["framework"], version)
    counts = tuple(map(int, roles.groups())) if roles else (1, 1)
    tp = tuple(map(int, sizes.groups())) if sizes else (number(row, "tp", 1),) * 2
    if (row.integer("pp") or 1) > 1:
        raise Unmapped("stages of instances that prefill and decode apart are not printed apart")
    least = 2 if re.search(TWO_SERVERS, row.text("system", *WORDS)) else 1
    return serve_apart(row, row["framework"], version, counts, tp, least)


def behind(router: dict, served: Served, row: Row, instances: int) -> Served:
    """As many instances as the row has, or as its GPUs hold, behind a router. @throws Unmapped if servers need a network that is unknown"""
    if len(served.scenario["workload"]["instances"]) > 1:
        return replace(served, scenario=served.scenario | {"workload": served.scenario["workload"] | {"router": router}})
    count = instances if instances > 1 else max(1, (row.integer("n_gpus") or 0) // served.gpus)
    if count == 1:
        raise Unmapped("a router over one instance")
    gpu, servers = systems.gpu_of(row), math.ceil(count * served.gpus / systems.gpus_per_server(served.platform))
    machine = systems.machine(row, served.platform, gpu, servers, may_assume=True)
    instance = served.scenario["workload"]["instances"][0] | {"count": count}
    scenario = served.scenario | {"machine": machine,
                                  "workload": served.scenario["workload"] | {"instances": [instance], "router": router}}
    return replace(served, scenario=scenario, assumed=systems.assumption(served.platform, machine))


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
    if re.search(RAMP, words):
        raise Unmapped("rates that rise by steps that are not printed")
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
    elif re.search(r"all (?:requests )?at once|offline", words, re.IGNORECASE) and (most := options_of(row, words).get("scheduler", {}).get("max_seqs")):
        requests = {"arrivals": "at_once", "count": min(MOST_REQUESTS, FULL_BATCHES * most)}
    else:
        raise Unmapped("no load is printed: concurrency, requests a second, or a batch")
    if not 0 < requests["count"] <= MOST_REQUESTS:
        raise Unmapped(f"{requests['count']} requests: at most {MOST_REQUESTS} are run")
    groups = re.search(SHARED, words)
    if groups:
        requests["prefix"] = dict(zip(("groups", "shared_tokens", "users_per_group"), map(int, groups.groups())))
    return requests, instances, assumed


def hold_whole_prompts(scheduler: dict, requests: dict) -> None:
    """Without chunks, engines take a prompt that is longer than the budget of a batch as a batch of its own."""
    longest = sum(max(tokens["uniform"].values()) if isinstance(tokens, dict) else tokens for tokens in (requests["prompt_tokens"], requests["output_tokens"]))
    if scheduler.get("chunked_prefill") is False and longest > scheduler.get("max_batched_tokens", USUAL_BUDGET):
        scheduler["max_batched_tokens"] = longest


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


def lengths_of(row: Row, words: str, before_answers: bool) -> dict:
    """@param before_answers  what the row measures is over before the second token. @throws Unmapped if the row prints no lengths"""
    prompt = next((value for column in ("input_len", "isl", "prompt_tokens") if (value := row.mean(column))), None)
    answer = next((value for column in ("output_len", "osl", "output_tokens") if (value := row.mean(column))), None)
    if prompt is None:
        raise Unmapped("has no input_len")
    if answer is None and not before_answers:
        raise Unmapped("has no output_len")
    spread = re.search(SPREAD, words)

    def length(mean: int) -> int | dict:
        return load_rows.spread(mean, int(spread[1]) / 100) if spread else mean

    return {"prompt_tokens": length(prompt), "output_tokens": length(answer or LEAST_ANSWER)}


def _speculation(words: str) -> dict:
    method = next((method for pattern, method in METHODS if re.search(pattern, words, re.IGNORECASE)), None)
    drafts, length = re.search(DRAFTS, words, re.IGNORECASE), re.search(STEP_TOKENS, words, re.IGNORECASE)
    if not (method and drafts and length):
        raise Unmapped("speculative decoding without its method, drafts and mean tokens of a step")
    return {"method": method, "tokens": int(drafts[1] or drafts[2]), "synthetic_length": float(length[1] or length[2])}


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
    if re.search(r"\bmax_util", words, re.IGNORECASE):
        scheduler |= {"reserve": "sequence", "preemption": "recompute"}
    if "max_batched_tokens" in scheduler and "max_seqs" in scheduler:  # a request that runs has a token of the budget
        scheduler["max_seqs"] = min(scheduler["max_seqs"], scheduler["max_batched_tokens"])
    options: dict = {"scheduler": scheduler} if scheduler else {}
    if re.search(SPECULATES, words, re.IGNORECASE) and not re.search(NO_SPECULATION, words, re.IGNORECASE):
        options["speculation"] = _speculation(words)
    if re.search(r"enforce.?eager|\beager\b|without CUDA graphs|no CUDA graphs", words, re.IGNORECASE) or row.flag("enforce_eager"):
        options["cudagraph"] = {"mode": "none"}
    return options
