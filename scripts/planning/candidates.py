"""The legal mappings with what is known of them before a run: memory, and the estimate of a step."""

from collections import Counter
from collections.abc import Iterable, Mapping as MappingOf
from dataclasses import dataclass, replace

from .estimate import Estimator
from .explain import TERMS, Explainer, Facts
from .space import AXES, RULES, Mapping, Question

GB = 1e-9
NEARLY_AS_FAST = 1.05


@dataclass
class Candidates:
    question: Question
    limit: float  # share of a GPU's memory that may be used
    facts: dict[Mapping, Facts]  # of legal mappings
    fit: list[Mapping]  # the fastest estimate first
    no_memory: list[Mapping]  # the smallest lack first; those of which it is not known last
    refused: Counter[str]  # by the executable, by message
    estimates: dict[Mapping, float]  # s; of mappings that fit

    @staticmethod
    def of(question: Question, limit: float, facts: MappingOf[Mapping, Facts], estimator: Estimator) -> "Candidates":
        refused = Counter(found.error.partition("error: ")[2] or found.error for found in facts.values() if found.error)
        asked = {mapping: found for mapping, found in facts.items() if not found.error}
        fit = sorted((mapping for mapping, found in asked.items() if found.fits(limit)), key=lambda m: (m.schedule, m.pp, m.virtual_stages, m.micro_batches(question)))
        estimates = {mapping: estimator.estimate(mapping, asked[mapping]).step_s for mapping in fit}
        lacking = {mapping: found.largest["total_bytes"] for mapping, found in asked.items() if not found.fits(limit)}
        return Candidates(question, limit, asked, sorted(estimates, key=lambda m: (estimates[m], m)),
                          sorted(lacking, key=lambda m: (asked[m].of_another, lacking[m], m)), refused, estimates)

    def fits(self, mapping: Mapping) -> bool:
        return mapping in self.estimates

    def seconds(self, mapping: Mapping) -> float:
        return self.estimates[mapping]

    def fits_into(self, factor: float) -> list[Mapping]:
        """The mappings that fit into a part of the memory, the fastest estimate first."""
        return [mapping for mapping in self.fit if self.facts[mapping].fits(factor * self.limit)]

    def with_workload(self, settings: MappingOf[str, object], also: Iterable[Mapping], explainer: Explainer, estimator: Estimator) -> list[Mapping]:
        """The mappings that fit with another batch or sequence, the fastest estimate first. Of each shape the fastest as
        given is looked at, and the fastest with the smallest micro-batch.

        @param settings  those of the change
        @param also      mappings that are looked at in any case
        """
        question = replace(self.question, batch=settings.get("workload.global_batch", self.question.batch),
                           seq_tokens=settings.get("workload.seq_tokens", self.question.seq_tokens))
        estimator = estimator.about(question)
        legal = [mapping for mapping in self.fit if not any(is_wrong(mapping, question) for _, is_wrong in RULES)]
        smallest = min((mapping.micro_batch for mapping in legal), default=1)
        looked_at = {m.shape: m for m in reversed(legal)}.values()
        small = {m.shape: m for m in reversed(legal) if m.micro_batch == smallest}.values()
        mappings = list(dict.fromkeys([*looked_at, *small, *(mapping for mapping in also if mapping in legal)]))
        facts = dict(zip(mappings, explainer.ask([mapping.settings(question) | settings for mapping in mappings], lambda done, count: None)))
        seconds = {mapping: estimator.estimate(mapping, found).step_s for mapping, found in facts.items() if not found.error and found.fits(self.limit)}
        return sorted(seconds, key=lambda m: (seconds[m], m))

    def best(self, count: int) -> list[Mapping]:
        """The fastest estimates, at least one; each tp is among them. A tp that is there for this reason only has one mapping: of those that are nearly as fast,
        the one that is simulated soonest. The traffic of replicas takes most of the time."""
        fastest_of = {mapping.tp: mapping for mapping in reversed(self.fit)}
        within = {mapping.tp for mapping in self.fit[:max(1, count - len(fastest_of))]}
        beyond = [(tp, NEARLY_AS_FAST * self.estimates[mapping]) for tp, mapping in fastest_of.items() if tp not in within]

        def traffic(mapping: Mapping) -> float:
            return self.facts[mapping].sent("dp") * mapping.tp * mapping.cp * mapping.pp

        of_tp = [min((mapping for mapping in self.fit if mapping.tp == tp and self.estimates[mapping] <= longest), key=traffic) for tp, longest in beyond]
        rest = sorted((mapping for mapping in self.fit if mapping not in of_tp), key=lambda mapping: mapping.tp not in within)
        return sorted([*of_tp, *rest[:max(1, count - len(of_tp))]], key=self.fit.index)

    def memory(self, mapping: Mapping) -> str:
        """`weights 4.54 + gradients 9.08 + ... = 44.94 GB`, on the rank that needs most."""
        largest = self.facts[mapping].largest
        terms = [f"{name} {GB * largest[f'{name}_bytes']:.2f}" for name in TERMS if largest[f"{name}_bytes"]]
        return " + ".join(terms) + f" = {GB * largest['total_bytes']:.2f} GB"

    def capacity(self, mapping: Mapping) -> float:
        """GB of a GPU that may be used."""
        return GB * self.limit * self.facts[mapping].largest["capacity_bytes"]

    def lack(self, mapping: Mapping) -> float:
        """GB."""
        return GB * self.facts[mapping].largest["total_bytes"] - self.capacity(mapping)

    def nothing_fits(self) -> str:
        if not self.no_memory:
            message, count = self.refused.most_common(1)[0]
            return f"no mapping can run; {count} are refused: {message}"
        best = self.no_memory[0]
        return f"no mapping fits in memory; {best.label} lacks least: {self.lack(best):.2f} GB ({self.memory(best)})"

    def table(self, done: MappingOf) -> list[list]:
        """plan.csv: all mappings that are legal for the executable."""
        rows: list[list] = [[*AXES, "dp", "fits", "memory_bytes", "estimate_s", "step_s"]]
        for mapping in [*self.fit, *self.no_memory]:
            run, facts = done.get(mapping), self.facts[mapping]
            memory = None if facts.of_another else facts.largest["total_bytes"]
            rows.append([*(getattr(mapping, axis) for axis in AXES), mapping.dp(self.question), self.fits(mapping), memory,
                         self.estimates.get(mapping), run.step_s if run and run.summary else None])
        return rows
