"""A whole sweep: its options, and what runs until all points have a result. scripts/sweep.py and the planner call it."""

import argparse
import collections
import os
import pathlib
import sys
from collections.abc import Sequence
from dataclasses import replace

from lib import keys, runner
from lib.command_line import INTERRUPTED, Parser, positive
from lib.yaml_source import InputError

from . import backends
from .identity import identity
from .plan import Sweep
from .progress import Progress, Ranking, shown
from .store import Job, Store

NOT_ALL_DONE = 1
CLUSTER_WORKERS = 32
TASK_S = 60.0
SHOWN = 5  # best points, and kinds of failures


def backend(text: str) -> str:
    if text not in ("local", "slurm") and "{command}" not in text:
        raise argparse.ArgumentTypeError(f"'{text}' is unknown; accepted: local, slurm, or a command that contains {{command}}")
    return text


def parse_options(arguments: Sequence[str] | None, description: str | None = None) -> argparse.Namespace:
    parser = Parser(description=description)
    parser.add_argument("sweep", metavar="SWEEP.yaml", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR",
                        help="folder for runs and results.sqlite (default: the name of the sweep in ./out)")
    parser.add_executables()
    parser.add_argument("--backend", type=backend, default="local", metavar="local|slurm|COMMAND",
                        help="where points run; COMMAND must contain {command} (the task) and must return when the task has ended")
    parser.add_argument("--workers", type=positive, metavar="N",
                        help=f"parallel processes (default: number of processors), or parallel tasks of a cluster (default {CLUSTER_WORKERS})")
    parser.add_argument("--sbatch", action="append", default=[], metavar="OPTION",
                        help="an option for sbatch, for example --sbatch=--partition=cpu; repeatable")
    parser.add_argument("--task-s", type=float, default=TASK_S, metavar="S",
                        help=f"intended duration of a task of a cluster, in seconds (default {TASK_S:g})")
    parser.add_argument("--limit-s", type=positive, metavar="S", help="a point that takes longer than this wall time, in seconds, has failed")
    parser.add_argument("--retry-failed", action="store_true", help="run failed points again")
    parser.add_argument("--list", action="store_true", help="only list the points and their state; run nothing")
    parser.add_argument("--csv", type=pathlib.Path, metavar="FILE", help="also write the runs as CSV")
    parser.add_argument("--parquet", type=pathlib.Path, metavar="FILE", help="also write the runs as Parquet; needs pyarrow")
    options = parser.parse_args(arguments)
    if options.sbatch and options.backend != "slurm":
        parser.error("--sbatch needs --backend slurm")
    options.out = options.out or pathlib.Path("out", options.sweep.stem)
    return options


def make_jobs(sweep: Sweep, executables: pathlib.Path) -> list[Job]:
    """The points under their ids, after a look at what would make all of them fail."""
    points = sweep.points()
    for platform in dict.fromkeys(point.platform for point in points):
        if not os.access(executables / platform, os.X_OK):
            there = ", ".join(sorted(path.name for path in executables.glob("*") if path.is_file())) or "none"
            raise InputError(f"{sweep.path}: error: no platform executable '{platform}' in {executables}; there are: {there}")
    schema = keys.schema(executables / points[0].platform)
    for key, where in sweep.keys.items():
        if wrong := keys.unknown(schema, key):
            raise where.wrong(wrong)
    sweep.check_metrics(points)
    return [Job(identity(point, executables), point) for point in points]


def run(options: argparse.Namespace, store: Store, jobs: list[Job], ranking: Ranking) -> None:
    """Runs what is missing."""
    over = store.over()
    known = [job for job in jobs if job.id in over]
    missing = list({job.id: replace(job, limit_s=options.limit_s) for job in jobs if job.id not in over}.values())
    for job in known:
        ranking.add(job, store.outcome(job.id))
    print(f"{len(missing)} of {len(jobs)} points to run", file=sys.stderr)
    if not missing:
        return
    progress = Progress(ranking, len(known), len(jobs))
    places = backends.Places(store, store.keep_executables(options.bin, [job.point.platform for job in missing]))
    if options.backend == "local":
        backends.run_local(places, missing, options.workers or runner.WORKERS, progress)
        return
    limit = options.workers or CLUSTER_WORKERS
    if options.backend == "slurm":
        cluster = backends.Slurm(options.sbatch, limit, options.task_s)
    else:
        cluster = backends.Command(options.backend, limit, options.task_s)
    cluster.run(places, known, missing, progress)


def export(options: argparse.Namespace, store: Store) -> None:
    if options.csv:
        store.export_csv(options.csv)
    if options.parquet:
        try:
            store.export_parquet(options.parquet)
        except ImportError as error:
            raise InputError(f"sweep.py: error: --parquet: {error}; pip install pyarrow, or use --csv") from error


def print_results(store: Store, counts: dict[str, int], failures: collections.Counter[str], ranking: Ranking) -> None:
    sweep = ranking.sweep
    print(f"{sum(counts.values())} points: " + ", ".join(f"{count} {status}" for status, count in counts.items()))
    for message, count in failures.most_common(SHOWN):
        print(f"  failed {count} times: {message}")
    best = ranking.best(SHOWN)
    if best:
        print(f"{'largest' if sweep.largest_is_best else 'smallest'} {sweep.objective.text}:")
        for value, label in best:
            print(f"  {shown(sweep, value):<12} {label}")
    elif sweep.objective and counts["done"]:
        limits = f" within {', '.join(limit.text for limit in sweep.limits)}" if sweep.limits else ""
        print(f"no point has {sweep.objective.text}{limits}", file=sys.stderr)
    print(min(os.path.relpath(store.database), str(store.database), key=len))


def sweep_all(options: argparse.Namespace) -> int:
    sweep = Sweep(options.sweep)
    options.bin = options.bin.resolve()
    jobs = make_jobs(sweep, options.bin)
    store = Store(options.out.resolve())
    if options.list:
        for job in jobs:
            print(job.id, f"{store.outcome(job.id).status:<7}", job.point.platform, job.point.label)
        return 0
    with store.held():
        runner.remove_abandoned(store.points)
        if options.retry_failed:
            store.forget_failed(job.id for job in jobs)
        ranking = Ranking(sweep)
        interrupted = False
        try:
            run(options, store, jobs, ranking)
        except KeyboardInterrupt:
            interrupted = True
        counts, failures = store.build(sweep, jobs, options.bin)
        if interrupted:
            print(f"\ninterrupted: {counts['missing']} of {len(jobs)} points are missing; the same command goes on",
                  file=sys.stderr)
            return INTERRUPTED
        export(options, store)
        print_results(store, counts, failures, ranking)
    return 0 if counts["done"] == len(jobs) else NOT_ALL_DONE
