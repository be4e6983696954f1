#!/usr/bin/python3
"""Compares runs: their metrics side by side with the ratio to the first, their busiest links, and where messages waited.

  scripts/compare.py out/a out/b [out/c ...]
  scripts/compare.py --run build/bin/plx_box A.yaml B.yaml --out out/ab
  scripts/compare.py --run build/bin/plx_box A.yaml --vary workload.prefill.tp=2,4,8 --vary workload.prefill.pp=1,2 --out out/sweep

The first form reads directories that --out of a platform executable wrote. The others run the scenarios first, each into a
directory of its own below --out: every scenario with every combination of the varied values. A combination that the
executable refuses (too little memory, not enough GPUs) is named on stderr and left out.
"""

import argparse
import csv
import itertools
import json
import os
import re
import signal
import subprocess
import sys

SCHEMA_VERSION = 1
MOST_LINKS = 5
MOST_WAITS = 3  # of each class and run
BAD_INPUT = 2
UNITS = ((1, 1, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "us"), (0, 1e9, "ns"))


class Error(Exception):
    """Input that cannot be compared."""


class RunFailed(Exception):
    """An executable's own message and exit status."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


class Run:
    """What one directory holds: metrics and links as flat dictionaries, name to number."""

    def __init__(self, directory, label):
        self.directory = directory
        self.summary = read_summary(os.path.join(directory, "summary.json"))
        self.label = label if self.summary["complete"] else label + " (incomplete)"
        self.metrics = dict(flatten(self.summary["metrics"]))
        self.links = {link_name(link): link for link in self.summary["links"]}
        self.waits = read_waits(os.path.join(directory, "links.csv"))


def read_summary(path):
    try:
        with open(path, encoding="utf-8") as file:
            summary = json.load(file)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}; expected the --out directory of a run") from error
    except ValueError as error:
        raise Error(f"{path}: not JSON: {error}") from error
    if not isinstance(summary, dict) or summary.get("schema_version") != SCHEMA_VERSION:
        raise Error(f"{path}: schema_version is not {SCHEMA_VERSION}; written by another version of Railyard?")
    missing = [key for key in ("kind", "platform", "model", "complete", "metrics", "traffic", "links") if key not in summary]
    if missing:
        raise Error(f"{path}: has no {missing[0]}")
    return summary


def read_waits(path):
    """Time that messages waited at each link, (class, link) to seconds."""
    waits = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                for column, value in row.items():
                    if column.startswith("waited_"):
                        waits[(column[len("waited_") : -len("_s")], link_name(row))] = float(value)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, AttributeError) as error:
        raise Error(f"{path}: not the links.csv of a run") from error
    return waits


def link_name(link):
    return f"{link['name']} {link['direction']}"


def flatten(group, prefix=""):
    for name, value in group.items():
        if isinstance(value, dict):
            yield from flatten(value, prefix + name + ".")
        else:
            yield prefix + name, value


def number(value):
    return f"{value:g}"


def percent(value):
    return f"{100 * value:.2f} %"


def duration(value):
    if value == 0:
        return "0 s"
    scale, unit = next((scale, unit) for least, scale, unit in UNITS if abs(value) >= least)
    return f"{value * scale:.3f} {unit}"


def formatter(name):
    """How a person reads a metric: its name tells the unit."""
    if name.endswith("_per_s"):
        return "{:.1f}".format
    if any(word.endswith("_s") for word in name.split(".")):
        return duration
    if name.endswith("_fraction") or "utilisation" in name:
        return percent
    return number


def ratio(value, first):
    if value is None or not first:
        return ""
    return f"{value / first:.3f}"


def print_table(title, runs, rows, formatted=None):
    """`rows`: a name and the runs' values; after every value but the first, its ratio to the first."""
    cells = [[title] + [cell for i, run in enumerate(runs) for cell in ([run.label] if i == 0 else [run.label, "ratio"])]]
    for name, values in rows:
        show = formatted or formatter(name)
        texts = ["-" if value is None else show(value) for value in values]
        line = [name, texts[0]]
        for text, value in zip(texts[1:], values[1:]):
            line += [text, ratio(value, values[0])]
        cells.append(line)
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        right = "".join(f"  {cell:>{width}}" for cell, width in zip(line[1:], widths[1:]))
        print(f"  {line[0]:<{widths[0]}}{right}".rstrip())
    print()


