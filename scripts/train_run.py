#!/usr/bin/python3
"""Tells how long a training run takes to a number of tokens, with checkpoints, failures, stragglers and evaluation.

  scripts/train_run.py scenarios/training/llama3_8b_8.yaml --tokens 1e12
  scripts/train_run.py SCENARIO --tokens 15.6e12 --operation docs/training_run/llama3_405b.yaml --out out/run
  scripts/train_run.py --run DIR --tokens 15.6e12 --operation FILE    # the step of a finished run
  scripts/train_run.py --keys                                         # the keys of an operation

One step of the scenario is simulated, and one beside the write of a checkpoint. The run is composed of it: a process of failures plays it
from a seed, several times. docs/training_run.md explains each part. OUT gets run.html and run.json. Same words and seed: the same bytes.
Exit status: 0 done, 1 a step failed, or the run does not end, 2 bad input, 130 interrupted.
"""

import argparse
import pathlib
import signal
import sys
from collections.abc import Sequence

from lib import written
from lib.command_line import INTERRUPTED, Parser, one_line, positive

try:
    from lib import yaml_source
    from lib.yaml_source import InputError
    from reporting import figures
    from training_run import compose, operation, page, process, result, step
except ImportError as missing:
    sys.exit(f"train_run.py: error: {missing}; it needs the Debian packages python3-yaml, python3-numpy and python3-scipy")

FAILED = 1
RUNS = 20


def tokens(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= operation.MOST * 1e3:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of tokens of at least 1, as 15.6e12")
    return value


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("scenario", metavar="SCENARIO", type=pathlib.Path, nargs="?", help="of workload.kind training")
    parser.add_argument("--run", type=pathlib.Path, metavar="DIR", help="outputs of a finished run, in place of SCENARIO")
    parser.add_argument("--tokens", type=tokens, metavar="N", help="tokens to train on, as 15.6e12")
    parser.add_argument("--operation", metavar="FILE", help="YAML file: how the run is operated (--keys)")
    parser.add_argument("--op", action="append", default=[], metavar="KEY=VALUE", help="a key of the operation; repeatable")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes a key of the scenario; repeatable")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first run (default 1)")
    parser.add_argument("--runs", type=positive, default=RUNS, metavar="N", help=f"runs that are played, with consecutive seeds (default {RUNS})")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="folder for all results (default: ./out/train_run_ and the name of the scenario)")
    parser.add_argument("--no-page", action="store_true", help="write no run.html")
    parser.add_argument("--figures", type=pathlib.Path, metavar="DIR", help="also write every chart as an SVG file")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    parser.add_argument("--keys", action="store_true", help="print the keys of an operation")
    parser.add_executables()
    options = parser.parse_args(arguments)
    if options.keys:
        print(operation.table(), end="")
        sys.exit(0)
    if (options.scenario is None) == (options.run is None):
        parser.error("a scenario, or --run DIR of a finished run, is needed")
    if options.tokens is None:
        parser.error("--tokens is needed, as 15.6e12")
    if options.run and options.set:
        parser.error("--set changes a scenario; a finished run does not change")
    if options.seed < 0:
        parser.error("--seed: expected an integer of at least 0")
    options.out = options.out or pathlib.Path("out", f"train_run_{(options.scenario or options.run).stem}")
    return options


def train_run(options: argparse.Namespace) -> None:
    path = options.scenario or options.run / "scenario.yaml"
    simulator = step.Simulator(path, yaml_source.settings_of("train_run.py", options.set), options.bin, options.out / "steps")
    operated = operation.read(options.operation, options.op)
    simulator.check()
    with written.folder(options.out), written.folder(options.out / "steps"):
        simulated = simulator.step(options.run)
        composed = compose.compose(simulated, operated, simulator, options.tokens, options.seed)
        runs = [process.play(composed.process, options.seed + i) for i in range(options.runs if composed.process.is_random else 1)]
        found = result.Result(simulated, operated, composed, options.tokens, options.seed, runs)
        drawn = [] if options.no_page and not options.figures else page.charts(found)
        if not options.no_page:
            written.text(options.out / "run.html", page.text(found, drawn))
        if options.figures:
            figures.draw_all(drawn, options.figures)
        written.text(options.out / "run.json", found.json_text())
    print(found.json_text() if options.json else found.text(), end="")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with one_line("train_run.py", InputError, complete=True):
            try:
                train_run(options)
            except (step.Failed, process.Endless) as error:
                print(f"train_run.py: error: {error}", file=sys.stderr)
                sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
