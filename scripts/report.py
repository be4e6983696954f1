#!/usr/bin/python3
"""Makes a self-contained page, report.html, of a run or of a sweep, and on request figures for papers.

  scripts/report.py out/plx                                  # the --out directory of an executable
  scripts/report.py out/tp_pp_plx --slo ttft_s=0.5           # a sweep: reads its results.sqlite and its runs
  scripts/report.py out/tp_pp_plx --figures figures          # every chart also as an SVG file

docs/report.md explains the page.
"""

import argparse
import math
import pathlib
import re
import sys
from collections.abc import Sequence

from lib import written
from lib.command_line import Parser, one_line

try:
    from reporting import charts, figures, gantt, kernel_charts, kinds, page, path_charts, run_charts, serving_charts, source, training_charts
except ImportError as missing:
    sys.exit(f"report.py: error: {missing}; it needs the Debian package python3-yaml")


def limit(text: str) -> charts.Limit:
    found = re.fullmatch(r"([^<>=]+)(=|<=|>=)([^<>=]+)", text)
    try:
        value = float(found[3]) if found else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not METRIC=LIMIT, as ttft_s=0.5")
    return charts.Limit(found[1].strip(), value, found[2] != ">=")


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("directory", metavar="DIR", type=pathlib.Path, help="directory of a run or of a sweep")
    parser.add_argument("--html", type=pathlib.Path, metavar="FILE", help="file for the page (default DIR/report.html)")
    parser.add_argument(
        "--slo",
        type=limit,
        action="append",
        default=[],
        metavar="METRIC=LIMIT",
        help="service level, of any metric or percentile (ttft_p95_s=0.5, slo_attainment_ratio>=0.9): a line in its chart of the Pareto front, and how many runs keep it; repeatable",
    )
    parser.add_argument("--figures", type=pathlib.Path, metavar="DIR", help="also write every chart as an SVG file")
    options = parser.parse_args(arguments)
    options.html = options.html or options.directory / "report.html"
    return options


def of_run(point: source.Point) -> list[charts.Chart]:
    files = point.files
    topology = run_charts.topology(files)
    slots = gantt.chart_of(files) if point.kind == "training" else None
    return [
        *serving_charts.charts(point),
        *path_charts.charts(files),
        *([slots] if slots else run_charts.pipelines(files)),
        *training_charts.charts(point),
        *run_charts.matrices(files),
        *([topology] if topology else []),
        *kernel_charts.of_layer(files),
    ]


def report(options: argparse.Namespace) -> None:
    subject = source.read(options.directory)
    shown = [
        *charts.fronts(subject, options.slo),
        *kinds.charts(subject),
        *charts.shares(subject),
        *charts.heats(subject),
    ]
    detail = next(iter(subject.ranked()), None)
    details = of_run(detail) if detail else []
    text = page.render(subject, shown, detail, details, options.html, charts.kept(subject, options.slo))
    if options.figures:
        figures.draw_all([*shown, *details], options.figures)
    written.text(options.html, text)
    print(options.html)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    with one_line("report.py", source.Error):
        report(options)


if __name__ == "__main__":
    main()
