"""What the executable says of a mapping without a run: memory by pipeline rank, kernels of the stages, bytes by group.

Answers are kept in OUT/explained.json under the hash of all inputs, so a plan that is repeated asks nothing again. Few mappings fit, so three axes
are asked about only where they may: larger micro-batches, where smaller ones fit; uneven stages, where the even ones with their layers scaled
would fit; products that overlap with collectives, where those that do not overlap fit. Both need the same memory, and the kernels of a stage do not
depend on ZeRO stage and schedule, so one mapping of many is asked about overlapped products.

Uneven stages can at best take the mean time of the even ones, so a step takes at least the estimate with even stages x mean / longest stage. Where
this is more than the slowest estimate that would be simulated, and than the fastest of the same tp, nothing is asked: the mapping is too slow.
"""

import concurrent.futures
import hashlib
import json
import math
import pathlib
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import runner
from sweeping.identity import contents

from .space import EVEN, TP_OVERLAP, Mapping, Question

FOLDED = {"simulation.fold": "auto"}  # replicas that are alike run once, and answer once
TERMS = ("weights", "gradients", "optimizer", "gathered", "activations", "recomputed", "software")


@dataclass
class Facts:
    """`--explain --json`, or the message of a refusal."""

    answer: dict
    error: str = ""
    of_another: bool = False  # the answer is that of a mapping that needs no more memory and does not fit

    @property
    def largest(self) -> dict:
        """The memory of the pipeline rank that needs most."""
        return max(self.answer["memory"], key=lambda rank: rank["total_bytes"])

    def fits(self, limit: float) -> bool:
        """@param limit  share of the memory that may be used"""
        return all(rank["total_bytes"] <= limit * rank["capacity_bytes"] for rank in self.answer["memory"])

    def may_fit(self, layers: Sequence[int], limit: float) -> bool:
        """Whether other numbers of layers of the stages might fit: memory is at least that of the layers of the stage that loses most.

        @param limit  share of the memory that may be used
        """
        least: dict[int, float] = {}
        for stage, count in zip(self.answer["stages"], layers):
            least[stage["rank"]] = min(least.get(stage["rank"], 1.0), count / stage["layers"])
        return all(least[rank["pipeline_rank"]] * rank["total_bytes"] <= limit * rank["capacity_bytes"] for rank in self.answer["memory"])

    def balance(self) -> float:
        """Mean time of a stage's kernels over the longest."""
        seconds = [stage["forward_kernels_s"] + stage["backward_kernels_s"] for stage in self.answer["stages"]]
        return sum(seconds) / (len(seconds) * max(seconds))

    def sent(self, group: str) -> float:
        """Bytes that a rank sends in a step."""
        return next((found["bytes_per_rank"] for found in self.answer["sent"] if found["group"] == group), 0.0)


def _kernels(mapping: Mapping) -> Mapping:
    """The same for mappings that have the same kernels on the same stages."""
    return replace(mapping, zero_stage=0, schedule="zbv" if mapping.schedule == "zbv" else "1f1b")