def metric_rows(runs):
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    if all(run.metrics.get("requests") == 1 for run in runs):  # percentiles of one value say nothing
        names = [name for name in names if not re.search(r"_p\d+_s$", name)]
    return [(name, [run.metrics.get(name) for run in runs]) for name in names]


def traffic_rows(runs):
    rows = []
    for i, first in enumerate(runs[0].summary["traffic"]):
        for key in ("mean_actual_s", "mean_uncontended_s"):
            values = [run.summary["traffic"][i][key] for run in runs]
            if any(values):
                rows.append((f"{first['class']}.{key}", values))
    return rows


def link_rows(runs, most):
    """The busiest links of every run."""
    names = {}
    for run in runs:
        busiest = sorted(run.links.values(), key=lambda link: -link["busy_s"])[:most]
        names.update({link_name(link): None for link in busiest})
    return [(name, [run.links.get(name, {}).get("utilisation") for run in runs]) for name in names]


def wait_rows(runs):
    """Of every class, the links where its messages waited longest, in any run."""
    rows = []
    for kind in dict.fromkeys(kind for run in runs for kind, _ in run.waits):
        names = {}
        for run in runs:
            of_kind = [(link, wait) for (its_kind, link), wait in run.waits.items() if its_kind == kind and wait > 0]
            names.update(dict.fromkeys(link for link, _ in sorted(of_kind, key=lambda wait: -wait[1])[:MOST_WAITS]))
        for link in sorted(names, key=lambda link: -max(run.waits.get((kind, link), 0) for run in runs)):
            rows.append((f"{kind} at {link}", [run.waits.get((kind, link)) for run in runs]))
    return rows


def print_comparison(runs, most):
    for run in runs:
        print(f"{run.label}: {run.summary['model']} on {run.summary['platform']}, {run.directory}")
    print()
    print_table("metric", runs, metric_rows(runs))
    print_table("message time, and alone", runs, traffic_rows(runs))
    print_table("busiest links, utilisation", runs, link_rows(runs, most), percent)
    waits = wait_rows(runs)
    if waits:
        print_table("waiting, by class and link", runs, waits, duration)


def write_csv(path, runs):
    """Every number of every run: quantity, then a column a run."""
    rows = metric_rows(runs) + traffic_rows(runs)
    for name in dict.fromkeys(name for run in runs for name in run.links):
        rows.append((f"{name} utilisation", [run.links.get(name, {}).get("utilisation") for run in runs]))
    for kind, link in dict.fromkeys(name for run in runs for name in run.waits):
        rows.append((f"{link} waited_{kind}_s", [run.waits.get((kind, link)) for run in runs]))
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["quantity"] + [run.label for run in runs])
            writer.writerows([name] + values for name, values in rows)
    except OSError as error:
        raise Error(f"{path}: {error.strerror}") from error


def labels_of(directories):
    """The shortest tails of the paths that tell them apart."""
    parts = [os.path.abspath(directory).split(os.sep) for directory in directories]
    for count in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(part[-count:]) for part in parts]
        if len(set(labels)) == len(labels):
            return labels
    raise Error(f"{directories[0]}: given twice")


def parse_vary(text):
    key, equals, values = text.partition("=")
    if not key or not equals or not values:
        raise Error(f"--vary {text}: not KEY=VALUE,VALUE,...")
    return key, re.split(r",(?![^\[{]*[\]}])", values)  # a comma inside brackets belongs to a value


