"""A small sweep and its reports, for tests of reports."""

import contextlib
import pathlib
import sqlite3
import subprocess

import pytest

from platform_runs import BIN, ROOT, tiny
from scripts_inside import call

pytest.importorskip("yaml")

# Eight points; tp 3 fails, because it does not divide the model's heads.
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


MODEL = f"model: {{config: {ROOT}/tests/models/tiny.json}}"
PAIR = "machine: {groups: {node: {servers: 1, gpu: L40S}}}"
KINDS = {  # a scenario and a sweep of it, for each kind without a front of its own
    "collective": (
        "workload: {kind: collective, op: all_reduce, ranks: 4, sizes_bytes: [1024, 65536, 4194304]}",
        "{workload.op: [all_reduce, all_gather], workload.algorithm: [ring, auto], workload.ranks: [2, 4]}",
    ),
    "p2p": (
        f"{PAIR}\nworkload: {{kind: p2p, test: matrix, ranks: 3, copy_bytes: 1000000}}",
        "{workload.engine: [copy_engine, sm], workload.copy_bytes: [65536, 1000000]}",
    ),
    "kernel": (
        f"{PAIR}\nworkload: {{kind: kernel, kernels: [{{op: gemm, m: [64, 512, 4096], n: 4096, k: 4096, dtype: [bf16, fp8]}}]}}",
        "{machine.overrides.gpu.sm.clock_mhz: {values: [1245, 2490], name: clock_mhz}, workload.kernels.0.k: [2048, 8192]}",
    ),
    "layer": (
        f"{MODEL}\nworkload: {{kind: layer, phase: prefill, tokens: 512}}",
        "{workload.tp: [1, 2, 4], workload.tokens: [128, 1024]}",
    ),
    "overlap": (
        "workload: {kind: overlap, op: all_gather_gemm, ranks: 4, gemm: {m: 1024, n: 2048, k: 1024}}",
        "{workload.op: [all_gather_gemm, gemm_reduce_scatter], workload.gemm.m: [512, 1024, 2048]}",
    ),
}


def run_sweep(folder, status=0):
    """Runs sweep.yaml there. @return the sweep's directory"""
    command = [str(ROOT / "scripts" / "sweep.py"), str(folder / "sweep.yaml"), "--out", str(folder / "out"), "--bin", str(BIN)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == status, done.stderr
    return folder / "out"


def small_sweep(folder):
    """Some of its points fail. @return its directory"""
    tiny(folder)
    (folder / "sweep.yaml").write_text(SWEEP)
    return run_sweep(folder, 1)


def kind_sweep(folder, kind, axes=None):
    """A sweep of this kind. @return its directory"""
    scenario, own_axes = KINDS[kind]
    folder.mkdir()
    (folder / "scenario.yaml").write_text(f"platform: {'plx_box' if kind in ('p2p', 'kernel') else 'dgx_h100'}\n{scenario}\n")
    (folder / "sweep.yaml").write_text(f"scenario: scenario.yaml\naxes: {axes or own_axes}\n")
    return run_sweep(folder)


def report(directory, *arguments):
    """@return the page"""
    done = call("report", directory, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return pathlib.Path(done.stdout.strip())


def database(sweep):
    """The table `runs`, a dictionary a row."""
    with contextlib.closing(sqlite3.connect(sweep / "results.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute("SELECT * FROM runs ORDER BY position")]
