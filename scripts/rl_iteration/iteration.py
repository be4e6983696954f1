"""An iteration composed of its phases.

Alternating: rollouts, log-probabilities, updates, weights follow each other; on the same GPUs, the training's state comes from host memory
before the log-probabilities and goes there after the weights. Asynchronous (one step off policy): the next rollouts are made beside
log-probabilities and updates; both wait for the slower one, and then for the weights.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .phases import Phases

PARTS = {"rollouts": "rollouts", "load": "state from host memory", "logprobs": "log-probabilities", "updates": "optimizer steps", "weights": "weights to the service",
         "store": "state to host memory"}
TRAINING = ("load", "logprobs", "updates", "store")  # parts on the GPUs of the training
TAIL = 0.9  # of the samples


@dataclass(frozen=True)
class Times:
    """Seconds of the parts. `rollouts`: of each run."""

    rollouts: tuple[float, ...]
    load: float
    logprobs: float
    updates: float
    weights: float
    store: float

    @property
    def rollouts_mean(self) -> float:
        return statistics.fmean(self.rollouts)

    def part(self, name: str) -> float:
        return self.rollouts_mean if name == "rollouts" else getattr(self, name)

    @property
    def training(self) -> float:
        return sum(self.part(name) for name in TRAINING)

    def iteration(self, schedule: str) -> float:
        if schedule == "asynchronous":
            return statistics.fmean(max(one, self.training) for one in self.rollouts) + self.weights
        return self.rollouts_mean + self.training + self.weights


def times_of(phases: Phases) -> Times:
    return Times(tuple(one.seconds for one in phases.rollouts), phases.load_s, phases.logprobs_s, phases.updates_s, phases.weights_s, phases.store_s)


def waits(times: Times, schedule: str, shares_gpus: bool) -> dict[str, float]:
    """Shares of an iteration in which the GPUs of a side have nothing to do for it."""
    whole = times.iteration(schedule)
    if shares_gpus:
        return {}
    return {"rollouts": 1 - (times.rollouts_mean + times.weights) / whole, "training": 1 - (times.training + times.weights) / whole}


def what_ifs(phases: Phases, times: Times) -> list[tuple[str, float]]:
    """Changes, and the iteration's time with each of them alone."""
    schedule = phases.scenario.iteration.schedule
    tail = tuple(one.done_s(TAIL) for one in phases.rollouts)
    changes: Sequence[tuple[str, Times, str]] = [
        (f"rollouts end when {100 * TAIL:.0f} % of the samples are done", replace(times, rollouts=tail), schedule),
        ("rollouts in half of the time", replace(times, rollouts=tuple(one / 2 for one in times.rollouts)), schedule),
        ("optimizer steps in half of the time", replace(times, updates=times.updates / 2), schedule),
        ("no log-probabilities", replace(times, logprobs=0.0), schedule),
        ("weights in no time", replace(times, weights=0.0), schedule)]
    found = [(what, changed.iteration(of)) for what, changed, of in changes if changed != times]
    if not phases.shares_gpus:
        other = "asynchronous" if schedule == "alternating" else "alternating"
        found.append((f"{other} in place of {schedule}", times.iteration(other)))
    return found
