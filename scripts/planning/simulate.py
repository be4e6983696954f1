"""Simulates mappings as a sweep in OUT, and what would change the decision."""

import argparse
import contextlib
import json
import pathlib
import sys
from collections.abc import Iterable, Mapping as MappingOf, Sequence
from dataclasses import dataclass, replace

from lib import summaries, written
from sweeping import whole
from sweeping.plan import Sweep
from sweeping.store import Store

from .explain import FOLDED
from .machine import Facts
from .savings import without
from .space import EVEN, NO_SAVING, Mapping, Question

RECONSIDERED = 2  # mappings for each change
GROUPS = "machine.overrides."
KERNELS_LONGER = 1.1
KERNELS_CHANGE = "kernels + 10 %"
MEMORY_FACTOR = 0.5
MEMORY_CHANGE = f"memory x {MEMORY_FACTOR:g}"
ROOMY_CHANGE = "memory for all"
ROOMY = {GROUPS + "gpu.hbm.visible_gb": 100_000}
OF_WORKLOAD = ("workload.global_batch", "workload.seq_tokens")


@dataclass(frozen=True)
class Run:
    """A simulated mapping, or the message of a failure."""

    mapping: Mapping
    summary: dict | None
    error: str
    directory: pathlib.Path

    @property
    def metrics(self) -> dict:
        return summaries.metrics(self.summary)

    @property
    def step_s(self) -> float:
        return self.metrics["step_s"]