class Explainer:
    """Asks a platform executable about many settings of one scenario, in parallel."""

    def __init__(self, executable: pathlib.Path, scenario: pathlib.Path, store: pathlib.Path, workers: int) -> None:
        self.executable, self.scenario, self.store, self.workers = executable, scenario, store, workers
        self.base = [contents(str(executable)), scenario.read_text(encoding="utf-8")]
        self.known: dict[str, dict] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}

    def _key(self, settings: dict) -> str:
        return hashlib.sha256(json.dumps([self.base, settings], sort_keys=True).encode()).hexdigest()[:16]

    def _ask(self, settings: dict) -> dict:
        command = [str(self.executable), str(self.scenario), "--explain", "--json", *runner.set_options(settings | FOLDED)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit status {done.returncode}"}
        answer = json.loads(done.stdout)
        return {key: answer[key] for key in ("micro_batches", "stages", "memory", "sent")}

    def about(self, mappings: Iterable[Mapping], question: Question, limit: float, estimate: Callable[[Mapping, Facts], float], top: int,
              progress: Callable[[int, int], None]) -> dict[Mapping, Facts]:
        """Mappings that are too slow are left out.

        @param limit     share of the memory that may be used
        @param estimate  seconds of a step
        @param top       mappings to simulate
        """
        facts: dict[Mapping, Facts] = {}
        given = dict.fromkeys(mappings)

        def ask(wanted: Iterable[Mapping], needs_no_more: Callable[[Mapping], Mapping], may_fit: Callable[[Facts, Mapping], bool]) -> None:
            """Of mappings that may not fit, the answer is that of the one that needs no more memory."""
            asked = []
            for mapping in dict.fromkeys(wanted):
                known = facts.get(needs_no_more(mapping))
                if known is None or known.error or may_fit(known, mapping):
                    asked.append(mapping)
                else:
                    facts[mapping] = replace(known, of_another=True)
            facts.update(zip(asked, self.ask([mapping.settings(question) for mapping in asked], progress)))

        def fits(known: Facts, mapping: Mapping) -> bool:
            return known.fits(limit)

        def overlap(layers_are_even: bool) -> None:
            overlapped = {mapping: found for mapping in given if mapping.tp_overlap != TP_OVERLAP[0] and (mapping.stage_layers == EVEN) == layers_are_even
                          and (found := facts.get(replace(mapping, tp_overlap=TP_OVERLAP[0]))) is not None}
            facts.update(overlapped)
            fitting = {mapping: known for mapping, known in overlapped.items() if not known.error and known.fits(limit)}
            one_of_each = {_kernels(mapping): mapping for mapping in reversed(fitting)}
            answers = dict(zip(one_of_each, self.ask([mapping.settings(question) for mapping in one_of_each.values()], progress)))
            for mapping, known in fitting.items():
                found = answers[_kernels(mapping)]
                facts[mapping] = found if found.error else replace(known, answer=known.answer | {"stages": found.answer["stages"]})

        plain = [replace(mapping, tp_overlap=TP_OVERLAP[0]) for mapping in given]
        for size in sorted({mapping.micro_batch for mapping in given}):
            ask((mapping for mapping in plain if mapping.stage_layers == EVEN and mapping.micro_batch == size),
                lambda mapping: replace(mapping, micro_batch=mapping.micro_batch // 2), fits)
        overlap(True)
        fast_enough = self._fast_enough(facts, question, limit, estimate, top)
        uneven = list(dict.fromkeys(replace(mapping, tp_overlap=TP_OVERLAP[0])
                                    for mapping in given if mapping.stage_layers != EVEN and fast_enough(mapping)))
        for size in sorted({mapping.micro_batch for mapping in uneven}):
            of_size = [mapping for mapping in uneven if mapping.micro_batch == size]
            ask((mapping for mapping in of_size if (smaller := facts.get(replace(mapping, micro_batch=size // 2))) is None or smaller.error or smaller.fits(limit)),
                lambda mapping: replace(mapping, stage_layers=EVEN), lambda known, mapping: known.may_fit(mapping.layers(question), limit))
            ask((mapping for mapping in of_size if mapping not in facts), lambda mapping: replace(mapping, micro_batch=mapping.micro_batch // 2), fits)
        overlap(False)
        return {mapping: facts[mapping] for mapping in given if mapping in facts}

    @staticmethod
    def _fast_enough(facts: dict[Mapping, Facts], question: Question, limit: float, estimate: Callable[[Mapping, Facts], float],
                     top: int) -> Callable[[Mapping], bool]:
        """Whether a mapping with uneven stages may be among the `top` fastest, or be the fastest of its tp. @param facts  of all even stages"""
        fit = sorted((mapping for mapping, found in facts.items() if not found.error and found.fits(limit)),
                     key=lambda m: (m.schedule, m.pp, m.virtual_stages, m.micro_batches(question)))
        seconds = {mapping: estimate(mapping, facts[mapping]) for mapping in fit}
        fitting = sorted((found, mapping) for mapping, found in seconds.items())
        slowest = fitting[top - 1][0] if len(fitting) >= top else math.inf
        of_tp = {mapping.tp: found for found, mapping in reversed(fitting)}

        def fast_enough(mapping: Mapping) -> bool:
            even = replace(mapping, stage_layers=EVEN)
            return even not in seconds or seconds[even] * facts[even].balance() <= max(slowest, of_tp.get(mapping.tp, math.inf))
        return fast_enough

    def head_layers(self, question: Question) -> int:
        """How many layers take as long as the head, from a pipeline whose second stage has one layer; 1 if the executable refuses it."""
        layers = question.model.layers
        if layers < 2 or question.gpus < 2:
            return 1
        settings = {"workload.pp": 2, "workload.dp": 1, "workload.stage_layers": [layers - 1, 1]}
        [found] = self.ask([settings], lambda done, count: None)
        if found.error:
            return 1
        first, last = (stage["forward_kernels_s"] + stage["backward_kernels_s"] for stage in found.answer["stages"])
        return max(1, round((last * (layers - 1) - first) / first))

    def ask(self, all_settings: Iterable[dict], progress: Callable[[int, int], None]) -> list[Facts]:
        wanted = [(self._key(settings), settings) for settings in all_settings]
        missing = {key: settings for key, settings in wanted if key not in self.known}
        try:
            with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
                for done, (key, answer) in enumerate(zip(missing, pool.map(self._ask, missing.values())), 1):
                    self.known[key] = answer
                    progress(done, len(missing))
        finally:
            if missing:
                self.store.write_text(json.dumps(self.known), encoding="utf-8")
        return [Facts(self.known[key], self.known[key].get("error", "")) for key, _ in wanted]
