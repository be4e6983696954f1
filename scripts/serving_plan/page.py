"""The decision as a page."""

import pathlib
from collections.abc import Iterable

from lib import summaries
from lib.request_times import percentile
from loading.page import causes_of
from reporting.lines import Bars, Dot, Line, Lines
from reporting.markup import Element, brief, duration_text, element
from reporting.page import chart_section, document, facts_list, section, text_table, tiles

from .decision import Decision

ESTIMATE = "The estimate: the largest rate of one instance by short runs, times the instances; of prefill and decode instances the smaller of both."
FRONT = "the front"


def text(decision: Decision) -> str:
    title = f"Serving plan: {pathlib.Path(decision.traffic.model).stem}"
    main = element("main", element("h1", title), element("p", decision.sentence()), _tiles(decision), _head(decision), id="main")
    sections = []
    if decision.winner:
        head, rows = decision.why()
        sections.append(section("why", "Why it wins", element("p", decision.reason()), text_table("Why it wins, table", head, rows)))
    if decision.changes:
        note = "The winner with the change, and what keeps the objectives then. Of other kinds of instances the next best one is looked at."
        head, rows = decision.what_would_change()
        sections.append(section("what-if", "What would change it", element("p", note, class_="note"), text_table("What would change it, table", head, rows)))
    head, rows = decision.table()
    correlation = decision.correlation()
    ranks = f" Rank correlation with the simulated largest rates, for {'the price' if decision.prices else 'a GPU'}: {correlation:.2f}." if correlation is not None else ""
    sections.append(section("fleets", "Simulated fleets", element("p", ESTIMATE + ranks, class_="note"), text_table("Simulated fleets, table", head, rows)))
    sections += [chart_section(chart) for chart in (*_bars(decision), *_front(decision))]
    if decision.explained:
        sections += [chart_section(chart) for chart in causes_of(decision.explained, f"{decision.traffic.rate_per_s:.4g} requests/s")]
    note = "Of the rank that has least room for KV."
    sections.append(section("memory", "Memory of an instance", element("p", note, class_="note"), text_table("Memory, table", ["GPU", "shape", "sum", "KV"], decision.memory())))
    return document(title, main, sections)


def _tiles(decision: Decision) -> Element | None:
    winner = decision.winner
    if not winner:
        return None
    load = decision.sizes.loads[winner]
    shown = [(f"GPU{'s' * (winner.gpus > 1)}: {winner.label}", str(winner.gpus))]
    if decision.prices:
        shown.append(("an hour", f"{decision.per_hour(winner):.4g}"))
    shown += [(f"{finding.objective.label}, at most {duration_text(finding.objective.bound)}", duration_text(finding.value))
              for finding in load.findings if finding.objective.quantity]
    if times := load.times("tpot"):
        shown.append(("tokens/s for a user, median", brief(1 / percentile(times, 50))))
    if tokens := load.mean("middle.output_tokens_per_s"):
        shown.append(("output tokens/s for a GPU", brief(tokens / winner.gpus)))
    for name, of in (("energy.per_output_token_j", "GPUs"), ("energy.all_per_output_token_j", "GPUs, servers and network")):
        if joules := load.mean(name):
            shown.append((f"J for an output token, {of}, estimate", brief(joules)))
    if rate := decision.sizes.knees.get(winner):
        shown.append(("of the traffic is its largest rate", f"{'over ' if winner in decision.sizes.above else ''}{rate / decision.traffic.rate_per_s:.2f} x"))
    return tiles(shown)


def _head(decision: Decision) -> Element:
    traffic = decision.traffic
    fixed = ", ".join(f"{name} {value}" for name, value in (*traffic.settings.items(), *([("router", traffic.router)] if traffic.router else [])))
    summary = next(iter(decision.sizes.loads.values())).runs[0].summary
    flat = summaries.flat(summary)
    return facts_list([("question", decision.question()), ("same for all", fixed), ("links", traffic.fidelity),
                       ("shapes", f"{len(decision.space.fit)} fit into memory, {len(decision.space.refused)} do not or are refused"),
                       ("Railyard", f"{flat.get('simulator.version', '')} {flat.get('simulator.commit', '')}".strip())])


def _bars(decision: Decision) -> list[Bars]:
    bars = [(None, fleet.label, {"": float(decision.per_hour(fleet) or fleet.gpus)}) for fleet in decision.sizes.smallest()]
    return [Bars("cost", "The smallest fleet of each kind", "price per hour" if decision.prices else "GPUs", bars)] if bars else []


def front_of(dots: Iterable[Dot]) -> list[Dot]:
    """Those that no other one exceeds in both quantities, by x."""
    found: list[Dot] = []
    for dot in sorted(dots, key=lambda dot: (-dot.x, -dot.y)):
        if not found or dot.y > found[-1].y:
            found.append(dot)
    return found[::-1]


def _front(decision: Decision) -> list[Lines]:
    """Throughput of a GPU against interactivity, as the field draws it; from the short runs of one instance."""
    lines = []
    for (kind, shape), loads in decision.rates.loads.items():
        label = f"{shape.label} on {kind.gpu}"
        dots = [Dot(1 / percentile(times, 50), tokens / shape.gpus, None, f"{load.rate_per_s:g} requests/s") for load in loads
                if (times := load.times("tpot")) and (tokens := load.mean("middle.output_tokens_per_s")) and not load.grows]
        if len(dots) > 1:
            lines.append(Line(label, sorted(dots, key=lambda dot: dot.x)))
    if not lines:
        return []
    best = front_of(Dot(dot.x, dot.y, None, f"{line.label}, {dot.note}") for line in lines for dot in line.dots)
    note = ("One colocated instance at rising rates, from short runs; loads without a steady state are left out. "
            f"Beyond {FRONT}, nothing is faster for a user without less throughput.")
    return [Lines("front", "Throughput of a GPU against interactivity", "tokens/s/user", "output tokens/s/GPU", [Line(FRONT, best), *lines], note=note)]
