"""The result of a plan as text, JSON, CSV and a page."""

import csv
import io
import json
import pathlib
from dataclasses import dataclass

from lib.request_times import percentile
from loading import cost
from loading.judgement import Load
from loading.objectives import Objective
from loading.result import duration_text
from loading.search import Knee
from reporting.lines import Bars, Dot, Line, Lines
from reporting.markup import element
from reporting.page import chart_section, document, facts_list, section, text_table

from .estimate import Rates
from .fleet import Fleet, Traffic
from .sizes import Sizes
from .space import Space

ESTIMATE = "The estimate: the largest rate of one instance by short runs, times the instances; of prefill and decode instances the smaller of both."


@dataclass
class Decision:
    traffic: Traffic
    objectives: list[Objective]
    space: Space
    rates: Rates
    sizes: Sizes
    prices: dict[str, float]
    budget: float | None
    knees: dict[Fleet, Knee]
    what_if: dict[str, Load]  # of the winner

    # -- what is chosen

    def per_hour(self, fleet: Fleet) -> float | None:
        return fleet.gpus * self.prices[fleet.kind.gpu] if self.prices else None

    @property
    def affordable(self) -> list[Fleet]:
        return [fleet for fleet in self.sizes.holding if self.budget is None or self.per_hour(fleet) <= self.budget]

    def best(self) -> dict[str, Fleet]:
        """By question. Ties go to the fleet with more room below its limits."""
        fleets = self.affordable
        if not fleets:
            return {}
        level = {fleet: max((finding.level for finding in self.sizes.loads[fleet].findings), default=0.0) for fleet in fleets}
        found = {"fewest GPUs": min(fleets, key=lambda fleet: (fleet.gpus, level[fleet], fleet.label))}
        if self.prices:
            found["cheapest"] = min(fleets, key=lambda fleet: (self.per_hour(fleet), level[fleet], fleet.label))
        if known := [fleet for fleet in fleets if fleet in self.knees]:
            found["best per GPU"] = max(known, key=lambda fleet: self.knees[fleet].rate_per_s / fleet.gpus)
            found["most headroom"] = max(known, key=lambda fleet: self.knees[fleet].rate_per_s)
        return found

    @property
    def winner(self) -> Fleet | None:
        best = self.best()
        return best.get("cheapest") or best.get("fewest GPUs")

    # -- tables

    def ranked(self) -> list[Fleet]:
        return sorted(self.sizes.loads, key=lambda fleet: (not self.sizes.loads[fleet].holds, self.per_hour(fleet) or fleet.gpus, fleet.gpus, fleet.label))

    def table(self) -> tuple[list[str], list[list[str]]]:
        price = ["per hour", "per 1M out"] if self.prices else []
        head = ["fleet", "GPUs", *price, "holds", *(objective.label for objective in self.objectives), "tokens/s/user", "tokens/s/GPU", "estimate/s", "largest rate"]
        rows = []
        for fleet in self.ranked():
            load = self.sizes.loads[fleet]
            spent = cost.of_load(load, self.prices)
            tokens, times = load.mean("middle.output_tokens_per_s"), load.times("tpot")
            row = [fleet.label, str(fleet.gpus)]
            if self.prices:
                row += [f"{self.per_hour(fleet):.3g}", f"{spent.per_million_output:.3g}" if spent else ""]
            row += ["yes" if load.holds else "no"]
            row += [duration_text(finding.value) if finding.objective.quantity else f"{finding.value:.3g}" for finding in load.findings]
            row += [f"{1 / percentile(times, 50):.3g}" if times else "", f"{tokens / fleet.gpus:.0f}" if tokens else ""]
            knee = self.knees.get(fleet)
            rows.append([*row, f"{self.rates.of(fleet):.3g}", f"{knee.rate_per_s:.3g}" if knee else ""])
        return head, rows

    def what_would_change(self) -> list[list[str]]:
        return [[change, "holds" if load.holds else "broken", ", ".join(f"{finding.objective.label} {finding.value:.3g}" for finding in load.findings)]
                for change, load in self.what_if.items()]

    def memory(self) -> list[list[str]]:
        rows = [[kind.gpu, shape.label, memory.text, f"{memory.kv_tokens} tokens"] for (kind, shape), memory in self.space.fit.items()]
        return rows + [[kind.gpu, shape.label, reason, ""] for (kind, shape), reason in self.space.refused.items()]

    # -- forms

    def question(self) -> str:
        limits = ", ".join(objective.text for objective in self.objectives)
        return f"{pathlib.Path(self.traffic.model).stem}, {self.traffic.rate_per_s:g} requests/s, prompts {_lengths(self.traffic.prompt)}, answers {_lengths(self.traffic.output)} tokens; {limits}"

    def sentence(self) -> str:
        best = self.best()
        if not best:
            broken = min(self.sizes.loads, key=lambda fleet: max((f.level for f in self.sizes.loads[fleet].findings), default=0.0), default=None)
            return "No fleet that was simulated keeps the objectives" + (f"; {broken.label} is nearest." if broken else ".")
        by_fleet: dict[Fleet, list[str]] = {}
        for name, fleet in best.items():
            by_fleet.setdefault(fleet, []).append(name)
        return "; ".join(f"{', '.join(names)}: {fleet.label} ({fleet.gpus} GPUs{self._price(fleet)})" for fleet, names in by_fleet.items()) + "."

    def _price(self, fleet: Fleet) -> str:
        return f", {self.per_hour(fleet):.4g} an hour" if self.prices else ""

    def text(self) -> str:
        head, rows = self.table()
        lines = [self.question(), self.sentence(), ""]
        for table in ([head, *rows], self.what_would_change()):
            widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))] if table else []
            lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table] + [""]
        return "\n".join(lines[:-1]).rstrip() + "\n"

    def json(self) -> dict:
        def one(fleet: Fleet) -> dict:
            load = self.sizes.loads[fleet]
            knee = self.knees.get(fleet)
            return {"fleet": fleet.label, "gpu": fleet.kind.gpu, "platform": fleet.kind.platform, "tp": fleet.shape.tp, "pp": fleet.shape.pp,
                    "colocated": fleet.colocated, "prefill": fleet.prefill, "decode": fleet.decode, "gpus": fleet.gpus, "per_hour": self.per_hour(fleet),
                    "holds": load.holds, "estimate_per_s": self.rates.of(fleet), "max_rate_per_s": knee.rate_per_s if knee else None,
                    "objectives": {finding.objective.metric: finding.value for finding in load.findings}}

        return {"schema_version": 1, "rate_per_s": self.traffic.rate_per_s, "best": {name: fleet.label for name, fleet in self.best().items()},
                "fleets": [one(fleet) for fleet in self.ranked()],
                "one_instance_per_s": [{"gpu": kind.gpu, "tp": shape.tp, "pp": shape.pp, "colocated": rate, "prefill": self.rates.prefill.get((kind, shape)),
                                        "decode": self.rates.decode.get((kind, shape))} for (kind, shape), rate in self.rates.colocated.items()],
                "no_memory": {f"{shape.label} on {kind.gpu}": reason for (kind, shape), reason in self.space.refused.items()},
                "what_if": {change: load.holds for change, load in self.what_if.items()}}

    def csv_text(self) -> str:
        text = io.StringIO()
        fleets = [one | one.pop("objectives") for one in self.json()["fleets"]]
        writer = csv.DictWriter(text, list(dict.fromkeys(name for one in fleets for name in one)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(fleets)
        return text.getvalue()

    def html(self) -> str:
        title = f"Serving plan: {pathlib.Path(self.traffic.model).stem}"
        main = element("main", element("h1", title), element("p", self.sentence()),
                       facts_list([("question", self.question()), ("engine", self.traffic.engine), ("links", self.traffic.fidelity)]), id="main")
        head, rows = self.table()
        sections = [section("fleets", "Simulated fleets", element("p", ESTIMATE, class_="note"), text_table("Simulated fleets, table", head, rows))]
        if self.what_if:
            sections.append(section("what-if", f"What would change it: {self.winner.label}",
                                    text_table("What would change it, table", ["change", "objectives", "values"], self.what_would_change())))
        sections += [chart_section(chart) for chart in (*self._gpus(), *self._front())]
        sections.append(section("memory", "Memory of an instance's fullest rank",
                                text_table("Memory, table", ["GPU", "shape", "sum", "KV"], self.memory())))
        return document(title, main, sections)

    def _gpus(self) -> list[Bars]:
        bars = [(None, fleet.label, {"": float(self.per_hour(fleet) or fleet.gpus)}) for fleet in self.ranked() if self.sizes.loads[fleet].holds]
        return [Bars("cost", "Fleets that keep the objectives", "price per hour" if self.prices else "GPUs", bars)] if bars else []

    def _front(self) -> list[Lines]:
        """Throughput of a GPU against interactivity, as the field draws it; from the short runs of one instance."""
        lines = []
        for (kind, shape), loads in self.rates.loads.items():
            dots = [Dot(1 / percentile(times, 50), tokens / shape.gpus, None, f"{load.rate_per_s:g} requests/s") for load in loads
                    if (times := load.times("tpot")) and (tokens := load.mean("middle.output_tokens_per_s")) and not load.grows]
            if len(dots) > 1:
                lines.append(Line(f"{shape.label} on {kind.gpu}", sorted(dots, key=lambda dot: dot.x)))
        note = "One instance at rising rates, from short runs; loads without a steady state are left out."
        return [Lines("front", "Throughput of a GPU against interactivity", "tokens/s/user", "output tokens/s/GPU", lines, note=note)] if lines else []


def _lengths(lengths: object) -> str:
    """`1180`, or `lognormal mean 1180 cv_ratio 0.86`."""
    return " ".join(f"{key} {_lengths(value)}" for key, value in lengths.items()) if isinstance(lengths, dict) else str(lengths)
