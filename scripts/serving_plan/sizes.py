"""How many instances it takes: fleets at the rate of the plan, with one instance less while the objectives hold, or one more."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from loading.judgement import Load
from loading.search import Search

from .estimate import Rates
from .fleet import Fleet, Traffic
from .simulate import Simulator

ROUNDS = 4
FIRST = 600  # requests of a run


@dataclass
class Sizes:
    traffic: Traffic
    rates: Rates
    simulator: Simulator
    most_requests: int
    most_gpus: int
    loads: dict[Fleet, Load] = field(default_factory=dict)

    def look(self, fleets: Iterable[Fleet]) -> None:
        pending = list(fleets)
        for number in range(ROUNDS):
            if not pending:
                return
            answers = self.simulator.together(f"fleets, round {number + 1}", {fleet: self.traffic.scenario(fleet) for fleet in pending},
                                              {fleet: Search(FIRST, self.most_requests, 0.02).settle([self.traffic.rate_per_s]) for fleet in pending})
            self.loads |= {fleet: loads[0] for fleet, loads in answers.items()}
            more = [self._next(fleet) for fleet in pending if fleet in answers]
            pending = [fleet for fleet in dict.fromkeys(more) if fleet and fleet not in self.loads and fleet.gpus <= self.most_gpus]

    def _next(self, fleet: Fleet) -> Fleet | None:
        """One instance less where the objectives hold, else one more; of prefill and decode the one that the estimate says is enough, or lacks."""
        step = -1 if self.loads[fleet].holds else 1
        if fleet.colocated:
            return replace(fleet, colocated=fleet.colocated + step) if fleet.colocated + step > 0 else None
        found = [replace(fleet, **{part: getattr(fleet, part) + step}) for part in ("prefill", "decode") if getattr(fleet, part) + step > 0]
        return max(found, key=self.rates.of, default=None)

    @property
    def holding(self) -> list[Fleet]:
        return [fleet for fleet, load in self.loads.items() if load.holds]


def lost(fleet: Fleet) -> Fleet | None:
    """With one instance less, of a divided fleet one that answers."""
    part = "colocated" if fleet.colocated else "decode"
    return replace(fleet, **{part: getattr(fleet, part) - 1}) if getattr(fleet, part) > 1 else None


def doubled(lengths: object) -> object:
    """A number or a distribution of lengths, all of them twice as long."""
    if isinstance(lengths, dict):
        return {key: value if key == "cv_ratio" else doubled(value) for key, value in lengths.items()}
    return [doubled(value) for value in lengths] if isinstance(lengths, list) else 2 * lengths if isinstance(lengths, (int, float)) else lengths


Changes = dict[str, Callable[[Fleet], tuple[dict, float] | None]]


def changes(traffic: Traffic) -> Changes:
    """What might change: the scenario and the rate with it."""
    return {
        "10 % more requests": lambda fleet: (traffic.scenario(fleet), 1.1 * traffic.rate_per_s),
        "one instance lost": lambda fleet: (traffic.scenario(smaller), traffic.rate_per_s) if (smaller := lost(fleet)) else None,
        "prompts twice as long": lambda fleet: (traffic.scenario(fleet, prompt=doubled(traffic.prompt)), traffic.rate_per_s),
    }
