"""What the executable says of a mapping without a run: memory by pipeline rank, kernels of the stages, bytes by group.

Answers are kept in OUT/explained.json under the hash of all inputs, so a plan that is repeated asks nothing again. Many mappings do not fit, so these
are asked about only where they may:
  larger micro-batches        where smaller ones fit
  smaller ZeRO stages         where stage 3 would fit without the weights that it gathers
  less or no recomputation    where full recomputation would fit without the activations of the layer that is recomputed
  savings of memory           where the mapping without them would fit without all that they may save
  uneven stages               where the even ones with their layers scaled would fit
  products that overlap with collectives   where those that do not overlap fit. Both need the same memory, and many mappings have the
                              same kernels of a stage, so one of these is asked about

The even stages say how long a layer takes, and so how long the slowest rank takes with uneven ones: the estimate of a step changes by this ratio.
Where it is then more than the slowest estimate that would be simulated, and than the fastest of the same tp, nothing is asked: the mapping is too slow.
"""

import concurrent.futures
import hashlib
import json
import math
import pathlib
import queue
import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping as MappingOf, Sequence
from dataclasses import dataclass, replace

from lib import run_files, runner, written
from sweeping.identity import contents

from .questions import Answers
from .space import EVEN, NO_SAVING, RECOMPUTE, SAVED_TERMS, STAGE_LAYERS, TP_OVERLAP, Mapping, Question, saved

FOLDED = {"simulation.fold": "auto"}  # replicas that are alike run once, and answer once
ANY_FIDELITY = {"fabric.fidelity": "fluid"}  # the answer does not depend on it, and a fluid machine is ready sooner
KEPT = "answers of an executable; delete it to ask again"  # OUT/explained.json
TERMS = ("weights", "gradients", "optimizer", "gathered", "activations", "recomputed", "software")


@dataclass
class Facts:
    """`--explain --json`, or the message of a refusal. `plain_stages` are those without overlap, where products overlap."""

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

    def fits_without(self, terms: Iterable[str], limit: float) -> bool:
        """Whether it would fit without some of the TERMS. @param limit  share of the memory that may be used"""
        return all(rank["total_bytes"] - sum(rank[f"{term}_bytes"] for term in terms) <= limit * rank["capacity_bytes"] for rank in self.answer["memory"])

    def may_fit(self, layers: Sequence[int], limit: float) -> bool:
        """Whether other numbers of layers of the stages might fit: memory is at least that of the layers of the stage that loses most.

        @param limit  share of the memory that may be used
        """
        least: dict[int, float] = {}
        for stage, count in zip(self.answer["stages"], layers):
            least[stage["rank"]] = min(least.get(stage["rank"], 1.0), count / stage["layers"])
        return all(least[rank["pipeline_rank"]] * rank["total_bytes"] <= limit * rank["capacity_bytes"] for rank in self.answer["memory"])

    def slowest_with(self, layers: Sequence[int]) -> float:
        """Time of the kernels of the slowest pipeline rank with other numbers of layers of the stages, over that with its own."""
        seconds = [stage["forward_kernels_s"] + stage["backward_kernels_s"] for stage in self.answer["stages"]]
        of_layer = min(time / stage["layers"] for time, stage in zip(seconds, self.answer["stages"]))
        own, other = Counter[int](), Counter[int]()
        for stage, time, count in zip(self.answer["stages"], seconds, layers):
            own[stage["rank"]] += time
            other[stage["rank"]] += time + (count - stage["layers"]) * of_layer
        return max(other.values()) / max(own.values())

    def sent(self, group: str) -> float:
        """Bytes that a rank sends in a step."""
        return next((found["bytes_per_rank"] for found in self.answer["sent"] if found["group"] == group), 0.0)


