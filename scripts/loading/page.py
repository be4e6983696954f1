"""The result as a page: the curve, what breaks, where TTFT goes, and what the service does over time."""

import math
import pathlib

from lib import summaries
from lib.request_times import percentile
from reporting.charts import Chart, Shares
from reporting.lines import Dot, Line, Lines
from reporting.markup import Element, brief, duration_text, element
from reporting.page import chart_section, document, facts_list, section, text_table, tiles
from reporting.path_charts import charts as causes
from reporting.serving_charts import LOOKS, distribution, parts_of

from . import batches, cost
from .judgement import Load
from .result import SHOWN_TIMES, Result

RATE = "requests/s"
DRAWN = (50, 90, 99)  # percentiles
SERIES = {
    "running": ("Running requests", "requests"),
    "waiting": ("Waiting requests", "requests"),
    "tokens": ("Tokens in a batch", "tokens"),
    "blocks": ("KV blocks in use", "blocks"),
}


def _limit_of(found: Result, quantity: str) -> float | None:
    limits = [objective.bound for objective in found.objectives if objective.quantity == quantity]
    return min(limits, default=None)


def _curves(found: Result) -> list[Chart]:
    place = found.knee.rate_per_s if found.knee else None
    drawn: list[Chart] = []
    for quantity, name in SHOWN_TIMES.items():
        loads = [(load, times) for load in found.loads if (times := load.times(quantity))]
        lines = [Line(f"p{p}", [Dot(load.rate_per_s, percentile(times, p), None) for load, times in loads]) for p in DRAWN]
        if loads:
            drawn.append(Lines(f"curve-{quantity}", f"{name} against the rate", RATE, f"{name}_s", lines, True, _limit_of(found, quantity), place,
                                note="Percentiles of the requests that arrive while the service is neither filling nor emptying."))
    served = [(load.rate_per_s, value) for load in found.loads if (value := load.mean("middle.request_rate_per_s")) is not None]
    lines = [Line("within the limits (goodput)", [Dot(load.rate_per_s, load.rate_per_s * load.within, None) for load in found.loads])]
    if served:
        lines.append(Line("served", [Dot(rate, value, None) for rate, value in served]))
    drawn.append(Lines("curve-goodput", "Goodput against the rate", RATE, "requests/s ", lines, False, None, place))
    return drawn


def _parts(load: Load) -> dict[str, float]:
    return parts_of(lambda name: load.mean(f"ttft_parts_s.{name}"))


def _ttft_parts(found: Result) -> list[Chart]:
    bars = [(None, f"{load.rate_per_s:g} {RATE}", parts) for load in found.loads if (parts := _parts(load)) and (load.holds or not load.grows)]
    if not bars:
        return []
    return [Shares("ttft-parts", "Where TTFT goes, by rate", bars, LOOKS, note="Means of all requests. Loads without a steady state are left out.")]


def _distributions(found: Result) -> list[Chart]:
    shown = {rate for rate, _ in found.observed}
    drawn: list[Chart] = []
    for quantity, name in SHOWN_TIMES.items():
        lines = []
        for load in found.loads:
            if load.rate_per_s in shown and (times := load.times(quantity)):
                lines.append(Line(f"{load.rate_per_s:g} {RATE}", distribution(times)))
        if lines:
            drawn.append(Lines(f"cdf-{quantity}", f"Distribution of {name}", f"{name}_s", "% of requests", lines,
                                note="The share of requests with at most this time."))
    return drawn


def _over_time(found: Result) -> list[Chart]:
    series = [(rate, batches.read(folder / batches.FILE)) for rate, folder in found.observed]
    drawn: list[Chart] = []
    for key, (title, unit) in SERIES.items():
        lines = [Line(f"{rate:g} {RATE}", [Dot(at, value, None) for at, value in of_rate[key]]) for rate, of_rate in series if of_rate[key]]
        if lines:
            drawn.append(Lines(f"time-{key}", f"{title} over time", "time_s", unit, lines,
                                note="Mean of all batches within equal parts of the run, of the first seed. With several instances, their sum."))
    return drawn


def causes_of(folder: pathlib.Path, where: str) -> list[Chart]:
    """What limits TTFT and TPOT, from a run with critical paths. @param where  of the titles"""
    shown = [chart for chart in causes(folder) if chart.path.metric in ("ttft_s", "tpot_s")]
    for chart in shown:
        name = chart.path.metric.removesuffix("_s").upper()
        chart.title = f"What limits {name} at {where}"
        chart.table_open = False
    return shown


def _why(found: Result) -> list[Chart]:
    if not found.explained:
        return []
    rate, folder = found.explained
    return causes_of(folder, f"{rate:g} {RATE}")


def _tiles(found: Result) -> Element | None:
    if not found.knee:
        return None
    at = found.knee.low
    shown = [("requests/s, the largest rate", f"{found.knee.rate_per_s:.3g}")]
    for quantity, name in SHOWN_TIMES.items():
        if times := at.times(quantity):
            shown.append((f"{name} p99 at {at.rate_per_s:g}/s", duration_text(percentile(times, 99))))
    if times := at.times("tpot"):
        shown.append(("tokens/s for a user, median", f"{1 / percentile(times, 50):.3g}"))
    if tokens := at.mean("middle.output_tokens_per_s"):
        shown.append(("output tokens/s", brief(tokens)))
    for name, of in (("energy.per_output_token_j", "GPUs"), ("energy.all_per_output_token_j", "GPUs, servers and network")):
        if joules := at.mean(name):
            shown.append((f"J for an output token, {of}, estimate", brief(joules)))
    if spent := cost.of_load(at, found.prices):
        shown.append(("for a million output tokens", f"{spent.per_million_output:.3g}"))
    return tiles(shown)


def _head(found: Result) -> Element:
    summary = found.loads[0].runs[0].summary
    setup, flat = summary.get("setup", {}), summaries.flat(found.loads[0].runs[0].summary)
    machine = ", ".join(f"{group.get('servers', 1)} x {summary['platform']}, {group['gpu']}" for group in setup.get("groups", {}).values())
    instances = ", ".join(f"{one['name']}: tp {one.get('tp', 1)}, pp {one.get('pp', 1)}, {one.get('engine', '')}" for one in setup.get("instances", []))
    limits = ", ".join(objective.text for objective in found.objectives)
    return facts_list([("model", summary.get("model", "")), ("machine", machine), ("instances", instances), ("objectives", limits),
                       ("scenario", found.loaded.path.name), ("changed", ", ".join(f"{k}={v}" for k, v in found.loaded.settings.items())),
                       ("Railyard", f"{flat.get('simulator.version', '')} {flat.get('simulator.commit', '')}".strip())])


def charts(found: Result) -> list[Chart]:
    every = [*_curves(found), *_ttft_parts(found), *_why(found), *_distributions(found), *_over_time(found)]
    return [chart for chart in every if _is_drawable(chart)]


def text(found: Result) -> str:
    title = f"Load of {summaries.title(found.loads[0].runs[0].summary)}"
    main = element("main", element("h1", title), element("p", found.answer()), _tiles(found), _head(found), id="main")
    head, rows = found.table()
    note = "A load holds if the requests tell so with certainty; (open): they do not tell, and the mean counts. requests: runs x requests of each."
    table = section("loads", "Loads", element("p", note, class_="note"), text_table("Loads, table", head, rows))
    return document(title, main, [table, *map(chart_section, charts(found))])


def _is_drawable(chart: Chart) -> bool:
    """A scale needs a value above zero."""
    return not isinstance(chart, Lines) or any(dot.y > 0 and math.isfinite(dot.y) for line in chart.lines for dot in line.dots)
