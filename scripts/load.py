#!/usr/bin/python3
"""Loads a serving scenario at several rates of requests, or finds the largest rate at which it keeps its objectives.

  scripts/load.py scenarios/serving_8b_h100.yaml --slo ttft_p99_s=1,tpot_p99_s=0.04 --find-max --out out/load
  scripts/load.py SCENARIO --slo e2e_p95_s=10 --rates 2,4,8,12 --out out/load
  scripts/load.py SCENARIO --slo ttft_p99_s=1 --find-max --price H100-SXM5-80GB=2.5 --json --out out/load

A load runs with --seeds seeds. It is run again with twice the requests until they tell whether each objective holds, whether the service has
a steady state, and that its filling does not matter; docs/load.md explains the test. OUT gets load.html, load.json, load.csv, and
results.sqlite with the runs. Finished runs are kept: the same command goes on after Ctrl-C, and gives the same bytes.
Exit status: 0 done, 1 a run failed, 2 bad input, or there is no such rate, 130 interrupted.
"""

import argparse
import math
import os
import pathlib
import signal
import sys
from collections.abc import Sequence

from lib import runner, written
from lib.command_line import BAD_INPUT, INTERRUPTED, Parser, one_line, positive

try:
    from lib.yaml_source import InputError
    from loading import cost, objectives, page, result, runs, scenario, search
    from loading.judgement import Load
    from reporting import figures
    from sweeping import whole
except ImportError as missing:
    sys.exit(f"load.py: error: {missing}; it needs the Debian package python3-yaml")

FAILED = 1
SEEDS = 3
MOST_REQUESTS = 32_000
PRECISION = 0.02
TAIL = 25  # so many requests above a percentile, of all seeds, are the least that a first run has
ALIKE = 0.1  # rates that differ by less make one point of the curve
SHARES = (0.25, 0.5, 0.7, 0.85, 1.1)  # of the largest rate: what the curve shows beside the search


def rates_of(text: str) -> list[float]:
    try:
        rates = sorted({search.rounded(float(word)) for word in text.split(",")})
    except ValueError:
        rates = []
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of rates, as 2,4,8 (requests per second)")
    return rates


def slo(text: str) -> list[objectives.Objective]:
    try:
        return objectives.objectives_of(text)
    except objectives.ObjectiveError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def setting(text: str) -> tuple[str, object]:
    try:
        return scenario.setting_of(text)
    except (ValueError, InputError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def price(text: str) -> tuple[str, float]:
    try:
        return cost.price_of(text)
    except cost.PriceError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def precision(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= 0.5:
        raise argparse.ArgumentTypeError(f"'{text}' is not a ratio from 0.001 to 0.5")
    return value


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("scenario", metavar="SCENARIO", type=pathlib.Path, help="of workload.kind serving, with requests generated from a rate")
    parser.add_argument("--slo", type=slo, default=[], metavar="METRIC=LIMIT,...",
                        help="objectives: ttft, ttft_admitted, tpot, e2e or a part of TTFT (ttft_queue_blocks), with a percentile (ttft_p99_s) or "
                             "without (the mean, tpot_s); or any other metric of a run (slo_attainment_ratio>=0.9)")
    parser.add_argument("--rates", type=rates_of, metavar="R,R,...", help="loads in requests per second; with --find-max, it looks between the smallest and largest")
    parser.add_argument("--find-max", action="store_true", help="find the largest rate that keeps all objectives")
    parser.add_argument("--seeds", type=positive, default=SEEDS, metavar="N", help=f"runs of each load, with consecutive seeds (default {SEEDS})")
    parser.add_argument("--most-requests", type=positive, default=MOST_REQUESTS, metavar="N",
                        help=f"a run has at most so many requests; beyond, the more likely answer is taken (default {MOST_REQUESTS})")
    parser.add_argument("--precision", type=precision, default=PRECISION, metavar="RATIO", help=f"of the largest rate (default {PRECISION:g})")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="KEY=VALUE", help="changes a key of the scenario; repeatable")
    parser.add_argument("--price", type=price, action="append", default=[], metavar="GPU=PER_HOUR",
                        help="price of a GPU for an hour, in any currency: adds the cost of a million tokens; repeatable")
    parser.add_argument("--no-page", action="store_true", help="write no load.html, and do not run what only the page shows")
    parser.add_argument("--figures", type=pathlib.Path, metavar="DIR", help="also write every chart as an SVG file")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="folder for all results (default: ./out/load_ and the name of the scenario)")
    parser.add_argument("--workers", type=positive, metavar="N", help="parallel processes (default: number of processors), or tasks of a cluster")
    parser.add_argument("--backend", type=whole.backend, default="local", metavar="local|slurm|COMMAND", help="where runs run, as for sweep.py")
    parser.add_argument("--sbatch", action="append", default=[], metavar="OPTION", help="an option for sbatch; repeatable")
    parser.add_argument("--limit-s", type=positive, metavar="S", help="a run that takes longer than this wall time, in seconds, has failed")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    parser.add_argument("--verbose", action="store_true", help="show the progress of each sweep on stderr")
    parser.add_executables()
    options = parser.parse_args(arguments)
    if not options.rates and not options.find_max:
        parser.error("--rates or --find-max is needed")
    if options.find_max and not options.slo:
        parser.error("--find-max needs --slo")
    if options.find_max and options.rates and len(options.rates) < 2:
        parser.error("--rates with --find-max: at least two, between which it looks")
    if options.sbatch and options.backend != "slurm":
        parser.error("--sbatch needs --backend slurm")
    options.workers = options.workers or (runner.WORKERS if options.backend == "local" else whole.CLUSTER_WORKERS)
    options.out = options.out or pathlib.Path("out", f"load_{options.scenario.stem}")
    return options


