"""The command `plan.py serving`.

  scripts/plan.py serving --model scenarios/models/llama-3.1-8b.json --gpus H100-SXM5,L40S --prompt 1180 --output 250 --rate 40 \\
      --slo ttft_p99_s=0.5,tpot_p99_s=0.05 --price H100-SXM5-80GB=2.5 --price L40S=1 --out out/plan_serving

Shapes of instances (tp x pp within a server) that fit into memory are loaded alone by short runs. Their largest rates give how many of them
the traffic takes, colocated and divided into prefill and decode. The best --top fleets are simulated at the rate, with one instance less or more
until the number is known. docs/planning_serving.md explains the page. Exit status: 0 done, 1 no fleet keeps the objectives, 2 bad input.
"""

import argparse
import json
import math
import pathlib
from collections.abc import Sequence

from lib import runner, yaml_source
from lib.command_line import Parser, positive
from lib.yaml_source import InputError
from loading import cost, objectives, result
from loading.search import Knee, Search
from sweeping.store import Store

from . import estimate, sizes, space
from .decision import Decision
from .fleet import Fleet, Traffic
from .simulate import Simulator
from .space import PlanError

TOP, MOST_GPUS, SEEDS, MOST_REQUESTS = 6, 64, 2, 8000
ENGINE = "vllm-0.19"
NONE_HOLDS = 1


def _objectives(text: str) -> list[objectives.Objective]:
    try:
        return objectives.objectives_of(text)
    except objectives.ObjectiveError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _price(text: str) -> tuple[str, float]:
    try:
        return cost.price_of(text)
    except cost.PriceError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def _lengths(text: str) -> object:
    """A number of tokens, or a distribution as in a scenario."""
    try:
        value = yaml_source.parse(text, "lengths").plain()
    except InputError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is neither a number nor a distribution, as {{lognormal: {{mean: 1180, cv_ratio: 0.86}}}}") from error
    if isinstance(value, bool) or not (isinstance(value, int) and value > 0 or isinstance(value, dict)):
        raise argparse.ArgumentTypeError(f"'{text}' is neither a number of tokens nor a distribution, as {{lognormal: {{mean: 1180, cv_ratio: 0.86}}}}")
    return value


def _sizes(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of sizes, as 1,2,4")
    return tuple(int(word) for word in words)


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="plan.py serving", description=__doc__)
    parser.add_argument("--model", type=pathlib.Path, required=True, metavar="CONFIG", help="config.json of the model")
    parser.add_argument("--gpus", required=True, metavar="GPU,GPU,...", help="GPU datasheets, or the beginning of one name each")
    parser.add_argument("--prompt", type=_lengths, required=True, metavar="N|DIST", help="tokens of a prompt: a number, or a distribution as in a scenario")
    parser.add_argument("--output", type=_lengths, required=True, metavar="N|DIST", help="tokens of an answer")
    parser.add_argument("--rate", type=amount, required=True, metavar="R", help="requests per second")
    parser.add_argument("--slo", type=_objectives, required=True, metavar="METRIC=LIMIT,...", help="objectives, as for load.py")
    parser.add_argument("--engine", default=ENGINE, metavar="NAME", help=f"serving engine (default {ENGINE})")
    parser.add_argument("--kv-dtype", metavar="TYPE", help="number format of KV (default: the model's)")
    parser.add_argument("--tp", type=_sizes, default=space.TP, metavar="N,N", help="tensor parallel sizes to try (default 1,2,4,8)")
    parser.add_argument("--pp", type=_sizes, default=(1,), metavar="N,N", help="pipeline parallel sizes to try (default 1)")
    parser.add_argument("--no-divided", action="store_true", help="leave out prefill and decode on different instances")
    parser.add_argument("--price", type=_price, action="append", default=[], metavar="GPU=PER_HOUR", help="price of a GPU for an hour; repeatable, for all of --gpus")
    parser.add_argument("--budget", type=amount, metavar="PER_HOUR", help="the most that a fleet may cost in an hour; needs --price")
    parser.add_argument("--max-gpus", type=positive, default=MOST_GPUS, metavar="N", help=f"largest fleet (default {MOST_GPUS})")
    parser.add_argument("--top", type=positive, default=TOP, metavar="K", help=f"fleets to simulate, by the estimate (default {TOP})")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"runs of each load (default {SEEDS})")
    parser.add_argument("--most-requests", type=positive, default=MOST_REQUESTS, metavar="N", help=f"of a run (default {MOST_REQUESTS})")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out") / "plan_serving", metavar="DIR", help="folder for all results")
    parser.add_argument("--jobs", type=positive, default=runner.WORKERS, metavar="N", help="parallel processes (default: number of processors)")
    parser.add_argument("--json", action="store_true", help="the decision as JSON on stdout")
    parser.add_executables()
    options = parser.parse_args(arguments)
    if options.budget and not options.price:
        parser.error("--budget needs --price")
    return options


