"""Class `curves`: throughput of a GPU against interactivity, one curve for each mapping of a server in a closed loop.

The rows are those of serving servers in a closed loop (closed_loop_rows.py). A curve is a model, GPU, engine and lengths with at least two mappings
of three concurrencies each; other rows are not of this class. The sources print TTFT and TPOT. By Little's law a place of the
closed loop gets A output tokens, the mean answer, in TTFT + (A - 1) TPOT, so

  output tokens/s of a GPU = concurrency A / (TTFT + (A - 1) TPOT) / GPUs,      tokens/s of a user = 1 / TPOT.

Both sides are computed in this way. Between two concurrencies of a mapping, logarithms of the two are interpolated linearly.
"""

import bisect
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reporting.lines import Dot, Line, Lines

from . import closed_loop_rows, serving
from .comparison import Outcome
from .figures import percentile
from .rows import Row

TITLE = "Throughput of a GPU against interactivity"
TABLES = ("serving_curves.csv", "serving_closed_loop.csv")
LEAST_MAPPINGS, LEAST_PLACES = 2, 3
CLEAR_RATIO = 1.05  # a mapping that leads by less is not counted: steps of equal servers differ by as much
COLOURS = 6  # of a chart
GPUS = {"h100_sxm": "H100 SXM", "h200_sxm": "H200 SXM", "b200_sxm": "B200 SXM", "gb200": "GB200 NVL72"}
ENGINES = {"vllm": "vLLM", "trtllm": "TensorRT-LLM", "sglang": "SGLang"}

map_row, point_name = closed_loop_rows.map_row, serving.point_name


@dataclass(frozen=True)
class Place:
    """A server at a concurrency: tokens/s of a user, and output tokens/s of a GPU."""

    user: float
    gpu: float


@dataclass(frozen=True)
class Curve:
    """A mapping, measured and as simulated, in the same order."""

    mapping: str
    measured: tuple[Place, ...]
    ours: tuple[Place, ...]
    concurrencies: tuple[int, ...]


@dataclass(frozen=True)
class Question:
    """What all mappings of a chart have in common. Prompt and answer in tokens."""

    system: str
    model: str
    engine: str
    precision: str
    prompt: str
    answer: str

    @property
    def name(self) -> str:
        """Of a file."""
        words = (self.system.partition("_")[0], self.model, self.engine.partition(" ")[0], f"{self.prompt}x{self.answer}")
        return re.sub(r"\W", "_", "_".join(words).lower())

    @property
    def title(self) -> str:
        gpu = GPUS.get(self.system, self.system)
        return f"{self.model}, {self.precision.rstrip('?')}, {gpu}, {self.engine}, {self.prompt} + {self.answer}"


def _question(row: Row) -> Question:
    engine = f"{ENGINES.get(row['backend'], row['backend'])} {row['backend_version']}".strip()
    return Question(row["system"], row["model"], engine, row["precision"], row["isl"], row["osl"])


def _mapping(row: Row) -> str:
    """Of one server, or of instances for prompts and for answers: "2P1D DEP8+DEP32". DEP: as many attention replicas share whole experts."""
    if row["mode"] == "disagg":
        counts, sizes = (tuple(row[f"{role}_{what}"] for role in ("prefill", "decode")) for what in ("workers", "tp"))
        ranks = [f"DEP{experts}" if size == "1" and experts not in ("", "1") else f"TP{size}"
                 for size, experts in zip(sizes, (row[f"{role}_ep"] for role in ("prefill", "decode")))]
        return f"{counts[0]}P{counts[1]}D " + ("+".join(ranks) if ranks[0] != ranks[1] else ranks[0])
    return f"TP{row['tp']}" + (f" PP{row['pp']}" if row["pp"] not in ("", "1") else "")


def of_class(rows: Iterable[Row]) -> list[Row]:
    """Those on curves."""
    places: dict[Question, dict[str, set[str]]] = {}
    rows = list(rows)
    for row in rows:
        places.setdefault(_question(row), {}).setdefault(_mapping(row), set()).add(row["concurrency"])
    curves = {question for question, mappings in places.items() if sum(len(found) >= LEAST_PLACES for found in mappings.values()) >= LEAST_MAPPINGS}
    return [row for row in rows if _question(row) in curves]


def place_of(ttft_s: float, tpot_s: float, concurrency: int, answer: float, gpus: int) -> Place:
    return Place(1 / tpot_s, concurrency * answer / (ttft_s + (answer - 1) * tpot_s) / gpus)


def _answer(outcome: Outcome) -> float:
    """The mean answer of the run, in tokens."""
    tokens = outcome.experiment.scenario["workload"]["requests"]["output_tokens"]
    return (tokens["uniform"]["min"] + tokens["uniform"]["max"]) / 2 if isinstance(tokens, dict) else tokens


def curves_of(outcomes: Sequence[Outcome]) -> dict[Question, list[Curve]]:
    """With the concurrencies that have both times."""
    found: dict[Question, dict[str, dict[int, dict[str, Outcome]]]] = {}
    for one in outcomes:
        if not one.skipped:
            by_mapping = found.setdefault(_question(one.row), {}).setdefault(_mapping(one.row), {})
            by_mapping.setdefault(int(one.row["concurrency"]), {})[one.row["metric"]] = one
    questions = {}
    for question, mappings in found.items():
        curves = []
        for mapping, places in sorted(mappings.items(), key=lambda item: (len(item[0]), item[0])):
            both = {concurrency: (times["TTFT"], times["TPOT"]) for concurrency, times in sorted(places.items()) if len(times) == 2}
            if len(both) >= 2:
                measured, ours = ([place_of(*(getattr(one, side) * one.experiment.unit for one in times), concurrency, _answer(times[0]), _gpus(times[0]))
                                   for concurrency, times in both.items()] for side in ("measured", "predicted"))
                curves.append(Curve(mapping, tuple(measured), tuple(ours), tuple(both)))
        if len(curves) >= LEAST_MAPPINGS:
            questions[question] = curves
    return questions


