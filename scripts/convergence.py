#!/usr/bin/python3
"""Shows how the results of a scenario converge with smaller transactions.

  scripts/convergence.py build/bin/plx_box scenarios/nic_rule_comparison/modulo.yaml --figure error.svg

Runs the scenario with fabric.transaction_bytes from 1 MiB down to 4 KiB, and with `auto`. Prints TTFT and the mean message time of each
class, and their difference from the run with the smallest transactions.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from lib import summaries
from lib.command_line import BAD_INPUT, Parser, one_line, reason_of

try:
    from reporting import draw_lines, figures
    from reporting.lines import Dot, Line, Lines
except ImportError as missing:
    sys.exit(f"convergence.py: error: {missing}; it needs the Debian package python3-yaml")

SIZES = [1 << 20, 1 << 18, 1 << 16, 1 << 15, 1 << 14, 1 << 13, 1 << 12]


class RunFailed(Exception):
    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def run(options, size, directory):
    """The summary of one run."""
    command = [options.executable, options.scenario, "--quiet", "--out", directory]
    for setting in options.set + [f"fabric.transaction_bytes={size}"]:
        command += ["--set", setting]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise RunFailed(f"convergence.py: error: {reason_of(error)}", BAD_INPUT) from error
    if done.returncode != 0:
        status = done.returncode if done.returncode > 0 else 128 - done.returncode
        raise RunFailed(done.stderr.strip() or f"convergence.py: exit status {status}", status)
    return summaries.read(os.path.join(directory, "summary.json"))


def results(summary):
    """What is compared: name to seconds."""
    if not summary["metrics"].get("ttft_s"):
        raise RunFailed(f"convergence.py: error: a run of {summary['kind']} has no time to first token; a disaggregated_prefill has", BAD_INPUT)
    times = {"TTFT": summary["metrics"]["ttft_s"]}
    for row in summary["traffic"]:
        if row.get("messages") and row.get("mean_actual_s"):
            times[f"{row['class']} message"] = row["mean_actual_s"]
    return times


def size_name(size):
    if size == "auto":
        return size
    shift, unit = next((shift, unit) for shift, unit in ((20, "MiB"), (10, "KiB"), (0, "B")) if size % (1 << shift) == 0)
    return f"{size >> shift} {unit}"


def print_table(rows, finest):
    names = list(finest)
    print("| transaction | " + " | ".join(f"{name} | error" for name in names) + " | transactions |")
    print("| --- |" + " ---: |" * (2 * len(names) + 1))
    for size, times, transactions in rows:
        cells = []
        for name in names:
            scale, unit = (1e3, "ms") if finest[name] >= 1e-3 else (1e6, "us")
            error = 100 * (times[name] / finest[name] - 1)
            cells += [f"{times[name] * scale:.3f} {unit}", f"{error:+.2f} %" if times is not finest else "reference"]
        print(f"| {size_name(size)} | " + " | ".join(cells) + f" | {transactions * 1e-6:.2f} M |")


def draw(path, rows, finest, title):
    """The error of each time by transaction size; at `auto` as a dotted line."""
    lines = []
    for name in finest:
        errors = {size: 100 * abs(times[name] / finest[name] - 1) for size, times, _ in rows if times is not finest}
        at_auto = errors.pop("auto")
        lines.append(Line(name, [Dot(size, error, None) for size, error in sorted(errors.items())], at_auto))
    y_name = f"error against {size_name(rows[-2][0])}, % (dotted: auto)"
    chart = Lines("error", title, "fabric.transaction_bytes", y_name, lines, y_logarithmic=True)
    figures.write(pathlib.Path(path), title, draw_lines.lines(chart))


def transaction_bytes(text):
    if not text.isdigit() or int(text) < 64:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of bytes; accepted: 64 or more")
    return int(text)


def parse_options(arguments):
    parser = Parser(description=__doc__)
    parser.add_argument("executable", help="platform executable")
    parser.add_argument("scenario")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the scenario in every run; repeatable")
    parser.add_argument("--sizes", nargs="+", type=transaction_bytes, default=SIZES, metavar="BYTES", help="transaction sizes")
    parser.add_argument("--figure", metavar="FILE", help="draw the differences into this .svg file")
    options = parser.parse_args(arguments)
    if options.figure and not options.figure.endswith(".svg"):
        parser.error(f"--figure {options.figure}: a figure is an .svg file; rsvg-convert makes a .png or .pdf of it")
    if len(set(options.sizes)) < 2:
        parser.error("--sizes: give at least two sizes")
    return options


def main(arguments=None):
    options = parse_options(arguments)
    rows = []
    try:
        with one_line("convergence.py"), tempfile.TemporaryDirectory() as scratch:
            for size in sorted(set(options.sizes), reverse=True) + ["auto"]:
                print(f"running {size_name(size)}", file=sys.stderr)
                summary = run(options, size, os.path.join(scratch, "run"))
                rows.append((size, results(summary), summary["simulator"]["transactions"]))
    except RunFailed as error:
        print(error, file=sys.stderr)
        sys.exit(error.status)
    finest = rows[-2][1]
    print_table(rows, finest)
    if options.figure:
        try:
            draw(options.figure, rows, finest, f"{os.path.basename(options.scenario)}: {summary['model']} on {summary['platform']}")
        except OSError as error:
            print(f"convergence.py: error: {reason_of(error)}", file=sys.stderr)
            sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