def first_count(options: argparse.Namespace) -> int:
    """Requests of a first run: enough of them are above each percentile."""
    rarest = min((objective.allowed for objective in options.slo if objective.allowed is not None), default=0.05)
    return min(max(200, math.ceil(TAIL / rarest / options.seeds)), options.most_requests)


def show(load: Load) -> None:
    what = ", ".join(f"{finding.objective.label} {finding.value:.4g}" for finding in load.findings)
    print(f"{load.rate_per_s:g} requests/s, {len(load.runs)} x {load.count} requests: {load.verdict.value}{' (grows)' if load.grows else ''} {what}",
          file=sys.stderr, flush=True)


def load(options: argparse.Namespace) -> int:
    loaded = scenario.read(options.scenario, dict(options.set))
    options.bin = options.bin.resolve()
    executable = options.bin / loaded.platform
    if not os.access(executable, os.X_OK):
        raise InputError(f"load.py: error: no platform executable '{loaded.platform}' in {options.bin}")
    scenario.check(loaded, executable)
    prices = cost.checked(dict(options.price), loaded, executable)
    with written.folder(options.out):
        measure(options, loaded, prices)
    return 0


def measure(options: argparse.Namespace, loaded: scenario.Loaded, prices: dict[str, float]) -> None:
    """Runs the loads and writes what they say."""
    runner_of = runs.Runs(options, loaded, options.slo, show)
    searched = search.Search(first_count(options), options.most_requests, options.precision)
    knee = None
    if options.find_max:
        least, most = (options.rates[0], options.rates[-1]) if options.rates else (0.0, math.inf)
        knee = search.driven(searched.largest(loaded.rate_per_s, least, most), runner_of.measure)
        beside = [rate for share in SHARES if least <= (rate := search.rounded(share * knee.rate_per_s)) <= most]
        rates = [rate for rate in beside if all(abs(rate / other - 1) > ALIKE for other in searched.loads)]
        search.driven(searched.settle(rates, roughly=True), runner_of.measure)
    if options.rates:
        search.driven(searched.settle(options.rates), runner_of.measure)
    found = result.Result(loaded, options.slo, sorted(searched.loads.values(), key=lambda entry: entry.rate_per_s), knee, prices)
    if not options.no_page:
        found.observe(runner_of)
        written.text(options.out / "load.html", page.text(found))
    if options.figures:
        figures.draw_all(page.charts(found), options.figures)
    written.text(options.out / "load.json", found.json_text())
    written.text(options.out / "load.csv", found.csv_text())
    print(found.json_text() if options.json else found.text(), end="")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with one_line("load.py", InputError, complete=True), one_line("load.py", search.NoKnee, cost.PriceError):
            try:
                sys.exit(load(options))
            except runs.Failed as error:
                print(f"load.py: error: {error}", file=sys.stderr)
                sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
