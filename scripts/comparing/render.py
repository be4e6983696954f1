"""Tables as text for a terminal, as Markdown, and as a self-contained HTML page."""

import html
from collections.abc import Iterable

from lib import summaries

from .runs import Run
from .tables import Table

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } dt { font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1.5rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
th, td { padding: .2rem .8rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #8884; }
tbody th { text-align: left; font-weight: normal; }
.beside { opacity: .75; }
@media print { body { margin: 0; max-width: none; } table { break-inside: avoid; } }
"""


def text(runs: list[Run], tables: list[Table]) -> str:
    lines = [f"{run.label}: {summaries.title(run.summary)}, {run.directory}" for run in runs] + [""]
    for table in tables:
        cells = [table.header] + table.cells
        widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
        for line in cells:
            right = "".join(f"  {cell:>{width}}" for cell, width in zip(line[1:], widths[1:]))
            lines.append(f"  {line[0]:<{widths[0]}}{right}".rstrip())
        lines.append("")
    return "\n".join(lines) + "\n"


def markdown(runs: list[Run], tables: list[Table]) -> str:
    def row(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    lines = [f"- **{run.label}**: {summaries.title(run.summary)}, `{run.directory}`" for run in runs]
    for table in tables:
        lines += ["", row(table.header), row(["---"] + ["---:"] * (len(table.header) - 1))]
        lines += [row(["`" + line[0] + "`"] + line[1:]) for line in table.cells]
    return "\n".join(lines) + "\n"


def page(runs: list[Run], tables: list[Table]) -> str:
    title = html.escape("Comparison: " + ", ".join(run.label for run in runs))
    parts = ['<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
             '<meta name="viewport" content="width=device-width, initial-scale=1">',
             f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<dl>"]
    for run in runs:
        parts.append(f"<dt>{html.escape(run.label)}</dt><dd>{html.escape(summaries.title(run.summary))}, {html.escape(run.directory)}</dd>")
    parts.append("</dl>")
    for table in tables:
        heads = "".join(f'<th scope="col"{_kind(i)}>{html.escape(cell)}</th>' for i, cell in enumerate(table.header[1:]))
        parts.append(f'<div class="wide">\n<table>\n<caption>{html.escape(table.title)}</caption>')
        parts.append(f"<thead><tr><td></td>{heads}</tr></thead>\n<tbody>")
        for name, *cells in table.cells:
            values = "".join(f"<td{_kind(i)}>{html.escape(cell)}</td>" for i, cell in enumerate(cells))
            parts.append(f'<tr><th scope="row">{html.escape(name)}</th>{values}</tr>')
        parts.append("</tbody>\n</table>\n</div>")
    return "\n".join(parts) + "\n</main>\n</body>\n</html>\n"


def _kind(column: int) -> str:
    """The first run has one column. Every other run has a value and its ratio or difference."""
    return ' class="beside"' if column > 0 and column % 2 == 0 else ""
