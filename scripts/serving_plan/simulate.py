"""Loads of scenarios in the folder of a plan. Several searches go on together: each round runs what all of them want next, in parallel."""

import pathlib
import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from lib import request_times, runner
from loading.judgement import Load, Run
from loading.objectives import Objective
from loading.search import NoKnee, Steps, Wanted
from sweeping import kept

OPTIONS = ("--jobs", "none")


@dataclass
class Simulator:
    folder: pathlib.Path
    executables: pathlib.Path
    workers: int
    objectives: list[Objective]
    seeds: int
    done: int = 0
    failed: dict[Hashable, str] = field(default_factory=dict)

    def together(self, what: str, scenarios: Mapping[Hashable, dict], searches: dict[Hashable, Steps]) -> dict[Hashable, object]:
        """The answers of searches by their names: a knee, loads, or the NoKnee that ended one. Failed ones are left out."""
        answers: dict[Hashable, object] = {}
        wanted: dict[Hashable, Wanted] = {}
        for name, steps in searches.items():
            self._step(name, steps, None, wanted, answers)
        while wanted:
            asked, wanted = wanted, {}
            loads = self._measure(scenarios, asked)
            for name, found in loads.items():
                if isinstance(found, str):
                    self.failed[name] = found
                else:
                    self._step(name, searches[name], found, wanted, answers)
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

    def _measure(self, scenarios: Mapping[Hashable, dict], asked: dict[Hashable, Wanted]) -> dict[Hashable, list[Load] | str]:
        """The loads of each search, or why one of its runs failed."""
        points, keys = [], []
        for name, loads in asked.items():
            for rate, count in loads:
                for seed in range(1, self.seeds + 1):
                    scenario = scenarios[name]
                    requests = scenario["workload"]["requests"] | {"rate_per_s": rate, "count": count}
                    changed = scenario | {"seed": seed, "workload": scenario["workload"] | {"requests": requests}}
                    keys.append((name, rate, count, seed))
                    points.append(runner.Point(str(len(points)), scenario["platform"], changed, options=OPTIONS))
        runs = kept.run(points, self.folder, self.executables, self.workers, False, lambda result, done, count: None)
        if not runs.complete:
            raise KeyboardInterrupt
        self.done += len(points)
        by_load: dict[tuple, list[Run]] = {}
        failed: dict[Hashable, str] = {}
        for (name, rate, count, seed), result in zip(keys, runs.results):
            if result.summary is None:
                failed[name] = result.error
                continue
            path = result.directory / "out" / request_times.FILE
            request_times.without_gaps(path)
            by_load.setdefault((name, rate, count), []).append(Run(seed, result.summary, request_times.read(path, Load.quantities(self.objectives))))
        return {name: failed.get(name) or [Load(rate, count, by_load[name, rate, count], self.objectives) for rate, count in loads]
                for name, loads in asked.items()}
