"""The estimate of a plan: the largest rate of one instance by short runs, times the number of instances.

  colocated  the largest rate at which one instance keeps all objectives
  prefill    the same of an instance whose answers have one token, by the objectives of TTFT
  decode     the largest rate of one decode instance behind prefill instances with at least twice its rate

These rates are of runs of at most MOST requests with one seed, to PRECISION: enough to rank. Routing and shared links are in the
simulation of the whole fleet only.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from loading.judgement import Load
from loading.objectives import Objective
from loading.search import Knee, Search

from .fleet import Fleet, Kind, Shape, Traffic
from .simulate import Simulator

FIRST, MOST = 200, 800  # requests of a run
PRECISION = 0.1
MOST_PREFILL = 4  # instances before a decode instance
Key = tuple[Kind, Shape]


@dataclass
class Rates:
    """Requests per second of one instance; None: it keeps the objectives at no rate."""

    colocated: dict[Key, float | None] = field(default_factory=dict)
    prefill: dict[Key, float | None] = field(default_factory=dict)
    decode: dict[Key, float | None] = field(default_factory=dict)
    why_not: dict[Key, str] = field(default_factory=dict)
    loads: dict[Key, list[Load]] = field(default_factory=dict)  # of a colocated instance

    def fleets(self, rate: float, most_gpus: int) -> list[Fleet]:
        """The smallest fleet of each kind by the estimate."""
        found = []
        for (kind, shape), each in self.colocated.items():
            if each:
                found.append(Fleet(kind, shape, math.ceil(rate / each - 1e-9)))
        for (kind, shape), each in self.decode.items():
            if each and (prefill := self.prefill.get((kind, shape))):
                found.append(Fleet(kind, shape, 0, math.ceil(rate / prefill - 1e-9), math.ceil(rate / each - 1e-9)))
        return [fleet for fleet in found if fleet.gpus <= most_gpus]

    def of(self, fleet: Fleet) -> float:
        """The estimated largest rate of a fleet."""
        key = fleet.kind, fleet.shape
        if fleet.colocated:
            return fleet.colocated * self.colocated[key]
        return min(fleet.prefill * self.prefill[key], fleet.decode * self.decode[key])


def rates_of(keys: Iterable[Key], traffic: Traffic, simulator: Simulator, divided: bool) -> Rates:
    """@param divided  also instances for prompts and for answers"""
    found, keys = Rates(), list(keys)
    searches = {key: Search(FIRST, MOST, PRECISION) for key in keys}
    knees = simulator.together("one instance", {key: traffic.scenario(Fleet(*key, 1)) for key in keys},
                               {key: searches[key].largest(_start(traffic, key)) for key in keys})
    for key in keys:
        found.colocated[key] = _rate(knees.get(key))
        if not found.colocated[key]:
            found.why_not[key] = str(knees.get(key) or simulator.failed.get(key, ""))
        found.loads[key] = sorted(searches[key].loads.values(), key=lambda load: load.rate_per_s)
    if not divided:
        return found
    of_prompts = Simulator(simulator.folder, simulator.executables, simulator.workers, _of_ttft(simulator.objectives), simulator.seeds)
    if of_prompts.objectives:
        knees = of_prompts.together("prompts only", {key: traffic.scenario(Fleet(*key, 1), output=1) for key in keys},
                                    {key: Search(FIRST, MOST, PRECISION).largest(_start(traffic, key)) for key in keys})
        found.prefill = {key: _rate(knees.get(key)) for key in keys}
    keys = [key for key in keys if found.prefill.get(key)]
    fleets = {key: Fleet(*key, 0, MOST_PREFILL, 1) for key in keys}
    knees = simulator.together("answers only", {key: traffic.scenario(fleet) for key, fleet in fleets.items()},
                               {key: Search(FIRST, MOST, PRECISION).largest(found.prefill[key], most=MOST_PREFILL * found.prefill[key]) for key in keys})
    for key in keys:
        answer = knees.get(key)
        found.decode[key] = MOST_PREFILL * found.prefill[key] if answer is not None and "the knee is above" in str(answer) else _rate(answer)
    return found


def _start(traffic: Traffic, key: Key) -> float:
    """A first rate of an instance; the search corrects it."""
    return min(traffic.rate_per_s, float(key[1].gpus))


def _rate(answer: object) -> float | None:
    return answer.rate_per_s if isinstance(answer, Knee) else None


def _of_ttft(objectives: list[Objective]) -> list[Objective]:
    return [objective for objective in objectives if objective.quantity.startswith("ttft")]
