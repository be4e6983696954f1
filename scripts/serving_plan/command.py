"""The command `plan.py serving`.

  scripts/plan.py serving --model scenarios/models/llama-3.1-8b.json --gpus H100-SXM5,L40S --prompt 1180 --output 250 --rate 40 \\
      --slo ttft_p99_s=0.5,tpot_p99_s=0.05 --price H100-SXM5-80GB=2.5 --price L40S=1 --out out/plan_serving
  scripts/plan.py serving --model CONFIG --gpus H100-SXM5 --traffic trace.csv --slo e2e_p95_s=20 --router round_robin,least_requests

Shapes of instances that fit into memory are loaded alone by short runs. Their largest rates give how many of them the traffic
takes, colocated and divided into prefill and decode. The best --top fleets are simulated at the rate, with one instance less or more
until the number is known. docs/planning_serving.md explains the page. Exit status: 0 done, 1 no fleet keeps the objectives, 2 bad input.
"""

import argparse
import json
import math
import pathlib
from collections.abc import Sequence
from dataclasses import replace

from lib import written
from lib.words import nearest
from loading.judgement import Load
from sweeping.store import Store

from . import estimate, page, sizes, space
from .decision import Decision
from .fleet import SETTINGS, Fleet, Traffic
from .options import amount, parse
from .requests import Drawn, trace_of
from .simulate import Simulator
from .space import PlanError

__all__ = ["PlanError", "amount", "plan"]
NONE_HOLDS = 1
RUNNERS_UP = 1  # that are looked at where something changes
SHOWN = 4  # instances in the chart of interactivity with low loads
EXPLAINED_REQUESTS = 300  # of the run whose critical path is followed


def _prices(options: argparse.Namespace, kinds: Sequence[space.Kind]) -> dict[str, float]:
    prices, there = dict(options.price), [kind.gpu for kind in kinds]
    for gpu in prices:
        if gpu not in there:
            raise PlanError(f"--price {gpu}: is none of --gpus{nearest(gpu, there)}; accepted: {', '.join(there)}")
    if prices and (missing := [gpu for gpu in there if gpu not in prices]):
        raise PlanError(f"--price: {missing[0]} has no price; accepted: --price {missing[0]}=PER_HOUR")
    return prices


def _traffic(options: argparse.Namespace) -> tuple[Traffic, dict[str, tuple]]:
    """What candidates have in common, and the settings in which they differ."""
    given = {name: getattr(options, name) for name in SETTINGS}
    same = {name: values[0] for name, values in given.items() if len(values) == 1 and values[0] is not None}
    requests = trace_of(options.traffic, options.out) if options.traffic else Drawn(options.prompt, options.output)
    rate = options.rate or requests.rate_per_s
    router = options.router[0] if len(options.router) == 1 else ""
    return Traffic(str(options.model.resolve()), requests, rate, same, router), {name: values for name, values in given.items() if len(values) > 1}


def _space(options: argparse.Namespace, kinds: Sequence[space.Kind], traffic: Traffic, tried: dict[str, tuple], executables: pathlib.Path) -> space.Space:
    wanted = space.Sizes(options.tp, options.pp, options.dp, options.ep, space.has_experts(options.model))
    found = space.space_of(kinds, wanted, tried, traffic, executables, options.jobs)
    if not found.fit:
        raise PlanError(f"no shape of an instance can run; {found.why_empty()}")
    for name, values in tried.items():
        for value in values:
            refused = [reason for (_, shape), reason in found.refused.items() if dict(shape.settings).get(name) == value]
            if refused and not any(dict(shape.settings).get(name) == value for _, shape in found.fit):
                raise PlanError(f"--{name.replace('_', '-')} {value}: no shape can run; {refused[0]}")
    first = next(iter(found.fit))
    for router in options.router:
        if router and (why := space.why_refused(traffic, Fleet(*first, 2, router=router), executables)):
            raise PlanError(f"--router {router}: {why}")
    return found


