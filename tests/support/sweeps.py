"""Sweeps of a stand-in platform, for the tests that run them."""

import contextlib
import pathlib
import sqlite3
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "sweep.py"
sys.path.insert(0, str(ROOT / "scripts"))
pytest.importorskip("yaml")

# ttft_s is 1 / tp + pp / 10; the scenario's `refuse: N` refuses tp N; it takes pause_s, and notes every run in `log`.
EXECUTABLE = """#!/usr/bin/python3 -S
import json, os, sys, time
if sys.argv[1] == "--schema":
    leaf = {}
    print(json.dumps({"properties": {"platform": leaf, "seed": leaf, "refuse": leaf, "pause_s": leaf, "log": leaf,
        "model": {"properties": {"config": leaf}}, "workload": {"oneOf": [{"properties": {"tp": leaf, "pp": leaf}}, {"properties": {"op": leaf}}]}}}))
    sys.exit()
values = dict(line.split(": ", 1) for line in open(sys.argv[1]).read().splitlines() if ": " in line)
values.update(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
tp, pp = float(values.get("workload.tp", 1)), float(values.get("workload.pp", 1))
if "log" in values:
    with open(values["log"], "a") as log:
        print(" ".join(sys.argv[1:]), file=log)
time.sleep(float(values.get("pause_s", 0)))
if float(values.get("refuse", 0)) == tp:
    sys.exit(print(f"{os.path.abspath('scenario.yaml')}:1:1: error: no room for tp {tp:g}", file=sys.stderr) or 2)
out = sys.argv[sys.argv.index("--out") + 1]
os.mkdir(out)
summary = {"kind": "stand_in", "platform": os.path.basename(sys.argv[0]), "model": "none", "seed": int(values.get("seed", 1)),
           "metrics": {"ttft_s": 1 / tp + pp / 10, "requests": 1, "exposed_s": {"tp": tp * 1e-3}},
           "simulator": {"wall_s": 0.05, "interrupted": False}}
with open(os.path.join(out, "summary.json"), "w") as file:
    json.dump(summary, file)
"""

SWEEP = """\
scenario: base.yaml
axes:
  workload.tp: [1, 2, 4, 8]
  workload.pp: {from: 1, to: 8, factor: 2}
where: tp * pp <= 8
objective: {minimise: ttft_s}
"""


class Folder:
    """A folder with a stand-in executable `box`, a base scenario and a sweep of ten points."""

    def __init__(self, path):
        self.path = path
        self.bin = path / "bin"
        self.bin.mkdir()
        self.box = self.executable("box")
        self.log = path / "log"
        self.base()
        self.sweep(SWEEP)

    def executable(self, name):
        path = self.bin / name
        path.write_text(EXECUTABLE)
        path.chmod(stat.S_IRWXU)
        return path

    def base(self, **keys):
        lines = [f"{key}: {value}" for key, value in ({"platform": "box", "log": self.log} | keys).items()]
        (self.path / "base.yaml").write_text("\n".join(lines) + "\n")

    def sweep(self, text):
        (self.path / "sweep.yaml").write_text(text)

    def command(self, *arguments, out="out"):
        return [str(SCRIPT), str(self.path / "sweep.yaml"), "--out", str(self.path / out), "--bin", str(self.bin), *map(str, arguments)]

    def run(self, *arguments, out="out"):
        return subprocess.run(self.command(*arguments, out=out), capture_output=True, text=True, check=False, timeout=120)

    def runs(self):
        """Number of runs of the executable."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def rows(self, columns="*", out="out"):
        with contextlib.closing(sqlite3.connect(self.path / out / "results.sqlite")) as database:
            return database.execute(f"SELECT {columns} FROM runs ORDER BY position").fetchall()


def contents(database):
    """All parts of a database that must be repeatable."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        tables = {name: connection.execute(f"SELECT * FROM {name}") for name in ("meta", "runs")}
        return {name: ([column[0] for column in cursor.description], cursor.fetchall()) for name, cursor in tables.items()}


@pytest.fixture(name="folder")
def fixture_folder(tmp_path):
    return Folder(tmp_path)
