"""A small sweep, and reports of it, for the tests that look at them."""

import contextlib
import pathlib
import sqlite3
import subprocess
import sys

import pytest

from platform_runs import BIN, ROOT, tiny

SCRIPT = ROOT / "scripts" / "report.py"
sys.path.insert(0, str(ROOT / "scripts"))
pytest.importorskip("yaml")

# Eight points; tp 3 fails, since it does not divide the model's heads.
SWEEP = """\
scenario: tiny.yaml
set: {platform: plx_box}
axes:
  workload.requests.prompt_tokens: {values: [1024, 256], name: prompt}
  workload.prefill.tp: [1, 2, 3, 4]
  workload.prefill.pp: [1, 2]
where: tp * pp <= 4 and tp * pp != 2
objective: {minimise: ttft_s / prompt}
"""


def small_sweep(folder):
    """Runs it. @return its directory"""
    tiny(folder)
    (folder / "sweep.yaml").write_text(SWEEP)
    command = [str(ROOT / "scripts" / "sweep.py"), str(folder / "sweep.yaml"), "--out", str(folder / "out"), "--bin", str(BIN)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1, done.stderr  # some failed
    return folder / "out"


def report(directory, *arguments):
    """@return the page"""
    done = subprocess.run(
        [str(SCRIPT), str(directory), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return pathlib.Path(done.stdout.strip())


def database(sweep):
    """The table `runs`, a dictionary a row."""
    with contextlib.closing(sqlite3.connect(sweep / "results.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM runs ORDER BY position")]
