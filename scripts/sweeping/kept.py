"""Runs of any points, in a folder that keeps them as a sweep keeps its points: the same command goes on after an interruption. Validation
and plans of serving use this module.

  points/ID/   a run: out/summary.json if it is done, error.txt if it failed. It runs again only if scenario, inputs or executable change
  bin/HASH/    copies of the executables; a build meanwhile does not change them
"""

import contextlib
import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lib import runner

from .identity import identity_of_run
from .store import Store

MISSING = "not run: interrupted"


@dataclass
class Runs:
    """The results of points, in their order, and whether all of them are over."""

    results: list[runner.Result]
    complete: bool


def _kept(store: Store, points: Sequence[runner.Point], ids: dict[str, str]) -> dict[str, runner.Result]:
    """The results in the store, by the names of their points."""
    over = store.over()
    found = {}
    for point in points:
        if (identity := ids.get(point.name)) in over:
            outcome = store.outcome(identity)
            found[point.name] = runner.Result(point, store.points / identity, outcome.summary, outcome.error)
    return found


def run(points: Sequence[runner.Point], directory: pathlib.Path, executables: pathlib.Path, workers: int, retry_failed: bool,
        report: Callable[[runner.Result, int, int], None]) -> Runs:
    """Runs what has no result yet. Ctrl-C ends it, and leaves what is over. @throws InputError when another process runs in `directory`"""
    store = Store(directory)
    results: dict[str, runner.Result] = {}
    complete = True
    with store.held():
        runner.remove_abandoned(store.points)
        ids = {point.name: identity_of_run(point, executables) for point in points if os.access(executables / point.platform, os.X_OK)}
        if retry_failed:
            store.forget_failed(ids.values())
        for point in points:
            if point.name not in ids:
                results[point.name] = runner.Result(point, None, None, f"{executables / point.platform}: no such executable")
        results |= _kept(store, points, ids)
        missing = [point for point in points if point.name not in results]
        if missing:
            kept = store.keep_executables(executables, [point.platform for point in missing])
            ends = runner.completed([replace(point, name=ids[point.name]) for point in missing], store.points, kept, workers)
            try:
                with contextlib.closing(ends):
                    for index, result in ends:
                        if not result.interrupted:
                            results[missing[index].name] = replace(result, point=missing[index])
                            report(results[missing[index].name], len(results), len(points))
            except KeyboardInterrupt:
                complete = False
                results |= _kept(store, missing, ids)  # also a run that ended as the interruption came
    unknown = [point for point in points if point.name not in results]
    results |= {point.name: runner.Result(point, None, None, MISSING, interrupted=True) for point in unknown}
    return Runs([results[point.name] for point in points], complete)
