#!/usr/bin/python3
"""Tells how long an iteration of reinforcement learning takes: rollouts by a service, training on them, new weights to the service.

  scripts/rl.py docs/rl/llama3_8b.yaml --out out/rl
  scripts/rl.py FILE --set rl.schedule=asynchronous --set rollouts.requests.count=512

FILE is a scenario with two workloads, `rollouts` of kind serving and `training` of kind training, and a section `rl`. Each phase is simulated
on the machine; the iteration is composed of them. docs/rl.md explains it. OUT gets rl.html and rl.json. Same file and seed: the same bytes.
Exit status: 0 done, 1 a phase failed, 2 bad input, 130 interrupted.
"""

import argparse
import pathlib
import signal
import sys
from collections.abc import Sequence

from lib import written
from lib.command_line import INTERRUPTED, Parser, one_line, positive

try:
    from lib.yaml_source import InputError
    from rl_iteration import page, phases, result, scenario
except ImportError as missing:
    sys.exit(f"rl.py: error: {missing}; it needs the Debian package python3-yaml")

FAILED = 1


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("file", metavar="FILE", type=pathlib.Path, help="scenario with the workloads rollouts and training")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes a key of the file; repeatable")
    parser.add_argument("--runs", type=positive, default=1, metavar="N", help="runs of the rollouts, with consecutive seeds (default 1)")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="folder for all results (default: ./out/rl_ and the name of the file)")
    parser.add_argument("--no-page", action="store_true", help="write no rl.html")
    parser.add_argument("--json", action="store_true", help="the result as JSON on stdout")
    parser.add_executables()
    options = parser.parse_args(arguments)
    options.out = options.out or pathlib.Path("out", f"rl_{options.file.stem}")
    return options


def iterate(options: argparse.Namespace) -> None:
    read = scenario.Scenario(options.file, scenario.settings_of(options.set), options.bin)
    simulator = phases.Simulator(read, options.out / "phases", options.bin)
    simulator.check()
    with written.folder(options.out), written.folder(options.out / "phases"):
        found = result.Result(simulator.phases(options.runs))
        if not options.no_page:
            written.text(options.out / "rl.html", page.text(found))
        written.text(options.out / "rl.json", found.json_text())
    print(found.json_text() if options.json else found.text(), end="")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with one_line("rl.py", InputError, complete=True):
            try:
                iterate(options)
            except phases.Failed as error:
                print(f"rl.py: error: {error}", file=sys.stderr)
                sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
