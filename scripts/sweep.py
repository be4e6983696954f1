#!/usr/bin/python3
"""Runs all points of a sweep that have no result yet, and writes one database of all points.

  scripts/sweep.py scenarios/sweeps/tp_pp_plx.yaml                    # runs points on this computer
  scripts/sweep.py scenarios/sweeps/tp_pp_plx.yaml --list             # lists points and runs nothing
  scripts/sweep.py SWEEP.yaml --backend slurm --sbatch=--partition=cpu --workers 64
  scripts/sweep.py SWEEP.yaml --backend 'bsub -K -q normal -o /dev/null {command}'       # LSF

The sweep file names a base scenario, axes, and a condition for combinations; docs/sweeps.md explains it. A finished point runs again
only if its scenario, an input or the executable has changed. Ctrl-C ends the sweep and keeps finished points; the same command
continues it. Exit status: 0 all points done, 1 some points failed or are missing, 2 bad input, 130 interrupted.
"""

import signal
import sys
from collections.abc import Sequence

from lib.command_line import INTERRUPTED, one_line

try:
    from lib.yaml_source import InputError
    from sweeping import whole
except ImportError as missing:
    sys.exit(f"sweep.py: error: {missing}; it needs the Debian package python3-yaml")


def main(arguments: Sequence[str] | None = None) -> None:
    options = whole.parse_options(arguments, __doc__)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with one_line("sweep.py", InputError, complete=True):
            sys.exit(whole.sweep_all(options))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
