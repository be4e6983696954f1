"""The result as text and JSON."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from lib import summaries
from reporting.markup import brief, long_text

from .compose import HOUR_S, Composed, what_ifs
from .operation import Operation
from .process import PARTS, Run
from .step import Step

DAY_S = 24 * HOUR_S
SPARE = ", with a spare for every server"
TRAINING = ("steps", "stragglers", "contention")  # parts that are training: the rest of the time no step that counts runs


def count_text(count: float) -> str:
    """15.6 trillion."""
    return next((f"{brief(count / size)} {name}" for size, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")) if count >= size), brief(count))


def bytes_text(count: float) -> str:
    return f"{brief(count * 1e-12)} TB" if count >= 1e12 else f"{brief(count * 1e-9)} GB"


@dataclass
class Result:
    step: Step
    operation: Operation
    composed: Composed
    tokens: float
    seed: int
    runs: Sequence[Run]  # with consecutive seeds

    # -- means of the runs

    @property
    def parts_s(self) -> dict[str, float]:
        return {part: statistics.fmean(run.parts_s[part] for run in self.runs) for part in PARTS}

    @property
    def total_s(self) -> float:
        return sum(self.parts_s.values())

    @property
    def goodput(self) -> float:
        return self.parts_s["steps"] / self.total_s

    @property
    def effective(self) -> float:
        parts = self.parts_s
        return sum(parts[part] for part in TRAINING) / self.total_s

    @property
    def failures(self) -> dict[str, float]:
        return {cause.name: statistics.fmean(run.failures[cause.name] for run in self.runs) for cause in self.composed.process.causes}

    @property
    def checkpoints(self) -> float:
        return statistics.fmean(run.checkpoints for run in self.runs) if self.operation.checkpoint.mode != "none" else 0.0

    @property
    def gpu_hours(self) -> float:
        return self.total_s / HOUR_S * self.step.gpus

    @property
    def spare_gpu_hours(self) -> float:
        return self.total_s / HOUR_S * (self.operation.failures.spares or 0) * self.step.server.gpus

    @property
    def energy_kwh(self) -> float | None:
        """Of all GPUs: while steps run, also those that are done again, the power of a step; otherwise that without work."""
        if self.step.powers_w is None:
            return None
        running, idle = self.step.powers_w
        running_s = sum(self.parts_s[part] for part in (*TRAINING, "lost"))
        return (running * running_s + idle * (self.total_s - running_s)) / 3.6e6

    @property
    def cost(self) -> float | None:
        price = self.operation.price
        if price.gpu_h is None and price.kwh is None:
            return None
        return (self.gpu_hours + self.spare_gpu_hours) * (price.gpu_h or 0.0) + (self.energy_kwh or 0.0) * (price.kwh or 0.0)

    @property
    def formula(self) -> float:
        """Goodput by the closed form; it knows of no missing server."""
        return self.composed.goodput(self.composed.intervals.chosen_s)

    # -- tables

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Where the time goes."""
        rows = [[words, long_text(self.parts_s[part]), f"{100 * self.parts_s[part] / self.total_s:.2f} %"] for part, words in PARTS.items() if self.parts_s[part] > 0]
        return ["part", "time", "of the run"], [*rows, ["together", long_text(self.total_s), "100.00 %"]]

    def of_checkpoint(self) -> list[tuple[str, str]]:
        """What a checkpoint costs, in words."""
        cost, process = self.composed.cost, self.composed.process
        if self.operation.checkpoint.mode == "none":
            return [("checkpoints", "none")]
        kept = "the file system" if self.operation.checkpoint.to == "file_system" else "host memory of two servers"
        found = [("bytes", f"{bytes_text(cost.total_bytes)}, at most {bytes_text(cost.server_bytes)} of a server, to {kept}"),
                 ("copy to host memory", f"{long_text(cost.copy_s)}, at {self.step.server.copy_gb_per_s:.1f} GB/s of each GPU; the steps wait"),
                 ("write", f"{long_text(cost.write_s)}; {cost.limit} limits it; " + ("beside the steps" if cost.writing_s else "the steps wait"))]
        if cost.nic_share > 0:
            alone = f"; a step takes {long_text(self.composed.narrow_s)} then, {100 * (process.slowdown - 1):.2f} % more" if self.composed.narrow_s else ""
            found.append(("NICs", f"{100 * cost.nic_share:.2f} % of their rate while it is written{alone}"))
        found.append(("reload", f"{long_text(cost.reload_s)}: read {long_text(cost.read_s)}, weights to all replicas {long_text(cost.spread_s)}, to the GPUs {long_text(cost.load_s)}"))
        return found

    def of_intervals(self) -> list[tuple[str, str]]:
        found, steps = self.composed.intervals, self.composed.process.interval
        named = [("this run", found.chosen_s), ("best, simulated", found.simulated_s), ("best, by the closed form", found.formula_s), ("Daly", found.daly_s), ("Young", found.young_s),
                 ("least, to be written in time", found.least_s)]
        rows = [(name, long_text(seconds)) for name, seconds in named if seconds is not None and self.operation.checkpoint.mode != "none"]
        return [(name, f"{text}, {steps} steps" if name == "this run" else text) for name, text in rows]

    def of_changes(self) -> tuple[list[str], list[list[str]]]:
        """What each change alone would save, by the closed form."""
        (_, base), *changed = what_ifs(self.composed, self.operation)
        rows = [[what, f"{100 * goodput:.2f} %", long_text(max(0.0, self.parts_s["steps"] * (1 / base - 1 / goodput)))] for what, goodput in changed]
        return ["change", "goodput", "saves"], rows

    def of_failures(self) -> str:
        process, each = self.composed.process, self.failures
        if not process.causes:
            return "no failures: failures.gpu_mtbf_h and the like are not given"
        causes = ", ".join(f"{name} {brief(count)}" for name, count in each.items())
        found = f"{brief(sum(each.values()))} failures ({causes}), on average {long_text(process.mtbf_s)} apart"
        waits = statistics.fmean(run.without_spare for run in self.runs)
        return found + (f"; {brief(waits)} found no spare server" if process.spares is not None else "")

    def answer(self) -> str:
        each = [run.total_s for run in self.runs]
        spread = f" ({long_text(min(each))} to {long_text(max(each))} in {len(each)} runs)" if len(each) > 1 else ""
        price = f", cost {count_text(self.cost)}" if self.cost is not None else ""
        energy = f", {count_text(self.energy_kwh)} kWh" if self.energy_kwh is not None else ""
        return (f"{long_text(self.total_s)}{spread}, {count_text(self.gpu_hours)} GPU hours{price}{energy}; effective training time {100 * self.effective:.1f} %, "
                f"goodput {100 * self.goodput:.1f} %")

    def question(self) -> str:
        return (f"{summaries.title(self.step.summary)}, {self.step.gpus} GPUs: {count_text(self.tokens)} tokens in {self.composed.process.steps} steps of "
                f"{self.step.tokens} tokens and {long_text(self.step.seconds)}")

    def text(self) -> str:
        lines = [self.question(), "", f"  {self.answer()}", ""]
        head, rows = self.table()
        width = max(len(row[0]) for row in rows)
        lines += [f"  {row[0]:{width}}  {row[1]:>10}  {row[2]:>10}" for row in [head, *rows]]
        lines += ["", f"  {self.of_failures()}"]
        process = self.composed.process
        if process.causes:
            lines.append(f"  goodput by the closed form{SPARE if process.spares is not None else ''}: {100 * self.formula:.2f} %, "
                         f"simulated {100 * self.goodput:.2f} %")
        for title, facts in (("a checkpoint" + (f", of {count_text(self.checkpoints)}" if self.checkpoints else ""), self.of_checkpoint()),
                             ("training from a checkpoint to the next one", self.of_intervals())):
            if facts:
                width = max(len(name) for name, _ in facts)
                lines += ["", f"  {title}", *(f"    {name:{width}}  {fact}" for name, fact in facts)]
        head, rows = self.of_changes()
        if rows:
            width = max(len(row[0]) for row in rows)
            lines += ["", f"  what would change it{SPARE if process.spares is not None else ''}",
                      *(f"    {row[0]:{width}}  {row[1]:>8}  {row[2]:>10}" for row in [["", *head[1:]], *rows])]
        return "\n".join(lines) + "\n"

    def json(self) -> dict:
        process, parts = self.composed.process, self.parts_s
        return {
            "model": self.step.summary.get("model"), "platform": self.step.summary["platform"], "gpus": self.step.gpus, "servers": self.step.servers,
            "tokens": self.tokens, "steps": process.steps, "step_s": process.step_s, "slowest_mean_ratio": process.stragglers.mean,
            "total_s": self.total_s, "days": self.total_s / DAY_S, "gpu_hours": self.gpu_hours, "spare_gpu_hours": self.spare_gpu_hours,
            "cost": self.cost, "energy_kwh": self.energy_kwh, "goodput": self.goodput, "effective_training_fraction": self.effective, "parts_s": parts,
            "failures": self.failures, "mtbf_s": process.mtbf_s if process.causes else None, "checkpoints": self.checkpoints,
            "checkpoint": asdict(self.composed.cost) | {"slowdown": process.slowdown, "copy_gb_per_s": self.step.server.copy_gb_per_s},
            "intervals": asdict(self.composed.intervals) | {"steps": process.interval},
            "closed_form": {"goodput": self.formula, "changes": dict(what_ifs(self.composed, self.operation))},
            "runs": [{"seed": self.seed + i, "days": run.total_s / DAY_S, "failures": sum(run.failures.values()), "checkpoints": run.checkpoints,
                      "without_spare": run.without_spare, "parts_s": run.parts_s} for i, run in enumerate(self.runs)],
        }

    def json_text(self) -> str:
        return json.dumps(self.json(), indent=2) + "\n"
