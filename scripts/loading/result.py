"""The result of a search or of a curve, as text, JSON and CSV."""

import csv
import io
import json
import math
import pathlib
from dataclasses import asdict, dataclass, field

from lib.request_times import percentile
from reporting.markup import duration_text

from . import cost
from .judgement import Load, Verdict
from .objectives import Objective
from .runs import Runs
from .scenario import Loaded
from .search import Knee

PERCENTILES = (50, 90, 95, 99)
SHOWN_TIMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}
OBSERVED_REQUESTS = 2000  # of a run whose batches are shown
EXPLAINED_REQUESTS = 500  # of the run whose critical path is followed: it costs seven times the run
OBSERVED_SHARES = (0.5, 1.0, 1.2)  # of the largest rate


@dataclass
class Result:
    loaded: Loaded
    objectives: list[Objective]
    loads: list[Load]  # by rate
    knee: Knee | None
    prices: dict[str, float]
    observed: list[tuple[float, pathlib.Path]] = field(default_factory=list)  # rates, and folders with iterations.csv
    explained: tuple[float, pathlib.Path] | None = None

    def observe(self, runs: Runs) -> None:
        """Runs what only the page shows: batches at three loads, and the critical path at the knee, or at the middle load."""
        rates = [load.rate_per_s for load in self.loads]
        shown = [rates[0], rates[len(rates) // 2], rates[-1]]
        if self.knee:
            shown = [min(rates, key=lambda rate, share=share: abs(math.log(rate / (share * self.knee.rate_per_s)))) for share in OBSERVED_SHARES]
        shown = list(dict.fromkeys(shown))
        at = self.knee.low.rate_per_s if self.knee else shown[len(shown) // 2]
        folders, explained = runs.observe([(rate, OBSERVED_REQUESTS) for rate in shown], (at, EXPLAINED_REQUESTS))
        self.observed, self.explained = list(zip(shown, folders)), (at, explained)

    # -- JSON and CSV

    def _load(self, load: Load) -> dict:
        found = {
            "rate_per_s": load.rate_per_s, "requests": load.count, "seeds": [run.seed for run in load.runs], "verdict": load.verdict.value,
            "holds": load.holds, "grows": load.grows, "within_ratio": load.within, "goodput_per_s": load.rate_per_s * load.within,
            "served_per_s": load.mean("middle.request_rate_per_s"), "output_tokens_per_s": load.mean("middle.output_tokens_per_s"),
            "objectives": [{"metric": finding.objective.metric, "value": None if math.isnan(finding.value) else finding.value,
                            "verdict": finding.verdict.value} for finding in load.findings],
        }
        for quantity in SHOWN_TIMES:
            if times := load.times(quantity):
                found |= {f"{quantity}_p{percent}_s": percentile(times, percent) for percent in PERCENTILES}
        if spent := cost.of_load(load, self.prices):
            found["cost"] = asdict(spent)
        return found

    def json(self) -> dict:
        knee = self.knee
        found: dict = {"schema_version": 1, "scenario": self.loaded.path.name, "set": self.loaded.settings,
                       "objectives": [{"metric": o.metric, "limit": o.bound, "at_most": o.at_most} for o in self.objectives]}
        if knee:
            found |= {"max_rate_per_s": knee.rate_per_s, "interval_per_s": list(knee.interval_per_s) if knee.interval_per_s else None,
                      "broken_first": list(knee.broken), "holds_at_per_s": knee.low.rate_per_s, "broken_at_per_s": knee.high.rate_per_s}
        if self.prices:
            found["prices_per_hour"] = self.prices
        return found | {"loads": [self._load(load) for load in self.loads]}

    def json_text(self) -> str:
        return json.dumps(self.json(), indent=2) + "\n"

    def csv_text(self) -> str:
        rows = []
        for load in self.loads:
            row = {key: value for key, value in self._load(load).items() if not isinstance(value, (list, dict))}
            row |= {finding.objective.metric: finding.value for finding in load.findings}
            rows.append(row | asdict(spent) if (spent := cost.of_load(load, self.prices)) else row)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    # -- text

    def answer(self) -> str:
        """The sentence that a reader came for."""
        limits = ", ".join(objective.text for objective in self.objectives)
        if self.knee:
            knee = self.knee
            interval = f" ({knee.interval_per_s[0]:g} to {knee.interval_per_s[1]:g})" if knee.interval_per_s else ""
            first = knee.broken[0] if knee.broken else "the steady state"
            return f"{knee.rate_per_s:g} requests/s{interval} keep {limits}; beyond, {first} breaks first."
        if not self.objectives:
            return f"{len(self.loads)} loads, without objectives."
        kept = [load.rate_per_s for load in self.loads if load.holds]
        if not kept:
            return f"No load keeps {limits}: the knee is below {self.loads[0].rate_per_s:g} requests/s."
        if len(kept) == len(self.loads):
            return f"Every load keeps {limits}: the knee is above {self.loads[-1].rate_per_s:g} requests/s."
        over = next(load.rate_per_s for load in self.loads if not load.holds)
        return f"{limits}: the knee is between {max(rate for rate in kept if rate < over) if kept[0] < over else 0:g} and {over:g} requests/s."

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Head and rows, in human units."""
        head = ["requests/s", "served/s", *(f"{name} p50, p99" for name in SHOWN_TIMES.values()), "goodput/s", "within", "verdict", "requests"]
        if self.prices:
            head[-2:-2] = ["per 1M in", "per 1M out"]
        rows = []
        for load in self.loads:
            served = load.mean("middle.request_rate_per_s")
            times = [load.times(quantity) for quantity in SHOWN_TIMES]
            row = [f"{load.rate_per_s:g}", f"{served:.3g}" if served is not None else "",
                   *(", ".join(duration_text(percentile(values, percent)) for percent in (50, 99)) if values else "" for values in times)]
            row += [f"{load.rate_per_s * load.within:.3g}", f"{100 * load.within:.1f} %"]
            if self.prices:
                spent = cost.of_load(load, self.prices)
                row += [f"{spent.per_million_input:.3g}", f"{spent.per_million_output:.3g}"] if spent else ["", ""]
            rows.append([*row, verdict_text(load), f"{len(load.runs)} x {load.count}"])
        return head, rows

    def text(self) -> str:
        head, rows = self.table()
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [head, *rows]]
        return "\n".join([self.answer(), "", *lines]) + "\n"


def verdict_text(load: Load) -> str:
    if not load.objectives:
        return "grows" if load.grows else "steady" if load.verdict is Verdict.HOLDS else "open"
    words = "holds" if load.holds else "grows" if load.grows and not load.broken else "broken"
    return words + (" (open)" if load.verdict is Verdict.OPEN else "")