def _kernels(mapping: Mapping) -> Mapping:
    """The same for mappings that have the same kernels on the same stages."""
    added = 0 if mapping.zero_stage < 2 else 2  # gradients of micro-batches are added on each rank, or after a reduce-scatter
    return replace(mapping, zero_stage=added, schedule="zbv" if mapping.schedule == "zbv" else "1f1b")


class Explainer:
    """Asks a platform executable about many settings of one scenario, in parallel."""

    def __init__(self, executable: pathlib.Path, scenario: pathlib.Path, store: pathlib.Path, workers: int) -> None:
        self.executable, self.scenario, self.store, self.workers = executable, scenario, store, workers
        self.base = [contents(str(executable)), scenario.read_text(encoding="utf-8")]
        self.known: dict[str, dict] = run_files.json_file(store, {None: {None: run_files.Any}}, KEPT) if store.exists() else {}

    def _key(self, settings: dict) -> str:
        return hashlib.sha256(json.dumps([self.base, settings], sort_keys=True).encode()).hexdigest()[:16]

    def about(self, mappings: Iterable[Mapping], question: Question, limit: float, estimate: Callable[[Mapping, Facts], float], top: int,
              progress: Callable[[int, int], None], before: MappingOf[Mapping, Facts] = types.MappingProxyType({})) -> dict[Mapping, Facts]:
        """Mappings that are too slow are left out.

        @param limit     share of the memory that may be used
        @param estimate  seconds of a step
        @param top       mappings to simulate
        @param before    what is known of others
        """
        facts: dict[Mapping, Facts] = dict(before)
        given = dict.fromkeys(mappings)

        def ask(wanted: Iterable[Mapping], bounds: Sequence[tuple[Callable[[Mapping], Mapping], Callable[[Facts, Mapping], bool]]]) -> None:
            """Of mappings that may not fit, the answer is that of one that needs no more memory.

            @param bounds  mappings that need no more, and whether the mapping may fit by what is known of them
            """
            asked = []
            for mapping in dict.fromkeys(wanted):
                known = ((facts.get(needs_no_more(mapping)), may_fit) for needs_no_more, may_fit in bounds)
                no_more = next((found for found, may_fit in known if found is not None and not found.error and not may_fit(found, mapping)), None)
                if no_more is None:
                    asked.append(mapping)
                else:
                    facts[mapping] = replace(no_more, of_another=True)
            facts.update(zip(asked, self.ask([mapping.settings(question) for mapping in asked], progress)))

        def fits(known: Facts, mapping: Mapping) -> bool:
            return known.fits(limit)

        def overlap(wanted: Iterable[Mapping]) -> None:
            overlapped = {mapping: found for mapping in wanted if mapping.tp_overlap != TP_OVERLAP[0]
                          and (found := facts.get(replace(mapping, tp_overlap=TP_OVERLAP[0]))) is not None}
            facts.update(overlapped)
            fitting = {mapping: known for mapping, known in overlapped.items() if not known.error and known.fits(limit)}
            one_of_each = {_kernels(mapping): mapping for mapping in reversed(fitting)}
            answers = dict(zip(one_of_each, self.ask([mapping.settings(question) for mapping in one_of_each.values()], progress)))
            for mapping, known in fitting.items():
                found = answers[_kernels(mapping)]
                stages = {"stages": found.answer.get("stages"), "plain_stages": known.answer["stages"]}
                facts[mapping] = found if found.error else replace(known, answer=known.answer | stages)

        smaller = (lambda mapping: replace(mapping, micro_batch=mapping.micro_batch // 2), fits)
        divided = (lambda mapping: replace(mapping, zero_stage=most_divided), lambda known, mapping: known.fits_without(["gathered"], limit))
        recomputed = (lambda mapping: replace(mapping, recompute=RECOMPUTE[-1]), lambda known, mapping: known.fits_without(["recomputed"], limit))
        whole = (lambda mapping: replace(mapping, saving=NO_SAVING),
                 lambda known, mapping: known.fits_without({term for key in saved(mapping.saving) for term in SAVED_TERMS[key]}, limit))
        even = dict.fromkeys(replace(mapping, tp_overlap=TP_OVERLAP[0]) for mapping in given if mapping.stage_layers == EVEN)
        most_divided = max(question.zero_stages)
        for size in sorted({mapping.micro_batch for mapping in even}):
            for needs_least in ((True, True), (True, False), (False, True), (False, False)):
                ask((mapping for mapping in even if mapping.micro_batch == size
                     and (mapping.zero_stage == most_divided, mapping.recompute == RECOMPUTE[-1]) == needs_least), [smaller, divided, recomputed, whole])
        overlap(mapping for mapping in given if mapping.stage_layers == EVEN)
        for split in (name for name in STAGE_LAYERS if name != EVEN):
            fast_enough = self._fast_enough(facts, question, limit, estimate, top)
            uneven = [mapping for mapping in given if mapping.stage_layers == split and fast_enough(mapping)]
            plain = list(dict.fromkeys(replace(mapping, tp_overlap=TP_OVERLAP[0]) for mapping in uneven))
            for size in sorted({mapping.micro_batch for mapping in plain}):
                of_size = [mapping for mapping in plain if mapping.micro_batch == size]
                ask((mapping for mapping in of_size if (known := facts.get(replace(mapping, micro_batch=size // 2))) is None or known.error or known.fits(limit)),
                    [(lambda mapping: replace(mapping, stage_layers=EVEN), lambda known, mapping: known.may_fit(mapping.layers(question), limit)), whole])
                ask((mapping for mapping in of_size if mapping not in facts), [smaller])
            overlap(uneven)
        return {mapping: facts[mapping] for mapping in given if mapping in facts}

    @staticmethod
    def _fast_enough(facts: dict[Mapping, Facts], question: Question, limit: float, estimate: Callable[[Mapping, Facts], float],
                     top: int) -> Callable[[Mapping], bool]:
        """Whether a mapping with uneven stages may be among the `top` fastest, or be the fastest of its tp. @param facts  of all even stages, and of some others"""
        fit = sorted((mapping for mapping, found in facts.items() if not found.error and found.fits(limit)),
                     key=lambda m: (m.schedule, m.pp, m.virtual_stages, m.micro_batches(question)))
        seconds = {mapping: estimate(mapping, facts[mapping]) for mapping in fit}
        fitting = sorted((found, mapping) for mapping, found in seconds.items())
        slowest = fitting[top - 1][0] if len(fitting) >= top else math.inf
        of_tp = {mapping.tp: found for found, mapping in reversed(fitting)}

        def fast_enough(mapping: Mapping) -> bool:
            even = replace(mapping, stage_layers=EVEN)
            return even not in seconds or seconds[even] * facts[even].slowest_with(mapping.layers(question)) <= max(slowest, of_tp.get(mapping.tp, math.inf))
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
        if missing:
            idle: queue.SimpleQueue[Answers] = queue.SimpleQueue()
            for _ in range(min(self.workers, len(missing))):
                idle.put(Answers([str(self.executable), str(self.scenario), "--explain-each", "-"]))

            def answer(settings: dict) -> dict:
                process = idle.get()
                try:
                    found = process.to_line("\t".join(runner.set_options(settings | FOLDED | ANY_FIDELITY)[1::2]))
                finally:
                    idle.put(process)
                return found if "error" in found else {key: found[key] for key in ("micro_batches", "stages", "memory", "sent")}

            try:
                with concurrent.futures.ThreadPoolExecutor(idle.qsize()) as pool:
                    for done, (key, found) in enumerate(zip(missing, pool.map(answer, missing.values())), 1):
                        self.known[key] = found
                        progress(done, len(missing))
            finally:
                while not idle.empty():
                    idle.get().close()
                written.text(self.store, json.dumps(self.known))
        return [Facts(self.known[key], self.known[key].get("error", "")) for key, _ in wanted]
