"""Mutated files of runs and sweeps, and mutated sweep files, for the scripts that read these files. The scripts run in this process.
They must end with a result, or with status 1 or 2 and a one-line error."""

import contextlib
import gzip
import io
import os
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable

from . import bases, cases, mutate
from .cases import Failure
from .inputs import line_of

RUNS = ("prefill", "layer", "kernel", "p2p")
SWEEP = {"scenario": "s.yaml", "axes": {"workload.prefill.tp": [1, 2]}, "objective": {"minimise": "ttft_s"}}


def prepare(folder: pathlib.Path, executables: pathlib.Path) -> None:
    """Makes runs of several kinds, and a sweep, in folders with their names."""
    known = {base.name: base for base in bases.bases()}
    for name, base, options in [("prefill", known["plx"], ["--why", "--timeline"]), ("layer", known["decode"], ["--why"]),
                                ("kernel", known["kernel"], []), ("p2p", known["p2p"], [])]:
        source = folder / f"{name}.source"
        bases.write(source, base.files | {"s.yaml": base.scenario})
        subprocess.run([executables / base.platform, "s.yaml", "--quiet", "--out", folder / name, *options], cwd=source, check=True)
    source = folder / "sweep.source"
    bases.write(source, known["plx"].files | {"s.yaml": known["plx"].scenario, "sweep.yaml": SWEEP})
    script("sweep")([str(source / "sweep.yaml"), "--out", str(folder / "sweep"), "--bin", str(executables), "--workers", "1"])


def script(name: str) -> Callable[[list[str]], tuple[int, str]]:
    """A script as a function of its arguments. @return its status and its stderr"""
    main = __import__(name).main

    def call(arguments: list[str]) -> tuple[int, str]:
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            try:
                main(arguments)
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        return status, said.getvalue()

    return call


def damage(rng: random.Random, path: pathlib.Path) -> None:
    """Mutates one file of a run."""
    if path.suffix == ".gz" and rng.random() < 0.7:
        path.write_bytes(gzip.compress(mutate.text(rng, gzip.decompress(path.read_bytes())), 1))
    elif path.suffix == ".sqlite" and rng.random() < 0.8:
        _damage_database(rng, path)
    elif path.suffix == ".json" and rng.random() < 0.6:
        import json  # pylint: disable=import-outside-toplevel
        value = json.loads(path.read_text(encoding="utf-8"))
        for _ in range(rng.choice((1, 1, 3))):
            value = mutate.tree(rng, value)
        path.write_bytes(mutate.dumped(rng, value))
    elif rng.random() < 0.85:
        path.write_bytes(mutate.text(rng, path.read_bytes()))
    else:
        mutate.whole_file(rng, path)


def _damage_database(rng: random.Random, path: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(runs)")]
        column = rng.choice(columns)
        value = rng.choice([None, 0, -1, 1.5, 1e308, "x", "", b"\xff\xfe", "[1]", "done", 2**62])
        match rng.randrange(6):
            case 0:
                database.execute("UPDATE meta SET value = ? WHERE key = ?", (value, rng.choice(("schema_version", "axes", "objective", "platforms"))))
            case 1:
                database.execute(f"DROP TABLE {rng.choice(('meta', 'runs', 'cost'))}")
            case 2:
                database.execute(f'ALTER TABLE runs RENAME COLUMN "{column}" TO "other"')
            case 3:
                database.execute("DELETE FROM runs")
            case _:
                database.execute(f'UPDATE runs SET "{column}" = ?', (value,))


def attempt(rng: random.Random, ready: pathlib.Path, folder: pathlib.Path, executables: pathlib.Path) -> tuple[str, list[list[str]], Failure | None]:
    """Runs one case. @return its outcome, its command, and its fault"""
    name = rng.choice((*RUNS, "prefill", "prefill", "sweep", "sweep file"))
    run = folder / "run"
    if name == "sweep file":
        bases.write(folder, {"s.yaml": bases.bases()[0].scenario, **bases.bases()[0].files})
        content = mutate.dumped(rng, mutate.tree(rng, mutate.tree(rng, bases.sweep())) if rng.random() < 0.7 else bases.sweep())
        (folder / "sweep.yaml").write_bytes(content if rng.random() < 0.6 else mutate.text(rng, content))
        if rng.random() < 0.05:
            mutate.whole_file(rng, folder / "sweep.yaml")
        return called("sweep", [str(folder / "sweep.yaml"), "--out", str(folder / "out"), "--bin", str(executables), "--list"])
    shutil.copytree(ready / name, run, ignore=shutil.ignore_patterns("points", "bin", "tasks", "lock"))
    files = sorted(path for path in run.iterdir() if path.is_file() and path.name not in ("report.html", "why.csv", "requests.csv"))
    damage(rng, rng.choice(files))
    page = str(folder / "page.html")
    choices = [("report", [str(run), "--html", page])]
    if name == "sweep":
        choices.append(("compare", [f"{run}:tp=1", f"{run}:tp=2"]))
    else:
        choices.append(("compare", [str(run), str(ready / name)]))
    if name == "prefill":
        choices += [("kineto", [str(run), "--out", str(folder / "kineto")]), ("draw_timeline", [str(run), "--list"])]
    return called(*rng.choice(choices))


def called(name: str, arguments: list[str]) -> tuple[str, list[list[str]], Failure | None]:
    """Runs a script in this process. @return its outcome, its command, and its fault"""
    command = [[f"scripts/{name}.py", *arguments]]
    try:
        status, said = script(name)(arguments)
    except Exception as error:  # pylint: disable=broad-exception-caught
        where = traceback.extract_tb(error.__traceback__)[-1]
        sign = f"{name}.py: {type(error).__name__} at {os.path.basename(where.filename)}:{where.name}"
        return "traceback", command, Failure(sign, traceback.format_exc())
    if status == 0:
        return "status 0", command, None
    wrong = line_of(said.encode("utf-8", "backslashreplace"), status) or ("status" if status not in (1, 2) else None)
    return f"status {status}", command, Failure(f"{name}.py: status {status}: {wrong}", said) if wrong else None


if sys.stdin is None:  # argparse and others expect one
    sys.stdin = io.StringIO()
