"""The page: one HTML file without external resources, with a table for each chart."""

import os
import pathlib
import re
from collections.abc import Callable, Sequence

from . import draw, draw_lines, draw_run
from .charts import Chart, Front, Heat, Shares, Table
from .gantt import Gantt, drawing_of
from .kernel_charts import Roofline
from .lines import Bars, Lines
from .markup import Element, element, shown, written
from .overview import facts_of, tiles_of
from .path_charts import Causes
from .run_charts import Pipeline, Topology
from .source import Point, Subject

FOLDER = pathlib.Path(__file__).resolve().parent
DRAWN: dict[type, Callable[[Chart], Element]] = {
    Front: draw.front,
    Shares: draw.shares,
    Heat: draw.heat,
    Lines: draw_lines.lines,
    Bars: draw_lines.bars,
    Pipeline: draw_run.pipeline,
    Topology: draw_run.topology,
    Roofline: draw_run.roofline,
    Causes: draw_run.causes,
    Gantt: lambda chart: drawing_of([chart.run]),
}
# Nothing is fetched, whatever a scenario's text may hold.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
MOST_ROWS = 5000
LOOKS = ((80, "error"), (24, "words"))  # of a text in a table with more characters: both have several lines
UNITS_OF_CELLS = ("s", "ms", "us", "ns", "%", "x", "tokens", "GB")
FIRST_METRICS = (
    "ttft_s",
    "tpot_s",
    "prefill_capacity_tokens_per_s",
    "request_rate_per_s",
    "output_tokens_per_s",
    "bubble_fraction",
    "exposed_s.tp",
    "exposed_s.kv",
    "layer_s",
    "pass_s",
    "tokens_per_s",
    "tflops",
    "avg_busbw_gb_per_s",
    "unidirectional_gb_per_s",
    "latency_s",
)


def style(name: str) -> str:
    """A style sheet."""
    return (FOLDER / name).read_text(encoding="utf-8")


def drawn(chart: Chart) -> Element | None:
    """The drawing of a chart; None if the chart has too many elements."""
    return None if isinstance(chart, Topology) and not chart.devices else DRAWN[type(chart)](chart)


