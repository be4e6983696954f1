"""The page of compare.py: bars of where the time goes in each run, and the tables."""

import pathlib
from collections.abc import Sequence

from comparing.runs import Run
from comparing.tables import Table
from lib import summaries

from . import charts
from .charts import Shares
from .markup import element
from .page import chart_section, document, facts_list, section, text_table
from .serving_charts import LOOKS, parts_of
from .source import Point, Subject


def bars(runs: Sequence[Run]) -> list[Shares]:
    """The parts of the runs' times, in the order of the runs."""
    points = [Point(i, run.label, "done", run.summary["platform"], None, kind=run.summary["kind"], metrics=run.metrics) for i, run in enumerate(runs)]
    drawn = charts.shares(Subject(pathlib.Path(), "", points))
    ttft = [(None, run.label, parts_of(lambda name, run=run: run.metrics.get(f"ttft_parts_s.{name}"))) for run in runs]
    if all(parts for _, _, parts in ttft):
        drawn.append(Shares("ttft-parts", "Where TTFT goes", ttft, LOOKS, note="Means of all requests."))
    for chart in drawn:
        chart.bars = [(None, label, parts) for _, label, parts in chart.bars]  # the page has no row for each run
    return drawn


def text(runs: Sequence[Run], tables: Sequence[Table]) -> str:
    title = "Comparison: " + ", ".join(run.label for run in runs)
    facts = [(run.label, f"{summaries.title(run.summary)}, {run.directory}") for run in runs]
    sections = [chart_section(chart) for chart in bars(runs)]
    for number, table in enumerate(tables):
        head = ["", *table.header[1:]]
        sections.append(section(f"table-{number}", table.title[:1].upper() + table.title[1:], text_table(table.title, head, table.cells)))
    return document(title, element("main", element("h1", title), facts_list(facts), id="main"), sections)
