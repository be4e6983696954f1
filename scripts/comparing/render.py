"""Tables as text for a terminal and as Markdown. The page is reporting/compare_page.py."""

from collections.abc import Iterable

from lib import summaries

from .runs import Run
from .tables import Table


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
