"""Runs Railyard, a performance model of machines with many GPUs, and reads its results. Needs the standard library alone.

>>> import railyard
>>> result = railyard.run("layers/decode", workload__batch=64)
>>> result.metrics["layer_s"]
0.00018580651416100002

The package is a thin layer on the command `railyard` (railyard.command() says how it is found), so results are those of the command.
"""

from .command import InputError, NoProgress, RunFailed, command, shipped
from .results import Result, read
from .runs import compare, load, plan, run, sweep, table

__all__ = ["InputError", "NoProgress", "Result", "RunFailed", "command", "compare", "load", "plan", "read", "run", "shipped", "sweep", "table"]
