"""Loads as points of a sweep in OUT: the sweep runs them here or on a cluster, keeps what is done, and writes results.sqlite."""

import argparse
import contextlib
import io
import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lib import request_times, written
from sweeping import whole
from sweeping.plan import Sweep
from sweeping.store import Outcome, Store

from .judgement import Load, Run
from .objectives import Objective
from .scenario import Loaded

FILE = "load.yaml"
OBSERVED = ("--iterations",)  # options of a run whose batches are shown
EXPLAINED = ("--why",)
CHAINS = "why.csv"  # of --why: each step of each request; why.json has their sums


class Failed(Exception):
    """A load could not run, in one line."""


@dataclass
class Runs:
    options: argparse.Namespace
    loaded: Loaded
    objectives: list[Objective]
    told: Callable[[Load], None] = lambda load: None
    named: dict[str, dict] = field(default_factory=dict)  # choices of the sweep

    def measure(self, loads: Sequence[tuple[float, int]]) -> list[Load]:
        """@param loads  rates and numbers of requests"""
        seeds = range(self.loaded.seed, self.loaded.seed + self.options.seeds)
        folders = self._run({self._name(rate, count, seed): self._choice(rate, count, seed) for rate, count in loads for seed in seeds})
        found = []
        for rate, count in loads:
            runs = []
            for seed in seeds:
                folder, outcome = folders[self._name(rate, count, seed)]
                path = folder / "out" / request_times.FILE
                request_times.without_gaps(path)
                runs.append(Run(seed, outcome.summary, request_times.read(path, Load.quantities(self.objectives))))
            found.append(Load(rate, count, runs, self.objectives))
            self.told(found[-1])
        return found

    def observe(self, loads: Sequence[tuple[float, int]], explained: tuple[float, int] | None) -> tuple[list[pathlib.Path], pathlib.Path | None]:
        """Folders of results of runs with a row for each batch, and of a run with critical paths."""
        seed = self.loaded.seed
        names = {(rate, count, OBSERVED): self._name(rate, count, seed) + ", batches" for rate, count in loads}
        if explained:
            names[*explained, EXPLAINED] = self._name(*explained, seed) + ", critical paths"
        folders = self._run({name: self._choice(rate, count, seed) | {"options": list(more)} for (rate, count, more), name in names.items()})
        outs = {key: folders[name][0] / "out" for key, name in names.items()}
        for out in outs.values():
            (out / CHAINS).unlink(missing_ok=True)
            request_times.without_gaps(out / request_times.FILE)
        return [outs[rate, count, OBSERVED] for rate, count in loads], outs[*explained, EXPLAINED] if explained else None

    @staticmethod
    def _name(rate: float, count: int, seed: int) -> str:
        return f"{rate:g} requests/s, {count} requests, seed {seed}"

    def _choice(self, rate: float, count: int, seed: int) -> dict:
        return {"set": self.loaded.at(rate, count, seed)}

    def _run(self, choices: dict[str, dict]) -> dict[str, tuple[pathlib.Path, Outcome]]:
        """The folders and outcomes of these points, by name. @throws Failed"""
        self.named |= choices
        options = self.options
        content = {"schema_version": 1, "scenario": str(self.loaded.path), "options": ["--jobs", "none"],
                   "axes": {"load": {"choices": self.named}}}
        path = options.out / FILE
        written.text(path, json.dumps(content, indent=1))  # JSON is YAML
        words = [str(path), "--out", str(options.out), "--bin", str(options.bin), "--backend", options.backend, "--workers", str(options.workers),
                 *(f"--sbatch={word}" for word in options.sbatch), *(["--limit-s", str(options.limit_s)] if options.limit_s else [])]
        parsed = whole.parse_options(words)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(sys.stderr if options.verbose else io.StringIO()):
            try:
                if whole.sweep_all(parsed) == whole.INTERRUPTED:
                    raise KeyboardInterrupt
            except BaseException:
                if not Store(parsed.out.resolve()).points.exists():
                    path.unlink()
                raise
        store, found = Store(parsed.out.resolve()), {}
        for job in whole.make_jobs(Sweep(path), parsed.bin):
            name = str(job.point.values["load"])
            if name in choices:
                outcome = store.outcome(job.id)
                if outcome.summary is None:
                    raise Failed(f"{name}: {outcome.error or 'is missing'}")
                found[name] = store.points / job.id, outcome
        return found