def changes(facts: Facts, scenario: dict) -> dict[str, dict[str, object]]:
    """What might change, and the settings for it. The longest runs come first, so that the last ones are short."""
    batch, seq = scenario["workload"]["global_batch"], scenario["workload"]["seq_tokens"]
    found: dict[str, dict[str, object]] = {MEMORY_CHANGE: {}}
    if facts.nvlink_gb_per_s:
        found["NVLink x 0.5"] = {GROUPS + "gpu.nvlink.gb_per_s": 0.5 * facts.nvlink_gb_per_s}
    found["sequence x 4"] = {"workload.seq_tokens": 4 * seq}
    found["batch x 4"] = {"workload.global_batch": 4 * batch}
    if facts.cable_gb_per_s and facts.gpus > facts.server_gpus:
        for factor in (2, 0.5):
            rate = factor * facts.cable_gb_per_s
            found[f"network x {factor:g}"] = {f"{GROUPS}{part}.gb_per_s": rate for part in ("nic", "ib_cable", "ib_switch")}
    slower = [{"at_us": 0, "gpu": name, "slow_ratio": round(1 / KERNELS_LONGER, 6)} for name in facts.names]
    found[KERNELS_CHANGE] = {"events": slower}
    if batch > 1:
        found["batch x 0.5"] = {"workload.global_batch": batch // 2}
    return found


def _name(mapping: Mapping, change: str) -> str:
    return f"{mapping.label}, {change}"


def _reconsidered(fastest: Iterable[Mapping]) -> list[Mapping]:
    """The first mappings of different kinds. Mappings are of one kind if they differ only in the split of layers, or in cp and micro-batch with the
    same ratio: a change affects them alike."""
    of_kind: dict[tuple[Mapping, float], Mapping] = {}
    for mapping in fastest:
        kind = replace(mapping, stage_layers=EVEN, cp=1, micro_batch=1), mapping.micro_batch / mapping.cp
        of_kind.setdefault(kind, mapping)
    return list(of_kind.values())[:RECONSIDERED]


class Runs:
    def __init__(self, options: argparse.Namespace, base: pathlib.Path, question: Question) -> None:
        self.options, self.base, self.question = options, base, question
        self.roomy: list[Mapping] = []  # mappings without the savings that make them fit

    def _sweep(self, given: Iterable[Mapping], changed: MappingOf[str, dict], again: MappingOf[str, Sequence[Mapping]]) -> pathlib.Path:
        """The sweep file: mappings as given, and some with each change."""
        named = {mapping.label: {"set": mapping.settings(self.question) | FOLDED} for mapping in given}
        named |= {_name(mapping, change): {"set": mapping.settings(self.question) | FOLDED | changed[change]}
                  for change, mappings in again.items() for mapping in mappings}
        named |= {_name(mapping, ROOMY_CHANGE): {"set": mapping.settings(self.question) | FOLDED | ROOMY} for mapping in self.roomy}
        content = {"schema_version": 1, "scenario": self.base.name, "axes": {"mapping": {"choices": named}}, "objective": {"minimise": "step_s"}}
        path = self.base.with_name("plan.yaml")
        written.text(path, json.dumps(content, indent=1))  # JSON is YAML
        return path

    def _run(self, file: pathlib.Path) -> dict[str, tuple[dict | None, str, pathlib.Path]]:
        """Summary, error and folder by name."""
        options = self.options
        words = [str(file), "--out", str(options.out), "--bin", str(options.bin), "--backend", options.backend, "--workers", str(options.jobs)]
        words += ["--limit-s", str(options.limit_s)] if options.limit_s else []
        parsed = whole.parse_options(words)
        with contextlib.redirect_stdout(sys.stderr):
            if whole.sweep_all(parsed) == whole.INTERRUPTED:
                raise KeyboardInterrupt
        store = Store(parsed.out.resolve())
        found = {}
        for job in whole.make_jobs(Sweep(file), parsed.bin):
            outcome = store.outcome(job.id)
            found[str(job.point.values["mapping"])] = outcome.summary, outcome.error, store.points / job.id
        return found

    def of(self, mappings: Sequence[Mapping]) -> dict[Mapping, Run]:
        """The fastest first; failed ones last."""
        mappings = list(dict.fromkeys(mappings))
        found = self._run(self._sweep(mappings, {}, {}))
        runs = [Run(mapping, *found[mapping.label]) for mapping in mappings]
        return {run.mapping: run for run in sorted(runs, key=lambda run: (run.summary is None, run.step_s if run.summary else 0.0))}

    def costs(self, done: MappingOf[Mapping, Run]) -> dict[Mapping, Run]:
        """Of the fastest mapping with each saving: the same without it, on GPUs that have the memory."""
        fastest = {run.mapping.saving: run.mapping for run in reversed(done.values()) if run.summary and run.mapping.saving != NO_SAVING}
        self.roomy = list(dict.fromkeys(map(without, fastest.values())))
        found = self._run(self._sweep(done, {}, {})) if fastest else {}
        return {mapping: Run(without(mapping), *found[_name(without(mapping), ROOMY_CHANGE)]) for mapping in done if mapping in fastest.values()}

    @staticmethod
    def fastest(done: MappingOf[Mapping, Run]) -> list[Mapping]:
        return _reconsidered(run.mapping for run in done.values() if run.summary)

    def what_if(self, done: MappingOf[Mapping, Run], changed: MappingOf[str, dict], others: MappingOf[str, Sequence[Mapping]]) -> dict[str, list[Run]]:
        """By change: the fastest mappings, run again with it; the fastest first, failed ones last.

        @param others  for changes with which other mappings fit or are fast: those that fit, the fastest estimate first
        """
        fastest = self.fastest(done)
        again = dict.fromkeys(changed, fastest)
        for change, fit in others.items():
            as_given = [mapping for mapping in fastest if mapping in fit]
            first = as_given if change == MEMORY_CHANGE else as_given[:1]  # with less memory a step takes as long
            again[change] = _reconsidered([*first, *fit])
        found = self._run(self._sweep(done, changed, again))
        by_change = {}
        for change, of_change in again.items():
            runs = [Run(mapping, *found[_name(mapping, change)]) for mapping in of_change]
            by_change[change] = sorted(runs, key=lambda run: (run.summary is None, run.step_s if run.summary else 0.0))
        return by_change
