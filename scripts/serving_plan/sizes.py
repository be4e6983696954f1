"""How many instances it takes: fleets at the rate of the plan, with fewer instances while the objectives hold, or more; and what would change it."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from loading.judgement import Load
from loading.search import Knee, KneeAbove, Search, rounded

from .estimate import Rates
from .fleet import Fleet, Traffic
from .simulate import Simulator

ROUNDS, ROUNDS_OF_CHANGES = 8, 4
FIRST, ROUGHLY = 600, 2400  # requests of a run, at first and while its fleet is not among the best
PRECISION = 0.05  # of the largest rate of a fleet
HEADROOM = 2.0  # times the rate of the plan: more is not looked for


@dataclass
class Sizes:
    traffic: Traffic
    rates: Rates
    simulator: Simulator
    most_requests: int
    most_gpus: int
    prices: Mapping[str, float] = field(default_factory=dict)
    shrinks: bool = True  # a plan: fleets that hold are tried with fewer instances; False: what becomes of a plan
    loads: dict[Fleet, Load] = field(default_factory=dict)
    knees: dict[Fleet, float] = field(default_factory=dict)  # requests/s
    broken: dict[Fleet, tuple[str, ...]] = field(default_factory=dict)  # metrics that break beyond, the first one first
    above: set[Fleet] = field(default_factory=set)  # that keep the objectives at HEADROOM times the rate
    _searches: dict[Fleet, Search] = field(default_factory=dict)  # at the rate of the plan

    def look(self, fleets: Iterable[Fleet], what: str = "fleets") -> None:
        """By runs that may leave a load open; then, in a plan, by longer ones where the answer depends on it."""
        pending = list(fleets)
        while pending:
            self._look(pending, what)
            pending = []
            while self.shrinks and (unsure := self._unsure()):
                self.at_rate(unsure, f"{what}, longer runs", self.most_requests)
                pending += self._following(unsure)

    def _look(self, pending: list[Fleet], what: str) -> None:
        for number in range(ROUNDS if self.shrinks else ROUNDS_OF_CHANGES):
            if not pending:
                return
            self.at_rate(pending, f"{what}, round {number + 1}")
            pending = self._following(fleet for fleet in pending if fleet in self.loads)

    def _following(self, fleets: Iterable[Fleet]) -> list[Fleet]:
        """What is to be simulated after these."""
        found = dict.fromkeys(self._next(fleet) for fleet in fleets)
        return [fleet for fleet in found if fleet and fleet not in self.loads and self._is_of_use(fleet)]

    def at_rate(self, fleets: list[Fleet], what: str, most: int = ROUGHLY) -> None:
        """Loads of these fleets at the rate of the plan; of those that can run. @param most  requests of a run"""
        searches = {fleet: self._searches.setdefault(fleet, self._search()) for fleet in fleets}
        for search in searches.values():
            search.most = max(search.first, min(most, self.most_requests, self.traffic.requests.most))
        answers = self.simulator.together(what, {fleet: (self.traffic, fleet) for fleet in fleets},
                                          {fleet: search.settle([self.traffic.rate_per_s]) for fleet, search in searches.items()})
        self.loads |= {fleet: loads[0] for fleet, loads in answers.items()}

    def _unsure(self) -> list[Fleet]:
        """Fleets that longer runs may decide, and whose GPUs or price no other one that holds is below."""
        holding = self.holding
        fewest, cheapest = min((fleet.gpus for fleet in holding), default=math.inf), min(map(self._price, holding), default=math.inf)
        found = []
        for fleet in (fleet for fleet in self.loads if fleet not in self.simulator.failed):
            search = self._searches[fleet]
            search.most = max(search.first, min(self.most_requests, self.traffic.requests.most))
            if (fleet.gpus <= fewest or self._price(fleet) <= cheapest) and not search.is_settled(self.traffic.rate_per_s):
                found.append(fleet)
        return found

    def _search(self) -> Search:
        """Of a trace all requests run: its load is not the same all the time."""
        first = FIRST if self.traffic.requests.is_endless else self.traffic.requests.most
        return Search(int(min(first, self.most_requests)), ROUGHLY, 0.02)

    def _price(self, fleet: Fleet) -> float:
        return fleet.gpus * self.prices.get(fleet.kind.gpu, 1.0)

    def _is_of_use(self, fleet: Fleet) -> bool:
        """Not if another one holds with fewer GPUs, and one at a lower price."""
        if fleet.gpus > self.most_gpus:
            return False
        holding = self.holding
        return not (any(other.gpus < fleet.gpus for other in holding) and any(self._price(other) < self._price(fleet) for other in holding))

    def _next(self, fleet: Fleet) -> Fleet | None:
        """Fewer instances where the objectives hold, else more. The step doubles until both are known; then the middle is next. Of prefill and
        decode instances it is one at a time: those that the estimate says are enough, or are lacking."""
        holds = self.loads[fleet].holds
        if holds and not self.shrinks and (not fleet.colocated or all(load.holds for other, load in self.loads.items() if other.family == fleet.family)):
            return None
        if not fleet.colocated:
            step = -1 if holds else 1
            found = [replace(fleet, **{part: getattr(fleet, part) + step}) for part in ("prefill", "decode") if getattr(fleet, part) + step > 0]
            return max(found, key=self.rates.of, default=None)
        known = {other.colocated: load.holds for other, load in self.loads.items() if other.family == fleet.family}
        broken, enough = max((n for n, held in known.items() if not held), default=None), min((n for n, held in known.items() if held), default=None)
        if broken is None:
            count = max(enough - 2 ** (len(known) - 1), 1)
        elif enough is None:
            count = min(broken + 2 ** (len(known) - 1), self.most_gpus // fleet.shape.gpus)
        else:
            count = (broken + enough) // 2
        return None if count in known else replace(fleet, colocated=count)

    @property
    def holding(self) -> list[Fleet]:
        return [fleet for fleet, load in self.loads.items() if load.holds]

    def smallest(self) -> list[Fleet]:
        """The smallest fleet of each family that holds, the cheapest first."""
        found: dict[tuple, Fleet] = {}
        for fleet in sorted(self.holding, key=lambda fleet: (fleet.gpus, fleet.label)):
            found.setdefault(fleet.family, fleet)
        return sorted(found.values(), key=lambda fleet: (self._price(fleet), fleet.gpus, fleet.label))

    def find_largest(self) -> None:
        """The largest rates: of each family, of the smallest fleet that holds, or of the largest that was simulated. What loads at the plan's rate
        have told is not asked again."""
        of_family = {fleet.family: fleet for fleet in sorted(self.loads, key=lambda fleet: fleet.gpus)}
        fleets = list((of_family | {fleet.family: fleet for fleet in self.smallest()}).values())
        rate = self.traffic.rate_per_s
        first = min(FIRST, self.traffic.requests.most)
        searches = {fleet: Search(first, int(min(ROUGHLY, self.traffic.requests.most)), PRECISION, {rate: self.loads[fleet]}) for fleet in fleets}
        end = rounded(HEADROOM * rate)
        starts = {fleet: min(max(self.rates.of(fleet), 1.1 * rate), end) if self.loads[fleet].holds else min(self.rates.of(fleet), 0.9 * rate) for fleet in fleets}
        answers = self.simulator.together("largest rates", {fleet: (self.traffic, fleet) for fleet in fleets},
                                          {fleet: search.largest(starts[fleet], most=end) for fleet, search in searches.items()})
        for fleet, answer in answers.items():
            if isinstance(answer, Knee):
                self.knees[fleet], self.broken[fleet] = answer.rate_per_s, answer.broken
            elif isinstance(answer, KneeAbove):
                self.knees[fleet] = end
                self.above.add(fleet)


def lost(fleet: Fleet) -> Fleet | None:
    """With one instance less, of a divided fleet one that answers."""
    part = "colocated" if fleet.colocated else "decode"
    return replace(fleet, **{part: getattr(fleet, part) - 1}) if getattr(fleet, part) > 1 else None


MORE, LOST, LONGER = "10 % more requests", "one instance lost", "prompts twice as long"


@dataclass
class Change:
    """What becomes of the winner: its load with the change, and the fleets that keep the objectives then."""

    load: Load | None  # None: nothing is left
    sizes: Sizes
    is_of_loss: bool = False


def changes(sizes: Sizes, winner: Fleet, others: Iterable[Fleet]) -> dict[str, Change]:
    """@param others  the next best fleets, which may be better then"""
    traffic, found = sizes.traffic, {}
    of: Callable[[Traffic], Sizes] = lambda changed: replace(sizes, traffic=changed, shrinks=False, loads={}, knees={}, broken={}, above=set(), _searches={})
    for change, changed in ((MORE, replace(traffic, rate_per_s=1.1 * traffic.rate_per_s)),
                            (LONGER, replace(traffic, requests=traffic.requests.with_doubled_prompts()))):
        then = of(changed)
        then.look([winner, *others], change)
        if change == MORE and winner in then.loads:
            then.at_rate([winner], f"{change}, longer runs", sizes.most_requests)
            then.look([winner], change)
        if winner in then.loads:
            found[change] = Change(then.loads[winner], then)
    fewer, then = lost(winner), of(traffic)
    if fewer:
        then.loads, then._searches = dict(sizes.loads), dict(sizes._searches)
        if fewer not in then.loads:
            then.look([fewer], LOST)
    if not fewer or fewer in then.loads:
        found[LOST] = Change(then.loads.get(fewer) if fewer else None, then, True)
    return found
