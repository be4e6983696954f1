"""The decision as text, Markdown, HTML and JSON."""

import pathlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from comparing.tables import duration, parts
from reporting import charts
from reporting.charts import Chart
from reporting.lines import Bars
from reporting.markup import brief, duration_text, element
from reporting.page import chart_section, document, section, text_table, tiles
from reporting.source import Point, Subject

from .candidates import GB, Candidates
from .estimate import rank_correlation
from .machine import Facts
from .simulate import RECONSIDERED, Run
from .space import EVEN, Mapping, Question, Space

SHOWN_REFUSED = 5
SHOWN_PART = 1e-4  # of a step
SHOWN_EXPOSED = 5e-4
TEXTS = ("limits", "also known as")  # columns of the simulated mappings
Rows = list[list[str]]


def exposed_of(run: Run) -> dict[str, float]:
    """Seconds by traffic class, of those that can be seen."""
    parts_of_step = {key.partition(".")[2]: value for key, value in run.metrics.items() if key.startswith("exposed_s.")}
    return {traffic: value for traffic, value in parts_of_step.items() if value > SHOWN_EXPOSED * run.step_s}


def limits(run: Run) -> str:
    """The stage whose SMs work longest, and the link on which the most exposed traffic waits longest."""
    stages = run.summary["metrics"]["stage_s"]
    found = [f"SMs of stage {max(stages, key=lambda stage: stages[stage])}" if len(stages) > 1 else "SMs"]
    exposed = exposed_of(run)
    most = max(exposed, key=lambda traffic: exposed[traffic], default=None)
    found += [f"{most} on {traffic['worst_link']} {traffic['worst_link_direction']}" for traffic in run.summary["traffic"]
              if traffic["class"] == most and traffic["worst_link"]]
    return ", ".join(found)