def _gpus(outcome: Outcome) -> int:
    return sum(one.get("count", 1) * one["tp"] * one.get("pp", 1) * one.get("dp", 1) for one in outcome.experiment.scenario["workload"]["instances"])


def at(places: Sequence[Place], user: float) -> float | None:
    """Output tokens/s of a GPU at this interactivity; None outside of what was served."""
    ordered = sorted(places, key=lambda place: place.user)
    if not ordered[0].user <= user <= ordered[-1].user:
        return None
    i = max(1, bisect.bisect_left([place.user for place in ordered], user))
    low, high = ordered[i - 1], ordered[i]
    if low.user == high.user:
        return max(low.gpu, high.gpu)
    share = math.log(user / low.user) / math.log(high.user / low.user)
    return low.gpu * (high.gpu / low.gpu) ** share


def errors(curves: Sequence[Curve]) -> list[float]:
    """Ours / measured - 1 of a mapping's throughput at each measured interactivity within our curve."""
    found = ((place, at(curve.ours, place.user)) for curve in curves for place in curve.measured)
    return [ours / place.gpu - 1 for place, ours in found if ours is not None]


def front(places: Sequence[tuple[str, Place]]) -> list[tuple[str, Place]]:
    """Those that no other beats in both quantities, by interactivity."""
    return sorted((one for one in places if not any(other.user >= one[1].user and other.gpu >= one[1].gpu and other != one[1] for _, other in places)),
                  key=lambda one: one[1].user)


def order(curves: Sequence[Curve], side: str) -> list[str]:
    """Mappings on the front, by the interactivity at which each first appears."""
    return list(dict.fromkeys(mapping for mapping, _ in front([(curve.mapping, place) for curve in curves for place in getattr(curve, side)])))


def leaders(curves: Sequence[Curve]) -> tuple[int, int]:
    """At each measured interactivity that at least two mappings reach on both sides: how often the measured leader leads here, too, and how many such
    places there are. A lead of less than CLEAR_RATIO as measured is left out."""
    right = count = 0
    for user in sorted({place.user for curve in curves for place in curve.measured}):
        both = [(at(curve.measured, user), at(curve.ours, user)) for curve in curves]
        both = [pair for pair in both if None not in pair]
        measured = sorted((pair[0] for pair in both), reverse=True)
        if len(both) >= 2 and measured[0] > CLEAR_RATIO * measured[1]:
            count += 1
            right += max(both)[1] == max(pair[1] for pair in both)
    return right, count


def charts(outcomes: Sequence[Outcome]) -> list[Lines]:
    """A chart for each model, GPU, engine and lengths: measured and simulated curves of a mapping have one colour."""
    drawn = []
    for question, curves in curves_of(outcomes).items():
        lines = []
        for side, dashed in (("measured", 0), ("ours", COLOURS)):
            for i, curve in enumerate(curves):
                dots = sorted((Dot(place.user, place.gpu, None, f"concurrency {concurrency}") for place, concurrency in zip(getattr(curve, side), curve.concurrencies)),
                              key=lambda dot: dot.x)
                lines.append(Line(f"{curve.mapping}, {'measured' if side == 'measured' else 'simulated'}", dots, look=i + dashed))
        drawn.append(Lines(question.name, question.title, "tokens/s/user", "output tokens/s/GPU", lines))
    return drawn


def _percent(errors_found: Sequence[float]) -> str:
    """The median of |error|, and the bias."""
    return f"{100 * percentile([abs(error) for error in errors_found], 0.5):.1f} %, {100 * sum(errors_found) / len(errors_found):+.1f} %"


def targets(outcomes: Sequence[Outcome]) -> list[str]:
    """The tables of errors and of orders along the curves, for the digest."""
    questions = curves_of(outcomes)
    made = ["Median of |error|, and bias:", "", "| curves | places | tokens/s/user, same concurrency | tokens/s/GPU, same concurrency | tokens/s/GPU, same tokens/s/user | of places |",
            "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for question, curves in questions.items():
        both = [pair for curve in curves for pair in zip(curve.measured, curve.ours)]
        along = errors(curves)
        made.append(f"| {question.title} | {len(both)} | {_percent([ours.user / measured.user - 1 for measured, ours in both])} | "
                    f"{_percent([ours.gpu / measured.gpu - 1 for measured, ours in both])} | {_percent(along)} | {len(along)} |")
    made += ["", "Mappings by rising tokens/s/user, from where each is first on the front; and at how many measured tokens/s/user the mapping with the most tokens/s/GPU is "
             f"the same, where it leads by more than {100 * (CLEAR_RATIO - 1):.0f} %:", "", "| curves | measured front | simulated front | same leader |", "| --- | --- | --- | ---: |"]
    for question, curves in questions.items():
        right, count = leaders(curves)
        made.append(f"| {question.title} | {', '.join(order(curves, 'measured'))} | {', '.join(order(curves, 'ours'))} | {f'{right} of {count}' if count else 'no such place'} |")
    return [*made, ""]