def _prices(options: argparse.Namespace, kinds: Sequence[space.Kind]) -> dict[str, float]:
    prices, there = dict(options.price), [kind.gpu for kind in kinds]
    for gpu in prices:
        if gpu not in there:
            raise PlanError(f"--price {gpu}: is none of --gpus{yaml_source.nearest(gpu, there)}; accepted: {', '.join(there)}")
    if prices and (missing := [gpu for gpu in there if gpu not in prices]):
        raise PlanError(f"--price: {missing[0]} has no price; accepted: --price {missing[0]}=PER_HOUR")
    return prices


def plan(arguments: Sequence[str]) -> int:
    """@throws PlanError, InputError"""
    options = parse_options(arguments)
    if not options.model.is_file():
        raise PlanError(f"--model {options.model}: no such file")
    executables = options.bin.resolve()
    names = space.shipped(executables)
    kinds = list(dict.fromkeys(space.kind_of(word.strip(), names, executables) for word in options.gpus.split(",")))
    prices = _prices(options, kinds)
    more = {"kv_dtype": options.kv_dtype} if options.kv_dtype else {}
    traffic = Traffic(str(options.model.resolve()), options.prompt, options.output, options.rate, options.engine, model_keys=more)
    found = space.space_of(kinds, traffic, executables, options.tp, options.pp)
    if not found.fit:
        raise PlanError(f"no shape of an instance can run; {next(iter(found.refused.values()), 'none is within a server')}")
    if options.budget and (least := min(shape.gpus * prices[kind.gpu] for kind, shape in found.fit)) > options.budget:
        raise PlanError(f"--budget {options.budget:g}: below one instance, which costs at least {least:g} an hour")
    store = Store(options.out.resolve())
    executables = store.keep_executables(executables, [kind.platform for kind in kinds])
    simulator = Simulator(store.directory, executables, options.jobs, options.slo, 1)
    rates = estimate.rates_of(found.fit, traffic, simulator, not options.no_divided)
    fleets = rates.fleets(options.rate, options.max_gpus)
    if prices and options.budget:
        fleets = [fleet for fleet in fleets if (fleet.gpus - fleet.shape.gpus) * prices[fleet.kind.gpu] < options.budget]
    if not fleets:
        raise PlanError(_no_fleet(rates, options))
    fleets.sort(key=lambda fleet: (fleet.gpus * prices.get(fleet.kind.gpu, 1.0), fleet.gpus, -rates.of(fleet), fleet.label))
    simulator = Simulator(store.directory, executables, options.jobs, options.slo, options.seeds)
    looked_at = sizes.Sizes(traffic, rates, simulator, options.most_requests, options.max_gpus)
    looked_at.look(fleets[:options.top])
    decision = Decision(traffic, options.slo, found, rates, looked_at, prices, options.budget, {}, {})
    if decision.winner:
        decision.knees = _knees(decision, traffic, simulator)
        decision.what_if = _what_if(decision.winner, traffic, simulator, options.most_requests)
    result.write(options.out / "decision.html", decision.html())
    result.write(options.out / "decision.json", json.dumps(decision.json(), indent=2) + "\n")
    result.write(options.out / "plan.csv", decision.csv_text())
    print(json.dumps(decision.json(), indent=2) if options.json else decision.text(), end="\n" if options.json else "")
    return 0 if decision.winner else NONE_HOLDS


def _no_fleet(rates: estimate.Rates, options: argparse.Namespace) -> str:
    if not any(rates.colocated.values()):
        (kind, shape), why = next(iter(rates.why_not.items()))
        return f"one instance keeps the objectives at no rate; {shape.label} on {kind.gpu}: {why}"
    (kind, shape), rate = max(((key, rate) for key, rate in rates.colocated.items() if rate), key=lambda entry: entry[1] / entry[0][1].gpus)
    budget = f" within {options.budget:g} an hour" if options.budget else ""
    return f"no fleet of at most {options.max_gpus} GPUs{budget} has enough: an instance of {shape.label} on {kind.gpu} keeps the objectives up to {rate:g} requests/s"


def _knees(decision: Decision, traffic: Traffic, simulator: Simulator) -> dict[Fleet, Knee]:
    """Of the smallest fleet of each family that holds."""
    smallest: dict[tuple, Fleet] = {}
    for fleet in decision.affordable:
        key = fleet.kind, fleet.shape, bool(fleet.colocated)
        if key not in smallest or fleet.gpus < smallest[key].gpus:
            smallest[key] = fleet
    answers = simulator.together("largest rates", {fleet: traffic.scenario(fleet) for fleet in smallest.values()},
                                 {fleet: Search(sizes.FIRST, 4 * sizes.FIRST, estimate.PRECISION).largest(traffic.rate_per_s) for fleet in smallest.values()})
    return {fleet: answer for fleet, answer in answers.items() if isinstance(answer, Knee)}


def _what_if(winner: Fleet, traffic: Traffic, simulator: Simulator, most: int) -> dict:
    asked = {change: found for change, make in sizes.changes(traffic).items() if (found := make(winner))}
    answers = simulator.together("what if", {change: scenario for change, (scenario, _) in asked.items()},
                                 {change: Search(sizes.FIRST, most, 0.02).settle([rate]) for change, (_, rate) in asked.items()})
    return {change: loads[0] for change, loads in answers.items()}
