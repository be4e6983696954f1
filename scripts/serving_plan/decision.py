"""The result of a plan: what is chosen, why, and what would change it; as text, JSON and CSV. page.py shows it."""

import csv
import io
import pathlib
from dataclasses import dataclass, field

from lib.request_times import percentile
from loading import cost
from loading.objectives import Objective
from planning.estimate import rank_correlation
from reporting.markup import brief, duration_text

from .estimate import Key, Rates
from .fleet import Fleet, Kind, Traffic
from .sizes import Change, Sizes
from .space import Space


@dataclass
class Decision:
    traffic: Traffic
    objectives: list[Objective]
    space: Space
    rates: Rates
    sizes: Sizes
    prices: dict[str, float]
    budget: float | None
    estimated: list[Fleet]  # the smallest fleets by the estimate, in its order
    changes: dict[str, Change] = field(default_factory=dict)
    explained: pathlib.Path | None = None  # folder of the winner's run with critical paths

    # -- what is chosen

    def per_hour(self, fleet: Fleet) -> float | None:
        return fleet.gpus * self.prices[fleet.kind.gpu] if self.prices else None

    def worth(self, kind: Kind) -> float:
        """What a GPU counts: its price, or 1."""
        return self.prices.get(kind.gpu, 1.0)

    def _cost(self, fleet: Fleet) -> float:
        return fleet.gpus * self.worth(fleet.kind)

    @property
    def affordable(self) -> list[Fleet]:
        return [fleet for fleet in self.sizes.holding if self.budget is None or self._cost(fleet) <= self.budget]

    def _level(self, fleet: Fleet) -> float:
        return max((finding.level for finding in self.sizes.loads[fleet].findings), default=0.0)

    def best(self) -> dict[str, Fleet]:
        """By question. Ties go to the fleet with more room below its limits."""
        fleets = self.affordable
        if not fleets:
            return {}
        found = {"fewest GPUs": min(fleets, key=lambda fleet: (fleet.gpus, self._level(fleet), fleet.label))}
        if self.prices:
            found["cheapest"] = min(fleets, key=lambda fleet: (self._cost(fleet), self._level(fleet), fleet.label))
        if known := [fleet for fleet in fleets if fleet in self.sizes.knees]:
            found["best per GPU"] = max(known, key=lambda fleet: self.sizes.knees[fleet] / fleet.gpus)
            found["most headroom"] = max(known, key=lambda fleet: self.sizes.knees[fleet])
        return found

    @property
    def winner(self) -> Fleet | None:
        best = self.best()
        return best.get("cheapest") or best.get("fewest GPUs")

    def correlation(self) -> float | None:
        """Of the ranks of estimated and simulated requests/s for a GPU's price (or a GPU), over the fleets whose largest rate is known."""
        known = [fleet for fleet in self.sizes.knees if fleet not in self.sizes.above]
        return rank_correlation([self.rates.of(fleet) / self._cost(fleet) for fleet in known], [self.sizes.knees[fleet] / self._cost(fleet) for fleet in known])

    # -- tables

    def ranked(self) -> list[Fleet]:
        return sorted(self.sizes.loads, key=lambda fleet: (not self.sizes.loads[fleet].holds, self._cost(fleet), fleet.gpus, fleet.label))

    def knee_text(self, fleet: Fleet) -> str:
        knee = self.sizes.knees.get(fleet)
        return "" if knee is None else f"{'over ' if fleet in self.sizes.above else ''}{brief(knee)}"

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
            row += [brief(1 / percentile(times, 50)) if times else "", brief(tokens / fleet.gpus) if tokens else ""]
            rows.append([*row, brief(self.rates.of(fleet)), self.knee_text(fleet)])
        return head, rows

    def why(self) -> tuple[list[str], list[list[str]]]:
        """The winner and the best fleet of every other kind of instance: what each takes, and what stops it from taking less."""
        unit = "per hour" if self.prices else "GPUs"
        head = ["fleet", unit, "ratio", "requests/s each", f"for {'a price of 1' if self.prices else 'a GPU'}", "breaks first", "known by"]
        smallest = {fleet.family: fleet for fleet in reversed(self.sizes.smallest())}
        shown = {fleet.family: smallest.get(fleet.family, fleet) for fleet in (self.winner, *self.estimated) if fleet}
        rows = []
        for fleet in sorted(shown.values(), key=lambda fleet: (fleet != self.winner, self._cost(fleet), fleet.label)):
            simulated = fleet in self.sizes.loads
            rate = self.sizes.knees.get(fleet) or self.rates.of(fleet)
            holds = self.sizes.loads[fleet].holds if simulated else None
            how = "estimate" if not simulated else "simulated" if holds else "simulated: does not hold"
            broken = self.sizes.broken.get(fleet) or (tuple(f.objective.metric for f in self.sizes.loads[fleet].broken) if simulated else ())
            rows.append([fleet.label, f"{self._cost(fleet):.3g}", f"{self._cost(fleet) / self._cost(self.winner):.2f} x", brief(rate / fleet.instances),
                         brief(rate / self._cost(fleet)), self._words(broken[:1]), how])
        for (kind, shape), most in self.rates.at_most.items():
            rows.append([f"{shape.label} on {kind.gpu}", "", "", f"below {most:.3g}", f"below {most / shape.gpus / self.worth(kind):.3g}", "", "left out: takes more than the others"])
        return head, rows

    def _words(self, metrics: tuple[str, ...]) -> str:
        labels = {objective.metric: objective.label for objective in self.objectives}
        return ", ".join(labels.get(metric, metric) for metric in metrics)

    def what_would_change(self) -> tuple[list[str], list[list[str]]]:
        unit = "per hour" if self.prices else "GPUs"
        head = ["change", "the winner", "its values", "it would take", "best then", unit]
        rows = []
        for change, found in self.changes.items():
            then = found.sizes.smallest()
            same = next((fleet for fleet in then if fleet.family == self.winner.family), None)
            best = min(then, key=lambda fleet: (self._cost(fleet), fleet.family != self.winner.family, fleet.label), default=None)
            values = ", ".join(f"{finding.objective.label} {duration_text(finding.value) if finding.objective.quantity else f'{finding.value:.3g}'}"
                               for finding in found.load.findings) if found.load else "no instance is left"
            most = max((fleet.instances for fleet in found.sizes.loads if fleet.family == self.winner.family), default=0)
            takes = "nothing more" if same == self.winner else same.label if same else f"more than {most} instances"
            if found.is_of_loss:  # one more than what is needed without it
                takes = "nothing more" if found.load and found.load.holds else f"a spare instance: {self.winner.instances + 1}"
                best = None
            rows.append([change, "holds" if found.load and found.load.holds else "breaks", values, takes, best.label if best else "", f"{self._cost(best):.3g}" if best else ""])
        return head, rows

    def memory(self) -> list[list[str]]:
        rows = [[kind.gpu, shape.label, memory.text, f"{memory.kv_tokens} tokens"] for (kind, shape), memory in self.space.fit.items()]
        return rows + [[kind.gpu, shape.label, reason, ""] for (kind, shape), reason in self.space.refused.items()]

    # -- forms

    def question(self) -> str:
        limits = ", ".join(objective.text for objective in self.objectives)
        return f"{pathlib.Path(self.traffic.model).stem}, {self.traffic.rate_per_s:.4g} requests/s, {self.traffic.requests.text}; {limits}"

    def sentence(self) -> str:
        best = self.best()
        if not best:
            broken = min(self.sizes.loads, key=self._level, default=None)
            return "No fleet that was simulated keeps the objectives" + (f"; {broken.label} is nearest." if broken else ".")
        by_fleet: dict[Fleet, list[str]] = {}
        for name, fleet in best.items():
            by_fleet.setdefault(fleet, []).append(name)
        return "; ".join(f"{', '.join(names)}: {fleet.label} ({fleet.gpus} GPU{'s' * (fleet.gpus > 1)}{self._price(fleet)})" for fleet, names in by_fleet.items()) + "."

    def reason(self) -> str:
        """Why the winner wins, in one or two sentences."""
        winner = self.winner
        others = [fleet for fleet in self.sizes.smallest() if fleet.family != winner.family and fleet in self.affordable]
        rate = self.sizes.knees.get(winner)
        words = f"{winner.label} keeps the objectives"
        if rate:
            words += f" up to {'' if winner in self.sizes.above else 'about '}{self.knee_text(winner)} requests/s, {rate / self.traffic.rate_per_s:.2f} times the traffic"
            if broken := self.sizes.broken.get(winner):
                words += f"; beyond, {self._words(broken[:1])} breaks first"
        words += "."
        if fewer := next((fleet for fleet in self.sizes.loads if fleet.family == winner.family and fleet.gpus < winner.gpus), None):
            words += f" {fewer.label} is too few: {self._words(tuple(f.objective.metric for f in self.sizes.loads[fewer].broken)) or 'requests pile up'}."
        if others:
            other, unit = others[0], "the price" if self.prices else "the GPUs"
            words += f" The next best kind, {other.label}, takes {self._cost(other) / self._cost(winner):.2f} times {unit}."
        return words

    def _price(self, fleet: Fleet) -> str:
        return f", {self.per_hour(fleet):.4g} an hour" if self.prices else ""

    def text(self) -> str:
        head, rows = self.table()
        lines = [self.question(), self.sentence(), *([self.reason()] if self.winner else []), ""]
        changed = self.what_would_change() if self.changes else ([], [])
        for first, others in ((head, rows), changed):
            table = [first, *others] if others else []
            widths = [max(len(row[i]) for row in table) for i in range(len(first))] if table else []
            lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table] + [""]
        return "\n".join(lines[:-1]).rstrip() + "\n"

    def json(self) -> dict:
        def one(fleet: Fleet) -> dict:
            load = self.sizes.loads[fleet]
            shape = fleet.shape
            return {"fleet": fleet.label, "gpu": fleet.kind.gpu, "platform": fleet.kind.platform, "tp": shape.tp, "pp": shape.pp, "dp": shape.dp, "ep": shape.ep,
                    **dict(shape.settings), **({"router": fleet.router} if fleet.router else {}),
                    "colocated": fleet.colocated, "prefill": fleet.prefill, "decode": fleet.decode, "gpus": fleet.gpus, "per_hour": self.per_hour(fleet),
                    "holds": load.holds, "estimate_per_s": self.rates.of(fleet), "max_rate_per_s": self.sizes.knees.get(fleet),
                    "max_rate_is_above": fleet in self.sizes.above,
                    "objectives": {finding.objective.metric: finding.value for finding in load.findings}}

        def shape_of(key: Key) -> str:
            return f"{key[1].label} on {key[0].gpu}"

        return {"schema_version": 1, "rate_per_s": self.traffic.rate_per_s, "best": {name: fleet.label for name, fleet in self.best().items()},
                "why": self.reason() if self.winner else None, "fleets": [one(fleet) for fleet in self.ranked()],
                "one_instance_per_s": [{"instance": shape_of(key), "colocated": rate, "below": self.rates.at_most.get(key), "prefill": self.rates.prefill.get(key),
                                        "decode": self.rates.decode.get(key)} for key, rate in self.rates.colocated.items()],
                "rank_correlation": self.correlation(),
                "no_memory": {shape_of(key): reason for key, reason in self.space.refused.items()},
                "left_out": dict(self.space.outside),
                "what_if": {change: {"holds": bool(found.load and found.load.holds),
                                     "best": next((fleet.label for fleet in found.sizes.smallest()), None) if not found.is_of_loss else None}
                            for change, found in self.changes.items()}}

    def csv_text(self) -> str:
        text = io.StringIO()
        fleets = [one | one.pop("objectives") for one in self.json()["fleets"]]
        writer = csv.DictWriter(text, list(dict.fromkeys(name for one in fleets for name in one)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(fleets)
        return text.getvalue()