@dataclass
class Decision:
    scenario: dict
    facts: Facts
    question: Question
    space: Space
    candidates: Candidates
    done: dict[Mapping, Run]  # the fastest first
    references: list[tuple[str, Mapping]]
    what_if: dict[str, list[Run]]
    costs: dict[Mapping, Run] = field(default_factory=dict)  # by mapping with a saving: the same without, on GPUs that have the memory
    price_per_hour: float | None = None  # of a GPU

    @property
    def runs(self) -> list[Run]:
        return [run for run in self.done.values() if run.summary]

    @property
    def failed(self) -> list[Run]:
        """Selected mappings without a result, the fastest estimate first."""
        return sorted((run for run in self.done.values() if not run.summary), key=lambda run: self.candidates.seconds(run.mapping))

    @property
    def winner(self) -> Run:
        return self.runs[0]

    def title(self) -> str:
        q = self.question
        return (f"{self.winner.summary['model']}, {q.batch} sequences of {q.seq_tokens} tokens, on {q.gpus} {self.facts.gpu} "
                f"({self.scenario['platform']})")

    def sentence(self) -> str:
        run, metrics = self.winner, self.winner.metrics
        layers = run.mapping.layers(self.question)
        split = f" Its stages have {', '.join(map(str, layers))} layers." if run.mapping.stage_layers != EVEN else ""
        return (f"Fastest of the simulated mappings: {run.mapping.label}, dp {run.mapping.dp(self.question)}: a step of {duration(run.step_s)}, "
                f"{metrics['tokens_per_s_per_gpu']:.0f} tokens/s on each GPU, MFU {100 * metrics['mfu']:.1f} %.{split}")

    def cost(self, run: Run) -> float | None:
        """Of a million tokens."""
        return None if self.price_per_hour is None else self.price_per_hour / 3600 * 1e6 / run.metrics["tokens_per_s_per_gpu"]

    # -- tables: a head, then rows

    def simulated(self) -> Rows:
        names = {mapping: name for name, mapping in self.references}
        rows = [["mapping", "dp", "step", "tokens/s/GPU", "MFU", "memory", "bubble", "exposed", "host", "limits", "estimate", "also known as"]]
        rows[0][4:4] = ["per 1M tokens"] if self.price_per_hour else []
        for run in self.runs:
            metrics = run.metrics
            exposed = ", ".join(f"{traffic} {100 * value / run.step_s:.1f} %" for traffic, value in exposed_of(run).items())
            error = self.candidates.seconds(run.mapping) / run.step_s - 1
            rows.append([run.mapping.label, str(run.mapping.dp(self.question)), duration(run.step_s), f"{metrics['tokens_per_s_per_gpu']:.0f}",
                         f"{100 * metrics['mfu']:.1f} %", f"{GB * metrics['memory.peak_bytes']:.1f} GB", f"{100 * metrics['bubble_fraction']:.1f} %",
                         exposed, f"{100 * metrics['host_s'] / run.step_s:.1f} %", limits(run), f"{100 * error:+.1f} %", names.get(run.mapping, "")])
            rows[-1][4:4] = [f"{self.cost(run):.3g}"] if self.price_per_hour else []
        return rows

    def too_slow(self) -> int:
        """Legal mappings about which the executable was not asked: their stages are uneven, and cannot be fast enough (explain.py)."""
        known = len(self.candidates.no_memory) + len(self.candidates.fit) + sum(self.candidates.refused.values())
        return len(self.space.legal) - known

    def sieves(self) -> Rows:
        rows = [["mappings", "count"], ["all combinations", str(self.space.total)]]
        rows += [[f"refused: {reason}", str(count)] for reason, count in self.space.refused.items()]
        rows += [[f"refused by the executable: {reason}", str(count)] for reason, count in self.candidates.refused.items()]
        rows += [["uneven stages, too slow", str(self.too_slow())]] if self.too_slow() else []
        rows += [["do not fit in memory", str(len(self.candidates.no_memory))], ["fit", str(len(self.candidates.fit))],
                 ["simulated", str(len(self.runs))]]
        return rows + ([["selected, but not simulated", str(len(self.failed))]] if self.failed else [])

    def not_simulated(self) -> Rows:
        return [["mapping", "dp", "estimate", "reason"],
                *([run.mapping.label, str(run.mapping.dp(self.question)), duration(self.candidates.seconds(run.mapping)), run.error] for run in self.failed)]

    def memory(self) -> Rows:
        rows = [["mapping", "memory of the rank that needs most", "lacks"]]
        rows.append([self.winner.mapping.label, self.candidates.memory(self.winner.mapping), ""])
        rows += [[mapping.label, self.candidates.memory(mapping), f"{self.candidates.lack(mapping):.2f} GB"]
                 for mapping in self.candidates.no_memory[:SHOWN_REFUSED]]
        return rows

    def saved(self) -> Rows:
        """What makes mappings fit, and what it costs."""
        rows = [["mapping", "lacks without", "step", "without, if memory were enough", "costs"]]
        for mapping, roomy in self.costs.items():
            run = self.done[mapping]
            if roomy.summary is None:
                rows.append([mapping.label, "", duration(run.step_s), "not simulated", ""])
                continue
            lacks = GB * roomy.metrics["memory.peak_bytes"] - self.candidates.capacity(mapping)
            rows.append([mapping.label, f"{lacks:.2f} GB", duration(run.step_s), duration(roomy.step_s), f"{100 * (run.step_s / roomy.step_s - 1):+.1f} %"])
        return rows

    def moved(self) -> Rows:
        """Where the time of other mappings goes, beside the winner's."""
        others = self.runs[1:2] + [self.done[mapping] for _, mapping in self.references if self.done[mapping].summary]
        others = [run for run in dict.fromkeys(other.mapping for other in others) if run != self.winner.mapping]
        columns = [self.winner, *(self.done[mapping] for mapping in others)]
        found = [parts(run.metrics) for run in columns]
        names = [name for name in dict.fromkeys(name for part in found for name in part)
                 if any(part.get(name, 0.0) > SHOWN_PART * self.winner.step_s for part in found)]
        rows = [["mean of all ranks", *(run.mapping.label for run in columns)]]
        return rows + [[name, *(duration(part.get(name, 0.0)) for part in found)] for name in names]

    def front(self) -> Rows:
        """The mappings than which no other simulated one has both a shorter step and less memory."""
        rows, least = [["mapping", "step", "memory"]], float("inf")
        for run in self.runs:
            if (memory := run.metrics["memory.peak_bytes"]) < least:
                least = memory
                rows.append([run.mapping.label, duration(run.step_s), f"{GB * memory:.1f} GB"])
        return rows

    def changed(self) -> Rows:
        rows = [["change", "fastest", "step", "winner as given"]]
        for change, runs in self.what_if.items():
            own = next((run for run in runs if run.mapping == self.winner.mapping), None)
            best = next((run for run in runs if run.summary), None)
            beside = "cannot run" if own is None or own.summary is None else duration(own.step_s)
            rows.append([change, best.mapping.label if best else "none can run", duration(best.step_s) if best else "", beside])
        return rows

    def agreement(self) -> str:
        estimates = [self.candidates.seconds(run.mapping) for run in self.runs]
        errors = [abs(estimate / run.step_s - 1) for estimate, run in zip(estimates, self.runs)]
        correlation = rank_correlation(estimates, [run.step_s for run in self.runs])
        text = f"The estimate is {100 * sum(errors) / len(errors):.1f} % off the simulated steps on average"
        return text + (f"; rank correlation {correlation:.2f}." if correlation is not None else ".")

    def sections(self) -> list[tuple[str, str, Rows]]:
        found = [
            ("Simulated mappings", "Estimate: how far it is off the simulated step. The last column names mappings that people choose without a search.", self.simulated()),
            ("Where the time goes", "The winner, the next, and the references.", self.moved()),
            ("Step time against memory", "No other simulated mapping has both a shorter step and less memory.", self.front()),
            ("From all mappings to the simulated ones", self.agreement(), self.sieves()),
            ("Memory", f"The winner, and the {SHOWN_REFUSED} mappings that lack least.", self.memory()),
        ]
        if self.costs:
            found.insert(1, ("What makes mappings fit", "The fastest mapping with each saving of memory, beside the same mapping without it on GPUs with more memory. "
                             "Savings are tried where no mapping of the same tp, gtp, cp, pp and recomputation fits without.", self.saved()))
        if self.failed:
            found.insert(1, ("Selected, but not simulated", "By the estimate these may be as fast.", self.not_simulated()))
        if self.what_if:
            found.insert(-2, ("What would change it", f"The {RECONSIDERED} fastest mappings of different kinds, simulated again with each change. With another batch or sequence and with less memory, those that fit and have the fastest estimates.", self.changed()))
        return found

    # -- forms

    def text(self) -> str:
        tables = [self.simulated(), *([self.saved()] if self.costs else [])]
        return f"{self.title()}\n{self.sentence()}\n\n" + "\n\n".join(map(aligned, tables))

    def markdown(self) -> str:
        text = f"# {self.title()}\n\n{self.sentence()}\n"
        for title, note, rows in self.sections():
            head, *body = rows
            text += f"\n## {title}\n\n{note}\n\n| " + " | ".join(head) + " |\n|" + " --- |" * len(head) + "\n"
            text += "".join("| " + " | ".join(row) + " |\n" for row in body)
        return text

    def compared(self) -> list[tuple[str, Run]]:
        """The winner, the next mapping and the references, with what they are called."""
        named = [("winner", self.winner), *(("next", run) for run in self.runs[1:2]),
                 *((name, self.done[mapping]) for name, mapping in self.references if self.done[mapping].summary)]
        return [(f"{name}: {run.mapping.label}", run) for name, run in named]

    def charts(self) -> list[Chart]:
        compared = self.compared()
        steps = Bars("steps", "Step of the winner and of others", "step_s", [(None, label, {"": run.step_s}) for label, run in compared])
        points = [Point(i, label, "done", "", None, kind="training", metrics=run.metrics) for i, (label, run) in enumerate(compared)]
        drawn = charts.shares(Subject(pathlib.Path(), "", points))
        for chart in drawn:
            chart.bars = [(None, label, parts_of_step) for _, label, parts_of_step in chart.bars]  # the page has no row for each run
        return [steps, *drawn]

    def html(self) -> str:
        metrics = self.winner.metrics
        shown = [("a step", duration_text(self.winner.step_s)), ("tokens/s for a GPU", brief(metrics["tokens_per_s_per_gpu"])),
                 ("MFU", f"{100 * metrics['mfu']:.1f} %"), ("memory of the fullest GPU", f"{GB * metrics['memory.peak_bytes']:.1f} GB")]
        shown += [("for a million tokens", brief(self.cost(self.winner)))] if self.price_per_hour else []
        main = element("main", element("h1", self.title()), element("p", self.sentence()), tiles(shown), id="main")
        sections = [chart_section(chart) for chart in self.charts()]
        for number, (title, note, rows) in enumerate(self.sections()):
            tables = [text_table(title, head, body) for head, *body in in_width(rows)]
            sections.append(section(f"table-{number}", title, element("p", note, class_="note"), *tables))
        return document(self.title(), main, sections)

    def json(self) -> dict:
        def one(run: Run) -> dict:
            spent = {"cost_per_million_tokens": self.cost(run)} if self.price_per_hour else {}
            return spent | {"mapping": asdict(run.mapping) | {"dp": run.mapping.dp(self.question)}, "step_s": run.step_s,
                    "estimate_s": self.candidates.seconds(run.mapping), "metrics": run.metrics, "directory": str(run.directory)}
        estimates = [self.candidates.seconds(run.mapping) for run in self.runs]
        errors = [estimate / run.step_s - 1 for estimate, run in zip(estimates, self.runs)]
        return {
            "winner": one(self.winner),
            "simulated": [one(run) for run in self.runs],
            "references": [{"name": name, **one(self.done[mapping])} for name, mapping in self.references if self.done[mapping].summary],
            "not_simulated": [{"mapping": asdict(run.mapping) | {"dp": run.mapping.dp(self.question)}, "estimate_s": self.candidates.seconds(run.mapping),
                               "error": run.error} for run in self.failed],
            "counts": {"all": self.space.total, "legal": len(self.space.legal), "refused": dict(self.space.refused),
                       "refused_by_executable": dict(self.candidates.refused), "too_slow": self.too_slow(), "fit": len(self.candidates.fit),
                       "ranked": len(self.candidates.fit), "simulated": len(self.runs)},
            "estimate_error": {"mean_ratio": sum(map(abs, errors)) / len(errors), "worst_ratio": max(errors, key=abs)},
            "rank_correlation": rank_correlation(estimates, [run.step_s for run in self.runs]),
            "savings": [{**one(self.done[mapping]), "step_without_s": roomy.step_s if roomy.summary else None} for mapping, roomy in self.costs.items()],
            "what_if": {change: [one(run) for run in runs if run.summary] for change, runs in self.what_if.items()},
        }


def in_width(rows: Rows) -> list[Rows]:
    """A table, with texts beside its numbers as a second one: a page does not hold both side by side."""
    texts = [i for i, name in enumerate(rows[0]) if name in TEXTS]
    numbers = [i for i in range(len(rows[0])) if i not in texts]
    return [[[row[i] for i in columns] for row in rows] for columns in (numbers, *([[0, *texts]] if texts else []))]


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
