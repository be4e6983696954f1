"""The process of a run from a simulated step and how the run is operated."""

import math
from dataclasses import dataclass, replace

from . import best, checkpoints, formulas, stragglers
from .checkpoints import Cost
from .operation import BEST, Operation
from .process import Cause, Process
from .step import Simulator, Step

HOUR_S = 3600.0
LEAST_CHANCE = 1e-3  # that a segment ends without a failure


@dataclass(frozen=True)
class Intervals:
    """Training from a checkpoint to the next one, in seconds."""

    chosen_s: float  # in whole steps
    least_s: float  # so that a checkpoint is written before the next one
    young_s: float | None = None  # without failures, no interval is best
    daly_s: float | None = None
    formula_s: float | None = None
    simulated_s: float | None = None


@dataclass(frozen=True)
class Composed:
    process: Process
    cost: Cost
    intervals: Intervals
    narrow_s: float | None  # a step beside a write, if it was simulated

    @property
    def extra_s(self) -> float:
        """What the steps beside one write take longer."""
        return self.process.writing_s * (1 - 1 / self.process.slowdown)

    def segment_s(self, training_s: float) -> float:
        """From a checkpoint to the next one, with all pauses."""
        process = self.process
        looks = training_s / (process.step_s * process.stragglers.mean) / process.evaluation_steps if process.evaluation_steps else 0.0
        return training_s + process.pause_s + self.extra_s + looks * process.evaluation_s

    def goodput(self, training_s: float) -> float:
        """By the closed form, with a server for every failure: steps as simulated / time."""
        process = self.process
        useful = training_s / process.stragglers.mean
        return useful / formulas.between_safe_s(process.mtbf_s, self.segment_s(training_s), process.writing_s, process.recovery_s)


def what_ifs(composed: Composed, operation: Operation) -> list[tuple[str, float]]:
    """Changes, and goodput by the closed form with each of them alone; the first entry is the run as it is."""
    process, intervals = composed.process, composed.intervals
    rarer = tuple(replace(cause, rate_per_s=cause.rate_per_s / 2) for cause in process.causes)
    changes = {"as it is": process}
    if process.causes:
        changes["failures half as often"] = replace(process, causes=rarer)
        changes["failures detected in half of the time"] = replace(process, detection_s=process.detection_s / 2)
        changes["the job starts in half of the time"] = replace(process, restart_s=process.restart_s / 2)
        changes["checkpoints copied, written and read in half of the time"] = replace(
            process, pause_s=process.pause_s / 2, writing_s=process.writing_s / 2, reload_s=process.reload_s / 2)
    if not process.stragglers.are_none:
        changes["no slow members"] = replace(process, stragglers=stragglers.Stragglers())
    if process.evaluation_steps:
        changes["no evaluation"] = replace(process, evaluation_steps=0)
    found = []
    for what, changed in changes.items():
        other = replace(composed, process=changed)
        training_s = intervals.chosen_s * changed.stragglers.mean / process.stragglers.mean
        if changed.causes and what != "as it is" and operation.checkpoint.interval_s == BEST:
            training_s = max(formulas.best_s(changed.pause_s + other.extra_s, changed.mtbf_s), changed.pause_s + changed.writing_s)
        found.append((what, other.goodput(training_s)))
    return found


def _causes(step: Step, operation: Operation) -> tuple[Cause, ...]:
    failures = operation.failures
    hours = {"gpu": failures.gpu_mtbf_h, "nic": failures.nic_mtbf_h, "server": failures.server_mtbf_h}
    causes = [Cause(name, step.members[name] / mtbf / HOUR_S, True) for name, mtbf in hours.items() if mtbf and step.members[name]]
    if failures.job_mtbf_h:
        causes.append(Cause("job", 1 / failures.job_mtbf_h / HOUR_S, False))
    return tuple(causes)


def compose(step: Step, operation: Operation, simulator: Simulator, tokens: float, seed: int) -> Composed:
    """@throws InputError, step.Failed"""
    cost = checkpoints.cost_of(step, operation)
    narrow_s = None
    if cost.nic_share > 0 and step.servers > 1:
        narrow_s = simulator.narrow_s(step.server.nic_gb_per_s * (1 - cost.nic_share))
    slowdown = max(1.0, narrow_s / step.seconds) if narrow_s else 1.0
    slow = {}
    for i, one in enumerate(operation.stragglers):
        if one.of == "nic" and not step.server.nics:
            raise operation.wrong("stragglers", f"{i}.of: nic: the machine has no NICs")
        if one.share and (one.of, one.rate_ratio) not in slow:
            slow[one.of, one.rate_ratio] = max(1.0, simulator.slow_s(one.of, step.first[one.of], one.rate_ratio) / step.seconds)
    members = stragglers.of(operation.stragglers, step.members, slow)
    causes, failures, evaluation = _causes(step, operation), operation.failures, operation.evaluation
    looks_s = (evaluation.pause_s or 0.0) + (step.evaluation_s(evaluation.sequences) if evaluation.sequences else 0.0)
    steps = math.ceil(tokens / step.tokens)
    process = Process(steps, step.seconds, steps, cost.pause_s, cost.writing_s, slowdown, evaluation.interval_steps or 0, looks_s, members,
                      causes, failures.detection_s, failures.restart_s or 0.0, cost.reload_s, failures.spares, (failures.repair_h or 0.0) * HOUR_S)
    intervals = _intervals(Composed(process, cost, Intervals(0.0, 0.0), narrow_s), operation, seed)
    mean_s = process.step_s * members.mean
    interval = min(steps, max(1, round(intervals.chosen_s / mean_s), math.ceil(intervals.least_s / mean_s)))
    composed = Composed(replace(process, interval=interval), cost, replace(intervals, chosen_s=interval * mean_s), narrow_s)
    _check_end(composed.process, composed.segment_s(composed.intervals.chosen_s), operation)
    return composed


def _intervals(composed: Composed, operation: Operation, seed: int) -> Intervals:
    process, cost = composed.process, composed.cost
    least_s = cost.pause_s + cost.writing_s
    asked = operation.checkpoint.interval_s
    if asked != BEST and operation.checkpoint.mode != "none" and asked < least_s:
        raise operation.wrong("checkpoint.interval_s", f"a checkpoint takes longer than its interval: {least_s:.4g} s of {asked:g} s; {cost.limit} limits it")
    whole_s = process.steps * process.step_s * process.stragglers.mean
    if not process.causes or operation.checkpoint.mode == "none":
        return Intervals(whole_s if asked == BEST or operation.checkpoint.mode == "none" else asked, least_s)
    _check_end(process, least_s, operation)
    price_s, mtbf_s = process.pause_s + composed.extra_s, process.mtbf_s
    simulated_s = best.interval_s(mtbf_s, process.pause_s, composed.extra_s, process.writing_s, process.recovery_s, seed)
    return Intervals(max(simulated_s, least_s) if asked == BEST else asked, least_s, formulas.young_s(price_s, mtbf_s), formulas.daly_s(price_s, mtbf_s),
                     formulas.best_s(price_s, mtbf_s), simulated_s)


def _check_end(process: Process, segment_s: float, operation: Operation) -> None:
    """@param segment_s  from a checkpoint to the next one"""
    for what, seconds, key in (("of a restart", process.recovery_s, "failures.restart_s"),
                               ("from a checkpoint to the next safe one", segment_s + process.writing_s, "checkpoint.interval_s")):
        if math.exp(-seconds / process.mtbf_s) < LEAST_CHANCE:
            raise operation.wrong(key, f"the run does not end: failures are {process.mtbf_s:.4g} s apart, and the time {what} is {seconds:.4g} s")