def _cell(value: object, name: str, tag: str = "td", **attributes: object) -> Element:
    """A cell of a table. A rounded number also has its exact value, in an attribute."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return element(tag, shown(value, name), data_v=repr(value), **attributes)
    return element(tag, shown(value), **{"class_": "text"} | attributes)


def _table(caption: str, table: Table) -> Element:
    names = [element("th", name, scope="col") for name in table.header]
    names[0].set("class", "text")
    head = element("tr", *names)
    body = element("tbody")
    for first, *others in table.rows:
        body.append(
            element(
                "tr",
                _cell(first, table.header[0], "th", scope="row"),
                *(_cell(value, name) for name, value in zip(table.header[1:], others)),
            )
        )
    return element("table", element("caption", caption), element("thead", head), body)


def _scrolled(label: str, *children: Element, class_: str = "scroll") -> Element:
    """An element that scrolls if it is wider than the page, also by keyboard."""
    return element("div", *children, class_=class_, tabindex=0, role="region", aria_label=label)


def chart_section(chart: Chart) -> Element:
    section = element(
        "section", element("h2", chart.title, id=f"{chart.name}-title"), id=chart.name, aria_labelledby=f"{chart.name}-title"
    )
    if chart.note:
        section.append(element("p", chart.note, class_="note"))
    drawing = drawn(chart)
    if drawing is not None:
        section.append(element("figure", _scrolled(f"{chart.title}, drawing", drawing)))
    section.append(
        element(
            "details",
            element("summary", "The numbers as a table"),
            _scrolled(f"{chart.title}, table", _table(chart.title, chart.table())),
            open="open" if chart.table_open else None,
        )
    )
    return section


def _files(point: Point, directory: pathlib.Path, page: pathlib.Path) -> Element | None:
    """Links to the files of a run: its outputs and, in a sweep, the files with which it can be repeated."""
    folders = [point.files] if point.files else []
    if point.files and point.files != directory:
        folders.append(point.files.parent)
    paths = [
        path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()) if path.is_file() and path != page
    ]
    if not paths:
        return None
    links = [
        element("a", path.name, href=pathlib.PurePosixPath(os.path.relpath(path.resolve(), page.parent)).as_posix())
        for path in paths
    ]
    return element("details", element("summary", f"{len(links)} files"), *links)


def _runs(subject: Subject, page: pathlib.Path) -> Element:
    """The table of the runs of a sweep, in the order of the sweep. The script of the page sorts and filters the rows."""
    metrics = [
        name for name in dict.fromkeys(name for point in subject.points for name in point.metrics) if name != subject.objective
    ]
    known = [name for name in FIRST_METRICS if name in metrics]
    metrics = (known or metrics[:6]) + [name for name in metrics if name not in (known or metrics[:6])]
    few = set(known or metrics[:6])
    axes = list(dict.fromkeys(name for point in subject.points for name in point.values))
    columns: list[tuple[str, str, Callable[[Point], object]]] = [("run", "text", lambda point: point.label)]
    columns += [
        (name, "" if name in subject.axes else "more", lambda point, name=name: point.values.get(name)) for name in axes
    ]
    columns.append(("status", "", lambda point: point.status))
    if subject.objective:
        columns.append((subject.objective, "", lambda point: point.objective))
    columns += [(name, "" if name in few else "more", lambda point, name=name: point.metrics.get(name)) for name in metrics]
    head = element(
        "tr",
        *(
            element("th", element("button", name, type="button"), scope="col", data_name=name, class_=class_ or None)
            for name, class_, _ in columns
        ),
        element("th", "files", scope="col"),
    )
    body = element("tbody")
    for point in subject.points[:MOST_ROWS]:
        row = element("tr", id=f"run-{point.number}", data_run=point.number)
        for i, (name, class_, value) in enumerate(columns):
            row.append(
                _cell(value(point), name, "th" if i == 0 else "td", class_=class_ or None, scope="row" if i == 0 else None)
            )
        files = _files(point, subject.directory, page)
        row.append(element("td", point.error, class_="error") if point.error else element("td", files, class_="text"))
        body.append(row)
    caption = None
    if len(subject.points) > MOST_ROWS:
        caption = element("caption", f"The first {MOST_ROWS} of {len(subject.points)} runs; results.sqlite has all.")
    controls = element(
        "div",
        element(
            "label", "Filter ", element("input", type="search", id="filter", placeholder="tp=8 ttft_s<0.5", autocomplete="off")
        ),
        element("label", element("input", type="checkbox", id="every"), " every metric"),
        element("span", id="count", role="status"),
        element("span", "Press a column's head to sort."),
        class_="controls",
        hidden="hidden",
    )
    table = element("table", caption, element("thead", head), body)
    return element(
        "section",
        element("h2", "Runs", id="runs-title"),
        controls,
        _scrolled("Runs, table", table),
        id="runs",
        aria_labelledby="runs-title",
    )


def _metrics(point: Point) -> Element:
    body = element(
        "tbody", *(element("tr", element("th", name, scope="row"), _cell(value, name)) for name, value in point.metrics.items())
    )
    head = element(
        "thead", element("tr", element("th", "metric", scope="col", class_="text"), element("th", "value", scope="col"))
    )
    return element(
        "section",
        element("h2", "All metrics", id="metrics-title"),
        element("p", "By their names in summary.json, which sweeps and objectives take.", class_="note"),
        _scrolled("Metrics, table", element("table", head, body), class_="scroll low"),
        id="metrics",
        aria_labelledby="metrics-title",
    )


def facts_list(facts: Sequence[tuple[str, str | Element | None]]) -> Element:
    entries = [(name, fact) for name, fact in facts if fact is not None and fact != ""]
    return element("dl", *(part for name, fact in entries for part in (element("dt", name), element("dd", fact))))


def render(
    subject: Subject, charts: Sequence[Chart], detail: Point | None, details: Sequence[Chart], page: pathlib.Path, kept: str
) -> str:
    """@param charts  of all runs. @param detail  the run that `details` show. @param page  the path of the page. @param kept  which runs keep service levels"""
    page = page.resolve()
    main = element("main", element("h1", subject.title), id="main")
    sections = [chart_section(chart) for chart in charts]
    if subject.is_sweep:
        counts = {status: sum(point.status == status for point in subject.points) for status in ("done", "failed", "missing")}
        goal = f"{'largest' if subject.largest_is_best else 'smallest'} {subject.objective}" if subject.objective else ""
        best = None
        if detail:
            best = element("a", detail.label, href=f"#run-{detail.number}")
        main.append(
            facts_list(
                [
                    ("runs", ", ".join(f"{count} {status}" for status, count in counts.items() if count)),
                    ("axes", ", ".join(subject.axes)),
                    ("objective", goal),
                    ("best" if goal else "first", best),
                    ("service level", kept),
                ]
            )
        )
        sections.append(_runs(subject, page))
    if detail:
        if subject.is_sweep:
            own = element(
                "section",
                element("h2", f"{'The best' if subject.objective else 'The first'} run: {detail.label}", id="detail-title"),
                element(
                    "p", "What follows is of this run; its directory makes a report of its own of any other.", class_="note"
                ),
                id="detail",
                aria_labelledby="detail-title",
            )
            sections.append(own)
        else:
            facts = [*facts_of(detail), ("service level", kept), ("files", _files(detail, subject.directory, page))]
            main.append(facts_list(facts))
        if shown_tiles := tiles_of(detail):
            (own if subject.is_sweep else main).append(tiles(shown_tiles))
        sections += [chart_section(chart) for chart in details]
        sections.append(_metrics(detail))
    return document(subject.title, main, sections)


def _is_number(cell: str) -> bool:
    """Numbers with units, or nothing."""
    return all(word in UNITS_OF_CELLS or re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", word) for word in re.split("[ ,]+", cell) if word)


def text_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Element:
    """A table of texts that scrolls if it is wider than the page. Columns of numbers are on the right; long texts have several lines."""
    texts = [not all(_is_number(row[i]) for row in rows) for i in range(len(head))]
    names = element("tr", *(element("th", name, scope="col", class_="text" if text else None) for name, text in zip(head, texts)))
    looks = [[next((look for most, look in LOOKS if len(cell) > most), "text") if text else None for cell, text in zip(row, texts)] for row in rows]
    body = [element("tr", *(element("td", cell, class_=look) for cell, look in zip(row, of_row))) for row, of_row in zip(rows, looks)]
    return _scrolled(caption, element("table", element("thead", names), element("tbody", *body)))


def section(name: str, title: str, *content: Element) -> Element:
    return element("section", element("h2", title, id=f"{name}-title"), *content, id=name, aria_labelledby=f"{name}-title")


def tiles(facts: Sequence[tuple[str, str]]) -> Element:
    """A few numbers in large type: the name below each."""
    return element("div", *(element("div", element("b", value), element("span", name)) for name, value in facts), class_="tiles")


def document(title: str, main: Element, sections: Sequence[Element]) -> str:
    """A page: what `main` has, links to the sections, and the sections."""
    links = [element("li", element("a", part.find("h2").text, href=f"#{part.get('id')}")) for part in sections]
    main.append(element("nav", element("ul", *links), aria_label="Sections"))
    main.extend(sections)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", style("drawing.css"), style("page.css")),
    )
    body = element(
        "body",
        element("a", "To the content", href="#main", class_="skip"),
        main,
        element("div", id="tip", role="tooltip", hidden="hidden"),
        element("script", (FOLDER / "page.js").read_text(encoding="utf-8")),
    )
    return "<!DOCTYPE html>\n" + written(element("html", head, body, lang="en")) + "\n"