def sweep(scenarios, varied):
    """Yields (label, scenario, settings) for every scenario with every combination of the varied values."""
    stems = [os.path.splitext(os.path.basename(scenario))[0] for scenario in scenarios]
    if len(set(stems)) < len(stems):
        stems = [os.path.splitext(scenario)[0].replace(os.sep, "_") for scenario in scenarios]
    short = [key.rsplit(".", 1)[-1] for key, _ in varied]
    if len(set(short)) < len(short):
        short = [key for key, _ in varied]
    for stem, scenario in zip(stems, scenarios):
        for values in itertools.product(*(values for _, values in varied)):
            words = [f"{name}={value}".replace(os.sep, "_") for name, value in zip(short, values)]
            settings = [f"{key}={value}" for (key, _), value in zip(varied, values)]
            yield ",".join(words if words and len(stems) == 1 else [stem] + words), scenario, settings


def run_all(options):
    """Runs the sweep. @return (label, directory) of what ran"""
    varied = [parse_vary(text) for text in options.vary]
    wanted = list(sweep(options.runs, varied))
    labels = [label for label, _, _ in wanted]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise Error(f"{twice}: given twice")
    if len(wanted) < 2:
        raise Error("one run only: nothing to compare")
    done = []
    try:
        os.makedirs(options.out, exist_ok=True)
    except OSError as error:
        raise Error(f"{options.out}: {error.strerror}") from error
    for label, scenario, settings in wanted:
        directory = os.path.join(options.out, label)
        command = [options.run, scenario, "--quiet", "--out", directory]
        for setting in options.set + settings:
            command += ["--set", setting]
        print(f"running {label}", file=sys.stderr)
        try:
            result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        except OSError as error:
            raise Error(f"{options.run}: {error.strerror}") from error
        if result.returncode == 0:
            done.append((label, directory))
        elif result.returncode == BAD_INPUT and varied:
            print(f"left out {label}: {result.stderr.strip()}", file=sys.stderr)
        else:
            status = result.returncode if result.returncode > 0 else 128 - result.returncode
            raise RunFailed(result.stderr.strip() or f"{label}: exit status {status}", status)
    return done


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(BAD_INPUT, f"{self.prog}: error: {message}\n")


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 on")
    return int(text)


def parse_options(arguments):
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="directory of a run; with --run, a scenario")
    parser.add_argument("--run", metavar="EXECUTABLE", help="platform executable that runs the scenarios first")
    parser.add_argument("--out", metavar="DIR", help="with --run: where the runs go, a directory each")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="with --run: set in every scenario; repeatable")
    parser.add_argument("--vary", action="append", default=[], metavar="KEY=V1,V2,...", help="with --run: sweep a key; repeatable")
    parser.add_argument("--csv", metavar="FILE", help="also write every number of every run")
    parser.add_argument("--links", type=positive, default=MOST_LINKS, metavar="N", help=f"links to show of each run (default {MOST_LINKS})")
    options = parser.parse_args(arguments)
    if options.run and not options.out:
        parser.error("--run needs --out DIR")
    if not options.run and (options.out or options.set or options.vary):
        parser.error("--out, --set and --vary need --run EXECUTABLE")
    return options


def main(arguments=None):
    options = parse_options(arguments)
    try:
        if options.run:
            named = run_all(options)
        else:
            named = list(zip(labels_of(options.runs), options.runs))
        if len(named) < 2:
            raise Error("one run only: nothing to compare")
        runs = [Run(directory, label) for label, directory in named]
        kinds = {run.summary["kind"] for run in runs}
        if len(kinds) > 1:
            raise Error("runs of different kinds: " + ", ".join(sorted(kinds)))
        if options.csv:
            write_csv(options.csv, runs)
        print_comparison(runs, options.links)
    except Error as error:
        print(f"compare.py: error: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except RunFailed as error:
        print(error, file=sys.stderr)
        sys.exit(error.status)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader such as head may leave early
    main()
