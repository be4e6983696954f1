"""A run as a process of steps and failures, from a seed: failures are a Poisson process; what follows each of them is played out.

From a restart to the next failure, steps follow each other with their pauses. What is safe at the failure stays done: the steps up to the last
checkpoint that was written by then. All time since that checkpoint began to be outdated is lost. Every second of the run belongs to one part.
"""

import heapq
import math
from dataclasses import dataclass, field

import numpy as np

from .stragglers import Stragglers

# Parts of a run's time, with what they are.
PARTS = {
    "steps": "steps, as simulated",
    "stragglers": "waiting for slow members",
    "checkpoints": "pauses for checkpoints",
    "contention": "steps slowed by writes",
    "evaluation": "pauses for evaluation",
    "lost": "lost with failures, and done again",
    "detection": "until a failure is detected",
    "spares": "waiting for a server",
    "restart": "start of the job",
    "reload": "reading the checkpoint",
}
BATCH = 1 << 16  # steps that are drawn at a time, about
MOST_FAILURES = 1_000_000  # of a run


@dataclass(frozen=True)
class Cause:
    """Of failures."""

    name: str
    rate_per_s: float
    takes_server: bool


@dataclass(frozen=True)
class Process:
    """A run. Times in seconds."""

    steps: int
    step_s: float
    interval: int  # steps from a checkpoint to the next one
    pause_s: float = 0.0  # of a checkpoint
    writing_s: float = 0.0  # after the pause, until it is safe
    slowdown: float = 1.0  # of steps beside that
    evaluation_steps: int = 0  # 0: none
    evaluation_s: float = 0.0
    stragglers: Stragglers = Stragglers()
    causes: tuple[Cause, ...] = ()
    detection_s: float = 0.0
    restart_s: float = 0.0
    reload_s: float = 0.0
    spares: int | None = None  # None: always one
    repair_s: float = 0.0

    @property
    def rate_per_s(self) -> float:
        return sum(cause.rate_per_s for cause in self.causes)

    @property
    def mtbf_s(self) -> float:
        return 1 / self.rate_per_s if self.causes else math.inf

    @property
    def is_random(self) -> bool:
        return bool(self.causes) or not self.stragglers.are_none

    @property
    def recovery_s(self) -> float:
        """From a failure to the first step, if a server is there."""
        return self.detection_s + self.restart_s + self.reload_s


@dataclass
class Run:
    """What became of a run."""

    parts_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    failures: dict[str, int] = field(default_factory=dict)  # by cause
    checkpoints: int = 0  # written, those of lost steps too
    without_spare: int = 0  # failures that found no spare server

    @property
    def total_s(self) -> float:
        return sum(self.parts_s.values())


class Endless(Exception):
    """A run with too many failures, in one line."""


