"""The result as a page: the answer, where the time goes, the interval of checkpoints, and what was assumed."""

import numpy as np

from lib import summaries
from reporting.charts import Chart
from reporting.lines import Bars, Dot, Line, Lines
from reporting.markup import Element, brief, element, long_text, long_unit
from reporting.page import chart_section, document, facts_list, section, text_table, tiles

from . import best
from .operation import KEYS
from .process import PARTS
from .result import SPARE, Result, bytes_text, count_text

PLACES = 25  # of the curve
SPAN = 8.0  # of the curve: to this factor above and below
TIMES = 100_000  # between failures, of its simulation


def _simulated(found: Result, places_s: np.ndarray) -> np.ndarray:
    """Training that stays done, as a share of the time, for each training between two checkpoints."""
    process, composed = found.composed.process, found.composed
    extra_s = np.array([composed.segment_s(place) - place - process.pause_s for place in places_s.tolist()])
    return best.goodputs(places_s, process.mtbf_s, process.pause_s, extra_s, process.writing_s, process.recovery_s, found.seed, TIMES)


def _curve(found: Result) -> list[Chart]:
    process, composed = found.composed.process, found.composed
    intervals = composed.intervals
    if intervals.formula_s is None:
        return []
    mean, unit = process.stragglers.mean, "s" if intervals.chosen_s < 120 else "min"
    size = 60 if unit == "min" else 1
    array = intervals.formula_s * np.geomspace(1 / SPAN, SPAN, PLACES)
    places, simulated = array.tolist(), _simulated(found, array).tolist()
    lines = [Line("closed form", [Dot(place / size, 100 - 100 * composed.goodput(place), None) for place in places]),
             Line("simulated", [Dot(place / size, 100 - 100 * kept / mean, None) for place, kept in zip(places, simulated)])]
    named = {"Young": intervals.young_s, "Daly": intervals.daly_s, "this run": intervals.chosen_s}
    lines += [Line(f"{name}: {long_text(place)}", [Dot(place / size, 100 - 100 * composed.goodput(place), None)]) for name, place in named.items()]
    note = "The share of the time that no step as simulated takes, against the training from a checkpoint to the next one. With a server for every failure."
    return [Lines("interval", "Time lost, by the interval of checkpoints", f"interval, {unit}", "time lost, %", lines, place=intervals.chosen_s / size, note=note)]


def _lost(found: Result) -> list[Chart]:
    lost = {words: found.parts_s[part] for part, words in PARTS.items() if part != "steps" and found.parts_s[part] > 0}
    size, unit = long_unit(max(lost.values(), default=0.0))
    bars = [(None, words, {"": seconds / size}) for words, seconds in lost.items()]
    note = f"Beside {long_text(found.parts_s['steps'])} of steps. Means of {len(found.runs)} runs."
    return [Bars("lost", "Time that no step as simulated takes", unit, bars, note=note)] if bars else []


def _runs(found: Result) -> list[Chart]:
    if len(found.runs) < 2:
        return []
    lost_s = sorted(run.total_s - run.parts_s["steps"] for run in found.runs)
    size, unit = long_unit(lost_s[-1])
    line = Line("runs", [Dot(seconds / size, 100 * (i + 1) / len(lost_s), None) for i, seconds in enumerate(lost_s)])
    note = "The same run with other seeds: the share of runs that lose at most so much time."
    return [Lines("spread", "How much runs lose, by their failures", f"lost, {unit}", "% of the runs", [line], note=note)]


def charts(found: Result) -> list[Chart]:
    return [*_lost(found), *_curve(found), *_runs(found)]


def _tiles(found: Result) -> Element:
    shown = [(f"for {count_text(found.tokens)} tokens", long_text(found.total_s)), ("effective training time", f"{100 * found.effective:.1f} %"),
             ("goodput", f"{100 * found.goodput:.1f} %"), ("GPU hours", count_text(found.gpu_hours))]
    if found.cost is not None:
        shown.append(("cost", count_text(found.cost)))
    if found.energy_kwh is not None:
        shown.append(("MWh of GPUs", brief(found.energy_kwh / 1000)) if found.energy_kwh >= 1000 else ("kWh of GPUs", brief(found.energy_kwh)))
    if found.composed.process.causes:
        shown.append(("failures", brief(sum(found.failures.values()))))
    if found.checkpoints:
        shown.append((f"checkpoints of {bytes_text(found.composed.cost.total_bytes)}", count_text(found.checkpoints)))
    return tiles(shown)


def _inputs(found: Result) -> Element:
    given = found.operation.given
    rows = []
    for key in KEYS:
        if "[]" in key.name:
            continue
        if key.name in given:
            rows.append([key.name, str(given[key.name].plain()), "given"])
        elif key.name == "checkpoint.mode":
            rows.append([key.name, found.operation.checkpoint.mode, "default"])
        elif key.default is not None:
            rows.append([key.name, f"{key.default:g}" if isinstance(key.default, float) else str(key.default), "default"])
    rows += [[f"stragglers.{i}", ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in vars(one).items() if value is not None), "given"]
             for i, one in enumerate(found.operation.stragglers)]
    return text_table("Inputs, table", ["key", "value", "from"], rows)


def text(found: Result, drawn: list[Chart]) -> str:
    """@param drawn  charts()"""
    title = f"Time to tokens: {summaries.title(found.step.summary)}"
    process, flat = found.composed.process, summaries.flat(found.step.summary)
    facts = [("step", found.question()), ("failures", found.of_failures())]
    if process.causes:
        facts += [("a failure costs", f"{long_text(process.recovery_s)} until the job trains again, and the steps since the last safe checkpoint"),
                  ("goodput by the closed form", f"{100 * found.formula:.2f} %, simulated {100 * found.goodput:.2f} %")]
    if not process.stragglers.are_none:
        facts.append(("the slowest member", f"{process.stragglers.mean:.4f} of a step, on average"))
    if found.spare_gpu_hours:
        facts.append(("spare servers", f"{process.spares}: {count_text(found.spare_gpu_hours)} GPU hours"))
    facts.append(("Railyard", f"{flat.get('simulator.version', '')} {flat.get('simulator.commit', '')}".strip()))
    main = element("main", element("h1", title), element("p", found.answer()), _tiles(found), facts_list(facts), id="main")
    head, rows = found.table()
    sections = [section("parts", "Where the time goes", text_table("Where the time goes, table", head, rows))]
    sections += [chart_section(chart) for chart in drawn if chart.name == "lost"]
    head, rows = found.of_changes()
    if rows:
        note = f"Each change alone, by the closed form{SPARE}; with the best interval, if this run has it."
        sections.append(section("changes", "What would change it", element("p", note, class_="note"), text_table("What would change it, table", head, rows)))
    sections.append(section("checkpoint", "A checkpoint", facts_list(found.of_checkpoint())))
    if intervals := found.of_intervals():
        note = "Training from a checkpoint to the next one."
        sections.append(section("intervals", "Intervals", element("p", note, class_="note"), text_table("Intervals, table", ["interval", "time"], [list(row) for row in intervals])))
    sections += [chart_section(chart) for chart in drawn if chart.name != "lost"]
    sections.append(section("inputs", "What was assumed", _inputs(found)))
    return document(title, main, sections)
