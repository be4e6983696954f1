#!/usr/bin/python3
"""Draws training steps as a picture: a row for each rank, with its slots from left to right.

  build/bin/dgx_h100 scenarios/training/schedules/1f1b.yaml --out out/1f1b
  scripts/gantt.py out/1f1b --out step.svg

The picture shows forward and backward slots with their micro-batches, gradient norm and optimizer, and transfers for which a rank
waits. A bubble is white. Later virtual stages of a rank are lighter. Several runs are drawn one below the other, on one time axis. A
run of more than 32 ranks has one row for each pipeline rank: its first tensor-parallel rank in the first replica.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from lib.command_line import Parser, one_line

try:
    from reporting import figures, gantt
except ImportError as missing:
    sys.exit(f"gantt.py: error: {missing}; it needs the Debian package python3-yaml")


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("runs", type=pathlib.Path, nargs="+", metavar="DIR", help="the --out directory of a run of kind training")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE.svg", help="the picture")
    options = parser.parse_args(arguments)
    if options.out.suffix != ".svg":
        parser.error(f"{options.out}: a picture is an .svg file; rsvg-convert makes a .png or .pdf of it")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    with one_line("gantt.py", gantt.Error):
        runs = [gantt.read(folder) for folder in options.runs]
        figures.write(options.out, runs[0].title if len(runs) == 1 else "Training steps", gantt.drawing_of(runs))


if __name__ == "__main__":
    main()