class _Player:
    def __init__(self, process: Process, seed: int) -> None:
        self.process = process
        # Streams of their own: another interval meets the same failures.
        self.failing, self.stepping = (np.random.default_rng([seed, stream]) for stream in range(2))
        self.run = Run(failures={cause.name: 0 for cause in process.causes})
        self.returning: list[float] = []  # instants at which servers are spares again
        self.idle_spares = process.spares or 0

    def gap(self) -> float:
        return float(self.failing.exponential(self.process.mtbf_s)) if self.process.causes else math.inf

    def spend(self, part: str, seconds: float) -> None:
        self.run.parts_s[part] += seconds

    def play(self) -> Run:
        done = 0
        while done < self.process.steps:
            left_s = self.gap()
            done = self.train(done, left_s)
            if done < self.process.steps:
                self.recover()
        return self.run

    def train(self, done: int, left_s: float) -> int:
        """From a safe checkpoint to the next failure, or to the end. @return steps that are safe then"""
        process = self.process
        standing = process.stragglers.standing(self.stepping)
        spent_s, is_first = 0.0, True
        while True:
            wanted = min(BATCH, (left_s - spent_s) / process.step_s if math.isfinite(left_s) else math.inf)
            segments = math.ceil(wanted / process.interval) + 1
            count = min(segments * process.interval, process.steps - done)
            factors = process.stragglers.factors(self.stepping, standing, count)
            alone = np.full(count, process.step_s)
            steps = alone * factors
            slowed = self.slowed(steps, is_first)
            place = np.arange(done + 1, done + count + 1)
            saves = (np.arange(1, count + 1) % process.interval == 0) | (place == process.steps)
            pauses = np.where(saves, process.pause_s, 0.0)
            looks = np.where(place % process.evaluation_steps == 0, process.evaluation_s, 0.0) if process.evaluation_steps else np.zeros(count)
            ends = spent_s + np.cumsum(steps + slowed + pauses + looks)
            saved = np.flatnonzero(saves)
            ends_of_saves = ends[saved] - looks[saved]  # the evaluation follows the checkpoint
            safe = int(np.count_nonzero(ends_of_saves + process.writing_s <= left_s))
            kept = int(saved[safe - 1]) + 1 if safe else 0
            self.run.checkpoints += int(np.count_nonzero(ends_of_saves <= left_s))
            for part, seconds in (("steps", alone), ("stragglers", steps - alone), ("checkpoints", pauses), ("contention", slowed)):
                self.spend(part, float(seconds[:kept].sum()))
            # The pause after the last safe checkpoint is lost if the failure follows; at the end of the run there is none.
            self.spend("evaluation", float(looks[:max(0, kept - 1)].sum()))
            done += kept
            if done == process.steps:
                self.spend("checkpoints", process.writing_s)
                return done
            if safe < len(saved) or ends[-1] > left_s:
                self.spend("lost", left_s - (float(ends_of_saves[safe - 1]) if safe else spent_s))
                return done
            self.spend("evaluation", float(looks[-1]))
            spent_s, is_first = float(ends[-1]), False

    def slowed(self, steps: np.ndarray, is_first: bool) -> np.ndarray:
        """What steps take longer because the checkpoint before is written beside them."""
        process = self.process
        if process.slowdown == 1 or process.writing_s == 0:
            return np.zeros_like(steps)
        places = np.arange(len(steps))
        ends = np.cumsum(steps)
        first_of = places - places % process.interval
        begin_of = ends[first_of] - steps[first_of]
        beside = process.writing_s / process.slowdown  # of undisturbed time
        until, since = np.minimum(ends - begin_of, beside), np.minimum(ends - steps - begin_of, beside)
        return np.where((places < process.interval) & is_first, 0.0, (until - since) * (process.slowdown - 1))

    def fails(self) -> None:
        """A failure happens now: its cause, and what becomes of the server."""
        process = self.process
        if sum(self.run.failures.values()) >= MOST_FAILURES:
            raise Endless(f"more than {MOST_FAILURES} failures: steps are lost as fast as they are done; a smaller checkpoint.interval_s helps")
        at = self.failing.random() * process.rate_per_s
        cause = process.causes[-1]
        for one in process.causes:
            if at < one.rate_per_s:
                cause = one
                break
            at -= one.rate_per_s
        self.run.failures[cause.name] += 1
        if not cause.takes_server or process.spares is None:
            return
        now = self.run.total_s
        while self.returning and self.returning[0] <= now:
            heapq.heappop(self.returning)
            self.idle_spares += 1
        heapq.heappush(self.returning, now + process.repair_s)
        if self.idle_spares:
            self.idle_spares -= 1
            return
        self.run.without_spare += 1
        self.spend("spares", heapq.heappop(self.returning) - now)

    def recover(self) -> None:
        """From a failure to the next step. A failure on the way begins it again. While the job waits for a server, nothing fails."""
        process = self.process
        while True:
            self.fails()
            left_s = self.gap()
            for part, seconds in (("detection", process.detection_s), ("restart", process.restart_s), ("reload", process.reload_s)):
                self.spend(part, min(seconds, left_s))
                left_s -= seconds
                if left_s < 0:
                    break
            else:
                return


def play(process: Process, seed: int) -> Run:
    """@throws Endless"""
    return _Player(process, seed).play()
