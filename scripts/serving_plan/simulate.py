"""Loads of fleets in the folder of a plan. Several searches go on together: each round runs what all of them want next, in parallel."""

import pathlib
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from lib import request_times, runner
from loading.judgement import Load, Run, Verdict
from loading.objectives import Objective
from loading.runs import CHAINS
from loading.search import NoKnee, Steps, Wanted
from sweeping import kept

from .fleet import Fleet, Traffic

OPTIONS = ("--jobs", "none")
Subject = tuple[Traffic, Fleet]


class Replayed(Load):
    """All requests of a trace. A trace has no steady state: what its requests see is the answer."""

    @property
    def grows(self) -> bool:
        return False

    @property
    def verdict(self) -> Verdict:
        return Verdict.BROKEN if any(finding.excess > 0 for finding in self.findings) else Verdict.HOLDS


@dataclass
class Simulator:
    folder: pathlib.Path
    executables: pathlib.Path
    workers: int
    objectives: list[Objective]
    seeds: int
    done: int = 0
    failed: dict[Hashable, str] = field(default_factory=dict)

    def together(self, what: str, subjects: Mapping[Hashable, Subject], searches: Mapping[Hashable, Steps],
                 hopeless: Callable[[Iterable[Hashable]], Iterable[Hashable]] = lambda names: ()) -> dict[Hashable, object]:
        """The answers of searches by their names: a knee, loads, or the NoKnee that ended one. Failed ones are left out.

        @param hopeless  after each round: of the searches that go on, those that are ended without an answer
        """
        answers: dict[Hashable, object] = {}
        wanted: dict[Hashable, Wanted] = {}
        for name, steps in searches.items():
            self._step(name, steps, None, wanted, answers)
        while wanted:
            asked, wanted = wanted, {}
            for name, found in self._measure(subjects, asked).items():
                if isinstance(found, str):
                    self.failed[name] = found
                else:
                    self._step(name, searches[name], found, wanted, answers)
            for name in list(hopeless(wanted)):
                del wanted[name]
            print(f"{what}: {len(searches) - len(wanted)} of {len(searches)} known, {self.done} runs", file=sys.stderr, flush=True)
        return answers

    @staticmethod
    def _step(name: Hashable, steps: Steps, loads: list[Load] | None, wanted: dict, answers: dict) -> None:
        try:
            wanted[name] = next(steps) if loads is None else steps.send(loads)
        except StopIteration as end:
            answers[name] = end.value
        except NoKnee as error:
            answers[name] = error

    def _measure(self, subjects: Mapping[Hashable, Subject], asked: dict[Hashable, Wanted]) -> dict[Hashable, list[Load] | str]:
        """The loads of each search, or why one of its runs failed."""
        points, keys = [], []
        for name, loads in asked.items():
            traffic, fleet = subjects[name]
            for rate, count in loads:
                for seed in range(1, self.seeds + 1):
                    keys.append((name, rate, count, seed))
                    points.append(runner.Point(str(len(points)), fleet.kind.platform, traffic.scenario(fleet, rate, count, seed), options=OPTIONS))
        by_load: dict[tuple, list[Run]] = {}
        failed: dict[Hashable, str] = {}
        for (name, rate, count, seed), result in zip(keys, self._run(points)):
            if result.summary is None:
                failed[name] = result.error
                continue
            path = result.directory / "out" / request_times.FILE
            request_times.without_gaps(path)
            by_load.setdefault((name, rate, count), []).append(Run(seed, result.summary, request_times.read(path, Load.quantities(self.objectives))))

        def load(name: Hashable, rate: float, count: int) -> Load:
            kind = Replayed if count >= subjects[name][0].requests.most else Load
            return kind(rate, count, by_load[name, rate, count], self.objectives)

        return {name: failed.get(name) or [load(name, *one) for one in loads] for name, loads in asked.items()}

    def _run(self, points: list[runner.Point]) -> list[runner.Result]:
        runs = kept.run(points, self.folder, self.executables, self.workers, False, lambda result, done, count: None)
        if not runs.complete:
            raise KeyboardInterrupt
        self.done += len(points)
        return runs.results

    def explained(self, subject: Subject, count: int) -> pathlib.Path | None:
        """The folder of a run with its critical paths; None if it failed."""
        traffic, fleet = subject
        scenario = traffic.scenario(fleet, traffic.rate_per_s, count)
        [result] = self._run([runner.Point("0", fleet.kind.platform, scenario, options=(*OPTIONS, "--why"))])
        if result.summary is None:
            return None
        out = result.directory / "out"
        (out / CHAINS).unlink(missing_ok=True)
        request_times.without_gaps(out / request_times.FILE)
        return out