def decide(options: argparse.Namespace) -> Decision:
    """The decision, with its runs in `options.out`. @throws PlanError, InputError"""
    if not options.model.is_file():
        raise PlanError(f"--model {options.model}: no such file")
    executables = options.bin.resolve()
    names = space.shipped(executables)
    kinds = list(dict.fromkeys(space.kind_of(word.strip(), names, executables) for word in options.gpus.split(",")))
    prices = _prices(options, kinds)
    traffic, tried = _traffic(options)
    found = _space(options, kinds, traffic, tried, executables)
    if options.budget and (least := min(shape.gpus * prices[kind.gpu] for kind, shape in found.fit)) > options.budget:
        raise PlanError(f"--budget {options.budget:g}: below one instance, which costs at least {least:g} an hour")
    store = Store(options.out.resolve())
    traffic.requests.prepare()
    if why := space.why_refused(traffic, Fleet(*next(iter(found.fit)), 1), executables):
        raise PlanError(why)
    executables = store.keep_executables(executables, [kind.platform for kind in kinds])
    simulator = Simulator(store.directory, executables, options.jobs, options.slo, 1)
    part = replace(traffic, shared=not set(options.router) <= set(estimate.UNEVEN))
    estimator = estimate.Estimator(part, simulator, estimate.Contest(options.top, prices))
    estimator.colocated(list(found.fit))
    if not options.no_divided:
        estimator.divided([key for key in found.fit if key not in estimator.rates.why_not])
    rates = estimator.rates
    fleets = rates.fleets(traffic.rate_per_s, options.max_gpus, options.router)
    if options.budget:
        fleets = [fleet for fleet in fleets if (fleet.gpus - fleet.shape.gpus) * prices[fleet.kind.gpu] < options.budget]
    if not fleets:
        raise PlanError(_no_fleet(rates, options))
    fleets.sort(key=lambda fleet: (fleet.gpus * prices.get(fleet.kind.gpu, 1.0), fleet.gpus, -rates.of(fleet), fleet.label))
    simulator = Simulator(store.directory, executables, options.jobs, options.slo, options.seeds if traffic.requests.is_endless else 1)
    looked_at = sizes.Sizes(traffic, rates, simulator, options.most_requests, options.max_gpus, prices)
    looked_at.look(fleets[:options.top])
    decision = Decision(traffic, options.slo, found, rates, looked_at, prices, options.budget, fleets)
    looked_at.find_largest()
    if decision.winner and not options.no_what_if:
        others = [fleet for fleet in looked_at.smallest() if fleet.family != decision.winner.family][:RUNNERS_UP]
        decision.changes = sizes.changes(looked_at, decision.winner, others)
        estimator.beside(sorted(rates.loads, key=lambda key: -(rates.colocated.get(key) or 0.0) / key[1].gpus / prices.get(key[0].gpu, 1.0))[:SHOWN])
        decision.explained = simulator.explained((traffic, decision.winner), EXPLAINED_REQUESTS)
    return decision


def plan(arguments: Sequence[str]) -> int:
    """@throws PlanError, InputError"""
    options = parse(arguments, __doc__)
    decision = decide(options)
    written.text(options.out / "decision.html", page.text(decision))
    written.text(options.out / "decision.json", json.dumps(decision.json(), indent=2) + "\n")
    written.text(options.out / "plan.csv", decision.csv_text())
    print(json.dumps(decision.json(), indent=2) if options.json else decision.text(), end="\n" if options.json else "")
    return 0 if decision.winner else NONE_HOLDS


def _no_fleet(rates: estimate.Rates, options: argparse.Namespace) -> str:
    if not any(rates.colocated.values()):
        kind, shape = min(rates.why_not, key=lambda key: _excess(rates.loads.get(key, [])))
        return f"one instance keeps the objectives at no rate; nearest is {shape.label} on {kind.gpu}: {rates.why_not[kind, shape]}"
    (kind, shape), rate = max(((key, rate) for key, rate in rates.colocated.items() if rate), key=lambda entry: entry[1] / entry[0][1].gpus)
    budget = f" within {options.budget:g} an hour" if options.budget else ""
    return f"no fleet of at most {options.max_gpus} GPUs{budget} has enough: an instance of {shape.label} on {kind.gpu} keeps the objectives up to {rate:g} requests/s"


def _excess(loads: Sequence[Load]) -> float:
    """How far the lowest load is above a limit."""
    return max((finding.value / finding.objective.bound for finding in loads[0].findings), default=0.0) if loads else math.inf
