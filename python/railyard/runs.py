"""Runs, sweeps and comparisons."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .command import call
from .results import Result, flat, frame, rows_of

Scenario = str | os.PathLike | Mapping[str, Any]


def _words(sets: Mapping[str, Any]) -> list[str]:
    """Options --set. In a name, two underscores stand for a dot."""
    texts = {name.replace("__", "."): value if isinstance(value, str) else json.dumps(value) for name, value in sets.items()}
    return [word for key, text in texts.items() for word in ("--set", f"{key}={text}")]


def run(scenario: Scenario, *, out: str | os.PathLike | None = None, options: Sequence[str] = (), **sets: Any) -> Result:
    """Runs a scenario on its machine.

    @param scenario  a file, the name of a shipped scenario, or a mapping with the content of a file, in which paths are absolute
    @param out       directory for the results; by default one that lives as long as the result
    @param options   further words of the command line, such as "--why" (railyard run --help)
    @param sets      keys of the scenario: workload__batch=64, or **{"workload.batch": 64}
    @throws InputError, NoProgress, RunFailed, FileNotFoundError
    """
    kept = tempfile.TemporaryDirectory(prefix="railyard-") if out is None or isinstance(scenario, Mapping) else None
    if isinstance(scenario, Mapping):
        written = pathlib.Path(kept.name) / "scenario.yaml"
        written.write_text(json.dumps(scenario), encoding="utf-8")  # JSON is YAML
        scenario = written
    directory = pathlib.Path(kept.name) / "out" if out is None else pathlib.Path(out)
    call(["run", scenario, "--quiet", "--out", directory, *_words(sets), *options])
    return Result(directory, sets, kept)


def sweep(scenario: Scenario, axes: Mapping[str, Iterable[Any]], *, workers: int | None = None, out: str | os.PathLike | None = None,
          options: Sequence[str] = (), **sets: Any) -> list[Result]:
    """Runs all combinations of the axes' values, in their order, at most `workers` (default: processors) at a time.

    @param axes     values by key of the scenario: {"workload.tp": [1, 2, 4], "workload.batch": [1, 64]}
    @param out      directory for the results of the combinations: its folders 1, 2, ...; by default as for run()
    @param options  as for run()
    """
    points = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    folders = [pathlib.Path(out) / str(number) if out else None for number in range(1, len(points) + 1)]
    with concurrent.futures.ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        results = list(pool.map(lambda point, folder: run(scenario, out=folder, options=options, **{**sets, **point}), points, folders))
    return [Result(result.directory, point, result._kept) for result, point in zip(results, points)]  # pylint: disable=protected-access


def table(results: Iterable[Result]) -> Any:
    """A row for each result: what was set, and all metrics by names with dots."""
    return frame([{**result.sets, **dict(flat(result.metrics))} for result in results])


def load(scenario: str | os.PathLike, slo: Mapping[str, float], *, rates: Sequence[float] = (), out: str | os.PathLike | None = None,
         options: Sequence[str] = (), **sets: Any) -> dict[str, Any]:
    """The judgement of railyard load (docs/load.md), as in load.json: of these rates of requests; without any, of the largest rate that keeps all
    objectives, and of those on the way to it.

    @param slo  limits by metric: {"ttft_p99_s": 1, "tpot_p99_s": 0.04}
    @param out  directory for pages and runs, which the same call goes on from; by default one that is removed
    """
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        limits = ",".join(f"{metric}={limit}" for metric, limit in slo.items())
        what = ["--rates", ",".join(map(str, rates))] if rates else ["--find-max"]
        page = [] if out else ["--no-page"]
        return json.loads(call(["load", scenario, "--slo", limits, *what, "--json", "--out", out or scratch, *page, *_words(sets), *options]))


def plan(options: Sequence[str], *, out: str | os.PathLike) -> Any:
    """The mappings that railyard plan looked at (docs/planning.md): the rows of plan.csv.

    @param options  of the command line, such as ["--base", "scenario.yaml", "--top", 6]
    @param out      directory for decision.md, decision.html, plan.csv and the runs
    """
    call(["plan", *options, "--out", out])
    return frame(rows_of(pathlib.Path(out) / "plan.csv"))


def compare(*results: Result | str | os.PathLike) -> Any:
    """The comparison of railyard compare: a row for each quantity, a column for each run."""
    folders = [result.directory if isinstance(result, Result) else result for result in results]
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        path = pathlib.Path(scratch) / "compared.csv"
        call(["compare", *folders, "--csv", path])
        return frame(rows_of(path))
