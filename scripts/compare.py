#!/usr/bin/python3
"""Compares runs: metrics side by side with ratios, where the time moved, which links changed, and where messages waited.

  scripts/compare.py out/a out/b [out/c ...]                                # directories that --out of an executable wrote
  scripts/compare.py out/tp_pp_plx:tp=4,pp=2 out/tp_pp_plx:tp=8,pp=1        # points of a sweep, by their axes
  scripts/compare.py out/a out/b --markdown ab.md --html ab.html --csv ab.csv

The label of a run is made of the keys of its scenario.yaml that differ between the runs; the label of a sweep's point, of its axes. If
these are equal, or a run has no scenario.yaml, the labels are the directories. Ratios and changes are relative to the first run.
"""

import csv
import pathlib
import signal
import sys

from lib import written
from lib.command_line import Parser, one_line, positive

try:
    from comparing import render, runs, tables
    from lib.yaml_source import InputError
    from reporting import compare_page
except ImportError as missing:
    sys.exit(f"compare.py: error: {missing}; it needs the Debian package python3-yaml")

MOST_LINKS = 5


def parse_options(arguments):
    parser = Parser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN",
                        help="directory of a run, or of a sweep with :AXIS=VALUE,... for a point of it")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="also write the tables as Markdown")
    parser.add_argument("--html", type=pathlib.Path, metavar="FILE", help="also write bars of where the time goes, and the tables, as one self-contained page")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="also write all values of all runs")
    parser.add_argument("--links", type=positive, default=MOST_LINKS, metavar="N", help=f"links to show (default {MOST_LINKS})")
    return parser.parse_args(arguments)


def write_csv(path, compared):
    """All values of all runs, not rounded: the quantity, then one column per run."""
    with written.table(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["quantity"] + [run.label for run in compared])
        writer.writerows([name] + values for name, values in tables.all_rows(compared))


def main(arguments=None):
    options = parse_options(arguments)
    with one_line("compare.py", InputError, complete=True), one_line("compare.py", runs.Error):
        compared = runs.read(options.runs)
        shown = tables.compare(compared, options.links)
        if options.csv:
            write_csv(options.csv, compared)
        for path, make in ((options.markdown, render.markdown), (options.html, compare_page.text)):
            if path:
                written.text(path, make(compared, shown))
        print(render.text(compared, shown), end="")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader such as head may leave early
    main()
