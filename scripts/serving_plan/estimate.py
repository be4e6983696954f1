"""The estimate of a plan: the largest rate of one instance by short runs, times the number of instances.

  colocated  the largest rate at which one instance keeps all objectives
  prefill    the same of an instance whose answers have one token, by the objectives of TTFT
  decode     the largest rate of one decode instance behind as many prefill instances as the traffic needs, at most MOST_PREFILL

Where the router takes instances in turn or evens out their loads, one of n instances gets every n-th request, so its arrivals are more even than
those of the traffic. These rates are of runs of at most MOST requests with one seed, to PRECISION: enough to rank. Rates above ENOUGH times that of the traffic are
not looked for. Routing and shared links are in the simulation of the whole fleet only.

All shapes are searched side by side, and each round narrows the number of instances that a shape may need. A shape is left out when its smallest
possible number of GPUs, and the price of these, are above the largest possible ones of `top` other fleets.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from loading.judgement import Load
from loading.search import Knee, KneeAbove, Search, rounded

from .fleet import Fleet, Kind, Shape, Traffic
from .simulate import Simulator

FIRST, MOST = 200, 800  # requests of a run
PRECISION = 0.05
ENOUGH = 2.0  # of the traffic's rate
MOST_PREFILL = 4  # instances before a decode instance
BESIDE = (0.1, 0.3, 0.6)  # of the largest rate: what the chart of interactivity shows beside the search
Key = tuple[Kind, Shape]
UNEVEN = ("fixed", "random", "session")  # routers that do not look at loads
COLOCATED, PREFILL, DECODE = "colocated", "prefill", "decode"


def instances_for(rate: float, each: float) -> int:
    return math.ceil(rate / each - 1e-9)


@dataclass
class Rates:
    """Requests per second of one instance; None: it keeps the objectives at no rate, or was left out."""

    colocated: dict[Key, float | None] = field(default_factory=dict)
    prefill: dict[Key, float | None] = field(default_factory=dict)
    decode: dict[Key, float | None] = field(default_factory=dict)
    why_not: dict[Key, str] = field(default_factory=dict)  # a colocated instance has no rate
    at_most: dict[Key, float] = field(default_factory=dict)  # of colocated instances that were left out: a rate that is too high for one
    loads: dict[Key, list[Load]] = field(default_factory=dict)  # of a colocated instance

    def fleets(self, rate: float, most_gpus: int, routers: Iterable[str] = ("",)) -> list[Fleet]:
        """The smallest fleet of each kind by the estimate. @param routers  that are tried where there is a choice"""
        found = []
        for (kind, shape), each in self.colocated.items():
            if each:
                found.append(Fleet(kind, shape, instances_for(rate, each)))
        for (kind, shape), each in self.decode.items():
            if each and (prefill := self.prefill.get((kind, shape))):
                found.append(Fleet(kind, shape, 0, instances_for(rate, prefill), instances_for(rate, each)))
        routers = list(routers)
        return [routed for fleet in found if fleet.gpus <= most_gpus for routed in with_routers(fleet, routers)]

    def of(self, fleet: Fleet) -> float:
        """The estimated largest rate of a fleet."""
        key = fleet.kind, fleet.shape
        if fleet.colocated:
            return fleet.colocated * self.colocated[key]
        return min(fleet.prefill * self.prefill[key], fleet.decode * self.decode[key])


def with_routers(fleet: Fleet, routers: list[str]) -> list[Fleet]:
    if len(routers) == 1 or not fleet.has_choice:
        return [fleet]
    return [Fleet(fleet.kind, fleet.shape, fleet.colocated, fleet.prefill, fleet.decode, router) for router in routers]


@dataclass
class Contest:
    """Which fleets may be among the `top` ones with the fewest GPUs or the lowest price."""

    top: int
    prices: Mapping[str, float]
    most: dict[Hashable, tuple[str, float]] = field(default_factory=dict)  # by part and key: GPU, and the most GPUs that the traffic takes

    def _price(self, gpu: str) -> float:
        return self.prices.get(gpu, 1.0)

    def is_lost(self, gpu: str, least: float) -> bool:
        """@param least  GPUs that the traffic takes at least"""
        counts = sorted(count for _, count in self.most.values())
        costs = sorted(count * self._price(of) for of, count in self.most.values())
        if len(counts) < self.top:
            return False
        return least > counts[self.top - 1] and least * self._price(gpu) > costs[self.top - 1]


@dataclass
class Estimator:
    traffic: Traffic
    simulator: Simulator
    contest: Contest
    rates: Rates = field(default_factory=Rates)

    def _search(self) -> Search:
        most = min(MOST, self.traffic.requests.most)
        return Search(min(FIRST, most), most, PRECISION)

    def _together(self, part: str, subjects: dict[Key, tuple[Traffic, Fleet]], searches: dict[Key, Search], starts: dict[Key, float],
                  ends: dict[Key, float], gpus: Callable[[Key, float], float]) -> dict[Key, object]:
        """@param ends  rates above which none is looked for. @param gpus  that the traffic takes, by the rate of an instance"""
        def bounds(key: Key) -> tuple[float, float]:
            """The least and the most GPUs."""
            low, high = searches[key].ends()
            least = gpus(key, high.rate_per_s * (1 + PRECISION)) if high else gpus(key, ends[key])
            return least, gpus(key, low.rate_per_s) if low else math.inf

        def lost(names: Iterable[Key]) -> list[Key]:
            found = {key: bounds(key) for key in searches}
            if part != PREFILL:  # of these alone, nothing is known about a fleet
                self.contest.most |= {(part, key): (key[0].gpu, most) for key, (_, most) in found.items()}
            return [key for key in names if self.contest.is_lost(key[0].gpu, found[key][0])]

        steps = {key: search.largest(starts[key], most=ends[key]) for key, search in searches.items() if not lost([key])}
        return self.simulator.together(part, subjects, steps, lost)

    def colocated(self, keys: list[Key]) -> None:
        rate, rates = self.traffic.rate_per_s, self.rates
        searches = {key: self._search() for key in keys}
        ends = dict.fromkeys(keys, rounded(ENOUGH * rate))
        starts = {key: min(rate, float(key[1].gpus)) for key in keys}
        subjects = {key: (self.traffic, Fleet(*key, 1)) for key in keys}
        answers = self._together(COLOCATED, subjects, searches, starts, ends, lambda key, each: instances_for(rate, each) * key[1].gpus)
        for key in keys:
            rates.colocated[key] = _rate(answers.get(key), ends[key])
            low, high = searches[key].ends()
            if key not in answers and key not in self.simulator.failed and high:
                rates.at_most[key] = high.rate_per_s
            elif not rates.colocated[key]:
                rates.why_not[key] = str(answers.get(key) or self.simulator.failed.get(key, ""))
            rates.loads[key] = sorted(searches[key].loads.values(), key=lambda load: load.rate_per_s)

    def divided(self, keys: list[Key]) -> None:
        """Of instances for prompts and for answers."""
        rate, rates = self.traffic.rate_per_s, self.rates
        prompts = replace(self.traffic, requests=self.traffic.requests.of_prompts())
        of_ttft = [objective for objective in self.simulator.objectives if objective.quantity.startswith("ttft")]
        ends = dict.fromkeys(keys, rounded(ENOUGH * rate))
        if of_ttft:
            every = self.simulator
            self.simulator = Simulator(every.folder, every.executables, every.workers, of_ttft, every.seeds)
            answers = self._together(PREFILL, {key: (prompts, Fleet(*key, 1)) for key in keys}, {key: self._search() for key in keys},
                                     {key: min(rate, 1.5 * (rates.colocated.get(key) or rates.at_most.get(key) or key[1].gpus)) for key in keys}, ends,
                                     lambda key, each: (instances_for(rate, each) + 1) * key[1].gpus)
            self.simulator = every
            rates.prefill = {key: found for key in keys if (found := _rate(answers.get(key), ends[key]))}
        keys = list(rates.prefill)
        before = {key: min(MOST_PREFILL, instances_for(rate, rates.prefill[key])) for key in keys}
        ends = {key: rounded(min(before[key] * rates.prefill[key], ENOUGH * rate)) for key in keys}
        starts = {key: min(rate, end) for key, end in ends.items()}
        subjects = {key: (self.traffic, Fleet(*key, 0, before[key], 1)) for key in keys}
        answers = self._together(DECODE, subjects, {key: self._search() for key in keys}, starts, ends,
                                 lambda key, each: (instances_for(rate, rates.prefill[key]) + instances_for(rate, each)) * key[1].gpus)
        rates.decode = {key: _rate(answers.get(key), ends[key]) for key in keys}

    def beside(self, keys: Iterable[Key]) -> None:
        """Lower loads of some instances, for the chart of interactivity."""
        wanted = {key: rate for key in keys if (rate := self.rates.colocated.get(key))}
        answers = self.simulator.together("low loads", {key: (self.traffic, Fleet(*key, 1)) for key in wanted},
                                          {key: self._search().settle([rounded(share * rate) for share in BESIDE], roughly=True) for key, rate in wanted.items()})
        for key, loads in answers.items():
            self.rates.loads[key] = sorted([*self.rates.loads[key], *loads], key=lambda load: load.rate_per_s)


def _rate(answer: object, end: float) -> float | None:
    """Of a search up to a rate."""
    if isinstance(answer, KneeAbove):
        return end
    return answer.rate_per_s if isinstance(answer, Knee) else None

