"""The result as text and JSON."""

import json
import statistics
from dataclasses import dataclass

from lib import summaries
from reporting.markup import brief, duration_text

from .iteration import PARTS, TAIL, TRAINING, times_of, waits, what_ifs
from .phases import Phases


def bytes_text(count: float) -> str:
    return f"{brief(count * 1e-9)} GB"


@dataclass(frozen=True)
class Result:
    phases: Phases

    def __post_init__(self) -> None:
        object.__setattr__(self, "times", times_of(self.phases))

    @property
    def schedule(self) -> str:
        return self.phases.scenario.iteration.schedule

    @property
    def seconds(self) -> float:
        return self.times.iteration(self.schedule)

    @property
    def samples(self) -> int:
        return len(self.phases.rollouts[0].ends_s)

    @property
    def tokens(self) -> float:
        """Of prompts and answers."""
        return statistics.fmean(one.tokens for one in self.phases.rollouts)

    @property
    def answer_tokens(self) -> float:
        return statistics.fmean(one.answer_tokens for one in self.phases.rollouts)

    @property
    def gpus(self) -> int:
        return len(set(self.phases.trainers) | set(self.phases.service))

    @property
    def title(self) -> str:
        return f"{self.phases.training.summary['model']} on {self.phases.scenario.platform}"

    def question(self) -> str:
        where = "on the same GPUs" if self.phases.shares_gpus else f"rollouts on {len(self.phases.service)} of them"
        return f"{self.gpus} GPUs, {where}; {self.schedule}"

    def answer(self) -> str:
        return (f"an iteration of {self.samples} samples takes {duration_text(self.seconds)}: {brief(self.samples / self.seconds)} samples/s, "
                f"{brief(self.tokens / self.seconds / self.gpus)} tokens/s of each GPU")

    def table(self) -> tuple[list[str], list[list[str]]]:
        rows = []
        for name, words in PARTS.items():
            if seconds := self.times.part(name):
                gpus = self.phases.service if name == "rollouts" else self.phases.trainers if name in TRAINING else set(self.phases.trainers) | set(self.phases.service)
                rows.append([words, duration_text(seconds), f"{100 * seconds / self.seconds:.1f} %", str(len(gpus))])
        if self.schedule == "asynchronous":
            rows.append(["side by side: the slower one, and the weights", duration_text(self.seconds), "100.0 %", str(self.gpus)])
        else:
            rows.append(["together", duration_text(self.seconds), "100.0 %", str(self.gpus)])
        return ["part", "time", "of the iteration", "GPUs"], rows

    def facts(self) -> list[tuple[str, str]]:
        phases, times = self.phases, self.times
        training = phases.training
        half, tail = (statistics.fmean(one.done_s(share) for one in phases.rollouts) for share in (0.5, TAIL))
        found = [("rollouts", f"{brief(self.answer_tokens / self.samples)} tokens an answer; half of the samples are done after {duration_text(half)}, {100 * TAIL:.0f} % after "
                              f"{duration_text(tail)}, all after {duration_text(times.rollouts_mean)}"),
                 ("training", f"{phases.updates} {'step' if phases.updates == 1 else 'steps'} of {training.tokens} tokens and {duration_text(training.step_s)}, "
                              f"{100 * self.tokens / training.tokens / phases.updates:.0f} % full; {phases.scenario.iteration.logprob_passes} forward passes for log-probabilities"),
                 ("weights", f"{bytes_text(training.weights_bytes)}" + (f", {brief(training.weights_bytes * 1e-9 / phases.weights_s)} GB/s" if phases.weights_s else ""))]
        if phases.store_s:
            found.append(("state", f"at most {bytes_text(max(training.state_bytes))} of a GPU, {brief(max(training.state_bytes) * 1e-9 / phases.store_s)} GB/s to host memory"))
        for side, share in waits(times, self.schedule, phases.shares_gpus).items():
            found.append((f"GPUs of {side} wait", f"{100 * share:.1f} % of the iteration"))
        return found

    def changes(self) -> tuple[list[str], list[list[str]]]:
        rows = [[what, duration_text(seconds), f"{100 * (seconds / self.seconds - 1):+.1f} %"] for what, seconds in what_ifs(self.phases, self.times)]
        return ["change", "iteration", "difference"], rows

    def text(self) -> str:
        lines = [f"{self.title}, {self.question()}", "", f"  {self.answer()}", ""]
        lines += _columns(*self.table()) + [""]
        lines += [f"  {name:<{max(len(fact) for fact, _ in self.facts())}}  {text}" for name, text in self.facts()] + ["", "  what would change it"]
        return "\n".join(lines + _columns(*self.changes(), indent=4)) + "\n"

    def json(self) -> dict:
        phases = self.phases
        setup = summaries.flat(phases.training.summary).get("simulator.version")
        return {
            "model": phases.training.summary["model"], "platform": phases.scenario.platform, "simulator": setup, "schedule": self.schedule, "gpus": self.gpus,
            "shares_gpus": phases.shares_gpus, "iteration_s": self.seconds, "samples": self.samples, "tokens": self.tokens, "answer_tokens": self.answer_tokens,
            "samples_per_s": self.samples / self.seconds, "tokens_per_s_per_gpu": self.tokens / self.seconds / self.gpus, "updates": phases.updates,
            "parts_s": {name: self.times.part(name) for name in PARTS}, "rollouts_s": list(self.times.rollouts), "step_s": phases.training.step_s,
            "weights_bytes": phases.training.weights_bytes, "waits": waits(self.times, self.schedule, phases.shares_gpus), "changes_s": dict(what_ifs(phases, self.times)),
        }

    def json_text(self) -> str:
        return json.dumps(self.json(), indent=2) + "\n"


def _columns(head: list[str], rows: list[list[str]], indent: int = 2) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [(" " * indent + "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))).rstrip() for row in [head, *rows]]
