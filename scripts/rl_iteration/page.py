"""The result as a page: the answer, the parts, when samples are done, and what would change it."""

from lib import summaries
from reporting.charts import Chart
from reporting.lines import Bars, Dot, Line, Lines
from reporting.markup import brief, duration_text, element, long_unit
from reporting.page import chart_section, document, facts_list, section, text_table, tiles

from .iteration import PARTS
from .result import Result

PLACES = 100  # of the curve


def charts(found: Result) -> list[Chart]:
    size, unit = long_unit(found.seconds)
    bars = [(None, words, {"": found.times.part(name) / size}) for name, words in PARTS.items() if found.times.part(name)]
    curves = []
    for i, one in enumerate(found.phases.rollouts):
        shares = sorted({max(1, round(len(one.ends_s) * place / PLACES)) / len(one.ends_s) for place in range(PLACES + 1)})
        curves.append(Line(f"run {i + 1}", [Dot(one.done_s(share) / size, 100 * share, None) for share in shares]))
    return [Bars("parts", "Parts of the iteration", unit, bars, note="Parts of an asynchronous iteration run side by side." if found.schedule == "asynchronous" else ""),
            Lines("samples", "Samples that are done", f"time from the start of the rollouts, {unit}", "% of the samples", curves)]


def text(found: Result) -> str:
    title = f"Reinforcement learning: {found.title}"
    flat = summaries.flat(found.phases.training.summary)
    shown = [("an iteration", duration_text(found.seconds)), ("samples/s", brief(found.samples / found.seconds)),
             ("tokens/s of each GPU", brief(found.tokens / found.seconds / found.gpus)), ("GPUs", str(found.gpus)),
             ("GPU hours for 1000 iterations", brief(found.seconds * found.gpus / 3.6))]
    facts = [*found.facts(), ("Railyard", f"{flat.get('simulator.version', '')} {flat.get('simulator.commit', '')}".strip())]
    main = element("main", element("h1", title), element("p", f"{found.question()}: {found.answer()}."), tiles(shown), facts_list(facts), id="main")
    note = element("p", "Each change alone, from the same phases.", class_="note")
    sections = [section("where", "Where the time goes", text_table("Where the time goes, table", *found.table())),
                *(chart_section(chart) for chart in charts(found)),
                section("changes", "What would change it", note, text_table("What would change it, table", *found.changes()))]
    return document(title, main, sections)
